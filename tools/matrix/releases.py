"""The table of a distribution's releases: which wheels each has, and what they require.

How to read the next: run it again; a release counts from the date ``since`` in ``distributions.toml`` on. Pre-releases
are left out unless nothing else can be resolved. A wheel's requirement is kept if it names something that the matrix
knows. METADATA does not change, so the rows of an older table are kept, and one in twenty is read again to verify
that.
"""

from __future__ import annotations

import email.parser
import hashlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from tools.matrix.index import NotReadError, day_of, listing, offered

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from packaging.tags import Tag
    from packaging.version import Version
    from pip._internal.models.link import Link

    from tools.matrix.index import Index

PLATFORMS = (
    (re.compile(r"(?:manylinux.*|linux)_x86_64"), "linux-x86_64"),
    (re.compile(r"(?:manylinux.*|linux)_aarch64"), "linux-aarch64"),
    (re.compile(r"win_amd64"), "windows"),
    (re.compile(r"macosx_.*_(?:arm64|universal2)"), "macos-arm64"),
    (re.compile(r"macosx_.*_x86_64"), "macos-x86_64"),
    (re.compile(r"any"), "any"),
)
READ = ("linux-x86_64", "any", "linux-aarch64", "windows", "macos-arm64")  # whose METADATA is read, the usual one first
MANYLINUX = {"manylinux2010": "2.12", "manylinux2014": "2.17"}  # some wheels tagged manylinux1 need a newer glibc
NUMBERED = re.compile(r"manylinux_(\d+)_(\d+)_")
FAMILIES = re.compile(
    r"(?:nvidia|cuda|cutensor|tensorrt|jax-cuda|rocm|intel|triton|pytorch-triton|flashinfer|cupy|mlx-(?:cpu|cuda|metal))\b.*"
)
ABOUT = """\
# Releases of {name} on the package index. Made by: python -m tools.matrix {name}. Do not edit.
# releases  python: Requires-Python; wheels: Pythons by platform (3.8+: one wheel for it and every later one, 3.14t:
#           without the GIL, any: all that python allows); glibc: what all wheels of a platform need; requires: what the
#           wheel for Linux x86-64 (or else the first platform) requires of what the matrix knows; on: what that of
#           another platform, or of another Python there, requires, where it differs. No requires: its METADATA was not
#           read (yet), or there is only a source archive.
"""
ALSO = frozenset({"numpy", "ml-dtypes", "llvmlite", "transformers", "protobuf", "setuptools", "dpcpp-cpp-rt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A distribution whose releases are read from a date on, and the component of the stack that it is."""

    name: str
    component: str
    since: str
    unread: str = ""
    metadata: str = ""
    apart: bool = False  # the wheels of a release require different things on different Pythons


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One wheel of a release: the file, and by platform its Pythons and oldest glibc."""

    file: Link
    pythons: Mapping[str, frozenset[str]]
    glibc: Mapping[str, str]


def distributions(path: Path) -> Mapping[str, Distribution]:
    """Return the distributions that the matrix knows, by name."""
    held = tomllib.loads(path.read_text("utf-8"))
    usual = {key: held[key] for key in ("since", "unread", "metadata") if key in held}
    return {one["name"]: Distribution(**{"component": one["name"], **usual, **one}) for one in held["distributions"]}


def elsewhere(path: Path) -> Mapping[str, str]:
    """Return, by name, why something that people look for on an index has no releases there."""
    return {one["name"]: one["why"] for one in tomllib.loads(path.read_text("utf-8")).get("elsewhere", ())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads what wheels require: from the index, or if a row is not due yet, from an older table (``before``)."""

    index: Index
    names: frozenset[str]
    before: Mapping[str, Mapping[str, object]]
    date: str
    apart: bool

    def required(self, version: str, wheels: Sequence[Wheel], platforms: Mapping[str, str]) -> Mapping[str, object]:
        """Return what the wheels of a release require; without requirements if they were not read."""
        row = self.before.get(version, {})
        kept = {key: row[key] for key in ("requires", "on") if key in row}
        if kept and row.get("wheels") == platforms and not self._due(version):
            return kept
        try:
            return _required(wheels, self.names, self.index, apart=self.apart)
        except NotReadError:
            return kept

    def _due(self, version: str) -> bool:
        """Return whether a row is read again: every day a different one in twenty."""
        return hashlib.sha256(f"{version} {self.date}".encode()).digest()[0] % 20 == 0


def table(
    one: Distribution, known: Iterable[str], index: Index, date: str, before: Iterable[Mapping[str, object]] = ()
) -> str:
    """Return the table of a distribution, newest METADATA read first; raises NotReadError if the index lacks it."""
    releases = listing(index.files(one.name), one.since).releases
    if not releases:
        raise NotReadError(f"the index has no release of {one.name} since {one.since}")
    rows = {str(row["version"]): row for row in before}
    reader = Reader(index=index, names=frozenset({*known, *ALSO}), before=rows, date=date, apart=one.apart)
    lines = [f"  {{ {_line(version, held, reader)} }},\n" for version, held in sorted(releases.items(), reverse=True)][
        ::-1
    ]
    head = {
        "schema": 1,
        "subjects": [one.component],
        "distribution": one.name,
        "since": one.since,
        "index_seen": str(max(releases)),
        "source": f"package index: files of {one.name}, METADATA of its wheels",
        "checked": date,
    }
    written = "".join(f"{key} = {_value(value)}\n" for key, value in head.items())
    return f"{ABOUT.format(name=one.name)}{written}\nreleases = [\n{''.join(lines)}]\n"


def _line(version: Version, files: Sequence[Link], reader: Reader) -> str:
    """Return the row of one release as TOML."""
    wheels = [_wheel(one) for one in sorted(files, key=lambda one: one.filename) if one.filename.endswith(".whl")]
    pythons = _union(one.pythons for one in wheels)
    row: dict[str, object] = {"version": str(version)}
    day = day_of(files)
    row |= {"date": day} if day else {}
    span = next((one.requires_python for one in files if one.requires_python), None)
    row |= {"python": _range(span)} if span else {}
    platforms = {name: " ".join(sorted(pythons[name], key=_order)) for _, name in PLATFORMS if name in pythons}
    row["wheels"] = platforms
    row |= {"glibc": glibc} if (glibc := _glibc(wheels)) else {}
    row |= reader.required(str(version), wheels, platforms)
    if not offered(files):
        row["yanked"] = next((one.yanked_reason for one in files if one.yanked_reason), "") or "without a reason"
    return ", ".join(f"{_key(key)} = {_value(value)}" for key, value in row.items())


def _wheel(file: Link) -> Wheel:
    pythons: dict[str, set[str]] = defaultdict(set)
    glibc: dict[str, str] = {}
    for tag in parse_wheel_filename(file.filename)[3]:
        name = next((name for pattern, name in PLATFORMS if pattern.fullmatch(tag.platform)), None)
        if name and (python := _python(tag)):
            pythons[name].add(python)
            oldest = _oldest(tag.platform)
            if oldest:
                glibc[name] = min(glibc.get(name, oldest), oldest, key=_order)
    return Wheel(file=file, pythons={name: frozenset(held) for name, held in pythons.items()}, glibc=glibc)


def _python(tag: Tag) -> str | None:
    """Return the Python that a tag is for: 3.12, 3.13t, 3.8+ or any; None for anything but CPython 2.7 or 3."""
    match = re.fullmatch(r"cp(\d)(\d+)", tag.interpreter)
    if match is None:
        return "any" if re.fullmatch(r"py3\d*", tag.interpreter) else None
    version = f"{match[1]}.{match[2]}"
    if tag.abi == "abi3":
        return f"{version}+"
    return f"{version}t" if re.fullmatch(r"cp\d+t|abi3t", tag.abi) else version


def _oldest(platform: str) -> str | None:
    numbered = NUMBERED.match(platform)
    return f"{numbered[1]}.{numbered[2]}" if numbered else MANYLINUX.get(platform.partition("_")[0])


def _union(many: Iterable[Mapping[str, frozenset[str]]]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for held in many:
        for name, pythons in held.items():
            found[name] = found.get(name, frozenset()) | pythons
    return found


def _glibc(wheels: Sequence[Wheel]) -> dict[str, str]:
    """Return the glibc of each platform whose wheels all need the same."""
    found: dict[str, set[str | None]] = defaultdict(set)
    for one in wheels:
        for name in one.pythons:
            found[name].add(one.glibc.get(name))
    return {name: glibc for name, held in sorted(found.items()) if len(held) == 1 and (glibc := next(iter(held)))}


def _required(wheels: Sequence[Wheel], names: frozenset[str], index: Index, *, apart: bool) -> dict[str, object]:
    """Return what the wheels require: for each platform, the wheel for the newest Python; macOS only if alone.

    If it differs between Pythons (``apart``), ``on`` also has what the wheel for each other one requires.
    """
    found: dict[str, tuple[str, ...]] = {}
    others: dict[str, tuple[str, ...]] = {}
    for platform in READ:
        there = [one for one in wheels if platform in one.pythons]
        if there and not (platform == "linux-aarch64" and "any" in found) and not (platform == "macos-arm64" and found):
            there.sort(key=lambda one: (max(map(_order, one.pythons[platform])), one.file.filename), reverse=True)
            read = [tuple(_known(index.metadata(one.file), names)) for one in (there if apart else there[:1])]
            found[platform] = read[0]
            for one, held in zip(there, read, strict=False):
                others |= {f"{platform} {python}": held for python in one.pythons[platform] if held != read[0]}
    if not found:
        return {}
    usual = next(iter(found))
    on = {name: held for name, held in found.items() if held != found[usual]} | dict(sorted(others.items()))
    return {"requires": found[usual], **({"on": on} if on else {})}


def _known(metadata: str, names: frozenset[str]) -> Iterator[str]:
    """Yield the requirements on packages that the matrix knows, in PEP 508 form, sorted as text."""
    said = email.parser.HeaderParser().parsestr(metadata).get_all("Requires-Dist") or []
    kept = set()
    for one in said:
        try:
            requirement = Requirement(one)
        except InvalidRequirement:
            continue
        name = canonicalize_name(requirement.name)
        if name in names or FAMILIES.fullmatch(name):
            requirement.name = name
            kept.add(str(requirement))
    yield from sorted(kept)


def _range(text: str) -> str:
    return ",".join(sorted(part.strip() for part in text.split(",")))


def _order(text: str) -> tuple[int, ...]:
    """Return a sort key for a Python or glibc: 3.9 before 3.13 before 3.13t."""
    numbers = [int(part) for part in re.findall(r"\d+", text)]
    return (*numbers, 1 if text.endswith("t") else 0)


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else json.dumps(text)


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(held)}' for key, held in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)
