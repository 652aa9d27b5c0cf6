"""The chief: waits for the ps and the workers, or for its peers, fits the model with them, writes the checkpoint and fit.json."""

import argparse
from pathlib import Path

from tfglm import command, fitting, tensorflow_setup
from tfglm.distribute.designs import Designs
from tfglm.distribute.executor import Executor
from tfglm.roles import announce, ending
from tfglm.roles.progress import Progress
from tfglm.roles.watched import Watched


def main(arguments: argparse.Namespace) -> None:
    # Before anything else, as signs of life begin with it.
    watched = Watched(
        rosters=tuple(map(str, arguments.rosters)),
        lease=str(arguments.lease or ""),
        parent=arguments.parent or 0,
        progress=str(arguments.progress or ""),
        stall=arguments.stall,
    )
    with tensorflow_setup.quiet():
        from tfglm.distribute import multi_worker_mirrored, parameter_server

    folders = {path.parent for path in arguments.rosters}

    def cluster(progress: Progress) -> Executor:
        """Wait for all roles, and connect to them."""
        progress.update(state="waiting for the cluster")
        members = announce.gather(arguments.rosters, arguments.patience, command.log)
        command.log(f"{len(members)} processes are listening")
        if members[0].role == "peer":
            return multi_worker_mirrored.connect(members, arguments.rosters[0], watched)
        watched.over(members)
        progress.workers_alive = watched.workers_alive
        return parameter_server.connect(members, folders, arguments.patience, watched.waiting)

    fitting.fit(arguments, cluster)
    for folder in folders:
        Designs.beside(folder).remove()


if __name__ == "__main__":
    parser = fitting.parser(__doc__)
    parser.add_argument(
        "--rosters",
        type=Path,
        nargs="+",
        required=True,
        help="rosters of roles.py, or announcements of ps.py, worker.py or peer.py",
    )
    parser.add_argument("--lease", type=Path, help="file that this process touches as long as it lives")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for them")
    parser.add_argument("--stall", type=float, default=900.0, help="seconds to wait for one call to return")
    arguments = parser.parse_args()
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(main, arguments)
