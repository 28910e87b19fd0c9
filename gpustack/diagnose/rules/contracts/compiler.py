"""The contracts of compilers and of what is exported between frameworks: Triton, torch.compile, ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.compatibility import Fit
from gpustack.diagnose.rules.contracts.edges import asked, edge, floor_fit, release
from gpustack.diagnose.rules.reading import copies, flag, number, text
from gpustack.diagnose.rules.seen import builds, capabilities
from gpustack.matrix.subjects import frameworks, ranges, training
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Contract

TRITON, COMPILE = "triton", "torch-compile"


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give the contracts of each compiler with the framework beside it and with the GPUs."""
    torches = {build.copy.environment: build for build in builds(facts) if build.component == "pytorch"}
    for copy in copies(facts, TRITON):
        if release(copy) and not asked(copy):
            yield from _triton(copy, torches.get(copy.environment), facts, matrix)
    for copy in copies(facts, COMPILE):
        yield from _compile(copy, torches.get(copy.environment))
    for copy in copies(facts, "onnx"):
        yield from _onnx(copy, facts, matrix)


def _triton(copy: Instance, torch: Build | None, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give how Triton goes with the torch beside it, and with the GPUs."""
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
    """Give what torch.compile has of what it needs to make kernels: for GPUs by Triton, for CPUs by C++."""
    gpu = torch is not None and torch.accelerator in {"cuda", "rocm", "xpu"}
    compiler = "c" if gpu else "cxx"
    path, named = text(copy.facts, compiler, "path"), text(copy.facts, compiler, "name")
    needs = "a C compiler (CC, gcc or clang)" if gpu else "a C++ compiler (CXX or g++)"
    found = f"{named} at {path}" if path else f"{named}, which is not there" if named else "none"
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
    """Give whether the runtime beside ONNX reads the newest opset that this ONNX writes."""
    known = frameworks.onnx_of(matrix, copy.version or "") if release(copy) else None
    opset = number(copy.facts, "opset") or (known.opset if known else None)
    for runtime in copies(facts, "onnxruntime"):
        limit = frameworks.onnx_runtime_of(matrix, runtime.version or "") if release(runtime) else None
        if opset and limit and runtime.environment == copy.environment:
            fit = Fit(
                kept=Kept.OK if opset <= limit.opset else Kept.LIMITED,
                needs=f"models of opset {limit.opset} or older",
                found=f"onnx {copy.version}, which writes up to opset {opset}",
                row=limit.row,
            )
            yield edge("onnxruntime", "onnx", "opset", fit, copy.environment)
