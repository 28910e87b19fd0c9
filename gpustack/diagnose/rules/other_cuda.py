"""Compiled extensions beside PyTorch that are linked to another CUDA major than it, whose runtime is nowhere here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.extensions import of_file, of_name
from gpustack.diagnose.rules.reading import because_of, copies, status, text
from gpustack.diagnose.rules.seen import builds
from gpustack.diagnose.rules.unfitting import unfitting
from gpustack.matrix.subjects.ranges import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.extensions import Extension
    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Because

COMPONENT, RUNTIME = "torch-extensions", "cuda-runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCuda:
    """One package in one Python that is built for CUDA ``major``, the torch beside it, and the file that says so."""

    extension: Extension
    major: int
    build: Build
    file: Instance

    @property
    def mark(self) -> str:
        """Its name in findings."""
        return f"{self.extension.name}:{self.build.copy.environment}"

    def because(self, facts: Facts) -> Iterator[Because]:
        """Give the CUDA that the file is linked to, and that of the torch."""
        yield because_of(facts, COMPONENT, self.file, "cuda")
        yield because_of(facts, "pytorch", self.build.copy, "cuda")


def other_cuda(facts: Facts, matrix: Matrix) -> Iterator[OtherCuda]:
    """Give each package whose runtime was looked for, in its Python and on the system, and is not there."""
    if status(facts, RUNTIME) is None:
        return
    known = {(one.environment, one.extension.name) for one in unfitting(facts, matrix)}  # told of already
    torches = {build.copy.environment: build for build in builds(facts) if build.component == "pytorch"}
    for file in copies(facts, COMPONENT):
        build, cuda = torches.get(file.environment), text(file.facts, "cuda") or ""
        if not build or not build.cuda or numbers(cuda)[:1] in {(), (build.cuda.major,)}:
            continue
        name = text(file.facts, "distribution") or of_file(file.path or "", facts, matrix).name
        if (file.environment, name) not in known and not _there(cuda, file.environment, facts):
            known.add((file.environment, name))
            yield OtherCuda(extension=of_name(name, facts, matrix), major=numbers(cuda)[0], build=build, file=file)


def _there(cuda: str, environment: str | None, facts: Facts) -> bool:
    """Tell whether a CUDA runtime of this major lies in the Python or on the system."""
    names = [
        text(one.facts, "soname") or "" for one in copies(facts, RUNTIME) if one.environment in {None, environment}
    ]
    return any(name.startswith(f"libcudart.so.{cuda}") for name in names)
