"""From what links.py has measured to results/links.json: the constants of the model of cost, how well it foretells what it was
not fitted to, and what it says of clusters and tables that are not here."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import cost
import numpy as np
from cost import Cluster, Constants, Measurement, Work

from tfglm.engine import division
from tfglm.engine.cutting import Cutting

TABLE_HELD_OUT = (1_000_000, "medium")
"""Rows and formula that have no part in the fit of the constants, on whatever cluster."""

PASSES = ("information", "gradient")
WITHIN = 0.2

PREDICTED_ROWS = 1_200_000_000
PREDICTED = [
    (workers, 8, gigabits, name)
    for name in ("narrow", "medium", "wide")
    for gigabits in (10, 1)
    for workers in (16, 64)
]
"""Workers, ps, link and formula."""


def figures(measured: Mapping[str, Any], held_out: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All of results/links.json."""
    cores = measured["machine"]["cores"]
    groups = grouped(measured["by_hand"])
    apart = {key for key in groups if setting_of(key) in [tuple(each.values()) for each in held_out]}
    apart |= {key for key in groups if key[3:5] == TABLE_HELD_OUT}
    measurements = {key: of_passes(passes, cores, key) for key, passes in groups.items() if key[5] in PASSES}
    constants = cost.fitted([each for key, both in measurements.items() if key not in apart for each in both])
    passes = [
        of_pass(key, both[0], groups[key], constants, key in apart)
        for key, both in measurements.items()
        if not both[0].first and both[0].work.rows == key[3]
    ]
    fits, solver = of_fits(measured["by_hand"], constants, cores, apart)
    lists = {(run["rows"], run["design"]): run["passes"] for each in measured["by_hand"] for run in each["fits"]}
    through = [
        {
            **each,
            "predicted_seconds": fit_seconds(
                lists[each["rows"], each["design"]], cluster_of(each, cores), constants, solver
            ),
        }
        for each in measured["by_workflow"]
    ]
    same = {
        (run["rows"], run["design"], json.dumps(run["checkpoint"]))
        for each in measured["by_hand"]
        for run in each["fits"]
    }
    return {
        "constants": asdict(constants) | {"solver_fit": solver[0], "solver_number": solver[1]},
        "constants_of_the_engine": {
            name: getattr(division, name)
            for name in ("ROW", "SUM", "OUTSIDE", "SENT", "RECEIVED", "IN_SLOT", "ASKED", "PIECE")
        },
        "errors": {
            kind: {
                which: errors(each for each in of_kind if each["held_out"] == apart_) for which, apart_ in APART.items()
            }
            for kind, of_kind in kinds_of(passes, fits).items()
        }
        | {
            "worker_processor": errors((each for each in passes if each["held_out"]), "worker_processor_s"),
            "workflow": errors(through),
        },
        "same_checkpoint": len(same) == len(lists),
        "predictions": [prediction(*each, lists, constants, solver) for each in PREDICTED],
        "memory_mb": memory(measured),
        "workflow": through,
        "fits": fits,
        "passes": passes,
        "machine": measured["machine"],
    }


APART = {"fitted": False, "held_out": True}


def kinds_of(passes: list[dict], fits: list[dict]) -> dict[str, list[dict]]:
    return {name: [each for each in passes if each["pass"] == name] for name in PASSES} | {"fit": fits}


Key = tuple
"""Workers, ps, Gbit/s, rows of the table, design, pass, rows of the pass, its calls."""


def setting_of(key: Key) -> tuple:
    return key[:3]


def cluster_of(run: Mapping[str, Any], cores: int | None) -> Cluster:
    return Cluster(run["workers"], run["ps"], run["gigabits"], cores)


def grouped(by_hand: Iterable[Mapping[str, Any]]) -> dict[Key, list[list[dict]]]:
    """The passes of one kind of all rounds: of each fit those in their order."""
    groups: dict[Key, list[list[dict]]] = {}
    for run in by_hand:
        for fit in run["fits"]:
            of_fit: dict[Key, list[dict]] = {}
            for each in fit["passes"]:
                key = run["workers"], run["ps"], run["gigabits"], fit["rows"], fit["design"]
                of_fit.setdefault((*key, each["pass"], each["rows"], each["calls"]), []).append(each)
            for key, passes in of_fit.items():
                groups.setdefault(key, []).append(passes)
    return groups


