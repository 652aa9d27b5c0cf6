"""A stand-in for the executor of Kubernetes or of a cloud: each job runs in an empty folder below $PODS, with a home and an
environment of its own. All that it has of the run are the sources that Snakemake sends, and the storage."""

import os
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings

# As Kubernetes has them, but the storage plugin is installed already.
common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=True,
    job_deploy_sources=True,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=1,
)


class Executor(RemoteExecutor):
    """Runs each job as a process of this machine."""

    def run_job(self, job: JobExecutorInterface) -> None:
        """Start a job. What it prints is beside its folder."""
        pod = tempfile.mkdtemp(dir=os.environ["PODS"])
        environment = {"PATH": os.environ["PATH"], "HOME": pod, "TMPDIR": pod, **self.envvars()}
        line = ["/bin/sh", "-c", self.format_job_exec(job)]
        with Path(f"{pod}.out").open("w") as printed:
            process = subprocess.Popen(line, cwd=pod, env=environment, stdout=printed, stderr=subprocess.STDOUT)
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=str(process.pid), aux={"process": process}))

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report which jobs have ended, and return the others."""
        for info in active_jobs:
            status = info.aux["process"].poll()
            if status is None:
                yield info
            elif status == 0:
                self.report_job_success(info)
            else:
                self.report_job_error(info)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """End jobs."""
        for info in active_jobs:
            info.aux["process"].terminate()
