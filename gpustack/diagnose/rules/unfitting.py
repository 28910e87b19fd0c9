"""Compiled extensions beside PyTorch as they lie on the disk: those that call what this PyTorch does not offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.extensions import of_file, of_name
from gpustack.diagnose.rules.reading import because_of, copies, text, texts
from gpustack.diagnose.rules.seen import builds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.extensions import Extension
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Because

COMPONENT = "torch-extensions"
MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfitting:
    """One package in one Python whose files miss something of torch; ``whole`` where that is so of all its files."""

    extension: Extension
    environment: str | None
    torch: str | None
    files: tuple[Instance, ...]
    whole: bool

    @property
    def mark(self) -> str:
        """Its name in findings."""
        return f"{self.extension.name}:{self.environment}" if self.environment else self.extension.name

    @property
    def symbol(self) -> str | None:
        """The first name that torch does not offer."""
        return next((name for one in self.files for name in texts(one.facts, "missing")), None)

    @property
    def library(self) -> str | None:
        """The first library of torch that is not here."""
        return next((name for one in self.files for name in texts(one.facts, "absent")), None)

    def because(self, facts: Facts) -> Iterator[Because]:
        """Give the names and libraries that the first files miss, and the torch that was asked."""
        for one in self.files[:MOST]:
            yield because_of(facts, COMPONENT, one, "missing" if texts(one.facts, "missing") else "absent")
        for build in builds(facts):
            if build.component == "pytorch" and build.copy.environment == self.environment:
                yield because_of(facts, "pytorch", build.copy, "version")


def unfitting(facts: Facts, matrix: Matrix) -> tuple[Unfitting, ...]:
    """Give each package that does not fit its torch; that a build for CPUs lacks the GPU's part is no misfit."""
    files: dict[tuple[str | None, str], list[Instance]] = {}
    for copy in copies(facts, COMPONENT):
        name = text(copy.facts, "distribution") or of_file(copy.path or "", facts, matrix).name
        files.setdefault((copy.environment, name), []).append(copy)
    kinds = {build.copy.environment: build for build in builds(facts) if build.component == "pytorch"}
    found = []
    for (environment, name), held in files.items():
        torch = kinds.get(environment)
        wrong = [one for one in held if _wrong(one, torch.accelerator if torch else None)]
        if wrong:
            found.append(
                Unfitting(
                    extension=of_name(name, facts, matrix),
                    environment=environment,
                    torch=torch.copy.version if torch else None,
                    files=tuple(wrong),
                    whole=len(wrong) == len(held),
                )
            )
    return tuple(found)


def _wrong(copy: Instance, accelerator: str | None) -> bool:
    missing, absent = texts(copy.facts, "missing"), texts(copy.facts, "absent")
    return bool(missing or (absent and accelerator != "cpu"))