def work_of(one: Mapping[str, Any]) -> Work:
    return Work(tuple(one["sizes"]), one["coefficients"], one["rows"], one["calls"])


def of_passes(fits: list[list[dict]], cores: int, key: Key) -> list[Measurement]:
    """What the passes after the first took, if there are any, and what the first did."""
    cluster, work = Cluster(*setting_of(key), cores), work_of(fits[0][0])
    later, first = [each for passes in fits for each in passes[1:]], [passes[0] for passes in fits]
    return [
        Measurement(
            work,
            cluster,
            passes is first,
            statistics.median(each["seconds"] for each in passes),
            *(
                statistics.fmean(each[name] for each in passes)
                for name in ("worker_processor_s", "chief_processor_s", "ps_processor_s", "chief_out_bytes")
            ),
        )
        for passes in (later, first)
        if passes
    ]


def of_pass(
    key: Key, measured: Measurement, fits: list[list[dict]], constants: Constants, held_out: bool
) -> dict[str, Any]:
    """A line of the list of passes."""
    later, vector = [each for passes in fits for each in passes[1:]], 8.0 * sum(measured.work.sizes)
    plan = cost.plan_of(measured.work, measured.cluster.workers, measured.cluster.ps)
    return {
        **dict(zip(("workers", "ps", "gigabits", "rows", "design", "pass"), key, strict=False)),
        "calls": measured.work.calls,
        "vector_bytes": vector,
        "seconds": measured.seconds,
        "predicted_seconds": cost.seconds(measured.work, measured.cluster, constants),
        "chief_in_vectors": statistics.fmean(each["chief_in_bytes"] for each in later) / vector,
        "chief_processor_s": measured.chief_processor_s,
        "ps_processor_s": measured.ps_processor_s,
        "worker_processor_s": measured.workers_processor_s,
        "predicted_worker_processor_s": cost.worker_seconds(measured.work, plan, constants),
        "workers_with_work": later[-1]["workers_with_work"],
        "held_out": held_out,
    }


Solver = tuple[float, float]
"""Seconds of the chief besides passes: a fit, and for each number of each information matrix."""


