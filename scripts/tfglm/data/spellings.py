"""SQL as users of R, pandas and other databases write it: translated where it means one thing, and else refused with the SQL to
write.

`ifelse(a, b, c)` is missing where `a` is, and `x %in% c(...)` is false where `x` is missing, both as in R.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tfglm.errors import UserError

TOKENS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\s+|[^\W\d]\w*(?:\.[^\W\d]\w*)*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*|%in%|%%|%/%"""
    r"""|&&|\|\||!~~?\*?|~~\*?|~\*|<=>|\^@|[!<>=]=|<>|\*\*|//|::|.""",
    re.DOTALL,
)

SIGNS = {"&": "AND", "&&": "AND", "|": "OR", "!": "NOT"}
CALLS = {
    **dict.fromkeys(("is.na", "isna", "isnull", "pd.isna", "pd.isnull"), "({0} IS NULL)"),
    **dict.fromkeys(("notna", "notnull", "pd.notna", "pd.notnull"), "({0} IS NOT NULL)"),
    **dict.fromkeys(("ifelse", "if_else"), "(CASE WHEN {0} THEN {1} WHEN NOT ({0}) THEN {2} END)"),
}
"""The SQL for functions of R and pandas, with their arguments."""

FOREIGN = re.compile(rf"(?i)[&|!~]|%in%|\b(?:{'|'.join(map(re.escape, CALLS))})\s*\(")
"""What a text has at least that is translated."""

WORDS = {
    r"\b(current_date|current_time|current_timestamp|localtime|localtimestamp|now(?= ?\())\b": (
        "depends on the time of the run ({}), so no two runs would agree",
        "write the date itself, as in DATE('2008-06-01', '%Y-%m-%d')",
    ),
    r"\b(is (?:not )?(?:true|false))\b": (
        "has {}, which would be missing for a missing value",
        "write COALESCE(..., FALSE)",
    ),
    r"(?<![=!<>]) ?(=|==|<>|!=) ?null\b": (
        "has {} with a missing value, which is missing for every row",
        "write IS NULL or IS NOT NULL",
    ),
    r"\b(?:np\.)?(log)(?= ?\()": (
        "has {}, the natural logarithm in R and numpy, to base 10 in DuckDB and PostgreSQL, and to a base before or after the "
        "number in others",
        "write LN(number), LOG10(number), LOG2(number), or LN(number) / LN(base)",
    ),
    r"\b(xor|bit_and|bit_or)\b": (
        "has {}, and bits are not joined here",
        "write (...) <> (...) for one of two conditions, and flags // 4 % 2 = 1 for the third bit of a number",
    ),
}
"""Words that polars replaces by their value, or takes otherwise than SQL or the user, so that its expression does not show them;
with the reason to refuse them and the remedy."""

DAYS_BETWEEN = "CAST(later AS BIGINT) - CAST(earlier AS BIGINT), in days,"
"""The SQL for the difference of two dates, each a column or DATE '2024-01-31'."""

OURS = {
    **dict.fromkeys(("date_diff", "datediff", "difftime", "timestampdiff", "age"), DAYS_BETWEEN),
    **dict.fromkeys(("julian", "to_days"), "CAST({0} AS BIGINT), the days since 1970-01-01,"),
    "as.numeric": "TRY_CAST({0} AS DOUBLE)",
    "as.integer": "TRY_CAST({0} AS BIGINT)",
    "as.character": "CAST({0} AS VARCHAR)",
    "as.logical": "CAST({0} AS BOOLEAN)",
    "as.date": "DATE({0}, '%Y-%m-%d')",
    "to_datetime": "DATE({0}, '%Y-%m-%d')",
    "int": "CAST({0} AS BIGINT)",
    "float": "CAST({0} AS DOUBLE)",
    "str": "CAST({0} AS VARCHAR)",
    "where": "IF({*})",
    "case_when": "CASE WHEN ... THEN ... ELSE ... END",
    "cut": "CASE WHEN {0} < 10 THEN 'low' ELSE 'high' END",
    "pmin": "LEAST({*}), which leaves missing values out,",
    "pmax": "GREATEST({*}), which leaves missing values out,",
    "min": "LEAST({*})",
    "max": "GREATEST({*})",
    "minimum": "LEAST({*})",
    "maximum": "GREATEST({*})",
    "between": "{0} BETWEEN {1} AND {2}",
    "isin": "{0} IN (...)",
    "is.nan": "{0} IS NULL",
    "isnan": "{0} IS NULL",
    "is.null": "{0} IS NULL",
    "nvl": "COALESCE({*})",
    "fillna": "COALESCE({0}, ...)",
    "nchar": "LENGTH({0})",
    "len": "LENGTH({0})",
    "toupper": "UPPER({0})",
    "tolower": "LOWER({0})",
    "trimws": "TRIM({0})",
    "paste": "{||}",
    "paste0": "{||}",
    "grepl": "REGEXP_LIKE({1}, {0})",
    "str_detect": "REGEXP_LIKE({*})",
    "startswith": "STARTS_WITH({*})",
    "endswith": "ENDS_WITH({*})",
    "gsub": "REPLACE({2}, {0}, {1})",
    "sub": "REPLACE({2}, {0}, {1})",
    "random": "the column random",
    "rand": "the column random",
    "c": "a list in parentheses, as in IN ({*})",
    "^": "POWER(x, 2)",
    "**": "POWER(x, 2)",
    "%%": "x % 7, which has the sign of x,",
    "%/%": "FLOOR(x / 7)",
    "%in%": "IN ('a', 'b')",
    "||": "OR, as || joins texts,",
    "$": "the name of the column alone",
    "[": "a list in parentheses, as in IN ('a', 'b')",
}
"""The SQL for functions and signs of R and Python, with their arguments."""

