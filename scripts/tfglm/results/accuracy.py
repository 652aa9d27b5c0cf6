"""The accuracy of the estimates, from fit.json, in sentences."""

import math
from collections.abc import Mapping

from tfglm.config.std_errors import OF_POSTERIOR, SURVEY

NO_ROWS = "no rows in the likelihood"
"""The reason for an aliased coefficient whose column is not a combination of other columns."""

ERRORS = {
    "classical": "classical: right if rows are independent and the family's variance is true",
    "unconditional": "classical, plus what estimating the smoothing parameters adds",
    "quasi": "classical, with the dispersion estimated",
    "robust": "robust to a wrong variance (HC1)",
    **{kind: f"robust to a wrong variance ({kind})" for kind in ("HC0", "HC1", "HC2", "HC3")},
}

SERIAL = {"newey_west": "Newey and West", "driscoll_kraay": "Driscoll and Kraay"}

LOOSE = 1e-3
"""A bound on the distance of estimates from the maximum, in standard errors, above which it says nothing of that distance: it
adds up the sizes of rounding errors that cancel."""

BY_CLUSTER = {
    "CR2": "CR2, tests by t with Satterthwaite's degrees of freedom, joint tests by AHT",
    "CR1": "CR1, tests by t and F with the effective number of clusters",
    "CGM": "as Cameron, Gelbach and Miller add them up, tests by t and F with the effective number of clusters",
}


def errors(fit: Mapping) -> str:
    """Name the kind of the standard errors, or say why there are none."""
    std_errors, penalised = fit["std_errors"], "l2" in fit
    if std_errors["kind"] == "cluster":
        alike = f"robust to rows with the same {std_errors['column'].replace(' + ', ' or ')} being alike"
        kind = f"{alike} ({std_errors['clusters'] or 0:,} clusters; {BY_CLUSTER[std_errors['estimator']]})"
    elif "lags" in std_errors:
        alike = f"robust to rows being alike whose {std_errors['column']} is up to {std_errors['lags']:,} apart"
        by = f"{SERIAL[std_errors['kind']]}, tests by t and F with the effective number of dates"
        kind = f"{alike} ({std_errors['dates']:,} dates; {by})"
    elif std_errors["kind"] == SURVEY:
        strata = f" in {std_errors['strata']:,} strata" if std_errors["strata"] else ""
        fpc = ", of a finite population" if std_errors["fpc"] else ""
        units = f"{std_errors['units']:,} sampling units of {std_errors['column']}{strata}{fpc}"
        kind = f"by the design of a survey ({units}; tests by t and F with {std_errors['df']:g} degrees of freedom)"
    elif std_errors["kind"] != "none":
        kind = ERRORS[std_errors["kind"]]
        if any(smooth["is_random"] for smooth in fit.get("smooths", [])):
            kind = kind.replace("independent", "independent given the random effects")
    elif penalised and fit["exact"] and not fit["l1"]:
        return (
            "The fit is penalised, so there are no standard errors and no tests; the table has standard deviations of the "
            "posterior, which take the penalty for a prior."
        )
    elif penalised:
        return "The fit is penalised, so there are no standard errors and no tests."
    elif fit["perfect_fit"]:
        return "The fit is exact, so standard errors have no meaning and there are none."
    else:
        return "There are no standard errors, as the fit is not at the maximum."
    smooth = ""
    if fit.get("smooths"):
        smooth = " Those of smooth terms and random effects " + (
            "are standard deviations of the posterior, which takes the penalty for a prior."
            if std_errors["kind"] in OF_POSTERIOR
            else "contain the bias that the prior of the penalty expects."
        )
    if "cluster" not in std_errors["kind"] and any(smooth["is_random"] for smooth in fit.get("smooths", [])):
        smooth += " Tests and intervals are by t and F with Satterthwaite's degrees of freedom."
    if any(each["at_bound"] for each in fit.get("bounds", [])):
        smooth += " They take coefficients on a bound as known, which have none themselves."
    return f"Standard errors: {kind}.{smooth}"


def convergence(fit: Mapping) -> str:
    """Say how far from the maximum the fit has ended, if that is known."""
    certificate, penalised = fit["certificate"], "l2" in fit
    if fit["perfect_fit"]:
        return "The fit converged: it leaves no residuals but rounding errors."
    if not fit["exact"]:
        far = ": the warning says how far" if fit.get("gap") else ""
        return f"The fit is by an online solver, which stopped before the maximum of the likelihood{far}."
    if not fit["converged"]:
        return "The fit did NOT converge: the warning says how far it is from the maximum, and what may help."
    if "largest_kkt_violation" in certificate:
        reached = (
            f"the largest violation of the optimality conditions is {certificate['largest_kkt_violation']:.1e}, "
            f"{certificate['largest_kkt_violation'] / (fit['l1'] + fit['l2']):.0e} of the penalty"
        )
        return f"The fit converged: {reached}."
    if "instruments" in fit:
        step = rounded_up(certificate["within_standard_errors"])
        return (
            f"The fit converged: a further step would move no estimate by more than {step} classical standard errors."
        )
    of = "penalised likelihood" if penalised or fit.get("firth") or fit.get("smooths") else "likelihood"
    of += " between the bounds" if fit.get("bounds") else ""
    unit = "standard deviations of the posterior" if penalised else "classical standard errors"
    within, step = certificate["within_standard_errors"], certificate["lambda_squared"] ** 0.5
    from_probes = ""
    if simulation := fit.get("simulation"):
        of_std_dev = rounded_up(max(simulation["log_std_dev"]))
        from_probes = (
            f" The standard deviations of the random effects are from {simulation['probes']} random probes. The error of this "
            f"simulation is about {of_std_dev} of a standard deviation, and moves no estimate by more than about "
            f"{rounded_up(simulation['standard_errors'])} {unit}."
        )
    if within > LOOSE:
        return (
            f"The fit converged: a further step would move no estimate by more than {rounded_up(step)} {unit}. "
            f"The worst case of rounding errors is in fit.json; it is far above the error to expect.{from_probes}"
        )
    return (
        f"The fit converged: no estimate is further from the maximum of the {of} than {rounded_up(within)} {unit}, rounding "
        f"errors counted.{from_probes}"
    )


def rounded_up(value: float) -> str:
    """One digit of a bound, which it does not exceed."""
    if not value > 0:
        return f"{value:g}"
    unit = 10.0 ** math.floor(math.log10(value))
    return f"{math.ceil(value / unit - 1e-9) * unit:.0e}"
