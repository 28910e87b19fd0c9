"""Data released apart from the program: a bundle of generated tables, validated before use; the previous one is kept.

A bundle is a zip archive of ``<distribution>.json`` and ``bundle.json``, which states its schema, its day and the
SHA-256 of each table. It contains only releases, and every value has a type that is validated here: a version, a
Python, a requirement, a day, a line of text. Nothing in it is a command, an address or an expression.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from gpustack import assets
from gpustack.errors import InputError, OutputError, UsageError
from gpustack.matrix import DATA_SCHEMA, MANIFEST, Matrix
from gpustack.matrix.subjects.ranges import is_specifier
from gpustack.model import writing

MOST_TABLES, MOST_ROWS, MOST_REQUIRED, MOST_NESTED = 1000, 20_000, 500, 20
MOST_FILE, MOST_DATA, MOST_BYTES = 1 << 26, 1 << 27, 1 << 24  # of a bundle, of all its tables, and of one
FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,
    NotImplementedError,
)
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+){0,20}", re.ASCII)
PYTHONS = re.compile(r"(?:(?:\d\.\d{1,2}[t+]?|any)(?: |$)){0,40}", re.ASCII)
GLIBC = re.compile(r"\d\.\d{1,2}", re.ASCII)
PLATFORMS = frozenset({"linux-x86_64", "linux-aarch64", "windows", "macos-arm64", "macos-x86_64", "any"})


def read(file: Path) -> bytes:
    """Return a file's bytes; raises InputError if it cannot be read or is larger than a bundle may be."""
    try:
        with file.open("rb") as held:
            data = held.read(MOST_FILE + 1)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    if len(data) > MOST_FILE:
        raise InputError(f"{file} is too large for a data bundle")
    return data


def install(file: str, data: bytes, pinned: str | None, matrix: Matrix) -> tuple[str, int]:
    """Use the tables of a bundle from now on; return their day and how many there are. ``file`` is its origin.

    Raises InputError, leaving the current data in use, if it is not a bundle, has another schema, is not newer than the
    current data, or does not have the SHA-256 ``pinned``.
    """
    digest = hashlib.sha256(data).hexdigest()
    if pinned is not None and pinned.lower().removeprefix("sha256:") != digest:
        raise InputError(f"{file} is not the file that was pinned: its SHA-256 is {digest}")
    day, tables = _opened(file, data)
    if day <= matrix.date:
        raise InputError(f"{file} is from {day}, not newer than the data in use, from {matrix.date}")
    try:
        _put(day, tables)
    except OSError as error:
        raise OutputError(f"{assets.data()} cannot be written: {error.strerror}") from error
    return day, len(tables)


def back() -> None:
    """Return to the data used before the last bundle; raises UsageError if there is no bundle."""
    folder = assets.data()
    current, previous = folder / "current", folder / "previous"
    if not current.is_dir():
        raise UsageError("no data bundle is installed, so there is nothing to go back from")
    try:
        shutil.rmtree(current)
        if previous.is_dir():
            previous.rename(current)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}") from error


def _opened(file: str, data: bytes) -> tuple[str, Mapping[str, bytes]]:
    """Return the day and the validated tables of a bundle."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            manifest = json.loads(_member(archive, MANIFEST, MOST_BYTES))
            if not isinstance(manifest, dict) or manifest.get("schema") != DATA_SCHEMA:
                raise InputError(f"{file} is not data for this gpustack, which reads {DATA_SCHEMA}")
            day, pins = manifest["date"], manifest["files"]
            if not _is_day(day) or not isinstance(pins, dict) or not 0 < len(pins) <= MOST_TABLES:
                raise InputError(f"{file} is damaged: {MANIFEST} has no day, or not the right number of tables")
            tables = _tables(archive, [name for name in pins if NAME.fullmatch(name)])
    except FAULTS as error:
        raise InputError(f"{file} is not a data bundle: {_said(error)}") from error
    for name, pin in pins.items():
        if name not in tables or hashlib.sha256(tables[name]).hexdigest() != pin:
            raise InputError(f"{file} is damaged: {name[:60]!r} is not what {MANIFEST} says")
        try:
            _checked(name, json.loads(tables[name]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{file} is refused: {name}: {_said(error)}") from error
    return day, tables


def _tables(archive: zipfile.ZipFile, names: Iterable[str]) -> Mapping[str, bytes]:
    """Return the tables of an archive, whose total size is limited."""
    tables: dict[str, bytes] = {}
    left = MOST_DATA
    for name in names:
        tables[name] = _member(archive, f"{name}.json", min(left, MOST_BYTES))
        left -= len(tables[name])
    return tables


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as member:
        data = member.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{name} is too long")
    return data


def _said(error: Exception) -> str:
    """Return an error's text as a printable line: it may quote the file."""
    return "".join(one for one in str(error)[:200] if one.isprintable())


