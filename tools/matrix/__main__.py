"""Generate tables, ``python -m tools.matrix [TABLE...]``, or print what they cover, ``… coverage``.

``… code NAME==VERSION...`` lists the GPU code in wheels, fetching only the libraries. ``… compilers NAME==VERSION...``
compares the rows of host compilers with the headers in nvcc's wheels. ``… spot [NAME...]`` draws random claims from the
index and reports those that the matrix answers wrongly. ``… bundle FILE`` packs the tables for ``gpustack matrix update
--from FILE`` and prints the SHA-256 to publish with a release; ``… page FILE`` writes every table as one HTML page;
``… pci FILE`` generates the table of PCI devices from a file pci.ids, ``… headers NAME==VERSION...`` that of errors,
NVML's fields and ptxas' targets from wheels, fetching only their headers and ptxas.

A table is named after its distribution. Without a name, existing tables are regenerated; ``all`` generates every table
in ``distributions.toml``. The index is the one that pip is configured to use. ``--most`` limits how much METADATA is
read; the next run continues where this one ended. ``--kept`` uses the lists of files that an earlier run fetched; with
``--most 0`` nothing is requested from the index.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack.matrix import DATA_SCHEMA, MANIFEST, Matrix
from gpustack.matrix.subjects import toolkits
from gpustack.model.matrix_answer import Compatibility
from tools.matrix import coverage, fatbin, headers, index, page, pci, releases, spot

DATE = re.compile(r'^date = "([-\d]+)"', re.MULTILINE)
if TYPE_CHECKING:
    from pip._internal.models.link import Link

CHECKED = re.compile(r"^checked = .*$", re.MULTILINE)
GENERATED = Path(__file__).resolve().parents[2] / "compat-matrix" / "generated"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 1 if a source did not answer or the coverage is too low."""
    parser = argparse.ArgumentParser(prog="python -m tools.matrix", description=__doc__)
    parser.add_argument(
        "tables",
        metavar="TABLE",
        nargs="*",
        help="a distribution, all, coverage, code, compilers, spot, bundle, page, pci or headers",
    )
    parser.add_argument("--folder", type=Path, default=GENERATED, help="where the tables are")
    parser.add_argument("--distributions", type=Path, default=Path(__file__).with_name("distributions.toml"))
    parser.add_argument(
        "--date", default=datetime.now(timezone.utc).date().isoformat(), help="the day they are checked"
    )
    parser.add_argument("--cache", type=Path, help="where METADATA that was read is kept")
    parser.add_argument("--most", type=int, help="how many wheels may be asked for METADATA in this run")
    parser.add_argument("--kept", action="store_true", help="use the lists of files that an earlier run asked for")
    parser.add_argument("--again", action="store_true", help="read all METADATA, whatever the tables have of it")
    parser.add_argument("--seed", type=int, default=0, help="of the claims that spot draws")
    parser.add_argument("--count", type=int, default=30, help="how many questions spot draws of each distribution")
    parser.add_argument(
        "--record", type=Path, help="where spot keeps its claims, and coverage its counts, for the tests"
    )
    given = parser.parse_intermixed_args(arguments)
    of_file = FILES.get(given.tables[0]) if given.tables else None
    if of_file:
        if len(given.tables) != len(("bundle", "FILE")):
            parser.error(f"say which file: {given.tables[0]} FILE")
        return of_file(Path(given.tables[1]), given)
    known = releases.distributions(given.distributions)
    action, named = _parted(given.tables)
    strange = [one for one in named if one not in known and action not in LOOKS]
    if strange:
        parser.error(f"{strange[0]} is not in {given.distributions.name}")
    there = [one for one in known if (given.folder / f"{one}.toml").exists()]
    with index.opened(given.cache, given.most, kept=given.kept) as source:
        if action in LOOKS:
            return max([LOOKS[action](one, source, given) for one in named], default=2)
        if action == "coverage":
            kept = {name: one for name, one in known.items() if name in (named or known)}
            return coverage.main(kept, releases.elsewhere(given.distributions), source, given)
        if action == "spot":
            return _spot([known[one] for one in named or there], source, given)
        wanted = list(known) if action == "all" else named or there
        return max([_write(known[one], known, source, given) for one in wanted], default=0)


