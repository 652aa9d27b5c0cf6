"""Other programs on the rows of `fit.py`, each in a process of its own: what it prints are numbers."""

GLUM = """
import sys, time, polars, glum
frame = polars.read_parquet(sys.argv[1]).drop("plane").to_pandas()
x = frame.drop(columns="late").astype({name: "category" for name in frame.columns if frame[name].dtype.kind not in "fi"})
start = time.perf_counter()
model = glum.GeneralizedLinearRegressor(family="binomial", alpha=0, drop_first=True, gradient_tol=1e-8)
model.fit(x, frame["late"].to_numpy(float))
print(time.perf_counter() - start)
"""
"""Seconds of a fit, its table in memory."""

LBFGS = """
import sys, time, warnings, numpy, polars, scipy.optimize
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression, _logistic
warnings.simplefilter("ignore")
path, numbers, (target, limit) = sys.argv[1], sys.argv[2].split(","), map(float, sys.argv[3:])
table = polars.read_parquet(path)
y, columns, values, width = table["late"].to_numpy(), [], [], 0
for name in table.columns:
    if name == "late":
        continue
    if name in numbers:
        number = table[name].to_numpy().astype(float)
        columns.append(numpy.full(len(y), width, numpy.int32))
        values.append((number - number.mean()) / number.std())
        width += 1
    else:  # without the first level, the reference
        levels = table[name].unique().sort()
        codes = table[name].cast(polars.Enum(levels)).to_physical().to_numpy().astype(numpy.int32)
        columns.append(numpy.where(codes > 0, width + codes - 1, -1))
        values.append(numpy.ones(len(y)))
        width += len(levels) - 1
del table
columns, values = numpy.stack(columns, 1), numpy.stack(values, 1)
there = columns >= 0
ends = numpy.concatenate([[0], numpy.cumsum(there.sum(1))])
x = csr_matrix((values[there], columns[there], ends), (len(y), width))
del columns, values, there, number
minimize, reached = scipy.optimize.minimize, {}
class Watched:
    minimize = staticmethod(lambda *arguments, **options: minimize(*arguments, **options | {"callback": watch}))
def watch(intermediate_result):
    reached.update(
        seconds=time.perf_counter() - start,
        deviance=2 * len(y) * float(intermediate_result.fun),
        iterations=reached.get("iterations", 0) + 1,
    )
    if reached["deviance"] <= target or reached["seconds"] > limit:
        raise StopIteration
_logistic.optimize = Watched
start = time.perf_counter()
LogisticRegression(C=numpy.inf, solver="lbfgs", max_iter=100_000, tol=1e-12).fit(x, y)
print(reached["seconds"], reached["deviance"], reached["iterations"])
"""
"""scikit-learn's lbfgs until it comes to a deviance, or to a limit of seconds: seconds, deviance and iterations. It is SciPy's
`minimize` inside that is watched."""

SGD = """
import sys, time, numpy, polars
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier
numbers = sys.argv[3].split(",")
tables = [polars.read_parquet(path) for path in sys.argv[1:3]]
names = [name for name in tables[0].columns if name not in ("late", *numbers)]
levels = {name: polars.Enum(tables[0][name].unique().sort()) for name in names}
center = {name: (tables[0][name].mean(), tables[0][name].std()) for name in numbers}
starts = numpy.cumsum([0, *(len(levels[name].categories) for name in names)])
def sparse(table):
    codes = [table[name].cast(levels[name]).to_physical().to_numpy() + start for name, start in zip(names, starts)]
    codes += [numpy.full(len(table), starts[-1] + k) for k in range(len(numbers))]
    values = [numpy.ones(len(table))] * len(names)
    values += [(table[name].to_numpy() - center[name][0]) / center[name][1] for name in numbers]
    shape = len(table), starts[-1] + len(numbers)
    ends = numpy.arange(0, len(table) * len(codes) + 1, len(codes))
    return csr_matrix((numpy.stack(values, 1).ravel(), numpy.stack(codes, 1).astype(numpy.int32).ravel(), ends), shape)
x, y, z, t = sparse(tables[0]), tables[0]["late"].to_numpy(), sparse(tables[1]), tables[1]["late"].to_numpy()
for settings in ({}, {"penalty": None, "learning_rate": "adaptive", "eta0": 0.05}):
    seconds, losses = [], []
    for epochs in (1, 3):
        start = time.perf_counter()
        model = SGDClassifier(loss="log_loss", max_iter=epochs, tol=None, random_state=1, **settings).fit(x, y)
        seconds.append(time.perf_counter() - start)
    eta = model.decision_function(z)
    print(seconds[0], float(numpy.mean(numpy.logaddexp(0, eta) - t * eta)))
"""
"""For two settings the seconds of an epoch, and the log loss on held-out rows after three."""
