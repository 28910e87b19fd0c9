"""cuBLASLt through ctypes: the very library that a framework would load, asked for matrix products and nothing else.

Why ctypes: docs/decisions/0004. Names and numbers are those of cublasLt.h and library_types.h, which have kept them
since CUDA 11; sizes of structures were checked against the header of 13.0. An older library refuses what it does not
know, and that is reported.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from gpustack.model import record

# cudaDataType, cublasComputeType_t, cublasLtMatmulDescAttributes_t and cublasLtMatmulMatrixScale_t.
_R32F, _R64F, _R16F, _R8I, _R32I, _R16BF, _E4M3, _E2M1 = 0, 1, 2, 3, 10, 14, 28, 33
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32I, _COMPUTE_TF32 = 68, 70, 72, 77
_TRANSPOSE = 1
_DESC_TRANSA, _DESC_A_SCALE, _DESC_B_SCALE, _DESC_FAST, _DESC_A_MODE, _DESC_B_MODE = 3, 17, 18, 25, 31, 32
_SCALES_OF_16 = 1
_LAYOUT_BATCH, _LAYOUT_STRIDE = 5, 6
_CONFIG_TILE, _CONFIG_SPLIT, _CAP_NUMERICS = 1, 2, 15
_TENSOR_CORES = 0xFE
# cublasLtMatmulTile_t from 1 on: rows x columns of the result that one block makes. Younger ones are told by number.
TILES = (
    *("8x8", "8x16", "16x8", "8x32", "16x16", "32x8", "8x64", "16x32", "32x16", "64x8", "32x32", "32x64", "64x32"),
    *("32x128", "64x64", "128x32", "64x128", "128x64", "64x256", "128x128", "256x64", "64x512", "128x256", "256x128"),
    *("512x64", "64x96", "96x64", "96x128", "128x160", "160x128", "192x128", "128x192", "128x96"),
)
_PREFERENCE_WORKSPACE = 1
_Value: TypeAlias = ctypes.c_int8 | ctypes.c_int32 | ctypes.c_void_p


@record
class Kind:
    """The types of a product: of A and B, of D, of the sums and of alpha; and how A and B are scaled."""

    operand: int
    out: int
    compute: int
    alpha: type[ctypes.c_float | ctypes.c_double | ctypes.c_int32] = ctypes.c_float
    alpha_type: int = _R32F
    fast: bool = False
    mode: int | None = None


def _plain(kind: int, compute: int = _COMPUTE_32F) -> Kind:
    return Kind(operand=kind, out=kind, compute=compute)


# By the type of A and B, and that of D. What is "fast" keeps the sums of fp8 products in the tensor cores, as
# frameworks do in inference, instead of adding them up in fp32 now and then (on Ada and Hopper).
KINDS: Mapping[tuple[str, str], Kind] = {
    ("fp64", "fp64"): Kind(operand=_R64F, out=_R64F, compute=_COMPUTE_64F, alpha=ctypes.c_double, alpha_type=_R64F),
    ("fp32", "fp32"): _plain(_R32F),
    ("tf32", "fp32"): _plain(_R32F, _COMPUTE_TF32),
    ("fp16", "fp16"): _plain(_R16F),
    ("bf16", "bf16"): _plain(_R16BF),
    ("fp8", "bf16"): Kind(operand=_E4M3, out=_R16BF, compute=_COMPUTE_32F, fast=True),
    ("int8", "int32"): Kind(operand=_R8I, out=_R32I, compute=_COMPUTE_32I, alpha=ctypes.c_int32, alpha_type=_R32I),
    ("fp4", "bf16"): Kind(operand=_E2M1, out=_R16BF, compute=_COMPUTE_32F, mode=_SCALES_OF_16),
}


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algo", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLtError(Exception):
    """The library returned an error, or could not be loaded."""


@record
class Order:
    """D = A transposed x B, all stored column by column: A is k x m, B is k x n, D is m x n; and its workspace.

    ``scales`` are the addresses of the scales of A and B on the device, for types that have scales. A ``batch`` is this
    many such products with consecutive matrices.
    """

    dtype: str
    out: str
    m: int
    n: int
    k: int
    workspace: int
    workspace_bytes: int
    scales: tuple[int, int] | None = None
    batch: int = 1


@record
class Way:
    """The library's description of an algorithm: its tile, how often it splits k, and whether it uses tensor cores."""

    tile: str | None = None
    split: int | None = None
    tensor_cores: bool | None = None


@record
class Product:
    """One way of the library to compute a product: its rank by expected speed, and how to enqueue it.

    ``into`` takes the addresses of A, B and D, and returns the function that enqueues their product. ``tell`` asks the
    library what kind of algorithm it is.
    """

    rank: int
    workspace: int
    waves: float
    into: Callable[[int, int, int], Callable[[], None]]
    tell: Callable[[], Way] = Way


