"""pyfixest, as it is meant to be used: factors are absorbed, and the numbers have coefficients with standard errors."""

import pyfixest as pf
from common import Work

work = Work()
with work.timed("read"):
    frame = work.frame()
formula = f"{work.response} ~ {' + '.join(work.numbers)} | {' + '.join(work.factors)}"
with work.timed("fit"):
    if work.family == "binomial":
        model = pf.feglm(formula, data=frame, family="logit", vcov="iid")
    else:
        model = pf.feols(formula, data=frame, vcov="iid")
    estimates, errors = model.coef(), model.se()
rows = ((name, "", estimates[name], errors[name]) for name in work.numbers)
work.answer(rows, "pyfixest", std_errors=True)
