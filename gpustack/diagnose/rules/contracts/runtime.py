"""The contracts of the CUDA toolkit and of cuda-python: the driver, the GPUs to compile for, the host compilers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.compatibility import Fit, driver_fit
from gpustack.diagnose.rules.contracts.edges import asked, edge
from gpustack.diagnose.rules.reading import copies, flag, version
from gpustack.diagnose.rules.seen import capabilities, nvidia_here
from gpustack.matrix.subjects import toolkits
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.report import Kept
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract
    from gpustack.model.versions import ComputeCapability


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give the contracts of the toolkit in use and of cuda-bindings."""
    for copy in copies(facts, "cuda-toolkit"):
        cuda = CudaVersion.parse(copy.version)
        if cuda and copy.version and (flag(copy.facts, "in_use") or asked(copy)):
            if nvidia_here(facts):
                yield edge("cuda-toolkit", "nvidia-driver", "cuda", driver_fit(cuda, facts, matrix))
            yield from _targets(cuda, facts, matrix)
            yield from _host_compilers(".".join(map(str, numbers(copy.version))), facts, matrix)
    yield from _bindings(facts, matrix)


def _targets(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give whether the toolkit compiles for each kind of GPU."""
    for gpu in capabilities(facts):
        fit = _target_fit(cuda, gpu, matrix)
        if fit:
            yield edge("cuda-toolkit", "gpu", "target", fit)


def _target_fit(cuda: CudaVersion, gpu: ComputeCapability, matrix: Matrix) -> Fit | None:
    arch, target = matrix.arch(gpu), toolkits.target_of(matrix, cuda)
    found = f"CUDA {cuda}"
    if arch is None:
        measured = target is not None and gpu in target.capabilities
        return (
            Fit(kept=Kept.OK, needs=f"a target {gpu.sm}", found=found, row=target.row) if measured and target else None
        )
    first, last = arch.first_toolkit, arch.last_toolkit
    ends = [f"from {first} on" if first else "", f"up to {last}" if last else ""]
    inside = (first is None or cuda >= first) and (last is None or cuda <= last)
    needs = f"CUDA {' '.join(end for end in ends if end)} to compile for {gpu.sm}"
    return Fit(kept=Kept.OK if inside else Kept.BROKEN, needs=needs, found=found, row=arch.row)


def _host_compilers(cuda: str, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give whether nvcc takes the GCC and the Clang that are here; only their major counts."""
    row = toolkits.compilers_of(matrix, cuda)
    if row is None:
        return
    gcc, clang = numbers(version(facts, "gcc"))[:1], numbers(version(facts, "clang"))[:1]
    if gcc:
        least = f"{row.gcc_min} to " if row.gcc_min else "up to "
        kept = Kept.OK if row.takes_gcc(gcc[0]) else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"GCC {least}{row.gcc_max}", found=f"GCC {gcc[0]}", row=row.row)
        yield edge("cuda-toolkit", "gcc", "host-compiler", fit)
    if clang:
        lowest = numbers(row.clang_min)[:1] or (0,)
        kept = Kept.OK if lowest[0] <= clang[0] <= row.clang_max else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"Clang up to {row.clang_max}", found=f"Clang {clang[0]}", row=row.row)
        yield edge("cuda-toolkit", "clang", "host-compiler", fit)


def _bindings(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    for bindings in copies(facts, "cuda-bindings"):
        major = numbers(bindings.version)[:1]
        if major and nvidia_here(facts):
            fit = driver_fit(CudaVersion(major[0]), facts, matrix)
            kept = Kept.LIMITED if fit.kept is Kept.BROKEN else fit.kept
            yield edge("cuda-bindings", "nvidia-driver", "cuda", replace(fit, kept=kept), bindings.environment)