OF_COLUMNS = (
    "mean",
    "median",
    "sd",
    "std",
    "var",
    "scale",
    "quantile",
    "rank",
    "lag",
    "lead",
    "cumsum",
    "length.unique",
)
"""Functions of R and pandas that look at other rows."""


def in_sql(text: str, where: str) -> str:
    """An expression in SQL's words; one that is SQL already is unchanged. Raises UserError, naming the config key `where`, for
    words that mean different things.

    >>> in_sql("!is.na(x) & g %in% c('a', 'b')", "data.where.known")
    "NOT (x IS NULL) AND COALESCE(g IN ( 'a' , 'b' ), FALSE)"
    """
    check_words(text, where)
    return translated([token for token in tokens_of(text) if token != " "]) if FOREIGN.search(text) else text


def tokens_of(text: str) -> list[str]:
    """The words and signs of an expression, with a blank for blanks and comments."""
    return [" " if token.isspace() or token.startswith(("--", "/*")) else token for token in TOKENS.findall(text)]


def translated(tokens: Sequence[str]) -> str:
    written: list[str] = []
    place = 0
    while place < len(tokens):
        token, place = tokens[place], place + 1
        sql = CALLS.get(token.lower())
        if sql and tokens[place : place + 1] == ["("]:
            end = closing(tokens, place)
            arguments = [translated(part) for part in at_commas(tokens[place + 1 : end])]
            if end < len(tokens) and len(arguments) == (3 if "{2}" in sql else 1):
                written.append(sql.format(*arguments))
                place = end + 1
                continue
        start = place + (tokens[place : place + 1] == ["c"])
        if token.lower() == "%in%" and tokens[start : start + 1] == ["("]:
            end, left = closing(tokens, start), operand(written)
            written[left:] = [f"COALESCE({' '.join(written[left:])} IN {translated(tokens[start : end + 1])}, FALSE)"]
            place = end + 1
            continue
        is_prefix = (
            token == "~"
            and tokens[place : place + 1] == ["("]
            and written[-1:] in ([], ["("], ["AND"], ["OR"], ["NOT"])
        )
        written.append("NOT" if is_prefix else SIGNS.get(token, token))
    return " ".join(written)


def closing(tokens: Sequence[str], start: int) -> int:
    """The place of the parenthesis that closes the one at `start`, or the end."""
    depth = 0
    for place in range(start, len(tokens)):
        depth += (tokens[place] == "(") - (tokens[place] == ")")
        if not depth:
            return place
    return len(tokens)


def at_commas(tokens: Sequence[str]) -> list[list[str]]:
    """Tokens cut at commas outside parentheses."""
    parts, depth = [list[str]()], 0
    for token in tokens:
        depth += (token == "(") - (token == ")")
        parts += [[]] if token == "," and not depth else []
        parts[-1] += [token] if token != "," or depth else []
    return parts


def operand(written: Sequence[str]) -> int:
    """Where the operand begins that ends a list of tokens: a name, a number, a text, or a call."""
    start, depth = len(written) - 1, 0
    if written[-1:] != [")"]:
        return max(start, 0)
    while start > 0 and (depth := depth + (written[start] == ")") - (written[start] == "(")):
        start -= 1
    return start - 1 if start and re.fullmatch(r"(?!(?i:and|or|not)$)\w+", written[start - 1]) else start


def check_words(text: str, where: str) -> None:
    """Raise UserError for WORDS."""
    # Texts and quoted names have no words.
    bare = re.sub(" +", " ", "".join(" " if token[0] in "'\"`" else token for token in tokens_of(text))).lower()
    for words, (reason, remedy) in WORDS.items():
        if found := re.search(words, bare):
            raise UserError(f"{where}: `{text}` {reason.format(found[found.lastindex or 0].upper())}\n  {remedy}")


def remedies(text: str, known: Mapping[str, pl.DataType]) -> list[str]:
    """What to write for an expression that is no SQL, and in general, with the columns that are known."""
    found = []
    tokens = [token for token in tokens_of(text) if token != " "]
    for place, token in enumerate(tokens, start=1):
        word = token.lower()
        of_object, _, name = ("", "", word) if word in OURS else word.rpartition(".")
        is_called = tokens[place : place + 1] == ["("]
        if name in OURS and (is_called or not token[0].isalpha()):
            inside = tokens[place + 1 : closing(tokens, place)] if token[0].isalpha() else []
            arguments = [" ".join(part) for part in at_commas(inside)]
            first = [of_object] if of_object not in ("", "np", "pd") else []
            words = OURS[name].replace("{*}", ", ".join(arguments)).replace("{||}", " || ".join(arguments))
            for number, argument in enumerate([*first, *arguments, "...", "...", "..."]):
                words = words.replace(f"{{{number}}}", argument)
            found.append(f"write {words} for `{token}`")
        elif is_called and name in OF_COLUMNS:
            found.append(f"`{token}` looks at other rows, and an expression sees its own row alone")
        elif is_called and of_object == "np":
            found.append(f"write {name.upper()} for `{token}`")
    return found[:2] or [f"write it as in `{example(known)}`"]


def example(known: Mapping[str, Any]) -> str:
    """A condition of the columns that there are."""
    number = next((name for name, kind in known.items() if kind.is_numeric() and name != "random"), "x")
    text = next((name for name, kind in known.items() if kind == pl.String and name != "file"), "g")
    return f"{number} > 10 AND {text} IN ('a', 'b') AND {number} IS NOT NULL"
