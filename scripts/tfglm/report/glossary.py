"""The technical terms of the pages: their meaning, and their first occurrence on a page."""

import re
from collections.abc import Callable, Iterable

from markupsafe import Markup, escape

WORDS = {
    "accuracy": "the share of rows that are classified right",
    "adjusted mean": "of a level: the mean prediction if all training rows had it and kept their other covariates "
    "(marginal standardisation); or on request the prediction for a balanced grid",
    "AHT": "approximate Hotelling T² test: the joint test of several coefficients with few clusters (Pustejovsky "
    "and Tipton 2018, who call it HTZ)",
    "AIC, BIC": "the log-likelihood less a price for each parameter, times -2: smaller is better. As R computes "
    "them: an estimated variance counts as a parameter",
    "aliased": "a column that is a linear combination of the columns before it, or that has no rows. It has no "
    "coefficient; `aliased_with` names what it equals",
    "AUC": "the share of all pairs of a row with the event and one without it that the model ranks right: 0.5 is "
    "chance, 1 is best",
    "average marginal effect": "what a covariate changes in the mean response, averaged over the training rows: of "
    "a level, the difference of adjusted means from the reference level; of a number, the derivative",
    "average precision": "the mean of the precision over all thresholds, by recall: chance has the share of events, "
    "1 is best",
    "bootstrap": "how far a number varies if the rows, or the groups of rows that may be alike, are drawn anew from "
    "themselves",
    "Brier": "the mean squared distance of predicted probabilities from the outcome, 1 or 0: smaller is better",
    "calibration": "whether predicted probabilities are as large as the shares of events. The slope is below 1 "
    "where they are too extreme, above 1 where they are too cautious; in the large 0 is ideal, and above 0 they are "
    "too small",
    "cluster (of rows)": "rows with the same value of the column in `std_errors: cluster(column)`, which may be alike; with "
    "several columns, of any of them (Cameron, Gelbach and Miller 2011)",
    "converged": "a further Newton step would move no coefficient by more than a millionth of its classical "
    "standard error; for lasso and elastic net: the KKT conditions hold to within a millionth of the penalty",
    "CR1, CR2": "standard errors robust to clusters of rows. CR1 multiplies by a factor; CR2 adjusts the residuals "
    "of each cluster so that the variance is unbiased under a working model (Bell and McCaffrey 2002)",
    "deviance": "twice the difference between the log-likelihood of a model that fits every row and that of this "
    "model; what is explained of it is the share by which it is smaller than without covariates",
    "dispersion": "the factor by which the variance exceeds that of the family: estimated for gaussian, gamma, "
    "inverse Gaussian and Tweedie and with `quasi`, otherwise 1",
    "effective degrees of freedom": "the number of coefficients that a smooth term uses, given its penalty: 1 is a straight line",
    "epoch": "one pass of an online solver, or of a network, over all training rows",
    "Driscoll and Kraay": "standard errors that allow rows of one date, and of dates close to each other, to be alike; those of "
    "Newey and West are the same for a series of one row a date",
    "instruments": "of endogenous terms: columns that move these, and have no other effect on the response, for two-stage "
    "least squares",
    "interval": "were the rows drawn anew many times, 95 % of the intervals of 95 % would hold the true value, if "
    "the model is right",
    "joint test": "whether all coefficients of a term could be 0 together",
    "lift": "how many times more events there are among some rows than among all",
    "linear predictor": "eta: the sum of coefficients times columns, and the offset",
    "log loss": "minus the mean logarithm of the probability that was predicted for what happened: smaller is better",
    "log-likelihood": "the logarithm of the probability of the responses under the model: of two models of the same "
    "responses, that with the larger one fits better",
    "MAE": "mean absolute error of the predictions, in units of the response",
    "null accuracy": "the share of rows that would be classified right if all were said to be of the most frequent "
    "class",
    "odds": "a probability divided by its complement: a probability of 20 % is odds of 0.25. Odds that are 50 % "
    "higher are no probability that is 50 % higher",
    "online solver": "`sgd`, `adagrad`, `adam`, `ftrl`: learns from one batch of rows after the other",
    "penalised": "fitted with a penalty on large coefficients, which draws them towards 0",
    "posterior": "what is known of a coefficient after the data, if the penalty says what was known before",
    "precision, recall": "of the rows with a predicted event, the share that had it; of the rows with an event, the "
    "share that was predicted. F1 is their harmonic mean",
    "r squared, d squared": "the share of the variance of the responses that the predictions explain; the same of "
    "their deviance. Below 0 they are worse than the mean",
    "random effects": "effects of levels that are drawn towards 0, as if they came from a normal distribution "
    "whose variance the fit estimates",
    "ranked probability score": "of ordered classes: the mean square of the difference between the predicted probability of at "
    "most a class, and 1 if that happened or 0 if not. 0 is best, and a neighbour of the right class counts less than one far "
    "away",
    "reference level": "the level that the others of its term are compared with; its coefficient is 0",
    "RMSE": "root mean square error of the predictions, in units of the response",
    "robust": "standard errors that allow more than the family says: any variance of independent rows (HC0 to HC3), rows "
    "of a cluster that are alike (CR1, CR2), or dates close to each other (Driscoll and Kraay, Newey and West)",
    "ROC curve": "for each threshold the recall, beside the share of rows without the event for which one is predicted",
    "Satterthwaite": "the degrees of freedom of the t test of a coefficient whose variance is estimated from few or "
    "unequal clusters, or beside random effects of few levels",
    "separated": "all training rows of a level have the same outcome, so its coefficient runs off to infinity. Its "
    "rows take no part in the fit. Terms can separate rows together, though no level does by itself",
    "shard": "up to 524,288 rows of one input file and one split, a file a column, in random order",
    "smooth term": "a curve of a number, `s(x)`, or a surface of several, `te(x, z)` or `s(x, z)`, that is as smooth as the data "
    "ask for: splines with penalties that REML chooses",
    "strategy": "TensorFlow's way to divide a batch among devices, or a fit among processes",
    "support": "the rows that are of a class",
    "threshold": "the predicted probability from which on a row is classified as an event. Between two ordered classes: the "
    "linear predictor at which P(at most the lower class) is a half, with links logit and probit",
    "VIF": "variance inflation factor: how many times larger the variance of a coefficient is because of the other "
    "columns",
    "zero": "of a coefficient: set to 0 by the penalty",
}
"""The meanings of the terms, as in docs/glossary.md; terms with a common meaning share an entry."""


