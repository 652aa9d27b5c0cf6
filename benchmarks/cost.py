"""A model of what a pass costs, by rows, sums, workers, ps and links. Its constants are fitted to what `links.py` has measured.

A pass goes through stages. The chief sends the calls; workers sum, each over its rows of its portion of the sums; their vectors
go over the links, to the chief or into slots on the ps; there they are added; the chief receives them. How the sums and rows are
divided, and who adds, is asked of the engine itself (engine/division.py), whose own constants this model measures anew.

Processor seconds are counted for each role by itself, so that they do not depend on who shares a processor. The seconds of the
clock follow from them, from bytes and rates, and from latencies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.optimize import nnls

from tfglm.distribute.parameter_server import MOST_TOGETHER
from tfglm.engine import division

EFFICIENCY = 0.95
"""Share of a link's rate that a TCP stream has for what it carries."""


@dataclass(frozen=True)
class Work:
    """A pass: how many numbers each of its sums has, how many coefficients the state, and what is summed."""

    sizes: tuple[int, ...]
    coefficients: int
    rows: int
    calls: int


@dataclass(frozen=True)
class Cluster:
    """Who does it. `gigabits` is the rate of each node's link, Gbit/s, None for memory; `cores` how many processors all share,
    None if each process has its own."""

    workers: int
    ps: int
    gigabits: float | None
    cores: int | None = None


@dataclass(frozen=True)
class Plan:
    """How a pass is divided: `together` calls in a run, whose sums are in portions that begin and end at `bounds`. `on_ps` says
    whether the ps add."""

    together: int
    bounds: tuple[int, ...]
    runs: int
    turns: int
    on_ps: bool = False

    @property
    def portions(self) -> int:
        return len(self.bounds) - 1

    @property
    def pieces(self) -> int:
        return self.runs * self.portions


