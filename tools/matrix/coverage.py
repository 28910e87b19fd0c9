"""How much of what is on the index the generated tables have: rows against releases, distribution by distribution."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.matrix.index import NotReadError
from tools.matrix.releases import Distribution, listed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from tools.matrix.index import Index

LEAST = 0.99  # of the releases that the index has


def main(known: Mapping[str, Distribution], elsewhere: Mapping[str, str], folder: Path, index: Index) -> int:
    """Print a line for each distribution, each gap with its reason; return 1 where a table has less than it should."""
    worst, read = 1.0, 0
    for name, one in known.items():
        path = folder / f"{name}.toml"
        if not path.exists():
            print(f"{name:30} not read: {one.unread or 'no table was made of it'}")
            continue
        found = rows(path)
        try:
            there = listed(one, index)
        except NotReadError as error:
            print(f"{name:30} {len(found):4} rows; {error}")
            worst = 0.0
            continue
        versions = {row["version"] for row in found}
        missing = [version for version in there if version not in versions]
        share = 1 - len(missing) / len(there) if there else 1.0
        worst, read = min(worst, share), read + 1
        blank = len(unread(found))
        why = f": {one.metadata}" if one.metadata else ""
        more = f"; METADATA of {blank} not read{why}" if blank else ""
        more += f"; missing: {' '.join(missing)}" if missing else ""
        print(f"{name:30} {len(found):4} rows of {len(there):4} releases, {share:6.1%}, up to {_newest(found)}{more}")
    for name, why in elsewhere.items():
        print(f"{name:30} not on the index: {why}")
    print(f"{read} of {len(known)} distributions have a table; the least covered has {worst:.1%}")
    return int(worst < LEAST)


def table(path: Path) -> Mapping[str, Any]:
    """Return a table as it is."""
    return tomllib.loads(path.read_text("utf-8"))


def rows(path: Path) -> Sequence[Mapping[str, object]]:
    """Return the releases that a table has."""
    return tuple(table(path)["releases"])


def unread(found: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """Return the releases of which there are wheels and nobody read what they require."""
    return [row for row in found if row["wheels"] and "requires" not in row]


def _newest(found: Sequence[Mapping[str, object]]) -> object:
    return found[-1]["version"] if found else "nothing"
