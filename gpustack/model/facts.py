"""What was observed on a machine, before any judgement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from gpustack.model import field, record

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    JsonValue: TypeAlias = "bool | int | float | str | tuple[JsonValue, ...] | Mapping[str, JsonValue] | None"
else:
    JsonValue = object

# The display names of components whose ids are spelt differently; an id that is missing here is its own name.
PRODUCTS: Mapping[str, str] = {
    "nvidia-driver": "NVIDIA driver",
    "cuda-toolkit": "CUDA toolkit",
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "onnxruntime": "ONNX Runtime",
    "vllm": "vLLM",
    "ollama": "Ollama",
    "comfyui": "ComfyUI",
    "ipex": "IPEX",
    "unsloth": "Unsloth",
    "flash-attention-2": "FlashAttention 2",
    "flash-attention-3": "FlashAttention 3",
    **{one: one.upper() for one in ("fp4", "fp8", "bf16", "tf32")},
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "cublas": "cuBLAS",
    "cublaslt": "cuBLASLt",
    "tensorrt": "TensorRT",
    "triton": "Triton",
    "cupy": "CuPy",
    "numpy": "NumPy",
    "nvml": "NVML",
    "opencl": "OpenCL",
    "vulkan": "Vulkan",
    "rocm": "ROCm",
    "gcc": "GCC",
    "clang": "Clang",
    "python": "Python",
    "flash-attention": "flash-attn",
}


def product(component: str) -> str:
    """Return the display name of a component: PyTorch for ``pytorch``."""
    return PRODUCTS.get(component, component)


class Layer(str, Enum):
    """The layers of the stack, bottom first, and the two beside them."""

    HARDWARE = "hardware"
    KERNEL = "kernel"
    KERNEL_MODULE = "kernel-module"
    DRIVER = "driver"
    RUNTIME = "runtime"
    LIBRARY = "library"
    COMPILER = "compiler"
    FRAMEWORK = "framework"
    SERVING = "serving"
    APPLICATION = "application"
    ENVIRONMENT = "environment"
    CONTAINER = "container"


class Status(str, Enum):
    """The status of a component. ``absent`` means not found; ``unknown`` is neither good nor bad."""

    PRESENT = "present"
    ABSENT = "absent"
    FAILED = "failed"
    NOT_APPLICABLE = "not-applicable"
    UNKNOWN = "unknown"


class Strength(str, Enum):
    """How a fact was obtained, strongest first: a probe measured it, a tool printed it, a message implies it.

    A person wrote what is ``stated``.
    """

    MEASURED = "measured"
    PRINTED = "printed"
    MESSAGE = "message"
    STATED = "stated"

    def beats(self, other: Strength) -> bool:
        """Return whether a fact obtained this way takes precedence over one obtained the other way."""
        order = tuple(Strength)
        return order.index(self) < order.index(other)


@record
class Call:
    """One call to a vendor's library or the system, its result, and how long it took."""

    name: str
    seconds: float = 0.0
    outcome: str = ""


@record
class Instance:
    """One copy of a component: a GPU, a library file, a wheel in one Python (``environment`` is its path).

    ``strengths`` are those of the facts that no probe measured, by name; version, build and path are among them.
    """

    key: str
    version: str | None = None
    build: str | None = None
    path: str | None = None
    environment: str | None = None
    status: Status = Status.PRESENT
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    strengths: Mapping[str, Strength] = field(default_factory=dict)


@record
class Component:
    """One system of the stack on this machine: the copy in use first, then every other copy found.

    ``source`` says how it was found, ``reason`` why it failed or is unknown, ``seconds`` how long the probe took.
    """

    id: str
    layer: Layer
    vendor: str = "any"
    status: Status
    version: str | None = None
    build: str | None = None
    path: str | None = None
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    source: str = ""
    reason: str | None = None
    seconds: float = 0.0
    instances: tuple[Instance, ...] = ()
    calls: tuple[Call, ...] = ()


