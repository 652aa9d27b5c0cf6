"""What other programs write into a formula, and tfglm has keys, columns and models for: `y ~ x | firm + year | price ~ cost`,
`offset(log(n))`, random effects of the combinations of two columns, and fixest's `c(y, z) ~ sw(a, b)`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tfglm.errors import short
from tfglm.formula.terms import BETWEEN_COLUMNS, NEVER, Absorbed, AbsorbedSlope
from tfglm.formula.text import QUOTED, end_of_brackets

NESTED = re.compile(r"\(([^()|]*)(\|\|?)\s*(\w+(?:\s*[/:]\s*\w+)+)\s*\)")
"""lme4's random effects of nested factors, `(1 | a/b)`, and of combinations, `(1 | a:b)`."""

EVENT_STUDY = re.compile(rf"{QUOTED.pattern}|(?<![\w.])sunab\(\s*(\w+)\s*,\s*(\w+)\s*[,)]")

ABSORBED = re.compile(r"([A-Za-z]\w*)\s*(?:(\[\[?)([\w\s,]*)(\]\]?))?")
"""A column to absorb, with slopes in brackets: `g[x, z]` has effects and slopes, and `g[[x, z]]` slopes alone."""

STEPS = re.compile(rf"{QUOTED.pattern}|(?<![\w.])(c?sw)(0?)\(")
"""fixest's lists of terms, one after the other (`sw`) or added up (`csw`), with 0 after the formula without any."""

OFFSET = re.compile(rf"{QUOTED.pattern}|(?<![\w.])offset\(")


@dataclass(frozen=True)
class Parts:
    """A formula without the parts that are keys of a model, these keys, and the columns to derive, as SQL by name."""

    formula: str
    absorb: tuple[str, ...] = ()
    offset: str | None = None
    instruments: str | None = None
    derive: tuple[tuple[str, str], ...] = ()


def parts_of(formula: str) -> Parts:
    """The parts of a formula. Raises ValueError for parts that have no key.

    >>> parts_of("y ~ x + offset(log(n)) | g + a^b")
    Parts(formula='y ~ x', absorb=('g', 'a_b'), offset='log(n)', instruments=None, derive=(('a_b', "a || ' × ' || b"),))
    >>> parts_of("y ~ x | d ~ z")
    Parts(formula='y ~ x + d', absorb=(), offset=None, instruments='d ~ z', derive=())
    """
    left, tilde, right = formula.partition("~")
    sum_, *others = cut(right, "|")
    studies = [event_study(*match.groups()) for match in EVENT_STUDY.finditer(sum_) if match[1]]
    if not tilde or not (others or studies or OFFSET.search(sum_) or NESTED.search(sum_)):
        return Parts(formula)
    parts = without_offset(combined_groups(Parts(sum_, derive=tuple(studies))))
    if others and "~" in others[-1]:
        parts = with_instruments(parts, others.pop().strip())
    if len(others) > 1 or "~" in "".join(others):
        raise ValueError(
            f"`{short(formula)}` has too many parts; write absorbed factors and then instruments, as in y ~ x | g | d ~ z"
        )
    absorb = list[str]()
    derive = dict(parts.derive)
    for text in (each.strip() for part in others for each in part.split("+")):
        columns, bracket, slopes = text.partition("[")
        names = [name.strip(" \t\n`") for name in columns.split("^")]
        if not all(name.isidentifier() for name in names) and text != "0":
            raise ValueError(
                f"`{short(text) or 'nothing'}` after the `|` cannot be absorbed; name columns, joined by +, or combinations by ^"
            )
        if len(names) > 1:
            derive |= dict([combination(names)])
        absorb += ["_".join(names) + bracket + slopes.replace("`", "")] if text != "0" else []
    return replace(
        parts, formula=f"{left}~{parts.formula.rstrip()}", absorb=tuple(absorb), derive=tuple(derive.items())
    )


def absorbed_terms(texts: Iterable[str]) -> list[Absorbed | AbsorbedSlope]:
    """The terms of `absorb`, those of a column together, its effects first. Raises ValueError for a text that names no column.

    >>> [term.name for term in absorbed_terms(["firm[[age]]", "worker[year, age]", "firm"])]
    ['firm', 'firm[[age]]', 'worker', 'worker[[year]]', 'worker[[age]]']
    """
    by_column: dict[str, list[Absorbed | AbsorbedSlope]] = {}
    for text in texts:
        match = ABSORBED.fullmatch(text.strip())
        slopes = [name.strip() for name in (match[3] or "").split(",")] if match and match[2] else []
        if not match or len(match[2] or "") != len(match[4] or "") or not all(map(str.isidentifier, slopes)):
            raise ValueError(
                f"`{short(text)}` cannot be absorbed; name a column g, or slopes of numbers at its levels too, as g[x, z], or "
                f"alone, as g[[x, z]]"
            )
        terms = by_column.setdefault(match[1], [])
        terms += [Absorbed(match[1])] if len(match[2] or "") < 2 else []
        terms += [AbsorbedSlope(match[1], slope=name) for name in slopes]
    return [
        term
        for terms in by_column.values()
        for term in sorted(dict.fromkeys(terms), key=lambda term: isinstance(term, AbsorbedSlope))
    ]


