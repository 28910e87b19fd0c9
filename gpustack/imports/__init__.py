"""The inputs of ``--from``: files, folders or standard input, each recognised by its content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gpustack import snapshots
from gpustack.errors import InputError
from gpustack.imports import deadline
from gpustack.imports.deadline import LATE, OutOfTime, halfway, unread, within
from gpustack.model.facts import Facts, Host, Unseen
from gpustack.model.writing import MOST_BYTES

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

WHOLE = 1_000_000  # bytes of a text that is read unfiltered
STANDARD_INPUT, PIPED = "-", "standard input"
REPORTED = "the output of gpustack snapshot"
# "{1}[Hardware Error]" begins a line of the kernel's log and "{'loss': 0.4}" one of a training's; neither is JSON.
OF_A_LOG = re.compile(rb"\{(?:\d{1,9}\}\[|'(?:eval_|train_)?(?:loss|runtime)':)")
NOTHING = Facts(taken="", host=Host())
NO_SNAPSHOT: Mapping[str, Any] = {}
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def load(paths: Sequence[str], stdin: BinaryIO, matrix: Matrix, until: float | None = None) -> Facts:
    """Return the facts of the one machine that all inputs describe; raises InputError for an unreadable one.

    Anything not read by ``until``, on the ``time.monotonic`` clock, is among their ``not_seen``.
    """
    return whole(paths, stdin, matrix, until)[0]


def whole(
    paths: Sequence[str], stdin: BinaryIO, matrix: Matrix, until: float | None = None
) -> tuple[Facts, Mapping[str, Any]]:
    """Return these facts and the decoded snapshot among the files, including keys only a newer gpustack knows."""
    held, left = Sorted(), list(paths)
    with suppress(OutOfTime), within(halfway(until)):  # inputs that arrived in time must still be interpreted
        for origin, data in _given(left, stdin):
            held.add(origin, data)
    held.left_out += (unread(PIPED if path == STANDARD_INPUT else path) for path in left)
    return _together(held, matrix, until)


def load_texts(texts: Mapping[str, bytes], matrix: Matrix, *, ours: bool = False) -> Facts:
    """Return the facts of the one machine that these texts, given by name, describe.

    ``ours`` says that they are about its GPU stack, whatever their words are.
    """
    held = Sorted(ours=ours)
    for origin, data in texts.items():
        held.add(origin, data)
    return _together(held, matrix, None)[0]


@dataclass
class Sorted:
    """The inputs by type: snapshots, texts, and what was not read."""

    recorded: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[Unseen] = field(default_factory=list)
    ours: bool = False

    def add(self, origin: str, data: bytes | Unseen) -> None:
        """Sort in one file, or the reason why it was not read."""
        if isinstance(data, Unseen):
            self.left_out.append(data)
            return
        plain = _utf8(data)
        said = _decoded_snapshot(origin, plain)
        if said is not None:
            self.recorded.append((origin, said))
            return
        held, rest, less = _parted(origin, plain)
        self.recorded += [(origin, one) for one in held]
        self.left_out += [_own(origin)] * less
        if rest.strip() or not (held or less):
            text, less = _decoded(rest)
            self.told.append((origin, text))
            self.left_out += [_unread(origin)] * less


def _together(given: Sorted, matrix: Matrix, until: float | None) -> tuple[Facts, Mapping[str, Any]]:
    """Return the facts from at most one snapshot and all texts."""
    if len(given.recorded) > 1:
        names = " and ".join(dict.fromkeys(origin for origin, _ in given.recorded))
        raise InputError(f"{names}: snapshots of two machines, but a report is about one")
    if not (given.recorded or given.told or _too_late(given)):
        raise InputError(f"{given.left_out[0].what} is a gpustack report, which is not read again: give {REPORTED}")
    facts, snapshot = NOTHING, NO_SNAPSHOT
    if given.recorded:
        origin, snapshot = given.recorded[0]
        try:
            with within(until):
                facts = snapshots.take(snapshot, origin)
        except OutOfTime:
            given.left_out.append(unread(origin))
    if given.told:
        from gpustack.imports.texts import take  # noqa: PLC0415 - a snapshot need not pay for the readers' expressions

        told = sorted(given.told)  # the same whatever order they were named in
        read, unrecognised = take(told, matrix, until, ours=given.ours or bool(given.recorded))
        facts = _joined(facts, read) if given.recorded else read
        given.left_out[:0] = map(_unrecognised, unrecognised)
    return replace(facts, not_seen=(*facts.not_seen, *given.left_out)), snapshot


def _too_late(given: Sorted) -> bool:
    return any(one.why == LATE for one in given.left_out)


def _joined(snapshot: Facts, told: Facts) -> Facts:
    """Return a snapshot supplemented by texts about the same machine: measurements are kept, the rest is added.

    What could not be checked there is taken from the texts; disagreements become ``not_seen``.
    """
    from gpustack.imports import own_reports  # noqa: PLC0415 - few snapshots come with texts

    components, conflicts = own_reports.join(snapshot.components, told.components)
    return replace(
        snapshot,
        components=components,
        messages=(*snapshot.messages, *told.messages),
        words=tuple(sorted({*snapshot.words, *told.words})),
        not_seen=(*snapshot.not_seen, *told.not_seen, *conflicts),
    )


def _decoded_snapshot(origin: str, data: bytes) -> Mapping[str, Any] | None:
    """Return the decoded snapshot, or None for any other text."""
    plain = data.lstrip()
    if not plain.startswith(b"{") or OF_A_LOG.match(plain):
        return None
    text = data.decode("utf-8", "replace")
    try:
        said = snapshots.decode(text, origin)
    except InputError as error:
        from gpustack.imports import own_reports  # noqa: PLC0415 - most inputs do not need it

        more = getattr(error.__cause__, "msg", "") == "Extra data"  # other text follows somebody's JSON
        ours = any(one.match(text.lstrip()) for one in (own_reports.OURS, own_reports.BEGIN))
        pasted = origin.lower().endswith(PASTED) and b'"schema"' not in plain[:FEW]
        if more or ours or pasted or not JSON.match(plain):
            return None
        raise
    schema = said.get("schema")
    ours = isinstance(schema, str) and schema.startswith(snapshots.FAMILY)
    return said if ours else None


PASTED, FEW = (".txt", ".log"), 200  # somebody's cut JSON in a text is text, unless a snapshot of ours was cut
JSON = re.compile(rb"\{\s*(?:\"|$)")  # no label of a log's stream, no dictionary of Python
OURS = (
    b"gpustack",
    b"GPUSTACK",
    b"How we know",
    *(b" %b%b" % one for one in product((b"BROKEN", b"DEGRADED", b"UNKNOWN"), (b": ", b", "))),
)


def _parted(origin: str, data: bytes) -> tuple[tuple[Mapping[str, Any], ...], bytes, bool]:
    """Return the snapshots in a text, the rest of it, and whether a report of ours was dropped from the rest."""
    if not any(mark in data for mark in OURS):
        return (), _listed(data), False
    from gpustack.imports import own_reports  # noqa: PLC0415 - few inputs hold what we wrote

    recorded, text, less = own_reports.part(origin, data.decode("utf-8", "replace"))
    return recorded, _listed(text.encode("utf-8", "replace")), less


def _listed(data: bytes) -> bytes:
    """Return a text with the output of ``pip inspect`` turned into a plain list."""
    if b'"pip_version"' not in data:
        return data
    from gpustack.imports import own_reports  # noqa: PLC0415 - few inputs are of it

    return own_reports.told(data.decode("utf-8", "replace")).encode("utf-8", "replace")


def _own(origin: str) -> Unseen:
    why = "it is or contains a gpustack report, which is not read again"
    return Unseen(what=origin, why=why, enable_by=REPORTED)


def _unrecognised(origin: str) -> Unseen:
    return Unseen(what=origin, why="nothing in it was recognised", enable_by="a file made by gpustack snapshot")


def _unread(origin: str) -> Unseen:
    why = "it is large: besides its ends, only the lines about GPUs were read, not all repeated ones"
    return Unseen(what=origin, why=why, enable_by="a shorter file with the lines around the fault")


def _given(paths: list[str], stdin: BinaryIO) -> Iterator[tuple[str, bytes | Unseen]]:
    """Yield the name and content of every input; a folder stands for all its files, which are freed once read."""
    left = MOST_BYTES
    while paths:
        for origin, data in _contents(paths[0], stdin, left):
            left -= 0 if isinstance(data, Unseen) else len(data)
            if left < 0:
                raise InputError(f"{origin}: more than {MOST_BYTES // 1_000_000} MB is too much to read")
            yield origin, data
        del paths[0]


def _contents(path: str, stdin: BinaryIO, left: int) -> Iterator[tuple[str, bytes | Unseen]]:
    if not path:
        raise InputError("an empty name is not a file; give a file, a folder, or - for standard input")
    if path == STANDARD_INPUT:
        yield PIPED, _full(PIPED, _piped(stdin, left))
    elif _is_folder(Path(path)):
        yield from deadline.contents(Path(path), left)
    else:
        yield path, _full(path, _bytes(Path(path), left))


def _piped(stdin: BinaryIO, left: int) -> bytes:
    try:
        return stdin.read(left + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"standard input cannot be read: {why}") from error


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, access denied: reading it will report that
        return False


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


def _utf8(data: bytes) -> bytes:
    """Return the text in UTF-8, without a byte order mark."""
    mark = next((mark for mark in BYTE_ORDER_MARKS if data.startswith(mark)), b"")
    if mark and BYTE_ORDER_MARKS[mark] == "utf-16":
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    return data[len(mark) :]


def _decoded(data: bytes) -> tuple[str, bool]:
    """Return the text, and whether parts were dropped because of its size."""
    less = False
    if len(data) > WHOLE:
        from gpustack.imports.sifting import sift  # noqa: PLC0415 - only large inputs need it

        data, less = sift(data)
    return data.decode("utf-8", "replace"), less
