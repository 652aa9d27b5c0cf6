"""glum, which knows categorical columns, with standard errors."""

import glum
from common import Work

work = Work()
with work.timed("read"):
    frame = work.frame()
    x, y = frame[[*work.factors, *work.numbers]], frame[work.response].to_numpy(float)
with work.timed("fit"):
    family = "binomial" if work.family == "binomial" else "normal"
    model = glum.GeneralizedLinearRegressor(family=family, alpha=0, drop_first=True, gradient_tol=1e-8)
    model.fit(x, y, store_covariance_matrix=True)
    table = model.coef_table()
levels = [(name, str(level)) for name in work.factors for level in x[name].cat.categories[1:]]
names = [("Intercept", ""), *levels, *((name, "") for name in work.numbers)]
assert len(names) == len(table), "the order of glum's columns is another one"
rows = ((*name, *values) for name, *values in zip(names, table["coef"], table["se"], strict=True))
work.answer(rows, "glum", std_errors=True)
