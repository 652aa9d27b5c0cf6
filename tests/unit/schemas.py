"""The columns of well-known public files: names and types alone, with made-up values in their ranges.

A line for each file: its name, where it is from, the column that its users explain, the family of the regression, and its columns. A column is
NAME:TYPE. The types: `id` numbers the rows, `text` differs in each row, `date` is a day, `int A B` and `num A B` lie between two numbers,
`count M` has the mean M and more variance than a Poisson count, `few A B` are the whole numbers between two, `01 P` is 1 with a
probability, and `a|b|c` is one of these texts.
"""

# ruff: noqa: E501

import zlib

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

ROWS = 400


def values_of(kind: str, rows: int, random: np.random.Generator) -> pl.Series:
    """Made-up values of a type."""
    word, *numbers = kind.split()
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
