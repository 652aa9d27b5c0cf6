"""scikit-learn's SGDClassifier or SGDRegressor as it comes, without a penalty: as many epochs as it finds right."""

from common import Work
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sparse import Matrix

work = Work()
with work.timed("read"):
    matrix = Matrix(work)
settings = {"penalty": None, "random_state": 1}
model = SGDClassifier(loss="log_loss", **settings) if work.family == "binomial" else SGDRegressor(**settings)
with work.timed("fit"):
    model.fit(matrix.x, matrix.y)
work.answer(matrix.rows(model.coef_.ravel(), float(model.intercept_[0])), "scikit-learn")
