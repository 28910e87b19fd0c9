"""What runtimes, libraries and compilers require of the driver and of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import DRIVER, Build, builds, capabilities, driver_release, nvidia_here
from gpustack.diagnose.machine.values import copies, flag, number, text, version
from gpustack.diagnose.requirements.fits import Fit, asked, driver_fit, edge, floor_fit, release, same_major, spoken
from gpustack.matrix.subjects import frameworks, libraries, ranges, toolkits, training
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.report import Contract, Kept, Row
from gpustack.model.versions import ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.libraries import TensorrtRelease
    from gpustack.model.facts import Facts, Instance


def runtime_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return the requirements of the toolkit in use and of cuda-bindings."""
    for copy in copies(facts, "cuda-toolkit"):
        cuda = CudaVersion.parse(copy.version)
        if cuda and copy.version and (flag(copy.facts, "in_use") or asked(copy)):
            fits = (*_targets(cuda, facts, matrix), *_host_compilers(copy.version, facts, matrix))
            if nvidia_here(facts):
                yield _toolkit(copy, DRIVER, "cuda", driver_fit(cuda, facts, matrix))
            yield from (_toolkit(copy, to, kind, fit) for to, kind, fit in fits)
    yield from _bindings(facts, matrix)


def _toolkit(copy: Instance, to: str, kind: str, fit: Fit) -> Contract:
    """Return what a toolkit requires; if it is merely installed, a misfit affects only builds, so it is limited."""
    lighter = fit.kept is Kept.BROKEN and not asked(copy)
    return edge("cuda-toolkit", to, kind, replace(fit, kept=Kept.LIMITED) if lighter else fit)


def _targets(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> Iterator[tuple[str, str, Fit]]:
    """Yield whether the toolkit compiles for each kind of GPU."""
    for gpu in capabilities(facts):
        fit = _target_fit(cuda, gpu, matrix)
        if fit:
            yield "gpu", "target", fit


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


def _host_compilers(cuda: str, facts: Facts, matrix: Matrix) -> Iterator[tuple[str, str, Fit]]:
    """Yield whether nvcc accepts the installed GCC and Clang; only the major version counts."""
    row = toolkits.compilers_of(matrix, ".".join(map(str, numbers(cuda))))
    if row is None:
        return
    gcc, clang = numbers(version(facts, "gcc"))[:1], numbers(version(facts, "clang"))[:1]
    if gcc:
        least = f"{row.gcc_min} to " if row.gcc_min else "up to "
        kept = Kept.OK if row.takes_gcc(gcc[0]) else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"GCC {least}{row.gcc_max}", found=f"GCC {gcc[0]}", row=row.row)
        yield "gcc", "host-compiler", fit
    if clang:
        lowest = numbers(row.clang_min)[:1] or (0,)
        kept = Kept.OK if lowest[0] <= clang[0] <= row.clang_max else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"Clang up to {row.clang_max}", found=f"Clang {clang[0]}", row=row.row)
        yield "clang", "host-compiler", fit


