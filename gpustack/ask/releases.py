"""The releases of a component that the matrix knows: those that can be asked about, and those to offer instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.matrix.subjects import (
    amd_intel,
    drivers,
    frameworks,
    generated,
    gpus,
    libraries,
    serving,
    toolkits,
    torch,
    training,
)
from gpustack.matrix.subjects.ranges import version_of
from gpustack.model import record
from gpustack.model.versions import ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpustack.matrix import Matrix


@record
class Candidate:
    """A release to offer: its version, and the specifier that names it in a command."""

    version: str
    spec: str


# Servers, each made for one torch: a release whose pins were not read is not offered. One of SGLang pins a wheel that
# the package index has as a stub alone.
PINNED = frozenset({"vllm", "sglang"})


def candidates(matrix: Matrix, component: str) -> tuple[Candidate, ...]:
    """Return the releases of a component that may be offered, oldest first; none for one without releases here."""
    find = FIND.get(component)
    by_hand = {one.version: one for one in (find(matrix) if find else ())}
    main = generated.DISTRIBUTIONS.get(component, (component,))[0]
    listed = generated.releases(matrix, main) if main not in generated.PURE else ()
    there = (one for one in listed if one.wheels and not one.yanked and (one.requires or component not in PINNED))
    found = {**{one.version: Candidate(version=one.version, spec=f"=={one.version}") for one in there}, **by_hand}
    offered = (one for one in found.values() if not generated.unserved(matrix, main, one.version))
    return tuple(sorted(offered, key=lambda one: version_of(one.version) or version_of("0")))  # type: ignore[arg-type,return-value] # "0" is one


def release_named(matrix: Matrix, component: str, version: str) -> str | None:
    """Return a version as the matrix writes it if it states exactly that release: 2.11 is 2.11.0."""
    wanted = version_of(version)
    known = (one.version for one in candidates(matrix, component) if version_of(one.version) == wanted)
    return next(known, None) if wanted else None


def known(matrix: Matrix, component: str, version: str) -> bool:
    """Return whether the matrix states anything about this very release, not only about others with its minor."""
    if version_of(version) is None:
        return component == "gpu" and _gpu(matrix, version)
    if any(generated.of_component(matrix, component, version)):
        return True
    if generated.missing(matrix, component, version):
        return component not in BY_MINOR and release_named(matrix, component, version) is not None
    test = KNOWN.get(component)
    return test(matrix, version) if test else release_named(matrix, component, version) is not None


def _exact(versions: Iterable[str]) -> Iterator[Candidate]:
    return (Candidate(version=one, spec=f"=={one}") for one in versions)


def _minors(versions: Iterable[str]) -> Iterator[Candidate]:
    """Return releases known only by their minor; an index lists their patch releases."""
    return (Candidate(version=f"{one}.0", spec=f"=={one}.*") for one in versions)


def _companions(matrix: Matrix, name: str) -> Iterator[Candidate]:
    rows = matrix.rows("torch_wheels", "companions", torch.Companions)
    return _exact(found for one in rows if (found := one.torchvision if name == "torchvision" else one.torchaudio))


def _pins(matrix: Matrix, component: str) -> Iterator[Candidate]:
    return _exact(one.version for one in training.torch_pins(matrix, component))


def _cudnn(matrix: Matrix) -> Iterator[Candidate]:
    for one in libraries.cudnn_releases(matrix):
        yield Candidate(version=one.versions.text.partition(",")[0].removeprefix(">="), spec=one.versions.text)


def _drivers(matrix: Matrix) -> Iterator[Candidate]:
    return _exact(str(one.last) for one in drivers.branches(matrix) if one.last)


def _floors(matrix: Matrix, component: str, version: str) -> bool:
    return bool(training.floors_of(matrix, component, version)) or release_named(matrix, component, version) is not None


def _gpu(matrix: Matrix, name: str) -> bool:
    capability = ComputeCapability.parse(name) or gpus.capability_of(matrix, name)
    return matrix.arch(capability) is not None if capability else amd_intel.gfx_of(matrix, name) is not None


FIND: Mapping[str, Callable[[Matrix], Iterable[Candidate]]] = {
    "pytorch": lambda matrix: _exact(one.version for one in torch.releases(matrix)),
    "torchvision": lambda matrix: _companions(matrix, "torchvision"),
    "torchaudio": lambda matrix: _companions(matrix, "torchaudio"),
    "tensorflow": lambda matrix: _minors(one.version for one in frameworks.tensorflow_releases(matrix)),
    "onnxruntime": lambda matrix: _minors(one.version for one in frameworks.onnxruntime_releases(matrix)),
    "onnx": lambda matrix: _minors(one.version for one in frameworks.onnx_releases(matrix)),
    "jax": lambda matrix: _exact(one.version for one in frameworks.jax_releases(matrix)),
    "vllm": lambda matrix: _exact(one.version for one in serving.vllm_releases(matrix)),
    "sglang": lambda matrix: _exact(one.version for one in serving.releases(matrix, "sglang") if not one.stub),
    "image": lambda matrix: _exact(one.month for one in toolkits.months(matrix)),
    "tgi": lambda matrix: _exact(one.version for one in serving.releases(matrix, "tgi")),
    "tensorrt-llm": lambda matrix: _exact(one.version for one in serving.releases(matrix, "tensorrt-llm")),
    "triton-inference-server": lambda matrix: _exact(
        one.version for one in serving.releases(matrix, "triton-inference-server")
    ),
    "flash-attention": lambda matrix: _exact(one.version for one in training.flash_wheels(matrix)),
    "xformers": lambda matrix: _exact(one.version for one in training.xformers(matrix)),
    "bitsandbytes": lambda matrix: _exact(one.version for one in training.bitsandbytes(matrix)),
    "transformer-engine": lambda matrix: _minors(one.version for one in training.transformer_engine(matrix)),
    "torch-tensorrt": lambda matrix: _pins(matrix, "torch-tensorrt"),
    "intel-extension-for-pytorch": lambda matrix: _pins(matrix, "intel-extension-for-pytorch"),
    "megatron-lm": lambda matrix: _pins(matrix, "megatron-lm"),
    "cuda-toolkit": lambda matrix: _exact(one.version for one in toolkits.releases(matrix)),
    "nvidia-driver": _drivers,
    "cudnn": _cudnn,
    "nccl": lambda matrix: _exact(one.version for one in libraries.nccl_releases(matrix)),
    "tensorrt": lambda matrix: _exact(one.version for one in libraries.tensorrt_releases(matrix)),
}


def _toolkit(matrix: Matrix, version: str) -> bool:
    cuda = CudaVersion.parse(version)
    return any(one.cuda == cuda for one in toolkits.releases(matrix))


def _branch(matrix: Matrix, version: str) -> bool:
    number = version.partition(".")[0]
    on_windows = {one.windows.branch for one in toolkits.releases(matrix) if one.windows}
    return number.isdecimal() and (drivers.branch_of(matrix, int(number)) is not None or int(number) in on_windows)


BY_MINOR = frozenset({"tensorflow", "onnxruntime", "onnx", "transformer-engine"})  # whose handwritten rows state minors
KNOWN: Mapping[str, Callable[[Matrix, str], bool]] = {
    "tensorflow": lambda matrix, version: frameworks.tensorflow_of(matrix, version) is not None,
    "onnxruntime": lambda matrix, version: frameworks.onnxruntime_of(matrix, version) is not None,
    "onnx": lambda matrix, version: frameworks.onnx_of(matrix, version) is not None,
    "jax": lambda matrix, version: frameworks.jax_of(matrix, version) is not None,
    "cudnn": lambda matrix, version: libraries.cudnn_of(matrix, version) is not None,
    "nccl": lambda matrix, version: libraries.nccl_of(matrix, version) is not None,
    "tensorrt": lambda matrix, version: libraries.tensorrt_of(matrix, version) is not None,
    "cuda-toolkit": _toolkit,
    "nvidia-driver": _branch,
    "rocm": lambda matrix, version: bool(amd_intel.support_of(matrix, version)),
    "gpu": _gpu,
    **dict.fromkeys(("gcc", "clang", "python", "linux-kernel"), lambda _matrix, _version: True),
    "flash-attention": lambda matrix, version: _floors(matrix, "flash-attention", version),
    "xformers": lambda matrix, version: _floors(matrix, "xformers", version),
    "bitsandbytes": lambda matrix, version: _floors(matrix, "bitsandbytes", version),
    "transformer-engine": lambda matrix, version: _floors(matrix, "transformer-engine", version),
    "vllm": lambda matrix, version: (
        serving.vllm_of(matrix, version) is not None or serving.vllm_floor(matrix, version) is not None
    ),
}
