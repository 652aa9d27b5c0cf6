"""The processes of a fit or a training: how many there are, and what they need of a machine or ask of a scheduler."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tfglm.errors import UserError
from tfglm.roles import cards, launch, memory, tpu
from tfglm.workflow.plan import Plan
from tfglm.workflow.values import Unwatched, Wildcards, any_but, refusing

MB_PER_PROCESS = 2000
"""A process took 0.7 GB with 140 coefficients. The information matrix of 8,800 is 53 MB, and a process may hold several."""

MB_PER_PROCESS_WITH_GPUS = 4000
"""The libraries of GPUs need more. A training in one process asks for as much."""


class RoleCounts(NamedTuple):
    """How many processes work for the chief of a model."""

    ps: int
    workers: int
    peers: int


class Processes:
    """The processes of each model of a config. Its methods are functions for the rules."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._workflow, self._networks = plan, plan.workflow, plan.config.networks
        regressions = [any_but(self._networks)] if plan.config.cluster.peers else []
        self.with_peers = "|".join([plan.networks_where(lambda network: network.peers), *regressions])
        """A pattern of the models that several processes fit or train under MultiWorkerMirroredStrategy."""
        # These paths are neither outputs, which Snakemake would delete when the job fails, nor reasons to run again.
        results, logs = plan.paths.results, plan.paths.logs
        self.meeting = {
            "network": _path(f"{results}/models/{{model}}/cluster/network.json"),
            "lease": _path(f"{results}/models/{{model}}/cluster/chief.lease"),
        }
        """Where the processes of a model find each other."""
        self.meanwhile = {
            "journal": _path(f"{results}/resume/{{model}}"),
            "progress": _path(f"{logs}/models/{{model}}/progress.json"),
            "events": _path(f"{logs}/models/{{model}}/events"),
        }
        """What a fit writes before it is complete."""

    def roles(self, wildcards: Wildcards) -> RoleCounts:
        """Return how many processes work for the chief of a model."""
        if network := self._networks.get(wildcards.model):
            return RoleCounts(*network.servers, max(0, network.peers - 1))
        cluster = self._plan.config.cluster
        return RoleCounts(*cluster.servers, cluster.peers)

    def rosters(self, wildcards: Wildcards) -> list[str]:
        """Return the rosters of the processes that work for the chief of a model."""
        names = [f"cluster/{name}.json" for name, count in self.roles(wildcards)._asdict().items() if count]
        return self._plan.paths.of(wildcards.model, *names)

    def threads(self, wildcards: Wildcards) -> int:
        """Return the processors of all processes that fit or train a model: one for each but the ps, which waits. With fewer
        --cores Snakemake takes all of them, and the processes share them. The memory limits the number of processes
        (`check_machine`).

        The processes of a small fit wait for each other's start most of the time. So several such fits share the processors of a
        machine, if its memory is enough for as many at the same time.
        """
        roles, machine = self.roles(wildcards), self._workflow.resource_settings
        processes = roles.workers + roles.peers + 1
        is_small = self._plan.strategy == "one_device"
        if not is_small or wildcards.model in self._networks or not machine.cores or machine.nodes is not None:
            return processes
        together = memory.machine_memory() // (memory.MOST * (roles.ps + processes))
        return min(processes, math.ceil(machine.cores / max(1, together)))

    def threads_of_training(self, wildcards: Wildcards) -> int:
        """Return the processors that the devices of a network and its input keep busy."""
        network = self._networks[wildcards.model]
        return network.threads * (network.gpus or network.devices or 1) + 1

    def threads_to_average(self, wildcards: Wildcards) -> int:
        """Return the threads of a job that reads the rows again: one for each half GB of input. No number depends on it, and
        other jobs run at the same time. If jobs run elsewhere, the number of cores is unknown."""
        sources = [Path(file.source) for file in self._plan.files.files.values() if not file.fetched]
        size = sum(source.stat().st_size for source in sources if source.is_file())
        return max(1, min(8, self._workflow.resource_settings.cores or 4, size // 2**29))

    @property
    def threads_to_ingest(self) -> int:
        """Threads of a job that ingests. A second thread helps, but less than another file at the same time. No number depends on
        it. If jobs run elsewhere, the number of cores is unknown."""
        files = len(self._plan.files.files)
        return max(1, min(2, (self._workflow.resource_settings.cores or 2 * files) // max(1, files)))

    def allocation(self, wildcards: Wildcards) -> launch.Allocation:
        """Return the request to a scheduler: nodes, and processes on the fullest node."""
        return launch.request(*self.roles(wildcards), self._plan.config.cluster.nodes, self.gpus_of_each(wildcards))

    def gpus_of_each(self, wildcards: Wildcards) -> int:
        """Return the GPUs of each worker, or of the chief and of each of its peers."""
        network = self._networks.get(wildcards.model)
        return network.gpus if network else 0

    def gpus(self, wildcards: Wildcards) -> int:
        """Return the GPUs that all processes of a training ask for. As a dry run does not start, it refuses missing devices
        here."""
        if wildcards.model not in self._networks:
            return 0
        if self._workflow.dryrun and self._workflow.resource_settings.nodes is None:
            self.check_devices(wildcards.model)
        return self.gpus_of_each(wildcards) * self._computing(wildcards.model)

    def _computing(self, name: str) -> int:
        """The processes of a training that compute on devices."""
        network = self._networks[name]
        return network.servers[1] or network.peers or 1

    def gpus_of_node(self, wildcards: Wildcards) -> str:
        """Return the request for so many GPUs on each node, as SLURM writes it; empty without any."""
        gpus = self.allocation(wildcards).gpus
        return f"gpu:{gpus}" if gpus else ""

    def memory(self, wildcards: Wildcards, attempt: int) -> int:
        """Return the MB of the fullest node of a group."""
        each = MB_PER_PROCESS_WITH_GPUS if self.gpus_of_each(wildcards) else MB_PER_PROCESS
        return attempt * each * self.allocation(wildcards).processes

    def latency_wait(self) -> int:
        """Return the seconds that Snakemake waits for a file: at least 20. The chief starts when the roles have written their
        addresses. On a busy machine, from a slow disk, or if a job first activates an environment, this takes longer than
        Snakemake's 5 s. More would cost time, because Snakemake looks again each tenth of it. A profile of the workflow would
        overrule the 60 s of the profiles in profiles/."""
        return max(self._workflow.execution_settings.latency_wait, 20)

    def chief_within(self, wildcards: Wildcards) -> int:
        """Return the seconds after the start of a role until Snakemake has started the chief, or given it up because a roster is
        missing."""
        return self.latency_wait() + 10

    def check_devices(self, name: str) -> None:
        """Refuse a network that is to be trained on a TPU, or on GPUs, that this machine lacks."""
        network, processes = self._networks[name], self._computing(name)
        words = "training needs" if processes == 1 else f"{processes} workers with {network.gpus} each need"
        with refusing():
            if network.strategy == "tpu" and (reason := tpu.lacking()):
                raise UserError(tpu.refused(f"networks.{name}", reason))
            cards.check(processes * network.gpus, f"networks.{name}.gpus", words)

    def share_gpus(self) -> None:
        """Give trainings that run on this machine at the same time GPUs of their own."""
        workflow = self._workflow
        if workflow.is_main_process and workflow.resource_settings.nodes is None:
            needs_some = any(network.gpus for network in self._networks.values())
            if "gpus" not in workflow.global_resources and needs_some:
                workflow.register_resource("gpus", len(cards.visible()))


def _path(pattern: str) -> Callable[[Wildcards], Unwatched]:
    """A params function: a path of a model that is no reason to run again."""
    return lambda wildcards: Unwatched(pattern.format(model=wildcards.model))
