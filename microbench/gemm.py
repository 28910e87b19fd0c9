"""Matrix products by the cuBLASLt that a framework would load: D = A transposed x B, in one data type each.

id          unit      formula               operands, accumulation
gemm.fp32   TFLOP/s   2 m n k / seconds     fp32, fp32 (no tensor cores)
gemm.tf32   TFLOP/s   2 m n k / seconds     fp32 rounded to tf32, fp32
gemm.fp16   TFLOP/s   2 m n k / seconds     fp16, fp32
gemm.bf16   TFLOP/s   2 m n k / seconds     bf16, fp32

These are burst figures: trains of 8 ms with rests between, so that the power limit has no time to lower the clock. The
shape is whole waves: tiles of 128 x 256 on every multiprocessor. The operands are random numbers of a normal
distribution: zeros need less power and would flatter. Some entries of D are compared with the same sums in float64.
"""

from __future__ import annotations

import math
import random
import struct
from contextlib import contextmanager
from functools import partial
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.bench.card import Memory
    from gpustack.bench.lab import Job, Lab

M_TILE, N, K = 128, 4096, 8192
ROWS_A_MULTIPROCESSOR = 64
WORKSPACE = {9: 32 << 20, 10: 32 << 20, 12: 12 << 20}  # by major capability; as cuBLAS advises
SMALL_WORKSPACE = 4 << 20
BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}
# Relative error of one product, and of storing the sum: half a unit in the last place of tf32, fp32, fp16, bf16.
PRODUCT_ERROR = {"fp32": 2**-22, "tf32": 2**-9, "fp16": 2**-15, "bf16": 2**-15}
STORE_ERROR = {"fp32": 2**-20, "tf32": 2**-20, "fp16": 2**-10, "bf16": 2**-7}
SUM_ERROR = 2**-24  # of adding one product; the sum of k products of our numbers is about the root of k
DEVIATIONS = 8
ENTRIES = 6
AMPERE = 8


def shape(lab: Lab, dtype: str) -> tuple[int, int, int]:
    """Give m, n, k: whole waves on this GPU, less deep where its memory is small."""
    m = -(-ROWS_A_MULTIPROCESSOR * lab.multiprocessors // M_TILE) * M_TILE
    n, k = N, K
    while k > M_TILE and lab.room(max(m, n) * k * BYTES[dtype]) < max(m, n) * k * BYTES[dtype]:
        n, k = max(n // 2, 2 * M_TILE), k // 2
    return m, n, k


@contextmanager
def product(lab: Lab, *, dtype: str) -> Iterator[list[Job]]:
    """Give cuBLASLt's first ways to make the product."""
    if lab.capability[0] < AMPERE and dtype in {"tf32", "bf16"}:
        lab.skip(f"a GPU of compute capability {lab.capability[0]}.{lab.capability[1]} has no {dtype} units")
    m, n, k = shape(lab, dtype)
    each = BYTES[dtype]
    space = lab.room(WORKSPACE.get(lab.capability[0], SMALL_WORKSPACE))
    with (
        lab.memory(m * k * each) as a,
        lab.memory(n * k * each) as b,
        lab.memory(m * n * each) as d,
        lab.memory(space) as workspace,
    ):
        lab.fill(a, dtype)
        lab.fill(b, dtype)
        ways, source = lab.products(dtype, (m, n, k), (a, b, d, workspace))
        facts = {**source, "m": m, "n": n, "k": k, "workspace_mib": space >> 20}
        yield [
            lab.job(
                f"heuristic {way.rank + 1}",
                2.0 * m * n * k,
                way.run,
                partial(_check, lab, dtype, (m, n, k), (a, b, d), way.run),
                **facts,
                waves=round(way.waves, 2),
            )
            for way in ways
        ]


def _check(
    lab: Lab,
    dtype: str,
    sizes: tuple[int, int, int],
    operands: tuple[Memory, Memory, Memory],
    run: Callable[[], None],
) -> str | None:
    """Compare some entries of the product, the corners among them, with their sums in float64."""
    m, n, k = sizes
    a, b, d = operands
    lab.clear(d, byte=0xFF)  # not a number in every type: an entry that was not written is wrong
    run()
    chosen = random.Random(m * n * k)  # noqa: S311 - which entries are looked at is no secret
    places = [(0, 0), (m - 1, n - 1), *((chosen.randrange(m), chosen.randrange(n)) for _ in range(ENTRIES))]
    for row, column in places:
        left = _numbers(lab, dtype, a, row * k, k)
        right = _numbers(lab, dtype, b, column * k, k)
        (got,) = _numbers(lab, dtype, d, column * m + row, 1)
        wanted = math.fsum(map(mul, left, right))
        allowed = (DEVIATIONS * PRODUCT_ERROR[dtype] + k * SUM_ERROR) * math.sqrt(k) + STORE_ERROR[dtype] * abs(wanted)
        if not abs(got - wanted) <= allowed:
            return f"entry ({row}, {column}) of the product is {got:g}, and should be {wanted:g}"
    return None


def _numbers(lab: Lab, dtype: str, memory: Memory, first: int, count: int) -> list[float]:
    raw = lab.bytes_of(memory, first * BYTES[dtype], count * BYTES[dtype])
    if dtype == "fp16":
        return list(struct.unpack(f"<{count}e", raw))
    if dtype == "bf16":
        wide = bytearray(2 * len(raw))
        wide[2::4], wide[3::4] = raw[0::2], raw[1::2]  # the upper half of a float32
        raw = bytes(wide)
    return list(struct.unpack(f"<{count}f", raw))


def _bench(dtype: str, title: str) -> dict[str, object]:
    return {
        "title": title,
        "unit": "TFLOP/s",
        "limit": f"compute.{dtype}",
        "prepare": partial(product, dtype=dtype),
        "train": 0.008,
        "rest": 0.032,
    }


BENCHES = {
    "gemm.fp32": _bench("fp32", "matrix product, fp32"),
    "gemm.tf32": _bench("tf32", "matrix product, tf32"),
    "gemm.fp16": _bench("fp16", "matrix product, fp16"),
    "gemm.bf16": _bench("bf16", "matrix product, bf16"),
}
