"""What one multiprocessor's tensor cores do in a clock: the rate, independent of clock, memory and library.

Not a benchmark: it runs for under a millisecond before the matrix products, so that their ceiling is that of this very
chip; some have half the rate of their architecture, or less. FLOP (or integer operations) a clock and multiprocessor =
warps x products x 2 m n k / cycles. A rate is kept only if every sum came out right.

On Hopper mma.sync reaches only a part of the rate; its own wgmma, where it was compiled here, reaches all.
"""

from __future__ import annotations

import struct
from ctypes import c_uint32
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.bench.lab import Lab

DEPTHS = {"fp16": 16, "bf16": 16, "tf32": 8, "fp8": 32, "int8": 32}
CHAINS = 8
ROUNDS = 512
# The instruction, its operations a unit of depth, how many of it a warp does in a round, and threads a block.
INSTRUCTIONS = (("wgmma", 2 * 64 * 64 / 4, 1, 512), ("mma", 2 * 16 * 8, CHAINS, 512))


def rates(lab: Lab) -> dict[str, dict[str, object]]:
    """Return by data type the rate and the instruction that it was measured with."""
    found: dict[str, dict[str, object]] = {}
    for name, operations, chains, threads in INSTRUCTIONS:
        for dtype, depth in DEPTHS.items():
            if dtype not in found and lab.has("probe", f"{name}_{dtype}"):
                cycles = _cycles(lab, f"{name}_{dtype}", threads)
                if cycles:
                    rate = threads / 32 * chains * ROUNDS * operations * depth / cycles
                    found[dtype] = {"rate": round(rate, 1), "instruction": name}
    return found


def _cycles(lab: Lab, name: str, threads: int) -> float | None:
    """Return the cycles that one block took (the middle of all), or None if a sum was wrong."""
    blocks = lab.multiprocessors
    with lab.memory(8 * blocks) as cycles, lab.memory(4) as wrong:
        lab.clear(wrong)
        run = lab.launcher("probe", name, blocks, threads, [c_uint32(ROUNDS), cycles, wrong])
        run()  # what is loaded at the first use is not timed
        run()
        (bad,) = struct.unpack("I", lab.bytes_of(wrong, 0, 4))
        taken = struct.unpack(f"{blocks}Q", lab.bytes_of(cycles, 0, 8 * blocks))
    return None if bad else median(taken)
