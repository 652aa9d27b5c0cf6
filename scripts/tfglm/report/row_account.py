"""The account of the rows: a picture, and a page with a line for each file."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tfglm.config import SPLITS
from tfglm.data.kinds import MEANINGS
from tfglm.errors import short
from tfglm.report.drawing import COLOURS, TITLE_HEIGHT, Picture, literal
from tfglm.report.embedded import panels
from tfglm.report.pages import render

HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")

LONGEST_NAME, LETTER = 30, 0.068
"""Letters of the name of a file, and inches per letter."""

WIDTH, LEGEND_COLUMNS = 6.8, 3

MOST_REASONS = 8
"""Further reasons share a column; rows.json has them all."""

MOST_SHOWN = 5
"""Groups of levels that look the same; rows.json has them all."""


def draw(account: dict, plots: Sequence[Path]) -> None:
    """Draw what became of the rows of each file, a bar for each, in the formats of these files."""
    outcomes = outcomes_of(account["files"])
    names = [short(str(name), LONGEST_NAME) for name in outcomes.index]
    margin = 0.25 + LETTER * max(map(len, names))
    legend = 0.2 * -(-outcomes.shape[1] // LEGEND_COLUMNS) + 0.1
    height = 0.3 + 0.28 * len(outcomes)
    picture = Picture("Where the rows went", WIDTH, TITLE_HEIGHT + legend + height + 0.5)
    panel = picture.panel(0, TITLE_HEIGHT, WIDTH, legend + height + 0.5)
    axes = panel.add_axes(margin, legend, WIDTH - margin - 0.3, height)
    across, up = picture.figure.get_size_inches()
    left = np.zeros(len(outcomes))
    place = np.arange(len(outcomes))
    for number, name in enumerate(outcomes):
        width = outcomes[name].to_numpy(float)
        axes.barh(
            place,
            width,
            left=left,
            height=0.7,
            label=literal(name),
            color=COLOURS[number % len(COLOURS)],
            hatch=HATCHES[number // len(COLOURS) % len(HATCHES)],
            edgecolor="white",
            linewidth=0.5,
        )
        left = left + width
    axes.set_yticks(place, [literal(name) for name in names])
    axes.set_ylim(len(outcomes) - 0.4, -0.6)
    axes.set_xlabel("rows")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=((panel.left + 0.1) / across, 1 - panel.top / up),
        bbox_transform=picture.figure.transFigure,
        ncols=LEGEND_COLUMNS,
        borderaxespad=0,
    )
    for row, (name, counts) in enumerate(outcomes.iterrows()):
        tip = "; ".join(f"{what}: {rows:,.0f}" for what, rows in counts.items() if rows)
        panel.tip(axes, (0, axes.get_xlim()[1]), (row - 0.5, row + 0.5), f"{name}: {tip}")
    picture.write(plots)


def page(account: dict, picture: Path) -> str:
    """Return the page with the account of rows.json and its picture, an SVG."""
    several = len(account["files"]) > 1
    files = table(account["files"] | ({"all files": account} if several else {}))
    sentences = [*text(account), types(account["columns"])]
    return render("rows", sentences=sentences, files=files, has_total=several, picture=panels(picture))


def table(accounts: dict[str, dict]) -> pd.DataFrame:
    """A line for each account: the rows read, dropped by reason, and used by split, as text.

    The reasons come by their numbers of rows in the last account. What happened to no row has no column.
    """
    used, dropped = used_and_dropped(accounts)
    dropped = dropped.loc[:, dropped.any()].sort_values(len(dropped) - 1, axis=1, ascending=False, kind="stable")
    others = dropped.columns[MOST_REASONS:]
    if len(others) > 1:
        shown = dropped.drop(columns=others)
        dropped = shown.assign(**{f"{len(others)} other reasons": dropped[others].sum(axis=1)})
    read = pd.DataFrame({"read": [account["read"] for account in accounts.values()]})
    numbers = pd.concat({"": read, "dropped": dropped, "used to": used.loc[:, used.any()]}, axis=1)
    written = numbers.map(lambda rows: f"{rows:,.0f}" if rows else "–")
    written.insert(0, ("", "file"), list(accounts))
    return written


def outcomes_of(accounts: dict[str, dict]) -> pd.DataFrame:
    """What became of the rows of each file, [files, uses and reasons], the rarer reasons together."""
    used, dropped = used_and_dropped(accounts)
    dropped = dropped[dropped.sum().sort_values(ascending=False, kind="stable").index].rename(
        columns="dropped, {}".format
    )
    few = dropped.columns[3:]
    shown = dropped.drop(columns=few).assign(**({"dropped, other": dropped[few].sum(axis=1)} if len(few) else {}))
    shares = pd.concat([used, shown], axis=1).set_axis(list(accounts))
    return shares.loc[:, shares.sum() > 0]


def used_and_dropped(accounts: dict[str, dict]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of each account, used by split, and dropped by reason."""
    used = [{split: account["splits"][split]["used"] for split in SPLITS} for account in accounts.values()]
    return pd.DataFrame(used), pd.DataFrame([reasons(account) for account in accounts.values()]).fillna(0)


def reasons(account: dict) -> dict[str, int]:
    """Return the dropped rows by reason, for all splits."""
    parts = (account["dropped"], *(split["dropped"] for split in account["splits"].values()))
    total: Counter[str] = Counter()
    for part in parts:
        total.update({reason.replace(",", ", "): rows for reason, rows in part.items()})
    return total


def text(account: dict) -> list[str]:
    """Describe the table in sentences, and list the merged levels."""
    used = sum(split["used"] for split in account["splits"].values())
    others = " The others were dropped, and each is counted under one reason; one that lacks several values, under all names."
    sentences = [f"Of {account['read']:,} rows read, {used:,} are used.{others if used < account['read'] else ''}"]
    if account.get("subsets"):
        sentences.append("A model with a `subset` uses only some of these; its part of the first page counts them.")
    for column, rare in account["rare"].items():
        sentences.append(
            f"The {rare['levels']:,} rarest levels of {column}, {rare['rows']:,} training rows together, are one level, (rare)."
        )
    for column, groups in account.get("alike", {}).items():
        shown = "; ".join(
            " and ".join(f"{visible(level)} ({rows:,} training rows)" for level, rows in group)
            for group in groups[:MOST_SHOWN]
        )
        others = f"; and {len(groups) - MOST_SHOWN:,} more groups" if len(groups) > MOST_SHOWN else ""
        sentences.append(
            f"Levels of {column} look the same and are not: {shown}{others}. To merge them, use a column that is "
            f"NORMALIZE(TRIM({column})) under data.derive; correct characters without a shape in the file."
        )
    return sentences


def visible(level: str) -> str:
    """A level in quotes, with escapes for what cannot be seen: a letter in two parts, or a character without a shape."""
    return repr(level) if level.isprintable() and unicodedata.is_normalized("NFC", level) else ascii(level)


def types(columns: dict[str, str]) -> str:
    """Which columns hold text and which numbers, read or derived, and what that means in a formula."""
    by_kind: dict[str, list[str]] = {}
    for name, kind in columns.items():
        by_kind.setdefault(MEANINGS[kind], []).append(name)
    listed = "; ".join(f"{meaning}: {', '.join(names)}" for meaning, names in by_kind.items())
    return f"The columns hold {listed}. A number is a factor only where a formula says C(...)."
