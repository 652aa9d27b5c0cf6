"""The effects of a regression in sentences: for each term the strongest effects that are well estimated, in the units of
the response.

A coefficient is reported only if the fit has tested it. The sentences claim no causes.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from tfglm.data.kinds import RARE
from tfglm.formula.parse import term_of
from tfglm.formula.response import Logarithm
from tfglm.formula.terms import INTERCEPT, THRESHOLD
from tfglm.report.conditions import is_difference
from tfglm.report.words import PERCENT, Words, amount, logged, plain
from tfglm.results.digits import two_digits

MOST_STEPS = 6
"""The effect of a number is reported per 1, 10, ... units, up to this power of 10, so that it is easy to read."""

VISIBLE = 0.01
"""A smaller effect of a step, as a share (of the standard deviation, for a difference), asks for a longer step."""


LARGEST_VIF = 10.0
"""Largest variance inflation factor of a coefficient that is reported: the usual rule of thumb."""

NO_NUMBER = "its effect is no single number, as the formula has a product or a curve of it"

NO_AVERAGE = "its coefficient is no difference or ratio of the response, and its average marginal effect is not known"

PERIODIC = "its curve is periodic, so that it rises as much as it falls and its average slope says nothing"

RANDOM_EFFECTS = "its levels have random effects or slopes; the joint tests have their standard deviation"

NEARLY_DETERMINED = "other terms nearly determine it, so its effect and theirs cannot be distinguished"


@dataclass(frozen=True)
class TermSentences:
    """The sentences about a term, or why there are none. `sizes` are the effects that they say, none if they say that nothing is
    clear, on the scale of a coefficient, or with `of_response` on that of the response."""

    term: str
    sentences: list[str]
    because: str = ""
    sizes: Sequence["Effect"] = ()
    of_response: bool = False

    @property
    def is_average(self) -> bool:
        """Whether there is an average marginal effect among them."""
        return any("on average" in sentence for sentence in self.sentences)


@dataclass(frozen=True)
class Effect:
    """An estimate with its interval, on the scale of the linear predictor."""

    estimate: float
    lower: float
    upper: float

    def times(self, step: float) -> "Effect":
        return Effect(self.estimate * step, self.lower * step, self.upper * step)

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.lower * self.upper > 0


@dataclass(frozen=True)
class Slope:
    """An average marginal effect on the scale of the response: of a level against the reference level, or of a number's unit."""

    effect: Effect
    reference: str


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a fit that sentences need.

    `ratio` is the name of the ratio that the exponential of a coefficient is (odds, rate); None if a coefficient is a
    difference in the response itself. `deviation` is the residual standard deviation of such a response. With
    `only_averages` a coefficient is neither, as in a probit regression, and terms are reported by their average marginal
    effects.
    """

    response: str
    unit: str | None
    ratio: str | None
    deviation: float
    words: Words
    slopes: Mapping[tuple[str, str], "Slope"]
    """Average marginal effects by term and level, where they are known."""
    nearly_aliased: Collection[str]
    """Terms that other terms nearly determine, according to a warning of the fit."""
    is_probability: bool = False
    """Whether the mean of the response is the probability of an event."""
    only_averages: bool = False
    logarithm: Logarithm | None = None
    """What the response is the logarithm of; then a difference is a ratio of geometric means."""
    event: str = ""
    """Return the name of the probability of a class; it includes the class of comparison, if the response names it."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """For how much more of a number the pictures show its effect, by term."""
    level: str | None = None
    """The level that a quotation is about, '' for a number: its sentence is there whether or not the effect is clear."""
    step: float | None = None
    """The number of units for the effect of a number; None to choose it."""


def effect_sentences(table: pd.DataFrame, model: ModelFacts) -> list[TermSentences]:
    """Return the effects in the table of coefficients, by term; none without tests, as in penalised fits and online
    solvers.

    If the effect of a column is no single number, because the column is in a product or a curve, its average marginal
    effect is reported once.
    """
    if "p_value" not in table or table["p_value"].isna().all():
        return []
    terms = [str(term) for term in table["term"].unique() if term not in (INTERCEPT, THRESHOLD)]
    found: list[TermSentences] = []
    on_average: set[str] = set()
    for term in terms:
        kind = term_of(term)
        if kind.is_random:
            found.append(TermSentences(term, [], RANDOM_EFFECTS))
            continue
        others = [other for other in terms if other != term]
        rows = table[table["term"] == term]
        logarithm = logged(term)
        is_shared = any(column in term_of(other).columns for other in others for column in kind.columns)
        by_itself = is_difference(rows) and not is_shared and (kind.is_plain or logarithm)
        if by_itself and not model.only_averages:
            found.append(
                number_effects(term, rows, model) if (rows["level"] == "").all() else factor_effects(term, rows, model)
            )
            continue
        averaged = [name for name in dict.fromkeys(name for name, _ in model.slopes) if plain(name) in kind.columns]
        if not averaged:
            found.append(TermSentences(term, [], NO_AVERAGE if by_itself else NO_NUMBER))
        for name in averaged:
            if name not in on_average:
                periodic = (name, "") in model.slopes and is_periodic(plain(name), terms)
                tested = dict(effects(rows)) if by_itself else {}
                found.append(TermSentences(name, [], PERIODIC) if periodic else averages(name, model, tested))
        on_average.update(averaged)
    return found


def is_periodic(column: str, terms: Collection[str]) -> bool:
    """Whether a column has an effect through periodic splines alone."""
    factors = [factor for term in terms for factor in term_of(term).factors if column in factor.columns]
    return all(factor.is_periodic for factor in factors)


def number_effects(term: str, rows: pd.DataFrame, model: ModelFacts) -> TermSentences:
    """A sentence on a number, for as many of its units as make the effect visible; on a logarithm, for PERCENT more of its
    column."""
    tested = list(effects(rows))
    if not tested:
        return TermSentences(term, [], "it has no test")
    if term in model.nearly_aliased and model.level is None:
        return TermSentences(term, [], NEARLY_DETERMINED)
    _, effect = tested[0]
    if logarithm := logged(term):
        column, growth = logarithm
        more = f"{PERCENT} % more of {model.words.term(column)}"
        return TermSentences(
            term, [f"{compared(effect.times(growth), model)} for each {more}."], sizes=[effect.times(growth)]
        )
    step = step_of(term, effect.estimate / (1.0 if model.ratio else model.deviation), model)
    average = beside((term, ""), model, step)
    said = f"{compared(effect.times(step), model)} {more_of(term, step, model)}{average}."
    return TermSentences(term, [said], sizes=[effect.times(step)])


def more_of(term: str, step: float, model: ModelFacts) -> str:
    """`for each hour more of age`, `for each 100 miles more of distance`, `with smoker 1 than with 0`."""
    if plain(term) in model.words.zero_one:
        one, zero = (model.words.level(term, value) for value in "10")
        return f"with {model.words.term(term)} {one} than with {zero}"
    unit = model.words.units.get(term, "")
    more = amount(step, unit or "unit").removeprefix("1 ") if step == 1 else amount(step, unit)
    return f"for each {more} more of {model.words.term(term)}"


def step_of(column: str, size: float, model: ModelFacts) -> float:
    """Return the number of units for the effect of a number: that of the pictures, or 1, 10, ..., at most half its range, or
    0.1, 0.01, ... within a range below 1; `size` is the effect of one unit."""
    if model.step is not None:
        return model.step
    if column in model.steps:
        return model.steps[column]
    step, span = 1.0, model.words.spans.get(column, 0.0)
    while abs(size) * step < VISIBLE and step * 10 <= min(span / 2, 10**MOST_STEPS):
        step *= 10
    while step > span > 0:
        step /= 10
    return step


def factor_effects(term: str, rows: pd.DataFrame, model: ModelFacts) -> TermSentences:
    """Sentences on the levels of a factor that differ most from the reference level, in either direction."""
    tested = list(effects(rows))
    name = model.words.column(plain(term))
    if not tested:
        return TermSentences(term, [], "none of its levels has a test")
    reference = model.words.level(term, str(rows["reference"].iloc[0]))

    def sentence(level: str, effect: Effect) -> str:
        compared_levels = f"with {name} {model.words.level(term, level)} than with {reference}"
        return f"{compared(effect, model)} {compared_levels}{beside((term, level), model)}."

    if model.level is not None:
        return TermSentences(term, [sentence(*each) for each in tested if each[0] == model.level], "it has no test")
    clear = [(level, effect) for level, effect in tested if effect.is_clear]
    if not clear:
        of_what = f" in the odds of {model.response}" if model.event else ""
        return TermSentences(
            term, [f"{none_of(name, term, [level for level, _ in tested], model)} {reference}{of_what}."]
        )
    inflated = entangled_levels(rows, model)
    entangled = [level for level, _ in tested if level in inflated]
    if 2 * len(entangled) > len(tested):
        # The effects of the other levels depend on the effects attributed to these.
        return TermSentences(term, [], NEARLY_DETERMINED)
    # Merged levels have nothing in common except that they are rare.
    clear = [(level, effect) for level, effect in clear if level not in (*entangled, RARE)] or clear
    well = [(level, effect) for level, effect in clear if effect.upper - effect.lower <= abs(effect.estimate)]
    told = strongest(well or clear)
    return TermSentences(term, [sentence(*each) for each in told], sizes=[effect for _, effect in told])


def none_of(name: str, term: str, levels: Sequence[str], model: ModelFacts) -> str:
    """The beginning of the sentence that no level of a factor, or its only other one, differs from the reference level."""
    if len(levels) == 1:
        return f"{name} {model.words.level(term, levels[0])} does not differ clearly from"
    return f"No level of {name} differs clearly from"


def strongest(levels: list[tuple[str, Effect]]) -> list[tuple[str, Effect]]:
    """The level with the strongest effect in either direction: by the end of its interval nearer to none, as so much is sure."""
    return [
        max(side, key=lambda each: min(abs(each[1].lower), abs(each[1].upper)))
        for sign in (1, -1)
        if (side := [each for each in levels if each[1].estimate * sign > 0])
    ]


def entangled_levels(rows: pd.DataFrame, model: ModelFacts) -> set[str]:
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


def compared(effect: Effect, model: ModelFacts) -> str:
    """How much more or less, with the interval: the beginning of a sentence."""
    if model.logarithm:
        effect = effect.times(model.logarithm.rate)
    elif model.ratio is None:
        unit = f" {model.unit}" if model.unit else ""
        return f"{model.response} is {around(effect, unit, ('higher', 'lower'))}"
    ratios = Effect(*(exponential(value) for value in (effect.estimate, effect.lower, effect.upper)))
    if model.logarithm:
        what = f"{model.logarithm.quantity} (geometric mean) is"
    else:
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

    if effect.is_clear:
        low, high = sorted((abs(effect.lower), abs(effect.upper)))
        return f"{directed(effect.estimate)} ({two_digits(low)} to {two_digits(high)}{unit})"
    return f"{directed(effect.estimate)} (anything from {directed(effect.lower)} to {directed(effect.upper)})"


def slopes(table: pd.DataFrame) -> dict[tuple[str, str], Slope]:
    """The average marginal effects in marginal_effects.csv that have an interval, by term and level."""
    rows = table.dropna(subset=["estimate", "ci_lower", "ci_upper"]).itertuples()
    return {
        (row.term, row.level): Slope(Effect(row.estimate, row.ci_lower, row.ci_upper), row.reference) for row in rows
    }


def scale_of(model: ModelFacts) -> tuple[float, str]:
    """Return the factor and the unit with which an average marginal effect is reported: percentage points for a
    probability."""
    if model.is_probability:
        return 100.0, " percentage points"
    return 1.0, f" {model.unit}" if model.unit else ""


def beside(key: tuple[str, str], model: ModelFacts, step: float = 1.0) -> str:
    """Return the average marginal effect, of so much more of a number, as an addition to a sentence about a ratio; a difference
    is the same number already."""
    if model.ratio is None or key not in model.slopes:
        return ""
    factor, unit = scale_of(model)
    effect = model.slopes[key].effect.times(factor * step)
    if plain(key[0]) in model.words.zero_one and not key[1]:
        of_what = f" in the probability of {model.event}" if model.event else ""
        return f"; the average slope{of_what} is {around(effect, unit, ('upward', 'downward'))}"
    if model.event:
        return f", and {model.event} is on average {around(effect, unit, ('more frequent', 'less frequent'))}"
    return f", on average {around(effect, unit, ('more', 'less'))}"


def averages(name: str, model: ModelFacts, tested: Mapping[str, Effect]) -> TermSentences:
    """Sentences on a factor or a number by its average marginal effects. If its coefficients have tests of the same hypotheses,
    they are `tested`, by level: these decide what differs. Near a pole of the link an average effect is less sure."""
    of_levels = {level: slope for (term, level), slope in model.slopes.items() if term == name}
    decisive = {level: tested.get(level, slope.effect) for level, slope in of_levels.items()}
    clear = [(level, effect) for level, effect in decisive.items() if effect.is_clear]
    factor, unit = scale_of(model)
    of_response = not model.logarithm and (model.ratio is not None or model.only_averages)
    subject = f"The probability of {model.event or model.response}" if model.is_probability else model.response

    def sentence(level: str, effect: Effect, of_what: str) -> str:
        if decisive[level].is_clear and not effect.is_clear:
            direction = "higher" if effect.estimate > 0 else "lower"
            return f"{subject} is {direction} {of_what}, but how much on average is not clear."
        if model.logarithm:
            return f"{compared(effect, model)} {of_what}, on average."
        return f"{subject} is on average {around(effect.times(factor), unit, ('higher', 'lower'))} {of_what}."

    if "" in of_levels:
        effect = of_levels[""].effect
        step = step_of(name, effect.estimate / (model.deviation if model.ratio is None else 1.0), model)
        of_what = more_of(name, step, model)
        if plain(name) in model.words.zero_one and (model.ratio or model.only_averages):
            # The mean is no straight line in the number, so its slope is not the difference between 1 and 0.
            of_what = f"for each unit more of {model.words.term(name)} (an average slope)"
        said = [sentence("", effect.times(step), of_what)]
        return TermSentences(name, said, sizes=[effect.times(step)], of_response=of_response)
    reference = model.words.level(name, next(iter(of_levels.values())).reference)
    column = model.words.column(plain(name))
    quoted = [(level, effect) for level, effect in decisive.items() if level == model.level]
    if not clear and not quoted:
        of_what = f" in the probability of {model.event}" if model.event else ""
        beginning = none_of(column, name, list(of_levels), model)
        beginning = beginning.replace("No level", "no level", 1)
        return TermSentences(name, [f"On average {beginning} {reference}{of_what}."])
    told = [level for level, _ in quoted or strongest(clear)]
    return TermSentences(
        name,
        [
            sentence(
                level, of_levels[level].effect, f"with {column} {model.words.level(name, level)} than with {reference}"
            )
            for level in told
        ],
        sizes=[of_levels[level].effect for level in told],
        of_response=of_response,
    )
