"""From a file to a config that runs: the steps of `snakemake init`."""

import itertools
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from tfglm.addresses import is_address
from tfglm.config import Config, Dialect, Layout, SourceConfig, column_problems, expand_files, load, load_layout
from tfglm.config.files import parse as parse_yaml
from tfglm.config.layouts import Numerals
from tfglm.config.messages import validated
from tfglm.data.header import read_header
from tfglm.data.layouts import recognised
from tfglm.data.packages import located
from tfglm.data.packing import kind_of_file
from tfglm.data.reader import InputReader
from tfglm.data.workbooks import sheets_with_values
from tfglm.design.early import model_problems
from tfglm.errors import UserError, counted, short
from tfglm.formula.parse import parse
from tfglm.formula.read import columns_of
from tfglm.formula.response import computed_response, dot_written_out, has_dot, response_text
from tfglm.survey.calendar import calendar_of
from tfglm.survey.columns import ColumnSummary, described, sample
from tfglm.survey.conversions import codes_in, conversion_of
from tfglm.survey.counts import counted_out, frequency_in
from tfglm.survey.dialect import dialect_of, encoding_remark
from tfglm.survey.flights import Question, flights_in
from tfglm.survey.layout import (
    check_header,
    clocks_beside_dates,
    own_layout,
    unread_columns,
    with_labels,
    without_midnights,
)
from tfglm.survey.names import ARMS, CONVERTED, is_named
from tfglm.survey.proposal import propose, unsuitable, with_formula
from tfglm.survey.responses import (
    EXPLAINS,
    ProposedResponse,
    as_response,
    candidates_of,
    computed,
    late_flights,
    requested_response,
)
from tfglm.survey.types import doubtful_dates, is_code, mixed_dates
from tfglm.survey.writing import account, config_text, layout_text, writing_remarks
from tfglm.survey.written_numbers import decimal_character

MOST_OTHERS, MOST_OPEN = 3, 6
"""Other responses that are shown, with the command for each, beside all of two values or classes; the same where no name tells
which is the response."""


@dataclass(frozen=True)
class Request:
    """What a user asks `init` for: a response by its column, a formula, the path of the config, whether the file has a line of
    names, or the names of its columns, and what is before decimals, `point` or `comma`; empty where `init` chooses."""

    response: str = ""
    formula: str = ""
    output: str = ""
    header: str = ""
    decimal: str = ""

    @property
    def decimal_character(self) -> str:
        """The character before decimals; empty if nothing is said. Raises UserError for another word."""
        return decimal_character(self.decimal)

    def header_is(self, path: Path) -> bool | tuple[str, ...] | None:
        """Whether the file has a line of names, or the names of its columns; None if nothing is said.

        Raises UserError for names that are missing or there twice, and for a kind of file that always has names.
        """
        if not self.header:
            return None
        if kind_of_file(path) not in ("csv", "workbook"):
            raise UserError(f"header: {path} has names for its columns; leave header out")
        if self.header.lower() in ("true", "false"):
            return self.header.lower() == "true"
        names = tuple(name.strip() for name in self.header.split(","))
        if not all(names) or len(set(names)) < len(names):
            raise UserError(
                f"header: `{short(self.header)}` must be true, false, or a different name for each column, as in age,sex,income"
            )
        return names


