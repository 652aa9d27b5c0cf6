"""The command `tfglm`, which an installed package has: `tfglm fit`, `init`, `check`, `run`, `report`, `score` and others.

`fit` needs no Snakemake. The others call it with the workflow of this package; each can be given as `snakemake` too.
"""

import argparse
import gc
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import tfglm
from tfglm.config import folder_of_results
from tfglm.config.files import no_such_file, parse, read
from tfglm.errors import UserError, require
from tfglm.roles import pending

OLDEST_SNAKEMAKE = "9.27"
"""workflow/Snakefile asks for it too."""

PACKAGE = Path(__file__).parent
CHECKOUT = PACKAGE / "checkout" if (PACKAGE / "checkout").exists() else PACKAGE.parents[1]
"""The folder with the workflow: inside an installed package, or the checkout around scripts/tfglm (setup.py)."""

LOG_OF_INIT = Path("logs", "init.log")

LOCKS = Path(".snakemake", "locks")
"""Snakemake's, which a run that is killed leaves behind."""

LONGEST_END = 90.0
"""Seconds in which all jobs of a run that is killed have ended."""


FILE_OF_DATA = "a file of data: CSV (also .gz, .bz2, .zip), Parquet, Excel, Stata, SPSS or JSON lines"
OF_CONFIGS = {
    "check": "Check a config, its layouts and the headers of its data; nothing runs",
    "run": "Fit the models of a config, and write their tables and pages",
    "resume": "Continue a run that was interrupted or killed; `run` does the same",
    "report": "Run, and put all tables and pictures into one file, report.html beside them",
    "score": "Predict the rows of new files with the fitted models of a config",
    "tidy": "Delete the shards in results/data that the config does not use",
}
"""The commands that call Snakemake with a config."""

REQUEST = {
    "response": "the column to explain; else a guess",
    "formula": "the formula of the regression; else a proposal",
    "output": "the config to write; else config/<file>.yaml",
    "header": "`true`, `false`, or the names of the columns, as in age,sex; else found out",
    "decimal": "`point` or `comma`, what is before decimals; else found out",
}
"""What a user may say to `tfglm init`, by the names of the options."""


class CommandLine(argparse.ArgumentParser):
    """A parser whose errors are one line that says what to do."""

    def error(self, message: str) -> NoReturn:
        options = "; options of Snakemake follow `--`" if message.startswith("unrecognized") else ""
        raise UserError(f"{message}; `{self.prog} --help` lists commands and options{options}")


def parser() -> argparse.ArgumentParser:
    """The command line, without what follows `--`."""
    parser = CommandLine(prog="tfglm", description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    commands = parser.add_subparsers(title="commands", dest="command", required=True)

    def add(name: str, words: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=words, description=f"{words}.", allow_abbrev=False)

    fit = add("fit", "Fit a regression to a file of data, and print its coefficients")
    fit.add_argument("data", help="a file of data, or a pattern of several")
    fit.add_argument("formula", help="as in R: 'late ~ carrier + s(dep_hour) + (1 | date)'")
    fit.add_argument("--family", help="binomial, poisson, ...; else gaussian")
    fit.add_argument(
        "--set",
        default=[],
        action="append",
        metavar="KEY=VALUE",
        help="another key of a model in the config, as YAML has it: std_errors=robust, absorb='[tailnum]'",
    )
    fit.add_argument(
        "--html", metavar="PAGE", help="write the pages of the model, which open from a file, to PAGE.html"
    )
    fit.add_argument("--config", metavar="CONFIG", help="write the config with which `tfglm run` makes the same fit")
    init = add("init", "Inspect a file of data, and write a config that fits a first regression to it")
    init.add_argument("csv", help=FILE_OF_DATA)
    for key, words in REQUEST.items():
        init.add_argument(f"--{key}", default="", help=words)
    for name, words in OF_CONFIGS.items():
        command = add(name, words)
        files = "[CONFIG] FILE ..." if name == "score" else "[CONFIG]"
        command.usage = f"{command.prog} {files} [--cores N] [--profile P] [-- SNAKEMAKE OPTIONS]"
        if name == "score":
            command.add_argument(
                "files", nargs="+", help="files of data with the columns of the models, without the response"
            )
        config = "--config" if name == "score" else "config"
        command.add_argument(config, nargs="*", default=[], help="the config; needless if config/ has one only")
        command.add_argument("--cores", default="", metavar="N", help="processors to use; else all of this machine")
        command.add_argument(
            "--profile", default="", metavar="P", help="`slurm`, `generic` or the folder of another Snakemake profile"
        )
    add("status", "Say what runs in this folder, since when, and how many seconds are left")
    clean = add("clean", "Delete what runs have made here: results, shards, logs; configs and data stay")
    clean.add_argument("config", nargs="*", help="the config; else all in config/")
    return parser


def configs_here() -> list[Path]:
    """The configs in config/, without layouts."""
    files = sorted([*Path("config").glob("*.yaml"), *Path("config").glob("*.yml")])
    return [file for file in files if not file.stem.endswith(".layout")]


def config_to_run(named: Sequence[str], command: str) -> Path:
    """Return the config that is named, or the only one in config/. Raises UserError for none and for several."""
    configs = [Path(name) for name in named] or configs_here()
    if not configs:
        raise UserError("no config: `tfglm init data.csv` writes one for a file of data")
    if len(configs) > 1:
        where = "" if named else " in config/"
        listed = f"{', '.join(map(str, configs[:-1]))} and {configs[-1]}"
        raise UserError(f"{len(configs)} configs{where}, {listed}: name one, as in `tfglm {command} {configs[0]}`")
    (config,) = configs
    if not config.is_file():
        raise UserError(no_such_file(config))
    return config


def check_snakemake() -> None:
    """Raise UserError if Snakemake is missing or too old."""
    require("snakemake", "workflow", "this command")
    found = version("snakemake")
    numbers = [int(part) if part.isdecimal() else 0 for part in found.split(".")[:2]]
    if numbers < [int(part) for part in OLDEST_SNAKEMAKE.split(".")]:
        raise UserError(
            f"Snakemake {OLDEST_SNAKEMAKE} or newer is needed, and {sys.prefix} has {found}: "
            f"{sys.executable} -m pip install 'snakemake>={OLDEST_SNAKEMAKE}'"
        )


def check_folder() -> None:
    """Raise UserError if Snakemake could not write here."""
    try:
        Path(".snakemake").mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=".snakemake"):
            pass
    except OSError as error:
        reason = error.strerror
        raise UserError(f"{Path.cwd()}: cannot be written ({reason}); run tfglm in a folder of your own") from None


