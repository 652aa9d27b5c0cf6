"""Spark MLlib in local mode: GeneralizedLinearRegression, with standard errors; past 4,096 coefficients it refuses."""

from common import CORES, Work
from pyspark.ml import Pipeline
from pyspark.ml.feature import OneHotEncoder, StringIndexer, VectorAssembler
from pyspark.ml.regression import GeneralizedLinearRegression
from pyspark.sql import SparkSession, functions

work = Work()
spark = (
    SparkSession.builder.master(f"local[{CORES}]")
    .config("spark.driver.memory", "10g")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.local.dir", str(work.folder / "spark"))
    .getOrCreate()
)
with work.timed("read"):
    types = [f"{name} string" for name in work.factors] + [f"{name} double" for name in (work.response, *work.numbers)]
    header = work.table.open().readline().strip().split(",")
    schema = ", ".join(sorted(types, key=lambda each: header.index(each.split()[0])))
    frame = spark.read.csv(str(work.table), header=True, schema=schema).cache()
    frame.select(functions.count("*")).collect()
indexed, encoded = [f"{name}_index" for name in work.factors], [f"{name}_levels" for name in work.factors]
stages = [
    StringIndexer(inputCols=work.factors, outputCols=indexed, stringOrderType="alphabetDesc"),
    # The last level has no column: with this order, the first in sorted order.
    OneHotEncoder(inputCols=indexed, outputCols=encoded),
    VectorAssembler(inputCols=[*encoded, *work.numbers], outputCol="features"),
    GeneralizedLinearRegression(family=work.family, labelCol=work.response, tol=1e-10),
]
with work.timed("fit"):
    pipeline = Pipeline(stages=stages).fit(frame)
    model = pipeline.stages[-1]
    errors = model.summary.coefficientStandardErrors
levels = zip(work.factors, pipeline.stages[0].labelsArray, strict=True)
names = [(factor, level) for factor, labels in levels for level in labels[:-1]]
names += [(name, "") for name in work.numbers]
rows = [(*name, value, error) for name, value, error in zip(names, model.coefficients.toArray(), errors, strict=False)]
work.answer([("Intercept", "", model.intercept, errors[-1]), *rows], "pyspark", std_errors=True)
spark.stop()
