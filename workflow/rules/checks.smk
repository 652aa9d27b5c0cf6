# Checks before Snakemake deletes earlier outputs or starts a job, and the messages at the end of a run.

from tfglm.workflow.kept import READS_HEADERS


def prepare_fork_server():
    """Let the fork server import what the first jobs need."""
    reads_files = not all(Path(manifest).exists() for manifest in MANIFESTS)
    fits_here = PLAN.regressions and not (HAS_CLUSTER or PLAN.networks)
    FORK_SERVER.start()
    FORK_SERVER.prepare(["ingest.py"] * reads_files + ["build_design.py"] + ["fit.py"] * bool(fits_here))


IN_ONE_JOB = workflow.storage_settings.default_storage_provider
with refusing(PLAN.config_names):
    # The processes of jobs do not check again.
    if workflow.is_main_process:
        if READS_HEADERS:
            PLAN.check_this_config(prepare_fork_server)
        else:
            PLAN.check_config(CONFIG, PLAN.problems)
    PLAN.problems.check()
    if workflow.is_main_process and READS_HEADERS and not IN_ONE_JOB:
        checks.check_disk(PLAN)

if workflow.is_main_process and workflow.resource_settings.nodes is not None and not IN_ONE_JOB:
    checks.hand_over_config(PLAN)
PROCESSES.share_gpus()
# Why the scheduler will never start a job, or why a group of jobs has failed: the end of the run repeats it.
GIVEN_UP = []


onstart:
    # `--touch` starts no job.
    if not workflow.touch:
        workflow.execution_settings.latency_wait = PROCESSES.latency_wait()
        FORK_SERVER.serve(bool(PLAN.networks))
        checks.check_machine(PLAN, PROCESSES, SCRIPTS)
        checks.check_nodes(PLAN)
        checks.watch_queue(workflow, GIVEN_UP)
        substitutes.explain_failed_groups(GIVEN_UP)
        if workflow.local_exec:
            substitutes.look_often()
            substitutes.make_room_for_groups(workflow)


onerror:
    substitutes.end_at_once()
    for reason in GIVEN_UP:
        print(reason, file=sys.stderr)


onsuccess:
    substitutes.end_at_once()
    for line in summary.lines(PLAN, TARGETS):
        print(line)
