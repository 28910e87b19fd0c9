"""The toolkits and compilers of the machine, and what their builds can run on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import because_said, said, value
from gpustack.diagnose.machine.inventory import capabilities, gpus
from gpustack.diagnose.machine.values import copies, flag, text
from gpustack.diagnose.requirements.records import Program, programs
from gpustack.matrix.subjects import toolkits
from gpustack.model import record
from gpustack.model.report import Because
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message


TOOLKIT = "cuda-toolkit"


@record
class Toolkit:
    """One CUDA toolkit of which something speaks, its version as it was said, and the ground.

    ``sure`` is false where a person named a CUDA version and no toolkit: that may be the one of the driver.
    """

    version: str
    cuda: CudaVersion
    because: Because
    sure: bool = True


def toolchain_toolkits(facts: Facts) -> tuple[Toolkit, ...]:
    """Return the toolkits mentioned: the one that builds use, the installed ones, and those that people name."""
    return (*_seen(facts), *_told(facts))


def used(facts: Facts) -> Toolkit | None:
    """Return the toolkit that builds use, or None if unknown."""
    return next(iter(toolchain_toolkits(facts)), None)


def parsed(version: str | None) -> CudaVersion | None:
    """Return a CUDA version as people write it: 12.4.131, 12-4, 12."""
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


def called(program: str) -> Program:
    """Return the program with this name in a message; for an unknown one, only that it must be rebuilt."""
    unknown = Program(
        name=program or "The program",
        remedy="Build it from source with CUDA switched on.",
        commands=("# build it from source, as its own page describes",),
    )
    return programs().get(program.lower(), unknown)


REFUSED, UNNAMED, TORCH = "nvcc-unknown-arch", "nvrtc-unknown-arch", "torch-unknown-arch"
OLDEST = ComputeCapability(3, 0)  # in the matrix: only a newer toolkit refuses one from before
OLD = ComputeCapability(7, 5)  # with no toolkit known, one that is refused below this was dropped: CUDA 13 begins here
# Targets that nvcc finds out itself, since 11.5 and its first update. Source: NVIDIA, CUDA Features Archive 11.6.
BY_NAME = {"native": CudaVersion(11, 6), "all": CudaVersion(11, 5), "all-major": CudaVersion(11, 5)}


@record
class Target:
    """A target that was refused: the first and the last toolkit that knows it, and the one that refused it."""

    spelled: str
    arch: CodeArch | None
    first: CudaVersion | None
    last: CudaVersion | None
    toolkit: str | None
    by: str
    because: tuple[Because, ...]

    @property
    def dropped(self) -> bool:
        """Whether the toolkit is too new for the target rather than too old."""
        here = parsed(self.toolkit)
        if self.arch and self.arch.capability < OLDEST:
            return True
        if here and self.last:
            return here > self.last
        return here is None and self.last is not None and self.arch is not None and self.arch.capability < OLD

    @property
    def capability(self) -> str:
        """The target as a GPU's compute capability, in words."""
        return f"compute capability {self.arch.capability}, {self.arch.capability.sm}" if self.arch else ""


def refused(facts: Facts, matrix: Matrix) -> Iterator[Target]:
    """Return each target that a compiler refused, once."""
    told: set[str] = set()
    for message in said(facts, REFUSED, UNNAMED, TORCH):
        spelled = _spelled(message, facts)
        if spelled is not None and spelled not in told:
            told.add(spelled)
            target = _target(message, spelled, facts, matrix)
            if not _of_no_gpu(target, matrix):
                yield target


def _of_no_gpu(target: Target, matrix: Matrix) -> bool:
    """Return whether no GPU is meant: 5.1 never existed."""
    cc = target.arch.capability if target.arch else None
    return cc is not None and matrix.arch(cc) is None and OLDEST <= cc < max(matrix.architectures)


def gpu_name(target: Target, facts: Facts) -> str | None:
    """Return the name of the GPU here that has this compute capability."""
    fitting = (gpu.name for gpu in gpus(facts) if target.arch and gpu.capability == target.arch.capability)
    return next(fitting, None)


def _spelled(message: Message, facts: Facts) -> str | None:
    if message.kind == UNNAMED:
        here = capabilities(facts)
        return value(facts, "nvrtc-options", "arch") or (here[0].sm if here else "")
    return message.values.get("arch") or message.values.get("cc")


def _target(message: Message, spelled: str, facts: Facts, matrix: Matrix) -> Target:
    capability = ComputeCapability.parse(spelled) if "." in spelled else None
    arch = CodeArch.parse(capability.sm if capability else spelled) if spelled else None
    known = matrix.arch(arch.capability) if arch else None
    toolkit = used(facts)
    by = {UNNAMED: "NVRTC", TORCH: "PyTorch's build helper"}.get(message.kind, "the compiler")
    return Target(
        spelled=spelled,
        arch=arch,
        first=toolkits.first_for(matrix, arch) if arch else BY_NAME.get(spelled),
        last=known.last_toolkit if known else None,
        toolkit=message.values.get("cuda") or (toolkit.version if toolkit else None),
        by=by,
        because=(because_said(message), *([toolkit.because] if toolkit else [])),
    )
