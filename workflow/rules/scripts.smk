# The folder of the scripts that the rules run.

import atexit
import gc
import io
import os
import sys
import tarfile
import tempfile
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.sourcecache import HostingProviderFile, LocalGitFile, LocalSourceFile

# Python looks for garbage among all objects, again and again and once more at its end. Imports leave none, and at the end the
# kernel takes all: 0.3 s of each start.
gc.freeze()
atexit.register(gc.freeze)


def folder_of_workflow():
    """The folder above `workflow/` and `scripts/`. This file is in workflow/rules, also if another workflow uses this one as a
    module. From a git repository Snakemake then fetches the rules alone, so the scripts of the same commit are put beside its
    cache."""
    rules = workflow.current_basedir
    if isinstance(rules, LocalSourceFile):
        return Path(rules.get_path_or_uri(secret_free=False)).parents[1]
    if isinstance(rules, HostingProviderFile):
        return checked_out(rules.hosted_repo.repo, rules.ref)
    if isinstance(rules, LocalGitFile):
        from git import Repo

        return checked_out(Repo(rules.repo_path), rules.ref)
    raise WorkflowError(
        f"{rules}: the scripts of this workflow cannot be fetched from there\n"
        '  name a checkout, or a repository: snakefile: github("owner/tfglm", path="workflow/Snakefile", tag="...")'
    )


def checked_out(repository, ref):
    """The folder with the scripts of a commit, and the layouts that they read. It is made once, as a whole or not at all."""
    commit = repository.commit(ref).hexsha
    folder = Path(workflow.sourcecache.cache_path, "tfglm", commit)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.parent.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise WorkflowError(
            f"{folder.parent}: other users can write to this folder, and scripts from there would run\n"
            "  delete it, or set XDG_CACHE_HOME to a folder of your own"
        )
    if folder.exists():
        return folder
    packed = repository.git.archive(commit, "scripts", "config/layouts", stdout_as_string=False)
    with tempfile.TemporaryDirectory(dir=folder.parent) as new, tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(Path(new, commit), filter="data")
        try:
            Path(new, commit).rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
    return folder


SCRIPTS = folder_of_workflow() / "scripts"
# The rules call `python "$TFGLM_SCRIPTS/..."`: of the ways tried, only this one works from a module and from a moved checkout.
os.environ.update(TFGLM_SCRIPTS=str(SCRIPTS))

HERE = [Path(name).resolve() for name in ("Snakefile", "workflow/Snakefile")]
ELSEWHERE = "" if Path(workflow.main_snakefile).resolve() in HERE else f" --snakefile {workflow.main_snakefile}"
# Who calls this workflow: `snakemake`, or the command `tfglm`, which names itself (`tfglm.console`).
CALLER = os.environ.get("TFGLM_CALLER", f"snakemake --cores 4{ELSEWHERE}")


sys.path.insert(0, str(SCRIPTS))

from tfglm.workflow import substitutes
from tfglm.workflow.fork import RunServer

FORK_SERVER = RunServer(workflow, SCRIPTS)
substitutes.show_stages(workflow, SCRIPTS.parent)
substitutes.refuse_in_functions()
