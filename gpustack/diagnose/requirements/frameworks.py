"""What each framework's build requires of the driver, the GPUs and the libraries that it was built with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import amd
from gpustack.diagnose.machine.events import heard
from gpustack.diagnose.machine.inventory import Build, builds, capabilities, from_text, nvidia_here, on_windows
from gpustack.diagnose.machine.libraries import copy_at, pinned, used
from gpustack.diagnose.machine.values import copies, flag, text, texts
from gpustack.diagnose.requirements.fits import (
    Fit,
    arch_fit,
    asked,
    driver_fit,
    edge,
    floor_fit,
    release,
    same_major,
    spoken,
)
from gpustack.matrix.subjects import amd_intel, frameworks, ranges, torch
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.facts import Facts, product
from gpustack.model.report import Contract, Kept, Row
from gpustack.model.versions import ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


LIBRARIES = (
    ("libcudnn", "cudnn", "nvidia-cudnn"),
    ("libnccl", "nccl", "nvidia-nccl"),
    ("libcublas", "cublas", "nvidia-cublas"),
)


AT_WORK = ("ran-on-gpu", "cuda-available-true")  # what programs print that reached a GPU


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return the requirements of every installed framework."""
    for build in (*builds(facts), *_tensorflows(facts, matrix)):
        where = build.copy.environment
        edges = [*_gpus(build, facts, matrix)]
        if build.cuda and nvidia_here(facts):
            edges.insert(
                0, edge(build.component, "nvidia-driver", "cuda", driver_fit(build.cuda, facts, matrix), where)
            )
        otherwise = _seen_at_work(build, facts)
        yield from (replace(one, status=otherwise) if one.status is Kept.BROKEN else one for one in edges)
        yield from _libraries(build, facts)
        yield from _named(build, facts, matrix)
    yield from _windows(facts, matrix)


def _seen_at_work(build: Build, facts: Facts) -> Kept:
    """Return the status of a misfit with driver or GPU: limited if the build ran, unknown if it was guessed."""
    if build.ran_on_gpu or (from_text(facts) and (heard(facts, *AT_WORK) or flag(build.copy.facts, "available"))):
        return Kept.LIMITED
    return Kept.UNKNOWN if from_text(facts) and text(build.copy.facts, "build_from") is not None else Kept.BROKEN


def _tensorflows(facts: Facts, matrix: Matrix) -> Iterator[Build]:
    """Return the TensorFlow copies whose release is known, as builds; none if it cannot use a GPU here."""
    for copy in copies(facts, "tensorflow"):
        known = frameworks.tensorflow_of(matrix, copy.version or "") if release(copy) else None
        built_for = text(copy.facts, "accelerator") or "cuda"
        if known and built_for == "cuda" and not _no_windows(copy.version or "", facts, matrix):
            yield Build(component="tensorflow", copy=copy, accelerator="cuda", cuda=known.cuda, archs=known.archs)
        elif known and asked(copy) and built_for == "cpu":
            yield Build(component="tensorflow", copy=copy, accelerator="cpu", cuda=None, archs=())


