"""GPUs beside the one that is measured: plain memory on each, a stream of its own, and who may reach whose memory.

The memory is allocated plainly: that of a pool stays out of the reach of other GPUs, whatever is enabled.
"""

# pyright: reportAttributeAccessIssue=false
# cuda.core and cuda.bindings choose their modules when they are imported: no type checker sees through that.

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cuda.bindings import driver
from cuda.core import Buffer

from gpustack.bench.card import CudaError, Memory

ALREADY = "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"
STEP = 1 << 16
LARGEST_PART = 4  # no buffer takes more than this part of the free memory
UNORDERED = 1  # CU_STREAM_NON_BLOCKING
NO_TIME = 2  # CU_EVENT_DISABLE_TIMING


class Site:
    """One GPU among several, with its primary context: the one that every library in this process uses."""

    def __init__(self, ordinal: int) -> None:
        """Open the GPU with this CUDA ordinal; what is opened stays so until the process ends."""
        self.ordinal = ordinal
        (self._device,) = _asked(driver.cuDeviceGet, ordinal)
        (self._context,) = _asked(driver.cuDevicePrimaryCtxRetain, self._device)
        with self._current():
            (stream,) = _asked(driver.cuStreamCreate, UNORDERED)
            (event,) = _asked(driver.cuEventCreate, NO_TIME)
        self.stream, self.done = int(stream), int(event)

    def reach(self, other: Site) -> str | None:
        """Let this GPU reach the other's memory; give why it may not, or None."""
        (able,) = _asked(driver.cuDeviceCanAccessPeer, self._device, other._device)
        if not able:
            return f"the driver lets GPU {self.ordinal} not reach the memory of GPU {other.ordinal}"
        try:
            with self._current():
                _asked(driver.cuCtxEnablePeerAccess, other._context, 0)
        except CudaError as error:
            return None if ALREADY in str(error) else str(error)
        return None

    def room(self) -> int:
        """Return how large a buffer may be: a quarter of what is free."""
        with self._current():
            free, _ = _asked(driver.cuMemGetInfo)
        return int(free) // LARGEST_PART // STEP * STEP

    @contextmanager
    def memory(self, size: int) -> Iterator[Memory]:
        """Yield so many bytes of this GPU's memory, and take them back afterwards."""
        with self._current():
            (address,) = _asked(driver.cuMemAlloc, size)
        try:
            yield Memory(int(address), size, Buffer.from_handle(int(address), size))
        finally:
            self.settle()
            with self._current():
                _asked(driver.cuMemFree, int(address))

    def clear(self, memory: Memory) -> None:
        """Fill a memory of this GPU with ones, and wait for that."""
        with self._current():
            _asked(driver.cuMemsetD8Async, memory.address, 0xFF, memory.size, self.stream)
        self.settle()

    def copy(self, to: Memory, source: Memory) -> None:
        """Enqueue a copy on this GPU's stream, done by its own copy engine; both memories are of one size."""
        with self._current():
            _asked(driver.cuMemcpyAsync, to.address, source.address, to.size, self.stream)

    def after(self, event: int) -> None:
        """Have what is enqueued on this GPU's stream from now on wait for an event of any GPU."""
        with self._current():
            _asked(driver.cuStreamWaitEvent, self.stream, event, 0)

    def record(self) -> int:
        """Enqueue this GPU's event on its stream, and give it."""
        with self._current():
            _asked(driver.cuEventRecord, self.done, self.stream)
        return self.done

    def settle(self) -> None:
        """Wait until all that was enqueued on this GPU's stream is done."""
        with self._current():
            _asked(driver.cuStreamSynchronize, self.stream)

    @contextmanager
    def _current(self) -> Iterator[None]:
        _asked(driver.cuCtxPushCurrent, self._context)
        try:
            yield
        finally:
            driver.cuCtxPopCurrent()


def follow(stream: int, event: int) -> None:
    """Have a stream of the current GPU wait for an event of any GPU."""
    _asked(driver.cuStreamWaitEvent, stream, event, 0)


def move(to: Memory, source: Memory, stream: int) -> None:
    """Enqueue a copy on a stream of the current GPU, done by its copy engine, wherever the two memories are."""
    _asked(driver.cuMemcpyAsync, to.address, source.address, to.size, stream)


def _asked(function: Callable[..., Any], *given: Any) -> list[Any]:  # noqa: ANN401 - the bindings have no types
    """Return what the driver answers; raises CudaError with the name of its error."""
    code, *answer = function(*given)
    if int(code):
        raise CudaError(f"{function.__name__} answered {getattr(code, 'name', int(code))}")
    return list(answer)
