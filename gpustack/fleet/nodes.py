"""The files of a fleet: each node's files in a folder, and names as Slurm folds them."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gpustack.errors import InputError

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
FILE = re.compile(r"(?P<node>.+?)(?:\.bench(?:\.(?P<take>\d+))?)?\.json(?:\.gz)?")
MISSING = "missing.json"
MOST_BYTES = 32_000_000  # for one node's snapshot: a thousand times the usual size
MOST_RANGE = 100_000  # names that one range may expand to
RANGE = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
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
