"""The section of docs/scaling.md on regressions over links, from results/links.json."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]

SHOWN = [(1_000_000, "wide"), (10_000_000, "narrow"), (10_000_000, "medium"), (10_000_000, "wide")]
"""Rows and formula of the fits that the page shows on all clusters."""

MEANINGS = {
    "row": ("a row and portion: reading it, its linear predictor and weight", "ns", "ROW"),
    "sum": ("a row, sum and doubling of its numbers, if they stay in a processor's caches", "ns", "SUM"),
    "outside": ("a row and sum, if its numbers do not stay there", "ns", "OUTSIDE"),
    "sent": ("a number of a result, on the worker", "ns", "SENT"),
    "worker_piece": ("a piece of work, on the worker", "ms", None),
    "received": ("a number that comes to the chief", "ns", "RECEIVED"),
    "piece": ("a piece of work, on the chief", "ms", "PIECE"),
    "chief_pass": ("a pass, on the chief", "ms", None),
    "added": ("a number that the ps add", "ns", "IN_SLOT"),
    "ps_piece": ("a piece of work, on the ps", "ms", None),
    "latency": ("other waits of a pass", "ms", None),
    "turn": ("waits of each turn of the workers", "ms", None),
    "asked": ("waits until the ps have added", "ms", "ASKED"),
    "first": ("the first pass of a kind, which is traced", "ms", None),
}
TIMES = {"ns": 1e9, "ms": 1e3}
LIMITS = {
    "send": "sending by the chief",
    "compute": "the rows",
    "transfer": "the links",
    "add": "adding on the ps",
    "fetch": "the chief's link",
    "receive": "the chief's processor",
}


def figures_of_links(links: Line, filled: Callable[[str], str]) -> str:
    """The section; `filled` breaks the lines of a paragraph."""
    paragraphs = [
        "## Regressions: more workers, more ps, faster links",
        filled(how_measured(links)),
        table_of_fits(links),
        filled(how_right(links)),
        filled(chief_and_workers(links)),
        table_of_constants(links),
        filled(how_predicted(links)),
        table_of_predictions(links),
        filled(what_limits(links)),
    ]
    return "\n\n".join(paragraphs) + "\n"


def how_measured(links: Line) -> str:
    machine, sizes = links["machine"], coefficients(links)
    of_designs = ", ".join(f"{size:,}" for size in sizes.values())
    return (
        f"`make bench-links` ([links.json](../benchmarks/results/links.json)) fits logistic regressions of {of_designs} "
        "coefficients to up to 10 million rows on simulated nodes: network namespaces of one machine, one for the chief, one for "
        "each ps and each worker. `tc` limits their links to 1 or 10 Gbit/s, both ways. A TCP stream has 0.93 to 0.96 of this. "
        f"They share {machine['cores']} cores (load before: {machine['load_average']:.1f}), so more workers are no faster here. "
        "The benchmark measures processor seconds by role, bytes and waits. From these a model of cost computes the "
        "seconds on separate cores. ps and workers start once, and one chief after another fits with some of them, by the "
        "workflow's scripts. Seconds run from the first pass to the certificate; the brackets have those of the model. The "
        f"model was fitted without the clusters marked with *, and without all fits of {sizes['medium']:,} coefficients to 1 "
        "million rows. These were chosen before this run, but after trial runs with 1 to 4 workers on a busy "
        "machine, which gave the model its form."
    )


def coefficients(links: Line) -> dict[str, int]:
    """By formula, those of the largest table."""
    largest = max(each["rows"] for each in links["fits"])
    return {each["design"]: each["coefficients"] for each in links["fits"] if each["rows"] == largest}


def settings(lines: Iterable[Line]) -> list[tuple]:
    """Workers, ps and link of each cluster, in order; no limit last."""
    known = {(each["workers"], each["ps"], each["gigabits"]) for each in lines}
    return sorted(known, key=lambda each: (each[0], each[1], each[2] or 1e9))


def one(lines: Iterable[Line], setting: Sequence, **wanted: Any) -> Line:
    """The line of a cluster that has these values."""
    wanted |= dict(zip(("workers", "ps", "gigabits"), setting, strict=True))
    return next(each for each in lines if all(each[key] == value for key, value in wanted.items()))


def rate(gigabits: float | None) -> str:
    return "memory" if gigabits is None else f"{gigabits} Gbit/s"


def table_of_fits(links: Line) -> str:
    sizes = coefficients(links)
    heads = [f"{rows // 10**6}M x {sizes[name]:,}" for rows, name in SHOWN]
    lines = [f"| workers | ps | link | {' | '.join(heads)} |", "|---" * (3 + len(heads)) + "|"]
    for setting in settings(links["fits"]):
        fits = [one(links["fits"], setting, rows=rows, design=name) for rows, name in SHOWN]
        mark = " *" if all(fit["held_out"] for fit in fits) else ""
        cells = [f"{fit['seconds']:.1f} ({fit['predicted_seconds']:.1f})" for fit in fits]
        lines.append(f"| {setting[0]}{mark} | {setting[1]} | {rate(setting[2])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def share(errors: Line) -> str:
    return f"{errors['within_20_percent']} of {errors['number']}"


def extremes(errors: Line) -> str:
    return f"the worst {100 * errors['lowest']:+.0f} and {100 * errors['highest']:+.0f} %"


def how_right(links: Line) -> str:
    errors = links["errors"]
    fit, information, gradient = (errors[kind]["held_out"] for kind in ("fit", "information", "gradient"))
    text = (
        f"On held-out clusters and fits, the model predicts within 20 % the seconds of {share(fit)} fits (median error "
        f"{100 * fit['median']:.0f} %, {extremes(fit)}), of {share(information)} information passes "
        f"(median {100 * information['median']:.0f} %) and of {share(gradient)} gradient passes (median "
        f"{100 * gradient['median']:.0f} %), and the processor seconds of the workers "
        f"in {share(errors['worker_processor'])} passes."
    )
    if errors["workflow"]["number"]:
        each = [
            f"{fit['rows'] // 10**6}M x {fit['coefficients']:,} with {fit['workers']} workers and {fit['ps']} ps at "
            f"{rate(fit['gigabits'])} took {fit['seconds']:.1f} s ({fit['predicted_seconds']:.1f})"
            for fit in links["workflow"]
        ]
        text += (
            f" Fits through the workflow, with `--profile slurm`, share a node between chief and ps: {'; '.join(each)}."
        )
    missed = [kind for kind in ("fit", "information", "gradient") if not reached(errors[kind]["held_out"])]
    return f"{text} The aim, 20 % for all held-out fits and passes, was {'missed' if missed else 'reached'}."


def reached(errors: Line) -> bool:
    return errors["within_20_percent"] == errors["number"]


def chief_and_workers(links: Line) -> str:
    passes, sizes = [each for each in links["passes"] if each["pass"] == "information"], coefficients(links)
    most = {
        name: max((each for each in passes if each["design"] == name), key=lambda each: each["chief_in_vectors"])
        for name in sizes
    }
    workers = sorted({each["workers"] for each in passes})
    large = [each for each in links["passes"] if each["rows"] == 10_000_000]
    busy: dict[int, set[str]] = {}
    for each in large:
        if each["workers_with_work"] < each["workers"]:
            what = f"{each['pass']} passes of {sizes[each['design']]:,} coefficients"
            busy.setdefault(each["workers_with_work"], set()).add(what)
    kept = "; ".join(f"{some} in {', '.join(sorted(kinds))}" for some, kinds in sorted(busy.items()))
    memory = links["memory_mb"]["workflow"]
    of_each = "; ".join(
        f"with {sizes[name]:,} coefficients {peaks['chief'] / 1000:.2f} and {peaks['ps'] / 1000:.2f} GB"
        for name, peaks in sorted(memory.items(), key=lambda item: sizes[item[0]])
    )
    received = "; ".join(
        f"of {sizes[name]:,} coefficients at most {one['chief_in_vectors']:.2f} times "
        f"the {one['vector_bytes'] / 1e6:.2g} MB of one"
        for name, one in sorted(most.items(), key=lambda item: -sizes[item[0]])
    )
    work = (
        f"some passes give work to only a limited number of workers: {kept}. In all other passes every worker has work"
        if busy
        else "every worker has work"
    )
    return (
        f"With {workers[0]} to {workers[-1]} workers the chief receives in an information pass {received} vector (the aim was "
        f"1.2). At 10 million rows {work}. "
        + (f"Through the workflow the chief and a ps hold at most: {of_each}. " if memory else "")
        + f"All fits of a model had {'' if links['same_checkpoint'] else 'not '}the same coefficients, bit for bit."
    )


def table_of_constants(links: Line) -> str:
    lines = ["| seconds of | fitted | in `engine/division.py` then |", "|---|---|---|"]
    for name, (meaning, unit, of_engine) in MEANINGS.items():
        if links["constants"][name]:
            known = f"{TIMES[unit] * links['constants_of_the_engine'][of_engine]:.3g} {unit}" if of_engine else ""
            lines.append(f"| {meaning} | {TIMES[unit] * links['constants'][name]:.3g} {unit} | {known} |")
    return "\n".join(lines)


def how_predicted(links: Line) -> str:
    first = links["predictions"][0]
    return (
        f"The same model predicts the seconds for {first['rows'] / 1e9:.1f} billion rows on a cluster with a core for "
        "each process, if all files have one signature and a fit takes as many passes as with 10 million rows. Nothing of "
        "this size was measured. A slow file system for the shards adds to the seconds."
    )


def table_of_predictions(links: Line) -> str:
    sizes = coefficients(links)
    lines = [
        "| coefficients | workers | ps | link | information pass, s | gradient pass, s | fit, s | mostly limited by |",
        "|---" * 8 + "|",
    ]
    for each in links["predictions"]:
        lines.append(
            f"| {sizes[each['design']]:,} | {each['workers']} | {each['ps']} | {rate(each['gigabits'])} "
            f"| {each['information_seconds']:.1f} | {each['gradient_seconds']:.1f} | {each['fit_seconds']:.0f} "
            f"| {LIMITS[each['limited_by']]} |"
        )
    return "\n".join(lines)


def what_limits(links: Line) -> str:
    wide = [each for each in links["predictions"] if each["design"] == "wide" and each["workers"] == 64]
    parts = []
    for each in wide:
        stages = ", ".join(f"{LIMITS[name]} {seconds:.1f} s" for name, seconds in each["stages"].items() if seconds)
        parts.append(f"at {rate(each['gigabits'])} {stages}")
    first = wide[0]
    on_ps = (
        f", and each ps holds {first['bytes_on_each_ps'] / 1e6:,.0f} MB of them" if first["bytes_on_each_ps"] else ""
    )
    return (
        f"An information pass of {coefficients(links)['wide']:,} coefficients with 64 workers consists of: {'; '.join(parts)}. "
        "Stages may overlap if workers have several turns. In this pass the chief receives "
        f"{first['bytes_into_chief'] / 1e6:,.0f} MB of sums{on_ps}. Besides its passes a fit takes "
        f"{first['solver_seconds']:.1f} s to solve on the chief."
    )
