"""The training of a network by several processes: with peers, which take each step together, or on parameter servers."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from tfglm import command
from tfglm.config import TrainingConfig
from tfglm.distribute import strategies
from tfglm.distribute.designs import Designs
from tfglm.distribute.servers import Servers
from tfglm.distribute.tasks import Document
from tfglm.errors import UserError
from tfglm.fitting import Job
from tfglm.networks.asynchronous import AsynchronousTraining
from tfglm.networks.job import train as train_job
from tfglm.networks.sources import Sources
from tfglm.networks.synchronous import SynchronousTraining
from tfglm.networks.training import Assignment, Training
from tfglm.roles import announce, ending, peers
from tfglm.roles.announce import Announcement
from tfglm.roles.watched import Watched


def train(job: Job, members: Sequence[Announcement], watched: Watched) -> None:
    """Train the network of a job with the announced members of a cluster. Raises UserError as the training does, and if a
    member is lost that it cannot continue without."""
    with_peers = job.arguments.settings.strategy == "multi_worker_mirrored"
    (train_with_peers if with_peers else train_on_servers)(job, members, watched)


def train_with_peers(job: Job, members: Sequence[Announcement], watched: Watched) -> None:
    """Train the network of a job together with the announced peers. Raises UserError as the training does, and if a peer is
    lost: the others cannot continue without it."""
    arguments = job.arguments
    port = peers.Port()
    addresses = announce.addresses(members, "peer")
    addresses.insert(0, f"{peers.own_address_towards(addresses)}:{port.number}")
    settings: TrainingConfig = arguments.settings
    options = {"settings": settings.model_dump(exclude_defaults=True), "journal": str(arguments.journal)}

    def start(assigned: Assignment) -> Training:
        order = peers.Order(members[0].run, tuple(addresses), Sources.of(vars(arguments)).words | options)
        order.write(arguments.rosters[0].parent)
        watched.over(members)
        port.release()
        with watched.waiting():
            strategy = peer_strategy(settings, addresses, 0, job.design.model)
        ending.end_on_signals()
        return Training(assigned, strategy)

    try:
        train_job(job, start, watched.waiting)
    except tf.errors.OpError as error:
        command.log(f"TensorFlow says: {error.message}")
        whom = "; ".join(member.place for member in members)
        raise UserError(
            f"networks.{job.design.model}: training cannot continue without all its peers ({whom}). Their logs may have "
            "the reason; repeat the command to continue from the last checkpoint"
        ) from error


def peer_strategy(settings: TrainingConfig, addresses: Sequence[str], index: int, model: str) -> tf.distribute.Strategy:
    """The strategy of the process with this number. Raises UserError as `strategies.use_gpus` does."""
    return strategies.peer_strategy(addresses, index, settings.gpus, settings.communication, f"networks.{model}")


@tf.autograph.experimental.do_not_convert
def follow(order: peers.Order, index: int, port: peers.Port) -> None:
    """Take the steps of a training that another process leads, as the peer with this number. Raises UserError as the
    training does."""
    settings = TrainingConfig.model_validate(order.options["settings"])
    tf.config.threading.set_intra_op_parallelism_threads(settings.threads)
    units, held_out = Sources.of(order.options).units("train", "evaluate")
    port.release()
    strategy = peer_strategy(settings, order.addresses, index, units.design.model)
    ending.end_on_signals()
    Training(Assignment(units, held_out, settings, Path(order.options["journal"])), strategy).run()


def train_on_servers(job: Job, members: Sequence[Announcement], watched: Watched) -> None:
    """Train the network of a job on the ps and by the workers that have announced themselves. Raises UserError as the
    training does, and if a ps is lost."""
    arguments = job.arguments
    watched.over(members)
    job.progress.workers_alive = watched.workers_alive
    folders = {path.parent for path in arguments.rosters}
    settings: TrainingConfig = arguments.settings
    sources = Sources.of(vars(arguments))
    document = Document.of(sources.design.read_text(encoding="utf-8"))

    def start(assigned: Assignment) -> Training:
        resumes = "the training continues from its last checkpoint"
        servers = Servers(members, arguments.patience, watched.waiting, resumes)
        if servers.gpus != settings.gpus:
            raise UserError(
                f"networks.{job.design.model}.gpus: each worker asks for {settings.gpus}, and TensorFlow finds {servers.gpus} "
                "there\n"
                "  a GPU needs its driver and the libraries of `pip install tensorflow[and-cuda]`"
            )
        for of_workers in folders:
            Designs.beside(of_workers).put(document)
        kind = SynchronousTraining if settings.synchronous else AsynchronousTraining
        return kind(assigned, servers, sources)

    train_job(job, start, watched.waiting)
    for of_workers in folders:
        Designs.beside(of_workers).remove()
