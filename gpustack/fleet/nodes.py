"""The recordings of a fleet: a folder with each node's files, or one file; and names of nodes as Slurm folds them.

One file holds a table ``recorded`` in SQLite, DuckDB or Parquet. Its columns are ``node``, ``kind`` (``snapshot``,
``bench``, ``bench.2`` ..., or ``missing``) and ``answer``: the JSON of that file, or why the node is missing. It is
unpacked before judging, so that its result equals the folder's.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from gpustack.errors import InputError, OutputError, UsageError
from gpustack.model import record

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
FILE = re.compile(r"(?P<node>.+?)(?:\.bench(?:\.(?P<take>\d+))?)?\.json(?:\.gz)?")
MISSING = "missing.json"
MOST_BYTES = 32_000_000  # for one node's snapshot: a thousand times the usual size
MOST_RANGE = 100_000  # names that one range may expand to
RANGE = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")


@record
class Node:
    """One node's files: its snapshot and the reports of its benches, the first one first."""

    name: str
    snapshot: Path | None
    benches: tuple[Path, ...] = ()


def look(folder: Path) -> tuple[tuple[Node, ...], dict[str, str]]:
    """Return the nodes whose files are in a folder, by name, and why others are missing, as ``collect`` wrote it.

    Raises InputError if it is not a folder or contains nothing from a node.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: gpustack fleet collect makes one, with a file for each node")
    snapshots: dict[str, Path] = {}
    benches: dict[str, list[tuple[int, Path]]] = {}
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from error
    for path in files:
        found = FILE.fullmatch(path.name)
        if not found or path.name == MISSING or not NAME.fullmatch(found["node"]):
            continue
        if ".bench" in path.name.removeprefix(found["node"]):
            benches.setdefault(found["node"], []).append((int(found["take"] or 1), path))
        else:
            snapshots.setdefault(found["node"], path)
    missing = _missing(folder / MISSING)
    names = sorted({*snapshots, *benches})
    if not names and not missing:
        raise InputError(f"{folder} has no NODE.json or NODE.json.gz: gpustack snapshot -o NODE.json writes one")
    nodes = tuple(
        Node(name=name, snapshot=snapshots.get(name), benches=tuple(path for _, path in sorted(benches.get(name, ()))))
        for name in names
    )
    return nodes, {name: why for name, why in missing.items() if name not in snapshots}


def text(path: Path) -> str:
    """Return the uncompressed text of a file; raises InputError if it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            return _read(gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file, path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _read(file: IO[bytes] | gzip.GzipFile, path: Path) -> str:
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError(f"{path.name}: more than {MOST_BYTES // 1_000_000} MB is not a node's snapshot")
    return data.decode()


def _missing(path: Path) -> dict[str, str]:
    said = _table(path, "nodes and reasons") if path.exists() else {}
    return {str(name): str(why) for name, why in said.items() if NAME.fullmatch(str(name))}


def labels(path: Path) -> Mapping[str, Mapping[str, str]]:
    """Return what a site states about its nodes, from a JSON object: ``{"node1": {"rack": "r1", "switch": "s1"}}``."""
    said = _table(path, of := "nodes, each with a table of labels")
    if not all(isinstance(held, dict) for held in said.values()):
        raise InputError(f"{path} is not a table of {of}")
    return {str(node): {str(key): str(one) for key, one in held.items()} for node, held in said.items()}


def _table(path: Path, of: str) -> dict[str, Any]:
    """Return the JSON object in a file; raises InputError for anything else."""
    try:
        said = json.loads(text(path))
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(said, dict):
        raise InputError(f"{path} is not a table of {of}")
    return said


def expand(said: str) -> tuple[str, ...]:
    """Return the names that a list of host ranges expands to; raises InputError for an invalid one."""
    names = [name for part in _split(said) for name in _expanded(part.strip(), said)]
    return tuple(dict.fromkeys(names))


def _split(said: str) -> Iterator[str]:
    """Yield the parts between commas outside brackets."""
    depth, start = 0, 0
    for place, letter in enumerate(said):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield said[start:place]
            start = place + 1
    yield said[start:]


def _expanded(part: str, said: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield _name(part)
        return
    inside, closed, tail = rest.partition("]")
    if not closed or "[" in inside:
        raise InputError(f"{said!r} is not a list of nodes: a bracket is not closed")
    for span in inside.split(","):
        found = RANGE.fullmatch(span.strip())
        if not found:
            raise InputError(f"{said!r} is not a list of nodes: {span!r} is not a range of numbers")
        first, last = int(found["first"]), int(found["last"] or found["first"])
        if not first <= last < first + MOST_RANGE:
            raise InputError(f"{said!r} is not a list of nodes: {span!r} is not a range of numbers")
        for number in range(first, last + 1):
            yield from _expanded(f"{head}{number:0{len(found['first'])}d}{tail}", said)


def _name(name: str) -> str:
    """Return a valid node name; raises InputError for any other, since it becomes part of a command."""
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a node name: only letters, digits, dots, dashes and underscores are allowed")
    return name


DUCKDB, PARQUET = frozenset({".duckdb", ".ddb"}), ".parquet"
KIND = re.compile(r"snapshot|missing|bench(?:\.[1-9]\d{0,3})?")
TABLE = "create table recorded (node text, kind text, answer text)"
SELECT = "select node, kind, answer from"
BATCH = 256  # rows in memory
Row = tuple[str, str, str]


def pack(folder: Path, file: Path) -> int:
    """Write a folder of nodes to a new file in the format of its extension; return the number of rows.

    Raises OutputError if it already exists or cannot be written.
    """
    rows = _rows(folder)
    if file.exists():
        raise OutputError(f"{file} already exists")
    try:
        if file.suffix in {*DUCKDB, PARQUET}:
            return _into_duckdb(rows, file)
        with closing(sqlite3.connect(file)) as store, store:
            store.execute(TABLE)
            return store.executemany("insert into recorded values (?, ?, ?)", rows).rowcount
    except (OSError, sqlite3.Error) as error:
        raise OutputError(f"{file} cannot be written: {error}") from error


def _rows(folder: Path) -> Iterator[Row]:
    there, missing = look(folder)

    def each() -> Iterator[Row]:
        for one in there:
            if one.snapshot:
                yield one.name, "snapshot", text(one.snapshot)
            for path in one.benches:
                kind = path.name.removesuffix(".gz").removesuffix(".json").removeprefix(f"{one.name}.")
                yield one.name, kind, text(path)
        yield from ((name, "missing", why) for name, why in missing.items())

    return each()


def _into_duckdb(rows: Iterator[Row], file: Path) -> int:
    duckdb, count = _duckdb(), 0
    with _connected(duckdb, "" if file.suffix == PARQUET else str(file)) as store:
        store.execute(TABLE)
        while batch := tuple(islice(rows, BATCH)):
            columns = [list(column) for column in zip(*batch, strict=True)]
            store.execute("insert into recorded select unnest(?), unnest(?), unnest(?)", columns)
            count += len(batch)
        if file.suffix == PARQUET:
            store.table("recorded").write_parquet(str(file), compression="zstd")
    return count


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Return a folder with the files of all nodes: the path itself if it is one, else a temporary folder.

    Raises InputError for a file without recordings.
    """
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="gpustack-fleet-") as made:
        folder, missing = Path(made), dict[str, str]()
        for node, kind, answer in _selected(path):
            if not NAME.fullmatch(str(node)) or not KIND.fullmatch(str(kind)) or not isinstance(answer, str):
                raise InputError(f"{path}: {str(node)[:60]!r}, {str(kind)[:60]!r} is not a node's recording")
            if kind == "missing":
                missing[node] = answer
            else:
                name = f"{node}.json.gz" if kind == "snapshot" else f"{node}.{kind}.json.gz"
                (folder / name).write_bytes(gzip.compress(answer.encode("utf-8", "replace"), 1))
        (folder / MISSING).write_text(json.dumps(missing), "utf-8")
        yield folder


def _selected(path: Path) -> Iterator[Row]:
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if head == b"SQLite format 3\0":
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
            try:
                yield from store.execute(f"{SELECT} recorded")
            except sqlite3.Error as error:
                raise InputError(f"{path} has no recordings: {error}") from error
    elif head[:4] == b"PAR1" or head[8:12] == b"DUCK":
        yield from _from_duckdb(path, parquet=head[:4] == b"PAR1")
    else:
        raise InputError(f"{path} is neither a folder of nodes nor a file that gpustack fleet pack wrote")


def _from_duckdb(path: Path, *, parquet: bool) -> Iterator[Row]:
    duckdb = _duckdb()
    try:
        with _connected(duckdb, "" if parquet else str(path), read_only=not parquet) as store:
            table, given = ("read_parquet(?)", [str(path)]) if parquet else ("recorded", [])
            found = store.execute(f"{SELECT} {table}", given)
            while rows := found.fetchmany(BATCH):
                yield from rows
    except duckdb.Error as error:
        raise InputError(f"{path} has no recordings: {str(error).splitlines()[0]}") from error


@contextmanager
def _connected(duckdb: Any, path: str, **how: bool) -> Iterator[Any]:  # noqa: ANN401 - DuckDB, an extra
    with closing(duckdb.connect(path or ":memory:", **how)) as store:
        store.execute("set enable_progress_bar = false; set autoinstall_known_extensions = false")
        yield store


def _duckdb() -> Any:  # noqa: ANN401 - the one optional library
    """Return DuckDB; raises UsageError if it is not installed."""
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise UsageError("this kind of file needs DuckDB: pip install 'gpustack-doctor[fleet]'") from error