def with_instruments(parts: Parts, instruments: str) -> Parts:
    """Parts with `d ~ z`: the endogenous terms d are terms of the formula too."""
    endogenous = instruments.partition("~")[0].strip()
    if not endogenous:
        raise ValueError(f"`| {instruments}` names instruments of no term; write them as in y ~ x | d {instruments}")
    if any(match[1] for match in EVENT_STUDY.finditer(instruments)):
        raise ValueError(
            "sunab() is neither instrument nor endogenous; write it before the `|`, or use C(cohort):C(period)"
        )
    known = {" ".join(term.split()) for term in parts.formula.split("+")}
    added = [term.strip() for term in endogenous.split("+") if " ".join(term.split()) not in known]
    return replace(parts, formula=" + ".join([parts.formula.rstrip(), *added]), instruments=instruments)


def cut(text: str, mark: str) -> list[str]:
    """A text cut at each `mark` that is in no brackets."""
    parts, depth = [""], 0
    for match in re.finditer(rf"{QUOTED.pattern}|.", text, re.DOTALL):
        depth += (match[0] in ("(", "[", "{")) - (match[0] in (")", "]", "}"))
        parts[-1:] = [parts[-1], ""] if match[0] == mark and depth == 0 else [parts[-1] + match[0]]
    return parts


def formulas(text: str) -> Iterator[str]:
    """Yield the formulas that a formula with several responses or lists of terms stands for. Raises ValueError for a list that is
    no term of its own.

    >>> [*formulas("c(y, log(z)) ~ x + csw0(a, b) | g")]
    ['y ~ x | g', 'y ~ x + a | g', 'y ~ x + a + b | g', 'log(z) ~ x | g', 'log(z) ~ x + a | g', 'log(z) ~ x + a + b | g']
    """
    left, tilde, right = text.partition("~")
    if tilde and (responses := re.fullmatch(r"\s*c\((.*)\)\s*", left)):
        for response in cut(responses[1], ","):
            yield from formulas(f"{response.strip()} ~{right}")
        return
    match = next((match for match in STEPS.finditer(right) if match[1]), None)
    if not match:
        yield text
        return
    end = end_of_brackets(right, match.start())
    before, after = right[: match.start()].rstrip(), right[end:].lstrip()
    terms = [term.strip() for term in cut(right[match.end() : end - 1], ",")]
    if before[-1:] not in ("", "+", "|", "~") or after[:1] not in ("", "+", "|") or not all(terms):
        raise ValueError(
            f"`{short(text)}`: {match[0]}...) lists terms, and is a term of its own, as in y ~ x + {match[0]}a, b)"
        )
    sums = [" + ".join(terms[: number + 1]) if match[1] == "csw" else term for number, term in enumerate(terms)]
    if match[2] and before.endswith("+"):
        yield from formulas(f"{left}~{before[:-1].rstrip()} {after}".rstrip())
    elif match[2]:
        nothing = "" if after.startswith("+") else "0" if before.endswith("|") else "1"
        yield from formulas(f"{left}~{before} {nothing} {after.removeprefix('+').lstrip()}".rstrip())
    for sum_ in sums:
        yield from formulas(f"{left}~{before} {sum_} {after}".rstrip())


def combination(names: Sequence[str]) -> tuple[str, str]:
    """A column of the combinations of values of several columns: its name, and its SQL."""
    return "_".join(names), f" || '{BETWEEN_COLUMNS}' || ".join(names)


def event_study(cohort: str, period: str) -> tuple[str, str]:
    """The column of `sunab(cohort, period)`, in which a row without a cohort is of one that is never treated; and its SQL."""
    joint = (
        f"CASE WHEN {cohort} IS NULL THEN '{NEVER}' ELSE {cohort} || '' END || '{BETWEEN_COLUMNS}' || {period} || '|'"
    )
    whole = f"REPLACE({joint}, '.0{BETWEEN_COLUMNS}', '{BETWEEN_COLUMNS}')"  # a column of numbers may be of whole ones
    sql = f"REPLACE(REPLACE({whole}, '.0|', '|'), '|', '')"
    return f"sunab_{cohort}_{period}", sql


def combined_groups(parts: Parts) -> Parts:
    """`(1 | a)` and `(1 | a_b)` for `(1 | a/b)`, and `(1 | a_b)` for `(1 | a:b)`."""
    derive = list(parts.derive)

    def spread(match: re.Match[str]) -> str:
        names = re.split(r"\s*[/:]\s*", match[3])
        nested = range(1, len(names) + 1) if ":" not in match[3] else [len(names)]
        derive.extend(combination(names[:number]) for number in nested if number > 1)
        return " + ".join(f"({match[1]}{match[2]} {'_'.join(names[:number])})" for number in nested)

    formula = NESTED.sub(spread, parts.formula)
    return replace(parts, formula=formula, derive=tuple(derive))


def without_offset(parts: Parts) -> Parts:
    """A sum without its `offset(...)`. Raises ValueError for two, and for one within another term."""
    sum_ = parts.formula
    starts = [match.start() for match in OFFSET.finditer(sum_) if match[0].startswith("offset")]
    if not starts:
        return parts
    end = end_of_brackets(sum_, starts[0])
    before, after = sum_[: starts[0]].rstrip(), sum_[end:].lstrip()
    if (
        len(starts) > 1
        or before.count("(") != before.count(")")
        or before[-1:] not in ("", "+")
        or after[:1] not in ("", "+", "-")
    ):
        raise ValueError(
            "a formula has one offset, which is a term of its own; define a sum of several under data.derive"
        )
    rest = f"{before.removesuffix('+').rstrip()} {after}".strip() or "1"
    return replace(parts, formula=f" {rest.removeprefix('+').lstrip()}", offset=sum_[starts[0] + 7 : end - 1].strip())
