"""statsmodels' GLM or OLS by formula, with standard errors."""

import statsmodels.api as sm
import statsmodels.formula.api as smf
from common import Work, named

work = Work()
with work.timed("read"):
    frame = work.frame()
with work.timed("fit"):
    if work.family == "binomial":
        model = smf.glm(work.formula, frame, family=sm.families.Binomial()).fit()
    else:
        model = smf.ols(work.formula, frame).fit()
names = named(model.params.index, work.factors, "[T.")
rows = ((*name, *values) for name, *values in zip(names, model.params, model.bse, strict=True))
work.answer(rows, "statsmodels", std_errors=True)