def init(
    source: str,
    folder: Path,
    say: Callable[[str], None],
    request: Request | None = None,
    caller: str = "snakemake --cores 1",
) -> Path:
    """Look at a file, named as in `data.files`, and write a config for it into `folder`, and the layout if none that is
    shipped fits. Return the config. `say` takes what was found, line by line. `caller` is how the workflow is called, for
    the commands that are shown: `tfglm`, or `snakemake` with options.

    Raises UserError for a file that cannot be read or has nothing to fit, and for a config or layout that is there already.
    Then nothing is written.
    """
    name, path = only_file(source)
    request = request or Request()
    config_path = Path(request.output) if request.output else folder / f"{name}.yaml"
    if config_path.suffix not in (".yaml", ".yml"):
        raise UserError(f"output: `{config_path}` must end with .yaml, as in config/{name}.yaml")
    layout_path = config_path.with_suffix(".layout.yaml")
    dashes = "--" if caller == "tfglm" else ""
    # A mistake in a request is told first: it decides the config to write.
    if not (request.response or request.formula):
        check_free(config_path, layout_path, dashes)
    header_is = request.header_is(path)
    flights = flights_in(path) if header_is is None else None
    known = flights.recognition if flights else None
    doubtful: dict[str, str] = {}
    if known:
        layout_name, layout, header = known.name, known.layout, known.header
    else:
        is_typed = kind_of_file(path) in ("images", "parquet")
        dialect = Dialect() if is_typed else dialect_of(path, header_is)
        header = read_header(path, dialect)
        check_header(path, header)
        layout_name, (layout, doubtful) = str(layout_path), own_layout(path, header, dialect, request.decimal_character)
    seen = sample(path, header, layout)
    labelled: dict[str, str] = {}
    if not known:
        layout, labelled = with_labels(without_midnights(layout, seen.rows), path, seen.rows)
    conversions: dict[str, str] = {}
    if not known:
        layout, converted, conversions, remarks = with_numbers(layout, seen.rows)
        seen, labelled = replace(seen, rows=converted), remarks | labelled
    clocks = {} if known else clocks_beside_dates(layout)
    of_layout = {*layout.columns, *conversions} - {*clocks.values()}
    values = seen.rows if known else seen.rows.select(name for name in seen.rows.columns if name in of_layout)
    columns = [described(series, None if known else layout.columns.get(series.name)) for series in values]
    calendar = calendar_of(columns, seen.rows, seen.complete, derives=known is None, clocks=clocks)
    rows = f"{len(values):,} rows of {source}"
    looked_at = f"all {rows}" if seen.complete else f"the first {rows}"
    say(f"{looked_at[0].upper()}{looked_at[1:]}, layout {layout_name}:")
    for remark in writing_remarks(layout, f"{dashes}header=NAME,NAME,..."):
        say(f"  {remark}")
    if not known and layout.encoding != "utf-8":
        say(f"  {encoding_remark(path, layout)}")
    sheets = [sheet for sheet in sheets_with_values(path) if sheet != layout.sheet] if layout.sheet else []
    if sheets:
        say(f"  sheet {layout.sheet}; others with values: {', '.join(sheets)} (`sheet` in the layout)")
    say("\n".join(account(columns)))
    if not known and "" in header:
        say(f"  columns without a name, which are not read: {header.count(''):,}")
    for column, kind in ({} if known else unread_columns(path, header, layout)).items():
        say(f"  {column}: not read, as a layout has no type for {kind}")
    if seen.unreadable:
        say(f"  lines that cannot be read: {seen.unreadable:,}; the config drops such lines (bad_rows: drop)")
        say("\n".join(f"    {problem}" for problem in seen.problems))
    if not known:
        doubtful |= doubtful_dates(layout, values) | mixed_dates(layout, seen.rows) | labelled
    for name, remark in doubtful.items():
        say(f"  {name}: {remark}")
    header_names = {column.source: name for name, column in layout.columns.items()}
    questions = flights.questions if flights else ()
    frequency = "" if known else frequency_of(request, header_names, columns, values)
    of_file = columns
    if frequency:
        values, columns = counted_out(values, columns, frequency)
    formula, left_out = without_dot(request.formula, columns, len(values))
    request = replace(request, formula=formula)
    from_r = not known and header[0] in ("", "rownames")
    response, others = responses(request, header_names, columns, values, questions, bool(frequency), from_r)
    check_free(config_path, layout_path, dashes)
    if formula:
        proposal = replace(with_formula(formula, response, values, columns, calendar), left_out=left_out)
    else:
        proposal = propose(values, columns, calendar, response, flights=known is not None)
    if frequency:
        # `rare` would count the rows of the table.
        proposal = replace(proposal, frequency=frequency, rare={})
    text = config_text(
        source,
        layout_name,
        looked_at,
        bad_rows=seen.unreadable > 0,
        proposal=proposal,
        calendar=calendar,
        columns=of_file,
    )
    texts = {config_path: text}
    if not known:
        labels = {name: calendar.labels[name] for name in proposal.derive if name in calendar.labels}
        derive = conversions | proposal.derive
        texts = {layout_path: layout_text(source, layout, doubtful, derive, labels)} | texts
    check(texts, config_path, layout_path, path)
    response = proposal.response
    derived = "".join(f" (derived: {sql})" for sql in response.derive.values())
    say(f"Response: {response.text or response.name}{derived}, {response.reason}; {response.family.name}")
    offset = f"; offset: {proposal.offset}" if proposal.offset else ""
    offset += f"; frequency: {frequency}" if frequency else ""
    errors = "a ridge, so no standard errors" if proposal.penalised else f"standard errors: {proposal.std_errors}"
    say(f"Formula: {proposal.formula}{offset}; {errors}")
    for column, reason in proposal.why.items():
        say(f"{proposal.terms[column]}: {reason}")
    for column, reason in proposal.why_left_out.items():
        say(f"Left out: {column}: {reason}")
    write(texts)
    say(f"Written: {', '.join(map(str, texts))}")
    if response.is_guess:
        say(
            f"No name tells what this file is about: init took `{response.source}`, {response.reason.partition(';')[0]}."
        )
        say("If you would explain another column, run its command; --response=NAME takes any column:")
    elif others:
        say("Other responses, and the command for each:")
    for other in others:
        asked = other.name if other.name in [question.name for question in questions] else other.source
        output = config_path.with_name(f"{config_path.stem}_{asked}.yaml")
        pairs = {"response": asked, "output": output}
        pairs |= {key: getattr(request, key) for key in ("header", "decimal") if getattr(request, key)}
        if caller == "tfglm":
            file = f"./{source}" if source.startswith("-") else source
            command = f"tfglm init {shlex.join([file, *(f'--{key}={value}' for key, value in pairs.items())])}"
        else:
            pairs = {"csv": source} | pairs
            command = f"{caller} init --config {shlex.join(f'{key}={value}' for key, value in pairs.items())}"
        say(f"  {asked} ({other.question if response.is_guess else other.reason}): {command}")
    return config_path


