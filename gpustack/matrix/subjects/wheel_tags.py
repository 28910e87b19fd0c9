"""For which Pythons and processors there are wheels of a release, by the file names of the package index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.ranges import VersionRange
from gpustack.matrix.subjects.spans import numbers
from gpustack.matrix.tables import row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row

ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTags:
    """The wheels of some releases in a row: ``pythons`` are 3.13, 3.13t (without the GIL), 3.8+ (abi3) or any."""

    package: str
    versions: VersionRange
    machines: tuple[str, ...]
    pythons: tuple[str, ...]
    row: Row
    requires_python: VersionRange

    def takes(self, python: str) -> bool:
        """Tell whether one of the wheels fits a Python such as 3.13 or 3.13t."""
        return self.requires_python.holds(python.removesuffix("t")) and any(_fits(one, python) for one in self.pythons)

    @property
    def words(self) -> str:
        """The Pythons for people."""
        return str(self.requires_python) if self.pythons == (ANY,) else " ".join(self.pythons)


def tags(matrix: Matrix) -> tuple[WheelTags, ...]:
    """Return all wheels that were read, package by package, oldest first."""
    return matrix.rows("wheel_tags", "tags", _tags)


def tags_of(matrix: Matrix, package: str, version: str) -> tuple[WheelTags, ...]:
    """Return the wheels of one release, by processor; none where no row states them."""
    release = version.partition("+")[0]
    return tuple(one for one in tags(matrix) if one.package == package and one.versions.holds(release))


def _fits(tag: str, python: str) -> bool:
    if tag.endswith("+"):
        return not python.endswith("t") and numbers(python) >= numbers(tag)
    return tag in {ANY, python}


def _tags(line: Line) -> WheelTags:
    pythons = line["requires_python"] if line["python"] == [ANY] else " ".join(line["python"])
    for_ = f" for Python {pythons}" if pythons else ""
    text = f"{line['package']} {line['versions']} has wheels{for_} on {' and '.join(line['machines'])}"
    return WheelTags(
        package=line["package"],
        versions=VersionRange.parse(line["versions"]),
        machines=tuple(line["machines"]),
        pythons=tuple(line["python"]),
        row=row("wheel_tags", text, line),
        requires_python=VersionRange.parse(line.get("requires_python", "")),
    )
