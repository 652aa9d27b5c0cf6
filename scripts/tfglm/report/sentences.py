"""The effects of a regression in sentences: of each term the strongest that are well estimated, in the units of the response.

A coefficient is told only if the fit has tested it. Nothing is said of what causes what.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from tfglm.data.kinds import RARE
from tfglm.report.words import Words, plain, two_digits

PLAIN = re.compile(r"\w+|C\(\w+\)")
"""A term that is a column; the coefficients of any other have no meaning by themselves."""

MOST_STEPS = 3
"""A number is told by 1, 10, ... of its units, up to this power of 10, so that its effect can be read."""

VISIBLE = 0.01
"""A smaller effect of a step, as a share (of the standard deviation, for a difference), asks for a longer step."""


LARGEST_VIF = 10.0
"""Of a coefficient that is told: the usual rule of thumb."""

NO_NUMBER = "its effect is no single number, as the formula has a product or a curve of it"

NO_AVERAGE = "its coefficient is no difference or ratio of the response, and its average marginal effect is not known"

PERIODIC = "its curve is periodic, so that it rises as much as it falls and its average slope says nothing"

NEARLY_DETERMINED = "other terms nearly determine it, so that its effect and theirs cannot be told apart"


@dataclass(frozen=True)
class Told:
    """What is said of a term, or why nothing is."""

    term: str
    sentences: list[str]
    because: str = ""


@dataclass(frozen=True)
class Effect:
    """An estimate with its interval, on the scale of the linear predictor."""

    estimate: float
    lower: float
    upper: float

    def times(self, step: float) -> "Effect":
        return Effect(self.estimate * step, self.lower * step, self.upper * step)


@dataclass(frozen=True)
class Slope:
    """An average marginal effect on the scale of the response: of a level against the reference level, or of a number's unit."""

    effect: Effect
    reference: str


@dataclass(frozen=True)
class Model:
    """What sentences need to know of a fit.

    `ratio` is what the exponential of a coefficient is the ratio of (odds, rate), None for a difference in the response itself;
    `deviation` the residual standard deviation of such a response. With `only_averages` a coefficient is neither, as of a probit
    regression, and terms are told by their average marginal effects.
    """

    response: str
    unit: str | None
    ratio: str | None
    deviation: float
    words: Words
    spans: Mapping[str, float]
    """The largest value of a column of numbers less the smallest."""
    slopes: Mapping[tuple[str, str], "Slope"]
    """Average marginal effects by term and level, where they are known."""
    nearly_aliased: Collection[str]
    """Terms of which the fit has warned that other terms nearly determine them."""
    is_probability: bool = False
    """Whether the mean of the response is the probability of an event."""
    only_averages: bool = False
    event: str = ""
    """Of a class what its probability is that of, where the response names the class that it is compared with too."""


def tell(table: pd.DataFrame, model: Model) -> list[Told]:
    """The effects in the table of coefficients, by term; none without tests, as of penalised fits and online solvers.

    A column whose effect is no single number, as it stands in a product or a curve, is told once, by its average marginal effect.
    """
    if "p_value" not in table or table["p_value"].isna().all():
        return []
    terms = [str(term) for term in table["term"].unique() if term != "Intercept"]
    told: list[Told] = []
    on_average: set[str] = set()
    for term in terms:
        others = [other for other in terms if other != term]
        rows = table[table["term"] == term]
        by_itself = PLAIN.fullmatch(term) and not any(plain(term) in columns_in(other) for other in others)
        if by_itself and not model.only_averages:
            told.append(of_number(term, rows, model) if (rows["level"] == "").all() else of_factor(term, rows, model))
            continue
        averaged = [name for name in dict.fromkeys(name for name, _ in model.slopes) if plain(name) in columns_in(term)]
        if not averaged:
            told.append(Told(term, [], NO_AVERAGE if by_itself else NO_NUMBER))
        for name in averaged:
            if name not in on_average:
                periodic = (name, "") in model.slopes and is_periodic(plain(name), terms)
                told.append(Told(name, [], PERIODIC) if periodic else averages(name, model))
        on_average.update(averaged)
    return told


def columns_in(term: str) -> list[str]:
    """The columns of a term: no functions, nor their arguments."""
    return re.findall(r"\b[^\W\d]\w*\b(?!\s*[(=])", term)


