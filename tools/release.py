"""Prepare a release of this tree: ``python -m tools.release 0.2.0`` writes the version and dates the changes.

The version is in one place, ``gpustack/__init__.py``, which checkouts, archives and installations all read; the tag
must agree, or nothing is built (``hatch_build.py``). ``python -m tools.release notes`` prints the changes of the
current version, for the release page, and fails if there are none.
"""

# ruff: noqa: INP001 - a maintainers' program, whose folder is not a package
from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from packaging.version import InvalidVersion, Version

SOURCE, CHANGES = "gpustack/__init__.py", "CHANGELOG.md"
QUOTED = ("integrations/helm/gpustack/Chart.yaml", "integrations/conda/recipe.yaml")
SAID = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
UNRELEASED = "## [Unreleased]\n"
IMAGES = ("integrations/kubernetes/*.yaml", "integrations/README.md")


def version(root: Path) -> str:
    """Return the current version."""
    found = SAID.search((root / SOURCE).read_text("utf-8"))
    if not found:
        raise ValueError(f"{SOURCE} says no version")
    return found[1]


def release(root: Path, wanted: str, day: str) -> None:
    """Write the version wherever it occurs, and date the changes; raises ValueError if it cannot be released."""
    before = version(root)
    try:
        newer = Version(wanted) > Version(before) or f"## [{before}]" not in (root / CHANGES).read_text("utf-8")
    except InvalidVersion as error:
        raise ValueError(f"{wanted} is no version") from error
    if not newer or str(Version(wanted)) != wanted:
        raise ValueError(f"{wanted} is not newer than {before}, or not in its plain form")
    text = (root / CHANGES).read_text("utf-8")
    if not notes(text, "Unreleased"):
        raise ValueError(f"{CHANGES}: nothing is there below [Unreleased]")
    written: dict[str, Callable[[str], str]] = {
        SOURCE: lambda held: SAID.sub(f'__version__ = "{wanted}"', held),
        CHANGES: lambda held: held.replace(UNRELEASED, f"{UNRELEASED}\n## [{wanted}] - {day}\n", 1),
    }
    for path in (*root.glob(IMAGES[0]), *root.glob(IMAGES[1])):
        written[str(path.relative_to(root))] = lambda held: held.replace(f"gpustack:{before}", f"gpustack:{wanted}")
    for name in QUOTED:
        written[name] = lambda held: held.replace(f'ersion: "{before}"', f'ersion: "{wanted}"')
    for name, change in written.items():
        (root / name).write_text(change((root / name).read_text("utf-8")), "utf-8")


def notes(text: str, of: str) -> str:
    """Return the changes in one version."""
    found = re.search(rf"^## \[{re.escape(of)}\][^\n]*\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def main(root: Path, asked: str) -> None:
    """Run the command, and print what is left to do by hand."""
    if asked == "notes":
        told = notes((root / CHANGES).read_text("utf-8"), version(root))
        if not told:
            raise SystemExit(f"{CHANGES} says nothing of {version(root)}")
        print(told)
        return
    try:
        release(root, asked, datetime.now(timezone.utc).date().isoformat())
    except ValueError as error:
        raise SystemExit(str(error)) from error
    print(f"git commit -am 'Release {asked}' && git tag -s v{asked} -m v{asked} && git push origin HEAD v{asked}")


if __name__ == "__main__":
    main(Path(__file__).resolve().parents[1], sys.argv[1])