def plan_of(work: Work, workers: int, ps: int) -> Plan:
    """As the engine divides it."""
    sizes, rows = np.array(work.sizes), work.rows / work.calls
    together, bounds, on_ps = division.quickest(sizes, work.calls, rows, workers, MOST_TOGETHER, ps)
    runs = -(-work.calls // together)
    return Plan(together, bounds, runs, -(-runs * (len(bounds) - 1) // workers), on_ps)


@dataclass(frozen=True)
class Constants:
    """Seconds, but for the two of bytes. Those that have a name in engine/division.py mean the same there."""

    row: float
    sum: float
    outside: float
    sent: float
    worker_piece: float
    """On the worker, to be given something to do and to return it."""
    received: float
    piece: float
    chief_pass: float
    """On the chief, for each pass."""
    added: float
    """On the ps, for each number of a vector in a slot: to receive it and to add it."""
    ps_piece: float
    """On the ps, for each reading of the state."""
    ps_pass: float
    row_bytes: float
    """What the chief sends for each row and portion: the checksums of its blocks."""
    piece_bytes: float
    latency: float
    """For which a pass waits besides."""
    turn: float
    """The same for each turn of the workers."""
    asked: float
    """The same where the ps are asked to add."""
    first: float
    """The first pass of its kind, which is traced and whose design is read."""


def worker_terms(work: Work, plan: Plan) -> list[float]:
    """What the workers do in all, by the constants row, sum, outside, sent and worker_piece."""
    sizes = np.array(work.sizes)
    return [
        plan.portions * work.rows,
        float(division.seconds_of_sums(sizes, work.rows, 1, 0, 0).sum()),
        float(division.seconds_of_sums(sizes, work.rows, 0, 1, 0).sum()),
        plan.runs * sum(work.sizes),
        plan.pieces,
    ]


def chief_terms(work: Work, plan: Plan) -> list[float]:
    """What the chief does, by the constants received, piece and chief_pass."""
    return [numbers_into_chief(work, plan), plan.pieces, 1.0]


def ps_terms(work: Work, plan: Plan) -> list[float]:
    """What all ps do, by the constants added, ps_piece and ps_pass."""
    return [numbers_into_ps(work, plan), plan.pieces, 1.0]


def sent_terms(work: Work, plan: Plan) -> list[float]:
    """What the chief sends, by the constants of bytes."""
    return [plan.portions * work.rows, plan.pieces]


def numbers_into_chief(work: Work, plan: Plan) -> float:
    return float(sum(work.sizes) * (1 if plan.on_ps else plan.runs))


def numbers_into_ps(work: Work, plan: Plan) -> float:
    return float(sum(work.sizes) * plan.runs if plan.on_ps else 0)


def worker_seconds(work: Work, plan: Plan, constants: Constants) -> float:
    """Processor seconds of all workers."""
    known = constants.row, constants.sum, constants.outside, constants.sent, constants.worker_piece
    return float(np.dot(known, worker_terms(work, plan)))


def busiest_worker(work: Work, plan: Plan, constants: Constants) -> float:
    """Seconds of the worker that is the last."""
    rows = work.rows / work.calls * min(plan.together, work.calls)
    sizes = np.array(work.sizes)
    of_sums = division.seconds_of_sums(sizes, rows, constants.sum, constants.outside, constants.sent)
    longest = float(np.add.reduceat(of_sums, plan.bounds[:-1]).max())
    return plan.turns * (rows * constants.row + longest + constants.worker_piece)


def stages(work: Work, cluster: Cluster, constants: Constants) -> dict[str, float]:
    """Seconds of the clock of each stage, as if no other went on at the same time."""
    plan = plan_of(work, cluster.workers, cluster.ps)
    busiest = busiest_worker(work, plan, constants)
    if cluster.cores:
        busiest = max(busiest, worker_seconds(work, plan, constants) / min(cluster.cores, cluster.workers))
    rate = cluster.gigabits * 1e9 / 8 * EFFICIENCY if cluster.gigabits else np.inf
    chief, into_ps = 8 * numbers_into_chief(work, plan), 8 * numbers_into_ps(work, plan)
    # From the workers that write to all ps at the same time; all sums have passed the link of one ps, or of a worker.
    narrowest = max(into_ps / cluster.ps, into_ps / min(plan.pieces, cluster.workers))
    adding = min(cluster.ps, cluster.cores or cluster.ps)
    received = np.dot((constants.received, constants.piece, constants.chief_pass), chief_terms(work, plan))
    return {
        "send": float(np.dot((constants.row_bytes, constants.piece_bytes), sent_terms(work, plan)) / rate),
        "compute": busiest,
        "transfer": (narrowest if plan.on_ps else chief) / rate,
        "add": constants.added * numbers_into_ps(work, plan) / adding,
        "fetch": (chief if plan.on_ps else 0.0) / rate,
        "receive": float(received),
    }


def overlapped(of_stages: Mapping[str, float], plan: Plan) -> float:
    """Seconds of all stages. A vector goes to the chief while its worker sums the next one, so that these stages go on at the
    same time but for one turn; into a slot the worker itself writes it, and the ps add when all is there."""
    piped = [] if plan.on_ps else [of_stages[name] for name in ("compute", "transfer", "receive")]
    hidden = (sum(piped) - max(piped, default=0.0)) * (plan.turns - 1) / plan.turns
    return sum(of_stages.values()) - hidden


def seconds(work: Work, cluster: Cluster, constants: Constants, first: bool = False) -> float:
    """What a pass takes by the clock."""
    plan = plan_of(work, cluster.workers, cluster.ps)
    waits = constants.latency + plan.turns * constants.turn + plan.on_ps * constants.asked + first * constants.first
    return overlapped(stages(work, cluster, constants), plan) + waits


@dataclass(frozen=True)
class Measurement:
    """What passes of one kind took on one cluster, each a mean over them."""

    work: Work
    cluster: Cluster
    first: bool
    seconds: float
    workers_processor_s: float
    chief_processor_s: float
    ps_processor_s: float
    chief_out_bytes: float


Terms = Callable[[Work, Plan], list[float]]


def fitted(measured: Sequence[Measurement]) -> Constants:
    """The constants by which the sum of squared relative errors is least, none below 0: of processor seconds by role, of bytes
    sent, and then, these given, of the seconds of the clock."""
    steady = [each for each in measured if not each.first]
    plans = [plan_of(each.work, each.cluster.workers, each.cluster.ps) for each in steady]

    def of_role(terms: Terms, quantity: str, floor: float) -> list[float]:
        rows = np.array([terms(each.work, plan) for each, plan in zip(steady, plans, strict=True)])
        return least_squares(rows, np.array([getattr(each, quantity) for each in steady]), floor)

    worker = of_role(worker_terms, "workers_processor_s", SMALL)
    chief = of_role(chief_terms, "chief_processor_s", SMALL)
    ps = of_role(ps_terms, "ps_processor_s", SMALL)
    sent = of_role(sent_terms, "chief_out_bytes", 1e4)
    partial = Constants(*worker, *chief, *ps, *sent, latency=0.0, turn=0.0, asked=0.0, first=0.0)
    left = np.array([each.seconds - seconds(each.work, each.cluster, partial, first=False) for each in measured])
    waits = np.array([waits_terms(each) for each in measured])
    weights = 1 / (np.array([each.seconds for each in measured]) + SMALL)
    found = nnls(waits * weights[:, None], left * weights)[0]
    return Constants(
        **asdict(partial) | dict(zip(("latency", "turn", "asked", "first"), map(float, found), strict=True))
    )


def waits_terms(measured: Measurement) -> list[float]:
    """What a pass waits for, by the constants latency, turn, asked and first."""
    plan = plan_of(measured.work, measured.cluster.workers, measured.cluster.ps)
    return [1.0, plan.turns, plan.on_ps, measured.first]


SMALL = 5e-3
"""Seconds that are as good as none: errors are relative to a time and these."""


def least_squares(rows: np.ndarray, values: np.ndarray, floor: float) -> list[float]:
    """Factors of the columns, none below 0, whose errors relative to the values (and a floor of these) are least."""
    weights = 1 / (values + floor)
    largest = np.abs(rows * weights[:, None]).max(axis=0)
    scale = np.where(largest > 0, largest, 1.0)
    return list(nnls(rows * weights[:, None] / scale, values * weights)[0] / scale)
