"""Writes the tutorial and the pictures of docs/ from a finished run; `--check` only sees whether they agree with it."""

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd
from PIL import Image, PngImagePlugin

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent
TUTORIAL, PICTURE, HOME = DOCS / "tutorial.md", DOCS / "late_arrival.png", DOCS / "home.png"
MODEL = "late_arrival"
SHOWN = {"carrier": "EV", "origin": "JFK", "C(month)": "7", "dep_hour": ""}
"""Terms and levels in the table of the tutorial, if the model has them."""

WIDTH, HEIGHT = 1100, 775
"""Of the picture of the home page, in pixels."""


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def counted(dropped: dict[str, int]) -> list[tuple[str, str]]:
    return [(reason, f"{count:,}") for reason, count in dropped.items() if count]


def lines(table: pd.DataFrame) -> list[dict]:
    """The rows of the table of the tutorial."""
    effects = table.loc[[key for key in SHOWN.items() if key in table.index]].reset_index()
    interval = effects[["ci_lower", "ci_upper"]].pipe(np.exp)
    return [
        {
            "term": row.term,
            "level": row.level,
            "reference": row.reference,
            "ratio": f"{row.odds_ratio:.2f}",
            "low": f"{low:.2f}",
            "high": f"{high:.2f}",
            "p": f"{row.p_value:.1g}",
            "percent": f"{100 * abs(row.odds_ratio - 1):.0f}",
            "direction": "higher" if row.odds_ratio > 1 else "lower",
            "low_percent": f"{100 * min(abs(low - 1), abs(high - 1)):.0f}",
            "high_percent": f"{100 * max(abs(low - 1), abs(high - 1)):.0f}",
        }
        for row, (low, high) in zip(effects.itertuples(), interval.to_numpy(), strict=True)
    ]


def figures(results: Path) -> dict[str, object]:
    """What the tutorial quotes of a run."""
    model = results / "models" / MODEL
    rows, fit, metrics = (
        json.loads(path.read_text())
        for path in (results / "data" / "rows.json", model / "fit.json", model / "metrics.json")
    )
    text = {"level": str, "reference": str, "status": str}
    table = pd.read_csv(model / "coefficients.csv", dtype=text).fillna(dict.fromkeys(text, ""))
    ratios = table["std_error"] / table["classical_std_error"]
    widest = table.loc[ratios.idxmax()]
    shown = lines(table.set_index(["term", "level"]))
    observed = metrics["mean_response"]
    return {
        "read": f"{rows['read']:,}",
        "dropped": counted(rows["dropped"]),
        "train": f"{rows['splits']['train']['used']:,}",
        "evaluate": f"{rows['splits']['evaluate']['used']:,}",
        "formula": fit["formula"],
        "shown": shown,
        "first": shown[0],
        "clusters": f"{fit['std_errors']['clusters']:,}",
        "widest": {
            "term": widest["term"],
            "level": widest["level"],
            "ratio": f"{ratios.max():.1f}",
            "std_error": f"{widest['std_error']:.3f}",
            "classical": f"{widest['classical_std_error']:.3f}",
        },
        "warnings": fit["warnings"],
        "separated": table[table["status"] == "separated"].to_dict("records"),
        "converged": str(fit["converged"]).lower(),
        "within": f"{10.0 ** math.ceil(math.log10(fit['certificate']['within_standard_errors'])):.0e}",
        "auc": f"{metrics['auc']:.3f}",
        "accuracy": percent(metrics["accuracy"]),
        "baseline": percent(max(observed, 1 - observed)),
        "useless": metrics["accuracy"] <= max(observed, 1 - observed),
        "observed": percent(observed),
        "predicted": percent(metrics["mean_prediction"]),
    }


def tutorial(results: Path) -> str:
    """The text of the tutorial."""
    loader = jinja2.FileSystemLoader(HERE)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.get_template("tutorial.md.j2").render(figures(results))


def shows(results: Path) -> str:
    """What a picture of the model shows, in words that stay the same however it is drawn, and on any processor."""
    fit = json.loads((results / "models" / MODEL / "fit.json").read_text())
    return f"{fit['formula']}; log-likelihood {fit['log_likelihood']:.3f}"


def shown(picture: Path) -> str | None:
    """What a picture says that it shows."""
    with Image.open(picture) as image:
        return image.info.get("shows")


def keep(picture: Path, target: Path, words: str) -> None:
    """Copy a picture into the documentation, with what it shows."""
    info = PngImagePlugin.PngInfo()
    info.add_text("shows", words)
    with Image.open(picture) as image:
        image.save(target, pnginfo=info, optimize=True)


def photograph(page: Path, target: Path, words: str) -> None:
    """Take a picture of a page in a browser. Ends the program if there is none."""
    browser = shutil.which("chromium") or sys.exit("chromium is needed to take a picture of the results' home page")
    with tempfile.TemporaryDirectory() as folder:
        taken = Path(folder) / "page.png"
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
        subprocess.run([browser, *options, f"--screenshot={taken}", page.resolve().as_uri()], check=True, timeout=120)
        keep(taken, target, words)


def main(arguments: argparse.Namespace) -> None:
    text, words = tutorial(arguments.results), shows(arguments.results)
    if arguments.check:
        stale = [path.name for path in (PICTURE, HOME) if shown(path) != words]
        stale += [] if TUTORIAL.read_text() == text else [TUTORIAL.name]
        sys.exit(f"docs/ shows another run: {', '.join(stale)}; run `make docs-pictures`" if stale else 0)
    TUTORIAL.write_text(text)
    keep(arguments.results / "models" / MODEL / "coefficients.png", PICTURE, words)
    photograph(arguments.home, HOME, words)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/flights"), help="of a finished default run")
    parser.add_argument(
        "--home", type=Path, default=Path("results/flights/index.html"), help="its page to take a picture of"
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    main(parser.parse_args())
