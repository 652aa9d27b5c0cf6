"""TensorFlow 2.15's LinearClassifier in one process."""

from common import Work
from estimator_model import coefficients, estimator, input_function, levels_of

work = Work()
with work.timed("read"):
    levels = levels_of(work)
with work.timed("fit"):
    model = estimator(work, levels, work.folder / "model")
    model.train(input_function(work))
work.answer(coefficients(model, work, levels), "tensorflow")
