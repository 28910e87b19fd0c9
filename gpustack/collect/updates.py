"""Rows derived from the metadata of wheels, compared with the package index: which are new, and which differ.

The index is queried through the user's own pip, with its configured index, proxies and credentials.
"""

from __future__ import annotations

import json
import os
import re
import selectors
from contextlib import suppress
from datetime import datetime, timezone
from typing import IO, TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from gpustack.collect import isolation
from gpustack.collect.subprocesses import Door, ended
from gpustack.errors import NothingSeenError, OutputError, UsageError
from gpustack.matrix.subjects.ranges import specifiers
from gpustack.model import field, record, writing
from gpustack.model.matrix_answer import MatrixUpdate, RowChange

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpustack.matrix import Matrix

    Row = Mapping[str, object]
    Outcome = RowChange | NothingSeenError | str | None  # how a row differs, why that is unknown, or None if it agrees

MOST_NEW = 3
SECONDS, REPORT_SECONDS = 300.0, 1.0
CUDA = re.compile(
    r"^(?:nvidia-cuda-(?:runtime|nvrtc)(?:-cu\d+)?|cuda-toolkit(?:\[[^\]]*\])?)\s*(?:==|~=|>=)(\d+)\.(\d+)"
)


@record
class Part:
    """One part of a table: the distribution it is derived from, its rows' key, and which field is CUDA's version."""

    component: str
    distribution: str
    table: str
    part: str
    key: str
    read: Callable[[re.Match[str]], Row] | None = None
    minor: bool = False

    def row(self, metadata: Metadata) -> Row:
        """Return what the metadata says about a row: the Pythons and, if read, the CUDA it requires."""
        cuda = next((match for one in metadata.requires if (match := CUDA.match(one))), None)
        return {**(self.read(cuda) if cuda and self.read else {}), "requires_python": metadata.requires_python}


def _torch(cuda: re.Match[str]) -> Row:
    return {"default": f"cu{cuda[1]}{cuda[2]}"}


def _onnxruntime(cuda: re.Match[str]) -> Row:
    return {"cuda": int(cuda[1])}


PARTS = (
    Part(component="pytorch", distribution="torch", table="torch_wheels", part="patches", key="torch", read=_torch),
    Part(component="jax", distribution="jax", table="jax", part="releases", key="jax"),
    Part(component="tensorflow", distribution="tensorflow", table="tensorflow", part="pins", key="tensorflow"),
    Part(
        component="onnxruntime",
        distribution="onnxruntime-gpu",
        table="onnxruntime",
        part="releases",
        key="onnxruntime",
        read=_onnxruntime,
        minor=True,
    ),
)


def compare(names: Sequence[str], matrix: Matrix, timeout: float | None, index: Index | None = None) -> MatrixUpdate:
    """Return how the newest rows and newer releases compare with the index, within ``timeout`` seconds in all.

    Raises NothingSeenError if the index does not answer.
    """
    door = Door()
    seconds = max(timeout - REPORT_SECONDS, timeout / 2) if timeout else SECONDS
    asked = index or Index(door=door, deadline=door.now() + seconds)
    parts = _chosen(names)
    seen = [one for part in parts for one in _compare(part, matrix, asked)]
    changes = tuple(outcome for _, outcome in seen if isinstance(outcome, RowChange))
    same = sum(outcome is None for _, outcome in seen)
    failed = [outcome for _, outcome in seen if isinstance(outcome, NothingSeenError)]
    if failed and not changes and not same:
        raise failed[0]
    return MatrixUpdate(
        asked=tuple(part.distribution for part in parts),
        same=same,
        changes=changes,
        unread=tuple(f"{name}: {outcome}" for name, outcome in seen if isinstance(outcome, str | NothingSeenError)),
    )


def save(update: MatrixUpdate, folder: Path) -> None:
    """Write the differing rows, as they would be in each table, to files in a folder."""
    by_part: dict[str, list[str]] = {}
    for one in update.changes:
        by_part.setdefault(f"{one.table}.{one.part}", []).append(f"  {{ {one.now} }},\n")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}") from error
    for name, lines in by_part.items():
        writing.write(folder / f"{name}.toml", f"{name.partition('.')[2]} = [\n{''.join(lines)}]\n")


def _chosen(names: Sequence[str]) -> tuple[Part, ...]:
    known = {name: part for part in PARTS for name in (part.component, part.distribution)}
    strange = [name for name in names if name.lower() not in known]
    if strange:
        wanted = ", ".join(part.distribution for part in PARTS)
        raise UsageError(f"no rows follow from the wheels of {strange[0]!r}: there are those of {wanted}")
    return tuple(dict.fromkeys(known[name.lower()] for name in names)) or PARTS


def _compare(part: Part, matrix: Matrix, index: Index) -> Iterator[tuple[str, Outcome]]:
    """Yield each release's name and the outcome of its comparison."""
    rows: Mapping[str, Row] = {row[part.key]: row for row in matrix.table(part.table)[part.part]}
    try:
        newest = max(map(Version, rows))
        keys = {_key(part, one): one for one in index.versions(part.distribution)}
        new = [(key, one) for key, one in keys.items() if Version(key) > newest][-MOST_NEW:]
        asked = [(key, one) for key, one in keys.items() if Version(key) == newest] + new
    except NothingSeenError as error:
        yield part.distribution, error
        return
    if not asked:
        yield part.distribution, "the index offers this Python nothing as new as the newest row"
    for key, version in asked:
        yield f"{part.distribution} {version}", _release(part, index, key, rows.get(key), str(version))


