"""From a file to a config that runs: the steps of `snakemake init`."""

from collections.abc import Callable
from pathlib import Path

from tfglm.addresses import is_address
from tfglm.config import Config, Layout, SourceConfig, expand_files, load, load_layout
from tfglm.config.files import parse as parse_yaml
from tfglm.config.messages import validated
from tfglm.data.header import read_header
from tfglm.data.layouts import choose
from tfglm.data.packages import located
from tfglm.data.packing import estimated_csv_bytes
from tfglm.data.reader import InputReader
from tfglm.design import formula
from tfglm.errors import UserError
from tfglm.survey.columns import described, sample
from tfglm.survey.layout import check_header, flight_layout, own_layout
from tfglm.survey.proposal import propose
from tfglm.survey.writing import account, config_text, layout_text, may_be_factors

SMALL = 100 * 10**6
"""Bytes of CSV up to which one process fits faster than several."""


def init(source: str, folder: Path, say: Callable[[str], None]) -> Path:
    """Look at a file, and write a config for it.

    Parameters
    ----------
    source
        The file, as `data.files` names one.
    folder
        Where the config is written, and the layout if none that is shipped fits.
    say
        Takes what was found, line by line.

    Returns
    -------
    The config.

    Raises
    ------
    UserError
        For a file that cannot be read or has nothing to fit, and for a config or layout that is there already. Then nothing is
        written.
    """
    name, path = only_file(source)
    config_path, layout_path = folder / f"{name}.yaml", folder / f"{name}.layout.yaml"
    check_free(config_path, layout_path)
    header = read_header(path)
    check_header(path, header)
    known = flight_layout(header, str(path))
    layout_name, layout = known or (str(layout_path), own_layout(path, header))
    seen = sample(path, header, layout)
    columns = [described(series) for series in seen.rows]
    rows = f"{len(seen.rows):,} rows of {source}"
    looked_at = f"all {rows}" if seen.complete else f"the first {rows}"
    say(f"{looked_at[0].upper()}{looked_at[1:]}, layout {layout_name}:")
    say("\n".join(account(columns)))
    if seen.unreadable:
        say(f"  lines that cannot be read: {seen.unreadable:,}; the config drops such lines (bad_rows: drop)")
    proposal = propose(seen.rows, flights=known is not None)
    text = config_text(
        source,
        layout_name,
        looked_at,
        bad_rows=seen.unreadable > 0,
        one_device=estimated_csv_bytes(path) <= SMALL,
        proposal=proposal,
        factors=may_be_factors(columns, proposal),
    )
    texts = {config_path: text} if known else {layout_path: layout_text(source, layout), config_path: text}
    check(texts, config_path, layout_path, path, header)
    response = proposal.response
    derived = "".join(f" (derived: {sql})" for sql in response.derive.values())
    say(f"Response: {response.name}{derived}, {response.reason}; {response.family.name}")
    say(f"Formula: {proposal.formula}")
    for column, reason in proposal.left_out.items():
        say(f"Left out: {column}: {reason}")
    write(texts)
    say(f"Written: {', '.join(map(str, texts))}")
    return config_path


def only_file(source: str) -> tuple[str, Path]:
    """The name in results and the place of the file that is meant. Raises UserError unless it is one file that is here."""
    if is_address(source):
        raise UserError(
            f"csv: `{source}` is an address, and a look at a file needs it here; fetch it, and give its path"
        )
    try:
        files = expand_files(validated(SourceConfig, {"files": [source]}, "csv"))
    except UserError as error:
        raise UserError(str(error).replace("data.files: ", "csv: ")) from None
    if len(files) > 1:
        raise UserError(
            f"csv: {len(files):,} files match `{source}`; give one of them, and name them all under data.files of the config "
            "that is written"
        )
    ((name, file),) = files.items()
    return name, located(file.source)


def check_free(*paths: Path) -> None:
    """Raise UserError for files that are there already."""
    there = [str(path) for path in paths if path.exists()]
    if there:
        raise UserError(
            f"{' and '.join(there)} would be overwritten; move or delete what is there, or rename the CSV file"
        )


def check(texts: dict[Path, str], config_path: Path, layout_path: Path, path: Path, header: list[str]) -> None:
    """Raise UserError unless a run could begin with what is to be written: as a run reads it, up to the rows themselves."""
    config: Config = load(parse_yaml(texts[config_path], str(config_path)), str(config_path))
    ((layout_name),) = config.data.layout or []
    if layout_path in texts:
        layout = validated(Layout, parse_yaml(texts[layout_path], str(layout_path)), str(layout_path))
    else:
        layout = load_layout(layout_name)
    _, layout = choose(header, {layout_name: layout}, config.data, str(path))
    InputReader.of(path, path.stem, header, layout, config.data, lambda message: None)
    for name, model in config.models.items():
        formula.parse(model.formula, f"models.{name}.formula")


def write(texts: dict[Path, str]) -> None:
    """Raise UserError where the disk refuses."""
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from None
