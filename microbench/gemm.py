"""Matrix products by the cuBLASLt that a framework would load: D = A transposed x B, in one data type each.

id          unit      formula               A and B; sums; D
gemm.fp64   TFLOP/s   2 m n k / seconds     fp64; fp64; fp64
gemm.fp32   TFLOP/s   2 m n k / seconds     fp32; fp32 (no tensor cores); fp32
gemm.tf32   TFLOP/s   2 m n k / seconds     fp32 rounded to tf32; fp32; fp32
gemm.fp16   TFLOP/s   2 m n k / seconds     fp16; fp32; fp16
gemm.bf16   TFLOP/s   2 m n k / seconds     bf16; fp32; bf16
gemm.fp8    TFLOP/s   2 m n k / seconds     E4M3, one scale each; fp32, kept in the tensor cores; bf16
gemm.int8   TFLOP/s   2 m n k / seconds     int8; int32; int32
gemm.fp4    TFLOP/s   2 m n k / seconds     E2M1 with an E4M3 scale for 16 (NVFP4); fp32; bf16

These are burst figures: trains of 8 ms with rests between, so that the power limit has no time to lower the clock. With
``--sustain`` the work then goes on without rest. The shapes are whole waves: tiles of 128 x 256 on every
multiprocessor. The operands are random, since zeros need less power and would flatter the result: numbers of a normal
distribution, int8 and fp4 uniform over all their codes. The scales of fp4 are all one. Where A and B together could
stay in the L2 cache, the runs go round several of them. Some entries of D are compared with the same sums in float64.
"""

from __future__ import annotations

import math
import random
import struct
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpustack.bench.card import Memory
    from gpustack.bench.lab import Job, Lab

TILE = 128
# By the bits of an operand: m for each multiprocessor, n and k. Narrow types need depth to be at their best.
SHAPES = {
    64: ((64, 4096, 8192),),
    32: ((64, 4096, 8192),),
    16: ((64, 4096, 8192), (64, 8192, 8192)),
    8: ((64, 8192, 16384), (32, 4096, 16384)),
    4: ((64, 8192, 16384), (32, 4096, 16384)),
}
QUICK = frozenset({"fp32", "bf16"})  # the plain units and the tensor cores
SMALL = ((64, 1024, 1024),)  # for units that are so slow that a large product would take a second
FULL_FP64 = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
WORKSPACE = {9: 32 << 20, 10: 32 << 20, 12: 12 << 20}  # by major capability; as cuBLAS advises
SMALL_WORKSPACE = 4 << 20
MOST_SETS = 8
SCALED = frozenset({"fp8", "fp4"})
BLOCK, ONE = 16, 0x38  # one scale of E4M3 for so many numbers of fp4; with all of them one, A and B can share theirs
DEVIATIONS = 8
ENTRIES = 6
STORED = {"fp64": 2**-52, "fp32": 2**-20, "fp16": 2**-10, "bf16": 2**-7, "int32": 0.0}  # relative error of storing D
WIDTH = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "int32": 4}


class Type(NamedTuple):
    """One type of operands: bits of each, the type of D, how it is filled, which GPUs have it, and how it errs.

    ``product`` is the relative error of one product, ``sums`` that of adding it; the sum of k products of our numbers
    is about the root of k. ``scale`` is what the numbers are multiplied by after reading.
    """

    bits: int
    out: str
    fill: str
    least: tuple[int, int]
    product: float
    sums: float = 2**-24
    scale: float = 1.0


