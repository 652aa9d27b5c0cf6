"""The columns of well-known public files: names and types alone, with made-up values in their ranges.

A line for each file: its name, where it is from, the column that its users explain, the family of the regression, and its columns. A column is
NAME:TYPE. The types: `id` numbers the rows, `text` differs in each row, `date` is a day, `int A B` and `num A B` lie between two numbers,
`count M` has the mean M and more variance than a Poisson count, `few A B` are the whole numbers between two, `01 P` is 1 with a
probability, and `a|b|c` is one of these texts. `pareto N` is one of N places, most rows in few of them, and `=SQL` is made of the columns
before it. A name that begins with `_` is of no column of the file.
"""

# ruff: noqa: E501

import zlib
from collections.abc import Iterator

import numpy as np
import polars as pl

NAMED = """
insurance | kaggle.com/datasets/mirichoi0218/insurance | charges | gaussian | age:int 18 64; sex:female|male; bmi:num 16 53; children:few 0 5; smoker:yes|no; region:ne|nw|se|sw; charges:num 1100 63000
tips | github.com/mwaskom/seaborn-data | tip | gaussian | total_bill:num 3 50; tip:num 1 10; sex:Female|Male; smoker:No|Yes; day:Sun|Sat|Thur|Fri; time:Dinner|Lunch; size:few 1 6
bank churners | kaggle.com/datasets/sakshigoyal7/credit-card-customers | Attrition_Flag | binomial | CLIENTNUM:key; Attrition_Flag:Existing Customer|Attrited Customer; Customer_Age:int 26 73; Gender:M|F; Dependent_count:few 0 5; Education_Level:Graduate|High School|College; Income_Category:low|mid|high; Months_on_book:int 13 56; Credit_Limit:num 1400 34000; Total_Trans_Amt:int 500 18000; Total_Trans_Ct:int 10 139; Avg_Utilization_Ratio:num 0 1; Naive_Bayes_Classifier_Attrition_Flag_12_mon_1:num 0 1; Naive_Bayes_Classifier_Attrition_Flag_12_mon_2:num 0 1
randhie | statsmodels.org | mdvis | negative_binomial | mdvis:count 2.9; lncoins:num 0 4.6; idp:01 0.26; lpi:num 0 7; fmde:num 0 8; physlm:num 0 1; disea:int 0 58; hlthg:set 1; hlthf:set 2; hlthp:set 3
titanic | github.com/mwaskom/seaborn-data | survived | binomial | survived:01 0.38; pclass:few 1 3; sex:male|female; age:int 1 80; sibsp:few 0 5; parch:few 0 5; fare:num 0 512; embarked:S|C|Q; class:Third|First|Second; who:man|woman|child; adult_male:True|False; alive:no|yes; alone:True|False
taxis | github.com/mwaskom/seaborn-data | fare or tip | gaussian | pickup:date; dropoff:date; passengers:few 0 6; distance:num 0 37; fare:num 1 150; tip:num 0 33; tolls:num 0 24; total:num 1 174; color:yellow|green; payment:credit card|cash; pickup_borough:Manhattan|Queens|Bronx
penguins | allisonhorst.github.io/palmerpenguins | body_mass_g | gaussian | species:Adelie|Gentoo|Chinstrap; island:Biscoe|Dream|Torgersen; bill_length_mm:num 32 60; bill_depth_mm:num 13 22; flipper_length_mm:int 172 231; body_mass_g:int 2700 6300; sex:male|female; year:few 2007 2009
gapminder | github.com/jennybc/gapminder | lifeExp | gaussian | country:unit 12; continent:Africa|Asia|Europe; year:few 1952 1963; lifeExp:num 23 83; pop:int 60000 130000000; gdpPercap:num 241 113000
"""
"""Those that the choice was made for."""