def is_periodic(column: str, terms: Collection[str]) -> bool:
    """Whether a column has an effect through periodic splines alone."""
    parts = [part for term in terms for part in term.split(":") if column in columns_in(part)]
    return all(part.startswith("cc(") for part in parts)


def of_number(term: str, rows: pd.DataFrame, model: Model) -> Told:
    """A sentence on a number, for as many of its units as make the effect visible."""
    tested = list(effects(rows))
    if not tested:
        return Told(term, [], "it has no test")
    if term in model.nearly_aliased:
        return Told(term, [], NEARLY_DETERMINED)
    _, effect = tested[0]
    step = step_of(term, effect.estimate / (1.0 if model.ratio else model.deviation), model)
    more = units(term, step, model)
    average = beside((term, ""), model) if step == 1 else ""
    return Told(term, [f"{compared(effect.times(step), model)} for each {more} more of {term}{average}."])


def units(column: str, step: int, model: Model) -> str:
    """`hour`, `100 miles`."""
    unit = model.words.units.get(column, "")
    return (singular(unit) if unit else "unit") if step == 1 else f"{step:,} {unit}".strip()


def singular(unit: str) -> str:
    """`hours` as `hour`."""
    return unit[:-1] if unit.endswith("s") and not unit.endswith("ss") else unit


def step_of(column: str, size: float, model: Model) -> int:
    """By how many units a number is told: 1, 10, ..., at most half its range; `size` is the effect of one unit."""
    step = 1
    while abs(size) * step < VISIBLE and step * 10 <= min(model.spans.get(column, 0.0) / 2, 10**MOST_STEPS):
        step *= 10
    return step


def of_factor(term: str, rows: pd.DataFrame, model: Model) -> Told:
    """Sentences on the levels of a factor that differ most from the reference level, in either direction."""
    tested = list(effects(rows))
    name = plain(term)
    if not tested:
        return Told(term, [], "none of its levels has a test")
    reference = model.words.level(term, str(rows["reference"].iloc[0]))
    clear = [(level, effect) for level, effect in tested if effect.lower * effect.upper > 0]
    if not clear:
        of_what = f" in the odds of {model.response}" if model.event else ""
        return Told(term, [f"No level of {name} differs clearly from {reference}{of_what}."])
    inflated = entangled_levels(rows, model)
    entangled = [level for level, _ in tested if level in inflated]
    if 2 * len(entangled) > len(tested):
        # What the others then look like depends on what these have taken.
        return Told(term, [], NEARLY_DETERMINED)
    # What is merged is the same only in being rare.
    clear = [(level, effect) for level, effect in clear if level not in (*entangled, RARE)] or clear
    well = [(level, effect) for level, effect in clear if effect.upper - effect.lower <= abs(effect.estimate)]
    return Told(
        term,
        [
            f"{compared(effect, model)} with {name} {model.words.level(term, level)} than with {reference}"
            f"{beside((term, level), model)}."
            for level, effect in strongest(well or clear)
        ],
    )


def strongest(levels: list[tuple[str, Effect]]) -> list[tuple[str, Effect]]:
    """The level with the strongest effect in either direction: by the end of its interval nearer to none, as so much is sure."""
    return [
        max(side, key=lambda each: min(abs(each[1].lower), abs(each[1].upper)))
        for sign in (1, -1)
        if (side := [each for each in levels if each[1].estimate * sign > 0])
    ]


def entangled_levels(rows: pd.DataFrame, model: Model) -> set[str]:
    """The levels that other terms nearly determine; not known of counts.

    The variance of their difference from the reference level is more than LARGEST_VIF times what it would be without these terms.
    """
    errors = rows["classical_std_error" if "classical_std_error" in rows else "std_error"]
    if model.ratio is None:
        alone = model.deviation**2 / rows["rows"]
    elif "events" in rows:
        others = rows["rows"] - rows["events"]
        alone = (1 / rows["events"] + 1 / others).where((rows["events"] > 0) & (others > 0))
    else:
        return set()
    of_reference = alone[rows["level"] == rows["reference"]].sum()
    return set(rows["level"][errors**2 > LARGEST_VIF * (alone + of_reference)])


def effects(rows: pd.DataFrame) -> Iterator[tuple[str, Effect]]:
    """The coefficients of a term that have an estimate, a test and an interval, by level."""
    for row in rows[(rows["status"] == "") & rows["p_value"].notna()].itertuples():
        effect = Effect(row.estimate, row.ci_lower, row.ci_upper)
        if all(map(math.isfinite, (effect.estimate, effect.lower, effect.upper))):
            yield row.level, effect