def of_fits(by_hand: Sequence[Mapping], constants: Constants, cores: int, apart: set[Key]) -> tuple[list[dict], Solver]:
    """The fits, each the median of all rounds, with what is foretold, and what the chief does by itself."""
    rounds: dict[Key, list[dict]] = {}
    for run in by_hand:
        for fit in run["fits"]:
            rounds.setdefault((run["workers"], run["ps"], run["gigabits"], fit["rows"], fit["design"]), []).append(fit)
    middle = {key: sorted(fits, key=lambda fit: fit["seconds"])[(len(fits) - 1) // 2] for key, fits in rounds.items()}
    held_out = {key for key in middle if any(other[:5] == key for other in apart)}
    own = [
        (fit["seconds"] - sum(each["seconds"] for each in fit["passes"]), numbers_solved(fit["passes"]))
        for key, fit in middle.items()
        if key not in held_out
    ]
    rows = np.array([[1.0, numbers] for _, numbers in own])
    solver = cost.least_squares(rows, np.array([seconds for seconds, _ in own]), 10 * cost.SMALL)
    made = [
        {
            **dict(zip(("workers", "ps", "gigabits", "rows", "design"), key, strict=True)),
            "coefficients": fit["coefficients"],
            "seconds": fit["seconds"],
            "predicted_seconds": fit_seconds(fit["passes"], Cluster(*setting_of(key), cores), constants, tuple(solver)),
            "held_out": key in held_out,
        }
        for key, fit in middle.items()
    ]
    return made, (solver[0], solver[1])


def numbers_solved(passes: Iterable[Mapping[str, Any]]) -> float:
    """The numbers of all information matrices of a fit."""
    return float(sum(sum(each["sizes"]) for each in passes if each["pass"] == "information"))


def fit_seconds(passes: Sequence[Mapping], cluster: Cluster, constants: Constants, solver: Solver) -> float:
    """What a fit of these passes takes from the first one to the certificate."""
    total, known = solver[0] + solver[1] * numbers_solved(passes), set()
    for each in passes:
        kind = each["pass"], each["rows"]
        total += cost.seconds(work_of(each), cluster, constants, first=kind not in known)
        known.add(kind)
    return total


def prediction(
    workers: int, ps: int, gigabits: float, name: str, lists: Mapping, constants: Constants, solver: Solver
) -> dict:
    """What is to be expected where each process has a processor of its own, from the passes of the largest table measured."""
    rows = max(of_table for of_table, design in lists if design == name)
    passes = [larger(each, PREDICTED_ROWS / rows, lists[rows, name]) for each in lists[rows, name]]
    cluster = Cluster(workers, ps, gigabits)
    full = {each["pass"]: work_of(each) for each in passes if each["rows"] == PREDICTED_ROWS}
    of_stages = cost.stages(full["information"], cluster, constants)
    plan = cost.plan_of(full["information"], workers, ps)
    return {
        "workers": workers,
        "ps": ps,
        "gigabits": gigabits,
        "rows": PREDICTED_ROWS,
        "design": name,
        "fit_seconds": fit_seconds(passes, cluster, constants, solver),
        "solver_seconds": solver[0] + solver[1] * numbers_solved(passes),
        **{f"{kind}_seconds": cost.seconds(full[kind], cluster, constants) for kind in PASSES},
        **{f"{kind}_passes": sum(each["pass"] == kind for each in passes) for kind in PASSES},
        "stages": of_stages,
        "bytes_into_chief": 8 * cost.numbers_into_chief(full["information"], plan),
        "bytes_on_each_ps": 8 * cost.numbers_into_ps(full["information"], plan) / ps,
        "limited_by": max(of_stages, key=lambda stage: of_stages[stage]),
    }


def larger(one: Mapping[str, Any], times: float, passes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same pass over so many times the rows, cut as the engine would (`Workload._calls_of`)."""
    rows = round(one["rows"] * times)
    information = next(each for each in passes if each["pass"] == "information")
    calls = min(Cutting().calls(sum(each["sizes"]), rows) for each in (one, information))
    return {**one, "rows": rows, "calls": calls}


def memory(measured: Mapping[str, Any]) -> dict[str, Any]:
    """The most that chief and ps held in a fit through the workflow, by formula, MB; and over all fits by hand, where a process
    keeps what earlier fits needed."""
    by_design: dict[str, dict[str, float]] = {}
    for each in measured["by_workflow"]:
        known = by_design.setdefault(each["design"], {"chief": 0.0, "ps": 0.0})
        known["chief"] = max(known["chief"], each["chief_mb"])
        known["ps"] = max(known["ps"], *each["ps_mb"])
    peaks = [fit["peak_mb"] for run in measured["by_hand"] for fit in run["fits"]]
    return {"workflow": by_design, "by_hand": {role: max(max(peak[role]) for peak in peaks) for role in peaks[0]}}


def errors(lines: Iterable[Mapping[str, Any]], quantity: str = "seconds") -> dict[str, Any]:
    """How far what was foretold is from what was measured, as shares of the latter."""
    of_each = [float(each[f"predicted_{quantity}"]) / each[quantity] - 1 for each in lines]
    if not of_each:
        return {"number": 0}
    return {
        "number": len(of_each),
        "within_20_percent": sum(bool(abs(error) <= WITHIN) for error in of_each),
        "median": statistics.median(map(abs, of_each)),
        "lowest": min(of_each),
        "highest": max(of_each),
    }


def as_json(figures: Mapping[str, Any]) -> str:
    """As JSON, a line for each of what is listed."""

    def text(value: Any) -> str:
        if isinstance(value, list):
            return "[\n" + ",\n".join(f"  {json.dumps(rounded(each))}" for each in value) + "\n ]"
        return json.dumps(rounded(value))

    return "{\n" + ",\n".join(f" {json.dumps(key)}: {text(value)}" for key, value in figures.items()) + "\n}\n"


def rounded(value: Any) -> Any:
    """With four digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value