FURTHER = """
diamonds | ggplot2.tidyverse.org | price | gaussian | carat:num 0.2 5; cut:Ideal|Premium|Good; color:D|E|F; clarity:SI1|VS2|IF; depth:num 43 79; table:num 43 95; price:int 326 18823; x:num 0 10; y:num 0 58; z:num 0 31
mtcars | R datasets | mpg | gaussian | mpg:num 10 34; cyl:few 4 8; disp:num 71 472; hp:int 52 335; drat:num 2.7 5; wt:num 1.5 5.5; qsec:num 14 23; vs:01 0.44; am:01 0.41; gear:few 3 5; carb:few 1 8
boston | lib.stat.cmu.edu/datasets/boston | medv | gaussian | crim:num 0 89; zn:num 0 100; indus:num 0 28; chas:01 0.07; nox:num 0.4 0.9; rm:num 3.5 8.8; age:num 3 100; dis:num 1 12; rad:few 1 9; tax:int 187 711; ptratio:num 12 22; lstat:num 2 38; medv:num 5 50
california housing | kaggle.com/datasets/camnugent/california-housing-prices | median_house_value | gaussian | longitude:num -124 -114; latitude:num 32 42; housing_median_age:int 1 52; total_rooms:int 2 39000; total_bedrooms:int 1 6400; population:int 3 35000; households:int 1 6000; median_income:num 0.5 15; median_house_value:int 15000 500000; ocean_proximity:INLAND|NEAR BAY|ISLAND
wine quality | archive.ics.uci.edu/dataset/186 | quality | gaussian | fixed_acidity:num 4 16; volatile_acidity:num 0.1 1.6; citric_acid:num 0 1; residual_sugar:num 0.9 15; chlorides:num 0 0.6; density:num 0.98 1.01; pH:num 2.7 4; sulphates:num 0.3 2; alcohol:num 8 15; quality:few 3 8
adult | archive.ics.uci.edu/dataset/2 | income | binomial | age:int 17 90; workclass:Private|Gov|Self; fnlwgt:int 12000 1480000; education:HS|BA|MA; education_num:few 1 16; marital_status:Married|Single; occupation:Sales|Tech|Craft; relationship:Husband|Wife|Own; race:White|Black|Other; sex:Male|Female; capital_gain:int 0 99999; capital_loss:int 0 4356; hours_per_week:int 1 99; native_country:US|MX|PH; income:<=50K|>50K
telco churn | kaggle.com/datasets/blastchar/telco-customer-churn | Churn | binomial | customerID:text; gender:Female|Male; SeniorCitizen:01 0.16; Partner:Yes|No; Dependents:No|Yes; tenure:int 0 72; PhoneService:No|Yes; InternetService:DSL|Fiber|No; Contract:Month|One year|Two year; PaperlessBilling:Yes|No; MonthlyCharges:num 18 119; TotalCharges:num 18 8700; Churn:No|Yes
pima diabetes | kaggle.com/datasets/uciml/pima-indians-diabetes-database | Outcome | binomial | Pregnancies:count 3.8; Glucose:int 0 199; BloodPressure:int 0 122; SkinThickness:int 0 99; Insulin:int 0 846; BMI:num 0 67; DiabetesPedigreeFunction:num 0.07 2.4; Age:int 21 81; Outcome:01 0.35
heart disease | archive.ics.uci.edu/dataset/45 | target | binomial | age:int 29 77; sex:01 0.68; cp:few 0 3; trestbps:int 94 200; chol:int 126 564; fbs:01 0.15; restecg:few 0 2; thalach:int 71 202; exang:01 0.33; oldpeak:num 0 6; slope:few 0 2; ca:few 0 4; thal:few 0 3; target:01 0.54
heart failure | archive.ics.uci.edu/dataset/519 | DEATH_EVENT | binomial | age:int 40 95; anaemia:01 0.43; creatinine_phosphokinase:int 23 7861; diabetes:01 0.42; ejection_fraction:int 14 80; high_blood_pressure:01 0.35; platelets:num 25100 850000; serum_creatinine:num 0.5 9; serum_sodium:int 113 148; sex:01 0.65; smoking:01 0.32; time:int 4 285; DEATH_EVENT:01 0.32
stroke | kaggle.com/datasets/fedesoriano/stroke-prediction-dataset | stroke | binomial | id:key; gender:Male|Female; age:int 1 82; hypertension:01 0.1; heart_disease:01 0.06; ever_married:Yes|No; work_type:Private|Self|Govt; Residence_type:Urban|Rural; avg_glucose_level:num 55 271; bmi:num 10 97; smoking_status:never|formerly|smokes; stroke:01 0.06
credit default | archive.ics.uci.edu/dataset/350 | default_payment_next_month | binomial | ID:id; LIMIT_BAL:int 10000 1000000; SEX:few 1 2; EDUCATION:few 1 4; MARRIAGE:few 1 3; AGE:int 21 79; PAY_0:few -2 8; BILL_AMT1:int 0 964511; PAY_AMT1:int 0 873552; default_payment_next_month:01 0.22
german credit | archive.ics.uci.edu/dataset/144 | credit_risk | binomial | status:a|b|c; duration:int 4 72; credit_history:x|y|z; purpose:car|tv|other; amount:int 250 18424; savings:a|b|c; installment_rate:few 1 4; age:int 19 75; number_credits:few 1 4; people_liable:few 1 2; telephone:yes|no; foreign_worker:yes|no; credit_risk:good|bad
bank marketing | archive.ics.uci.edu/dataset/222 | y | binomial | age:int 18 95; job:admin|tech|services; marital:married|single; default:no|yes; balance:int -8000 102000; housing:yes|no; loan:no|yes; contact:cellular|unknown; day:int 1 31; month:may|jun|jul; duration:int 0 4918; campaign:count 2.7; pdays:int -1 871; previous:count 0.6; poutcome:unknown|failure|success; y:no|yes
bike sharing | archive.ics.uci.edu/dataset/275 | cnt | negative_binomial | instant:id; dteday:date; season:few 1 4; yr:01 0.5; mnth:few 1 12; hr:int 0 23; holiday:01 0.05; weekday:few 0 6; workingday:01 0.68; weathersit:few 1 3; temp:num 0 1; hum:num 0 1; windspeed:num 0 1; casual:int 0 367; registered:int 0 886; cnt:int 1 977
student performance | archive.ics.uci.edu/dataset/320 | G3 | gaussian | school:GP|MS; sex:F|M; age:few 15 22; address:U|R; famsize:GT3|LE3; Medu:few 0 4; studytime:few 1 4; failures:few 0 3; internet:yes|no; absences:count 5.7; G1:int 3 19; G2:int 0 19; G3:int 0 20
abalone | archive.ics.uci.edu/dataset/1 | Rings | gaussian | Sex:M|F|I; Length:num 0.07 0.8; Diameter:num 0.05 0.65; Height:num 0 1.1; Whole_weight:num 0 2.8; Shucked_weight:num 0 1.5; Shell_weight:num 0 1; Rings:int 1 29
concrete | archive.ics.uci.edu/dataset/165 | strength | gaussian | cement:num 102 540; slag:num 0 359; ash:num 0 200; water:num 121 247; superplastic:num 0 32; coarseagg:num 801 1145; fineagg:num 594 993; age:int 1 365; strength:num 2 83
auto mpg | archive.ics.uci.edu/dataset/9 | mpg | gaussian | mpg:num 9 47; cylinders:few 3 8; displacement:num 68 455; horsepower:int 46 230; weight:int 1613 5140; acceleration:num 8 25; model_year:few 70 82; origin:usa|japan|europe; name:text
hr attrition | kaggle.com/datasets/pavansubhasht/ibm-hr-analytics-attrition-dataset | Attrition | binomial | Age:int 18 60; Attrition:No|Yes; BusinessTravel:Rarely|Often|No; DailyRate:int 102 1499; Department:Sales|RD|HR; DistanceFromHome:int 1 29; Education:few 1 5; EmployeeNumber:id; Gender:Male|Female; MonthlyIncome:int 1009 19999; OverTime:No|Yes; TotalWorkingYears:int 0 40; YearsWithCurrManager:int 0 17
credit card fraud | kaggle.com/datasets/mlg-ulb/creditcardfraud | Class | binomial | Time:int 0 172792; V1:num -56 2; V2:num -72 22; V3:num -48 9; V4:num -5 16; Amount:num 0 25691; Class:01 0.05
churn modelling | kaggle.com/datasets/shrutimechlearn/churn-modelling | Exited | binomial | RowNumber:id; CustomerId:key; Surname:text; CreditScore:int 350 850; Geography:France|Spain|Germany; Gender:Female|Male; Age:int 18 92; Tenure:few 0 10; Balance:num 0 250000; NumOfProducts:few 1 4; HasCrCard:01 0.7; IsActiveMember:01 0.5; EstimatedSalary:num 11 199992; Exited:01 0.2
hotel bookings | kaggle.com/datasets/jessemostipak/hotel-booking-demand | is_canceled | binomial | hotel:City|Resort; is_canceled:01 0.37; lead_time:int 0 737; arrival_date_year:few 2015 2017; stays_in_week_nights:few 0 9; adults:few 1 4; meal:BB|HB|SC; country:PRT|GBR|FRA; is_repeated_guest:01 0.05; previous_cancellations:count 0.2; adr:num 0 510; required_car_parking_spaces:few 0 3; reservation_status:Check-Out|Canceled|No-Show; reservation_status_date:date
french motor | OpenML 41214, freMTPL2freq | ClaimNb | poisson | IDpol:key; ClaimNb:poisson 0.1; Exposure:num 0 1; Area:A|B|C; VehPower:few 4 12; VehAge:int 0 40; DrivAge:int 18 99; BonusMalus:int 50 230; VehBrand:B1|B2|B12; VehGas:Diesel|Regular; Density:int 1 27000; Region:R11|R24|R82
crab satellites | Agresti, R package glmbb | satell | negative_binomial | color:few 1 4; spine:few 1 3; width:num 21 34; satell:count 2.9; weight:num 1.2 5.2
affairs | R package AER | affairs | negative_binomial | affairs:count 1.5; gender:male|female; age:num 17 57; yearsmarried:num 0.1 15; children:no|yes; religiousness:few 1 5; education:few 9 20; occupation:few 1 7; rating:few 1 5
medical visits | R package AER, NMES1988 | visits | negative_binomial | visits:count 5.8; nvisits:count 1.6; ovisits:count 0.8; emergency:count 0.3; hospital:count 0.3; health:average|poor|excellent; chronic:few 0 8; age:num 6.6 10.9; gender:female|male; married:yes|no; school:few 0 18; income:num -1 55; employed:no|yes; insurance:yes|no; medicaid:no|yes
loan approval | kaggle.com/datasets/altruistdelhite04/loan-prediction-problem-dataset | Loan_Status | binomial | Loan_ID:text; Gender:Male|Female; Married:Yes|No; Dependents:0|1|2|3+; Education:Graduate|Not Graduate; Self_Employed:No|Yes; ApplicantIncome:int 150 81000; CoapplicantIncome:int 0 41667; LoanAmount:int 9 700; Loan_Amount_Term:few 1 9; Credit_History:01 0.84; Property_Area:Urban|Rural; Loan_Status:Y|N
breast cancer | archive.ics.uci.edu/dataset/17 | diagnosis | binomial | id:key; diagnosis:B|M; radius_mean:num 7 28; texture_mean:num 10 39; perimeter_mean:num 44 188; smoothness_mean:num 0.05 0.16; area_worst:num 185 4254; symmetry_worst:num 0.16 0.66; fractal_dimension_worst:num 0.06 0.2
house prices | kaggle.com/c/house-prices-advanced-regression-techniques | SalePrice | gaussian | Id:id; MSSubClass:few 20 30; MSZoning:RL|RM|FV; LotArea:int 1300 215245; Street:Pave|Grvl; OverallQual:few 1 10; YearBuilt:int 1872 2010; CentralAir:Y|N; GrLivArea:int 334 5642; GarageCars:few 0 4; MoSold:few 1 12; YrSold:few 2006 2010; SaleCondition:Normal|Partial; SalePrice:int 34900 755000
house sales | kaggle.com/datasets/harlfoxem/housesalesprediction | price | gaussian | id:key; date:date; price:num 75000 7700000; bedrooms:few 0 9; bathrooms:num 0 8; sqft_living:int 290 13540; waterfront:01 0.05; condition:few 1 5; grade:few 1 13; yr_built:int 1900 2015; zipcode:int 98001 98199; lat:num 47 48; long:num -123 -121; sqft_lot15:int 651 871200
advertising | statlearning.com | sales | gaussian | TV:num 0 296; radio:num 0 50; newspaper:num 0 114; sales:num 1 27
airbnb | kaggle.com/datasets/dgomonov/new-york-city-airbnb-open-data | price | gaussian | id:key; name:text; host_id:int 2000 274000000; host_name:text; neighbourhood_group:Manhattan|Brooklyn|Queens; latitude:num 40 41; longitude:num -74 -73; room_type:Entire|Private|Shared; price:int 0 10000; minimum_nights:int 1 1250; number_of_reviews:count 23; reviews_per_month:num 0 58; calculated_host_listings_count:int 1 327; availability_365:int 0 365
sleep | github.com/vincentarelbundock/Rdatasets, lme4 sleepstudy | Reaction | gaussian | Reaction:num 194 466; Days:few 0 9; Subject:unit 18
wages | R package AER, PSID | wage | gaussian | experience:int 1 51; weeks:int 5 52; occupation:white|blue; industry:no|yes; south:no|yes; smsa:yes|no; married:yes|no; gender:male|female; union:no|yes; education:few 4 17; ethnicity:other|afam; wage:int 100 5100
low birth weight | R package MASS, birthwt | low | binomial | low:01 0.31; age:int 14 45; lwt:int 80 250; race:few 1 3; smoke:01 0.39; ptl:few 0 3; ht:01 0.06; ui:01 0.15; ftv:few 0 6; bwt:int 709 4990
"""
"""Those that were collected afterwards, before their choice was seen; then the names were revised for them."""

