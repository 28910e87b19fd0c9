"""Weights and input of a model in one piece of memory, one behind the other, so that one copy brings them all over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.trace.numbers import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from gpustack.trace.models import Model
    from gpustack.trace.reference import Array

ALIGNED = 256  # as allocations of the device are: kernels and libraries count on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """Where each weight and the input begins, and how long all is; the input lies at the end."""

    places: Mapping[str, int]
    sizes: Mapping[str, int]
    size: int

    def place(self, name: str) -> tuple[int, int]:
        """Give where a tensor begins and how many bytes it has."""
        return self.places[name], self.sizes[name]


def lay(model: Model) -> Arena:
    """Give the places of the tensors of a model."""
    places, sizes, at = dict[str, int](), dict[str, int](), 0
    for one in (*model.weights, model.input):
        places[one.name], sizes[one.name] = at, one.count * model.width
        at += -(-sizes[one.name] // ALIGNED) * ALIGNED
    return Arena(places=places, sizes=sizes, size=at)


def fill(arena: Arena, model: Model, values: Mapping[str, Array]) -> NDArray[np.uint8]:
    """Give the bytes of all tensors in ordinary memory, as they lie in the precision of the model."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    held = np.zeros(arena.size, np.uint8)
    for name, place in arena.places.items():
        raw = encode(np.asarray(values[name], np.float32), model.precision)
        held[place : place + arena.sizes[name]] = raw.reshape(-1).view(np.uint8)
    return held