def _release(part: Part, index: Index, key: str, row: Row | None, version: str) -> Outcome:
    try:
        return _change(part, key, row, index.metadata(part.distribution, version), version)
    except NothingSeenError as error:
        return error


def _key(part: Part, version: Version) -> str:
    return f"{version.major}.{version.minor}" if part.minor else str(version)


def _change(part: Part, key: str, row: Row | None, metadata: Metadata, version: str) -> RowChange | None:
    read = {name: value for name, value in part.row(metadata).items() if value is not None}
    if row is not None and all(_alike(row[name], value) for name, value in read.items() if name in row):
        return None
    kept = {name: value for name, value in (row or {}).items() if name not in {part.key, "source", "checked"}}
    day = datetime.now(timezone.utc).date().isoformat()
    source = f"METADATA of the {part.distribution} {version} wheel"
    now = _line({part.key: key, **kept, **read, "source": source, "checked": day})
    return RowChange(table=part.table, part=part.part, key=key, now=now, was=_line(row) if row is not None else None)


def _alike(row: object, read: object) -> bool:
    """Return whether two values are equivalent; ranges in any order."""
    if row == read:
        return True
    try:
        return specifiers(str(row)) == specifiers(str(read))
    except ValueError:
        return False


def _line(row: Row) -> str:
    """Return a row as TOML writes it."""
    return ", ".join(f"{name} = {_value(value)}" for name, value in row.items())


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    return f"{{ {_line(value)} }}" if isinstance(value, dict) else json.dumps(value, ensure_ascii=False)


PATIENCE = 60.0  # seconds for one question
MOST_OUTPUT = 16 << 20
QUIET = ("--disable-pip-version-check", "--no-input", "--no-color")
LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)


@record
class Metadata:
    """The metadata of one release's wheel: its file, the Pythons it supports and its requirements."""

    file: str
    requires_python: str | None
    requires: tuple[str, ...]


@record
class Index:
    """The index; all queries together end at ``deadline`` (on the door's clock); nothing is installed or kept."""

    deadline: float
    door: Door = field(default_factory=Door)

    def versions(self, name: str) -> tuple[Version, ...]:
        """Return the final releases of a distribution, oldest first; raises NothingSeenError if there is no answer."""
        said = LISTED.search(self._ask("index", "versions", name))
        found = []
        for text in (said[1] if said else "").split(","):
            with suppress(InvalidVersion):
                found.append(Version(text.strip()))
        return tuple(sorted(one for one in found if not one.is_prerelease))

    def metadata(self, name: str, version: str) -> Metadata:
        """Return the metadata of a release's wheel; raises NothingSeenError if none is available here."""
        dry = ("--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:", "--quiet", "--report", "-")
        said = self._ask("install", *dry, f"{name}=={version}")
        try:
            found = json.loads(said[said.index("{") :])["install"][0]
            metadata, address = found["metadata"], found["download_info"]["url"]
            return Metadata(
                file=str(address).rpartition("/")[2],
                requires_python=metadata.get("requires_python"),
                requires=tuple(metadata.get("requires_dist", ())),
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise NothingSeenError(f"pip's report on {name} {version} could not be read: {error}") from error

    def _ask(self, *words: str) -> str:
        """Return pip's output; raises NothingSeenError with its last line if it fails or takes too long."""
        until = min(self.deadline, self.door.now() + PATIENCE)
        if self.door.now() >= until:
            raise NothingSeenError("time ran out before the package index was asked")
        try:
            child = self.door.start((*isolation.argv("pip"), *words, *QUIET), _loud(os.environ))
        except OSError as error:
            raise NothingSeenError(f"pip cannot be started: {error}") from error
        try:
            out, err = self._hear(child, until)
        finally:
            if child.poll() is None:
                self.door.kill(child)
            for pipe in filter(None, (child.stdout, child.stderr)):
                pipe.close()
            self.door.release(child)
        if child.returncode:
            raise NothingSeenError(f"the package index could not be asked: {_last(err) or _last(out)}")
        return out

    def _hear(self, child: subprocess.Popen[bytes], until: float) -> tuple[str, str]:
        """Return both outputs of a child; raises NothingSeenError if they are too slow or too large."""
        begun = self.door.now()
        said: dict[IO[bytes], bytearray] = {pipe: bytearray() for pipe in (child.stdout, child.stderr) if pipe}
        with selectors.DefaultSelector() as selector:
            for pipe in said:
                selector.register(pipe, selectors.EVENT_READ, pipe)
            while selector.get_map() and self.door.now() < until:
                for key, _ in selector.select(until - self.door.now()):
                    part = key.data.read(1 << 16)
                    said[key.data] += part or b""
                    if part == b"":
                        selector.unregister(key.data)
                if sum(map(len, said.values())) > MOST_OUTPUT:
                    raise NothingSeenError(f"pip printed over {MOST_OUTPUT >> 20} MiB and was stopped")
            if selector.get_map() or ended(child, max(0.0, until - self.door.now())) is None:
                raise NothingSeenError(f"the package index did not answer within {until - begun:.0f} s")
        out, err = (held.decode("utf-8", "replace") for held in said.values())
        return out, err


def _loud(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the user's pip settings without those that change its verbosity."""
    return {name: value for name, value in environ.items() if name not in {"PIP_QUIET", "PIP_VERBOSE"}}


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "").removeprefix("ERROR: ")
