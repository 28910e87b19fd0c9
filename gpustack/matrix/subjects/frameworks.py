"""JAX, TensorFlow, ONNX and ONNX Runtime: the Python, CUDA, cuDNN, driver and GPU for each release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import generated, rows_of
from gpustack.matrix.subjects.ranges import ANY, VersionRange, is_version, minor, numbers, version_of
from gpustack.model import field, row
from gpustack.model.reading import key, made, whole
from gpustack.model.rows import Stated, driver, spelt
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix


def _spans(said: Mapping[str, str]) -> Mapping[str, VersionRange]:
    return {name: VersionRange.parse(span) for name, span in said.items() if span != "any"}


@row
class JaxRelease(Stated):
    """One release: its Pythons and the CUDA majors that it has builds for."""

    version: str = field(metadata=key("jax"))
    pythons: tuple[str, ...] = field(default=(), metadata=key("python"))
    cuda: tuple[int, ...]
    requires_python: str
    glibc: str | None = None

    def __str__(self) -> str:
        majors = " and ".join(map(str, self.cuda))
        return f"JAX {self.version} has builds for CUDA {majors} and needs Python {self.requires_python}"


@row
class JaxBuild(Stated):
    """One release for one CUDA major; a field is None (or empty) if its source does not mention it."""

    version: str = field(metadata=key("jax"))
    cuda: int
    oldest_cuda: CudaVersion | None = None
    cudnn: str | None = None
    built_cudnn: str | None = None
    driver: DriverRelease | None = field(default=None, metadata=key("driver", driver))
    oldest_gpu: ComputeCapability | None = field(default=None, metadata=key("min_cc"))
    archs: tuple[CodeArch, ...] = ()

    def __str__(self) -> str:
        named = {
            "cuDNN": self.cudnn,
            "driver": spelt(self.driver) if self.driver else None,
            "compute capability": self.oldest_gpu,
        }
        needs = ", ".join(f"{name} {value}" for name, value in named.items() if value)
        return f"JAX {self.version} for CUDA {self.cuda} needs {needs or 'its own libraries'}"


@row
class Plugin(Stated):
    """What the plugin of some releases for one CUDA major requires, by part of CUDA (nvcc, cudart, cublas)."""

    plugin: str
    versions: VersionRange
    requires: Mapping[str, VersionRange] = field(metadata=key("requires", _spans))

    def __str__(self) -> str:
        wanted = ", ".join(f"{name} {span.text}" for name, span in self.requires.items())
        return f"{self.plugin} {self.versions.text} requires {wanted}"


@row
class TensorflowRelease(Stated):
    """One minor release: the CUDA and cuDNN of its GPU build, whose majors are needed at run time.

    ``archs`` is empty if they were not read; ``gpu_wheel`` is the distribution with the GPU build.
    """

    version: str = field(metadata=key("tensorflow"))
    pythons: tuple[str, ...] = field(metadata=key("python"))
    cuda: CudaVersion
    cudnn: str
    archs: tuple[CodeArch, ...] = ()
    glibc: str | None = None
    gpu_wheel: str = "tensorflow"

    def __str__(self) -> str:
        made = f"TensorFlow {self.version} is made with CUDA {self.cuda} and cuDNN {self.cudnn}"
        return f"{made}, for Python {self.pythons[0]} to {self.pythons[-1]}"


@row
class Platform(Stated):
    """Whether some releases of TensorFlow support GPUs on a platform."""

    versions: VersionRange
    platform: str
    gpu: bool


@row
class OnnxRelease(Stated):
    """One minor release of ONNX (1.20), or of ONNX Runtime: the newest opset and format version."""

    name: str = field(metadata=key("origin", lambda origin: "onnxruntime" if origin.endswith("runtimes") else "onnx"))
    version: str = field(metadata=whole(lambda line: line.get("onnxruntime") or line["onnx"]))
    opset: int
    ir: int

    def __str__(self) -> str:
        does = "writes" if self.name == "onnx" else "reads"
        return f"{self.name} {self.version} {does} opset {self.opset} and older, version {self.ir} of the format"


@row
class OrtRelease(Stated):
    """One minor release of onnxruntime-gpu on the package index, built for one CUDA major and one cuDNN major.

    ``sonames`` are what its TensorRT provider links, ``tensorrt`` the release that this provider needs; ``archs`` the
    code in its CUDA provider, empty if not read.
    """

    version: str = field(metadata=key("onnxruntime"))
    cuda: int
    cudnn: int
    pythons: tuple[str, ...] = field(default=(), metadata=key("python"))
    built_cuda: str | None = None
    sonames: tuple[str, ...] = ()
    tensorrt: str | None = None
    glibc: str | None = None
    archs: tuple[CodeArch, ...] = ()

    def __str__(self) -> str:
        trt = f", TensorRT {self.tensorrt} for its provider" if self.tensorrt else ""
        return f"onnxruntime-gpu {self.version} is made for CUDA {self.cuda} and cuDNN {self.cudnn}{trt}"


@row
class Feed(Stated):
    """A build of a minor release (or of some of its patch releases ``only``) for another CUDA, on its own feed."""

    version: str = field(metadata=key("onnxruntime"))
    cuda: int
    cudnn: int
    only: VersionRange = ANY

    def __str__(self) -> str:
        which = f"onnxruntime-gpu {self.version}{self.only.text}"
        return f"{which} for CUDA {self.cuda} and cuDNN {self.cudnn} is on its own feed"


@row
class WheelSpan(Stated):
    """Releases of a wheel or one of its extras, from first to last minor (None: up to now), for one CUDA major."""

    cuda: int
    first: str | None = None
    last: str | None = None
    extra: str | None = None

    def __str__(self) -> str:
        name = {"onnxruntime": "onnxruntime-gpu"}.get(self.part, self.part)
        which = self.extra or f"{self.first} to {self.last or 'now'}"
        return f"{name} {which} is made for CUDA {self.cuda}"


@row
class CondaBuilds(Stated):
    """The CUDA versions for which conda-forge builds one release of PyTorch for Linux."""

    torch: str
    cudas: tuple[CudaVersion, ...] = field(metadata=key("cuda"))

    def __str__(self) -> str:
        return f"conda-forge builds torch {self.torch} for CUDA {', '.join(map(str, self.cudas))}"


@row
class TensorflowPins(Stated):
    """The NumPy that one release of TensorFlow requires, which may differ on Python 3.12 and newer."""

    version: str = field(metadata=key("tensorflow"))
    numpy: VersionRange = ANY
    numpy_312: VersionRange | None = None

    def __str__(self) -> str:
        newer = f", on Python 3.12 and newer {self.numpy_312}" if self.numpy_312 else ""
        return f"tensorflow {self.version} requires numpy {self.numpy}{newer}"

    def on(self, python: str | None) -> VersionRange | None:
        """Return the range for a Python; None if it depends on the Python and none is given."""
        if self.numpy_312 is None:
            return self.numpy
        return None if python is None else self.numpy_312 if numbers(python)[:2] >= (3, 12) else self.numpy


jax_releases = rows_of("jax", "releases", JaxRelease)  # the known releases of JAX, oldest first
# The minor releases of TensorFlow, oldest first.
tensorflow_releases = rows_of("tensorflow", "releases", TensorflowRelease)
onnx_releases = rows_of("onnx", "releases", OnnxRelease)  # every release of ONNX, oldest first
# Every release of ONNX Runtime whose newest opset is stated, oldest first.
onnx_runtimes = rows_of("onnx", "runtimes", OnnxRelease)
# The minor releases of onnxruntime-gpu, oldest first.
onnxruntime_releases = rows_of("onnxruntime", "releases", OrtRelease)


def jax_of(matrix: Matrix, version: str) -> JaxRelease | None:
    """Return the release of exactly this version, or None: a release between two rows may differ from both."""
    wanted = version_of(version.partition("+")[0])
    known = jax_releases(matrix) if wanted is not None else ()
    by_hand = next((one for one in known if version_of(one.version) == wanted), None)
    made_of = None if by_hand else generated.jax_row(matrix, version)
    return made(made_of, JaxRelease) if made_of else by_hand


def jax_build(matrix: Matrix, version: str, cuda: int) -> JaxBuild | None:
    """Return what the build of a JAX version for a CUDA major needs, or None."""
    release = jax_of(matrix, version)
    builds = (one for one in matrix.rows("jax", "builds", JaxBuild) if one.cuda == cuda)
    by_hand = next((one for one in builds if release and one.version == release.version), None)
    plugin = jax_plugin(matrix, version, cuda) if release and not by_hand else None
    if plugin is None or (cudnn := plugin.requires.get("cudnn")) is None:
        return by_hand
    return made({**plugin.stated, "jax": version, "cuda": cuda, "cudnn": cudnn.text}, JaxBuild)


def jax_plugin(matrix: Matrix, version: str, cuda: int) -> Plugin | None:
    """Return what the plugin of a release for a CUDA major requires, or None if no row states it."""
    row = generated.plugin_row(matrix, version, cuda)
    if row:
        return made(row, Plugin)
    plugins = (one for one in matrix.rows("jax", "plugins", Plugin) if one.plugin == f"jax-cuda{cuda}-plugin")
    return next((one for one in plugins if one.versions.holds(version)), None)


def tensorflow_of(matrix: Matrix, version: str) -> TensorflowRelease | None:
    """Return what a TensorFlow (2.16.1) needs, or None if the matrix does not know it."""
    return next((one for one in tensorflow_releases(matrix) if one.version == minor(version)), None)


def tensorflow_pins(matrix: Matrix, version: str) -> TensorflowPins | None:
    """Return the NumPy that exactly this TensorFlow requires, or None if no row states it."""
    return next((one for one in matrix.rows("tensorflow", "pins", TensorflowPins) if one.version == version), None)


def tensorflow_gpu_on(matrix: Matrix, version: str, platform: str) -> bool | None:
    """Return whether this TensorFlow supports GPUs on a platform (windows); None if no row covers it."""
    rows = (one for one in matrix.rows("tensorflow", "platforms", Platform) if one.platform == platform)
    return next((one.gpu for one in rows if one.versions.holds(version)), None)


def onnx_of(matrix: Matrix, version: str) -> OnnxRelease | None:
    """Return the release of ONNX that a version belongs to, or None if no row states it."""
    return _minor_of(onnx_releases(matrix), version)


def onnx_runtime_of(matrix: Matrix, version: str) -> OnnxRelease | None:
    """Return the newest opset and format that a version of ONNX Runtime reads, or None if no row states it."""
    return _minor_of(onnx_runtimes(matrix), version)


def _minor_of(rows: tuple[OnnxRelease, ...], version: str) -> OnnxRelease | None:
    wanted = minor(version) if is_version(version) else ""
    return next((one for one in rows if one.version == wanted), None)


def onnxruntime_of(matrix: Matrix, version: str) -> OrtRelease | None:
    """Return what an onnxruntime-gpu (1.22.0) from the package index needs, or None."""
    patches = matrix.rows("onnxruntime", "patches", OrtRelease)
    rows = {one.version: one for one in (*onnxruntime_releases(matrix), *patches)}
    return rows.get(version.partition("+")[0]) or rows.get(minor(version))


def onnxruntime_feeds(matrix: Matrix, version: str) -> tuple[Feed, ...]:
    """Return the builds of this onnxruntime-gpu for another CUDA."""
    feeds = matrix.rows("onnxruntime", "feeds", Feed)
    return tuple(one for one in feeds if one.version == minor(version) and one.only.holds(version))


def on_conda_forge(matrix: Matrix, version: str, cuda: CudaVersion) -> bool:
    """Return whether conda-forge is known to build this release for this CUDA."""
    rows = matrix.rows("torch_wheels", "conda", CondaBuilds)
    return any(one.torch == version and cuda in one.cudas for one in rows)
