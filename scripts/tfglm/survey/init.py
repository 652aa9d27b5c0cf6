"""From a file to a config that runs: the steps of `snakemake init`."""

from collections.abc import Callable
from pathlib import Path

from tfglm.addresses import is_address
from tfglm.config import Config, Layout, SourceConfig, column_problems, expand_files, load, load_layout
from tfglm.config.files import parse as parse_yaml
from tfglm.config.messages import validated
from tfglm.data.header import read_header
from tfglm.data.images import has_images
from tfglm.data.layouts import recognised
from tfglm.data.packages import located
from tfglm.data.packing import estimated_csv_bytes, packing
from tfglm.data.reader import InputReader
from tfglm.design.early import model_problems
from tfglm.errors import UserError
from tfglm.survey.calendar import calendar_of
from tfglm.survey.columns import described, sample
from tfglm.survey.dialect import Dialect, dialect_of
from tfglm.survey.layout import check_header, columns_to_survey, flight_layout, own_layout
from tfglm.survey.proposal import propose
from tfglm.survey.types import doubtful_dates, mixed_dates
from tfglm.survey.writing import account, config_text, layout_text, writing_remarks

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
    known = flight_layout(path)
    if known:
        layout_name, layout, header = known.name, known.layout, known.header
    else:
        is_csv = packing(path) != "parquet" and not has_images(path)
        dialect = dialect_of(path) if is_csv else Dialect(",", "utf-8")
        header = read_header(path, dialect.separator_bytes, dialect.encoding)
        check_header(path, header)
        layout_name, layout = str(layout_path), own_layout(path, header, dialect)
    seen = sample(path, header, layout)
    values = seen.rows if known else seen.rows.select(columns_to_survey(layout))
    columns = [described(series) for series in values]
    calendar = calendar_of(columns, values, seen.complete, derives=known is None)
    rows = f"{len(values):,} rows of {source}"
    looked_at = f"all {rows}" if seen.complete else f"the first {rows}"
    say(f"{looked_at[0].upper()}{looked_at[1:]}, layout {layout_name}:")
    for remark in writing_remarks(layout):
        say(f"  {remark}")
    say("\n".join(account(columns)))
    if not known and "" in header:
        say(f"  columns without a name, which are not read: {header.count(''):,}")
    if seen.unreadable:
        say(f"  lines that cannot be read: {seen.unreadable:,}; the config drops such lines (bad_rows: drop)")
    doubtful = {} if known else doubtful_dates(layout, values) | mixed_dates(layout, seen.rows)
    for name, remark in doubtful.items():
        say(f"  {name}: {remark}")
    proposal = propose(values, columns, calendar, flights=known is not None)
    text = config_text(
        source,
        layout_name,
        looked_at,
        bad_rows=seen.unreadable > 0,
        one_device=estimated_csv_bytes(path) <= SMALL,
        proposal=proposal,
        calendar=calendar,
        columns=columns,
    )
    texts = {config_path: text}
    if not known:
        labels = {name: calendar.labels[name] for name in proposal.derive}
        texts = {layout_path: layout_text(source, layout, doubtful, proposal.derive, labels)} | texts
    check(texts, config_path, layout_path, path)
    response = proposal.response
    derived = "".join(f" (derived: {sql})" for sql in response.derive.values())
    say(f"Response: {response.name}{derived}, {response.reason}; {response.family.name}")
    say(f"Formula: {proposal.formula}; standard errors: {proposal.std_errors}")
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


def check(texts: dict[Path, str], config_path: Path, layout_path: Path, path: Path) -> None:
    """Raise UserError unless a run could begin with what is to be written: as a run reads it, up to the rows themselves."""
    config: Config = load(parse_yaml(texts[config_path], str(config_path)), str(config_path))
    ((layout_name),) = config.data.layout or []
    if layout_path in texts:
        layout = validated(Layout, parse_yaml(texts[layout_path], str(layout_path)), str(layout_path))
    else:
        layout = load_layout(layout_name)
    known = recognised(path, {layout_name: layout}, config.data)
    InputReader.of(path, path.stem, known.header, known.layout, config.data, lambda message: None)
    problems = column_problems(config, [layout]) + model_problems(config, {layout_name: layout}).messages
    if problems:
        raise UserError("\n".join(problems))


def write(texts: dict[Path, str]) -> None:
    """Raise UserError where the disk refuses."""
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from None
