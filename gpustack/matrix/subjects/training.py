"""Training libraries, compilers and Python bindings: which torch, CUDA and GPU their releases are built for."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import generated, rows_of, serving
from gpustack.matrix.subjects.ranges import ANY, VersionRange, version_of
from gpustack.model import field, row
from gpustack.model.reading import key, made
from gpustack.model.rows import Stated
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row


@row
class FlashWheels(Stated):
    """The wheels of one release of flash-attn: torch minors (2.8) and CUDA versions that they are built with."""

    version: str
    torches: tuple[str, ...] = field(metadata=key("torch"))
    cudas: tuple[CudaVersion, ...] = field(metadata=key("cuda"))

    def serves(self, torch: str, cuda: CudaVersion) -> bool:
        """Return whether a wheel of the release fits this torch, built for the same CUDA major."""
        minor = ".".join(torch.split(".")[:2])
        return minor in self.torches and any(one.major == cuda.major for one in self.cudas)

    def __str__(self) -> str:
        cudas = ", ".join(map(str, self.cudas))
        return f"wheels of flash-attn {self.version} are for torch {', '.join(self.torches)} with CUDA {cudas}"


@row
class TorchPin(Stated):
    """The torch that one release of a library requires."""

    component: str
    version: str
    torch: VersionRange = ANY
    python: VersionRange = ANY

    def __str__(self) -> str:
        return f"{self.component} {self.version} requires torch {self.torch.text or 'of any version'}"


@row
class BitsandbytesRelease(Stated):
    """The CUDA and ROCm versions for which one release of bitsandbytes has a library.

    ``near`` is True for a release that loads the nearest of the same major if it has none for exactly this CUDA.
    """

    version: str
    cudas: tuple[CudaVersion, ...] = field(metadata=key("cuda"))
    torch: VersionRange = ANY
    rocms: tuple[str, ...] = field(default=(), metadata=key("rocm"))
    near: bool = False

    def serves(self, cuda: CudaVersion) -> bool:
        """Return whether it has a library that it loads for a torch built for this CUDA."""
        return cuda in self.cudas or (self.near and any(one.major == cuda.major for one in self.cudas))

    def __str__(self) -> str:
        return f"bitsandbytes {self.version} brings CUDA {', '.join(map(str, self.cudas))}"


@row
class BitsandbytesBuild(Stated):
    """The GPU code in the libraries of some releases of bitsandbytes for some CUDA versions."""

    versions: VersionRange
    cuda: VersionRange
    archs: tuple[CodeArch, ...]

    def __str__(self) -> str:
        code = " ".join(map(str, self.archs))
        return f"bitsandbytes {self.versions} for CUDA {self.cuda} has code for {code}"


@row
class EngineRelease(Stated):
    """The oldest CUDA and cuDNN that one release of Transformer Engine supports."""

    version: str
    cuda: VersionRange
    cudnn: VersionRange

    def __str__(self) -> str:
        return f"Transformer Engine {self.version} needs CUDA {self.cuda} and cuDNN {self.cudnn}"


@row
class GpuFloor(Stated):
    """The lowest compute capability that some releases of a library, or the part named by ``what``, support."""

    component: str
    versions: VersionRange = ANY
    capability: ComputeCapability
    what: str

    @property
    def whole(self) -> bool:
        """Whether nothing of it runs on an older GPU."""
        return self.what.startswith("all of it")

    def __str__(self) -> str:
        named = f"{self.component} {self.versions.text}".strip()
        return f"{named}, {self.what}: compute capability {self.capability} or newer"


@row
class CupyNumpy(Stated):
    """The NumPy that the METADATA of some CuPy releases lets pip install; the one in its guide is often older."""

    versions: VersionRange
    numpy: VersionRange

    def __str__(self) -> str:
        return f"CuPy {self.versions} requires numpy {self.numpy}"


@row
class TritonPin(Stated):
    """The Triton that a torch requires, by torch's minor (2.8) or exact release (2.7.1)."""

    torch: str
    triton: VersionRange

    def __str__(self) -> str:
        return f"torch {self.torch} requires triton {self.triton}"


@row
class TritonFloor(Stated):
    """The lowest compute capability that some releases of Triton compile for."""

    versions: VersionRange
    capability: ComputeCapability

    def __str__(self) -> str:
        return f"triton {self.versions} is for compute capability {self.capability} and newer"


@row
class BadPair(Stated):
    """A release of cuda-core that fails with these releases of cuda-bindings, both ends included, and how."""

    core: str
    first: str
    last: str
    outcome: str

    def __str__(self) -> str:
        return f"cuda-core {self.core} with cuda-bindings {self.first} to {self.last}: {self.outcome}"


@row
class BindingsFloor(Stated):
    """What a major version of cuda-bindings loses on a driver below a CUDA version; ``weight`` is its severity."""

    bindings: int
    driver: CudaVersion
    outcome: str
    weight: str

    def __str__(self) -> str:
        return f"cuda-bindings {self.bindings} on a driver below CUDA {self.driver}: {self.outcome}"


