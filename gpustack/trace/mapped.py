"""The CUDA libraries that a process has really mapped, with their real paths and what is known of their versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpustack.model.facts import Layer
from gpustack.model.trace import Loaded

MAPS = Path("/proc/self/maps")
# By the name between lib and .so, top of the stack first: at which layer it is.
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
WITHOUT_LIB = {"xla_cuda_plugin": Layer.FRAMEWORK}  # names of files that have no lib in front
SONAME = re.compile(r"/(?:lib)?([\w-]+)\.so(?:\.([\d.]+))?$")
ORDER = [*WITHOUT_LIB, *LAYERS]


def mapped(paths: Iterable[str] | None = None, versions: Mapping[str, str | None] | None = None) -> tuple[Loaded, ...]:
    """Give the libraries of CUDA among these paths (else among what we have mapped ourselves), top first.

    ``versions`` are those that are known, by the path or by the name between lib and .so.
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
    """Give the files that our own process has mapped."""
    lines = MAPS.read_text("utf-8", "replace").splitlines()
    return [line[place:] for line in lines if (place := line.find("/")) >= 0]


def numbered(path: str) -> str | None:
    """Give the version that the name of the file behind the links tells: libcuda.so.580.159.04."""
    match = SONAME.search(str(Path(path).resolve()))
    return match[2] if match and match[2] and "." in match[2] else None
