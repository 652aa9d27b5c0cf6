"""The chief of a network that peers train, or workers on parameter servers; writes the checkpoint and fit.json."""

import argparse
from pathlib import Path

from tfglm import command, fitting, tensorflow_setup
from tfglm.config import TrainingConfig
from tfglm.results import options
from tfglm.roles import announce, ending
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
        from tfglm.networks import cluster

    has_peers = arguments.settings.strategy == "multi_worker_mirrored"
    train = cluster.train_with_peers if has_peers else cluster.train_on_servers
    members = announce.gather(arguments.rosters, arguments.patience, command.log)
    command.log(f"listening: {', '.join(member.name for member in members)}")
    fitting.watched(
        arguments, lambda design, files, progress: train(arguments, design, files, progress, members, watched)
    )


if __name__ == "__main__":
    parser = fitting.parser(__doc__, TrainingConfig)
    options.add_offset(parser)
    parser.add_argument("--rosters", type=Path, nargs="+", required=True, help="those of roles.py")
    parser.add_argument("--lease", type=Path, help="file that this process touches as long as it lives")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for the others")
    parser.add_argument("--stall", type=float, default=900.0, help="seconds to wait for steps to end")
    arguments = parser.parse_args()
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(main, arguments)
