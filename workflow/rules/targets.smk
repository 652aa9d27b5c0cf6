# The targets: of a default run, of a comparison, and of the files to score.


# In the report: the caption, and the label.
CAPTIONS = {
    "coefficients.svg": ("coefficient_plot", "coefficients, picture"),
    "coefficients.html": ("coefficient_table", "coefficients, table"),
    "effects.svg": ("effects", "effects of numbers, picture"),
    "metrics.svg": ("metrics_plot", "metrics, picture"),
    "metrics.html": ("metrics", "metrics, table"),
    "metrics_by.svg": ("metrics_by", "metrics by group, picture"),
    "path.svg": ("path", "path of the penalty"),
    "embeddings.svg": ("embeddings", "embeddings of levels, picture"),
    "marginal_effects.csv": ("marginal_effects", "average marginal effects, table"),
    "adjusted_means.csv": ("adjusted_means", "adjusted means, table"),
    "margins_at.csv": ("margins_at", "means and effects in scenarios, table"),
    "diagnostics.html": ("diagnostics", "diagnostics"),
    "history.svg": ("history", "how the fit went, picture"),
}


def in_report(name):
    """A file of a model as an output, with what the report says of it."""
    path = f"{MODEL}/{name}"
    if name not in CAPTIONS:
        return path
    caption, label = CAPTIONS[name]
    return report(path, caption=f"../report/{caption}.rst", category="{model}", labels={"result": label})


# The tables that a regression has if its section says so, and the curves of its formula.
MARGINAL_TABLES = ("marginal_effects", "adjusted_means")
AVERAGED_TABLES = (*MARGINAL_TABLES, "margins_at")
USUAL_TABLES = ("coefficients", "terms", *MARGINAL_TABLES)
OPTIONAL_TABLES = ("pairwise", "margins_at", "profile", "path", "vcov")
# Only the fit shows whether the coefficients that these tables name have estimates, so they may be refused. Each has a job of its own,
# which comes after the other tables and does not take them with it.
REFUSABLE_TABLES = ("contrasts", "hypotheses")


# Files from another reading of the rows of a regression.
AVERAGES = (f"{MODEL}/averages.npz", f"{MODEL}/averages.sha256")
USUAL_EVALUATIONS = (*(["metrics.json"] if CONFIG.data.split.evaluate else []), "averages.npz", "averages.sha256")


def evaluations_of(name):
    """The files of a model that one job makes of the rows."""
    model, has_rows = CONFIG.all_models[name], CONFIG.data.split.evaluate
    has_averages = name in CONFIG.models and model.marginal_effects
    metrics = [*(["metrics.json"] if has_rows else []), *(["metrics_by.csv"] if has_rows and model.by else [])]
    return (*metrics, *(["averages.npz", "averages.sha256"] if has_averages else []))


KEYS_OF_METRICS = ("threshold", "unseen", "by")
KEYS_OF_AVERAGES = ("adjusted_means", "margins_at", "offset_at", "random_effects")
OPTIONS_OF_EVALUATIONS = {"metrics.json": "metrics", "metrics_by.csv": "groups", "averages.npz": "averages"}


def outputs_of_evaluations(files):
    """The outputs of an evaluation, by the option that names each."""
    return {OPTIONS_OF_EVALUATIONS.get(file, "digest"): f"{MODEL}/{file}" for file in files}


def options_of_evaluations(files):
    """A params function: the options that name the outputs of an evaluation."""
    options = {file: option for file, option in OPTIONS_OF_EVALUATIONS.items() if file in files}
    return lambda wildcards: " ".join(
        f"--{option} {RESULTS}/models/{wildcards.model}/{file}" for file, option in options.items()
    )


def refusable_tables_of(name):
    """The tables that a section asks for and that a fit may refuse."""
    return [table for table in REFUSABLE_TABLES if name in CONFIG.models and getattr(CONFIG.models[name], table)]


def tables_of(name):
    """The other tables of a model, which one job writes."""
    if name in CONFIG.networks:
        tables = {"coefficients": is_linear(name), "embeddings": has_embeddings(name)}
        return tuple(table for table, has in tables.items() if has)
    model = CONFIG.models[name]
    further = [table for table in OPTIONAL_TABLES if getattr(model, table)]
    marginal = MARGINAL_TABLES if model.marginal_effects else ()
    return ("coefficients", "terms", *marginal, *further, *(["effects"] if is_curved(name) else []))


def has_embeddings(network):
    """Whether hidden layers of a network may embed a factor: images are none."""
    images = {name for layout in LAYOUTS.values() for name, column in layout.columns.items() if column.type == "image"}
    settings = CONFIG.networks[network]
    return bool(settings.hidden) and not images.issuperset(covariates_of(settings))


