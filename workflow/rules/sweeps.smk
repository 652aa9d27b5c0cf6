# The networks of a sweep: functions for their rules in networks.smk. With `halving` they are trained in parts: after each part the
# networks are compared, and only the best continue. A comparison is a checkpoint of Snakemake, so that a network that ends there has
# no further jobs. All networks take part in it, also those that `fit` does not name: which networks run, and in what order, changes
# no result.

import functools

from snakemake.exceptions import IncompleteCheckpointException
from snakemake.io import checkpoint_target

PART = f"{MODEL}/parts/{{epochs}}"
SWEEP = f"{RESULTS}/sweeps/{{sweep}}"


def networks_of_sweeps():
    """The networks of each section with a sweep, by its name."""
    sweeps = {}
    for name, section in sections_of(config).items():
        if name in CONFIG.networks and name != section:
            sweeps.setdefault(section, []).append(name)
    return sweeps


SWEEPS = networks_of_sweeps()


def comparisons_of(sweep):
    """The epochs after which the networks of a sweep are compared; none without `halving`."""
    first = CONFIG.networks[SWEEPS[sweep][0]]
    return first.halving.comparisons(len(SWEEPS[sweep]), first.epochs) if first.halving else []


# The epochs of the comparisons, by the network.
PARTS = {name: epochs for sweep in SWEEPS if (epochs := comparisons_of(sweep)) for name in SWEEPS[sweep]}
IN_PARTS = "|".join(PARTS) or "(?!)"
SWEEP_OF = {name: sweep for sweep, names in SWEEPS.items() for name in names}


@functools.cache
def sha256_of(file, *status):
    """The digest of a file with this size and time."""
    return digests.sha256(Path(file))


def continuing(sweep, epochs):
    """The names of the networks that continue after a comparison, in the order of the sweep.

    Raises IncompleteCheckpointException if they have not been compared as they are now. Snakemake raises it itself if it knows of no
    comparison. But after an edit it may take that of an earlier run for done, whose job is about to run again.
    """
    compared = Path(checkpoints.compare_parts.get(sweep=sweep, epochs=epochs).output[0])
    fits = [Path(PART.format(model=name, epochs=epochs), "fit.json") for name in takes_part(sweep, epochs)]
    content = {}
    try:
        if compared.exists() and all(fit.exists() for fit in fits):
            content = digests.read_json(compared, needs=("fits", "continuing"))
    except UserError as error:
        raise WorkflowError(str(error)) from None
    now = [sha256_of(fit, fit.stat().st_size, fit.stat().st_mtime_ns) for fit in fits if content]
    if content.get("fits") != now or len(content["continuing"]) != number_to_continue(sweep, epochs):
        raise IncompleteCheckpointException(checkpoints.compare_parts.rule, checkpoint_target(str(compared)))
    return [name for name in SWEEPS[sweep] if name in content["continuing"]]


def takes_part(sweep, epochs):
    """The names of the networks that take part in a comparison."""
    earlier = [each for each in comparisons_of(sweep) if each < epochs]
    return continuing(sweep, earlier[-1]) if earlier else SWEEPS[sweep]


def compared_parts(wildcards):
    """The folders of the networks that take part in a comparison."""
    return expand(PART, model=takes_part(wildcards.sweep, int(wildcards.epochs)), epochs=wildcards.epochs)


def number_to_continue(sweep, epochs):
    """How many networks continue after a comparison."""
    number = len(SWEEPS[sweep])
    for each in comparisons_of(sweep):
        if each <= epochs:
            number = CONFIG.networks[SWEEPS[sweep][0]].halving.kept_of(number)
    return number


def part_before(wildcards):
    """The checkpoints of the part before a part."""
    earlier = [epochs for epochs in PARTS.get(wildcards.model, []) if epochs < int(wildcards.epochs)]
    return f"{PART}/state".format(model=wildcards.model, epochs=earlier[-1]) if earlier else []


def ended_at(name):
    """The epoch of the comparison after which a network does not continue; None if there is none."""
    return next((epochs for epochs in PARTS[name] if name not in continuing(SWEEP_OF[name], epochs)), None)


def last_part(wildcards):
    """The checkpoints of the last part of a network that continues to the end."""
    name = wildcards.model
    return f"{PART}/state".format(model=name, epochs=PARTS[name][-1]) if name in PARTS and not ended_at(name) else []


def end_of_parts(wildcards):
    """The same of a network that ends with a part, and fit.json of this part: its other files lead to another training."""
    epochs = ended_at(wildcards.model) if wildcards.model in PARTS else None
    return (
        expand(f"{PART}/{{file}}", model=wildcards.model, epochs=epochs, file=["state", "fit.json"]) if epochs else []
    )


def continued(wildcards, input):
    """A params function: the options of a training that continues its parts, or ends with them."""
    if input.end:
        return f"--begin {input.end[0]} --until {Path(input.end[0]).parent.name}"
    return f"--begin {input.begin}" if input.begin else ""


def shown_networks(wildcards):
    """The networks of a sweep that this run fits."""
    return [name for name in SWEEPS[wildcards.sweep] if name in MODELS]


def networks_of_sweep(file):
    """An input function: a file of each network of a sweep."""
    return lambda wildcards: expand(f"{MODEL}/{file}", model=shown_networks(wildcards))


def values_of_sweep(wildcards):
    """The epochs of a whole training and the values of the swept keys, by network, as JSON."""
    names = shown_networks(wildcards)
    keys = config["networks"][wildcards.sweep]["sweep"]

    def value(section, key):
        first, _, rest = key.partition(".")
        return value(section.get(first) or {}, rest) if rest else section.get(first)

    dumped = {name: CONFIG.networks[name].model_dump() for name in names}
    values = {name: {key: value(section, key) for key in keys} for name, section in dumped.items()}
    return json_of({"epochs": {name: CONFIG.networks[name].epochs for name in names}, "values": values})
