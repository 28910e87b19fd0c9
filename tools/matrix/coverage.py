"""How much of the index the generated tables cover: rows compared with releases, for each distribution."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.matrix.index import Listing, NotReadError, listing

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from argparse import Namespace

    from tools.matrix.index import Index
    from tools.matrix.releases import Distribution

LEAST = 0.99  # the share of the releases on the index


def main(known: Mapping[str, Distribution], elsewhere: Mapping[str, str], index: Index, given: Namespace) -> int:
    """Print a line for each distribution, each gap with its reason; return 1 if a table has less than it should."""
    lines, worst = [], 1.0
    for name, one in known.items():
        path = given.folder / f"{name}.toml"
        if not path.exists():
            print(f"{name:30} not read: {one.unread or 'no table was made of it'}")
            continue
        try:
            there = listing(index.files(name), one.since)
        except NotReadError as error:
            print(f"{name:30} {len(rows(path)):4} rows; {error}")
            worst = 0.0
            continue
        said, share = _line(one, rows(path), there)
        print(said)
        worst = min(worst, share)
        lines.append((name, given.date, len(there.releases), there.before, there.prereleases))
    for name, why in elsewhere.items():
        print(f"{name:30} not on the index: {why}")
    print(f"{len(lines)} of {len(known)} distributions have a table; the least covered has {worst:.1%}")
    if given.record:
        _record(lines, given.record)
    return int(worst < LEAST)


def _line(one: Distribution, found: Sequence[Mapping[str, object]], there: Listing) -> tuple[str, float]:
    """Return the line about a table, and its share of the releases that can be asked about."""
    versions = {row["version"] for row in found}
    missing = [str(version) for version in sorted(there.releases) if str(version) not in versions]
    share = 1 - len(missing) / len(there.releases) if there.releases else 1.0
    blank = len(unread(found))
    more = [
        f"before {one.since}: {there.before} releases, not asked" if there.before else "",
        f"pre-releases: {there.prereleases}, not asked" if there.prereleases else "",
        f"METADATA of {blank} not read: {one.metadata or 'without a reason'}" if blank else "",
        f"missing: {' '.join(missing)}" if missing else "",
    ]
    counted = (
        f"{one.name:30} {len(found):4} rows of {len(there.releases):4} releases, {share:6.1%}, up to {_newest(found)}"
    )
    return "; ".join((counted, *filter(None, more))), share


def _record(lines: Iterable[tuple[object, ...]], path: Path) -> None:
    """Write how many releases the index had, for the tests, which use no index; keep the numbers of other tables."""
    kept = path.read_text("utf-8").splitlines()[1:] if path.exists() else []
    named = {line.partition(",")[0]: line for line in kept}
    named |= {str(line[0]): ",".join(map(str, line)) for line in lines}
    path.write_text("\n".join(("distribution,date,releases,before,prereleases", *sorted(named.values()), "")), "utf-8")


def table(path: Path) -> Mapping[str, Any]:
    """Return a decoded table."""
    return tomllib.loads(path.read_text("utf-8"))


def rows(path: Path) -> Sequence[Mapping[str, object]]:
    """Return the releases in a table."""
    return tuple(table(path)["releases"])


def unread(found: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """Return the releases that have wheels but whose requirements were not read."""
    return [row for row in found if row["wheels"] and "requires" not in row]


def _newest(found: Sequence[Mapping[str, object]]) -> object:
    return found[-1]["version"] if found else "nothing"