def responses(
    request: Request,
    header: dict[str, str],
    columns: Sequence[ColumnSummary],
    rows: pl.DataFrame,
    questions: Sequence[Question] = (),
    is_table: bool = False,
    from_r: bool = False,
) -> tuple[ProposedResponse, list[ProposedResponse]]:
    """Return the response, and the likeliest others unless the user names one; of flights, the first of the questions.
    `is_table` says whether the rows are those that a table of counts stands for, and `from_r` whether R wrote the file.

    Raises UserError if no column could be one, and if response and formula disagree.
    """
    name = request.response
    if request.formula:
        name = parse(request.formula, "formula").response
        if response := computed_response(request.formula):
            if request.response and header.get(request.response, request.response) not in response.sources:
                raise UserError(f"response: `{request.response}` is not in `{response.text}`, that of the formula")
            return computed(response, header, rows), []
        if request.response and header.get(request.response, request.response) != name:
            raise UserError(f"response: `{request.response}` is not that of the formula, `{name}`; give one of them")
    asked = [question for question in questions if name in ("", question.name)]
    if asked:
        delays = [column for column in columns if column.name in ("arr_delay", "dep_delay") and column.values > 2]
        others = [as_response(column, rows, "numbers") for column in delays]
        for question in asked[1:]:
            with suppress(UserError):
                others.append(late_flights(question, rows))
        return late_flights(asked[0], rows), [] if name else others
    if name:
        return requested_response(name, header, columns, rows), []
    first, *others = candidates_of(columns, rows, is_table, from_r)
    explain = {column.name for column in columns if is_named(column, f"{EXPLAINS}|{ARMS}")}
    outcomes = [other for other in others if other.family.counts_events or other.family.of_classes]
    outcomes = [other for other in outcomes if other.source not in explain]
    most = MOST_OPEN if first.is_guess else MOST_OTHERS
    return first, [other for place, other in enumerate(others) if place < most or other in outcomes]


