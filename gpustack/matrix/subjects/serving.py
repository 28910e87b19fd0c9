"""Inference servers: what releases of vLLM, SGLang, TGI, TensorRT-LLM and Triton's images pin and support."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import generated, rows_of, torch
from gpustack.matrix.subjects.ranges import ANY, VersionRange, version_of
from gpustack.model import field, row
from gpustack.model.reading import key, made
from gpustack.model.rows import Stated
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

PARTS = {
    "sglang": "sglang",
    "tgi": "tgi",
    "tensorrt-llm": "tensorrt_llm",
    "triton-inference-server": "triton_inference_server",
}


def _archs(texts: list[str]) -> tuple[CodeArch, ...]:
    return tuple(arch for text in texts for arch in _arch(text))


def _arch(text: str) -> Iterator[CodeArch]:
    """Yield the targets that a word such as 9.0+PTX in PyTorch's TORCH_CUDA_ARCH_LIST means."""
    capability = ComputeCapability.parse(text.removesuffix("+PTX"))
    if capability is None:
        raise ValueError(f"{text!r} is not a compute capability")
    yield CodeArch("sm", capability)
    if text.endswith("+PTX"):
        yield CodeArch("compute", capability)


@row
class ServingRelease(Stated):
    """One release of a server; ``archs`` is its GPU code, empty if no row states it.

    ``stub`` is a pin that only NVIDIA's own index has as a wheel; such a release is not offered.
    """

    version: str
    torch: VersionRange = ANY
    python: VersionRange = ANY
    cuda: CudaVersion | None = None
    stub: str = ""
    archs: tuple[CodeArch, ...] = field(default=(), metadata=key("archs", _archs))

    @property
    def component(self) -> str:
        """The server."""
        return self.part.replace("_", "-")

    def __str__(self) -> str:
        made = f" and is made for CUDA {self.cuda}" if self.cuda else ""
        stub = f"; {self.stub} comes from NVIDIA's index" if self.stub else ""
        return f"{self.component} {self.version} requires torch {self.torch.text or 'of any version'}{made}{stub}"


@row
class Technique(Stated):
    """A technique that a server supports, and what it needs: GPUs from ``lowest`` to ``newest``, a file or a package.

    ``parallel`` names what the number of GPUs must divide, if it uses several.
    """

    component: str
    versions: VersionRange
    name: str = field(metadata=key("technique"))
    lowest: ComputeCapability | None = field(default=None, metadata=key("capability"))
    newest: ComputeCapability | None = None
    file: str | None = None
    needs: str | None = None
    parallel: str | None = None
    note: str | None = None

    @property
    def span(self) -> str:
        """The GPUs that it supports, in words."""
        if self.parallel:
            return f"two GPUs or more, whose number divides the model's {self.parallel}"
        if self.lowest is None:
            return "every GPU that the server runs on"
        if self.newest is None:
            return f"compute capability {self.lowest} or newer"
        return f"compute capability {self.lowest} to {self.newest}"

    def takes(self, gpu: ComputeCapability) -> bool:
        """Return whether it runs on a GPU."""
        return (self.lowest is None or gpu >= self.lowest) and (self.newest is None or gpu <= self.newest)

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.component} {self.versions}, {self.name}: {self.span}{note}"


@row
class VllmRelease(Stated):
    """One release of vLLM; ``cuda`` is that of the torch build that the package index serves for its pin."""

    version: str
    torch: VersionRange
    python: VersionRange
    cuda: CudaVersion | None = None
    glibc: str | None = None

    def __str__(self) -> str:
        return f"vllm {self.version} requires torch {self.torch} and Python {self.python}"


@row
class VllmFloor(Stated):
    """The lowest compute capability that the prebuilt wheels of some vLLM releases support."""

    versions: VersionRange
    capability: ComputeCapability

    def __str__(self) -> str:
        return f"wheels of vllm {self.versions} run from compute capability {self.capability} on"


@row
class Program(Stated):
    """What a program that runs models, or a number format, needs; ``on`` is what a question about it is really about.

    The row is for GPUs from ``capability`` to ``newest``; if a program has several rows, each covers its own GPUs.
    """

    component: str
    words: tuple[str, ...]
    on: str = ""
    torch: VersionRange = ANY
    compiled: bool = False
    capability: ComputeCapability | None = None
    newest: ComputeCapability | None = None
    driver: int | None = None
    gfx: tuple[str, ...] = ()
    unserved: str = ""  # the finding where a GPU is older than it takes
    note: str = ""

    def __str__(self) -> str:
        needs = [
            f"PyTorch {self.torch}" if self.torch.text else "",
            f"compute capability {self.capability}{f' to {self.newest}' if self.newest else ''}"
            * bool(self.capability),
            f"a driver of branch {self.driver} or newer" if self.driver else "",
            "nvcc" if self.compiled else "",
        ]
        return f"{self.component} needs {', '.join(filter(None, needs))}{f' ({self.note})' if self.note else ''}"


