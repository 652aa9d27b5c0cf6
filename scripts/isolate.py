"""Run a script of this folder in the network that the processes of a fit have to themselves.

    isolate.py --network network.json roles.py ps --parent $PPID ...

The ps, or the peers, make the network; the others wait for them and enter it. The script then takes the place of this process.
"""

import argparse
import os
import sys
from pathlib import Path

from tfglm import command, tensorflow_setup
from tfglm.errors import UserError
from tfglm.roles import launch, network
from tfglm.roles.beside import Beside


def main(arguments: argparse.Namespace) -> None:
    """Make the network or enter it, or neither."""
    if arguments.launcher == "srun":
        if arguments.isolate == "always":
            raise UserError(
                "`cluster: {isolate: always}` is impossible on several nodes, because they have to reach each "
                "other; set `cluster: {nodes: 1}`"
            )
    elif arguments.script[:2] in (["roles.py", "ps"], ["roles.py", "peer"]):
        network.make(arguments.network, arguments.isolate, arguments.parent)
    elif arguments.isolate != "never":
        within = arguments.within or arguments.patience
        beside = Beside(arguments.parent, arguments.lease or arguments.network, within)
        network.follow(arguments.network, arguments.parent, within, beside.trouble)


if __name__ == "__main__":
    parser = command.ScriptParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_file("--network", "file in which the processes that make the network report where it is", optional=True)
    parser.add_argument(
        "--isolate",
        choices=["auto", "always", "never"],
        default="auto",
        help="`auto`: where the kernel allows it; `always`: or not at all",
    )
    parser.add_argument("--launcher", choices=["local", "srun"], default="local", help="where the processes run")
    parser.add_argument(
        "--try",
        dest="only_try",
        action="store_true",
        help="only print why a network of its own is impossible here, if it is",
    )
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="its name and arguments")
    arguments = parser.parse_args()
    if arguments.only_try:
        print(network.refusal())
        sys.exit()
    # Options of the script that are needed here too.
    of_script = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    of_script.add_argument("--parent", type=int, default=os.getppid())
    of_script.add_argument("--patience", type=float, default=300.0)
    of_script.add_argument("--within", type=float)
    of_script.add_argument("--lease", type=Path)
    of_script.add_argument("--log", type=Path)
    of_script.parse_known_args(arguments.script, arguments)
    try:
        # Asked out here: no SLURM is to be reached from the network of a fit.
        launcher = launch.launcher(arguments.launcher)
        arguments.script = [launcher if word == arguments.launcher else word for word in arguments.script]
        arguments.launcher = launcher
        main(arguments)
    except UserError as error:

        def fail(_: argparse.Namespace, error: UserError = error) -> None:
            raise error

        command.run(fail, arguments)
    name, *rest = arguments.script
    script = str(Path(__file__).with_name(name))
    # The environment that they would start once more for.
    os.execve(sys.executable, [sys.executable, script, *rest], tensorflow_setup.environment(os.environ))
