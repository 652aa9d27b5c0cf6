# A whole run as one job, for executors whose jobs see no file of this machine: pods, jobs of a cloud. `--default-storage-provider` asks for
# it (Snakefile). The job gets the user's files as two archives, fetches what is at addresses itself, and runs the usual workflow in a folder
# of its own. What it leaves in the storage are results and logs: no shards, and no journal to resume a fit from.

from snakemake.utils import min_version

min_version("9.27")


include: "rules/config_files.smk"


if not workflow.configfiles:

    configfile: "config/config.yaml"


from tfglm import ENGINE
from tfglm.addresses import is_stored
from tfglm.config import folder_of_results
from tfglm.workflow import checks

CONFIGS = [os.path.relpath(path) for path in workflow.configfiles]
FOLDER = folder_of_results(config.get("results"), CONFIGS[-1])
# Only the main process has the files that the config names. To the job they are in the archives.
STORED = []

if workflow.is_main_process:

    include: "rules/common.smk"
    include: "rules/checks.smk"

    STORED = [storage(file.source, retrieve=False) for file in PLAN.fetched.values() if is_stored(file.source)]
    PACKED = checks.paths_to_pack(PLAN, CONFIGS)

    rule pack:
        input:
            lambda wildcards: [local(path) for path in PACKED[wildcards.archive]],
        output:
            f"{FOLDER}.{{archive}}.tar",
        localrule: True
        params:
            engine=ENGINE,
        message:
            "Packing {output}"
        shell:
            "tar --create --dereference --files-from /dev/null --file {output:q} -- {input:q}"


rule run_in_one_job:
    """Run the whole workflow of a config in one job."""
    default_target: True
    input:
        archives=[f"{FOLDER}.analysis.tar", f"{FOLDER}.data.tar"],
        stored=STORED,
    output:
        f"{FOLDER}.tar.gz",
    log:
        f"{FOLDER}.log",
    threads: 4
    resources:
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
    params:
        caller=CALLER,
        snakefile=SCRIPTS.with_name("Snakefile"),
        configs=CONFIGS,
        entries=["--config", *workflow.config_settings.config_args] if workflow.config_settings.config_args else [],
        folder=FOLDER,
        targets=["all", "score"] if config.get("score") else ["all"],
    message:
        "Running {params.targets} in one job"
    shell:
        'folder=$(mktemp --directory "$PWD/.snakemake/one_job.XXXXXX")'
        "; trap 'rm -rf \"$folder\"' EXIT"
        '; for archive in {input.archives:q}; do tar --extract --file "$archive" --directory "$folder"; done'
        '; (cd "$folder"; TFGLM_CALLER={params.caller:q} python -P -m snakemake --snakefile {params.snakefile:q}'
        " --cores {threads} --show-failed-logs --configfile {params.configs:q} {params.entries:q} -- {params.targets})"
        " 2>&1 | tee {log:q}"
        '; tar --create --gzip --file {output:q} --directory "$folder" {params.folder:q} logs timings'


onstart:
    checks.check_scripts(workflow, SCRIPTS)
    checks.check_nodes(PLAN)
    checks.watch_queue(workflow, GIVEN_UP)


onsuccess:
    substitutes.end_at_once()
    print(f"The results are in {workflow.storage_settings.default_storage_prefix.rstrip('/')}/{FOLDER}.tar.gz")
