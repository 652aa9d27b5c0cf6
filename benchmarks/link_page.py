"""The section of docs/scaling.md on regressions over links, from results/links.json."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]

SHOWN = [(1_000_000, "wide"), (10_000_000, "narrow"), (10_000_000, "medium"), (10_000_000, "wide")]
"""Rows and formula of the fits that the page shows on all clusters."""


def figures_of_links(links: Line, filled: Callable[[str], str]) -> str:
    """The section; `filled` breaks the lines of a paragraph."""
    paragraphs = [
        "## Regressions: more workers, more ps, faster links",
        filled(how_measured(links)),
        table_of_fits(links),
        filled(how_right(links)),
        filled(chief_and_workers(links)),
        filled(how_predicted(links)),
        table_of_predictions(links),
    ]
    return "\n\n".join(paragraphs) + "\n"


def how_measured(links: Line) -> str:
    machine = links["machine"]
    return (
        "`make bench-links` ([links.json](../benchmarks/results/links.json)) fits logistic regressions on simulated nodes: "
        "network namespaces of one machine, one for the chief, each ps and each worker. `tc` limits their links, both ways. "
        f"They share {machine['cores']} cores, so more workers are no faster here. Seconds of fits, to the certificate:"
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
    clusters = settings(links["fits"])
    largest = {(workers, gigabits): ps for workers, ps, gigabits in clusters}
    for setting in [each for each in clusters if each[2] and each[1] == largest[each[0], each[2]]]:
        fits = [one(links["fits"], setting, rows=rows, design=name) for rows, name in SHOWN]
        cells = [f"{fit['seconds']:.1f}" for fit in fits]
        lines.append(f"| {setting[0]} | {setting[1]} | {rate(setting[2])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def how_right(links: Line) -> str:
    errors = links["errors"]
    fit, information, gradient = (errors[kind]["held_out"] for kind in ("fit", "information", "gradient"))
    return (
        "A model of cost, fitted to the processor seconds by role, bytes and waits of other clusters and fits, predicts within "
        f"20 % the seconds of {share(fit)} fits (median error {100 * fit['median']:.0f} %, {extremes(fit)}), of "
        f"{share(information)} information passes and of {share(gradient)} gradient passes. The aim was all of them."
    )


def share(errors: Line) -> str:
    return f"{errors['within_20_percent']} of {errors['number']}"


def extremes(errors: Line) -> str:
    return f"the worst {100 * errors['lowest']:+.0f} and {100 * errors['highest']:+.0f} %"


def chief_and_workers(links: Line) -> str:
    passes, sizes = [each for each in links["passes"] if each["pass"] == "information"], coefficients(links)
    most = {
        name: max((each for each in passes if each["design"] == name), key=lambda each: each["chief_in_vectors"])
        for name in sizes
    }
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
    return (
        f"With up to {max(each['workers'] for each in passes)} workers the chief receives in an information pass "
        f"{received} vector. "
        + (f"The chief and a ps hold at most: {of_each}. " if memory else "")
        + f"All fits of a model had {'' if links['same_checkpoint'] else 'not '}the same coefficients, bit for bit."
    )


def how_predicted(links: Line) -> str:
    first = links["predictions"][0]
    return (
        f"The model predicts these seconds of a fit to {first['rows'] / 1e9:.1f} billion rows on a cluster with a core for "
        "each process, if a fit takes as many passes as with 10 million rows. Nothing of this size was measured."
    )


def table_of_predictions(links: Line) -> str:
    sizes, predictions = coefficients(links), links["predictions"]
    clusters = settings(predictions)
    heads = [f"{workers} workers, {ps} ps, {rate(gigabits)}" for workers, ps, gigabits in clusters]
    lines = [f"| coefficients | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for name, size in sizes.items():
        cells = [f"{one(predictions, cluster, design=name)['fit_seconds']:.0f}" for cluster in clusters]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines)