HELD_OUT = """
warpbreaks | R | breaks | negative_binomial | breaks:int 10 70; wool:A|B; tension:L|M|H
toothgrowth | R | len | gaussian | len:num 4 34; supp:VC|OJ; dose:num 0.5 2
chickweight | R | weight | gaussian | weight:int 35 373; Time:int 0 21; Chick:unit 12; Diet:few 1 4
airquality | R | Ozone | gaussian | Ozone:int 1 168; Solar_R:int 7 334; Wind:num 1 21; Temp:int 56 97; Month:few 5 9; Day:int 1 31
mroz | R carData | lfp | binomial | lfp:yes|no; k5:few 0 3; k618:few 0 8; age:int 30 60; wc:yes|no; hc:yes|no; lwg:num -2 3; inc:num 0 96
fish | UCLA | count | poisson | nofish:01 0.3; livebait:01 0.86; camper:01 0.59; persons:few 1 4; child:few 0 3; xb:num -3 5; zg:num -5 4; count:count 3.3
admissions | UCLA | admit | binomial | admit:01 0.32; gre:int 220 800; gpa:num 2.2 4; rank:few 1 4
awards | UCLA | num_awards | poisson | id:id; num_awards:count 0.6; prog:few 1 3; math:int 33 75
spam | UCI | spam | binomial | word_make:num 0 4; word_free:num 0 20; capital_ave:num 1 1100; capital_total:int 1 15841; spam:01 0.39
energy | UCI 242 | Y2 or Y1 | gaussian | X1:num 0.6 1; X2:num 514 808; X3:num 245 416; X5:num 3.5 7; X7:num 0 0.4; Y1:num 6 43; Y2:num 10 48
used cars | kaggle vehicle dataset | selling_price | gaussian | name:a|b|c; year:int 1992 2020; selling_price:int 20000 8900000; km_driven:int 1 806599; fuel:Diesel|Petrol; seller_type:Individual|Dealer; transmission:Manual|Automatic; owner:First|Second|Third
lending club | kaggle | loan_status | binomial | loan_amnt:int 500 40000; term:36|60; int_rate:num 5 31; grade:A|B|C; emp_length:few 0 10; annual_inc:num 4000 1000000; loan_status:Fully Paid|Charged Off; dti:num 0 60; pub_rec:few 0 3; total_acc:int 2 150
water potability | kaggle | Potability | binomial | ph:num 0 14; Hardness:num 47 323; Solids:num 320 61227; Turbidity:num 1 7; Potability:01 0.39
framingham | kaggle | TenYearCHD | binomial | male:01 0.43; age:int 32 70; education:few 1 4; currentSmoker:01 0.49; cigsPerDay:int 0 70; totChol:int 107 696; glucose:int 40 394; TenYearCHD:01 0.15
salary | kaggle | Salary | gaussian | YearsExperience:num 1 11; Salary:int 37000 122000
"""
"""Those that no name was revised for."""

