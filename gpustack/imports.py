"""What ``--from`` is given: files, folders or standard input, each recognised by what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from gpustack import snapshots
from gpustack.errors import InputError
from gpustack.model.facts import Facts, Host, Unseen

MOST_BYTES = 50_000_000
STANDARD_INPUT = "-"
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def load(paths: Sequence[str], stdin: BinaryIO) -> Facts:
    """Give the facts of the one machine that all these speak of; raises InputError for what cannot be read."""
    recorded: dict[str, Facts] = {}
    other: list[str] = []
    for origin, text in _texts(paths, stdin):
        facts = _recognise(origin, text)
        if facts is None:
            other.append(origin)
        else:
            recorded[origin] = facts
    if len(recorded) > 1:
        raise InputError(f"{' and '.join(recorded)} are snapshots of two machines; one report speaks of one")
    facts = next(iter(recorded.values()), Facts(taken="", host=Host()))
    return replace(facts, not_seen=(*facts.not_seen, *map(_unrecognised, other)))


def _recognise(origin: str, text: str) -> Facts | None:
    """Give the facts of a snapshot, or None for any other text."""
    if not text.lstrip().startswith("{"):
        return None
    said = snapshots.decode(text, origin)
    schema = said.get("schema")
    ours = isinstance(schema, str) and schema.startswith(snapshots.FAMILY)
    return snapshots.take(said, origin) if ours else None


def _unrecognised(origin: str) -> Unseen:
    return Unseen(what=origin, why="nothing in it was recognised", enable_by="a file made by gpustack snapshot")


def _texts(paths: Sequence[str], stdin: BinaryIO) -> Iterator[tuple[str, str]]:
    """Give name and text of everything that was named, a folder being all the files in it."""
    left = MOST_BYTES
    for path in paths:
        for origin, data in _contents(path, stdin, left):
            left -= len(data)
            if left < 0:
                raise InputError(f"{origin}: more than {MOST_BYTES // 1_000_000} MB is too much to read")
            yield origin, _decoded(data)


def _contents(path: str, stdin: BinaryIO, left: int) -> Iterator[tuple[str, bytes]]:
    if path == STANDARD_INPUT:
        yield "standard input", _full("standard input", stdin.read(left + 1))
    elif _is_folder(Path(path)):
        yield from _inside(Path(path), left)
    else:
        yield path, _full(path, _bytes(Path(path), left))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, a way denied: reading it will say so
        return False


def _inside(folder: Path, left: int) -> Iterator[tuple[str, bytes]]:
    """Give the files of a folder that can be read and hold something."""
    found = False
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from error
    for path in files:
        try:
            data = _bytes(path, left)
        except InputError:
            continue
        if data.strip():
            found = True
            yield str(path), data
    if not found:
        raise InputError(f"{folder} holds no file that can be read")


def _bytes(path: Path, left: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(left + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read: {why}") from error


def _full(origin: str, data: bytes) -> bytes:
    if not data.strip():
        raise InputError(f"{origin} is empty")
    return data


def _decoded(data: bytes) -> str:
    marks = (name for mark, name in BYTE_ORDER_MARKS.items() if data.startswith(mark))
    return data.decode(next(marks, "utf-8"), "replace")