def snakemake(config: Path, arguments: argparse.Namespace, options: Iterable[str]) -> list[str]:
    """The command line of Snakemake for a config."""
    profile = arguments.profile
    if profile and not Path(profile).exists() and (CHECKOUT / "profiles" / profile).is_dir():
        profile = str(CHECKOUT / "profiles" / profile)
    cores = arguments.cores or ("" if profile else "all")
    return [
        # A file of the user, such as snakemake.py in this folder, must not be taken for the package.
        *(sys.executable, "-P", "-m", "snakemake"),
        *("--snakefile", str(CHECKOUT / "Snakefile")),
        *("--configfile", str(config)),
        *(("--cores", cores) if cores else ()),
        *(("--profile", profile) if profile else ()),
        *options,
    ]


def is_locked() -> bool:
    """Whether a run works in this folder, or one was killed."""
    return LOCKS.is_dir() and any(LOCKS.iterdir())


def begin_run(results: Path) -> None:
    """Record this process as the run in this folder, and remove the locks of a run that was killed, once its jobs have ended.
    Other locks stay, for Snakemake to refuse what makes the same files."""
    from snakemake_logger_plugin_tfglm.run import RunProgress, lock_holder, processes_here

    if is_locked():
        if lock_holder():
            return
        print("An earlier run here was killed; this one resumes it.", file=sys.stderr)
        # Its jobs notice that it is gone, and end.
        scripts, until = f"{CHECKOUT}/scripts/", time.monotonic() + LONGEST_END
        while left := processes_here(lambda word: word.startswith(scripts)):
            if time.monotonic() > until:
                raise UserError(
                    f"jobs of the run that was killed go on (processes {', '.join(map(str, left))}); end them"
                )
            time.sleep(0.1)
        # Where the processes of a fit find each other.
        for folder in [LOCKS, *results.glob("models/*/cluster")]:
            shutil.rmtree(folder)
    RunProgress({}).write()


def run_snakemake(line: Sequence[str]) -> int:
    """Run it to its end, also after Ctrl-C; the exit status."""
    signal.signal(signal.SIGINT, lambda *_: None)
    return subprocess.run(line).returncode


def results_of(config: Path) -> Path:
    content = read(config)
    named = content.get("results") if isinstance(content, dict) else None
    return Path(folder_of_results(named if isinstance(named, str) else None, config))


def clean(configs: Sequence[Path]) -> None:
    """Delete what the runs of some configs made in results/, logs/, timings/ and .snakemake/."""
    if is_locked():
        from snakemake_logger_plugin_tfglm.run import lock_holder

        if holder := lock_holder():
            raise UserError(f"nothing is deleted: {holder}")
    results = [results_of(config) for config in configs]
    elsewhere = [folder for folder in results if folder.parts[0] != "results" or ".." in folder.parts]
    names = [Path(*folder.parts[1:]) for folder in results if folder not in elsewhere]
    kinds = [Path("results"), Path("logs"), Path("timings")]
    made = [kind / name for kind in kinds for name in [*names, Path("data")]]
    deleted = [folder for folder in dict.fromkeys([*made, Path(".snakemake")]) if folder.is_dir()]
    for folder in deleted:
        shutil.rmtree(folder)
    LOG_OF_INIT.unlink(missing_ok=True)
    for folder in kinds:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    print(f"Deleted: {', '.join(map(str, deleted))}" if deleted else "There was nothing to delete.")
    for folder in filter(Path.is_dir, elsewhere):
        print(f"Not deleted: {folder}, which is outside results/ and may have other files.")