@row
class OtherSystem(Stated):
    """What a component does on an operating system without NVIDIA's driver; a row without one covers all others."""

    system: str
    component: str = ""
    works: bool
    says: str

    def __str__(self) -> str:
        return self.says


@row
class RocmWheels(Stated):
    """A release of a server for AMD GPUs: only ``index`` has its wheels, for one Python."""

    component: str
    version: str
    variant: str
    rocm: str
    python: str
    glibc: str
    gfx: tuple[str, ...]
    index: str

    def __str__(self) -> str:
        made = f"{self.component} {self.version}+{self.variant} is for ROCm {self.rocm}, Python {self.python}"
        return f"{made} and {' '.join(self.gfx)}"


def rocm_wheels(matrix: Matrix, component: str, gfx: str) -> RocmWheels | None:
    """Return the newest release of a server that has wheels for an AMD GPU."""
    there = matrix.rows("serving", "rocm", RocmWheels)
    return next((one for one in reversed(there) if one.component == component and gfx in one.gfx), None)


programs = rows_of("programs", "programs", Program)  # what programs and number formats need, as their makers state it


def program_named(matrix: Matrix, name: str) -> Program | None:
    """Return the program or format with this name, spelt as on the package index."""
    return next((one for one in programs(matrix) if name in one.words), None)


def programs_of(matrix: Matrix, component: str) -> tuple[Program, ...]:
    """Return the rows of a program or format; none for anything with releases."""
    return tuple(one for one in programs(matrix) if one.component == component)


def on_system(matrix: Matrix, system: str, component: str) -> OtherSystem | None:
    """Return what is known about a component on a system; without its own row, the row for all others applies."""
    there = [one for one in matrix.rows("programs", "systems", OtherSystem) if one.system == system]
    return next((one for name in (component, "") for one in there if one.component == name), None)


techniques = rows_of("serving", "techniques", Technique)  # what servers support, server by server


def techniques_of(matrix: Matrix, component: str, version: str) -> tuple[Technique, ...]:
    """Return the techniques that this release of a server supports, as far as rows state them."""
    return tuple(one for one in techniques(matrix) if one.component == component and one.versions.holds(version))


def releases(matrix: Matrix, component: str) -> tuple[ServingRelease, ...]:
    """Return every release that was read of a server in PARTS, oldest first; nothing for anything else."""
    if component not in PARTS:
        return ()
    return matrix.rows("serving", PARTS[component], ServingRelease)


def release_of(matrix: Matrix, component: str, version: str) -> ServingRelease | None:
    """Return the release of exactly this version, or None if no row states it."""
    wanted = version_of(version.partition("+")[0])
    found = (one for one in releases(matrix, component) if wanted is not None and version_of(one.version) == wanted)
    return next(found, None)


def vllm_releases(matrix: Matrix) -> tuple[VllmRelease, ...]:
    """Return every release of vLLM whose requirements were read, oldest first."""
    return tuple(_vllm(matrix, one) for one in generated.releases(matrix, "vllm") if one.requires is not None)


def vllm_of(matrix: Matrix, version: str) -> VllmRelease | None:
    """Return the vLLM of exactly this version, or None if no row states it."""
    known = generated.release_of(matrix, "vllm", version)
    return _vllm(matrix, known) if known and known.requires is not None else None


@lru_cache(512)
def _vllm(matrix: Matrix, known: generated.Release) -> VllmRelease:
    """Return what a release pins, with the CUDA of the torch build that the index serves for its pin."""
    pin = known.pin("torch") or ANY
    usual = torch.default_build(matrix, pin.text.removeprefix("==")) if pin.text.startswith("==") else None
    cuda = str(usual.cuda) if usual and usual.cuda else None
    held = {"version": known.version, "torch": pin.text, "python": known.python.text, "cuda": cuda}
    return made({**known.stated, **held, "glibc": known.glibc.get("linux-x86_64")}, VllmRelease)


def vllm_floor(matrix: Matrix, version: str) -> VllmFloor | None:
    """Return the lowest GPU for a release of vLLM, or None if no row states it."""
    floors = matrix.rows("vllm", "gpus", VllmFloor)
    return next((one for one in floors if one.versions.holds(version)), None)
