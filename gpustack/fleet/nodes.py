"""The files of a fleet: what each node left in a folder, names as Slurm folds them, and one SQLite file of all runs.

The store is an index that can be made again from the recorded files. Tables: ``runs``, ``nodes`` (of each run),
``findings`` and ``drift`` (by node), ``figures`` (those that are low) and ``missing``. Nothing but this module writes
to it; ``gate`` only reads.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gpustack.errors import InputError, OutputError
from gpustack.model.fleet import Recurrence

if TYPE_CHECKING:
    from gpustack.fleet.looking import Seen
    from gpustack.model.fleet import FleetReport

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
FILE = re.compile(r"(?P<node>.+?)(?:\.bench(?:\.(?P<take>\d+))?)?\.json(?:\.gz)?")
MISSING = "missing.json"
MOST_BYTES = 32_000_000  # of one node's snapshot: a thousand times what one is
MOST_RANGE = 100_000  # names that one range may stand for
RANGE = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node's files: its snapshot, and the reports of its bench, the first one first."""

    name: str
    snapshot: Path | None
    benches: tuple[Path, ...] = ()


def look(folder: Path) -> tuple[tuple[Node, ...], dict[str, str]]:
    """Return the nodes whose files lie in a folder, by name, and why others are missing, as ``collect`` wrote it.

    Raises InputError for what is no folder, or holds nothing of a node.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: gpustack fleet collect makes one, with a file for each node")
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
        raise InputError(f"{folder} holds no NODE.json or NODE.json.gz: gpustack snapshot -o NODE.json writes one")
    nodes = tuple(
        Node(
            name=name,
            snapshot=snapshots.get(name),
            benches=tuple(path for _, path in sorted(benches.get(name, ()))),
        )
        for name in names
    )
    return nodes, {name: why for name, why in missing.items() if name not in snapshots}


def text(path: Path) -> str:
    """Return the text of a file, unpacked; raises InputError where it cannot be read, or is too large."""
    try:
        with path.open("rb") as file:
            return _read(gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file, path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _read(file: IO[bytes] | gzip.GzipFile, path: Path) -> str:
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError(f"{path.name}: more than {MOST_BYTES // 1_000_000} MB is no snapshot of a node")
    return data.decode()


def _missing(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        said = json.loads(text(path))
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise InputError(f"{path} is no table of nodes and reasons")
    return {str(name): str(why) for name, why in said.items() if NAME.fullmatch(str(name))}


def expand(said: str) -> tuple[str, ...]:
    """Return the names that a list of host ranges stands for; raises InputError for what is none."""
    names = [name for part in _split(said) for name in _expanded(part.strip(), said)]
    return tuple(dict.fromkeys(names))


def _split(said: str) -> Iterator[str]:
    """Yield the parts between commas that stand in no bracket."""
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
        raise InputError(f"{said!r} is no list of nodes: a bracket is not closed")
    for span in inside.split(","):
        found = RANGE.fullmatch(span.strip())
        if not found:
            raise InputError(f"{said!r} is no list of nodes: {span!r} is no range of numbers")
        first, last = int(found["first"]), int(found["last"] or found["first"])
        if not first <= last < first + MOST_RANGE:
            raise InputError(f"{said!r} is no list of nodes: {span!r} is no range of numbers")
        for number in range(first, last + 1):
            yield from _expanded(f"{head}{number:0{len(found['first'])}d}{tail}", said)


def _name(name: str) -> str:
    """Return a name that may be one of a node; raises InputError for any other: it becomes part of a command."""
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name of a node: letters, digits, dots, dashes and underscores make one")
    return name


def labels(path: Path) -> Mapping[str, Mapping[str, str]]:
    """Return what a site says of its nodes, from a JSON object: ``{"node1": {"rack": "r1", "switch": "s1"}}``."""
    try:
        said = json.loads(text(path))
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from error
    if not isinstance(said, dict) or not all(isinstance(held, dict) for held in said.values()):
        raise InputError(f"{path} is no table of nodes, each with a table of labels")
    return {str(node): {str(key): str(one) for key, one in held.items()} for node, held in said.items()}


VERSION = 1
STORE = "fleet.sqlite"
SAME_BOOT = 300  # seconds
TABLES = """
create table runs (id integer primary key, taken text not null, folder text not null, nodes integer not null);
create table nodes (run integer not null, node text not null, status text not null, kind text not null,
                    boot text not null, taken text not null, primary key (run, node)) without rowid;
create table findings (run integer not null, node text not null, key text not null, id text not null,
                       severity text not null, root integer not null, title text not null,
                       primary key (run, node, key)) without rowid;
create table drift (run integer not null, node text not null, component text not null, fact text not null,
                    instances text not null, usual text, found text);
create table figures (run integer not null, node text not null, gpus text not null, id text not null,
                      value real not null, ratio real not null, verdict text not null);
create table missing (run integer not null, node text not null, why text not null,
                      primary key (run, node)) without rowid;