def keys_of(pairs: Sequence[str]) -> dict[str, Any]:
    """The keys and values of `--set`. Raises UserError for a word that is no pair."""
    keys = {}
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not (key and is_pair):
            raise UserError(f"--set {pair}: expected KEY=VALUE, as in `--set std_errors=robust`")
        keys[key] = parse(value, f"--set {key}")
    return keys


def prepare_environment() -> None:
    """Let jobs find the Python of this package, and the workflow show the commands of `tfglm`."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ["TFGLM_CALLER"] = "tfglm"
    os.environ["TFGLM_PROFILES"] = str(CHECKOUT / "profiles")


def do(words: Sequence[str]) -> int:
    """Do what the words after `tfglm` ask for; the exit status. Raises UserError."""
    end = words.index("--") if "--" in words else len(words)
    arguments, options = parser().parse_args(words[:end]), words[end + 1 :]
    if options and arguments.command not in OF_CONFIGS:
        raise UserError(f"`tfglm {arguments.command}` takes no options of Snakemake")
    if arguments.command == "fit":
        if arguments.config:
            from tfglm.call import config_files  # imports the engine

            config_files(arguments.config)  # before a fit that may take long
        family = {"family": arguments.family} if arguments.family else {}
        fitted = tfglm.fit(arguments.formula, arguments.data, **family, **keys_of(arguments.set))
        if isinstance(fitted, list):
            print(*(each.summary() for each in fitted), sep="\n\n")
            if arguments.html or arguments.config:
                raise UserError("--html and --config are of one model, and this formula stands for several; give one")
            return 0
        print(fitted.summary())
        command = shlex.join(["tfglm", *words])
        written = fitted.write_pages(arguments.html, command) if arguments.html else []
        written += fitted.write_config(arguments.config) if arguments.config else []
        if written:
            print(f"Written: {', '.join(map(str, written))}")
        return 0
    if arguments.command == "clean":
        clean([Path(name) for name in arguments.config] or configs_here())
        return 0
    check_snakemake()
    if arguments.command == "status":
        # Here, as its package needs one of Snakemake.
        from snakemake_logger_plugin_tfglm.run import RunProgress, lock_holder

        jobs = pending.accounts(Path.cwd())
        try:
            run = RunProgress.recorded()
            killed = " A run was killed; the same command resumes it." if is_locked() and not lock_holder() else ""
            account = run.account() if run else f"Nothing runs here.{killed}"
        except UserError as error:
            if not jobs:
                raise
            account = str(error)
        print(account, *(f"  {job}" for job in jobs), sep="\n")
        return 0
    check_folder()
    if arguments.command == "init":
        asked = [f"--{key}={getattr(arguments, key)}" for key in ("csv", *REQUEST)]
        script = str(CHECKOUT / "scripts" / "init.py")
        return subprocess.run([sys.executable, script, *asked, "--caller=tfglm", f"--log={LOG_OF_INIT}"]).returncode
    if arguments.command == "score":
        # Other commands take a config as a word, so this one does too.
        configs = [name for name in arguments.files if Path(name).suffix in (".yaml", ".yml")]
        arguments.files = [name for name in arguments.files if name not in configs]
        if not arguments.files:
            raise UserError(f"no file of data, as in `tfglm score {configs[0]} new.csv`")
        arguments.config += configs
    config = config_to_run(arguments.config, arguments.command)
    if not isinstance(read(config), dict):
        raise UserError(f"{config}: a config has keys, such as `data` and `models`; `tfglm init` writes one")
    prepare_environment()
    targets = {"check": ["--dry-run"], "score": ["score"], "tidy": ["tidy"]}.get(arguments.command, [])
    files = ["--config", f"score={json.dumps(arguments.files)}"] if arguments.command == "score" else []
    line = snakemake(config, arguments, [*files, "--rerun-incomplete", *targets, *options])
    if arguments.command == "check":
        checked = subprocess.run(
            line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
        )
        if checked.returncode:
            raise UserError(re.sub(r"\A.*^error:\n", "", checked.stdout, flags=re.DOTALL | re.MULTILINE).strip())
        print(
            f"{config}: no mistake in it, in its layouts and in the headers of its data; `tfglm run {config}` fits its models"
        )
        return 0
    if not {"-n", "--dry-run", "--dryrun", "--unlock"} & {*options}:
        begin_run(results_of(config))
    if arguments.command == "report":
        page = results_of(config) / "report.html"
        status = run_snakemake(line) or run_snakemake([*line, "--report", str(page)])
        if not status:
            print(f"The report: {page}")
        return status
    # Ctrl-C then reaches Snakemake alone.
    return os.execv(line[0], line)


def main() -> None:
    """The console script."""
    try:
        status = do(sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 2
    gc.freeze()  # at its end the interpreter would scan all objects: half a second of a fit
    sys.exit(status)