def _checked(name: str, table: Mapping[str, Any]) -> None:
    """Raise ValueError if a table contains anything but valid releases."""
    for key, value in table.items():
        if key != "releases":
            _need(HEAD.get(key, _never)(value), key)
    _need(table["distribution"] == name and 0 < len(table["releases"]) <= MOST_ROWS, "distribution")
    for row in table["releases"]:
        _need({"version", "wheels"} <= set(row), "version")
        for key, value in row.items():
            _need(ROW.get(key, _never)(value), f"{row['version']!s:.40}: {key}")


def _need(fits: bool, what: str) -> None:  # noqa: FBT001 - a condition, not a switch
    if not fits:
        raise ValueError(f"{what} is not what it must be")


def _never(value: object) -> bool:
    del value
    return False


def _is_line(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 1000 and value.isprintable()  # noqa: PLR2004 - a long line


def _is_day(value: object) -> bool:
    if not isinstance(value, str) or len(value) != len("2026-11-23"):
        return False
    with suppress(ValueError):
        return bool(date.fromisoformat(value))
    return False


def _is_version(value: object) -> bool:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - no question needs it

    with suppress(InvalidVersion):
        return isinstance(value, str) and len(value) <= 60 and str(Version(value)) == value  # noqa: PLR2004
    return False


def _is_requirement(value: object) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - no question needs it

    if not _is_line(value) or str(value).count("(") > MOST_NESTED:
        return False
    with suppress(InvalidRequirement):
        return Requirement(str(value)).url is None
    return False


def _are_requirements(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MOST_REQUIRED and all(map(_is_requirement, value))


def _is_place(key: str) -> bool:
    """Return whether a key is a platform, or a platform and one of its Pythons."""
    platform, _, python = key.partition(" ")
    return platform in PLATFORMS and (platform == key or bool(re.fullmatch(r"\d\.\d{1,2}[t+]?", python)))


def _by_platform(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        return isinstance(value, dict) and all(map(_is_place, value)) and all(map(fits, value.values()))

    return check


def _like(expression: re.Pattern[str]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        return isinstance(value, str) and len(value) <= 400 and bool(expression.fullmatch(value))  # noqa: PLR2004

    return check


HEAD: Mapping[str, Callable[[object], bool]] = {
    "schema": lambda value: value == 1,
    "subjects": lambda value: isinstance(value, list) and all(map(_like(NAME), value)),
    "distribution": _like(NAME),
    "since": _is_day,
    "index_seen": _is_version,
    "source": _is_line,
    "checked": _is_day,
}
ROW: Mapping[str, Callable[[object], bool]] = {
    "version": _is_version,
    "date": _is_day,
    "python": lambda value: _is_line(value) and is_specifier(str(value)),
    "wheels": _by_platform(_like(PYTHONS)),
    "glibc": _by_platform(_like(GLIBC)),
    "requires": _are_requirements,
    "on": _by_platform(_are_requirements),
    "yanked": _is_line,
}


def _put(day: str, tables: Mapping[str, bytes]) -> None:
    """Write the tables beside the current ones, then swap the folders."""
    folder = assets.data()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as made:
        place = Path(made, "new")
        (place / "generated").mkdir(parents=True)
        for name, data in tables.items():
            writing.write(place / "generated" / f"{name}.json", data)
        writing.write(place / MANIFEST, json.dumps({"schema": DATA_SCHEMA, "date": day}))
        if (folder / "current").is_dir():
            shutil.rmtree(folder / "previous", ignore_errors=True)
            (folder / "current").rename(folder / "previous")
        place.rename(folder / "current")