def names(word: str) -> list[str]:
    """Return how a term of the glossary appears on a page: `CR1` and `CR2` for `CR1, CR2`, `cluster` for `cluster (of
    rows)`."""
    return re.sub(r" \(.+\)", "", word).split(", ")


BY_NAME = {name.lower(): word for word in WORDS for name in names(word)}
NAME = rf"\b(?P<name>{'|'.join(sorted(map(re.escape, BY_NAME), key=len, reverse=True))})s?\b"
CODE = r"<(?P<code>code|pre|script|style)\b.*?</(?P=code)>"
NO_PROSE = r"<(?P<part>a|h\d|label|summary|svg|table)\b.*?</(?P=part)>"
MARK = r"<[^>]*>"

SPOKEN = re.compile(rf"{CODE}|{MARK}|{NAME}", re.IGNORECASE | re.DOTALL)
WRITTEN = re.compile(rf"{CODE}|{NO_PROSE}|{MARK}|{NAME}", re.IGNORECASE | re.DOTALL)


def explained(page: str) -> list[dict]:
    """The words in the text, tables and pictures of a page: their `id`, `word` and `meaning`."""
    used = {BY_NAME[found["name"].lower()] for found in SPOKEN.finditer(page) if found["name"]}
    return [
        {"id": identity(word), "word": word, "meaning": WORDS[word].replace("`", "")} for word in WORDS if word in used
    ]


def identity(word: str) -> str:
    return f"word-{names(word)[0].replace(' ', '-')}"


def linked(page: str, link_to: Callable[[str, Markup], str], own: Iterable[str] = ()) -> Markup:
    """Return the page with a link to the meaning of a term where it first occurs in a sentence.

    `link_to` makes the link from the id of the meaning and the text. Terms within one of the user's `own` names, such as a
    column `interval between calls`, mean something else and get none.
    """
    met = set()
    names_with_terms = [re.escape(escape(name)) for name in own if re.search(NAME, name, re.IGNORECASE)]
    longest_first = "|".join(sorted(set(names_with_terms), key=len, reverse=True))
    text = (
        re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)|{WRITTEN.pattern}", WRITTEN.flags) if longest_first else WRITTEN
    )

    def link(found: re.Match) -> str:
        word = BY_NAME.get((found["name"] or "").lower())
        if not word or word in met:
            return found[0]
        met.add(word)
        return link_to(identity(word), Markup(found[0]))

    return Markup(text.sub(link, page))
