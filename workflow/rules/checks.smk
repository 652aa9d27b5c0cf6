# Checks before Snakemake deletes earlier outputs or starts a job, and the messages at the end of a run.

import functools
import json
import shutil
import subprocess

from snakemake.jobs import GroupJob

from tfglm.config import column_problems, offered_columns
from tfglm.config.files import no_such_file
from tfglm.data.packages import located
from tfglm.roles import cards, memory, pending, tpu


def check_config(config, problems):
    """Collect mistakes in columns, expressions and models, as far as config, layouts and headers show them, before Snakemake
    deletes the earlier outputs of the first rule that needs them."""
    for place, model in config.models_to_fit.items():
        if isinstance(model, NetworkConfig):
            with problems.collected():
                check_functions(model, place, FOLDERS_OF_CODE)
    offered = offered_columns(config, LAYOUTS.values())
    if not READS_HEADERS:
        # Only the jobs can read headers, expressions and formulas: they check these.
        problems.messages += column_problems(config, LAYOUTS.values())
        return
    from tfglm.data.layouts import check_expressions
    from tfglm.design.early import model_problems

    def layouts_of(files, settings):
        """The known layouts of some files, by name."""
        # Report a column that no layout has once, not for each file.
        known = [column for column in settings.columns if column in offered]
        settings, layouts = settings.model_copy(update={"columns": known}), {}
        for file in files.values():
            with problems.collected():
                possible = possible_layouts(file, settings)
                check_expressions(possible, settings)
                layouts |= possible
        if not files:
            # None of the files that the config names exists.
            layouts = LAYOUTS
            with problems.collected():
                check_expressions(layouts, settings)
        return layouts

    of_models = model_problems(config, layouts_of(FILES, config.data))
    if TO_SCORE:
        layouts_of(SCORED, TO_SCORE)
    for column, file in COORDINATES.items():
        if not Path(file).is_file():
            problems.messages.append(f"the coordinates of `{column}` in the layout: {no_such_file(Path(file))}")
    problems.messages += column_problems(config, LAYOUTS.values(), of_models.unparsed)
    problems.messages += of_models.messages


def check_this_config():
    """Collect the mistakes of this config, unless nothing has changed since it had none."""

    def has_none():
        reads_files = not all(Path(manifest).exists() for manifest in MANIFESTS)
        fits_here = REGRESSIONS and not (HAS_CLUSTER or NETWORKS)
        FORK_SERVER.start()
        FORK_SERVER.prepare(["ingest.py"] * reads_files + ["build_design.py"] + ["fit.py"] * bool(fits_here))
        before = len(PROBLEMS.messages)
        check_config(CONFIG, PROBLEMS)
        return len(PROBLEMS.messages) == before

    sections = [CONFIG, TO_SCORE, *LAYOUTS.values(), *LAYOUTS_TO_SCORE.values()]
    files = [status_of(file) for file in [*FILES.values(), *SCORED.values()]]
    coordinates = {file: Path(file).is_file() for file in COORDINATES.values()}
    texts = [section and section.model_dump_json() for section in sections]
    remembered(has_none, "config", texts, [*LAYOUTS, *LAYOUTS_TO_SCORE], files, coordinates)


@functools.cache
def check_asked(name):
    """Check a model that `fit` does not name but the command does, like the models that `fit` names."""
    problems = Problems()
    check_config(CONFIG.model_copy(update={"fit": [name], "compare": None}), problems)
    try:
        problems.check()
    except UserError as error:
        raise WorkflowError(in_file(CONFIG_FILES, str(error))) from None


def check_disk():
    """Refuse a disk that is too small."""
    needed = 0
    for name, file in FILES.items():
        if not (is_address(file.source) or Path(SHARDS_OF[name], "manifest.json").exists()):
            from tfglm.data.packing import estimated_csv_bytes
            from tfglm.data.shards import estimated_stored_bytes

            csv = estimated_csv_bytes(located(file.source))
            needed += estimated_stored_bytes(csv, len(CONFIG.data.columns))
    free = shutil.disk_usage(".").free
    if needed > free:
        raise UserError(
            f"the shards need about {needed / 1e6:,.1f} MB, but only {free / 1e6:,.1f} MB are free in {Path.cwd()}\n"
            f"  make room, keep fewer columns, or run snakemake in a folder on a larger disk with --directory"
        )
    if needed > 1e9:
        print(
            f"The shards need about {needed / 1e9:.1f} GB in {DATA}/; {free / 1e9:.1f} GB are free.",
            file=sys.stderr,
        )


try:
    # The processes of jobs do not check again.
    if workflow.is_main_process:
        check_this_config() if READS_HEADERS else check_config(CONFIG, PROBLEMS)
    PROBLEMS.check()
    if workflow.is_main_process and READS_HEADERS and not workflow.storage_settings.default_storage_provider:
        check_disk()
