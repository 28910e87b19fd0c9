"""The Pythons and processors that a release has wheels for, by the file names on the package index."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import generated, rows_of
from gpustack.matrix.subjects.ranges import ANY, VersionRange, numbers
from gpustack.model import field, row
from gpustack.model.reading import key, made
from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix

EVERY = "any"


@row
class WheelTags(Stated):
    """The wheels of some consecutive releases: ``pythons`` are 3.13, 3.13t (without the GIL), 3.8+ (abi3) or any."""

    package: str
    versions: VersionRange
    machines: tuple[str, ...]
    pythons: tuple[str, ...] = field(metadata=key("python"))
    requires_python: VersionRange = ANY

    def takes(self, python: str) -> bool:
        """Return whether one of the wheels fits a Python such as 3.13 or 3.13t."""
        return self.requires_python.holds(python.removesuffix("t")) and any(_fits(one, python) for one in self.pythons)

    @property
    def words(self) -> str:
        """The Pythons in words."""
        if self.pythons == (EVERY,):
            return self.requires_python.text or "3 or newer"
        return " ".join(re.sub(r"\+$", " or newer (with the GIL)", one) for one in self.pythons)

    def __str__(self) -> str:
        for_ = f" for Python {self.words}" if self.words else ""
        return (
            f"{self.package} {str(self.versions).removeprefix('==')} has wheels{for_} on {' and '.join(self.machines)}"
        )


tags = rows_of("wheel_tags", "tags", WheelTags)  # all wheels that were read, package by package, oldest first


def tags_of(matrix: Matrix, package: str, version: str) -> tuple[WheelTags, ...]:
    """Return the wheels of one release, by processor; none if no row states them."""
    release = version.partition("+")[0]
    known = generated.release_of(matrix, package, release)
    return tuple(_generated(known)) if known and known.wheels else _by_hand(matrix, package, release)


def inside(matrix: Matrix, package: str, version: str) -> WheelTags | None:
    """Return the row of a wheel for any platform that contains compiled code for only some processors."""
    return next((one for one in _by_hand(matrix, package, version) if one.pythons == (EVERY,)), None)


def _by_hand(matrix: Matrix, package: str, version: str) -> tuple[WheelTags, ...]:
    return tuple(one for one in tags(matrix) if one.package == package and one.versions.holds(version))


def _generated(known: generated.Release) -> Iterator[WheelTags]:
    for platform, pythons in known.wheels.items():
        system, _, machine = platform.partition("-")
        if system in {"linux", "windows", EVERY}:
            machines = [machine or system] if system != EVERY else ["x86_64", "aarch64", "windows"]
            held = {"package": known.name, "versions": f"=={known.version}", "machines": machines}
            more = {"python": [*pythons], "requires_python": known.python.text}
            yield made({**known.stated, **held, **more}, WheelTags)


def _fits(tag: str, python: str) -> bool:
    return not python.endswith("t") and numbers(python) >= numbers(tag) if tag.endswith("+") else tag in {EVERY, python}
