"""Give the classes of a response their terms.

In a multinomial regression, unpenalised terms are repeated for every class but the reference class. Penalised terms are
repeated for every class, so that the fit does not depend on the choice of the reference class.

In an ordinal regression all classes share the terms. The fit has the thresholds zeta_k as the distances zeta_k - zeta_0 from
the first one, and -zeta_0 as the intercept, so that centres and reference levels change the intercept alone. Tables have the
thresholds (`thresholds`).
"""

from dataclasses import replace

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.design.references import levels_in_words
from tfglm.design.terms import DesignTerm
from tfglm.errors import UserError
from tfglm.formula.terms import INTERCEPT, Intercept


def by_class(design: Design, reference: str | None, where: str) -> Design:
    """Give each class but the `reference` class (by default the first) a linear predictor of its own; the reference class
    gets only the penalised terms. The design has a categorical response and the terms of one linear predictor. Raises
    UserError, which begins with the section `where`, if there is no such class."""
    assert design.classes
    labels = design.classes.levels
    if reference is not None and reference not in labels:
        raise UserError(
            f"{where}.reference_class: `{design.roles.response}` has no class `{reference}` in the training rows"
            f"{levels_in_words(reference, labels)}"
        )
    against = labels[0] if reference is None else reference
    # No penalty acts on these: with one for every class they would not be unique.
    compared = design.unpenalised_terms
    terms = tuple(
        replace(term, equation=label)
        for label in labels
        for term in design.terms
        if label != against or term.name not in compared
    )
    return replace(design, terms=terms).with_likelihood(class_labels=labels, reference_class=against)


def in_order(design: Design) -> Design:
    """Add the thresholds between ordered classes to a design with an intercept and the terms of one linear predictor."""
    assert design.classes
    labels = design.classes.levels
    distances = tuple(DesignTerm(Intercept(), equation=label) for label in labels[1:-1])
    intercept, *terms = design.terms
    return replace(design, terms=(intercept, *distances, *terms)).with_likelihood(class_labels=labels)


def thresholds(design: Design) -> scipy.sparse.csr_array:
    """Return the matrix that converts coefficients with an intercept and distances to those with thresholds, [p, p]."""
    places = [design.slices[term.name].start for term in design.terms if term.base == INTERCEPT]
    change = scipy.sparse.eye_array(design.size, format="lil")
    change[places, np.full(len(places), design.intercept)] = -1.0
    return change.tocsr()