except UserError as error:
    raise WorkflowError(in_file(CONFIG_FILES, str(error))) from None


def hand_over_config():
    """Give jobs on other nodes this config as it is now. Their Snakemake would read the files again, when they have been edited."""
    networks = [namedtuple("Network", "model")(name) for name in NETWORKS]
    further = {path for network in networks for path in code_of(network)} | set(COORDINATES.values())
    taken = snapshot.Snapshot(
        text=snapshot.text_of(config),
        configs=CONFIG_PATHS,
        layouts=LAYOUTS | LAYOUTS_TO_SCORE,
        files=FILES,
        scored=SCORED,
        strategy=STRATEGY,
        digests={path: digest_of(path) for path in sorted(further)},
    )
    settings = workflow.config_settings
    of_others = [] if workflow.modifier.is_main_snakefile() else settings.configfiles
    settings.configfiles = [*of_others, taken.save(Path(CHECKED).absolute(), MODULE)]


JOBS_ELSEWHERE = workflow.is_main_process and workflow.resource_settings.nodes is not None
if JOBS_ELSEWHERE and not workflow.storage_settings.default_storage_provider:
    hand_over_config()


# On this machine, trainings that run at the same time have GPUs of their own.
if workflow.is_main_process and workflow.resource_settings.nodes is None:
    if "gpus" not in workflow.global_resources and any(network.gpus for network in CONFIG.networks.values()):
        workflow.register_resource("gpus", len(cards.visible()))


def check_devices(name):
    """Refuse a network that is to be trained on a TPU, or on GPUs, that this machine lacks."""
    network = CONFIG.networks[name]
    if network.strategy == "tpu" and (reason := tpu.lacking()):
        raise WorkflowError(tpu.refused(f"networks.{name}", reason))
    processes = network.servers[1] or network.peers or 1
    words = "training needs" if processes == 1 else f"{processes} workers with {network.gpus} each need"
    try:
        cards.check(processes * network.gpus, f"networks.{name}.gpus", words)
    except UserError as error:
        raise WorkflowError(str(error)) from None


def check_machine():
    """Before anything starts, refuse missing devices and more processes than this machine has memory for. Warn if others can
    reach the processes."""
    if not workflow.local_exec:
        return
    jobs = list(workflow.dag.needrun_jobs())
    for name in [job.wildcards.model for job in jobs if job.rule.name in ("train", "train_part", "train_on_cluster")]:
        check_devices(name)
    chiefs = [job for job in jobs if job.rule.name in ("chief", "train_on_cluster")]
    if not chiefs:
        return
    isolate = CONFIG.cluster.isolate
    try:
        for job in chiefs:
            memory.check(*roles_of(job.wildcards), memory.machine_memory())
    except UserError as error:
        raise WorkflowError(str(error)) from None
    if isolate == "never":
        return
    # In a separate process, because Snakemake has threads.
    line = [sys.executable, str(SCRIPTS / "isolate.py"), "--try"]
    reason = subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace").stdout.strip()
    if reason and isolate == "always":
        raise WorkflowError(
            f"`cluster: {{isolate: always}}`, but a fit cannot have a network of its own here: {reason}\n"
            f"  with `auto` it runs without one; README.md (Security) says what that means"
        )
    if reason:
        logger.warning(
            f"While a fit runs, whoever reaches this machine's ports can read and write your files; all users of this machine can: a "
            f"network of its own is refused here ({reason}). README.md (Security) says more."
        )


def check_nodes():
    """Refuse a fit on several nodes if nothing starts processes on the other nodes."""
    nodes, executor = CONFIG.cluster.nodes, workflow.executor_plugin.name
    if nodes > 1 and not (workflow.local_exec or executor == pending.EXECUTOR):
        raise WorkflowError(
            f"cluster.nodes: {nodes}: with the executor `{executor}` all processes of a fit run on one node; "
            "remove the key, or write --config 'cluster={nodes: 1}'"
        )


# Why the scheduler will never start a job, or why a group of jobs has failed: the end of the run repeats it.
GIVEN_UP = []


def comment_of(job):
    """The comment of a job, or of a group of jobs, in the queue of SLURM."""
    jobs = job.jobs if job.is_group() else [job]
    names = {
        value: None
        for each in jobs
        for key, value in sorted(each.wildcards_dict.items())
        if key not in ("key", "columns")
    }
    return pending.comment({each.rule.name for each in jobs}, names)