@record
class Host:
    """A summary of the machine. ``virtualisation`` and ``container``: None on bare metal, "unknown" if not checked."""

    hostname: str | None = None
    os: str | None = None
    kernel: str | None = None
    machine: str | None = None
    virtualisation: str | None = None
    container: str | None = None
    wsl: bool = False


@record
class Environment:
    """One Python whose packages were examined; the first is the chosen one.

    ``kind`` is venv, conda, system, own, pipx, uv tool, uv, pyenv or "jupyter kernel NAME"; ``found`` marks those that
    were discovered, neither named nor active.
    """

    python: str
    kind: str = ""
    version: str | None = None
    prefix: str | None = None
    found: bool = False


@record
class Unseen:
    """Something that could not be checked, why, and what would make it possible (None: nothing known)."""

    what: str
    why: str = ""
    enable_by: str | None = None


OTHER_CHECKS = Unseen(what="all other checks", why="--only was given")
AT_WORK = "gpu-at-work"  # the kind of message that says that a program used a GPU and nothing failed
# The kinds that say that something is wrong with a GPU, but not what: beside them no result proves that all is well.
ILL = frozenset(
    (
        *("hang", "gpu-vanishes", "machine-gone-said", "rminit-failed", "no-device", "works-as-root", "suspended"),
        *("cuda-available-false", "cuda-fails-said", "container-fails-said", "smi-fails-said", "gpu-error"),
        *("init-error", "cuda-unknown-error", "cuda-launch-failure", "crash-said", "nccl-error", "nccl-system-error"),
        *("second-gpu-wrong", "slower-said", "worse-said", "jax-falls-back", "jax-cpu-listed"),
        *("llama-no-gpu", "tf-gpu-empty", "smi-no-devices", "cuda-count-failed", "ort-provider-failed"),
        "bus-error-plain",
    )
)
IS_OVER = "former-fault"  # the kind of message that reports a fault of the past


@record
class Message:
    """A recognised message of a program or the kernel: its kind, the line, where it is, and the values in it.

    The kinds are rows of the matrix (``messages_*.toml``); the values are named by the row's pattern.
    """

    kind: str
    line: str = ""
    origin: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    strength: Strength = Strength.MESSAGE


class Remembering:
    """A cache for the results of questions about an immutable object (see ``once``)."""

    __slots__ = ("memo",)
    memo: dict[tuple[object, ...], Any]


@record
class Facts(Remembering):
    """Everything observed on one machine. ``taken`` is a date and time in UTC; ``deep``: frameworks were run.

    ``messages`` are what programs on it printed, if a text was provided; ``words`` are the words of such texts that the
    index of candidates contains.
    """

    taken: str = ""
    host: Host = field(default_factory=Host)
    components: tuple[Component, ...] = ()
    environments: tuple[Environment, ...] = ()
    not_seen: tuple[Unseen, ...] = ()
    messages: tuple[Message, ...] = ()
    words: tuple[str, ...] = ()
    deep: bool = False
    seconds: float = 0.0

    def find(self, component: str) -> Component | None:
        """Return the component with this id, or None if it was not probed."""
        return by_id(self).get(component)


def once(question: Callable[Concatenate[Facts, P], T]) -> Callable[Concatenate[Facts, P], T]:
    """Return the result of a question, computed once for these facts and arguments; it must depend on nothing else."""

    @wraps(question)
    def asked(facts: Facts, /, *words: P.args, **named: P.kwargs) -> T:
        key = (question, words, *named.items()) if named else (question, words)
        try:
            answer: T = facts.memo[key]
        except KeyError:
            pass
        except AttributeError:  # no cache yet: new facts, a copy, or facts that another process sent
            object.__setattr__(facts, "memo", {})
        else:
            return answer
        answer = facts.memo[key] = question(facts, *words, **named)
        return answer

    return asked


@once
def by_id(facts: Facts) -> dict[str, Component]:
    """Return the components by id; the first if two share one."""
    return {seen.id: seen for seen in reversed(facts.components)}
