# A whole run as one job, for executors whose jobs see no file of this machine: pods, jobs of a cloud. `--default-storage-provider` asks for
# it (Snakefile). The job gets the user's files as two archives, fetches what is at addresses itself, and runs the usual workflow in a folder
# of its own. What it leaves in the storage are results and logs: no shards, and no journal to resume a fit from.

from snakemake.utils import min_version

min_version("9.27")


include: "rules/config_files.smk"


if not workflow.configfiles:

    configfile: "config/config.yaml"


from tfglm.config import folder_of_results

CONFIGS = [os.path.relpath(path) for path in workflow.configfiles]
FOLDER = folder_of_results(config.get("results"), CONFIGS[-1])
# Only the main process has the files that the config names. To the job they are in the archives.
STORED = []

if workflow.is_main_process:

    include: "rules/common.smk"
    include: "rules/input_files.smk"
    include: "rules/targets.smk"
    include: "rules/checks.smk"

    STORED = [storage(file.source, retrieve=False) for file in FETCHED.values() if is_stored(file.source)]

    def paths_to_pack():
        """The user's files, by their archive. Data is not sent again after an edit of the config."""
        layouts = [name for name in [*LAYOUTS, *LAYOUTS_TO_SCORE] if name.endswith((".yaml", ".yml"))]
        networks = [namedtuple("Network", "model")(name) for name in NETWORKS]
        code = [os.path.relpath(path) for network in networks for path in code_of(network)]
        data = [file.source for file in [*FILES.values(), *SCORED.values()] if not file.fetched]
        return {"analysis": {*CONFIGS, *layouts, *COORDINATES.values(), *code}, "data": {*data}}

    PACKED = {archive: sorted(paths) for archive, paths in paths_to_pack().items()}

    def check_paths():
        """Refuse files that would have another path in the folder of the job, or that Snakemake cannot name."""
        for path in [path for paths in PACKED.values() for path in paths]:
            if Path(path).is_absolute() or ".." in Path(path).parts:
                raise WorkflowError(
                    f"`{path}`: a job without a shared file system has the files of {Path.cwd()} alone\n"
                    "  move the file there, or make a link to it there, and write the path from there"
                )
            if re.search("[{}<>]", path):
                raise WorkflowError(
                    f"`{path}`: Snakemake does not send a file with {{, }}, < or > in its name; rename it"
                )

    def check_scripts():
        """Refuse scripts that the job would not get: Snakemake sends what git tracks in the folder of the run."""
        line = ["git", "ls-files", "--recurse-submodules", str(SCRIPTS / "forked.py")]
        if (
            workflow.remote_execution_settings.job_deploy_sources
            and not subprocess.run(line, capture_output=True).stdout
        ):
            raise WorkflowError(
                f"{SCRIPTS}: Snakemake sends to its jobs what git tracks in {Path.cwd()}, and these files are not among them\n"
                "  run it in a clone of the repository, with your config and data below that folder"
            )

    check_paths()

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
    check_scripts()
    check_nodes()
    watch_queue()


onsuccess:
    end_at_once()
    print(f"The results are in {workflow.storage_settings.default_storage_prefix.rstrip('/')}/{FOLDER}.tar.gz")
