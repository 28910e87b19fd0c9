"""Targets that a compiler of CUDA refused, and whether the toolkit is too old or too new for them: for two rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.saying import because_said, said
from gpustack.diagnose.rules.seen import capabilities, gpus
from gpustack.diagnose.rules.toolchain import parsed, used
from gpustack.matrix.subjects import toolkits
from gpustack.model.versions import CodeArch, ComputeCapability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message
    from gpustack.model.report import Because
    from gpustack.model.versions import CudaVersion

REFUSED, UNNAMED, TORCH = "nvcc-unknown-arch", "nvrtc-unknown-arch", "torch-unknown-arch"
OLD = ComputeCapability(7, 5)  # with no toolkit known, one that is refused below this was dropped: CUDA 13 begins here


@dataclass(frozen=True, slots=True, kw_only=True)
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
        if here and self.last:
            return here > self.last
        return here is None and self.last is not None and self.arch is not None and self.arch.capability < OLD

    @property
    def capability(self) -> str:
        """The target as a GPU's compute capability, in words."""
        return f"compute capability {self.arch.capability}, {self.arch.capability.sm}" if self.arch else ""


def refused(facts: Facts, matrix: Matrix) -> Iterator[Target]:
    """Give each target that a compiler refused, once."""
    told: set[str] = set()
    for message in said(facts, REFUSED, UNNAMED, TORCH):
        spelled = _spelled(message, facts)
        if spelled is not None and spelled not in told:
            told.add(spelled)
            target = _target(message, spelled, facts, matrix)
            if not _of_no_gpu(target, matrix):
                yield target


def _of_no_gpu(target: Target, matrix: Matrix) -> bool:
    """Tell whether no GPU of these years is meant: 5.1 never was, 2.0 is older than all that the matrix knows."""
    arch = target.arch
    return arch is not None and matrix.arch(arch.capability) is None and arch.capability < max(matrix.architectures)


def gpu_name(target: Target, facts: Facts) -> str | None:
    """Give the name of the GPU here that has this compute capability."""
    fitting = (gpu.name for gpu in gpus(facts) if target.arch and gpu.capability == target.arch.capability)
    return next(fitting, None)


def _spelled(message: Message, facts: Facts) -> str | None:
    if message.kind == UNNAMED:
        here = capabilities(facts)
        return here[0].sm if here else ""
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
        first=toolkits.first_for(matrix, arch) if arch else None,
        last=known.last_toolkit if known else None,
        toolkit=message.values.get("cuda") or (toolkit.version if toolkit else None),
        by=by,
        because=(because_said(message), *([toolkit.because] if toolkit else [])),
    )
