"""The path from the script down to the kernel: the libraries that a process mapped, and the units that kernels used.

Kernels of CUTLASS, and those of cuBLAS and cuDNN built on it, name the class of their instructions: simt, or tensorop
and wmma_tensorop (CUTLASS documentation, "Functionality"); older ones name the shape of the instruction, such as
s16816; nvjet is the family of cuBLAS for the tensor cores of Hopper and later. Anything else stays unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpustack.model.facts import Layer
from gpustack.model.trace import Loaded

MAPS = Path("/proc/self/maps")
# Layers by the name between lib and .so, top of the stack first.
LAYERS = {
    "torch_cuda": Layer.FRAMEWORK,
    "c10_cuda": Layer.FRAMEWORK,
    "onnxruntime_providers_cuda": Layer.FRAMEWORK,
    "cudnn": Layer.LIBRARY,
    "cublas": Layer.LIBRARY,
    "cublasLt": Layer.LIBRARY,
    "nccl": Layer.LIBRARY,
    "nvrtc": Layer.COMPILER,
    "nvJitLink": Layer.COMPILER,
    "cudart": Layer.RUNTIME,
    "cuda": Layer.DRIVER,
}
WITHOUT_LIB = {"xla_cuda_plugin": Layer.FRAMEWORK}  # file names without a lib prefix
SONAME = re.compile(r"/(?:lib)?([\w-]+)\.so(?:\.([\d.]+))?$")
ORDER = [*WITHOUT_LIB, *LAYERS]
PROC_DRIVER, SYS_MODULE = "proc/driver/nvidia/version", "sys/module/nvidia"
MODULE_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+([\d.]+)")
MODULES = ("updates/dkms", "extra", "kernel/drivers/video", "kernel/drivers/video/nvidia", "updates", "video")
DEVICES = ("dev/nvidiactl", "dev/dxg", PROC_DRIVER)
SITE = re.compile(r"^(.*/(?:site|dist)-packages)/(.+)$")
EXPECTED = ("libcudnn", "libcublasLt", "libcudart", "libcuda")
TENSOR = re.compile(
    r"nvjet_|tensorop|_tensor\d+x\d+x\d+|wgmma|hmma|imma|[_:](?:[shi]|bf)(?:884|1688|16816|16832|161616)(?:gemm|fprop|cudnn|_)"
)
PLAIN = re.compile("simt|sgemm|dgemm|ffma")
MATRICES = re.compile("gemm|flash|attention")


def mapped(paths: Iterable[str] | None = None, versions: Mapping[str, str | None] | None = None) -> tuple[Loaded, ...]:
    """Return the CUDA libraries among these paths (else among our own mappings), top first.

    ``versions`` are the known ones, by path or by the name between lib and .so.
    """
    known, found = dict(versions or {}), dict[str, Loaded]()
    for path in dict.fromkeys(ours() if paths is None else paths):
        match = SONAME.search(path.removesuffix(" (deleted)"))
        layer = LAYERS.get(match[1]) or WITHOUT_LIB.get(match[1]) if match else None
        if match and layer:
            version = known.get(path) or known.get(match[1]) or numbered(path) or match[2]
            name = f"lib{match[1]}" if match[1] in LAYERS else match[1]
            found.setdefault(path, Loaded(layer=layer, name=name, file=path, version=version))
    return tuple(sorted(found.values(), key=lambda one: ORDER.index(one.name.removeprefix("lib"))))


def ours() -> list[str]:
    """Return the files mapped by our own process."""
    lines = MAPS.read_text("utf-8", "replace").splitlines()
    return [line[place:] for line in lines if (place := line.find("/")) >= 0]


def numbered(path: str) -> str | None:
    """Return the version in the real file's name: libcuda.so.580.159.04."""
    match = SONAME.search(str(Path(path).resolve()))
    return match[2] if match and match[2] and "." in match[2] else None


