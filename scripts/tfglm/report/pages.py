"""Tables for readers: pages of their own, to read in a browser or in the report, and how numbers are written there."""

import html
from pathlib import Path

import pandas as pd

from tfglm.results import csv_files

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
thead {{ position: sticky; top: 0; background: white }}
th {{ text-align: right; vertical-align: bottom; padding: .3em .7em; max-width: 9em }}
thead tr:first-child:not(:last-child) th {{ text-align: center; max-width: none; padding-bottom: 0 }}
thead tr:first-child:not(:last-child) th:not(:empty) {{
  background: linear-gradient(#999, #999) bottom/calc(100% - 1.4em) 1px no-repeat
}}
thead tr:last-child th {{ border-bottom: 2px solid #555 }}
td {{ text-align: right; padding: .12em .7em; border-bottom: 1px solid #eee; white-space: nowrap }}
table.remarks th:last-child, table.remarks td:last-child {{ text-align: left; white-space: normal }}
tr.total td {{ border-top: 2px solid #555; font-weight: bold }}
tr.rule td {{ border-top: 2px solid #555 }}
th:nth-child(-n+{text_columns}), td:nth-child(-n+{text_columns}) {{ text-align: left }}
p.warning {{ border-left: .3em solid #d55e00; background: #fff3ea; padding: .4em .8em }}
</style></head><body><h1>{title}</h1>{text}{table}</body></html>
"""


def page(title: str, text: str, table: str, text_columns: int) -> str:
    """A page with a title, some HTML and a table in HTML, of which the first columns hold text and are aligned left.

    A first row of two in the table's head names groups of columns.
    """
    return PAGE.format(title=html.escape(title), text=text, table=table, text_columns=text_columns)


TEXTS = ["term", "level", "reference", "status", "aliased_with", "note"]
"""Columns of a table of coefficients that are no numbers."""


def read_table(path: Path) -> pd.DataFrame:
    """A table of coefficients from its CSV; names are text, also where a level is called NA. Raises UserError if it has changed
    since it was written."""
    return csv_files.read(path, TEXTS)


def four_digits(value: float) -> str:
    """Four decimals, or where the number is small three digits that count."""
    return f"{value:.4f}" if abs(value) >= 0.1 or value == 0 else f"{value:#.3g}"
