"""cuBLASLt through ctypes: the very library that a framework would load, asked for matrix products and nothing else.

Why ctypes: docs/decisions/0004. Names and numbers are those of cublasLt.h and library_types.h, which have kept them
since CUDA 11; sizes of structures were checked against the header of 13.0.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# cudaDataType and cublasComputeType_t: single and half precision with accumulation in fp32.
_R32F, _R16F, _R16BF = 0, 2, 14
_COMPUTE_32F, _COMPUTE_TF32 = 68, 77
TYPES: Mapping[str, tuple[int, int, int]] = {  # data type, compute type, bytes of an element
    "fp32": (_R32F, _COMPUTE_32F, 4),
    "tf32": (_R32F, _COMPUTE_TF32, 4),
    "fp16": (_R16F, _COMPUTE_32F, 2),
    "bf16": (_R16BF, _COMPUTE_32F, 2),
}
_TRANSPOSE = 1
_DESC_TRANSA = 3
_PREFERENCE_WORKSPACE = 1


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
    """The library refused a call, or could not be loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """D = A transposed x B, all stored column by column: A is k x m, B is k x n, D is m x n. Addresses and sizes."""

    dtype: str
    m: int
    n: int
    k: int
    a: int
    b: int
    d: int
    workspace: int
    workspace_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One way of the library to make a product: its place among those it thinks fastest, and how to enqueue it."""

    rank: int
    workspace: int
    waves: float
    run: Callable[[], None]


@dataclass(slots=True)
class CublasLt:
    """One loaded copy of the library."""

    path: str
    version: str = ""
    _library: ctypes.CDLL = field(init=False)
    _handle: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)

    def __post_init__(self) -> None:
        """Load it and make a handle on the current GPU; raises CublasLtError where it will not."""
        try:
            self._library = ctypes.CDLL(self.path)
            self._library.cublasLtGetVersion.restype = ctypes.c_size_t
            number = int(self._library.cublasLtGetVersion())
        except (OSError, AttributeError) as error:
            raise CublasLtError(str(error)) from error
        self.path = os.path.realpath(self.path)
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        self._must("cublasLtCreate", ctypes.byref(self._handle))

    def products(self, operands: Operands, most: int, stream: int) -> list[Product]:
        """Give the first ways that the library's heuristic names for this product, fastest first by its own guess."""
        data, compute, _ = TYPES[operands.dtype]
        desc = self._made("cublasLtMatmulDescCreate", compute, _R32F)
        transpose = ctypes.c_int32(_TRANSPOSE)
        self._must("cublasLtMatmulDescSetAttribute", desc, _DESC_TRANSA, ctypes.byref(transpose), ctypes.c_size_t(4))
        shapes = (operands.k, operands.m), (operands.k, operands.n), (operands.m, operands.n)
        layouts = [
            self._made("cublasLtMatrixLayoutCreate", data, *map(ctypes.c_uint64, shape), ctypes.c_int64(shape[0]))
            for shape in shapes
        ]
        found = self._heuristics(desc, layouts, operands.workspace_bytes, most)
        return [
            Product(
                rank=rank,
                workspace=one.workspace,
                waves=one.waves,
                run=self._runner(desc, layouts, operands, one, stream),
            )
            for rank, one in enumerate(found)
        ]

    def _heuristics(
        self, desc: ctypes.c_void_p, layouts: list[ctypes.c_void_p], workspace: int, most: int
    ) -> list[_Heuristic]:
        preference = self._made("cublasLtMatmulPreferenceCreate")
        size = ctypes.c_size_t(workspace)
        self._must(
            "cublasLtMatmulPreferenceSetAttribute",
            preference,
            _PREFERENCE_WORKSPACE,
            ctypes.byref(size),
            ctypes.c_size_t(8),
        )
        found, count = (_Heuristic * most)(), ctypes.c_int()
        a, b, d = layouts
        self._must(
            "cublasLtMatmulAlgoGetHeuristic",
            *(self._handle, desc, a, b, d, d, preference, most, found, ctypes.byref(count)),
        )
        return [one for one in found[: count.value] if one.state == 0]

    def _runner(
        self,
        desc: ctypes.c_void_p,
        layouts: list[ctypes.c_void_p],
        operands: Operands,
        way: _Heuristic,
        stream: int,
    ) -> Callable[[], None]:
        a, b, d = layouts
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        arguments = (
            *(self._handle, desc, ctypes.byref(one)),
            *(ctypes.c_void_p(operands.a), a, ctypes.c_void_p(operands.b), b, ctypes.byref(zero)),
            *(ctypes.c_void_p(operands.d), d, ctypes.c_void_p(operands.d), d, ctypes.byref(way.algo)),
            *(ctypes.c_void_p(operands.workspace), ctypes.c_size_t(way.workspace), ctypes.c_void_p(stream)),
        )
        return lambda: self._must("cublasLtMatmul", *arguments)

    def _made(self, function: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._must(function, ctypes.byref(made), *arguments)
        return made

    def _must(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise CublasLtError(f"{function} answered {code}")
