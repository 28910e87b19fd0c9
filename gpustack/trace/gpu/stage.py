"""What stands on the stage while a model is followed: the card, the model on it, its numbers on the host, the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import ExitStack

    import numpy as np
    from numpy.typing import NDArray

    from gpustack.bench.calls import Calls
    from gpustack.bench.card import Card, Memory
    from gpustack.bench.child import Desk
    from gpustack.trace.gpu.arena import Arena
    from gpustack.trace.gpu.device import Gate, Products, Runner
    from gpustack.trace.gpu.telling import Telling
    from gpustack.trace.models import Model
    from gpustack.trace.reference import Array


@dataclass(slots=True, kw_only=True)
class Stage:
    """What the story leaves behind for the figures: the model on the card, its numbers on the host, and the graph."""

    desk: Desk
    card: Card
    model: Model
    arena: Arena
    telling: Telling
    stack: ExitStack
    values: dict[str, Array] = field(default_factory=dict)
    truth: Array | None = None
    raw: NDArray[np.uint8] | None = None
    pinned: Memory | None = None
    answer: Memory | None = None
    weights: int = 0
    products: Products | None = None
    runner: Runner | None = None
    graph: Calls | None = None
    gate: Gate | None = None
    tries: int = 0

    def made(self) -> Runner:
        """Give the model on the card; step 3 makes it."""
        if self.runner is None:
            raise RuntimeError("the model is not on the card yet")
        return self.runner

    def host(self) -> Memory:
        """Give the pinned memory with weights and input; step 1 fills it."""
        if self.pinned is None:
            raise RuntimeError("the weights are not in memory yet")
        return self.pinned