def watch_queue():
    """End a run if the scheduler will never start one of its jobs, and fail a job that has ended in a way that the executor
    does not know."""
    if workflow.executor_plugin.name == pending.EXECUTOR:
        import snakemake_executor_plugin_slurm

        pending.watch(Path.cwd(), logger.error, GIVEN_UP)
        states = pending.States(logger.error, requeued=not workflow.executor_settings.no_requeue)
        pending.label(snakemake_executor_plugin_slurm, comment_of)
        pending.translate(snakemake_executor_plugin_slurm, states)


def tell_why_groups_fail():
    """Make Snakemake say why a group of jobs has failed, as it does for single jobs. It drops the executor's words, such as
    those of an sbatch that refuses the job (https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/456).
    """
    log_error = GroupJob.log_error

    def log_error_with_reason(group, msg=None, **further):
        if msg:
            rules = sorted({job.rule.name for job in group.jobs})
            of = sorted({value for job in group.jobs for value in job.wildcards})
            reason = f"{', '.join(rules)} ({', '.join(of)}): {msg.partition('    sbatch call:')[0].strip()}"
            logger.error(reason)
            if reason not in GIVEN_UP:
                GIVEN_UP.append(reason)
        log_error(group, msg, **further)

    GroupJob.log_error = log_error_with_reason


onstart:
    # `--touch` starts no job.
    if not workflow.touch:
        workflow.execution_settings.latency_wait = latency_wait()
        FORK_SERVER.serve()
        check_machine()
        check_nodes()
        watch_queue()
        tell_why_groups_fail()
        look_often()
        make_room_for_groups()


onerror:
    end_at_once()
    for reason in GIVEN_UP:
        print(reason, file=sys.stderr)


def headline(name):
    """The result of a model, in a line."""

    def read(file):
        return json.loads(Path(RESULTS, "models", name, file).read_text(encoding="utf-8"))

    fit, metrics = read("fit.json"), read("metrics.json") if CONFIG.data.split.evaluate else {}
    what = "coefficient" if "coefficients" in fit else "parameter"
    size = f"{fit[f'{what}s']:,} {what}{'' if fit[f'{what}s'] == 1 else 's'}"
    failed = "" if fit.get("converged", True) else ", did NOT converge"
    text = f"{name}: {fit['family'].replace('_', ' ')}, {fit['rows']:,} rows, {size}{failed}"
    if not metrics.get("rows"):
        return text
    quality = []
    for key, words in {"auc": "AUC", "r_squared": "R squared"}.items():
        if metrics.get(key) is not None:
            quality.append(f"{words} {metrics[key]:.4f}")
    if metrics.get("d_squared") is not None:
        quality.append(f"deviance explained {100 * metrics['d_squared']:.1f} %")
    if "accuracy" in metrics:
        mean = metrics.get("mean_response")
        alone = metrics["null_accuracy"] if "null_accuracy" in metrics else max(mean, 1 - mean)
        share = f"accuracy {100 * metrics['accuracy']:.1f} %"
        quality.append(f"{share} (the most frequent outcome alone has {100 * alone:.1f} %)")
    return f"{text}; on {metrics['rows']:,} rows kept back {', '.join(quality) or 'see metrics.html'}"


# Bytes of unused shards below which nobody wants to hear of them.
WORTH_TIDYING = 100_000_000


onsuccess:
    end_at_once()
    # If the run made the first page, everything on it is from this config.
    if any(job.rule.name == "write_home" for job in workflow.dag.jobs):
        print("", *map(headline, MODELS), sep="\n")
        print(f"The page to open: {RESULTS}/index.html")
    elif any(Path(target).exists() for target in targets_of_all_models()):
        asked = [f"{RESULTS}/compare.html", f"{RESULTS}/compare.docx"]
        beside = "".join(f", {path}" for path in asked if Path(path).exists())
        print(f"The results are in {RESULTS}/models/{beside}; {RESULTS}/data/rows.json accounts for every row.")
    scored = any(job.rule.name == "score" for job in workflow.dag.jobs)
    unused = (file for folder in unused_shards() for file in folder.rglob("*") if file.is_file())
    # Each file to score leaves shards, and who scores many files need not hear it each time.
    if not scored and (size := sum(file.stat().st_size for file in unused)) >= WORTH_TIDYING:
        print(
            f"There are {size / 1e6:,.0f} MB of shards that this config does not use, from another config or an earlier"
            f" version of this one: `{command_to_tidy()}` deletes them."
        )
    if scored:
        print(
            f"The scores are in {', '.join(predicted_files('scores', SCORED))}.",
            f"The page to open: {RESULTS}/scores.html",
            sep="\n",
        )
    if left := results_not_asked_for():
        more = f" and {len(left) - 10:,} more" if len(left) > 10 else ""
        print(
            f"Not asked for by this config, so perhaps of an earlier fit: {', '.join(map(str, left[:10]))}{more}."
            " Delete what you do not need."
        )
