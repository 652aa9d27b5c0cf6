"""What `snakemake init` makes of a file."""

from pathlib import Path
from typing import NamedTuple

import yaml

from tfglm.config import Config, Layout, load, load_layout
from tfglm.data.ingest import ingest
from tfglm.data.shards import IngestedFile
from tfglm.survey.init import Request, init


class Surveyed(NamedTuple):
    """The config that is written for a file, what is said of it, the layout, and the rows as these read them."""

    config: Config
    said: str
    layout: Layout
    file: IngestedFile


def surveyed(source: str, request: Request | None = None, folder: Path = Path("config")) -> Surveyed:
    """Survey a file, write its config to `folder`, and read all its rows with it."""
    said: list[str] = []
    path = init(source, folder, said.append, request)
    config = load(yaml.safe_load(path.read_text()), str(path))
    (name,) = config.data.layout
    ingest(Path(source), "rows", {name: load_layout(name)}, config.data, folder / "ingested", log=said.append)
    file = IngestedFile.load(folder / "ingested" / "manifest.json")
    return Surveyed(config, "\n".join(said), load_layout(name), file)


def surveyed_apart(source: str, request: Request | None = None) -> Surveyed:
    """As `surveyed`, with the config and the layout in a folder of their own."""
    return surveyed(source, request, Path(f"{source}-config"))


def formula(config: Config) -> str:
    """That of its only model."""
    (model,) = config.models.values()
    return model.formula
