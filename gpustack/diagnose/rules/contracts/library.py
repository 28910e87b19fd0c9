"""The contracts of NVIDIA's libraries that come apart from the toolkit: cuDNN, NCCL and TensorRT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.compatibility import Fit, driver_fit
from gpustack.diagnose.rules.contracts.edges import asked, edge, floor_fit, release, same_major, spoken
from gpustack.diagnose.rules.reading import copies, number
from gpustack.diagnose.rules.seen import capabilities, driver_release
from gpustack.matrix.subjects import libraries
from gpustack.model.report import Kept
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.libraries import TensorrtRelease
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Contract, Row
    from gpustack.model.versions import DriverRelease


BEST = (Kept.OK, Kept.LIMITED, Kept.UNKNOWN, Kept.BROKEN)


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give the contracts of the copies that belong to a Python or are asked about; others may serve nobody."""
    for copy in copies(facts, "cudnn"):
        if (copy.environment or asked(copy)) and release(copy):
            yield from _cudnn(copy, facts, matrix)
    for copy in copies(facts, "nccl"):
        if asked(copy) and release(copy):
            yield from _nccl(copy, facts, matrix)
    for copy in copies(facts, "tensorrt"):
        if asked(copy) and release(copy):
            yield from _tensorrt(copy, facts, matrix)


def _cudnn(copy: Instance, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    cuda, known = number(copy.facts, "cuda_major"), libraries.cudnn_of(matrix, copy.version or "")
    if known is None:
        return
    floor = libraries.cudnn_oldest_gpu(matrix, copy.version or "", cuda)
    for gpu in capabilities(facts) if floor else ():
        fit = floor_fit(gpu, floor, known.row) if floor else None
        if fit:
            yield edge("cudnn", "gpu", "architecture", fit, copy.environment)
    if asked(copy):
        chosen = {major: driver for major, driver in known.drivers.items() if cuda is None or major == str(cuda)}
        yield from _driver("cudnn", chosen, facts, known.row)


def _nccl(copy: Instance, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    cuda, known = number(copy.facts, "cuda_major"), libraries.nccl_of(matrix, copy.version or "")
    if known is None:
        return
    wheels = {major: libraries.nccl_wheel(matrix, major) for major in ([cuda] if cuda else known.built or (12,))}
    floors = {str(major): wheel.driver for major, wheel in wheels.items() if wheel}
    row = next((wheel.row for wheel in wheels.values() if wheel), known.row)
    yield from _driver("nccl", floors, facts, row)
    archs = [arch for major, held in known.archs.items() if cuda in {None, major} for arch in held]
    if not archs and known.built:
        yield from _left_behind(min(known.built.values()), facts, matrix, known.row)
    for gpu in capabilities(facts) if archs else ():
        fits = any(arch.runs_on(gpu) for arch in archs)
        names = " ".join(dict.fromkeys(arch.capability.sm for arch in archs))
        kept = Kept.OK if fits else Kept.UNKNOWN  # its PTX was not read
        fit = Fit(kept=kept, needs=f"code for {gpu.sm}", found=f"machine code for {names}", row=known.row)
        yield edge("nccl", "gpu", "architecture", fit)


def _left_behind(oldest: CudaVersion, facts: Facts, matrix: Matrix, row: Row) -> Iterator[Contract]:
    """Give that a NCCL whose code was not read has none for a GPU: every CUDA that it was built with had left it."""
    for gpu in capabilities(facts):
        arch = matrix.arch(gpu)
        if arch and arch.last_toolkit and arch.last_toolkit < oldest:
            needs = f"a build with CUDA {arch.last_toolkit} or older for {gpu.sm}"
            fit = Fit(kept=Kept.BROKEN, needs=needs, found=f"a build with CUDA {oldest}", row=row)
            yield edge("nccl", "gpu", "accelerator", fit)


def _tensorrt(copy: Instance, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    known = libraries.tensorrt_of(matrix, copy.version or "")
    if known is None:
        return
    for gpu in capabilities(facts) if known.oldest_gpu else ():
        if known.oldest_gpu:
            yield edge("tensorrt", "gpu", "architecture", floor_fit(gpu, known.oldest_gpu, known.row))
    yield from _tensorrt_driver(copy, known, facts, matrix)
    for found in spoken(facts, "cudnn") if known.cudnn else ():
        yield edge("tensorrt", "cudnn", "library", same_major("cuDNN", known.cudnn or "", found, known.row))


def _tensorrt_driver(copy: Instance, known: TensorrtRelease, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give how TensorRT goes with the driver: by the drivers that it names, else as the CUDA it was built with does."""
    tagged = number(copy.facts, "cuda_major")
    stated = [one for one in libraries.tensorrt_drivers(matrix, copy.version or "") if tagged in {None, one.cuda}]
    if stated:
        yield from _driver("tensorrt", {str(one.cuda): one.driver for one in stated}, facts, stated[0].row)
        return
    cudas = [cuda for cuda in map(CudaVersion.parse, known.cuda) if cuda and tagged in {None, cuda.major}]
    fits = [driver_fit(cuda, facts, matrix) for cuda in cudas] if driver_release(facts) else []
    if fits:
        yield edge("tensorrt", "nvidia-driver", "cuda", min(fits, key=lambda fit: BEST.index(fit.kept)))


def _driver(component: str, floors: Mapping[str, DriverRelease], facts: Facts, row: Row) -> Iterator[Contract]:
    """Give how a library goes with the driver: there is a build for one of these CUDA versions that runs on it."""
    driver = driver_release(facts)
    if driver is None or not floors:
        return
    fitting = [cuda for cuda, floor in floors.items() if driver >= floor]
    said = ", ".join(f"{floor} (build for CUDA {cuda})" for cuda, floor in floors.items())
    fit = Fit(
        kept=Kept.OK if fitting else Kept.BROKEN, needs=f"driver {said} or newer", found=f"driver {driver}", row=row
    )
    yield edge(component, "nvidia-driver", "driver", fit)
