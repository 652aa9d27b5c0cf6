"""Repeat the terms of a multinomial regression for each class.

Unpenalised terms are repeated for every class but the reference class. Penalised terms are repeated for every class, so
that the fit does not depend on the choice of the reference class.
"""

from dataclasses import replace

from tfglm.design.design import Design
from tfglm.design.references import levels_in_words
from tfglm.errors import UserError


def by_class(design: Design, reference: str | None, where: str) -> Design:
    """Give each class but the reference class a linear predictor of its own; the reference class gets only the penalised
    terms.

    Parameters
    ----------
    design
        A design with a categorical response and the terms of one linear predictor.
    reference
        The reference class; by default the first one.
    where
        The section of the config that a message names.

    Raises
    ------
    UserError
        If there is no such class.
    """
    assert design.classes
    labels = design.classes.levels
    if reference is not None and reference not in labels:
        raise UserError(
            f"{where}.reference_class: `{design.response}` has no class `{reference}` in the training rows"
            f"{levels_in_words(reference, labels)}"
        )
    against = labels[0] if reference is None else reference
    # No penalty acts on these: with one for every class they would not be unique.
    compared = design.unpenalised_terms
    terms = tuple(
        replace(term, name=f"{label}: {term.name}", equation=label)
        for label in labels
        for term in design.terms
        if label != against or term.name not in compared
    )
    return replace(design, terms=terms, class_labels=labels, reference_class=against)
