# What is refused before Snakemake deletes earlier outputs or starts a job, and what a run says at its end.

import json
import shutil
import subprocess

from tfglm.data.packages import located
from tfglm.roles import memory, pending, tpu


def check_files():
    """Refuse files and expressions that cannot be read, and a disk that is too small, before Snakemake deletes the earlier
    outputs of the first rule that needs them."""
    from tfglm.data.packing import estimated_csv_bytes
    from tfglm.data.shards import estimated_stored_bytes

    needed = 0
    for file in SCORED.values():
        possible_layouts(file, TO_SCORE)
    for name, file in FILES.items():
        possible_layouts(file, CONFIG.data)
        if not (is_address(file.source) or Path(f"results/data/ingested/{name}/manifest.json").exists()):
            csv = estimated_csv_bytes(located(file.source))
            needed += estimated_stored_bytes(csv, len(CONFIG.data.columns))
    free = shutil.disk_usage(".").free
    if needed > free:
        raise UserError(
            f"the shards need about {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free in {Path.cwd()}\n"
            f"  make room, keep fewer columns, or run snakemake in a folder on a larger disk with --directory"
        )
    if needed > 1e9:
        print(
            f"The shards need about {needed / 1e9:.1f} GB in results/; {free / 1e9:.1f} GB are free.", file=sys.stderr
        )


try:
    # Not once more in the process of every job; and where only the jobs can read files, they check.
    if workflow.is_main_process and READS_HEADERS:
        check_files()
except UserError as error:
    raise WorkflowError(str(error)) from None


def check_machine():
    """Before anything starts: refuse a TPU that is not there and more processes than this machine has memory for, and say it if
    others can reach them."""
    if not workflow.local_exec:
        return
    jobs = list(workflow.dag.needrun_jobs())
    for name in [job.wildcards.model for job in jobs if job.rule.name == "train"]:
        if CONFIG.networks[name].strategy == "tpu" and (reason := tpu.lacking()):
            raise WorkflowError(tpu.refused(f"networks.{name}", reason))
    chiefs = [job for job in jobs if job.rule.name in ("chief", "train_on_cluster")]
    if not chiefs:
        return
    isolate = CONFIG.cluster.isolate
    try:
        for job in chiefs:
            memory.check(*roles_of(job.wildcards), memory.of_machine())
    except UserError as error:
        raise WorkflowError(str(error)) from None
    if isolate == "never":
        return
    # By a process of its own: Snakemake has threads.
    line = [sys.executable, str(SCRIPTS / "isolate.py"), "--try"]
    reason = subprocess.run(line, capture_output=True, text=True).stdout.strip()
    if reason and isolate == "always":
        raise WorkflowError(
            f"`cluster: {{isolate: always}}`, but a fit cannot have a network of its own here: {reason}\n"
            f"  with `auto` it runs without one; README.md (Security) says what that means"
        )
    if reason:
        logger.warning(
            f"While a fit runs, whoever reaches this machine's ports, as all its users do, can read and write your files: a "
            f"network of its own is refused here ({reason}). README.md (Security) says more."
        )


# Why SLURM will never start a job: repeated at the end of the run.
GIVEN_UP = []


def watch_queue():
    """Have a run on SLURM end if SLURM will never start one of its jobs."""
    if workflow.executor_plugin.name != "slurm":
        return
    # With `sacct` the executor does not notice a job that is cancelled.
    interrupt = workflow.executor_settings.status_command == "sacct"
    pending.watch(Path.cwd(), logger.error, GIVEN_UP, interrupt)


onstart:
    # At least: the chief starts when the roles have written their addresses, and where a job first activates a conda
    # environment, that takes longer than the 5 s of Snakemake. Not more than needed, as it looks again each tenth of that time;
    # and not as a profile of the workflow, which would overrule the 60 s of profiles/slurm.
    workflow.execution_settings.latency_wait = max(workflow.execution_settings.latency_wait, 20)
    check_machine()
    watch_queue()


onerror:
    for reason in GIVEN_UP:
        print(reason, file=sys.stderr)


def headline(name):
    """What a model has come to, in a line."""

    def read(file):
        return json.loads(Path("results/models", name, file).read_text())

    fit, metrics = read("fit.json"), read("metrics.json") if CONFIG.data.split.evaluate else {}
    size = f"{fit['coefficients']:,} coefficients" if "coefficients" in fit else f"{fit['parameters']:,} parameters"
    failed = "" if fit.get("converged", True) else ", did NOT converge"
    text = f"{name}: {fit['family']}, {fit['rows']:,} rows, {size}{failed}"
    if not metrics.get("rows"):
        return text
    quality = []
    for key, words in {"auc": "AUC", "r_squared": "R squared"}.items():
        if metrics.get(key) is not None:
            quality.append(f"{words} {metrics[key]:.4f}")
    if "accuracy" in metrics:
        mean = metrics.get("mean_response")
        alone = metrics["null_accuracy"] if "null_accuracy" in metrics else max(mean, 1 - mean)
        share = f"accuracy {100 * metrics['accuracy']:.1f} %"
        quality.append(f"{share} (the most frequent outcome alone has {100 * alone:.1f} %)")
    return f"{text}; on {metrics['rows']:,} rows kept back {', '.join(quality) or 'see metrics.html'}"


onsuccess:
    # Where the summary was asked for, all that it tells of is of this config.
    if any(job.rule.name == "render_summary" for job in workflow.dag.jobs):
        print("", *map(headline, MODELS), sep="\n")
        print("The page to open: results/summary.html")
    if any(Path(target).exists() for target in targets_of_all_models()):
        print(
            "The results are in results/models/: for each model coefficients.csv (the table), terms.csv, fit.json, metrics.json,"
        )
        print("coefficients.svg (the picture) and checkpoint/; results/data/rows.json accounts for every row.")