# The keys of the config that a table depends on.
KEYS_OF_TABLES = {
    "coefficients": ["confidence"],
    "contrasts": ["adjust", "confidence", "contrasts"],
    "hypotheses": ["adjust", "hypotheses"],
    "pairwise": ["confidence", "pairwise", "pairwise_at"],
    "margins_at": ["confidence", "margins_contrasts"],
    "effects": ["confidence"],
    "marginal_effects": ["adjusted_means", "confidence"],
    "adjusted_means": ["adjusted_means", "confidence"],
}
# The tables that pages read, which have a digest.
SEALED = ("coefficients", "terms", "effects", "embeddings", "pairwise", *AVERAGED_TABLES)


def files_of_tables(tables, is_network=False):
    """The files of some tables. The coefficients of a regression exist as Parquet too."""
    kinds = {
        table: [
            ".csv",
            *([".parquet"] if table == "coefficients" and not is_network else []),
            *([".sha256"] if table in SEALED else []),
        ]
        for table in tables
    }
    return [in_report(f"{table}{kind}") for table in tables for kind in kinds[table]]


def settings_of_tables(tables):
    return settings(*sorted({key for table in tables for key in KEYS_OF_TABLES.get(table, [])}))


def inputs_of_tables(tables):
    """The inputs of some tables, beside the fit."""
    curves = f"{RESULTS}/data/dictionary.json" if "effects" in tables else []
    return {
        "reference": reference_of_regression,
        "dictionary": curves,
        "averages": AVERAGES[0] if set(tables) & set(AVERAGED_TABLES) else [],
        "digest": AVERAGES[1] if set(tables) & set(AVERAGED_TABLES) else [],
        "manifests": lambda wildcards: MANIFESTS if wildcards.model in CONFIG.networks else [],
    }


def tables_before(wildcards):
    """An input function: a table that is written before one that may be refused."""
    return [f"{MODEL}/coefficients.csv".format(model=wildcards.model)] if wildcards.table in REFUSABLE_TABLES else []


def averages_of_table(wildcards):
    """An input function: the averages, if a table needs them."""
    return [AVERAGES[0].format(model=wildcards.model)] if wildcards.table in AVERAGED_TABLES else []


# The pictures of every regression, and those with a page.
USUAL_PICTURES = ("history", "coefficients", *(["metrics"] if CONFIG.data.split.evaluate else []))
WITH_PAGE = ("coefficients", "metrics")


def pictures_of(name):
    """The pictures of a model, which one job draws."""
    model = CONFIG.all_models[name]
    usual = [picture for picture in USUAL_PICTURES if picture != "coefficients" or name in CONFIG.models]
    groups = ["metrics_by"] if model.by and CONFIG.data.split.evaluate else []
    if name in CONFIG.networks:
        return (*usual, *groups, *(["embeddings"] if has_embeddings(name) else []))
    return (*usual, *groups, *(["path"] if model.path else []), *(["effects"] if is_curved(name) else []))


def files_of_pictures(pictures, kinds):
    """The files of some pictures in these formats, pages among them."""
    return [
        in_report(f"{picture}{kind}")
        for picture in pictures
        for kind in kinds
        if kind != ".html" or picture in WITH_PAGE
    ]


def inputs_of_pictures(pictures):
    """What some pictures of a model show."""
    names = {
        "history": ["history.csv", "history.sha256"],
        "coefficients": ["coefficients.csv", "coefficients.sha256"],
        "effects": ["effects.csv", "effects.sha256"],
        "metrics": ["metrics.json"],
        "embeddings": ["embeddings.csv", "embeddings.sha256"],
        "path": ["design.json", "checkpoint"],
    }
    needed = ["fit.json", *(name for picture in pictures for name in names.get(picture, []))]
    coordinates = [files_of_coordinates] if "coefficients" in pictures else []
    return [*(f"{MODEL}/{name}" for name in needed), *coordinates]


def pictures_of_all_models():
    """The files of `rule pictures`."""
    pictures = [f"{RESULTS}/models/{model}/{picture}" for model in MODELS for picture in pictures_of(model)]
    return expand("{picture}.{kind}", picture=[*pictures, f"{RESULTS}/data/rows"], kind=["png", "pdf"])


def targets_of_all_models():
    """The files that `rule all` makes for each model; metrics only if there are rows to compute them on."""
    targets = expand(f"{MODEL}/fit.json", model=MODELS)
    for model in MODELS:
        names = [f"{picture}.svg" for picture in pictures_of(model)]
        names += [f"{picture}.html" for picture in pictures_of(model) if picture in WITH_PAGE]
        names += [
            f"{table}.csv"
            for table in [*tables_of(model), *refusable_tables_of(model)]
            if table not in ("effects", "embeddings", "adjusted_means")
        ]
        names += [f"{table}.html" for table in refusable_tables_of(model)]
        names += [name for name in evaluations_of(model) if not name.startswith("averages")]
        names += ["diagnostics.html"] if model in REGRESSIONS and CONFIG.models[model].diagnostics else []
        targets += [f"{RESULTS}/models/{model}/{name}" for name in names]
    if CONFIG.data.split.predict:
        targets += predicted_files("predictions", FILES)
    sweeps = [sweep for sweep, networks in SWEEPS.items() if set(networks) & set(MODELS)]
    targets += expand(f"{SWEEP}/{{file}}", sweep=sweeps, file=["networks.csv", "losses.svg"])
    exported = [model for model in MODELS if CONFIG.all_models[model].export]
    targets += expand(f"{MODEL}/model.json", model=exported)
    return targets


