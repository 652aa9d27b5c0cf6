"""Show the metrics of a model to a reader: a picture, and a page."""

import argparse
import html
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.report.pages import four_digits, page
from tfglm.report.plots import binomial_plot, mean_plot, nothing_plot, use_colour
from tfglm.results import read


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    found = digests.read_json(arguments.metrics)
    model, rows = found["model"], found["rows"]
    title = f"{model}: {rows:,} rows to {found['split']}"
    if not rows:
        nothing_plot(f"{model}: no rows to {found['split']}", arguments.plots)
    elif "auc" in found:
        binomial_plot(found, title, arguments.plots)
    else:
        mean_plot(found, title, arguments.plots)
    numbers = [
        (name.replace("_", " "), shown(value)) for name, value in found.items() if isinstance(value, int | float)
    ]
    tables = pd.DataFrame(numbers, columns=["metric", "value"]).to_html(index=False, border=0)
    for column, levels in found.get("by", {}).items():
        table = pd.DataFrame(levels).map(shown).rename(columns=lambda name: name.replace("_", " "))
        tables += f"<h2>By {html.escape(column)}</h2>" + table.to_html(index=False, border=0)
    arguments.page.write_text(page(title, unseen(found), tables, text_columns=1))


def shown(value: str | float | None) -> str:
    """A number as a reader wants it; metrics.json has all digits."""
    match value:
        case None:
            return ""
        case str():
            return value
        case int():
            return f"{value:,}"
        case float():
            return (
                ""
                if pd.isna(value)
                else f"{value:,.0f}"
                if value == round(value) and abs(value) >= 10
                else four_digits(value)
            )


def unseen(found: dict) -> str:
    """What to say of levels that no training row has."""
    sentences = [
        f"<p>{one['rows']:,} rows have levels of {html.escape(term)} that no training row has: "
        f"{html.escape(', '.join(one['levels']))}{', ...' if one['level_count'] > len(one['levels']) else ''}.</p>"
        for term, one in found["unseen"].items()
    ]
    return "".join(sentences)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--metrics", type=Path, required=True, help="what evaluate.py wrote")
    read.add_plots(parser)
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
