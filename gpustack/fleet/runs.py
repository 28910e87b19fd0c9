"""One SQLite file of all runs of a fleet: an index that can be rebuilt from the recorded files.

Tables: ``runs``, ``nodes`` (of each run), ``findings`` and ``drift`` (by node), ``figures`` (the low ones) and
``missing``. Only this module writes to it; ``gate`` only reads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.errors import InputError, OutputError
from gpustack.model import record
from gpustack.model.fleet import FleetReport, Recurrence

if TYPE_CHECKING:
    from gpustack.fleet.looking import Seen

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


@record
class Gate:
    """Whether a node may take work: why not, or an empty text; ``known``: it is in the store."""

    node: str
    why: str
    known: bool


def add(path: Path, folder: Path, report: FleetReport, seen: Mapping[str, Seen]) -> int:
    """Write one run to the store, creating it if necessary; return the run's number."""
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
    """Return the number of boots, from their times in seconds, which clocks report to within minutes."""
    began = sorted(int(one) for one in said.split(",") if one)
    return sum(1 for place, one in enumerate(began) if not place or one - began[place - 1] > SAME_BOOT)


def ids(path: Path) -> tuple[str, ...]:
    """Return every finding that any node ever had."""
    with _open(path) as store:
        return tuple(one for (one,) in store.execute("select distinct id from findings order by id"))


def gate(path: Path, names: Sequence[str], *, warnings: bool = False) -> tuple[Gate, ...]:
    """Return which nodes may take work after the last run: none that is broken, missing, or measured low twice."""
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
    """Open a store; raises InputError if it is not one, OutputError if it cannot be written."""
    if not write and not path.is_file():
        raise InputError(f"{path} is not a fleet store: gpustack fleet judge DIR makes one")
    try:
        with closing(sqlite3.connect(path if write else f"{path.absolute().as_uri()}?mode=ro", uri=not write)) as store:
            _prepare(store, path, write=write)
            yield store
    except sqlite3.Error as error:
        if write:
            raise OutputError(f"{path} cannot be written: {error}") from error
        raise InputError(f"{path} is not a fleet store, or is damaged: {error}") from error


def _prepare(store: sqlite3.Connection, path: Path, *, write: bool) -> None:
    version = store.execute("pragma user_version").fetchone()[0]
    if version == 0 and write and not store.execute("select 1 from sqlite_master").fetchone():
        store.executescript(f"{TABLES}pragma user_version = {VERSION};")
    elif version != VERSION:
        raise InputError(f"{path} is a store from another gpustack (version {version}, not {VERSION}): judge DIR again")
