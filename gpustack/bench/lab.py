"""What a bench can use: memory, random data, kernels, products, checks, and a way to be skipped."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from gpustack.bench import calls
from gpustack.bench.burn import Duplex
from gpustack.bench.cublaslt import CublasLt, CublasLtError, Order, Product
from gpustack.bench.numa import Pageable, held, processor
from gpustack.bench.setting import Several, found_here
from gpustack.model import field, record

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gpustack.bench.calls import Calls, Slope
    from gpustack.bench.card import Argument, Card, Memory
    from gpustack.bench.timing import Timer, Train

STEP = 1 << 16
LARGEST_PART = 4  # no buffer takes more than this share of the free memory
SUMS = struct.Struct("2Q")
UNIT = 16
FILLS = {  # file and name of a kernel, the bytes that it fills per step, and its numbers' deviation
    "bits": ("engine", "fill_bits", UNIT, 1.0),
    "fp64": ("gemm", "fill_double", 16, 1.0),
    "fp32": ("engine", "fill_float", 8, 1.0),
    "tf32": ("engine", "fill_float", 8, 1.0),
    "fp16": ("engine", "fill_half", 4, 1.0),
    "bf16": ("engine", "fill_bfloat", 4, 1.0),
    "fp8": ("gemm", "fill_e4m3", 4, 64.0),  # the largest number, 448, is seven deviations: next to none saturate
}
ODD = 0x9E3779B97F4A7C15
THREADS = 256
UNSUFFIXED = 13000  # from CUDA 13 on the wheels have no suffix


class SkipError(Exception):
    """A bench cannot run here: why, and the command that would change that."""

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.remedy = remedy


@record
class Job:
    """One way to do the work: ``run`` enqueues it once, moving or computing ``amount``.

    ``check`` also enqueues it once, and returns None or what is wrong with the result. ``blank`` replaces its data by
    zeros, if that can change the figure. Work that involves the host is not ``gated``; work that trains cannot measure
    has a ``sampler``.
    """

    label: str
    amount: float
    run: Callable[[], None]
    check: Callable[[], str | None]
    method: Mapping[str, object] = field(default_factory=dict)
    blank: Callable[[], None] | None = None
    load: Load | None = None
    gated: bool = True
    sampler: Sampler | None = None


@record
class Load:
    """A job for a sustained load: its data, its result's address and size in bytes, and the same work elsewhere."""

    data: tuple[Memory, ...]
    result: Memory
    size: int
    into: Callable[[int], Callable[[], None]]


class Sampler(Protocol):
    """Samples a work in its own way, each sample with this many runs."""

    runs: int

    def take(self, timer: Timer) -> Train:
        """Return one sample."""
        ...

    def told(self) -> Mapping[str, object]:
        """Return details known only at the end, for the method."""
        ...


