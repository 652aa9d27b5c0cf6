"""Turn one input file into shards: rows selected and counted, columns encoded, in one parse."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.config import SelectionConfig, add_settings, load_layout
from tfglm.data.ingest import ingest


def main(arguments: argparse.Namespace) -> None:
    manifest = ingest(
        arguments.source,
        arguments.file,
        {name: load_layout(name) for name in arguments.layouts},
        arguments.settings,
        arguments.manifest.parent,
        arguments.threads,
        command.log,
        edition=arguments.edition,
    )
    kept = sum(shard.rows for shard in manifest.shards)
    command.log(f"{arguments.source}: {manifest.read:,} rows read, {kept:,} kept in {len(manifest.shards)} shards")
    for reason, rows in manifest.dropped.items():
        command.log(f"  dropped, {reason}: {rows:,}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument(
        "--source", type=Path, required=True, help="a CSV file (also .gz, .bz2, .zip) or a Parquet file"
    )
    parser.add_argument("--file", required=True, help="the name that results use for it")
    parser.add_argument("--layouts", required=True, nargs="+", help="the layouts that it may have, by name or path")
    add_settings(parser, SelectionConfig)
    parser.add_argument("--threads", type=int, default=2, help="threads that parse")
    parser.add_argument("--edition", type=int, default=0, help="how often the content of the file was found changed")
    parser.add_argument("--manifest", type=Path, required=True, help="manifest to write, the shards beside it")
    command.run(main, parser.parse_args())