@dataclass(slots=True)
class CublasLt:
    """One loaded copy of the library, with its real path and version."""

    path: str
    version: str = ""
    _library: ctypes.CDLL = field(init=False)
    _handle: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)

    def __post_init__(self) -> None:
        """Load it and create a handle on the current GPU; raises CublasLtError on failure."""
        try:
            self._library = ctypes.CDLL(self.path)
            self._library.cublasLtGetVersion.restype = ctypes.c_size_t
            number = int(self._library.cublasLtGetVersion())
        except (OSError, AttributeError) as error:
            raise CublasLtError(str(error)) from error
        self.path = os.path.realpath(self.path)
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        self._must("cublasLtCreate", ctypes.byref(self._handle))

    def products(self, order: Order, most: int, stream: int) -> list[Product]:
        """Return the first ways that the library's heuristic names for this product, fastest first by its own guess."""
        kind = KINDS[order.dtype, order.out]
        desc = self._description(kind, order.scales)
        shapes = (order.k, order.m), (order.k, order.n), (order.m, order.n)
        layouts = [
            self._made("cublasLtMatrixLayoutCreate", data, *map(ctypes.c_uint64, shape), ctypes.c_int64(shape[0]))
            for data, shape in zip((kind.operand, kind.operand, kind.out), shapes, strict=True)
        ]
        if order.batch > 1:
            for layout, (rows, columns) in zip(layouts, shapes, strict=True):
                self._lay(layout, _LAYOUT_BATCH, ctypes.c_int32(order.batch))
                self._lay(layout, _LAYOUT_STRIDE, ctypes.c_int64(rows * columns))
        return [
            Product(
                rank=rank,
                workspace=way.workspace,
                waves=way.waves,
                into=self._ready(desc, layouts, order, way, stream),
                tell=partial(self._told, way),
            )
            for rank, way in enumerate(self._heuristics(desc, layouts, order.workspace_bytes, most))
        ]

    def _description(self, kind: Kind, scales: tuple[int, int] | None) -> ctypes.c_void_p:
        desc = self._made("cublasLtMatmulDescCreate", kind.compute, kind.alpha_type)
        self._describe(desc, _DESC_TRANSA, ctypes.c_int32(_TRANSPOSE))
        if kind.mode is not None:
            self._describe(desc, _DESC_A_MODE, ctypes.c_int32(kind.mode))
            self._describe(desc, _DESC_B_MODE, ctypes.c_int32(kind.mode))
        if scales:
            self._describe(desc, _DESC_A_SCALE, ctypes.c_void_p(scales[0]))
            self._describe(desc, _DESC_B_SCALE, ctypes.c_void_p(scales[1]))
        if kind.fast:
            self._describe(desc, _DESC_FAST, ctypes.c_int8(1))
        return desc

    def _describe(self, desc: ctypes.c_void_p, attribute: int, value: _Value) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._must("cublasLtMatmulDescSetAttribute", desc, attribute, ctypes.byref(value), size)

    def _lay(self, layout: ctypes.c_void_p, attribute: int, value: ctypes.c_int32 | ctypes.c_int64) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._must("cublasLtMatrixLayoutSetAttribute", layout, attribute, ctypes.byref(value), size)

    def _told(self, way: _Heuristic) -> Way:
        tile = self._asked("cublasLtMatmulAlgoConfigGetAttribute", way, _CONFIG_TILE, ctypes.c_uint32())
        split = self._asked("cublasLtMatmulAlgoConfigGetAttribute", way, _CONFIG_SPLIT, ctypes.c_int32())
        numerics = self._asked("cublasLtMatmulAlgoCapGetAttribute", way, _CAP_NUMERICS, ctypes.c_uint64())
        named = TILES[tile - 1] if tile and tile <= len(TILES) else f"number {tile}" if tile else None
        return Way(tile=named, split=split, tensor_cores=bool(numerics & _TENSOR_CORES) if numerics else None)

    def _asked(
        self, function: str, way: _Heuristic, attribute: int, into: ctypes.c_uint32 | ctypes.c_int32 | ctypes.c_uint64
    ) -> int | None:
        """Return an attribute of an algorithm; None if this library does not know it."""
        written, size = ctypes.c_size_t(), ctypes.c_size_t(ctypes.sizeof(into))
        try:
            call = getattr(self._library, function)
        except AttributeError:
            return None
        code = call(ctypes.byref(way.algo), attribute, ctypes.byref(into), size, ctypes.byref(written))
        return None if code or written.value != size.value else int(into.value)

    def _heuristics(
        self, desc: ctypes.c_void_p, layouts: list[ctypes.c_void_p], workspace: int, most: int
    ) -> list[_Heuristic]:
        preference = self._made("cublasLtMatmulPreferenceCreate")
        size = ctypes.c_size_t(workspace)
        self._must(
            *("cublasLtMatmulPreferenceSetAttribute", preference, _PREFERENCE_WORKSPACE),
            *(ctypes.byref(size), ctypes.c_size_t(8)),
        )
        found, count = (_Heuristic * most)(), ctypes.c_int()
        self._must(
            "cublasLtMatmulAlgoGetHeuristic",
            *(self._handle, desc, *layouts, layouts[-1], preference, most, found, ctypes.byref(count)),
        )
        return [one for one in found[: count.value] if one.state == 0]

    def _ready(
        self, desc: ctypes.c_void_p, layouts: list[ctypes.c_void_p], order: Order, way: _Heuristic, stream: int
    ) -> Callable[[int, int, int], Callable[[], None]]:
        a, b, d = layouts
        kind = KINDS[order.dtype, order.out]
        one, zero = kind.alpha(1), kind.alpha(0)

        def into(left: int, right: int, out: int) -> Callable[[], None]:
            arguments = (
                *(self._handle, desc, ctypes.byref(one), ctypes.c_void_p(left), a, ctypes.c_void_p(right), b),
                *(ctypes.byref(zero), ctypes.c_void_p(out), d, ctypes.c_void_p(out), d, ctypes.byref(way.algo)),
                *(ctypes.c_void_p(order.workspace), ctypes.c_size_t(way.workspace), ctypes.c_void_p(stream)),
            )
            return lambda: self._must("cublasLtMatmul", *arguments)

        return into

    def _made(self, function: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._must(function, ctypes.byref(made), *arguments)
        return made

    def _must(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise CublasLtError(f"{function} answered {code}")
