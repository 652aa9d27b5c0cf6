# The targets: of a default run, of a comparison, and of the files to score.


def targets_of_all_models():
    """The files that `rule all` makes for each model; metrics only if there are rows to compute them on."""
    names = ["fit.json", "history.svg"]
    if CONFIG.data.split.evaluate:
        names += ["metrics.json", "metrics.html"]
    targets = expand(f"{MODEL}/{{name}}", model=MODELS, name=names)
    names = ["coefficients.csv", "terms.csv", "coefficients.svg", "coefficients.html"]
    targets += expand(f"{MODEL}/{{name}}", model=REGRESSIONS, name=names)
    if CONFIG.data.split.predict:
        targets += predicted_files("predictions", FILES)
    targets += expand(f"{MODEL}/coefficients.csv", model=[name for name in NETWORKS if is_linear(name)])
    exported = [model for model in MODELS if CONFIG.all_models[model].export]
    targets += expand(f"{MODEL}/model.json", model=exported)
    deep = [model for model in NETWORKS if CONFIG.networks[model].hidden]
    targets += expand(f"{MODEL}/embeddings.svg", model=deep)
    groups = [model for model in MODELS if CONFIG.all_models[model].by and CONFIG.data.split.evaluate]
    targets += expand(f"{MODEL}/metrics_by.{{kind}}", model=groups, kind=["csv", "svg"])
    wanted = {
        "contrasts.csv": lambda model: model.contrasts,
        "hypotheses.csv": lambda model: model.hypotheses,
        "pairwise.csv": lambda model: model.pairwise,
        "profile.csv": lambda model: model.profile,
        "path.csv": lambda model: model.path,
        "path.svg": lambda model: model.path,
        "vcov.csv": lambda model: model.vcov,
        "marginal_effects.csv": lambda model: model.marginal_effects,
    }
    for name, is_wanted in wanted.items():
        targets += [f"{RESULTS}/models/{model}/{name}" for model in REGRESSIONS if is_wanted(CONFIG.models[model])]
    return targets + [f"{RESULTS}/models/{model}/effects.svg" for model in REGRESSIONS if is_curved(model)]


# What some configs ask for, beside what each model has.
OPTIONAL = (
    "contrasts.csv effects.svg embeddings.svg hypotheses.csv marginal_effects.csv metrics.html metrics.json metrics_by.csv"
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
    return [f"{RESULTS}/data/rows.html", *([f"{RESULTS}/compare.html"] if CONFIG.compare else []), *shown]


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
    return not (settings.hidden or settings.offset_from or settings.family == "multinomial")


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
