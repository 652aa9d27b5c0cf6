"""What replaces something private of Snakemake still has an effect (`tfglm.workflow.substitutes`)."""

import inspect
from types import SimpleNamespace

import snakemake.exceptions
import snakemake.logging
import snakemake.rules
import snakemake_executor_plugin_slurm as slurm
from snakemake.executors.local import Executor
from snakemake.io import wait_for_files
from snakemake.jobs import GroupJob
from snakemake.path_modifier import PathModifier
from snakemake.scheduling.job_scheduler import JobScheduler

from tfglm.errors import UserError
from tfglm.workflow import substitutes
from tfglm.workflow.values import Refusal, refusing


def test_snakemake_still_pauses_where_the_workflow_shortens_its_pauses():
    for function in (wait_for_files, Executor.run_group_job):
        assert "time.sleep(" in inspect.getsource(function), "look_often has no effect any more"


def test_the_jobs_of_a_machine_still_share_a_pool_of_a_few_threads():
    assert "self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=" in inspect.getsource(Executor.__post_init__)
    pool = SimpleNamespace(_max_workers=7)
    scheduler = SimpleNamespace(_executor=SimpleNamespace(pool=pool))
    substitutes.make_room_for_groups(SimpleNamespace(scheduler=scheduler, resource_settings=SimpleNamespace(cores=2)))
    assert pool._max_workers == 15


def test_the_scheduler_still_leaves_a_timer_behind():
    assert "threading.Timer(" in inspect.getsource(JobScheduler), "end_at_once has no effect any more"


def test_a_failed_group_still_shows_no_reason(monkeypatch):
    source = inspect.getsource(GroupJob.log_error)
    assert source.count("msg") == 1, "explain_failed_groups is needless"
    shown, given_up = [], []
    monkeypatch.setattr(GroupJob, "log_error", lambda group, msg=None, **further: shown.append((msg, further)))
    monkeypatch.setattr(substitutes.logger, "error", shown.append)
    substitutes.explain_failed_groups(given_up)
    job = SimpleNamespace(rule=SimpleNamespace(name="chief"), wildcards=["late"])
    GroupJob.log_error(
        SimpleNamespace(jobs=[job]), "sbatch: no such account    sbatch call: sbatch --x", aux_logs=["a"]
    )
    assert given_up == ["chief (late): sbatch: no such account"]
    assert shown == [*given_up, ("sbatch: no such account    sbatch call: sbatch --x", {"aux_logs": ["a"]})]


def test_the_prefix_of_a_module_is_for_what_the_workflow_writes_alone():
    modifier = SimpleNamespace(path_modifier=PathModifier(None, "below", None))
    placed = substitutes.own_prefix(SimpleNamespace(modifier=modifier))
    assert placed("results/sales") == "below/results/sales"
    assert modifier.path_modifier.replace_prefix("data/sales.csv") == "data/sales.csv"


def test_functions_of_rules_still_wrap_what_they_raise():
    assert "raise InputFunctionException(e, rule=self, wildcards=wildcards)" in inspect.getsource(snakemake.rules)
    refusal = Refusal("no such model")
    assert substitutes.InputFunctionException(refusal, rule=None, wildcards={}) is refusal
    rule = SimpleNamespace(workflow=SimpleNamespace(linemaps={}), name="chief", lineno=1, snakefile="x")
    other = substitutes.InputFunctionException(ValueError("no number"), rule=rule, wildcards={})
    assert isinstance(other, snakemake.exceptions.InputFunctionException) and "no number" in str(other)


def test_a_refusal_is_its_message_alone():
    try:
        with refusing("a.yaml"):
            raise UserError("models.m: no column `a`")
    except Refusal as error:
        places = {__file__: dict.fromkeys(range(1000), 1)}
        assert (
            snakemake.exceptions.format_exception_to_string(error, places) == "error:\na.yaml: models.m: no column `a`"
        )


def test_the_output_of_snakemake_still_has_the_name_by_which_it_is_replaced():
    assert '.name = "DefaultStreamHandler"' in inspect.getsource(snakemake.logging)


def test_the_plugin_for_slurm_still_calls_the_functions_that_are_replaced():
    for function, first in (
        (slurm.query_job_status, ["command", "logger"]),
        (slurm.get_submit_command, ["job", "params"]),
    ):
        assert list(inspect.signature(function).parameters)[:2] == first
        assert f"{function.__name__}(" in inspect.getsource(slurm.Executor)