def files_of_all_models():
    """All files that a run makes for each model. Snakemake makes a deleted one again, even if no other job reads it, because they
    are named here."""
    files = targets_of_all_models()
    for model in MODELS:
        settings = CONFIG.all_models[model]
        further = ["design.json", *evaluations_of(model), *(f"{table}.sha256" for table in refusable_tables_of(model))]
        further += ["reference.json"] if model in REGRESSIONS else []
        further += ["diagnostics.svg"] if model in REGRESSIONS and settings.diagnostics else []
        further += ["saved_model"] if settings.export else []
        tables = files_of_tables(tables_of(model), model in NETWORKS)
        files += [
            str(name).format(model=model)
            for name in [*FITTED.values(), *tables, *(f"{MODEL}/{name}" for name in further)]
        ]
    return files


# What some configs ask for, beside what each model has.
OPTIONAL = (
    "contrasts.csv contrasts.html diagnostics.html effects.svg embeddings.svg hypotheses.csv hypotheses.html marginal_effects.csv margins_at.csv metrics.html metrics.json metrics_by.csv"
    " metrics_by.svg model.json pairwise.csv path.csv path.svg predictions/*.csv predictions/*.parquet profile.csv vcov.csv"
).split()


def results_not_asked_for():
    """The folders of models, and the files of others, that an earlier config asked for and this one does not."""
    folders = Path(RESULTS, "models").glob("*/")
    left = [folder for folder in folders if folder.name not in CONFIG.all_models and (folder / "fit.json").is_file()]
    asked = set(map(Path, targets_of_all_models()))
    for model in MODELS:
        files = (file for name in OPTIONAL for file in Path(RESULTS, "models", model).glob(name))
        left += [file for file in files if file not in asked]
    compared = Path(RESULTS, "compare.html")
    return sorted([*left, *([compared] if compared.is_file() and not CONFIG.compare else [])])


def pages_of_all_models():
    """The files of `rule all` that the first page links to."""
    shown = [target for target in targets_of_all_models() if target.endswith((".html", ".svg", ".csv"))]
    return [
        f"{RESULTS}/data/columns.html",
        f"{RESULTS}/data/rows.html",
        *([f"{RESULTS}/compare.html"] if CONFIG.compare else []),
        *shown,
    ]


def predicted_files(folder, files):
    """The predictions of all models in one of their folders, in the formats that the config asks for."""
    as_csv = [model for model in MODELS if CONFIG.all_models[model].predictions == "csv"]
    path = f"{MODEL}/{folder}/{{file}}"
    return expand(f"{path}.parquet", model=MODELS, file=files) + expand(f"{path}.csv", model=as_csv, file=files)


def is_curved(model):
    """Whether a regression has curves of numbers; regressions of classes have none."""
    settings = CONFIG.models[model]
    return settings.family != "multinomial" and has_curves(settings.formula)


def curves_of(name):
    """An input function: a file of the curves of a model, if its formula has a number inside a function."""

    def files(wildcards):
        model = wildcards.model
        return [str(Path(RESULTS, "models", model, name))] if model in CONFIG.models and is_curved(model) else []

    return files


def is_linear(network):
    """Whether a network has the coefficients of a regression; networks for classes have not."""
    settings = CONFIG.networks[network]
    return not (settings.is_deep or settings.offset_from or settings.family == "multinomial")


def compared_files(name="", among=None):
    """An input function: a file of each compared model, or its folder; `among` limits the names."""

    def files(wildcards):
        if not CONFIG.compare:
            models = ", ".join(MODELS)
            raise WorkflowError(f"the config names no models to set side by side; say e.g. `compare: [{models}]`")
        return [
            str(Path(RESULTS, "models", model, name)) for model in CONFIG.compare if among is None or model in among
        ]

    return files


def tables_for_papers():
    """The files of `rule tables`, a table of each model with coefficients and a table of the models under `compare`."""
    with_coefficients = [model for model in MODELS if model in REGRESSIONS or is_linear(model)]
    tables = expand(f"{MODEL}/coefficients", model=with_coefficients)
    tables += [f"{RESULTS}/compare"] if CONFIG.compare else []
    return expand("{table}.{format}", table=tables, format=["tex", "md", "docx", "xlsx"])


def scaled_files(name=""):
    """An input function: a file of each network in the comparison of workers, or its folder."""

    def files(wildcards):
        if not NETWORKS:
            raise WorkflowError("the config trains no networks, so there are no workers to compare")
        if not CONFIG.data.split.evaluate:
            raise WorkflowError("there are no rows to evaluate the networks on; add data.split.evaluate")
        return [str(Path(RESULTS, "models", network, name)) for network in NETWORKS]

    return files


def scores(wildcards):
    """The files of `rule score`."""
    if not SCORED:
        raise WorkflowError("the config names no files to score; say e.g. `score: [data/2009.csv]`")
    return predicted_files("scores", SCORED)