def compared(effect: Effect, model: Model) -> str:
    """How much more or less, with the interval: the beginning of a sentence."""
    if model.ratio is None:
        unit = f" {model.unit}" if model.unit else ""
        return f"{model.response} is {around(effect, unit, ('higher', 'lower'))}"
    ratios = Effect(*(exponential(value) for value in (effect.estimate, effect.lower, effect.upper)))
    what = f"The {model.ratio} of {model.response} {'are' if model.ratio == 'odds' else 'is'}"
    if ratios.lower < 1 < ratios.upper or (ratios.estimate <= 2 and ratios.upper < 3):
        percents = Effect(ratios.estimate - 1, ratios.lower - 1, ratios.upper - 1).times(100.0)
        return f"{what} {around(percents, ' %', ('higher', 'lower'))}"
    low, high = (two_digits(value) for value in (ratios.lower, ratios.upper))
    return f"{what} {two_digits(ratios.estimate)} times as high ({low} to {high})"


def exponential(value: float) -> float:
    """e to a power, infinite where it is too large."""
    return math.exp(value) if value < 700 else math.inf


def around(effect: Effect, unit: str, words: tuple[str, str]) -> str:
    """`49 % higher (38 to 60 %)`; an interval over 0 tells both directions."""

    def directed(value: float) -> str:
        return f"{two_digits(abs(value))}{unit} {words[0] if value >= 0 else words[1]}"

    if effect.lower * effect.upper > 0:
        low, high = sorted((abs(effect.lower), abs(effect.upper)))
        return f"{directed(effect.estimate)} ({two_digits(low)} to {two_digits(high)}{unit})"
    return f"{directed(effect.estimate)} (anything from {directed(effect.lower)} to {directed(effect.upper)})"


def slopes(table: pd.DataFrame) -> dict[tuple[str, str], Slope]:
    """The average marginal effects in marginal_effects.csv that have an interval, by term and level."""
    rows = table.dropna(subset=["estimate", "ci_lower", "ci_upper"]).itertuples()
    return {
        (row.term, row.level): Slope(Effect(row.estimate, row.ci_lower, row.ci_upper), row.reference) for row in rows
    }


def scale_of(model: Model) -> tuple[float, str]:
    """By what an average marginal effect is multiplied to be told, and its unit: of a probability percentage points."""
    if model.is_probability:
        return 100.0, " percentage points"
    return 1.0, f" {model.unit}" if model.unit else ""


def beside(key: tuple[str, str], model: Model) -> str:
    """What the average marginal effect adds to a sentence on a ratio; a difference is the same number already."""
    if model.ratio is None or key not in model.slopes:
        return ""
    factor, unit = scale_of(model)
    effect = model.slopes[key].effect.times(factor)
    if model.event:
        return f", and {model.event} is on average {around(effect, unit, ('more frequent', 'less frequent'))}"
    return f", on average {around(effect, unit, ('more', 'less'))}"


def averages(name: str, model: Model) -> Told:
    """Sentences on a factor or a number by its average marginal effects."""
    of_levels = {level: slope for (term, level), slope in model.slopes.items() if term == name}
    factor, unit = scale_of(model)
    subject = f"The probability of {model.event or model.response}" if model.is_probability else model.response

    def sentence(effect: Effect, of_what: str) -> str:
        return f"{subject} is on average {around(effect.times(factor), unit, ('higher', 'lower'))} {of_what}."

    if "" in of_levels:
        effect = of_levels[""].effect
        step = step_of(name, effect.estimate / (model.deviation if model.ratio is None else 1.0), model)
        return Told(name, [sentence(effect.times(step), f"for each {units(name, step, model)} more of {name}")])
    reference = model.words.level(name, next(iter(of_levels.values())).reference)
    clear = [(level, slope.effect) for level, slope in of_levels.items() if slope.effect.lower * slope.effect.upper > 0]
    if not clear:
        of_what = f" in the probability of {model.event}" if model.event else ""
        return Told(name, [f"On average no level of {plain(name)} differs clearly from {reference}{of_what}."])
    return Told(
        name,
        [
            sentence(effect, f"with {plain(name)} {model.words.level(name, level)} than with {reference}")
            for level, effect in strongest(clear)
        ],
    )