def _bindings(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    for bindings in copies(facts, "cuda-bindings"):
        major = numbers(bindings.version)[:1]
        if major and nvidia_here(facts):
            fit = driver_fit(CudaVersion(major[0]), facts, matrix)
            kept = Kept.LIMITED if fit.kept is Kept.BROKEN else fit.kept
            yield edge("cuda-bindings", "nvidia-driver", "cuda", replace(fit, kept=kept), bindings.environment)


BEST = (Kept.OK, Kept.LIMITED, Kept.UNKNOWN, Kept.BROKEN)


def library_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return the requirements of copies that belong to a Python or are asked about; others may be unused."""
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
    """Return that a NCCL whose code is unknown has none for a GPU: each CUDA it was built with had dropped it."""
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
    """Return whether TensorRT fits the driver, by the drivers it names, else by the CUDA it was built with."""
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
    """Return whether a library has a build, for one of these CUDA versions, that runs on the driver."""
    driver = driver_release(facts)
    if driver is None or not floors:
        return
    fitting = [cuda for cuda, floor in floors.items() if driver >= floor]
    said = ", ".join(f"{floor} (build for CUDA {cuda})" for cuda, floor in floors.items())
    fit = Fit(
        kept=Kept.OK if fitting else Kept.BROKEN, needs=f"driver {said} or newer", found=f"driver {driver}", row=row
    )
    yield edge(component, "nvidia-driver", "driver", fit)


TRITON, COMPILE = "triton", "torch-compile"


def compiler_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return the requirements of each compiler on the framework beside it and on the GPUs."""
    torches = {build.copy.environment: build for build in builds(facts) if build.component == "pytorch"}
    for copy in copies(facts, TRITON):
        if release(copy) and not asked(copy):
            yield from _triton(copy, torches.get(copy.environment), facts, matrix)
    for copy in copies(facts, COMPILE):
        yield from _compile(copy, torches.get(copy.environment))
    for copy in copies(facts, "onnx"):
        yield from _onnx(copy, facts, matrix)


def _triton(copy: Instance, torch: Build | None, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether Triton fits the torch beside it, and the GPUs."""
    pin = training.triton_pin_of(matrix, torch.copy.version) if torch and torch.copy.version else None
    if pin and text(copy.facts, "distribution") in {None, "triton"}:
        version = ranges.version_of(copy.version or "")
        own = version is None or version.is_prerelease or bool(version.local)
        kept = Kept.OK if pin.triton.holds(copy.version or "") else Kept.UNKNOWN if own else Kept.LIMITED
        fit = Fit(kept=kept, needs=f"triton {pin.triton}", found=f"triton {copy.version}", row=pin.row)
        yield edge("pytorch", TRITON, "compiler", fit, copy.environment)
    floor = training.triton_floor_of(matrix, copy.version or "")
    for gpu in capabilities(facts) if floor else ():
        if floor:
            fit = floor_fit(gpu, floor.capability, floor.row, Kept.LIMITED)
            yield edge(TRITON, "gpu", "architecture", fit, copy.environment)


def _compile(copy: Instance, torch: Build | None) -> Iterator[Contract]:
    """Return whether torch.compile has what it needs to build kernels: Triton for GPUs, C++ for CPUs."""
    gpu = torch is not None and torch.accelerator in {"cuda", "rocm", "xpu"}
    compiler = "c" if gpu else "cxx"
    path, named = text(copy.facts, compiler, "path"), text(copy.facts, compiler, "name")
    needs = "a C compiler (CC, gcc or clang)" if gpu else "a C++ compiler (CXX or g++)"
    found = f"{named} at {path}" if path else f"{named}, which does not exist" if named else "none"
    yield edge(COMPILE, "gcc", "compiler", _fit(needs, found, well=bool(path)), copy.environment)
    headers = flag(copy.facts, "headers", "exists")
    if headers is not None:
        place = text(copy.facts, "headers", "path") or "none"
        found = place if headers else f"no {place}"
        yield edge(COMPILE, "python", "headers", _fit("Python.h of it", found, well=headers), copy.environment)
    if gpu:
        version = text(copy.facts, "triton")
        found = f"triton {version}" if version else "no Triton"
        yield edge(COMPILE, TRITON, "compiler", _fit("Triton", found, well=bool(version)), copy.environment)


def _fit(needs: str, found: str, *, well: bool) -> Fit:
    return Fit(kept=Kept.OK if well else Kept.LIMITED, needs=needs, found=found)


def _onnx(copy: Instance, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether the runtime beside ONNX can read the newest opset that this ONNX writes."""
    known = frameworks.onnx_of(matrix, copy.version or "") if release(copy) else None
    opset = number(copy.facts, "opset") or (known.opset if known else None)
    for runtime in copies(facts, "onnxruntime"):
        limit = frameworks.onnx_runtime_of(matrix, runtime.version or "") if release(runtime) else None
        if opset and limit and runtime.environment == copy.environment:
            ir = known.ir if known else 0
            fit = Fit(
                kept=Kept.OK if opset <= limit.opset and ir <= limit.ir else Kept.LIMITED,
                needs=f"models of opset {limit.opset} and IR version {limit.ir} or older",
                found=f"onnx {copy.version}, which writes up to opset {opset}"
                + (f" and IR version {ir}" if ir else ""),
                row=limit.row,
            )
            yield edge("onnxruntime", "onnx", "opset", fit, copy.environment)
