"""Hints for formulas in the syntax of other programs, with the columns of the formula as the example."""

import re

from tfglm.formula.text import QUOTED

NAME = re.compile(
    r"(?<![\w.$@'\"])(?!(?:True|False|TRUE|FALSE|T|F|NA|NULL|None|np)\b)[^\W\d]\w*(?![\w.]*\s*(?:\(|=(?!=))|\.?\w|\$|@)"
)
"""A column in a formula, as far as its text shows; no function and no keyword."""

HINTS = {
    r"\bweights?\(": "weights have a key of their own beside the formula: `weights: {x}`",
    r"\bcluster\(": "clusters have a key of their own beside the formula: `std_errors: cluster({x})`",
    r"\bstrata\(": "write a column of strata as a term, {x} or C({x})",
    r"^[^~]*\bfactor\([^~]*~": "the response is a column, without factor(), and the family says how it is read: `{y} ~ ...`",
    r"\bfactor\(\s*\w+\s*,|\bC\([^()]*\b(?:levels|spans_intercept)\s*=": "levels are those of the training "
    "rows, in the order of the key `order`; rename or merge them in a column under data.derive",
    r"\|": "absorbed factors are `y ~ x | g` or the key `absorb: [g]`; instruments are `y ~ x | d ~ z`; random effects are "
    "(1 | g), and `std_errors: cluster(g)` is for rows that may be alike",
    r"\bi\([^)]*\b(?:keep|bin\d?|ref2|sparse|f\d?)\s*=": "of fixest's i() there is ref alone; merge levels under data.derive",
    r"\bmvsw\(|^[^~(]*[+,][^~]*~": "for a model of each response write c(y, z) ~ {x}, and of each list of terms sw(), csw() or "
    "`sweep: {{formula: [{y} ~ {x}, ...]}}`",
    r"\.\.\w+|(?<![\w.])\.\[": "define a list of terms under `terms`, and use its name in formulas",
    r"(?:\*\*|\^)(?![^()]*\))|\bpow(?:er)?\(": "for powers write I({x}^2) or poly({x}, 2)",
    r"\{": "for arithmetic write I({x}/100)",
    r"\bstandardize\(": "for standardize({x}) write scale({x})",
    r"\b(?:bs|cc|poly)\([^()]*\b(?:extrapolation|constraints)\s*=": "what is beyond the training rows follows from the function: "
    "bs() takes the end of its range, ns() is linear, cc() is periodic and has the mean 0",
    r"\b(?:exp2|exp10)\(": "write I(2^{x}) and I(10^{x})",
    r"\bhashed\(": "no factor needs to be hashed: data.rare merges rare levels, and a factor may have millions of them",
    r"\b(?:lag|lead)\(|(?<!\w)[lfd]\(": "rows are in no order; a column may hold the value of the row before",
    r"\blog\([^()]*,": "for another base write log2({x}), log10({x}) or I(log({x})/log(3))",
    r"\bt2\(": "for a smooth of several columns write te({x}, {z})",
    r"\b(?:cr|cs|rcs|spline\w*|lspline|pspline)\(": "for a smooth term write s({x}, k=20); "
    "without a penalty ns({x}, df=4), which is linear at its ends, or bs({x}, df=5); for a periodic one cc({x}, df=6, "
    "lower_bound=0, upper_bound=24)",
    r"\b(?:re|random)\(": "random effects are (1 | {x})",
    r"\bordered\(": "for ordered({x}) write C({x}, contr.poly); the key `order` has the order of levels",
    r"\binteraction\(|&": "for an interaction write {x}:{z}; a condition is a column under data.derive",
    r"\bas[._](?:numeric|integer|character|logical)\(": "a column has its type in the layout; write {x}, or C({x}) "
    "for its values as levels; a response may be a condition, I({x} > 0)",
    r"\b(?:ns|bs)\([^~]*\b(?:Boundary\.knots|intercept)\s*=": "write lower_bound and upper_bound for Boundary.knots, and "
    "include_intercept for intercept",
    r"\b(?:cut|if_?else|case_when|pmin|pmax)\(|\w*\)?\s*(?:[<>]|==)": "conditions and classes are columns under data.derive, "
    "such as `derive: {{{x}_is_high: {x} > 10}}`",
    r"\b(?:contr\.SAS)\b|\bC\([^()]*\b(?:ref|base)\s*=": 'for a reference level write C({x}, Treatment("level")), '
    "or give the key `reference: {{{x}: level}}`",
    r"\bcontr\.(?!(?:sum|helmert|poly|diff|treatment)\b)\w+|\b(?:Sum|Diff|Helmert|Poly)\b": "codings are C({x}, "
    "contr.sum), contr.helmert, contr.poly and contr.diff; define other comparisons of levels under `contrasts`",
    r"^\s*(\w+)\s*/\s*(\w+)": "of a count of events write cbind({0}, {1} - {0}), or the response {0} and the key `trials: {1}`",
    r"^[^~(]*=": "write ~ between response and terms, as in `{y} ~ {x}`",
    r"\b(?!contr\.)[A-Za-z_]\w*\.[A-Za-z_](?![\w.]*\()|[$@]": "names of columns have letters, digits and _ alone, and no frame "
    "before them",
    r"(?:[*/+]\s*\d|\d\s*\*)(?![^()]*\))": "a number stands for nothing but the intercept (1, or 0 for none): "
    "a multiple is a column under data.derive, such as `derive: {{{x}_times_2: {x} * 2}}`",
}
"""Hints, by a regular expression that the formula matches. {y} is the response, {x} the first column that the match or what
follows it names, and {z} another."""


