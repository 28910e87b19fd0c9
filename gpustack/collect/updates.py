"""Rows that follow from the metadata of wheels, compared with the package index: which are new, and which differ."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from packaging.version import Version

from gpustack.collect.package_index import Index
from gpustack.collect.subprocesses import Door
from gpustack.errors import NothingSeenError, OutputError, UsageError
from gpustack.matrix.subjects.ranges import specifiers
from gpustack.model import writing
from gpustack.model.matrix_answer import MatrixUpdate, RowChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpustack.collect.package_index import Metadata
    from gpustack.matrix import Matrix

    Row = Mapping[str, object]
    Outcome = RowChange | NothingSeenError | str | None  # how a row differs, why that is not known, or None: it agrees

MOST_NEW = 3
SECONDS, REPORT_SECONDS = 300.0, 1.0
CUDA = re.compile(
    r"^(?:nvidia-cuda-(?:runtime|nvrtc)(?:-cu\d+)?|cuda-toolkit(?:\[[^\]]*\])?)\s*(?:==|~=|>=)(\d+)\.(\d+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a table: the distribution that it follows from, the key of its rows, and how they are read."""

    component: str
    distribution: str
    table: str
    part: str
    key: str
    read: Callable[[Metadata], Row]
    minor: bool = False


def _torch(metadata: Metadata) -> Row:
    cuda = next((match for one in metadata.requires if (match := CUDA.match(one))), None)
    tag = {"default": f"cu{cuda[1]}{cuda[2]}"} if cuda else {}
    return {**tag, "requires_python": metadata.requires_python}


def _onnxruntime(metadata: Metadata) -> Row:
    cuda = next((match for one in metadata.requires if (match := CUDA.match(one))), None)
    return {**({"cuda": int(cuda[1])} if cuda else {}), "requires_python": metadata.requires_python}


def _plain(metadata: Metadata) -> Row:
    return {"requires_python": metadata.requires_python}


PARTS = (
    Part(component="pytorch", distribution="torch", table="torch_wheels", part="patches", key="torch", read=_torch),
    Part(component="jax", distribution="jax", table="jax", part="releases", key="jax", read=_plain),
    Part(
        component="tensorflow",
        distribution="tensorflow",
        table="tensorflow",
        part="pins",
        key="tensorflow",
        read=_plain,
    ),
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
    """Return how the newest rows and newer releases stand on the index, within ``timeout`` seconds in all.

    Raises NothingSeenError where the index tells nothing.
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
    """Write the rows that differ, as they would stand in each table, to files in a folder."""
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
    """Yield for each release its name and what became of it."""
    rows: Mapping[str, Row] = {row[part.key]: row for row in matrix.table(part.table)[part.part]}
    try:
        asked = _asked(part, rows, index.versions(part.distribution))
    except NothingSeenError as error:
        yield part.distribution, error
        return
    if not asked:
        yield part.distribution, "the index shows this Python nothing as new as the newest row"
    for key, version in asked:
        yield f"{part.distribution} {version}", _release(part, index, key, rows.get(key), str(version))


def _release(part: Part, index: Index, key: str, row: Row | None, version: str) -> Outcome:
    try:
        return _change(part, key, row, index.metadata(part.distribution, version), version)
    except NothingSeenError as error:
        return error


def _asked(part: Part, rows: Iterable[str], versions: Sequence[Version]) -> list[tuple[str, Version]]:
    """Return the releases to read: that of the newest row, and the newest of those that have none yet."""
    newest = max(map(Version, rows))
    keys = {_key(part, one): one for one in versions}
    new = [(key, one) for key, one in keys.items() if Version(key) > newest][-MOST_NEW:]
    return [(key, one) for key, one in keys.items() if Version(key) == newest] + new


def _key(part: Part, version: Version) -> str:
    return f"{version.major}.{version.minor}" if part.minor else str(version)


def _change(part: Part, key: str, row: Row | None, metadata: Metadata, version: str) -> RowChange | None:
    read = {name: value for name, value in part.read(metadata).items() if value is not None}
    if row is not None and all(_alike(row[name], value) for name, value in read.items() if name in row):
        return None
    kept = {name: value for name, value in (row or {}).items() if name not in {part.key, "source", "checked"}}
    day = datetime.now(timezone.utc).date().isoformat()
    source = f"METADATA of the {part.distribution} {version} wheel"
    now = _line({part.key: key, **kept, **read, "source": source, "checked": day})
    return RowChange(table=part.table, part=part.part, key=key, now=now, was=_line(row) if row is not None else None)


def _alike(row: object, read: object) -> bool:
    """Tell whether two values say the same; ranges do so in any order."""
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
    if isinstance(value, dict):
        return f"{{ {_line(value)} }}"
    return json.dumps(value, ensure_ascii=False)
