"""JAX as far as our child calls it, in numpy; with FAKE_GPU it has a GPU, with FAKE_SAYS it refuses in these words."""

# ruff: noqa: ANN401 - what JAX takes has any type

from __future__ import annotations

import logging
import os
import signal
from types import SimpleNamespace
from typing import Any

import numpy as np

if os.environ.get("FAKE_SAYS") and os.environ.get("FAKE_AT") == "import":
    raise ImportError(os.environ["FAKE_SAYS"])
__version__ = "0.0.1"
config = SimpleNamespace(update=lambda _name, _value: None)
numpy = SimpleNamespace(**{name: getattr(np, name) for name in ("float32", "sqrt", "where", "tri", "inf")})
numpy.bfloat16 = np.float32


def _softmax(given: Any, axis: int) -> Any:
    powers = np.exp(given - given.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _gelu(x: Any, *, approximate: bool) -> Any:
    assert approximate
    return 0.5 * x * (1 + np.tanh(np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)))


nn = SimpleNamespace(relu=lambda x: np.maximum(x, 0), gelu=_gelu, softmax=_softmax)


def devices(kind: str) -> list[Any]:
    """Return a device, or raise if there is none."""
    if kind == "gpu" and not os.environ.get("FAKE_GPU"):
        if "FAKE_WARNS" in os.environ:
            logging.getLogger("jax._src.xla_bridge").warning(os.environ["FAKE_WARNS"])
        raise RuntimeError(os.environ.get("FAKE_SAYS", "Unknown backend: 'gpu' requested"))
    return [SimpleNamespace(device_kind="Stand-in", platform=kind)]


def device_put(given: Any, _device: Any) -> Any:
    """Put it nowhere."""
    if os.environ.get("FAKE_AT") == "copy":
        os.kill(os.getpid(), signal.SIGSEGV)
    return given


def block_until_ready(given: Any) -> Any:
    """Wait for nothing."""
    return given


class Jit:
    """Compile nothing; with FAKE_WRONG the result is wrong."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *given: Any) -> Any:
        """Call it."""
        answer = self.function(*given)
        return answer * 1.5 if os.environ.get("FAKE_WRONG") and not isinstance(answer, dict) else answer

    def lower(self, *_given: Any) -> Jit:
        """Return itself."""
        return self

    def compile(self) -> Jit:
        """Return itself."""
        return self


jit = Jit
