"""A regression of classes: each term once for every class but the reference class, which the others are compared with."""

from dataclasses import replace

from tfglm.design.design import Design
from tfglm.design.references import there_are
from tfglm.errors import UserError


def by_class(design: Design, reference: str | None, where: str) -> Design:
    """The design with a linear predictor for each class but one, the reference class.

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
    terms = tuple(
        replace(term, name=f"{label}: {term.name}", equation=label)
        for label in labels
        if label != against
        for term in design.terms
    )
    return replace(design, terms=terms, class_labels=labels, reference_class=against)
