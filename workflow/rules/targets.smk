# What a run makes: by default, of the models side by side, and of the files to score.


def targets_of_all_models():
    """What `rule all` makes for each model; metrics only where there are rows to compute them on."""
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


def pages_of_all_models():
    """Of what `rule all` makes, what the first page links to."""
    shown = [target for target in targets_of_all_models() if target.endswith((".html", ".svg", ".csv"))]
    return [f"{RESULTS}/data/rows.html", *([f"{RESULTS}/compare.html"] if CONFIG.compare else []), *shown]


def predicted_files(folder, files):
    """The predictions of all models in a folder of theirs, in the formats that the config asks for."""
    as_csv = [model for model in MODELS if CONFIG.all_models[model].predictions == "csv"]
    path = f"{MODEL}/{folder}/{{file}}"
    return expand(f"{path}.parquet", model=MODELS, file=files) + expand(f"{path}.csv", model=as_csv, file=files)


def is_curved(model):
    """Whether a regression has curves of numbers; with a linear predictor for each class none are drawn."""
    settings = CONFIG.models[model]
    return settings.family != "multinomial" and has_curves(settings.formula)


def curves_of(name):
    """An input function: a file of the curves of a model, if a number stands inside a function of its formula."""

    def files(wildcards):
        model = wildcards.model
        return [str(Path(RESULTS, "models", model, name))] if model in CONFIG.models and is_curved(model) else []

    return files


def is_linear(network):
    """Whether the coefficients of a network are those of a regression; with a linear predictor for each class they are not."""
    settings = CONFIG.networks[network]
    return not (settings.hidden or settings.offset_from or settings.family == "multinomial")


def compared_files(name="", among=None):
    """An input function: a file of each model that is set side by side, or its folder; of those `among` some names."""

    def files(wildcards):
        if not CONFIG.compare:
            models = ", ".join(MODELS)
            raise WorkflowError(f"the config names no models to set side by side; say e.g. `compare: [{models}]`")
        return [
            str(Path(RESULTS, "models", model, name)) for model in CONFIG.compare if among is None or model in among
        ]

    return files


def tables_for_papers():
    """What `rule tables` makes, the table of each model with coefficients and that of the models under `compare`."""
    with_coefficients = [model for model in MODELS if model in REGRESSIONS or is_linear(model)]
    tables = expand(f"{MODEL}/coefficients", model=with_coefficients)
    tables += [f"{RESULTS}/compare"] if CONFIG.compare else []
    return expand("{table}.{format}", table=tables, format=["tex", "md", "docx", "xlsx"])


def scaled_files(name=""):
    """An input function: a file of each network whose workers are set side by side, or its folder."""

    def files(wildcards):
        if not NETWORKS:
            raise WorkflowError("the config trains no networks, so there is nothing to say of their workers")
        if not CONFIG.data.split.evaluate:
            raise WorkflowError("there are no rows to judge the networks by; add data.split.evaluate")
        return [str(Path(RESULTS, "models", network, name)) for network in NETWORKS]

    return files


def scores(wildcards):
    """What `rule score` makes."""
    if not SCORED:
        raise WorkflowError("the config names no files to score; say e.g. `score: [data/2009.csv]`")
    return predicted_files("scores", SCORED)