# What the wheels of flash-attn are built for, oldest first.
flash_wheels = rows_of("training", "flash_attention", FlashWheels)
# The libraries in each release of bitsandbytes, oldest first.
bitsandbytes = rows_of("training", "bitsandbytes", BitsandbytesRelease)
# The GPU code in the libraries of bitsandbytes.
bitsandbytes_builds = rows_of("training", "bitsandbytes_builds", BitsandbytesBuild)
# What each release of Transformer Engine needs, oldest first.
transformer_engine = rows_of("training", "transformer_engine", EngineRelease)
triton_pins = rows_of("compilers", "triton_pins", TritonPin)  # the Triton of every torch, oldest first


def flash_wheels_of(matrix: Matrix, version: str) -> FlashWheels | None:
    """Return the wheels of a release of flash-attn (post releases are the same), or None if no row states it."""
    return next((one for one in flash_wheels(matrix) if _base(one.version) == _base(version)), None)


def xformers(matrix: Matrix) -> tuple[TorchPin, ...]:
    """Return the torch that each release of xFormers requires, oldest first."""
    return tuple(pin for one in generated.releases(matrix, "xformers") if (pin := _torch_pin(one)))


def xformers_of(matrix: Matrix, version: str) -> TorchPin | None:
    """Return the release of xFormers of exactly this version, or None if no row states it."""
    known = generated.release_of(matrix, "xformers", version)
    return _torch_pin(known) if known else None


def torch_pins(matrix: Matrix, component: str) -> tuple[TorchPin, ...]:
    """Return the torch that each release of another extension requires, oldest first."""
    return tuple(one for one in matrix.rows("training", "torch_pins", TorchPin) if one.component == component)


def torch_pin_of(matrix: Matrix, component: str, version: str) -> TorchPin | None:
    """Return the pin of exactly this release, or None if no row states it."""
    wanted = version_of(version.partition("+")[0])
    return next((one for one in torch_pins(matrix, component) if wanted and version_of(one.version) == wanted), None)


def _torch_pin(known: generated.Release) -> TorchPin | None:
    pin = known.pin("torch")
    if pin is None:
        return None
    held = {"component": known.name, "version": known.version, "torch": pin.text}
    return made({**known.stated, **held, "python": known.python.text}, TorchPin)


def bitsandbytes_of(matrix: Matrix, version: str) -> BitsandbytesRelease | None:
    """Return the release of bitsandbytes of exactly this version, or None if no row states it."""
    wanted = version_of(version.partition("+")[0])
    return next((one for one in bitsandbytes(matrix) if wanted is not None and version_of(one.version) == wanted), None)


def bitsandbytes_torch(matrix: Matrix, version: str) -> tuple[VersionRange, Row] | None:
    """Return the torch that a release of bitsandbytes requires; if it states none, that of the next release that does.

    Its lower bound has only ever risen: what the next release accepts, this one accepts as well.
    """
    known = bitsandbytes_of(matrix, version)
    rows = bitsandbytes(matrix)
    stated = (one for one in rows[rows.index(known) :] if one.torch.text) if known else iter(())
    return next(((one.torch, one.row) for one in stated), None)


def floors_of(matrix: Matrix, component: str, version: str) -> tuple[GpuFloor, ...]:
    """Return the lowest GPUs that a release of a library, and its parts, run on."""
    floors = matrix.rows("training", "floors", GpuFloor)
    return tuple(one for one in floors if one.component == component and one.versions.holds(version))


@lru_cache(2048)
def oldest_gpus(matrix: Matrix, component: str, version: str) -> tuple[ComputeCapability, ...]:
    """Return the lowest GPUs that a release of a library or of vLLM runs on, each by a row of its own."""
    server = serving.vllm_floor(matrix, version) if component == "vllm" else None
    whole = (one.capability for one in floors_of(matrix, component, version) if one.whole)
    return (*whole, *((server.capability,) if server else ()))


def _base(version: str) -> str:
    found = version_of(version)
    return found.base_version if found else version


def cupy_numpy(matrix: Matrix, version: str) -> CupyNumpy | None:
    """Return the NumPy that a release of CuPy lets pip install, or None if no row states it."""
    return next((one for one in matrix.rows("compilers", "cupy_numpy", CupyNumpy) if one.versions.holds(version)), None)


def triton_floor_of(matrix: Matrix, version: str) -> TritonFloor | None:
    """Return the lowest GPU that a release of Triton supports, or None if no row states it."""
    floors = matrix.rows("compilers", "triton_floors", TritonFloor)
    return next((one for one in floors if one.versions.holds(version)), None)


def triton_pin_of(matrix: Matrix, torch: str) -> TritonPin | None:
    """Return the Triton that this torch requires: from its own row, else its minor's, else None."""
    release = torch.partition("+")[0]
    pins = {one.torch: one for one in triton_pins(matrix)}
    return pins.get(release) or pins.get(".".join(release.split(".")[:2]))
