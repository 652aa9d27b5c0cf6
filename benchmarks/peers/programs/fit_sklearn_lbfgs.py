"""scikit-learn's LogisticRegression without a penalty, solver lbfgs."""

import numpy as np
from common import Work
from sklearn.linear_model import LogisticRegression
from sparse import Matrix

work = Work()
with work.timed("read"):
    matrix = Matrix(work)
with work.timed("fit"):
    model = LogisticRegression(C=np.inf, solver="lbfgs", max_iter=1000, tol=1e-6).fit(matrix.x, matrix.y)
work.answer(matrix.rows(model.coef_.ravel(), float(model.intercept_[0])), "scikit-learn")