create index findings_id on findings (id, run);
create index drift_fact on drift (component, fact);
create index nodes_node on nodes (node, run);
"""
HELD_BACK = (
    "select node, title from findings where run = ? and root and severity = 'warning'",
    "select node, title from findings where run = ? and root and severity = 'error'",
    "select node, id || ' is low' from figures where run = ? and verdict = 'low'",
    "select node, 'missing: ' || why from missing where run = ?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether a node may take work: why not, or an empty text; ``known``: the store has seen it."""

    node: str
    why: str
    known: bool


def add(path: Path, folder: Path, report: FleetReport, seen: Mapping[str, Seen]) -> int:
    """Write one run into the store, making it where there is none; return its number."""
    with _open(path, write=True) as store, store:
        run = store.execute(
            "insert into runs (taken, folder, nodes) values (?, ?, ?)", (report.taken, str(folder), report.nodes)
        ).lastrowid
        status = {name: (held.status.value, held) for held in report.classes for name in held.nodes}
        store.executemany(
            "insert into nodes values (?, ?, ?, ?, ?, ?)",
            ((run, name, status[name][0], one.kind, one.boot, one.taken) for name, one in seen.items()),
        )
        store.executemany(
            "insert or ignore into findings values (?, ?, ?, ?, ?, ?, ?)",
            (
                (run, name, one.key, one.id, one.severity.value, one.caused_by is None, one.title)
                for held in report.classes
                for name in held.nodes
                for one in held.findings
            ),
        )
        store.executemany(
            "insert into drift values (?, ?, ?, ?, ?, ?, ?)",
            (
                (run, name, one.component, one.fact, ",".join(one.instances), one.usual, odd.value)
                for one in report.drift
                for odd in one.odd
                for name in odd.nodes
            ),
        )
        store.executemany(
            "insert into figures values (?, ?, ?, ?, ?, ?, ?)",
            (
                (run, low.node, "-".join(map(str, low.gpus)), one.id, low.value, low.ratio, low.verdict.value)
                for one in report.figures
                for low in one.outliers
            ),
        )
        store.executemany(
            "insert or ignore into missing values (?, ?, ?)", ((run, one.node, one.why) for one in report.missing)
        )
    return int(run or 0)


def since(path: Path, finding: str) -> tuple[Recurrence, ...]:
    """Return every node that ever had this finding, the worst lemon first."""
    with _open(path) as store:
        last = store.execute("select max(id) from runs").fetchone()[0]
        rows = store.execute(
            """select f.node, min(r.taken), max(r.taken), count(distinct f.run), group_concat(distinct n.boot),
                      (select count(*) from nodes o where o.node = f.node), max(f.run) = ?
               from findings f join runs r on r.id = f.run left join nodes n on n.run = f.run and n.node = f.node
               where f.id = ? group by f.node""",
            (last, finding),
        ).fetchall()
    found = (
        Recurrence(node=node, first=first, last=latest, runs=runs, boots=_boots(boots or ""), of=total, now=bool(now))
        for node, first, latest, runs, boots, total, now in rows
    )
    return tuple(sorted(found, key=lambda one: (-one.score, one.node)))


def _boots(said: str) -> int:
    """Return how many boots there were, by the seconds in which they began, which clocks tell to some minutes."""
    began = sorted(int(one) for one in said.split(",") if one)
    return sum(1 for place, one in enumerate(began) if not place or one - began[place - 1] > SAME_BOOT)


def ids(path: Path) -> tuple[str, ...]:
    """Return every finding that any node ever had."""
    with _open(path) as store:
        return tuple(one for (one,) in store.execute("select distinct id from findings order by id"))


def gate(path: Path, names: Sequence[str], *, warnings: bool = False) -> tuple[Gate, ...]:
    """Return which nodes may take work, by the last run: none that is broken, missing, or measured low twice."""
    with _open(path) as store:
        last = store.execute("select max(id) from runs").fetchone()[0]
        why: dict[str, str] = {}
        for sql in HELD_BACK if warnings else HELD_BACK[1:]:
            for node, said in store.execute(sql, (last,)):
                why.setdefault(node, said)
        known = {node for (node,) in store.execute("select node from nodes where run = ?", (last,))} | set(why)
    return tuple(Gate(node=name, why=why.get(name, ""), known=name in known) for name in names or sorted(known))


@contextmanager
def _open(path: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a store; raises InputError for what is none, OutputError where it cannot be written."""
    if not write and not path.is_file():
        raise InputError(f"{path} is no store of a fleet: gpustack fleet judge DIR makes one")
    try:
        with closing(sqlite3.connect(path if write else f"{path.absolute().as_uri()}?mode=ro", uri=not write)) as store:
            _prepare(store, path, write=write)
            yield store
    except sqlite3.Error as error:
        if write:
            raise OutputError(f"{path} cannot be written: {error}") from error
        raise InputError(f"{path} is no store of a fleet, or is damaged: {error}") from error


def _prepare(store: sqlite3.Connection, path: Path, *, write: bool) -> None:
    version = store.execute("pragma user_version").fetchone()[0]
    if version == 0 and write and not store.execute("select 1 from sqlite_master").fetchone():
        store.executescript(f"{TABLES}pragma user_version = {VERSION};")
    elif version != VERSION:
        raise InputError(f"{path} is a store of another gpustack (version {version}, not {VERSION}): judge DIR again")
