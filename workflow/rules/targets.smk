# What a run makes: by default, of the models side by side, and of the files to score.


def targets_of_all_models():
    """What `rule all` makes for each model; metrics only where there are rows to compute them on."""
    names = ["fit.json", "history.svg"]
    if CONFIG.data.split.evaluate:
        names += ["metrics.json", "metrics.html"]
    targets = expand("results/models/{model}/{name}", model=MODELS, name=names)
    names = ["coefficients.csv", "terms.csv", "coefficients.svg", "coefficients.html"]
    targets += expand("results/models/{model}/{name}", model=REGRESSIONS, name=names)
    if CONFIG.data.split.predict:
        targets += expand("results/models/{model}/predictions/{file}.parquet", model=MODELS, file=FILES)
    targets += expand("results/models/{model}/coefficients.csv", model=[name for name in NETWORKS if is_linear(name)])
    exported = [model for model in MODELS if CONFIG.all_models[model].export]
    targets += expand("results/models/{model}/model.json", model=exported)
    deep = [model for model in NETWORKS if CONFIG.networks[model].hidden]
    targets += expand("results/models/{model}/embeddings.csv", model=deep)
    groups = [model for model in MODELS if CONFIG.all_models[model].by and CONFIG.data.split.evaluate]
    targets += expand("results/models/{model}/metrics_by.csv", model=groups)
    wanted = {
        "contrasts.csv": lambda model: model.contrasts,
        "path.csv": lambda model: model.path,
        "vcov.csv": lambda model: model.vcov,
    }
    for name, is_wanted in wanted.items():
        targets += [f"results/models/{model}/{name}" for model in REGRESSIONS if is_wanted(CONFIG.models[model])]
    return targets + [f"results/models/{model}/effects.svg" for model in REGRESSIONS if has_curves(model)]


def has_curves(model):
    """Whether a number stands inside a function, whose effect a single coefficient does not show."""
    return re.search(r"\b(bs|poly|log\w*|sqrt|exp|abs)\(", CONFIG.models[model].formula.partition("~")[2])


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
        return [str(Path("results/models", model, name)) for model in CONFIG.compare if among is None or model in among]

    return files


def scaled_files(name=""):
    """An input function: a file of each network whose workers are set side by side, or its folder."""

    def files(wildcards):
        if not NETWORKS:
            raise WorkflowError("the config trains no networks, so there is nothing to say of their workers")
        if not CONFIG.data.split.evaluate:
            raise WorkflowError("there are no rows to judge the networks by; add data.split.evaluate")
        return [str(Path("results/models", network, name)) for network in NETWORKS]

    return files


def scores(wildcards):
    """What `rule score` makes."""
    if not SCORED:
        raise WorkflowError("the config names no files to score; say e.g. `score: [data/2009.csv]`")
    return expand("results/models/{model}/scores/{file}.parquet", model=MODELS, file=SCORED)