class Lab:
    """One card with everything that benches need. ``variants`` is how many ways of a work may be tried."""

    def __init__(
        self,
        card: Card,
        *,
        data: str = "random",
        variants: int = 8,
        library: str | None = None,
        nccl: str | None = None,
        place: str = "",
    ) -> None:
        """Use this card; ``data`` is random or zeros, ``library`` the cuBLASLt to use (None: the one found here).

        ``nccl`` is the NCCL to use likewise; ``place`` says where on the host this runs.
        """
        self.gpu = card.ordinal
        self.multiprocessors = card.multiprocessors
        self.l2_bytes = card.l2_bytes
        self.capability = card.capability
        self.variants = variants
        self.random = data != "zeros"
        self.place = place
        self.processor = processor()
        self._card = card
        self.memory, self.pinned, self.put, self.settle = card.memory, card.pinned, card.put, card.settle
        self.launcher, self.has, self.how, self.bytes_of = card.launcher, card.has, card.how, card.bytes_of
        self.several = Several(card, nccl, self.skip)
        self._library = library
        self._loaded: CublasLt | None = None
        self._seed = 0

    def room(self, wanted: int) -> int:
        """Return the buffer size: as requested, but at most a quarter of the free memory."""
        free = self._card.free()[0]
        size = min(wanted, free // LARGEST_PART) // STEP * STEP
        if not size:
            self.skip(f"only {free >> 10} KiB of the GPU's memory are free", "nvidia-smi")
        return size

    def free(self) -> int:
        """Return the free bytes of device memory."""
        return self._card.free()[0]

    def copier(self, to: Memory, source: Memory) -> Callable[[], None]:
        """Return a function that enqueues the driver's own copy once."""
        return lambda: self._card.copy(to, source)

    def pageable(self, size: int) -> AbstractContextManager[Pageable]:
        """Return ordinary host memory of this size, which the driver copies through its own pinned memory."""
        return held(self._card, size)

    def duplex(self, inward: tuple[Memory, Memory], outward: tuple[Memory, Memory]) -> Duplex:
        """Return the copies in both directions at once, between these pairs of device and pinned memory."""
        return Duplex(self._card, inward, outward)

    def launches(self, file: str, name: str, arguments: Sequence[ctypes.c_uint64]) -> Calls:
        """Return the driver's own launch of a kernel in one thread."""
        return calls.launches(self._card.function(file, name), arguments, self._card.stream)

    def replays(self, enqueue: Callable[[], None]) -> AbstractContextManager[Calls]:
        """Return the replay of a graph of the work that this enqueues."""
        return calls.captured(enqueue, self._card.stream)

    def slope(self, work: Calls, *, count: int, operations: int = 1, queued: int = 0) -> Slope:
        """Return the sampler of a call's cost, from this many and twice as many calls."""
        return calls.Slope(work, count=count, operations=operations, queued=queued)

    def allocations(self, size: int) -> Calls:
        """Return the stream-ordered allocation of this many bytes, and its release; skips without pools."""
        if not self._card.has_pools:
            self.skip("this GPU has no memory pools with this driver")
        return calls.pooled(size, self._card.stream)

    def fill(self, memory: Memory, kind: str = "bits") -> None:
        """Fill a device memory with new random bits, normally distributed numbers of type ``kind``, or zeros."""
        self._seed += 1
        seed = ctypes.c_uint64(self._seed * ODD if self.random else 0)
        file, name, step, deviation = FILLS[kind]
        scale: Argument = ctypes.c_uint64(self.random) if kind == "bits" else ctypes.c_float(deviation * self.random)
        count = ctypes.c_uint64(memory.size // step)
        self._card.launcher(file, name, 8 * self.multiprocessors, THREADS, [memory, count, seed, scale])()

    def clear(self, memory: Memory, *, byte: int = 0) -> None:
        """Fill a device memory with one byte value."""
        self._card.fill(memory, byte)

    def sums(self, memory: Memory) -> tuple[int, int]:
        """Return the sum of a device memory's words, and a position-weighted sum; both modulo 2**64."""
        with self._card.memory(SUMS.size) as sums:
            self._card.fill(sums, 0)
            units = ctypes.c_uint64(memory.size // UNIT)
            self._card.launcher("engine", "checksum", 8 * self.multiprocessors, THREADS, [memory, units, sums])()
            plain, placed = SUMS.unpack(self._card.bytes_of(sums, 0, SUMS.size))
            return plain, placed

    def job(
        self,
        label: str,
        amount: float,
        run: Callable[[], None],
        check: Callable[[], str | None],
        *,
        blank: Callable[[], None] | None = None,
        load: Mapping[str, Any] | None = None,
        gated: bool = True,
        sampler: Sampler | None = None,
        **method: object,
    ) -> Job:
        """Return one way to do a work; ``method`` is stored with it, ``load`` has the fields of a Load."""
        return Job(
            label=label,
            amount=amount,
            run=run,
            check=check,
            method=method,
            blank=blank,
            load=Load(**load) if load else None,
            gated=gated,
            sampler=sampler,
        )

    def products(
        self,
        types: tuple[str, str],
        sizes: tuple[int, int, int],
        workspace: Memory,
        scales: tuple[int, int] | None = None,
        most: int = 1,
        *,
        batch: int = 1,
        stream: int | None = None,
    ) -> tuple[list[Product], Mapping[str, object]]:
        """Return cuBLASLt's ways to compute a product (or a batch) of sizes m, n, k, and which copy of it that is.

        ``types`` are those of A and B, and of D; ``scales`` the addresses of theirs. Skips if it is not supported.
        """
        library, stream = self._cublaslt(), self._card.stream if stream is None else stream
        order = Order(
            dtype=types[0],
            out=types[1],
            **dict(zip("mnk", sizes, strict=True)),
            workspace=workspace.address,
            workspace_bytes=workspace.size,
            scales=scales,
            batch=batch,
        )
        try:
            ways = library.products(order, max(1, most), stream)
        except CublasLtError as error:
            self.skip(f"cuBLASLt {library.version} has no such product here ({error})")
        if not ways:
            self.skip(f"cuBLASLt {library.version} has no way to compute this product on this GPU")
        return ways, {"library": library.path, "library_version": library.version}

    def skip(self, reason: str, remedy: str | None = None) -> NoReturn:
        """Skip this with the reason and the remedy."""
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
