"""`tfglm.fit`: `run` has the steps, `rows` reads files and tables, `fitted` is what it returns."""

from tfglm.call.fitted import FittedModel as FittedModel
from tfglm.call.fitted import config_files as config_files
from tfglm.call.run import fit as fit