def _gpus(build: Build, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether a build supports each kind of GPU, by its code or by the vendor that it is built for."""
    where = build.copy.environment
    for gpu in capabilities(facts):
        if build.accelerator == "cuda" and build.component in {"pytorch", "tensorflow"}:
            behind = None if build.archs else _too_old(build, gpu, matrix)
            if behind:
                yield edge(build.component, "gpu", "accelerator", behind, where)
            else:
                yield edge(build.component, "gpu", "architecture", arch_fit(build, gpu, facts, matrix), where)
        elif build.accelerator == "cuda" and build.component == "onnxruntime":
            fit = _ort_gpu(build, gpu, facts, matrix)
            yield from (edge("onnxruntime", "gpu", "architecture", one, where) for one in fit)
        elif build.accelerator == "cuda" and build.component == "jax":
            fit = _jax_gpu(build, facts, matrix)
            yield from (edge("jax", "gpu", "architecture", one, where) for one in fit)
        elif build.accelerator and build.accelerator != "cuda" and asked(build.copy):
            fit_ = Fit(kept=Kept.BROKEN, needs=f"a CUDA build for {gpu.sm}", found=f"a build for {build.accelerator}")
            yield edge(build.component, "gpu", "accelerator", fit_, where)
    if build.component == "pytorch":
        yield from _amd(build, facts, matrix)
        yield from _intel(build, facts, matrix)


def _intel(build: Build, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether a PyTorch supports the Intel GPU that is asked about; only XPU builds do."""
    if build.accelerator is None or not any(map(asked, copies(facts, "intel-gpu"))):
        return
    known = amd_intel.xpu_build_of(matrix, build.copy.version or "")
    kept = Kept.BROKEN if build.accelerator != "xpu" else Kept.OK if known else Kept.UNKNOWN
    fit = Fit(
        kept=kept,
        needs="a build for XPU, which is Intel's",
        found=f"a build for {build.accelerator}",
        row=known.row if known else None,
    )
    yield edge("pytorch", "intel-gpu", "accelerator", fit, build.copy.environment)


def _amd(build: Build, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether a PyTorch supports AMD's GPUs, if there is no NVIDIA GPU as well."""
    targets = [name for copy in copies(facts, "amd-gpu") if (name := text(copy.facts, "gfx"))]
    beside = "directml" in facts.words and build.accelerator == "cpu"  # DirectML's part of PyTorch runs beside it
    if capabilities(facts) or build.accelerator is None or beside:
        return
    for gfx in dict.fromkeys(targets):
        where, tag = build.copy.environment, (build.copy.build or "").removeprefix("rocm")
        if build.accelerator != "rocm":
            alone = {one.integrated for one in amd.gpus(facts)} == {
                True
            }  # such a GPU is rarely what a build is chosen for
            kept = Kept.LIMITED if alone else Kept.BROKEN
            fit = Fit(kept=kept, needs=f"a ROCm build for {gfx}", found=f"a build for {build.accelerator}")
            yield edge("pytorch", "amd-gpu", "accelerator", fit, where)
            continue
        known = amd_intel.torch_build_of(matrix, build.copy.version or "", tag)
        archs = texts(build.copy.facts, "archs") or (known.archs if known else ())
        kept = (Kept.OK if gfx in archs else _otherwise(facts, gfx, archs)) if archs else Kept.UNKNOWN
        found = f"code for {' '.join(archs)}" if archs else "code list not seen"
        fit = Fit(kept=kept, needs=f"code for {gfx}", found=found, row=known.row if known else None)
        yield edge("pytorch", "amd-gpu", "architecture", fit, where)


def _otherwise(facts: Facts, gfx: str, archs: tuple[str, ...]) -> Kept:
    """Return the status for a GPU without code: it may run as a relative, or another GPU may compute."""
    if amd.override(facts) in archs:
        return Kept.LIMITED
    beside = any(one.gfx in archs for one in amd.computing(facts))
    return Kept.LIMITED if beside and all(one.integrated for one in amd.gpus(facts) if one.gfx == gfx) else Kept.BROKEN


def _too_old(build: Build, gpu: ComputeCapability, matrix: Matrix) -> Fit | None:
    """Return that a build whose code is unknown has none for a GPU: its CUDA cannot, and such builds have no PTX."""
    arch, cuda = matrix.arch(gpu), build.cuda
    if arch is None or cuda is None:
        return None
    alike = [one for one in matrix.torch_builds if one.cuda == cuda]
    first = matrix.first_code(gpu)
    newer = first is not None and cuda < first
    without_ptx = bool(alike) and not any(code.kind == "compute" for one in alike for code in one.archs)
    if not (newer and without_ptx) and not (arch.last_toolkit and cuda > arch.last_toolkit):
        return None
    ends = (
        f"from {first}" if first else "",
        f"to {arch.last_toolkit}" if arch.last_toolkit else "",
    )
    needs = f"a build with CUDA {' '.join(end for end in ends if end)} for {gpu.sm}"
    return Fit(kept=Kept.BROKEN, needs=needs, found=f"a build with CUDA {cuda}", row=arch.row)


def _ort_gpu(build: Build, gpu: ComputeCapability, facts: Facts, matrix: Matrix) -> Iterator[Fit]:
    """Return whether the wheel on the package index supports a GPU; nothing if its code is unknown."""
    known = frameworks.onnxruntime_of(matrix, build.copy.version or "") if _known(build) else None
    of_index = text(build.copy.facts, "package") == "onnxruntime-gpu" and facts.host.machine in {None, "x86_64"}
    if known and known.archs and (of_index or asked(build.copy)):
        yield replace(arch_fit(replace(build, archs=known.archs), gpu, facts, matrix), row=known.row)


def _jax_gpu(build: Build, facts: Facts, matrix: Matrix) -> Iterator[Fit]:
    """Return whether JAX supports the GPUs, by its minimum and its code; nothing if its row states neither."""
    known = (
        frameworks.jax_build(matrix, build.copy.version or "", build.cuda.major)
        if build.cuda and _known(build)
        else None
    )
    for gpu in capabilities(facts) if known else ():
        if known and known.oldest_gpu and gpu < known.oldest_gpu:
            yield floor_fit(gpu, known.oldest_gpu, known.row)
        elif known and known.archs:
            yield replace(arch_fit(replace(build, archs=known.archs), gpu, facts, matrix), row=known.row)


def _libraries(build: Build, facts: Facts) -> Iterator[Contract]:
    """Return whether the libraries in use are at least the minor versions that a framework was built with."""
    for library, component, wheel in LIBRARIES:
        one, wanted = used(build, library, component, facts), pinned(build, wheel)
        copy = copy_at(one.path, component, facts) if one else None
        if not wanted or not copy or not copy.version:
            continue
        found, needs = numbers(copy.version), numbers(wanted)
        kept = Kept.OK if found[:1] == needs[:1] and found[:2] >= needs[:2] else Kept.BROKEN
        least = ".".join(str(number) for number in needs[:2])
        name = product(component)
        fit = Fit(kept=kept, needs=f"{name} {least} or newer", found=f"{name} {copy.version}")
        yield edge(build.component, component, "library", fit, build.copy.environment)


def _named(build: Build, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether a build fits the cuDNN that the text says is in use."""
    for found in spoken(facts, "cudnn") if build.accelerator == "cuda" and _known(build) else ():
        fit = _cudnn_fit(build, found, matrix)
        if fit:
            yield edge(build.component, "cudnn", "library", fit, build.copy.environment)


def _cudnn_fit(build: Build, found: str, matrix: Matrix) -> Fit | None:
    wanted, row = _cudnn(build, matrix)
    if not wanted:
        return None
    if wanted[0].isdecimal():
        return same_major("cuDNN", wanted, found, row)
    span = ranges.VersionRange.parse(wanted)
    alone = len(numbers(found)) == 1
    kept = Kept.OK if span.holds(f"{found}.999" if alone else found) else Kept.BROKEN
    return Fit(kept=kept, needs=f"cuDNN {wanted}", found=f"cuDNN {found}", row=row)


def _cudnn(build: Build, matrix: Matrix) -> tuple[str | None, Row | None]:
    """Return the cuDNN version or range of a build, and the row that states it."""
    version, own = build.copy.version or "", numbers(text(build.copy.facts, "cudnn"))
    if build.component == "pytorch" and len(own) > 1:
        return f">={own[0]}.{own[1]},<{own[0] + 1}", None  # what it says itself goes before a row
    if build.component == "pytorch":
        made = torch.build_of(matrix, version, build.copy.build or "")
        return (made.libraries.get("cudnn"), made.row) if made else (None, None)
    if build.component == "onnxruntime":
        known_ort = frameworks.onnxruntime_of(matrix, version)
        return (str(known_ort.cudnn), known_ort.row) if known_ort else (None, None)
    if build.component == "tensorflow":
        made_with = frameworks.tensorflow_of(matrix, version)
        return (made_with.cudnn, made_with.row) if made_with else (None, None)
    known = frameworks.jax_build(matrix, version, (build.cuda or CudaVersion(0)).major)
    return (known.cudnn or known.built_cudnn, known.row) if known else (None, None)


def _known(build: Build) -> bool:
    return release(build.copy) is not None


def _windows(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return that a TensorFlow cannot use a GPU on this Windows."""
    for copy in copies(facts, "tensorflow"):
        if release(copy) and _no_windows(copy.version or "", facts, matrix):
            known = frameworks.tensorflow_of(matrix, copy.version or "")
            needs = "Linux or WSL 2: on Windows itself it has used no GPU since 2.11"
            kept = Kept.BROKEN if not asked(copy) or nvidia_here(facts) else Kept.LIMITED  # nobody asks for a GPU
            fit = Fit(kept=kept, needs=needs, found="Windows", row=known.row if known else None)
            yield edge("tensorflow", "windows", "system", fit, copy.environment)


def _no_windows(version: str, facts: Facts, matrix: Matrix) -> bool:
    """Return whether this TensorFlow cannot use a GPU on this Windows; WSL counts as Linux."""
    native = on_windows(facts) and not facts.host.wsl
    return native and frameworks.tensorflow_gpu_on(matrix, version, "windows") is False
