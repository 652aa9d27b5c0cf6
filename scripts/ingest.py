"""Turn input files into shards: rows selected and counted, columns encoded, in one parse."""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tfglm import command
from tfglm.config import SelectionConfig, add_settings, load_layout
from tfglm.config.inputs import SMALL, csv_bytes
from tfglm.data.ingest import ingest


def main(arguments: argparse.Namespace) -> None:
    several = [argparse.Namespace(**task) for task in json.loads(arguments.together)]
    # Compiled loops are loaded once, so they pay for several small files.
    is_much = sum(csv_bytes(Path(task.source)) for task in several) >= SMALL
    with ThreadPoolExecutor(arguments.threads) as executor:
        for task in several or [arguments]:
            read(task, arguments, executor, compiled=is_much or None)


def read(
    task: argparse.Namespace, arguments: argparse.Namespace, executor: ThreadPoolExecutor, compiled: bool | None
) -> None:
    """Turn one file into shards."""
    manifest = ingest(
        Path(task.source),
        task.file,
        {name: load_layout(name) for name in task.layouts},
        arguments.settings,
        Path(task.manifest).parent,
        arguments.threads,
        command.log,
        compiled,
        edition=task.edition,
        executor=executor,
    )
    kept = sum(shard.rows for shard in manifest.shards)
    command.log(f"{task.source}: {manifest.read:,} rows read, {kept:,} kept in {len(manifest.shards)} shards")
    for reason, rows in manifest.dropped.items():
        command.log(f"  dropped, {reason}: {rows:,}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--source", help="a CSV file (also .gz, .bz2, .zip) or a Parquet file")
    parser.add_argument("--file", help="the name that results use for it")
    parser.add_argument("--layouts", nargs="+", help="the layouts that it may have, by name or path")
    parser.add_argument("--edition", type=int, default=0, help="how often the content of the file was found changed")
    parser.add_argument("--manifest", help="manifest to write, the shards beside it")
    parser.add_argument("--together", default="[]", help="instead: these five of each of several files, as JSON")
    add_settings(parser, SelectionConfig)
    parser.add_argument("--threads", type=int, default=2, help="threads that parse")
    arguments = parser.parse_args()
    if arguments.together == "[]" and not (
        arguments.source and arguments.file and arguments.layouts and arguments.manifest
    ):
        parser.error("give --source, --file, --layouts and --manifest, or --together")
    command.run(main, arguments)
