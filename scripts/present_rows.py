"""Show the account of the rows to a reader: a page with a line for each file."""

import argparse
import html
import json
from pathlib import Path

import pandas as pd

from tfglm import command
from tfglm.config import SPLITS
from tfglm.results.pages import page


def main(arguments: argparse.Namespace) -> None:
    account = json.loads(arguments.rows.read_text())
    table = pd.DataFrame([line(name, one) for name, one in account["files"].items()])
    if len(table) > 1:
        table = pd.concat([table, pd.DataFrame([line("all files", account)])])
    table = table.fillna(0)
    # What happened to no row at all needs no column.
    table = table.loc[:, ["file", "read", *(name for name in table.columns[2:] if table[name].any())]]
    table = table.sort_index(axis=1, key=lambda names: names.map(rank), kind="stable")
    rows = table.to_html(index=False, border=0, formatters=dict.fromkeys(table.columns[1:], "{:,.0f}".format))
    if len(account["files"]) > 1:
        before, last, after = rows.rpartition("<tr>")
        rows = before + last.replace("<tr>", '<tr class="total">') + after
    arguments.page.write_text(page("Rows accounted for", text(account), rows, text_columns=1))


def line(name: str, account: dict) -> dict[str, str | int]:
    """One line of the table: the rows of one file by what became of them."""
    splits = account["splits"]
    dropped = {f"dropped, {reason}": rows for reason, rows in account["dropped"].items()}
    for split, one in splits.items():
        dropped |= {f"dropped from {split}, {reason}": rows for reason, rows in one["dropped"].items()}
    used = {f"used to {split}": splits[split]["used"] for split in SPLITS}
    return {"file": name, "read": account["read"], **dropped, **used}


def rank(column: str) -> int:
    """The order of the columns: rows read, dropped, used."""
    return next(number for number, start in enumerate(("file", "read", "dropped", "used")) if column.startswith(start))


def text(account: dict) -> str:
    """What the table says in a sentence, and which levels were lumped."""
    used = sum(one["used"] for one in account["splits"].values())
    sentences = [
        f"Of {account['read']:,} rows read, {used:,} are used; every other one is counted under why it is not."
    ]
    for column, rare in account["rare"].items():
        sentences.append(
            f"The {rare['levels']:,} rarest levels of {column}, {rare['rows']:,} training rows together, are one level, (rare)."
        )
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="what merge_dictionary.py wrote")
    parser.add_argument("--page", type=Path, required=True, help="page to write (HTML)")
    command.run(main, parser.parse_args())