def _parted(said: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the command, or nothing if tables are named, and the names after it."""
    found = bool(said) and said[0] in {*LOOKS, "all", "coverage", "spot"}
    return (said[0], said[1:]) if found else ("", said)


def _write(
    one: releases.Distribution,
    known: Mapping[str, releases.Distribution],
    source: index.Index,
    given: argparse.Namespace,
) -> int:
    path = given.folder / f"{one.name}.toml"
    before = coverage.rows(path) if path.exists() and not given.again else ()
    try:
        text = releases.table(one, known, source, given.date, before)
    except index.NotReadError as error:
        print(f"{one.name}: {error}", file=sys.stderr)
        return 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    meta = given.folder.parent / "meta.toml"
    if meta.exists():  # the date of the newest row of all
        text = meta.read_text("utf-8")
        meta.write_text(DATE.sub(lambda found: f'date = "{max(found[1], given.date)}"', text), "utf-8")
    made = coverage.rows(path)
    print(f"{one.name}: {len(made)} releases, {len(coverage.unread(made))} whose METADATA was not read")
    return 0


def _spot(wanted: Sequence[releases.Distribution], source: index.Index, given: argparse.Namespace) -> int:
    """Print the index's claims that the matrix contradicts, and how many it knows; return 1 if it contradicts any."""
    matrix, said = Matrix(given.folder.parent), Counter[str]()
    claims = [claim for one in wanted for claim in spot.drawn(one, source, given.count, given.seed)]
    for claim in claims:
        verdict = spot.answered(claim, matrix)
        wrong = spot.wrong(claim, verdict)
        said["wrong" if wrong else "unknown" if verdict is Compatibility.UNKNOWN else "right"] += 1
        if wrong:
            print(f"{verdict.value}: {claim}")
    print(f"{len(claims)} claims: {', '.join(f'{count} {name}' for name, count in said.most_common())}")
    if given.record:
        spot.saved(claims, given.record)
    return int(bool(said["wrong"]))


def _bundle(file: Path, given: argparse.Namespace) -> int:
    """Pack the tables, always to the same bytes."""
    tables = {path.stem: coverage.table(path) for path in sorted(given.folder.glob("*.toml"))}
    members = {name: json.dumps(table).encode() for name, table in tables.items()}
    pins = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    manifest = json.dumps({"schema": DATA_SCHEMA, "date": given.date, "files": pins}).encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {
            MANIFEST: manifest,
            **{f"{one}.json": data for one, data in members.items()},
        }.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    print(f"{file}: {len(tables)} tables, sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}")
    return 0


def _page(file: Path, given: argparse.Namespace) -> int:
    """Write every table as one page."""
    file.write_text(page.page(given.folder.parent), "utf-8")
    return 0


def _pci(file: Path, given: argparse.Namespace) -> int:
    """Generate the table of PCI devices."""
    return _measured(lambda _: pci.table(file.read_text("utf-8"), given.date), str(file), given)


def _headers(asked: str, source: index.Index, given: argparse.Namespace) -> int:
    """Generate the parts of the table of headers that a wheel gives."""
    if (wheel := _wheel(asked, source)) is None:
        return 1
    with source.opened(wheel, index.MEDIUM) as archive:
        name = asked.replace("==", " ")
        return _measured(lambda before: headers.table(name, archive, given.date, before), asked, given)


def _measured(made: Callable[[Mapping[str, Any]], str], what: str, given: argparse.Namespace) -> int:
    """Generate a table, given what it was; its date changes only with its rows."""
    path = given.folder / "measured" / f"{given.tables[0]}.toml"
    try:
        text = made(coverage.table(path) if path.exists() else {})
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"{what}: {error}", file=sys.stderr)
        return 1
    if not path.exists() or CHECKED.sub("", path.read_text("utf-8")) != CHECKED.sub("", text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


FILES: Mapping[str, Callable[[Path, argparse.Namespace], int]] = {
    "bundle": _bundle,
    "page": _page,
    "pci": _pci,
}


def _wheel(asked: str, source: index.Index) -> Link | None:
    """Return the wheel of a release for Linux x86-64; None, with a message, if the index has none."""
    name, _, version = asked.partition("==")
    try:
        wheels = [one for one in source.files(name) if _is_linux_wheel(one.filename, version)]
    except index.NotReadError as error:
        print(error, file=sys.stderr)
        return None
    if not wheels:
        print(f"{asked}: the index has no wheel of it for Linux x86-64", file=sys.stderr)
    return wheels[-1] if wheels else None


def _is_linux_wheel(name: str, version: str) -> bool:
    """Return whether a file is the wheel of this release for Linux x86-64."""
    return (
        name.endswith(".whl")
        and str(index.version_of(name)) == version
        and bool(re.search(r"linux.*_x86_64|none-any", name))
    )


def _code(asked: str, source: index.Index, _: argparse.Namespace) -> int:
    """Print the GPU code in the wheel of a release for Linux x86-64: how often each target occurs in its libraries."""
    if (wheel := _wheel(asked, source)) is None:
        return 1
    with source.opened(wheel, index.LARGE) as archive:
        found = fatbin.listed(archive)
    print(f"{wheel.filename}: {', '.join(f'{target} {count}' for target, count in found.items()) or 'no GPU code'}")
    return 0


def _compilers(asked: str, source: index.Index, _: argparse.Namespace) -> int:
    """Print the host compilers that the header in an nvcc wheel accepts; return 1 if the row differs."""
    if (wheel := _wheel(asked, source)) is None:
        return 1
    with source.opened(wheel) as archive:
        found = headers.listed(archive)
    row = toolkits.compilers_of(Matrix(), asked.partition("==")[2])
    said = list(headers.differing(found, row)) if row else ["no row is about it"]
    bounds = ", ".join(f"{name} {value}" for name, value in found.items())
    print("; ".join((f"{wheel.filename}: {bounds}", *said)))
    return int(bool(said))


LOOKS: Mapping[str, Callable[[str, index.Index, argparse.Namespace], int]] = {
    "code": _code,
    "compilers": _compilers,
    "headers": _headers,
}


if __name__ == "__main__":
    sys.exit(main())