def frequency_of(request: Request, header: dict[str, str], columns: Sequence[ColumnSummary], rows: pl.DataFrame) -> str:
    """The column of a table that says how many equal rows a row stands for; empty if there is none, if the user asks for it as a
    response or a covariate, or if no other column could be the response."""
    frequency = frequency_in(columns, rows)
    asked_for = {request.response, header.get(request.response, ""), *columns_of(request.formula)}
    if not frequency or frequency in asked_for or request.response or request.formula:
        return "" if frequency in asked_for else frequency
    counted, of_counted = counted_out(rows, columns, frequency)
    with suppress(UserError):
        candidates_of(of_counted, counted, is_table=True)
        return frequency
    return ""


def with_numbers(layout: Layout, rows: pl.DataFrame) -> tuple[Layout, pl.DataFrame, dict[str, str], dict[str, str]]:
    """Return a layout without codes for missing values, the rows with numbers made of texts behind these, the SQL of each such
    number, and remarks on columns."""
    codes, remarks = codes_in(rows)
    missing = list(layout.missing)
    for code, names in codes.items():
        missing += dict.fromkeys(
            text.replace(".", layout.decimal) for text in (f"{code:g}", f"{code:.1f}", f"{code:.2f}")
        )
        for name in names:
            remarks[name] = f"{code:g} in {counted(int((rows[name] == code).sum()), 'row')} read as missing"
            rows = rows.with_columns(pl.when(pl.col(name) != code).then(pl.col(name)).alias(name))
    derive: dict[str, str] = {}
    columns: list[pl.Series] = []
    for values in rows:
        columns.append(values)
        column = layout.columns.get(values.name)
        if column and column.type == "string" and f"{values.name}_{CONVERTED}" not in rows.columns:
            texts = values.drop_nulls().unique()
            if not is_code(texts) and (found := conversion_of(values, Numerals(layout.decimal, layout.thousands))):
                sql, numbers, remarks[values.name] = found
                derive[numbers.name] = sql
                columns.append(numbers)
    return layout.model_copy(update={"missing": missing}), pl.DataFrame(columns), derive, remarks


def without_dot(formula: str, columns: Sequence[ColumnSummary], rows: int) -> tuple[str, dict[str, str]]:
    """The formula with `.` written out as the columns that may be covariates, and why others may not. Raises UserError if
    there is none."""
    if not has_dot(formula):
        return formula, {}
    reasons = {column.name: unsuitable(column, rows, any_levels=True) for column in columns}
    try:
        suitable = [name for name, reason in reasons.items() if not reason]
        section = dot_written_out({"formula": formula}, computed_response(formula), suitable, {}, "formula")
    except ValueError as error:
        raise UserError(str(error)) from None
    answer = columns_of(response_text(formula))
    return section["formula"], {name: reason for name, reason in reasons.items() if reason and name not in answer}


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


def check_free(config: Path, layout: Path, dashes: str) -> None:
    """Raise UserError for files that are there already. An option of the command begins with `dashes`."""
    if there := [str(path) for path in (config, layout) if path.exists()]:
        others = (config.with_name(f"{config.stem}_{number}.yaml") for number in itertools.count(2))
        free = next(each for each in others if not (each.exists() or each.with_suffix(".layout.yaml").exists()))
        raise UserError(
            f"{' and '.join(there)} would be overwritten; move or delete what is there, or write another config: "
            f"{dashes}output={shlex.quote(str(free))}"
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