def names_in(text: str) -> list[str]:
    """The columns that a text seems to name, each once."""
    return [*dict.fromkeys(NAME.findall(QUOTED.sub(" ", text)))]


def example(text: str, words: str) -> str:
    """Words with the first column of a text for {x}, and the second for {z}."""
    x, z, *_ = dict.fromkeys([*names_in(text), "x", "z"])
    return words.format(x=x, z=z)


def hints(formula: str) -> list[str]:
    """Return what to write instead in a refused formula, if that is clear; at most the two likeliest hints."""
    bare = QUOTED.sub(" ", formula)
    terms = bare
    while (outside := re.sub(r"\([^()]*\)", "", terms)) != terms:
        terms = outside
    left, tilde, right = bare.partition("~")
    response, *_ = [*names_in(left if tilde else ""), "y"]
    every = names_in(right if tilde else bare)
    fitting = []
    for pattern, words in HINTS.items():
        if match := re.search(pattern, bare):
            after = [name for name in names_in(bare[match.start() :]) if name in every and name != response]
            x, z, *_ = dict.fromkeys([*after, *every, "x", "z"])
            fitting.append(words.format(*match.groups(), x=x, y=response, z=z))
    if other := re.search(r"`([^`]*\W[^`]*)`|\bQ\(\s*['\"]([^'\"]*[^\w'\"][^'\"]*)", formula):
        fitting.append(renaming(other[1] or other[2]))
    elif blank := re.search(r"\w+[ \t]+\w+", bare.replace("%in%", "")):
        fitting.append(renaming(blank[0]))
    if bare.count("(") != bare.count(")"):
        fitting.insert(0, "each ( needs a )")
    if not re.search("[~=]", bare):
        fitting.insert(0, example(bare, "write the response before a ~, as in `{x} ~ {z}`"))
    if re.search("[,;]", terms):
        fitting.append("terms are joined by +")
    return fitting[:2]


def renaming(source: str) -> str:
    """What to do with a column of another name than a formula can hold."""
    name = re.sub(r"\W+", "_", source).strip("_") or "name"
    return (
        "names of columns have letters, digits and _ alone; a layout renames a column, and `init` does: "
        f"`columns: {{{name}: {{type: string, source: {source}}}}}`"
    )