CLASSES_AND_RATES = """
iris | seaborn | species | multinomial | sepal_length:num 4.3 7.9; sepal_width:num 2 4.4; petal_length:num 1 6.9; petal_width:num 0.1 2.5; species:setosa|versicolor|virginica
dry beans | UCI 602 | Class | multinomial | Area:int 20000 254000; Perimeter:num 524 1985; Eccentricity:num 0.2 0.9; Solidity:num 0.9 1; Class:SEKER|BARBUNYA|BOMBAY|CALI|HOROZ|SIRA|DERMASON
car evaluation | UCI 19 | class | multinomial | buying:vhigh|high|med|low; maint:vhigh|high|med|low; doors:2|3|4|5more; persons:2|4|more; lug_boot:small|med|big; safety:low|med|high; class:unacc|acc|good|vgood
student dropout | UCI 697 | Target | multinomial | Marital_status:few 1 6; Application_order:few 0 9; Debtor:01 0.1; Gender:01 0.35; Scholarship_holder:01 0.25; Age_at_enrollment:int 17 70; GDP:num -4 4; Target:Dropout|Enrolled|Graduate
maternal health | UCI 863 | RiskLevel | multinomial | Age:int 10 70; SystolicBP:int 70 160; DiastolicBP:int 49 100; BS:num 6 19; BodyTemp:num 98 103; HeartRate:int 60 90; RiskLevel:high risk|mid risk|low risk
obesity | UCI 544 | NObeyesdad | multinomial | Gender:Female|Male; Age:num 14 61; Height:num 1.4 2; Weight:num 39 173; FAVC:yes|no; NCP:num 1 4; SMOKE:yes|no; MTRANS:Bus|Car|Walk; NObeyesdad:Thin|Normal|Over1|Over2|Obese1|Obese2|Obese3
drugs | kaggle prathamtripathi/drug-classification | Drug | multinomial | Age:int 15 74; Sex:F|M; BP:HIGH|NORMAL|LOW; Cholesterol:HIGH|NORMAL; Na_to_K:num 6 38; Drug:drugA|drugB|drugC|drugX|DrugY
nursing homes | R MASS Insurance | Claims | negative_binomial | District:few 1 4; Group:small|mid|big|huge; Age:young|mid|old; Holders:int 3 3582; Claims:int 0 400
doctors | R boot, smoking and deaths | deaths | negative_binomial | age:a|b|c|d|e; smoke:yes|no; person_years:int 1000 52000; deaths:int 2 206
ships | R MASS | incidents | negative_binomial | type:A|B|C|D|E; year:few 60 75; period:few 60 75; service:int 45 44882; incidents:int 0 58
lung cancer | R ISwR eba1977 | cases | negative_binomial | city:Fredericia|Horsens|Kolding|Vejle; age:a|b|c|d|e|f; pop:int 509 3142; cases:int 2 15
"""
"""Responses of several classes and counts with an exposure; collected before their choice was seen, and no name was revised since."""

