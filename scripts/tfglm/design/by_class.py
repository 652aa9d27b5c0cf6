"""A regression of classes: each term once for every class but the reference class, which the others are compared with; a term
that penalties act on once for every class, so that the fit does not depend on which class that is."""

from dataclasses import replace

from tfglm.design.design import Design
from tfglm.design.references import there_are
from tfglm.errors import UserError


def by_class(design: Design, reference: str | None, where: str) -> Design:
    """The design with a linear predictor for each class but one, the reference class; that has the penalised terms alone.

    Parameters
    ----------
    design
        Whose response is a factor, with the terms of one linear predictor.
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
            f"{there_are(reference, labels)}"
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
