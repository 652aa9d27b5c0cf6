"""The chief: waits for the ps and the workers, or its peers, fits or trains with them, writes the checkpoint and fit.json."""

import argparse
from collections.abc import Callable, Sequence

from tfglm import command, fitting, tensorflow_setup
from tfglm.distribute.designs import Designs
from tfglm.distribute.executor import Executor
from tfglm.networks import code
from tfglm.roles import announce, ending
from tfglm.roles.announce import Announcement
from tfglm.roles.watched import Watched

Lead = Callable[[fitting.Job, Sequence[Announcement], Watched], None]
"""Does the work of a job with the members of the cluster."""


def leading_a_fit(arguments: argparse.Namespace) -> Lead:
    """How to lead processes that fit a regression."""
    with tensorflow_setup.quiet():
        from tfglm.distribute import multi_worker_mirrored, parameter_server

    def lead(job: fitting.Job, members: Sequence[Announcement], watched: Watched) -> None:
        folders = {path.parent for path in arguments.rosters}
        executor: Executor
        if members[0].role == "peer":
            executor = multi_worker_mirrored.connect(members, arguments.rosters[0], watched)
        else:
            watched.over(members)
            job.progress.workers_alive = watched.workers_alive
            executor = parameter_server.connect(members, folders, arguments.patience, watched.waiting)
        fitting.fit(job, executor)
        for folder in folders:
            Designs.beside(folder).remove()

    return lead


def leading_a_training(arguments: argparse.Namespace) -> Lead:
    """How to lead processes that train a network."""
    settings = arguments.settings = code.read(arguments)
    # The chief of workers on servers computes nothing on a GPU.
    with tensorflow_setup.quiet(gpus=settings.peers > 0 and settings.gpus > 0):
        from tfglm.networks import cluster
    return cluster.train


LEADING = {"fit": leading_a_fit, "network": leading_a_training}


def main(arguments: argparse.Namespace) -> None:
    # Before anything else, as signs of life begin with it.
    watched = Watched(
        rosters=tuple(map(str, arguments.rosters)),
        lease=str(arguments.lease or ""),
        parent=arguments.parent or 0,
        progress=str(arguments.progress or ""),
        stall=arguments.stall,
    )
    lead = LEADING[arguments.work](arguments)

    def with_members(job: fitting.Job) -> None:
        job.progress.update(state="waiting for the cluster")
        members = announce.gather(arguments.rosters, arguments.patience, command.log)
        command.log(f"listening: {', '.join(member.name for member in members)}")
        lead(job, members, watched)

    fitting.watched(arguments, with_members, fitting.take_memory if arguments.work == "fit" else None)


if __name__ == "__main__":
    parser = fitting.parser(__doc__)
    code.add_options(parser)
    parser.add_files("--rosters", "rosters of roles.py, or announcements of ps.py, worker.py or peer.py")
    parser.add_file("--lease", "file that this process touches as long as it lives", optional=True)
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for them")
    parser.add_argument("--stall", type=float, default=900.0, help="seconds to wait for one call to return")
    arguments = fitting.parsed(parser)
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(main, arguments)