PUBLIC = r"""
hr turnover | left |  | satisfaction_level | satisfaction_level:num 0.1 1; last_evaluation:num 0.4 1; number_project:few 2 7; average_montly_hours:int 96 310; time_spend_company:few 2 10; Work_accident:01 0.14; _u:num 0 1; left:=CAST(_u + satisfaction_level < 0.75 AS INT); promotion_last_5years:01 0.05; sales:sales|technical|support|IT|hr; salary:low|medium|high
credit risk | loan_status |  | person_income | person_age:int 20 60; person_income:int 4000 200000; person_home_ownership:RENT|OWN|MORTGAGE; person_emp_length:few 0 12; loan_intent:EDUCATION|MEDICAL|VENTURE; loan_grade:A|B|C|D; loan_amnt:int 500 35000; loan_int_rate:num 5 23; _u:num 0 1; loan_status:=CAST(_u < 0.5 - person_income / 500000 AS INT); loan_percent_income:=ROUND(loan_amnt * 1.0 / person_income, 2); cb_person_default_on_file:Y|N; cb_person_cred_hist_length:int 2 30
game a/b test | retention_1 or retention_7 or sum_gamerounds | retention_1 retention_7 sum_gamerounds | version | userid:key; version:gate_30|gate_40; sum_gamerounds:count 50; _u:num 0 1; retention_1:=CASE WHEN _u + sum_gamerounds / 200 > 0.6 THEN 'True' ELSE 'False' END; _v:num 0 1; retention_7:=CASE WHEN _v + sum_gamerounds / 200 > 0.8 THEN 'True' ELSE 'False' END
page a/b test | converted |  | group_column | user_id:key; timestamp:date; group:control|treatment; landing_page:=CASE WHEN "group" = 'control' THEN 'old_page' ELSE 'new_page' END; converted:01 0.12
bengaluru | price |  | total_sqft bath size | area_type:Built-up|Super|Plot; location:pareto 90; size:2 BHK|3 BHK|4 Bedroom|1 BHK; society:text; _s:int 500 3000; _k:int 0 99; total_sqft:=CASE WHEN _k < 3 THEN CAST(_s AS VARCHAR) || ' - ' || CAST(_s + 700 AS VARCHAR) WHEN _k = 5 THEN CAST(_s AS VARCHAR) || 'Sq. Meter' ELSE CAST(_s AS VARCHAR) END; bath:few 1 6; balcony:few 0 3; _u:num 0 1; price:=ROUND(_s * 0.05 + 40 * _u, 1)
football players | Value or Wage or Overall | Release_Clause | Age | ID:key; Name:text; Age:int 16 44; Nationality:pareto 80; Overall:int 46 94; Potential:int 48 95; Club:pareto 60; _v:num 0 1; Value:=CASE WHEN _v < 0.4 THEN '€' || CAST(CAST(_v * 1000 AS INT) AS VARCHAR) || 'K' ELSE '€' || CAST(ROUND(_v * 40, 1) AS VARCHAR) || 'M' END; _w:int 1 300; Wage:='€' || CAST(_w AS VARCHAR) || 'K'; Preferred Foot:Left|Right; _f:few 5 6; _i:few 0 11; Height:=CAST(_f AS VARCHAR) || '''' || CAST(_i AS VARCHAR); _p:int 110 240; Weight:=CAST(_p AS VARCHAR) || 'lbs'; Release Clause:=CASE WHEN _v < 0.4 THEN '€' || CAST(CAST(_v * 2000 AS INT) AS VARCHAR) || 'K' ELSE '€' || CAST(ROUND(_v * 80, 1) AS VARCHAR) || 'M' END
play store | Rating or Reviews or Installs or Price |  | Size | App:text; Category:pareto 33; Rating:num 1 5; Reviews:count 300; _s:int 1 99; _k:few 0 9; Size:=CASE WHEN _k = 0 THEN 'Varies with device' WHEN _k < 3 THEN CAST(_s AS VARCHAR) || 'k' ELSE CAST(_s AS VARCHAR) || 'M' END; Installs:1,000+|10,000+|100,000+|500+|1,000,000+|5,000+|50+|100+|10+|5+|50,000+|500,000+|5,000,000+; Type:Free|Paid; Price:0|$4.99|$2.99|$0.99; Content Rating:Everyone|Teen; Genres:pareto 60; Last Updated:date; Current Ver:1.0|1.1|2.0.1; Android Ver:4.0 and up|4.1 and up
air sensors | CO_GT or C6H6_GT or NOx_GT or NO2_GT |  |  | Date:date; _h:few 0 23; Time:=CAST(_h AS VARCHAR) || '.00.00'; _c:num 0 11; _k:few 0 9; CO(GT):=CASE WHEN _k = 0 THEN '-200' ELSE REPLACE(CAST(_c AS VARCHAR), '.', ',') END; PT08.S1(CO):int 647 2040; _b:num 0 63; C6H6(GT):=REPLACE(CAST(_b AS VARCHAR), '.', ','); _n:int 2 1479; NOx(GT):=CASE WHEN _k = 1 THEN -200 ELSE _n END; _m:int 2 340; NO2(GT):=CASE WHEN _k = 1 THEN -200 ELSE _m END; _t:num 0 44; T:=REPLACE(CAST(_t AS VARCHAR), '.', ','); RH:int 9 88; sep
air index | AQI or AQI_Bucket or PM2_5 | AQI_Bucket AQI | PM10 | City:Delhi|Mumbai|Chennai|Kochi; Datetime:date; PM2.5:num 0 950; PM10:num 0 1000; NO2:num 0 362; CO:num 0 176; SO2:num 0 194; O3:num 0 258; AQI:=CAST(PM10 * 0.3 + 40 + NO2 * 0.2 AS INT); AQI_Bucket:=CASE WHEN AQI < 150 THEN 'Good' WHEN AQI < 250 THEN 'Moderate' ELSE 'Poor' END
airlines delay | Delay |  |  | id:id; Airline:WN|DL|OO|AA; Flight:int 1 7814; AirportFrom:pareto 90; AirportTo:pareto 90; DayOfWeek:few 1 7; Time:int 10 1439; Length:int 30 655; _u:num 0 1; Delay:=CAST(_u + Time / 3000 > 0.6 AS INT)
departures | late or delay_minutes | actual_departure delay_minutes late | wind_speed | airline:AA|UA|DL; flight_number:int 1 2600; origin:JFK|LGA|EWR; destination:pareto 30; _h:few 6 21; _m:few 0 5; scheduled_departure:=_h * 100 + _m * 10; _d:count 12; delay_minutes:=_d; actual_departure:=(_h + (_m * 10 + _d) / 60) * 100 + MOD(_m * 10 + _d, 60); temperature:num -10 35; wind_speed:num 0 30; visibility:num 0 10; late:=CAST(_d > 15 AS INT)
pima without names | V9 |  | V2 | a:count 3.8; b:int 44 199; c:int 24 122; d:int 7 99; e:int 14 846; f:num 18 67; g:num 0.07 2.4; h:int 21 81; _u:num 0 1; i:=CAST(_u + b / 400 > 0.8 AS INT); bare
adult without names | V8 |  | V1 | a:int 17 90; b:Private|Gov|Self; c:int 12000 1480000; d:HS|BA|MA; e:few 1 16; f:Married|Single; g:Male|Female; h:<=50K|>50K; bare
basketball | pts or gp or reb or ast |  | age | n:id; player_name:text; team_abbreviation:pareto 30; age:int 19 40; _f:few 5 7; _i:few 0 11; player_height:=CAST(_f AS VARCHAR) || '''' || CAST(_i AS VARCHAR); player_weight:int 150 300; college:pareto 90; country:pareto 40; draft_number:int 1 60; gp:int 1 82; pts:num 0 35; reb:num 0 16; ast:num 0 11
bike hours | cnt | casual registered instant | temp | instant:id; dteday:date; season:few 1 4; mnth:few 1 12; hr:few 0 23; holiday:01 0.05; weathersit:few 1 3; temp:num 0 1; hum:num 0 1; windspeed:num 0 1; casual:count 36; registered:count 150; cnt:=casual + registered
titanic | Survived | PassengerId | Sex | PassengerId:id; _u:num 0 1; Survived:=CAST(_u < 0.38 AS INT); Pclass:few 1 3; Name:text; Sex:male|female; Age:int 1 80; SibSp:few 0 5; Parch:few 0 5; Ticket:text; Fare:num 0 512; Cabin:pareto 100; Embarked:S|C|Q
listings | price or review_scores_rating or reviews_per_month | id host_id | accommodates | id:key; listing_url:text; name:text; host_id:int 2000 2740; host_response_rate:97%|100%|88%|50%; host_is_superhost:t|f; neighbourhood_cleansed:pareto 70; latitude:num 40 41; longitude:num -74 -73; room_type:Entire|Private|Shared; accommodates:few 1 8; bathrooms_text:1 bath|1.5 baths|2 shared baths; _p:int 200 3000; price:='$' || CASE WHEN _p > 999 THEN CAST(CAST(FLOOR(_p / 1000) AS INT) AS VARCHAR) || ',' || CAST(100 + MOD(_p, 900) AS VARCHAR) ELSE CAST(_p AS VARCHAR) END || '.00'; minimum_nights:int 1 1250; number_of_reviews:count 23; reviews_per_month:num 0 58; review_scores_rating:num 1 5
contracts | Award_Amount or Amount_Paid |  | Contract_Type | Contract Number:text; Agency:pareto 70; Vendor:text; Contract Type:Goods|Services|Construction; Award Date:date; _a:num 0 1; Award Amount:='$' || CAST(ROUND(EXP(2 + 16 * _a), 2) AS VARCHAR); _b:num 0 1; Amount Paid:=ROUND(EXP(2 + 16 * _a) * _b, 2); Bids:few 1 9
survey codes | satisfaction |  | age | respondent_id:key; _a:int 18 90; _k:int 0 20; age:=CASE WHEN _k = 3 THEN 999 ELSE _a END; gender:M|F; province:pareto 60; q1:few 1 5; q2:few 1 5; income:int 10000 90000; satisfaction:few 1 10
epidemic | Deaths or Confirmed or Recovered | SNo |  | SNo:id; ObservationDate:date; Province/State:pareto 70; Country/Region:US|China|Italy; _a:num 0 1; Confirmed:=CAST(EXP(11 * _a) AS INT); _b:num 0 1; Deaths:=CAST(EXP(9 * _a * _b) AS INT); Recovered:=CAST(EXP(10 * _a * _b) AS INT)
german homes | Preis |  | Wohnflaeche | Ort:Bonn|Ulm|Jena; Zimmer:few 1 6; _w:num 30 200; Wohnflaeche:=REPLACE(CAST(_w AS VARCHAR), '.', ','); _p:int 100 900; Preis:=CAST(_p AS VARCHAR) || '.000'; sep
campaign response | Response | ID |  | ID:key; Year_Birth:int 1940 1996; Education:Basic|Graduation|PhD; Marital_Status:Single|Married; Income:int 1730 100000; Kidhome:few 0 2; Dt_Customer:date; Recency:int 0 99; MntWines:count 300; NumWebPurchases:few 0 11; Complain:01 0.05; Z_CostContact:one 3; Z_Revenue:one 11; _u:num 0 1; Response:=CAST(_u + Recency / 200 < 0.35 AS INT); sep
Airq | airq |  |  | :id; airq:int 59 165; vala:num 993 1.97e+04; rain:num 12.6 68.1; coas:no|yes; dens:num 272 1.3e+04; medi:int 853 59460
Bwages | wage |  |  | :id; wage:num 2.19 47.6; educ:few 1 5; exper:int 0 47
Caschool | testscr or readscr or mathscr | testscr readscr mathscr distcod |  | :id; distcod:key; county:pareto 45; district:text; grspan:KK-06|KK-08; enrltot:int 81 27176; teachers:num 4.85 1.43e+03; calwpct:num 0 79; mealpct:num 0 100; _c:num 0 60; _r:num 0 20; _m:num 0 20; readscr:=600 + _c + _r; mathscr:=600 + _c + _m; testscr:=(readscr + mathscr) / 2
Hdma | deny |  |  | :id; dir:num 0 3; hir:num 0 3; lvr:num 0.02 1.95; ccs:num 1 6; mcs:num 1 4; pbcr:no|yes; dmi:no|yes; self:no|yes; single:no|yes; uria:num 1.8 10.6; comdominiom:01 0.29; black:no|yes; deny:no|yes
Star | tmathssk or treadssk | tmathssk treadssk | classk | :int 2 11598; _c:int 0 200; _r:int 0 60; _m:int 0 60; tmathssk:=320 + _c + _m; treadssk:=320 + _c + _r; classk:regular|regular.with|small.class; totexpk:int 0 27; sex:boy|girl; freelunk:no|yes; race:black|other|white; schidkn:int 1 80
SLID | wages |  | education | :id; wages:num 2.3 49.9; education:num 0 20; age:int 16 95; sex:Female|Male; language:English|French|Other
Chile | vote |  |  | :id; region:C|M|N|S|SA; population:few 3750 250000; sex:F|M; age:int 18 70; education:P|PS|S; income:few 2500 200000; statusquo:num -1.8 2.05; vote:A|N|U|Y
respiratory | outcome |  | treat | :id; center:few 1 2; id:int 1 56; treat:A|P; sex:F|M; age:int 11 68; baseline:01 0.45; visit:few 1 4; outcome:01 0.56
pbc | status or time or stage or bili |  |  | :id; id:id; time:int 41 4795; status:few 0 2; trt:few 1 2; age:num 26.3 78.4; sex:f|m; ascites:01 0.077; hepato:01 0.51; spiders:01 0.29; bili:num 0.3 28; stage:few 1 4
InstEval | y |  |  | :id; s:int 1 2972; d:int 1 2160; studage:few 2 8; lectage:few 1 6; service:01 0.43; dept:int 1 15; y:few 1 5
mpg | hwy or cty |  |  | :id; manufacturer:pareto 15; model:pareto 38; displ:num 1.6 7; year:few 1999 2008; cyl:few 4 8; trans:pareto 10; drv:4|f|r; cty:int 9 35; hwy:int 12 44; fl:c|d|e|p|r; class:pareto 9
ohio | resp | id | smoke | :id; resp:01 0.15; id:int 0 536; age:few -2 1; smoke:01 0.35
bioChemists | art |  |  | :id; art:count 1.7; fem:Men|Women; mar:Married|Single; kid5:few 0 3; phd:num 0.755 4.62; ment:count 8.8
rwm5yr | docvis or hospvis |  |  | :id; id:int 1 7028; docvis:count 3.2; hospvis:count 0.14; year:few 1984 1988; edlevel:few 1 4; age:int 25 64; outwork:01 0.34; female:01 0.48; married:01 0.77; kids:01 0.41; hhninc:num 0 30.7; edlevel4:01 0.066
wage1 | wage or lwage | lwage wage |  | wage:num 0.53 25; educ:int 0 18; exper:int 1 51; tenure:count 5.1; nonwhite:01 0.1; female:01 0.48; married:01 0.61; numdep:few 0 6; smsa:01 0.72; northcen:01 0.25; lwage:=LN(wage); tenursq:count 78
loanapp | approve or reject | approve reject |  | occ:few 1 3; loanamt:int 2 980; action:few 1 3; msa:few 1120 1120; suffolk:01 0.15; appinc:count 85; typur:few 0 9; unit:few 1 4; married:01 0.66; dep:few 0 8; reject:01 0.12; approve:01 0.88; white:01 0.85
Cai_2015 | takeup_survey |  | intensive | address:pareto 166; village:pareto 44; takeup_survey:01 0.46; age:int 18 86; agpop:int 1 19; ricearea_2010:num 0.4 650; disaster_prob:num 0 100; male:01 0.9; default:01 0.48; intensive:01 0.49; risk_averse:num 0 1; literacy:01 0.79; pre_takeup_rate:num 0 1
restaurant_data | inspection_score |  |  | business_name:pareto 1618; inspection_score:int 66 100; Year:int 2000 2019; NumberofLocations:int 1 646; Weekend:01 0.0077
"""
"""Of each file the accepted responses, the columns that give them away, those that must join, and its columns. The files of the first
lines have texts in place of numbers, codes and sums. Written down before the choice of `init` was seen."""

