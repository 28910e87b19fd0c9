"""What the user wants to have traced, as the command line understood it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which model, on what, and for how long at most.

    ``precision`` is None where the one that suits the ground is wanted: bf16 (fp16 before compute capability 8.0) on a
    GPU, fp32 on the CPU. ``batches`` are further batches of which a GPU is to tell the time (``Trace.batches``).
    ``timeout`` is in seconds, for all.
    """

    model: str = "mlp"
    size: str = "small"
    precision: str | None = None
    gpu: int = 0
    batches: tuple[int, ...] = ()
    pythons: tuple[str, ...] = ()
    framework: str | None = None
    onnx: Path | None = None
    timeout: float = 120.0


class Progress(Protocol):
    """Hears which step begins."""

    def step(self, number: int, name: str) -> None:
        """Say that this step has begun."""
        ...

    def close(self) -> None:
        """Say nothing more."""
        ...


class Silent:
    """Hears it and says nothing."""

    def step(self, number: int, name: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
