"""Vowpal Wabbit: five passes of its stochastic gradient, from text that is written from the CSV file first."""

import polars as pl
import vowpalwabbit
from common import Work

PASSES = 5

work = Work()
text, names, state = (work.folder / name for name in ("rows.txt", "names.txt", "state"))
with work.timed("read"):
    label = pl.col(work.response) * 2 - 1 if work.family == "binomial" else pl.col(work.response)
    words = [pl.lit(" |"), *(pl.format(" " + name + "={}", name) for name in work.factors)]
    words += [pl.format(" " + name + ":{}", name) for name in work.numbers]
    rows = pl.scan_csv(work.table, schema_overrides=dict.fromkeys(work.factors, pl.String))
    lines = rows.select(pl.concat_str(label.cast(pl.Int64).cast(pl.String), *words))
    lines.sink_csv(text, include_header=False, quote_style="never")
loss = "logistic" if work.family == "binomial" else "squared"
with work.timed("fit"):
    options = f"-d {text} --loss_function {loss} --passes {PASSES} --cache -k -b 20 --holdout_off --quiet -f {state}"
    vowpalwabbit.Workspace(options).finish()
# The names of the weights are told in a single pass only: one that looks at the rows and learns nothing.
vowpalwabbit.Workspace(f"-d {text} -t -i {state} --quiet --invert_hash {names}").finish()
terms = {"Constant": "Intercept"} | {name: name for name in (*work.factors, *work.numbers)}
rows = []
with names.open() as file:
    for line in file:
        name, _, weight = line.rstrip().rpartition(":")
        term, _, level = name.rpartition(":")[0].partition("=")
        if term in terms:
            rows.append((terms[term], level, float(weight)))
text.unlink()
work.answer(rows, "vowpalwabbit")