UNSEEN = r"""
promotion | is_promoted | employee_id |  | employee_id:key; department:Sales|Operations|Technology|HR; region:pareto 34; education:Bachelors|Masters; gender:m|f; recruitment_channel:sourcing|other|referred; no_of_trainings:few 1 5; age:int 20 60; previous_year_rating:few 1 5; length_of_service:int 1 37; KPIs_met >80%:01 0.35; awards_won?:01 0.06; avg_training_score:int 39 99; _u:num 0 1; is_promoted:=CAST(_u < 0.15 AS INT)
cross-sell | Response | id |  | id:id; Gender:Male|Female; Age:int 20 85; Driving_License:01 0.9; Region_Code:few 0 12; Previously_Insured:01 0.46; Vehicle_Age:< 1 Year|1-2 Year|> 2 Years; Vehicle_Damage:Yes|No; Annual_Premium:int 2630 540165; Policy_Sales_Channel:int 1 163; Vintage:int 10 299; Response:01 0.12
melbourne | Price |  | Rooms | Suburb:pareto 90; Address:text; Rooms:few 1 6; Type:h|u|t; Price:int 85000 9000000; Method:S|SP|PI|VB; SellerG:pareto 70; Date:date; Distance:num 0 48; Postcode:int 3000 3977; Bedroom2:few 0 6; Bathroom:few 0 5; Car:few 0 5; Landsize:int 0 4000; Lattitude:num -38 -37; Longtitude:num 144 145; Regionname:Northern|Southern|Western; Propertycount:int 249 21650
happiness | Happiness_Score | Happiness_Rank |  | Country:text; Region:Europe|Africa|Asia|Americas; _h:num 2.8 7.6; Happiness Rank:=CAST(ROUND((8 - _h) * 100) AS INT); Happiness Score:=_h; Standard Error:num 0.02 0.14; Economy (GDP per Capita):num 0 1.7; Family:num 0 1.4; Health (Life Expectancy):num 0 1; Freedom:num 0 0.7; Generosity:num 0 0.8
game sales | Global_Sales or NA_Sales or EU_Sales or JP_Sales | Rank NA_Sales EU_Sales JP_Sales Other_Sales Global_Sales | Platform | Rank:id; Name:text; Platform:PS2|X360|PC|Wii; Year:int 1985 2016; Genre:Action|Sports|Puzzle; Publisher:pareto 60; NA_Sales:num 0 41; EU_Sales:num 0 29; JP_Sales:num 0 10; Other_Sales:num 0 11; Global_Sales:=ROUND(NA_Sales + EU_Sales + JP_Sales + Other_Sales, 2)
laptops | Price_euros |  | Ram Weight | laptop_ID:id; Company:Dell|HP|Lenovo|Apple; Product:text; TypeName:Notebook|Gaming|Ultrabook; Inches:num 10 18; ScreenResolution:1366x768|1920x1080|IPS 2560x1440; Cpu:pareto 60; _r:few 1 4; Ram:=CAST(4 * _r AS VARCHAR) || 'GB'; Memory:256GB SSD|1TB HDD|128GB SSD; Gpu:pareto 60; OpSys:Windows 10|Linux|macOS; _w:num 0.7 4.7; Weight:=CAST(_w AS VARCHAR) || 'kg'; _u:num 0 1; Price_euros:=ROUND(300 * _r + 500 * _u, 2)
personal loan | Personal_Loan | ID ZIP_Code | Income | ID:id; Age:int 23 67; Experience:int -3 43; Income:int 8 224; ZIP Code:int 90005 96651; Family:few 1 4; CCAvg:num 0 10; Education:few 1 3; Mortgage:int 0 635; _u:num 0 1; Personal Loan:=CAST(_u + Income / 400 > 0.85 AS INT); Securities Account:01 0.1; CD Account:01 0.06; Online:01 0.6; CreditCard:01 0.29
restaurants | rate or votes or approx_cost_for_two_people |  | online_order | url:text; name:text; online_order:Yes|No; book_table:Yes|No; _r:num 1.8 4.9; _k:few 0 11; rate:=CASE WHEN _k = 0 THEN 'NEW' ELSE CAST(ROUND(_r, 1) AS VARCHAR) || '/5' END; votes:count 280; location:pareto 90; rest_type:pareto 60; approx_cost(for two people):300|1,200|800|400|1,500|600|250|150|1,000|500|2,000|700|200; listed_in(type):Buffet|Cafes|Delivery
forest fires | area |  | temp | X:few 1 9; Y:few 2 9; month:aug|sep|mar|jul; day:mon|tue|fri|sun; FFMC:num 18 97; DMC:num 1 292; DC:num 7 861; ISI:num 0 57; temp:num 2 34; RH:int 15 100; wind:num 0.4 9.4; rain:num 0 6.4; _a:num 0 1; area:=ROUND(CASE WHEN _a < 0.4 THEN 0 ELSE EXP(9 * _a - 3) END, 2)
no-shows | No_show | PatientId AppointmentID |  | PatientId:key; AppointmentID:key; Gender:F|M; ScheduledDay:date; AppointmentDay:date; Age:int 0 115; Neighbourhood:pareto 80; Scholarship:01 0.1; Hipertension:01 0.2; Diabetes:01 0.07; Alcoholism:01 0.04; Handcap:few 0 2; SMS_received:01 0.32; No-show:No|Yes
Participation | lfp |  |  | :id; lfp:no|yes; lnnlinc:num 7.19 12.4; age:num 2 6.2; educ:int 1 21; nyc:few 0 3; noc:few 0 6; foreign:no|yes
MedExp | med |  |  | :id; med:num 0 3.92e+04; lc:num 0 4.56; idp:no|yes; lpi:num 0 7.16; fmde:num 0 8.29; physlim:no|yes; ndisease:num 0 58.6; health:excellent|fair|good|poor; linc:num 0 10.3; lfam:num 0 2.56; educdec:num 0 25; age:num 0.0253 63.3; black:no|yes
UnempDur | spell |  |  | :id; spell:int 1 28; censor1:01 0.32; censor2:01 0.1; censor3:01 0.17; censor4:01 0.38; age:int 20 61; ui:no|yes; reprate:num 0.066 2.06; disrate:num 0.002 1.02; logwage:num 2.71 7.6; tenure:count 4.1
Womenlf | partic |  |  | :id; partic:fulltime|not.work|parttime; hincome:int 1 45; children:absent|present; region:Atlantic|BC|Ontario|Prairie|Quebec
nlschools | lang |  | SES | :id; lang:int 9 58; IQ:num 4 18; class:int 180 25880; GS:int 10 39; SES:int 10 50; COMB:01 0.28
Arthritis | Improved | ID | Treatment | :id; ID:id; Treatment:Placebo|Treated; Sex:Female|Male; Age:int 23 74; Improved:Marked|None|Some
colon | status or time | id | rx | :id; id:int 1 929; study:few 1 1; rx:Lev|Lev+5FU|Obs; sex:01 0.52; age:int 18 85; obstruct:01 0.19; perfor:01 0.029; adhere:01 0.15; nodes:count 3.7; status:01 0.5; time:int 8 3329; etype:few 1 2
baseball | hr or rbi or r or h |  |  | :int 4 89534; id:pareto 1228; year:int 1871 2007; stint:few 1 4; team:pareto 132; lg:AA|AL|FL|NL|PL|UA; g:int 0 165; ab:int 0 705; r:count 32; h:count 62; hr:count 5.2; rbi:count 30; gidp:count 4.8
bwght | bwght | lbwght bwghtlbs | cigs | faminc:num 0.5 65; cigtax:num 2 38; cigprice:num 104 152; bwght:int 23 271; fatheduc:int 1 18; motheduc:int 2 18; parity:few 1 6; male:01 0.52; white:01 0.78; cigs:count 2.1; lbwght:num 3.14 5.6; bwghtlbs:num 1.44 16.9; packs:num 0 2.5; lfaminc:num -0.693 4.17
black_politicians | responded |  | treat_out | leg_black:01 0.065; treat_out:01 0.5; responded:01 0.42; totalpop:num 0.303 90.6; medianhhincom:num 1.73 13.7; black_medianhh:num -0.118 37.8; white_medianhh:num 0.948 10.7; blackpercent:num 0.000301 0.974; statessquireindex:num 0.027 0.626; nonblacknonwhite:01 0.047; urbanpercent:num 0 1; leg_senator:01 0.26; leg_democrat:01 0.53; south:01 0.27
"""
"""More of these, on which `init` was tried only once, at the end."""