def chain(
    script: str,
    framework: Loaded | None,
    paths: Sequence[str],
    versions: Mapping[str, str],
    *,
    why_not: str | None,
    root: str = "/",
) -> tuple[Loaded, ...]:
    """Return the links, top first; ``why_not`` says why the framework reaches no GPU, which ends the chain."""
    top = (Loaded(layer=Layer.APPLICATION, name="script", file=script), *([framework] if framework else ()))
    known = {path: _version(path, versions) for path in paths}
    below = mapped(paths, known)
    bindings = tuple(one for one in below if one.layer is Layer.FRAMEWORK)
    if why_not is not None or framework is None:
        return (*top, *below, _end(below, why_not or "the framework was not imported"))
    return (*top, *bindings, *_with_missing([one for one in below if one not in bindings]), *_kernel(root))


def _end(below: Sequence[Loaded], why: str) -> Loaded:
    """Return the end of the chain: the link below the lowest loaded one."""
    names = {one.name for one in below}
    if "libcuda" in names:
        return Loaded(layer=Layer.KERNEL_MODULE, name="nvidia.ko", missing=why)
    if names:
        return Loaded(layer=Layer.DRIVER, name="libcuda", missing=why)
    return Loaded(layer=Layer.FRAMEWORK, name="way to a GPU", missing=why)


def there(root: str = "/") -> bool:
    """Return whether an NVIDIA GPU is available to programs here, or its driver is loaded."""
    return any(Path(root, device).exists() for device in DEVICES)


def _with_missing(found: Sequence[Loaded]) -> Iterator[Loaded]:
    """Yield the libraries, with a note in place of each expected one that is missing."""
    names = {one.name for one in found}
    absent = [
        Loaded(layer=LAYERS[name.removeprefix("lib")], name=name, missing="not loaded as a file of its own by this run")
        for name in EXPECTED
        if name not in names
    ]
    order = list(Layer)
    yield from sorted((*found, *absent), key=lambda one: (-order.index(_down(one.layer)), one.name == "libcublasLt"))


def _down(layer: Layer) -> Layer:
    """Return the layer that a link is sorted by: compilers are beside the libraries that call them."""
    return Layer.LIBRARY if layer is Layer.COMPILER else layer


def _version(path: str, versions: Mapping[str, str]) -> str | None:
    """Return the version of a file: the driver's release in its name, its own report, or its wheel's."""
    if "/libcuda.so" in path:
        return " ".join(filter(None, (numbered(path), f"({versions[path]})" if path in versions else None))) or None
    return versions.get(path) or wheel(path)


def wheel(path: str) -> str | None:
    """Return the version of the wheel that installed a file, from the wheel's list of files."""
    if (match := SITE.match(path)) is None:
        return None
    try:
        for record in sorted(Path(match[1]).glob("*.dist-info/RECORD")):
            if f"\n{match[2]}," in "\n" + record.read_text("utf-8", "replace"):
                return record.parent.name.removesuffix(".dist-info").rpartition("-")[2]
    except OSError:
        return None
    return None


def _kernel(root: str) -> Iterator[Loaded]:
    """Yield the kernel module and the kernel."""
    release = os.uname().release
    try:
        said = MODULE_VERSION.search(Path(root, PROC_DRIVER).read_text("utf-8", "replace"))
    except OSError:
        missing = f"/{PROC_DRIVER} is not there: no driver of NVIDIA's is loaded, or it is hidden from this container"
        yield Loaded(layer=Layer.KERNEL_MODULE, name="nvidia.ko", missing=missing)
    else:
        yield Loaded(
            layer=Layer.KERNEL_MODULE,
            name="nvidia.ko",
            file=_module(release, root) or f"/{PROC_DRIVER}",
            version=said[1] if said else None,
        )
    yield Loaded(layer=Layer.KERNEL, name="Linux", file="/proc/version", version=release)


def _module(release: str, root: str) -> str | None:
    """Return the module's file, if the folder of this kernel's modules is readable."""
    for folder in MODULES:
        for name in ("nvidia.ko", "nvidia.ko.xz", "nvidia.ko.zst", "nvidia.ko.gz"):
            path = Path(root, "lib/modules", release, folder, name)
            if path.exists():
                return str(path)
    return f"/{SYS_MODULE}" if Path(root, SYS_MODULE).exists() else None


def units(name: str) -> bool | None:
    """Return whether a kernel with this name uses the tensor cores; None if its name does not say."""
    if TENSOR.search(name):
        return True
    _, native, rest = name.rpartition("at::native::")
    return False if PLAIN.search(name) or (native and not MATRICES.search(rest)) else None
