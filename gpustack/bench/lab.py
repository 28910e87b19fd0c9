"""What a bench may ask for: memory, random data, kernels, products, checks, and to be skipped where it cannot run."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from gpustack.bench.cublaslt import CublasLt, CublasLtError, Operands, Product
from gpustack.bench.libraries import found_here

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gpustack.bench.card import Argument, Card, Memory

STEP = 1 << 16
LARGEST_PART = 4  # no buffer takes more than this part of the free memory
SUMS = struct.Struct("2Q")
UNIT = 16
FILLS = {  # kernel, and the bytes that it fills in one step
    "bits": ("fill_bits", UNIT),
    "fp32": ("fill_float", 8),
    "tf32": ("fill_float", 8),
    "fp16": ("fill_half", 4),
    "bf16": ("fill_bfloat", 4),
}
ODD = 0x9E3779B97F4A7C15
THREADS = 256
UNSUFFIXED = 13000  # from CUDA 13 on the wheels have no suffix


class SkipError(Exception):
    """A bench cannot be run here: why, and the command that would change it."""

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One way to do the work: ``run`` enqueues it once, which moves or computes ``amount``.

    ``check`` enqueues it once too, and gives None, or what is wrong with what came out.
    """

    label: str
    amount: float
    run: Callable[[], None]
    check: Callable[[], str | None]
    method: Mapping[str, object] = field(default_factory=dict)


class Lab:
    """One card with what benches need on it. ``variants`` is how many ways of a work may be tried."""

    def __init__(self, card: Card, *, data: str = "random", variants: int = 8, library: str | None = None) -> None:
        """Use this card; ``data`` is random or zeros, ``library`` the cuBLASLt to take (None: the one found here)."""
        self.multiprocessors = card.multiprocessors
        self.l2_bytes = card.l2_bytes
        self.capability = card.capability
        self.variants = variants
        self.random = data != "zeros"
        self._card = card
        self._library = library
        self._loaded: CublasLt | None = None
        self._seed = 0

    def room(self, wanted: int) -> int:
        """Give how large a buffer may be: as wanted, but at most a quarter of what is free."""
        free = self._card.free()[0]
        size = min(wanted, free // LARGEST_PART) // STEP * STEP
        if not size:
            self.skip(f"only {free >> 10} KiB of the GPU's memory are free", "nvidia-smi")
        return size

    def memory(self, size: int) -> AbstractContextManager[Memory]:
        """Give so many bytes of device memory."""
        return self._card.memory(size)

    def pinned(self, size: int) -> AbstractContextManager[Memory]:
        """Give so many bytes of pinned host memory."""
        return self._card.pinned(size)

    def launcher(
        self, file: str, name: str, blocks: int, threads: int, arguments: Sequence[Argument]
    ) -> Callable[[], None]:
        """Give a function that enqueues a kernel of ``microbench/FILE.cu`` once."""
        return self._card.launcher(file, name, blocks, threads, arguments)

    def copier(self, to: Memory, source: Memory) -> Callable[[], None]:
        """Give a function that enqueues the driver's own copy once."""
        return lambda: self._card.copy(to, source)

    def fill(self, memory: Memory, kind: str = "bits") -> None:
        """Fill a device memory with new random bits, or numbers of type ``kind`` of a normal distribution; or zeros."""
        self._seed += 1
        seed = ctypes.c_uint64(self._seed * ODD if self.random else 0)
        name, step = FILLS[kind]
        scale: Argument = ctypes.c_uint64(self.random) if kind == "bits" else ctypes.c_float(self.random)
        count = ctypes.c_uint64(memory.size // step)
        self._card.launcher("engine", name, 8 * self.multiprocessors, THREADS, [memory, count, seed, scale])()

    def clear(self, memory: Memory, *, byte: int = 0) -> None:
        """Fill a device memory with one byte."""
        self._card.fill(memory, byte)

    def sums(self, memory: Memory) -> tuple[int, int]:
        """Give the sum of a device memory's words, and one in which the place of each counts; both modulo 2**64."""
        with self._card.memory(SUMS.size) as sums:
            self._card.fill(sums, 0)
            units = ctypes.c_uint64(memory.size // UNIT)
            self._card.launcher("engine", "checksum", 8 * self.multiprocessors, THREADS, [memory, units, sums])()
            plain, placed = SUMS.unpack(self._card.bytes_of(sums, 0, SUMS.size))
            return plain, placed

    def bytes_of(self, memory: Memory, offset: int, size: int) -> bytes:
        """Give some bytes of a device memory, once all that was enqueued is done."""
        return self._card.bytes_of(memory, offset, size)

    def job(
        self, label: str, amount: float, run: Callable[[], None], check: Callable[[], str | None], **method: object
    ) -> Job:
        """Give one way to do a work; ``method`` is kept beside the figure."""
        return Job(label=label, amount=amount, run=run, check=check, method=method)

    def products(
        self, dtype: str, sizes: tuple[int, int, int], memories: tuple[Memory, Memory, Memory, Memory]
    ) -> tuple[list[Product], Mapping[str, object]]:
        """Give cuBLASLt's ways to make a product of sizes m, n, k, and which copy of it that is.

        ``memories`` are A, B, D and the workspace. Skips where the library cannot be had.
        """
        library = self._cublaslt()
        a, b, d, workspace = memories
        operands = Operands(
            dtype=dtype,
            **dict(zip("mnk", sizes, strict=True)),
            a=a.address,
            b=b.address,
            d=d.address,
            workspace=workspace.address,
            workspace_bytes=workspace.size,
        )
        try:
            ways = library.products(operands, self.variants, self._card.stream)
        except CublasLtError as error:
            self.skip(f"cuBLASLt {library.version} has no such product here ({error})")
        if not ways:
            self.skip(f"cuBLASLt {library.version} knows no way to make this product on this GPU")
        return ways, {"library": library.path, "library_version": library.version}

    def skip(self, reason: str, remedy: str | None = None) -> NoReturn:
        """Say that this cannot be run here, and the command that would change it."""
        raise SkipError(reason, remedy)

    def _cublaslt(self) -> CublasLt:
        if self._loaded is None:
            path = self._library or found_here()
            if path is None:
                self.skip("there is no cuBLASLt here", self._remedy())
            try:
                self._loaded = CublasLt(path)
            except CublasLtError as error:
                self.skip(f"the cuBLASLt at {path} does not start here: {error}", self._remedy())
        return self._loaded

    def _remedy(self) -> str:
        return "pip install nvidia-cublas" if self._card.cuda >= UNSUFFIXED else "pip install nvidia-cublas-cu12"