ROWS = 400


def values_of(kind: str, rows: int, random: np.random.Generator, made_of: pl.DataFrame | None = None) -> pl.Series:
    """Made-up values of a type."""
    word, *numbers = kind.split()
    if kind.startswith("="):
        return made_of.select(pl.sql_expr(kind[1:])).to_series()
    if "|" in kind:
        return pl.Series(random.choice(kind.split("|"), rows).tolist())
    low, high = (float(number) for number in (*numbers, 0, 0)[:2])
    made = {
        "id": lambda: np.arange(1, rows + 1),
        "key": lambda: random.permutation(rows * 1000)[:rows] + 708_000_000,
        "int": lambda: random.integers(low, high + 1, rows),
        "few": lambda: random.integers(low, high + 1, rows),
        "num": lambda: (low + (high - low) * random.beta(2, 3, rows)).round(2),
        "count": lambda: random.negative_binomial(0.8, 0.8 / (0.8 + low), rows),
        "poisson": lambda: random.poisson(low, rows),
        "01": lambda: (random.random(rows) < low).astype(int),
        "set": lambda: ((np.arange(rows) * 7919 % 1000) // 200 == low).astype(int),
        "text": lambda: np.array([f"name {number}" for number in random.permutation(rows)]),
        "unit": lambda: np.array([f"unit {number}" for number in np.arange(rows) // low]),
        "pareto": lambda: np.array([f"place {number}" for number in (low * random.beta(0.7, 2, rows)).astype(int)]),
        "one": lambda: np.full(rows, int(low)),
        "date": lambda: np.datetime64("2020-01-01") + random.integers(0, 300, rows),
    }
    return pl.Series(made[word]())


def schemas(text: str) -> dict[str, tuple[str, str, pl.DataFrame]]:
    """The expected response, its family and rows of each file."""
    found = {}
    for line in text.strip().splitlines():
        name, _, response, family, columns = (part.strip() for part in line.split(" | "))
        random = np.random.default_rng(zlib.crc32(name.encode()))
        kinds = (column.strip().partition(":") for column in columns.split(";"))
        found[name] = (
            response,
            family,
            pl.DataFrame({column: values_of(kind, ROWS, random) for column, _, kind in kinds}),
        )
    return found


def public(text: str) -> Iterator[tuple[str, list[str], set[str], set[str], str]]:
    """The name of each file, its responses, what gives them away, what must join, and its content as CSV."""
    for line in text.strip().splitlines():
        name, responses, leaks, joining, columns = (part.strip() for part in line.split(" | ", 4))
        random = np.random.default_rng(zlib.crc32(name.encode()))
        *kinds, written = (
            [*columns.split("; "), ""] if not columns.endswith(("; sep", "; bare")) else columns.split("; ")
        )
        rows = pl.DataFrame({"_row": range(ROWS)})
        for column, _, kind in (each.partition(":") for each in kinds):
            rows = rows.with_columns(values_of(kind, len(rows), random, rows).alias(column))
        rows = rows.select(column for column in rows.columns if not column.startswith("_"))
        content = rows.write_csv(separator=";" if written == "sep" else ",", include_header=written != "bare")
        yield name, responses.split(" or "), set(leaks.split()), set(joining.split()), content