TYPES = {
    "fp64": Type(64, "fp64", "fp64", (6, 0), 2**-52, 2**-53),
    "fp32": Type(32, "fp32", "fp32", (5, 0), 2**-22),
    "tf32": Type(32, "fp32", "tf32", (8, 0), 2**-9),
    "fp16": Type(16, "fp16", "fp16", (5, 3), 2**-15),
    "bf16": Type(16, "bf16", "bf16", (8, 0), 2**-15),
    "fp8": Type(8, "bf16", "fp8", (8, 9), 0.0, 2**-18, 2**-6),
    "int8": Type(8, "int32", "bits", (7, 2), 0.0, 0.0),
    "fp4": Type(4, "bf16", "bits", (10, 0), 0.0, 0.0),
}
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# By the code of a number without sign: steps near zero, then eight of them in each power of two; the last is none.
E4M3 = (
    *(math.ldexp(code, -9) for code in range(8)),
    *(math.ldexp(8 + code % 8, code // 8 - 10) for code in range(8, 127)),
    math.nan,
)


class Bench(NamedTuple):
    """The memories of one data type: sets of A and B, D, workspace and scales, each large enough for every shape."""

    lab: Lab
    dtype: str
    sets: tuple[tuple[Memory, Memory], ...]
    d: Memory
    workspace: Memory
    scales: tuple[int, int] | None


def shapes(lab: Lab, dtype: str) -> list[tuple[int, int, int]]:
    """Return m, n, k of each shape: whole waves on this GPU, less deep where its memory is small."""
    slow = dtype == "fp64" and lab.capability not in FULL_FP64
    found = []
    for rows, columns, depth in SMALL if slow else SHAPES[TYPES[dtype].bits]:
        m, n, k = -(-rows * lab.multiprocessors // TILE) * TILE, columns, depth
        while k > TILE and lab.room(_size(dtype, max(m, n) * k)) < _size(dtype, max(m, n) * k):
            n, k = max(n // 2, 2 * TILE), k // 2
        found.append((m, n, k))
    return list(dict.fromkeys(found))


@contextmanager
def product(lab: Lab, *, dtype: str) -> Iterator[list[Job]]:
    """Return cuBLASLt's first ways to make the product, in each shape and with each type of D."""
    least = TYPES[dtype].least
    if lab.capability < least:
        lab.skip(f"a GPU of compute capability {lab.capability[0]}.{lab.capability[1]} has no {dtype} units")
    with ExitStack() as stack:
        mine = shapes(lab, dtype)
        bench = _bench(lab, dtype, mine, stack)
        yield [job for place, sizes in enumerate(mine) for job in _jobs(bench, sizes, lab.variants >> place)]


def _bench(lab: Lab, dtype: str, mine: Sequence[tuple[int, int, int]], stack: ExitStack) -> Bench:
    """Take the memory and fill it."""
    left, right = (max(_size(dtype, one[at] * one[2]) for one in mine) for at in (0, 1))
    least = min(_size(dtype, (m + n) * k) for m, n, k in mine)
    wanted = min(MOST_SETS, -(-2 * lab.l2_bytes // least))
    sets: list[tuple[Memory, Memory]] = []
    while not sets or (len(sets) < wanted and lab.room(left + right) == left + right):
        sets.append((stack.enter_context(lab.memory(left)), stack.enter_context(lab.memory(right))))
        for memory in sets[-1]:
            lab.fill(memory, TYPES[dtype].fill)
    d = lab.memory(max(m * n for m, n, _ in mine) * WIDTH[TYPES[dtype].out])
    space = lab.memory(lab.room(WORKSPACE.get(lab.capability[0], SMALL_WORKSPACE)))
    return Bench(
        lab=lab,
        dtype=dtype,
        sets=tuple(sets),
        d=stack.enter_context(d),
        workspace=stack.enter_context(space),
        scales=_scales(lab, dtype, 8 * max(left, right) // TYPES[dtype].bits, stack),
    )


def _scales(lab: Lab, dtype: str, numbers: int, stack: ExitStack) -> tuple[int, int] | None:
    """Return the addresses of the scales of A and B: one number for fp8, one for every 16 numbers for fp4."""
    if dtype not in SCALED:
        return None
    held = stack.enter_context(lab.memory(numbers // BLOCK))
    lab.clear(held, byte=ONE)
    if dtype == "fp8":
        lab.put(held, struct.pack("<f", TYPES[dtype].scale))
    return held.address, held.address


def _jobs(bench: Bench, sizes: tuple[int, int, int], most: int) -> Iterator[Job]:
    """Yield a job for each of the first ways to make the product in one shape."""
    (m, n, k), lab, out = sizes, bench.lab, TYPES[bench.dtype].out
    ways, source = lab.products((bench.dtype, out), sizes, bench.workspace, bench.scales, most)
    a, b = bench.sets[0]
    for way in ways:
        runs = [way.into(left.address, right.address, bench.d.address) for left, right in bench.sets]
        yield lab.job(
            f"{m} x {n} x {k}, heuristic {way.rank + 1}",
            2.0 * m * n * k,
            _round(runs),
            partial(_check, bench, sizes, runs[0]),
            blank=partial(_blank, bench),
            load={
                "data": (a, b),
                "result": bench.d,
                "size": m * n * WIDTH[out],
                "into": partial(way.into, a.address, b.address),
            },
            m=m,
            n=n,
            k=k,
            d=out,
            operands=len(bench.sets),
            workspace_mib=bench.workspace.size >> 20,
            waves=round(way.waves, 2),
            library=source["library"],
            library_version=source["library_version"],
        )


def _blank(bench: Bench) -> None:
    """Replace all operands with zeros."""
    for pair in bench.sets:
        for memory in pair:
            bench.lab.clear(memory)


def _round(runs: list[Callable[[], None]]) -> Callable[[], None]:
    """Return a function that runs the next of these each time."""
    if len(runs) == 1:
        return runs[0]
    turns = cycle(runs)

    def run() -> None:
        next(turns)()

    return run


def _check(bench: Bench, sizes: tuple[int, int, int], run: Callable[[], None]) -> str | None:
    """Compare some entries of the product, the corners among them, with their sums in float64."""
    m, n, k = sizes
    lab, kind, (a, b) = bench.lab, TYPES[bench.dtype], bench.sets[0]
    lab.clear(bench.d, byte=0xFF)  # not a number in the types that have one: an entry that was not written is wrong
    run()
    chosen = random.Random(m * n * k)  # noqa: S311 - which entries are looked at is no secret
    places = [(0, 0), (m - 1, n - 1), *((chosen.randrange(m), chosen.randrange(n)) for _ in range(ENTRIES))]
    for row, column in places:
        left = _numbers(lab, bench.dtype, a, row * k, k)
        right = _numbers(lab, bench.dtype, b, column * k, k)
        (got,) = _numbers(lab, kind.out, bench.d, column * m + row, 1)
        wanted = math.fsum(map(mul, left, right)) * kind.scale**2
        spread = (DEVIATIONS * kind.product + k * kind.sums) * math.sqrt(k)
        if not abs(got - wanted) <= spread + STORED[kind.out] * abs(wanted):
            return f"entry ({row}, {column}) of the product is {got:.12g}, and should be {wanted:.12g}"
    return None


def _size(dtype: str, numbers: int) -> int:
    return numbers * TYPES[dtype].bits // 8


def _numbers(lab: Lab, dtype: str, memory: Memory, first: int, count: int) -> list[float]:
    """Read some numbers of a matrix."""
    bits = TYPES[dtype].bits if dtype in TYPES else 8 * WIDTH[dtype]
    raw = lab.bytes_of(memory, first * bits // 8, count * bits // 8)
    if dtype == "fp8":
        return [-E4M3[byte & 127] if byte & 128 else E4M3[byte] for byte in raw]
    if dtype == "fp4":
        codes = (code for byte in raw for code in (byte & 15, byte >> 4))
        return [-E2M1[code & 7] if code & 8 else E2M1[code] for code in codes]
    if dtype == "bf16":
        wide = bytearray(2 * len(raw))
        wide[2::4], wide[3::4] = raw[0::2], raw[1::2]  # the upper half of a float32
        raw = bytes(wide)
    letter = {"fp64": "d", "fp16": "e", "int8": "b", "int32": "i"}.get(dtype, "f")
    return list(struct.unpack(f"<{count}{letter}", raw))


def _row(dtype: str) -> dict[str, object]:
    return {
        "title": f"matrix product, {dtype}",
        "unit": "TFLOP/s",
        "limit": f"compute.{dtype}",
        "prepare": partial(product, dtype=dtype),
        "train": 0.008,
        "rest": 0.032,
        "quick": dtype in QUICK,
    }


BENCHES = {f"gemm.{dtype}": _row(dtype) for dtype in TYPES}
