"""The lines that a run prints at its end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfglm.errors import counted
from tfglm.workflow.plan import Plan
from tfglm.workflow.targets import Targets

WORTH_TIDYING = 100_000_000
"""Bytes of unused shards below which nobody wants to hear of them."""

MOST_NAMED = 10
"""Files of an earlier config that are named."""


def lines(plan: Plan, targets: Targets) -> Iterator[str]:
    """Return the lines at the end of a run without errors."""
    results, rules = plan.paths.results, {job.rule.name for job in plan.workflow.dag.jobs}
    # If the run made the first page, everything on it is from this config.
    if "write_home" in rules:
        yield ""
        for name in plan.fit:
            yield headline(plan, name)
        yield f"The page to open: {results}/index.html"
    elif any(Path(target).exists() for target in targets.models()):
        compared = [f"{results}/compare.html", f"{results}/compare.docx"]
        beside = "".join(f", {path}" for path in compared if Path(path).exists())
        yield f"The results are in {results}/models/{beside}; {results}/data/rows.json accounts for every row."
    unused = (file for folder in plan.unused_shards() for file in folder.rglob("*") if file.is_file())
    if "score" in rules:
        yield f"The scores are in {', '.join(targets.scores())}."
        yield f"The page to open: {results}/scores.html"
    # Each file to score leaves shards, and who scores many files need not hear it each time.
    elif (size := sum(file.stat().st_size for file in unused)) >= WORTH_TIDYING:
        yield (
            f"There are {size / 1e6:,.0f} MB of shards that this config does not use, from another config or an earlier"
            f" version of this one: `{plan.command(target='tidy')}` deletes them."
        )
    if left := targets.left_over():
        more = f" and {len(left) - MOST_NAMED:,} more" if len(left) > MOST_NAMED else ""
        yield (
            f"Not asked for by this config, so perhaps of an earlier fit: {', '.join(map(str, left[:MOST_NAMED]))}{more}."
            " Delete what you do not need."
        )


def headline(plan: Plan, name: str) -> str:
    """Return the result of a model, in a line."""

    def read(file: str) -> dict[str, Any]:
        return json.loads(Path(plan.paths.of(name, file)[0]).read_text(encoding="utf-8"))

    fit = read("fit.json")
    metrics: dict[str, Any] = read("metrics.json") if plan.config.data.split.evaluate else {}
    what = "coefficient" if "coefficients" in fit else "parameter"
    failed = "" if fit.get("converged", True) else ", did NOT converge"
    family = fit["family"].replace("_", " ")
    text = f"{name}: {family}, {fit['rows']:,} rows, {counted(fit[f'{what}s'], what)}{failed}"
    if not metrics.get("rows"):
        return text
    quality = []
    for key, words in {"auc": "AUC", "r_squared": "R squared"}.items():
        if metrics.get(key) is not None:
            quality.append(f"{words} {metrics[key]:.4f}")
    if metrics.get("d_squared") is not None:
        quality.append(f"deviance explained {100 * metrics['d_squared']:.1f} %")
    if "accuracy" in metrics:
        mean = metrics.get("mean_response", 0.0)
        alone = metrics["null_accuracy"] if "null_accuracy" in metrics else max(mean, 1 - mean)
        share = f"accuracy {100 * metrics['accuracy']:.1f} %"
        quality.append(f"{share} (the most frequent outcome alone has {100 * alone:.1f} %)")
    return f"{text}; on {metrics['rows']:,} rows kept back {', '.join(quality) or 'see metrics.html'}"
