"""Inference servers beside vLLM: what releases of SGLang, TGI and TensorRT-LLM pin, and what Triton's images hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.matrix.tables import needed, row
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row

PARTS = {"sglang": "sglang", "tgi": "tgi", "tensorrt-llm": "tensorrt_llm"}
_INSIDE = ("vllm", "onnxruntime", "tensorrt_llm", "tensorrt", "torch", "python")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRelease:
    """One release of a server; ``archs`` is the GPU code inside, empty where no row states it."""

    component: str
    version: str
    torch: VersionRange
    python: VersionRange
    row: Row
    cuda: CudaVersion | None = None
    archs: tuple[CodeArch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonImage:
    """One image of Triton Inference Server, by month and flavour (vllm, trtllm); ``inside`` are versions by name."""

    container: str
    flavour: str
    cuda: CudaVersion
    driver: DriverRelease
    row: Row
    inside: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """Something that a server can do, and what it takes: GPUs from ``lowest`` to ``newest``, a file or a package.

    ``parallel`` names what the number of GPUs must divide, where it takes several of them.
    """

    component: str
    versions: VersionRange
    name: str
    row: Row
    lowest: ComputeCapability | None = None
    newest: ComputeCapability | None = None
    file: str | None = None
    needs: str | None = None
    parallel: str | None = None
    note: str | None = None

    @property
    def span(self) -> str:
        """The GPUs that it takes, in words."""
        if self.parallel:
            return f"two GPUs or more, whose number divides the model's {self.parallel}"
        if self.lowest is None:
            return "every GPU that the server runs on"
        if self.newest is None:
            return f"compute capability {self.lowest} or newer"
        return f"compute capability {self.lowest} to {self.newest}"

    def takes(self, gpu: ComputeCapability) -> bool:
        """Tell whether it runs on a GPU."""
        return (self.lowest is None or gpu >= self.lowest) and (self.newest is None or gpu <= self.newest)


def techniques(matrix: Matrix) -> tuple[Technique, ...]:
    """Give what servers can do, server by server."""
    return matrix.rows("serving", "techniques", _technique)


def techniques_of(matrix: Matrix, component: str, version: str) -> tuple[Technique, ...]:
    """Give what this release of a server can do, as far as rows state it."""
    return tuple(one for one in techniques(matrix) if one.component == component and one.versions.holds(version))


def releases(matrix: Matrix, component: str) -> tuple[ServingRelease, ...]:
    """Give every release of sglang, tgi or tensorrt-llm that was read, oldest first; of anything else nothing."""
    if component not in PARTS:
        return ()
    return matrix.rows("serving", PARTS[component], lambda line: _release(line, component))


def release_of(matrix: Matrix, component: str, version: str) -> ServingRelease | None:
    """Give the release of exactly this version, or None where no row states it."""
    wanted = version_of(version.partition("+")[0])
    found = (one for one in releases(matrix, component) if wanted is not None and version_of(one.version) == wanted)
    return next(found, None)


def images(matrix: Matrix) -> tuple[TritonImage, ...]:
    """Give every image of Triton Inference Server, those with vLLM first, oldest first."""
    return (
        *matrix.rows("serving", "containers", lambda line: _image(line, "vllm")),
        *matrix.rows("serving", "trtllm_containers", lambda line: _image(line, "trtllm")),
    )


def _release(line: Line, component: str) -> ServingRelease:
    text = f"{component} {line['version']} asks for torch {line.get('torch', 'of any version')}"
    return ServingRelease(
        component=component,
        version=line["version"],
        torch=VersionRange.parse(line.get("torch", "")),
        python=VersionRange.parse(line.get("python", "")),
        row=row("serving", text, line),
        cuda=CudaVersion.parse(line.get("cuda")),
        archs=tuple(arch for text in line.get("archs", ()) for arch in _archs(text)),
    )


def _technique(line: Line) -> Technique:
    made = Technique(
        component=line["component"],
        versions=VersionRange.parse(line["versions"]),
        name=line["technique"],
        row=row("serving", "", line),
        lowest=ComputeCapability.parse(line.get("capability")),
        newest=ComputeCapability.parse(line.get("newest")),
        file=line.get("file"),
        needs=line.get("needs"),
        parallel=line.get("parallel"),
        note=line.get("note"),
    )
    note = f" ({made.note})" if made.note else ""
    text = f"{made.component} {made.versions}, {made.name}: {made.span}{note}"
    return replace(made, row=row("serving", text, line))


def _archs(text: str) -> Iterator[CodeArch]:
    digits = text.removesuffix("+PTX").replace(".", "")
    yield needed(CodeArch.parse(f"sm_{digits}"))
    if text.endswith("+PTX"):
        yield needed(CodeArch.parse(f"compute_{digits}"))


def _image(line: Line, flavour: str) -> TritonImage:
    inside = {name: line[name] for name in _INSIDE if name in line}
    said = ", ".join(f"{name} {version}" for name, version in inside.items())
    text = f"tritonserver {line['container']} ({flavour}): CUDA {line['cuda']} with driver {line['driver']}, {said}"
    return TritonImage(
        container=line["container"],
        flavour=flavour,
        cuda=needed(CudaVersion.parse(line["cuda"])),
        driver=needed(DriverRelease.parse(line["driver"])),
        row=row("serving", text, line),
        inside=inside,
    )
