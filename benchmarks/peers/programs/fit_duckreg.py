"""duckreg: DuckDB sums equal rows, and weighted least squares is fitted to the sums."""

import duckdb
import numpy as np
from common import Work
from duckreg.estimators import DuckRegression

work = Work()
database = work.folder / "table.duckdb"
with work.timed("read"), duckdb.connect(str(database)) as connection:
    connection.execute("CREATE TABLE rows AS SELECT * FROM read_csv(?)", [str(work.table)])
    # It takes numbers alone: a column for each level but the first.
    columns, names = [], []
    for factor in work.factors:
        levels = [row[0] for row in connection.execute(f"SELECT DISTINCT {factor} FROM rows ORDER BY 1").fetchall()]
        for number, level in enumerate(levels[1:]):
            columns.append(f"({factor} = '{level}')::INT AS {factor}_{number}")
            names.append((f"{factor}_{number}", factor, level))
    selected = ", ".join([work.response, *work.numbers, *columns])
    connection.execute(f"CREATE TABLE wide AS SELECT {selected} FROM rows")
names += [(name, name, "") for name in work.numbers]
with work.timed("fit"):
    formula = f"{work.response} ~ {' + '.join(name for name, *_ in names)}"
    model = DuckRegression(str(database), "wide", formula, cluster_col="", n_bootstraps=0, seed=1)
    # Not its `fit_vcov`, which makes a matrix of rows by rows.
    model.fit()
terms = [("Intercept", ""), *((term, level) for _, term, level in names)]
rows = ((*term, estimate) for term, estimate in zip(terms, np.ravel(model.point_estimate), strict=True))
work.answer(rows, "duckreg", "duckdb")
