"""The numbers of a model: the same on every machine and in every numpy, each a function of seed and place.

The hash is "lowbias32" of Chris Wellons' hash-prospector (https://github.com/skeeto/hash-prospector, public domain);
its 24 upper bits, as k / 2^24 + 2^-25, are uniform over 0 to 1. What it yields is rounded to the precision of the
model, and these rounded numbers are the model: the truth in float64 is computed from them too.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gpustack.trace.models import Model, Tensor

    Floats: TypeAlias = NDArray[np.float32]
    Raw: TypeAlias = NDArray[np.float32] | NDArray[np.float16] | NDArray[np.uint16]

CHUNK = 1 << 16  # numbers at a time, so that they stay in the processor's cache
SHARE = 1 << 22  # numbers of one thread at a time
FIRST, SECOND = 0x7FEB352D, 0x846CA68B


def made(model: Model, tensor: Tensor) -> Floats:
    """Give the numbers of a weight or of the input as float32, rounded to the precision of the model."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    out = np.empty(tensor.count, np.float32)
    shares = range(0, tensor.count, SHARE)
    with ThreadPoolExecutor() as pool:  # numpy lets go of the interpreter while it computes
        for _ in pool.map(lambda begin: _fill(out[begin : begin + SHARE], begin, tensor, model), shares):
            pass
    return out.reshape(tensor.shape)


def _fill(out: Floats, offset: int, tensor: Tensor, model: Model) -> None:
    """Write the numbers of a tensor from this place on."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    for begin in range(0, len(out), CHUNK):
        part = out[begin : begin + CHUNK]
        place = tensor.first + offset + begin
        bits = np.arange(place, place + len(part), dtype=np.uint32)
        unit = (_hashed(bits ^ np.uint32(model.seed)) >> np.uint32(8)).astype(np.float32)
        unit *= np.float32(2 * tensor.spread / 2**24)
        unit += np.float32(tensor.centre - tensor.spread + tensor.spread / 2**24)
        part[:] = rounded(unit, model.precision)


def encode(numbers: Floats, precision: str) -> Raw:
    """Give float32 numbers as they lie in memory: float32, float16, or the upper half of a float32 (bf16) as uint16."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    if precision == "bf16":
        halves: NDArray[np.uint16] = (_nearest(numbers) >> np.uint32(16)).astype(np.uint16)
        return halves
    if precision == "fp16":
        return np.ascontiguousarray(numbers, np.float16)
    return np.ascontiguousarray(numbers, np.float32)


def decode(raw: bytes | bytearray | memoryview, precision: str, shape: tuple[int, ...]) -> Floats:
    """Give what lies in memory as float32 numbers of this shape."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    if precision == "bf16":
        wide: Floats = (np.frombuffer(raw, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        return wide.reshape(shape)
    kind = np.float16 if precision == "fp16" else np.float32
    return np.frombuffer(raw, kind).astype(np.float32).reshape(shape)


def rounded(numbers: Floats, precision: str) -> Floats:
    """Give float32 numbers rounded to what the precision can hold."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    if precision == "bf16":
        cut: Floats = (_nearest(numbers) & np.uint32(0xFFFF0000)).view(np.float32)
        return cut
    return numbers.astype(np.float16).astype(np.float32) if precision == "fp16" else numbers


def _nearest(numbers: Floats) -> NDArray[np.uint32]:
    """Give the bits of float32 numbers, rounded so that the upper half is the nearest bf16 (ties to even)."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    quiet = bits | np.uint32(0x00400000)  # what is not a number must not be rounded to infinity
    nearest: NDArray[np.uint32] = np.where(np.isnan(bits.view(np.float32)), quiet, bits + up)
    return nearest


def _hashed(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    bits = bits ^ (bits >> np.uint32(16))
    bits *= np.uint32(FIRST)
    bits ^= bits >> np.uint32(15)
    bits *= np.uint32(SECOND)
    bits ^= bits >> np.uint32(16)
    return bits
