"""Which CUDA toolkit builds things here: what the rules about compilers, and about missing libraries, share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import copies, flag, text
from gpustack.diagnose.rules.saying import because_said, said
from gpustack.model.report import Because
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts

TOOLKIT = "cuda-toolkit"
# What a message calls the version of the toolkit, by how it came to speak of it.
NAMES = ("cuda", "cuda2", "cuda3", "cuda4", "cuda5", "cuda6", "image", "home", "package")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """One CUDA toolkit of which something speaks, its version as it was said, and the ground.

    ``sure`` is false where a person named a CUDA version and no toolkit: that may be the one of the driver.
    """

    version: str
    cuda: CudaVersion
    because: Because
    sure: bool = True


def toolkits(facts: Facts) -> tuple[Toolkit, ...]:
    """Give the toolkits that are spoken of: the one that a build used, nvcc, those that lie here, those told."""
    return (*_in_messages(facts, "toolkit-used"), *_seen(facts), *_in_messages(facts, "toolkit-named"), *_told(facts))


def used(facts: Facts) -> Toolkit | None:
    """Give the toolkit that builds use, or None where nothing tells."""
    return next(iter(toolkits(facts)), None)


def parsed(version: str | None) -> CudaVersion | None:
    """Give a CUDA version as people write it: 12.4.131, 12-4, 12."""
    said_ = (version or "").replace("-", ".")
    return CudaVersion.parse(said_) or CudaVersion.parse(f"{said_}.0")


def _seen(facts: Facts) -> Iterator[Toolkit]:
    found = facts.find(TOOLKIT)
    held = [copy for copy in copies(facts, TOOLKIT) if not flag(copy.facts, "as_told")]
    for copy in sorted(held, key=lambda one: not flag(one.facts, "in_use")):
        cuda = parsed(copy.version)
        if cuda and copy.version:
            ground = Because(
                component=TOOLKIT, fact="version", value=copy.version, source=found.source if found else ""
            )
            yield Toolkit(version=f"{cuda.major}.{cuda.minor}", cuda=cuda, because=ground)


def _told(facts: Facts) -> Iterator[Toolkit]:
    found = facts.find(TOOLKIT)
    for copy in copies(facts, TOOLKIT):
        cuda = parsed(copy.version)
        if flag(copy.facts, "as_told") and text(copy.facts, "whose") != "driver" and cuda and copy.version:
            ground = Because(
                component=TOOLKIT, fact="version", value=copy.version, source=found.source if found else ""
            )
            yield Toolkit(version=copy.version, cuda=cuda, because=ground, sure=flag(copy.facts, "by_name") is True)


def _in_messages(facts: Facts, kind: str) -> Iterator[Toolkit]:
    for message in said(facts, kind):
        version = next((message.values[name] for name in NAMES if message.values.get(name)), "").replace("-", ".")
        cuda = parsed(version)
        if cuda:
            yield Toolkit(version=version, cuda=cuda, because=because_said(message))
