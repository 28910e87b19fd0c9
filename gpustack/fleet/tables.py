"""A fleet's recordings in one file instead of a folder: a table ``recorded`` in SQLite or DuckDB, or a Parquet file.

Its columns are ``node``, ``kind`` (``snapshot``, ``bench``, ``bench.2`` ..., or ``missing``) and ``answer``: the JSON
of that file, or why the node is missing. Such a file is unpacked before judging, so that its result equals the
folder's.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from gpustack.errors import InputError, OutputError, UsageError
from gpustack.fleet import nodes

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
    there, missing = nodes.look(folder)

    def each() -> Iterator[Row]:
        for one in there:
            if one.snapshot:
                yield one.name, "snapshot", nodes.text(one.snapshot)
            for path in one.benches:
                kind = path.name.removesuffix(".gz").removesuffix(".json").removeprefix(f"{one.name}.")
                yield one.name, kind, nodes.text(path)
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
        for node, kind, answer in _read(path):
            if not nodes.NAME.fullmatch(str(node)) or not KIND.fullmatch(str(kind)) or not isinstance(answer, str):
                raise InputError(f"{path}: {str(node)[:60]!r}, {str(kind)[:60]!r} is not a node's recording")
            if kind == "missing":
                missing[node] = answer
            else:
                name = f"{node}.json.gz" if kind == "snapshot" else f"{node}.{kind}.json.gz"
                (folder / name).write_bytes(gzip.compress(answer.encode("utf-8", "replace"), 1))
        (folder / nodes.MISSING).write_text(json.dumps(missing), "utf-8")
        yield folder


def _read(path: Path) -> Iterator[Row]:
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
