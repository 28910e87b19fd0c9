"""Files that several wheels have written, and whether the one that is there is the right one: what rules share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import copies, flag, items, table, text
from gpustack.diagnose.rules.seen import builds
from gpustack.model.command import DISTRIBUTION, PYTHON, requirement, sh
from gpustack.model.report import Because, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Build
    from gpustack.model.facts import Facts, Instance, JsonValue

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwritten:
    """Library files of one Python that the same wheels claim. ``wanted`` is the wheel that ``build`` requires."""

    owners: tuple[str, ...]
    fits: str | None
    paths: tuple[str, ...]
    there: bool
    copy: Instance
    build: Build | None
    wanted: str | None

    @property
    def mark(self) -> str:
        """Its name in findings: that of the framework that needs the files, else the Python."""
        return self.build.mark if self.build else f"packages:{self.copy.environment or self.copy.key}"

    @property
    def file(self) -> str:
        """The files in a few words."""
        first = self.paths[0].rpartition("/")[2]
        return first if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more"

    @property
    def whose(self) -> str:
        """Whose file is on the disk, in words."""
        if not self.there:
            return "it is gone"
        return f"it is the one of {self.fits}" if self.fits else "it fits neither"

    @property
    def severity(self) -> Severity:
        """Weigh it: the right file is only a trap for the next removal; a wrong one breaks what needs it."""
        if self.wanted is None:
            return Severity.WARNING
        if self.fits == self.wanted:
            return Severity.INFO
        return Severity.WARNING if (self.build and self.build.ran_on_gpu) or not self.told else Severity.ERROR

    @property
    def told(self) -> bool:
        """Whether the disk says whose the file is, or that it is gone."""
        return bool(self.fits) or not self.there

    @property
    def detail(self) -> str:
        """Who needs which, and where the files lie."""
        needs = f"{self.build.name} requires {self.wanted}. " if self.build and self.wanted else ""
        return f"{needs}{', '.join(self.paths[:MOST_NAMED])}{' …' if len(self.paths) > MOST_NAMED else ''}"

    @property
    def because(self) -> tuple[Because, ...]:
        """The grounds: each file, and what the wheels' records say of it."""
        value = f"{', '.join(self.owners)}: {self.whose}"
        return tuple(
            Because(component="packages", fact="overwritten", value=value, source=path)
            for path in self.paths[:MOST_NAMED]
        )

    @property
    def fix(self) -> Fix:
        """Remove all of them and install the one that is wanted: removing one alone deletes the file of the other."""
        python = PYTHON(self.copy.environment)
        kept = self.wanted or self.fits or self.owners[-1]
        name, _, version = kept.partition(" ")
        wanted = requirement(name, f"=={version}" if version else "")
        owners = tuple(DISTRIBUTION(owner.partition(" ")[0]) for owner in self.owners)
        return Fix(
            text=f"Remove all of them, then install {kept} alone.",
            commands=(
                sh("{python} -m pip uninstall -y {owners}", python=python, owners=owners),
                sh("{python} -m pip install --no-deps {wanted}", python=python, wanted=wanted),
            ),
            verify=sh("gpustack doctor"),
        )

    def named(self, begins: str) -> bool:
        """Tell whether one of the files bears this name."""
        return any(path.rpartition("/")[2].startswith(begins) for path in self.paths)


def overwritten(facts: Facts) -> Iterator[Overwritten]:
    """Give the files that several wheels claim, those of the same wheels together, for each framework in need."""
    for copy in copies(facts, "packages"):
        groups: dict[tuple[tuple[str, ...], str | None, bool], list[str]] = {}
        for one in items(copy.facts, "overwritten"):
            owners, path = _owners(one), text(one, "path")
            if path and len(owners) > 1:
                key = (owners, _named(text(one, "fits"), owners), flag(one, "there") is not False)
                groups.setdefault(key, []).append(path)
        for (owners, fits, there), paths in groups.items():
            for build, wanted in _needing(copy, owners, facts):
                yield Overwritten(
                    owners=owners, fits=fits, paths=tuple(paths), there=there, copy=copy, build=build, wanted=wanted
                )


def _needing(copy: Instance, owners: tuple[str, ...], facts: Facts) -> list[tuple[Build | None, str | None]]:
    """Give each framework of this Python that requires one of the wheels, or nobody where none does."""
    found: list[tuple[Build | None, str | None]] = []
    for build in builds(facts):
        required = {*table(build.copy.facts, "requires"), *table(build.copy.facts, "pins")}
        wanted = [owner for owner in owners if owner.partition(" ")[0] in required]
        if build.copy.environment == copy.environment and len(wanted) == 1:
            found.append((build, wanted[0]))
    return found or [(None, None)]


def _owners(one: JsonValue) -> tuple[str, ...]:
    said = [(text(owner, "name"), text(owner, "version")) for owner in items(one, "owners")]
    return tuple(dict.fromkeys(" ".join(filter(None, pair)) for pair in said if pair[0]))


def _named(name: str | None, owners: tuple[str, ...]) -> str | None:
    return next((owner for owner in owners if owner.partition(" ")[0] == name), None)
