"""H2O's GLM without a penalty, by iteratively reweighted least squares with standard errors."""

import h2o
from common import CORES, Work, named
from h2o.estimators import H2OGeneralizedLinearEstimator

work = Work()
h2o.init(nthreads=CORES, max_mem_size="12g", ip="127.0.0.1", bind_to_localhost=True, start_h2o=True)
try:
    with work.timed("read"):
        frame = h2o.import_file(str(work.table), col_types=dict.fromkeys(work.factors, "enum"))
        if work.family == "binomial":
            frame[work.response] = frame[work.response].asfactor()
    with work.timed("fit"):
        model = H2OGeneralizedLinearEstimator(
            family=work.family, lambda_=0, compute_p_values=True, remove_collinear_columns=True, solver="IRLSM"
        )
        model.train(x=[*work.factors, *work.numbers], y=work.response, training_frame=frame)
    table = model._model_json["output"]["coefficients_table"].as_data_frame()
    names = named(table["names"], work.factors, ".")
    rows = ((*name, *values) for name, *values in zip(names, table["coefficients"], table["std_error"], strict=True))
    work.answer(rows, "h2o", std_errors=True)
finally:
    h2o.cluster().shutdown()
