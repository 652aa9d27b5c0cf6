"""Numbers as a reader wants them: two digits that count at least, one notation in a column, no digits that say nothing."""

import math
import re
from collections.abc import Sequence

import pandas as pd

MOST_DECIMALS = 7
"""A number whose second digit is beyond them is in powers of ten."""

LARGEST = 1e15
"""From here on numbers are in powers of ten: float64 has no more whole digits."""

NEGATIVE = re.compile(r"-(?=\d[\d,.]*(e[+-]\d+)?\Z|inf\Z)")


def minus(text: object) -> object:
    """Return a number with a minus sign instead of the hyphen; other values unchanged."""
    return NEGATIVE.sub("−", text, count=1) if isinstance(text, str) and NEGATIVE.match(text) else text


def decimals_of(errors: pd.Series) -> int:
    """Return the number of decimals that keeps two digits of the smallest standard error. Errors that are rounding errors
    compared with most of them do not count."""
    positive = errors[(errors > 0) & errors.map(math.isfinite)]
    positive = positive[positive > 1e-6 * positive.median()]
    return 2 if positive.empty else min(places(positive.min()), 12)


def places(value: float, digits: int = 2) -> int:
    """The decimals that show so many digits of a number.

    >>> places(1234.0), places(0.0123), places(0.0, 3)
    (0, 3, 0)
    """
    if not (value and math.isfinite(value)):
        return 0
    return max(digits - 1 - math.floor(math.log10(abs(value))), 0)


def in_powers(value: float) -> bool:
    """Whether a number is too small or too large to be read without powers of ten."""
    return math.isfinite(value) and (places(value) > MOST_DECIMALS or abs(value) >= LARGEST)


def fixed(value: float, decimals: int, powers: bool | None = None) -> str:
    """A number with these decimals, and with more where these would not show two of its digits; empty if there is none.

    With `powers` it is in powers of ten; without, where it must be.

    >>> fixed(-5.24e-07, 8), fixed(-0.00114, 2), fixed(1774000.0, 0), fixed(0.0, 2)
    ('−5.2e-07', '−0.0011', '1,774,000', '0.00')
    """
    if pd.isna(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and (in_powers(value) if powers is None else powers):
        digits = min(max(decimals + math.floor(math.log10(abs(value))), 1), 5)
        return str(minus(f"{value:.{digits}e}"))
    # No minus before what is 0 to these decimals.
    return str(minus(f"{value:z,.{max(min(decimals, MOST_DECIMALS), places(value))}f}"))


def aligned(numbers: Sequence[str]) -> list[str]:
    """Numbers of a column with blanks as wide as digits after them, so that the decimal points are below each other."""
    after = [len(number) - number.index(".") if re.fullmatch(r"[^e]*\d\.\d+", number) else 0 for number in numbers]
    widest = max(after, default=0)
    blanks = [
        "\u2008" * (not places and widest > 0) + "\u2007" * (widest - max(places, widest > 0)) for places in after
    ]
    return [number + blank if number else "" for number, blank in zip(numbers, blanks, strict=True)]


def significant(value: float, digits: int) -> str:
    """A number with so many digits that count, and all those before the point."""
    return fixed(value, places(value, digits))


def two_digits(value: float) -> str:
    """A size in a sentence."""
    return significant(value, 2)


def four_that_count(value: float) -> str:
    """Four digits that count, and all those before the point; no zeros at the end of decimals."""
    text = significant(value, 4)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def four_digits(value: float) -> str:
    """Four decimals; where the number is small three digits that count, and where it is large six."""
    return fixed(value, max(4, places(value, 3)) if abs(value) < 100 else places(value, 6))


def with_error(estimate: float, errors: Sequence[float], digits: int = 3) -> tuple[str, list[str]]:
    """An estimate with its error, or with the two ends of its interval: so many digits of the error that count, as many decimals
    of the estimate. Without an error, `four_digits`."""
    size = errors[0] if len(errors) == 1 else (errors[1] - errors[0]) / 4 if errors else math.nan
    if not (0 < size < math.inf and math.isfinite(estimate)):
        return four_digits(estimate) if math.isfinite(estimate) else f"{estimate:+}", list(map(four_digits, errors))
    powers = any(map(in_powers, [estimate, *errors]))
    return fixed(estimate, places(size, digits), powers), [
        fixed(error, places(size, digits), powers) for error in errors
    ]


def statistic(value: float) -> str:
    """A statistic of a model: a whole number, or four digits and more."""
    if value == round(value) and abs(value) < LARGEST:
        return str(minus(f"{value:,.0f}"))
    if abs(value) >= 1e7:
        return fixed(value, 0)
    return fixed(value, 2 if abs(value) > 100 else 4)


def p_value(p: float) -> str:
    """Four decimals, and two digits that count; empty where there is no test."""
    return "" if pd.isna(p) else "< 0.0001" if p < 1e-4 else fixed(p, 4)


def p_in_words(p: float) -> str:
    """`p < 0.0001`, or `p = 0.0312`; empty where there is no test."""
    text = p_value(p)
    return text and f"p {text if text.startswith('<') else f'= {text}'}"


def percent(share: float, unit: str = " %") -> str:
    """A share in percent with a decimal, and with more where it would be 0 or 100 without being it.

    >>> percent(0.7943), percent(0.0014), percent(0.99962), percent(1.0)
    ('79.4 %', '0.14 %', '99.96 %', '100 %')
    """
    return f"{fixed(100 * share, 0 if share in (0, 1) else max(1, places(100 * (1 - share), 1)))}{unit}"


SUPERSCRIPTS = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")

UNITS = {3: "thousand", 6: "million", 9: "billion", 12: "trillion"}


def power_of_ten(power: int) -> str:
    return "10" + str(power).translate(SUPERSCRIPTS)


def tick_labels(values: Sequence[float], low: float, high: float, blank: str = " ") -> list[str]:
    """The numbers of an axis from `low` to `high`. The last on it has the unit of all, after a `blank`.

    >>> tick_labels([0, 600000, 1200000], 0, 1.3e6), tick_labels([2000, 2010], 2000, 2010), tick_labels([0, 2e-5], 0, 1e-4)
    (['0', '0.6', '1.2 million'], ['2000', '2010'], ['0', '0.00002'])
    """
    shown = [place for place, value in enumerate(values) if low <= value <= high and value]
    largest = max((abs(values[place]) for place in shown), default=0.0)
    power = 3 * math.floor(math.log10(largest) / 3 + 1e-9) if largest else 0
    # Beside each other, numbers of seven characters have no room.
    power = power if power >= 6 or power < -6 or (largest >= 1e5 and blank == " ") else 0
    scaled = [round(value / 10.0**power, 9) + 0.0 for value in values]
    if 0 < power <= 12 and any(round(value, 3) != value for value in scaled):
        power, scaled = 0, list(values)  # such as the days 20130101 and 20130102
    unit = UNITS.get(power, f"\u00d7 {power_of_ten(power)}") if power else ""
    texts = [f"{value:{',' if largest >= 1e4 else ''}.9f}".rstrip("0").rstrip(".") for value in scaled]
    return [
        str(minus(text)) + (blank + unit if unit and place == shown[-1] else "") for place, text in enumerate(texts)
    ]
