"""Our types as JSON, and files: read up to a limit, since they may be endless, and written atomically.

Readers of a file that gpustack writes find the old one or the new one, never half of one. It is created beside its
target (``.gpustack-…``), flushed to disk and moved there; it keeps the mode and, if permitted, the owner of the one it
replaces. A symbolic link stays, and its target is replaced. Anything but a regular file is written to directly: a
pipe, a terminal, ``/dev/null``, and a descriptor that we were started with (``/dev/stdout``, ``/dev/fd/3``), whose
file others may be writing to as well.

If no new file can be created in the folder (it belongs to somebody else, or the file is a mount of its own, as in
containers), the file is overwritten once the space for all of it is reserved: a full disk leaves it unchanged.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

from gpustack.errors import InputError, OutputError

SCHEMAS = {
    "Report": "gpustack.report/1",
    "StackMap": "gpustack.stack/1",
    "Facts": "gpustack.snapshot/1",
    "BenchReport": "gpustack.bench/1",
    "CheckReport": "gpustack.check/1",
    "Difference": "gpustack.diff/1",
    "Explanation": "gpustack.explain/1",
    "MatrixAnswer": "gpustack.matrix/1",
    "MatrixTables": "gpustack.matrix-show/1",
    "MatrixUpdate": "gpustack.matrix-update/1",
    "SelfTest": "gpustack.selftest/1",
    "Trace": "gpustack.trace/1",
    "FleetReport": "gpustack.fleet/1",
    "FleetDifference": "gpustack.fleet-diff/1",
    "Decoded": "gpustack.fleet-pairs/1",
    "Matchings": "gpustack.fleet-plan/1",
    "History": "gpustack.fleet-since/1",
}
MOST_BYTES = 130_000_000  # of text; logs can be this long
MOST_JSON, MOST_VALUES = 32_000_000, 2_000_000  # letters and values of JSON; one value costs up to 100 bytes of memory


def plain(value: object) -> object:
    """Return our types as dictionaries, lists and plain values.

    A field's trailing underscore is dropped, properties become keys, and the top-level types name their schema. What
    JSON cannot represent is replaced: NaN and infinity by null, half a surrogate pair by a question mark.
    """
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(held) for name, held in _keys(value).items()}
    if isinstance(value, Mapping):
        return {_text(str(name)): plain(held) for name, held in value.items()}
    if isinstance(value, tuple | list):
        return [plain(held) for held in value]
    if isinstance(value, str):
        return _text(value)
    return value if not isinstance(value, float) or value - value == 0 else None


def render(value: object) -> str:
    """Return the JSON text of a report or snapshot, ending with a newline.

    It is ASCII, so every output can take it and nothing in it can control a terminal.
    """
    return json.dumps(plain(value), indent=1, allow_nan=False).replace("\x7f", "\\u007f") + "\n"


def _keys(value: object) -> dict[str, object]:
    """Return the keys and values of one of our types, in the order of its fields, preceded by its schema and kind."""
    kind = type(value)
    schema = {"schema": SCHEMAS[kind.__name__]} if kind.__name__ in SCHEMAS else {}
    told = {name: getattr(value, name) for name, held in vars(kind).items() if isinstance(held, property)}
    named = {held.name.rstrip("_"): getattr(value, held.name) for held in fields(value)}  # type: ignore[arg-type] # plain asked
    return {**schema, **told, **named}


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def json_text(path: Path) -> str:
    """Return the text of a JSON file; raises InputError if it cannot be read or exceeds the decoding limits."""
    held = text(path, MOST_JSON)
    measure(held, str(path))
    return held


def measure(json: str, origin: str) -> None:
    """Raise InputError, naming the origin, for JSON that is too large to decode, without decoding it."""
    if len(json) > MOST_JSON:
        raise InputError(f"{origin}: more than {MOST_JSON // 1_000_000} MB of JSON is too much to read")
    if len(json) > MOST_VALUES and sum(map(json.count, ",[{")) > MOST_VALUES:
        raise InputError(f"{origin}: more than {MOST_VALUES // 1_000_000} million values of JSON are too much to read")


def text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a file; raises InputError if it cannot be read, is too long or is not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > most:
        raise InputError(f"{path}: more than {most // 1_000_000} MB is too much to read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} cannot be read: it is not UTF-8") from error


DESCRIPTORS = "/proc/self/fd"
MOST_LINKS = 40  # as many as Linux follows
NO_NEW_FILE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})  # what a folder says that takes none


def write(path: Path, content: str | bytes) -> None:
    """Write a file, completely or not at all; raises OutputError if that fails.

    A pipe whose reader has gone away is not an error.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        ours = _descriptor(path)
        if ours is not None:
            _all(ours, data)
        elif path.exists() or path.is_symlink():
            _over(path, data)
        else:
            _replace(path, data, None)
    except BrokenPipeError:
        return
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error


def append(path: Path, data: bytes) -> None:
    """Append to a file, all or nothing; raises OutputError if that fails."""
    try:
        with path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                _all(file.fileno(), data)
            except BaseException:
                file.truncate(size)
                raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error


def _over(path: Path, data: bytes) -> None:
    """Overwrite an existing file; the kernel decides whether its links may be followed, above all in /tmp."""
    dangling = os.O_CREAT * (not path.exists())
    held = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY | dangling, 0o666)
    try:
        _over_open(path, held, data)
    except BaseException:
        if dangling:
            path.resolve().unlink(missing_ok=True)
        raise
    finally:
        os.close(held)


def _over_open(path: Path, held: int, data: bytes) -> None:
    """Replace the open file that the path leads to, or write to it if it is not a regular file."""
    state, target = os.fstat(held), path.resolve()
    if not stat.S_ISREG(state.st_mode):
        _all(held, data)
        return
    if not os.path.samestat(state, target.stat()):
        raise OSError(errno.ESTALE, "somebody moved it away at that moment")
    try:
        _replace(target, data, state)
    except OSError as error:
        if error.errno not in NO_NEW_FILE:
            raise
        try:
            os.posix_fallocate(held, 0, len(data) or 1)
        except OSError:
            os.ftruncate(held, state.st_size)
            raise
        try:
            _all(held, data)
        finally:
            os.ftruncate(held, len(data))
        os.fsync(held)


def _replace(target: Path, data: bytes, old: os.stat_result | None) -> None:
    """Write a file beside the target, with the old file's mode and owner, and move it there."""
    made = target.with_name(f".gpustack-{os.urandom(8).hex()}")
    try:
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if old else 0o666)
        try:
            _all(handle, data)
            if old:
                with suppress(OSError):
                    os.fchown(handle, old.st_uid, old.st_gid)
                os.fchmod(handle, old.st_mode & 0o777)
            os.fsync(handle)
        finally:
            os.close(handle)
        made.replace(target)
    except BaseException:  # Ctrl-C too
        made.unlink(missing_ok=True)
        raise


def _all(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a path such as /dev/stdout names, or None."""
    ours = Path(DESCRIPTORS).resolve()
    named = (one.name for one in _links(path) if one.name.isdecimal() and one.parent.resolve() == ours)
    return next(map(int, named), None)


def _links(path: Path) -> Iterator[Path]:
    """Yield a path and, link by link, what it points to."""
    for _ in range(MOST_LINKS):
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()
