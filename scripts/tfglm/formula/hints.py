"""Hints for formulas in the syntax of other programs."""

import re

from tfglm.formula.text import QUOTED

HINTS = {
    r"\b(?:as[._])?factor\(": "for factor(month) write C(month)",
    r"\boffset\(": "an offset has a key of its own beside the formula: `offset: log(seats)`",
    r"\bweights?\(": "weights have a key of their own beside the formula: `weights: seats`",
    r"\bcluster\(": "clusters have a key of their own beside the formula: `std_errors: cluster(date)`",
    r"\bstrata\(": "write a column of strata as a term, `origin` or C(month)",
    r"\|": "absorbed factors have a key of their own beside the formula: `absorb: [tailnum]`; random effects are "
    "(1 | tailnum), and `std_errors: cluster(column)` is for rows that may be alike",
    r"\bi\([^)]*\b(?:keep|bin\d?|ref2|sparse|f\d?)\s*=": "of fixest's i() there is ref alone; merge levels under data.derive",
    r"\.\.\w+|(?<![\w.])\.\[": "define a list of terms under `terms`, and use its name in formulas",
    r"(?:\*\*|\^)(?![^()]*\))|\bpow(?:er)?\(": "for powers write I(distance^2) or poly(distance, 2)",
    r"\{": "for arithmetic write I(distance/100)",
    r"\bQ\(": "names of columns have letters, digits and _ alone; a layout renames a column: `columns: {weekday: {type: string, "
    "source: day of week}}`",
    r"\bstandardize\(": "for standardize(distance) write scale(distance)",
    r"\bC\([^()]*\b(?:levels|spans_intercept)\s*=": "levels are those of the training rows, in their order; rename "
    "or merge them in a column under data.derive",
    r"\b(?:bs|cc|poly)\([^()]*\b(?:extrapolation|constraints)\s*=": "what is beyond the training rows follows from the function: "
    "bs() takes the end of its range, ns() is linear, cc() is periodic and has the mean 0",
    r"\b(?:exp2|exp10)\(": "write I(2^delay) and I(10^delay)",
    r"\bhashed\(": "no factor needs to be hashed: data.rare merges rare levels, and a factor may have millions of them",
    r"\blag\(": "rows are in no order; a column may hold the value of the row before",
    r"\bt2\(": "for a smooth of several columns write te(hour, distance)",
    r"\b(?:cr|cs|rcs|spline\w*|pspline)\(": "for a smooth term write s(distance, k=20); "
    "without a penalty ns(distance, df=4), which is linear at its ends, or bs(distance, df=5); for a periodic one cc(hour, df=6, "
    "lower_bound=0, upper_bound=24)",
    r"\b(?:ns|bs)\([^~]*\b(?:Boundary\.knots|intercept)\s*=": "write lower_bound and upper_bound for Boundary.knots, and "
    "include_intercept for intercept",
    r"\b(?:cut|ifelse|case_when|pmin|pmax)\(|[<>]": "conditions and classes are columns under data.derive, such as "
    "`derive: {far: distance > 1000}`",
    r"\b(?:relevel|contr\.SAS)\b|\bC\([^()]*\bref\s*=": "the reference level has a key of its own: "
    "`reference: {carrier: UA}`",
    r"\bcontr\.(?!(?:sum|helmert|poly|diff|treatment)\b)\w+|\b(?:Sum|Diff|Helmert|Poly)\b": "codings are C(carrier, "
    "contr.sum), contr.helmert, contr.poly and contr.diff; define other comparisons of levels under `contrasts`",
    r"(?:=\s*|,\s*)(?:TRUE|FALSE|T|F)\b": "write True and False",
    r"\bc\(": "write a list as [500, 1000]",
    r"^\s*[\w.]+\s*/": "of a count of events write cbind(events, trials - events), or the count and its key `trials: column`",
    r"^[^~(]*=": "write ~ between response and terms, as in `late ~ carrier + distance`",
    r"^[^~(]*[+,][^~]*~": "a model has one response; write a model for each",
    r"\b(?!contr\.)[A-Za-z_]\w*\.[A-Za-z_](?![\w.]*\()|[$@]": "names of columns have letters, digits and _ alone, and no frame "
    "before them; a layout renames a column: `columns: {weekday: {type: string, source: day.of.week}}`",
    r"(?:[*/+]\s*\d|\d\s*\*)(?![^()]*\))": "a number stands for nothing but the intercept (1, or 0 for none): "
    "a multiple is a column under data.derive, such as `derive: {km: distance * 1.609}`",
    r"&": "for an interaction write carrier:origin; a condition is a column under data.derive",
}
"""Hints, by a regular expression that the formula matches."""

RENAMING = (
    "names of columns have letters, digits and _ alone, without blanks; a layout renames a column: "
    "`columns: {weekday: {type: string, source: day of week}}`"
)


def hints(formula: str) -> list[str]:
    """Return what to write instead in a refused formula, if that is clear; at most the two likeliest hints."""
    bare = QUOTED.sub(" ", formula)
    terms = bare
    while (outside := re.sub(r"\([^()]*\)", "", terms)) != terms:
        terms = outside
    fitting = [words for pattern, words in HINTS.items() if re.search(pattern, bare)]
    if "`" in formula or re.search(r"\w[ \t]+\w", bare.replace("%in%", "")):
        fitting.append(RENAMING)
    if bare.count("(") != bare.count(")"):
        fitting.insert(0, "each ( needs a )")
    if not re.search("[~=]", bare):
        fitting.insert(0, "write the response before a ~, as in `late ~ carrier + distance`")
    if re.search("[,;]", terms):
        fitting.append("terms are joined by +")
    return fitting[:2]
