"""One GPU as the benches use it: its attributes, memory, kernels, events and one stream, through cuda.core.

The driver interface alone is asked, never the CUDA runtime, which refuses older drivers. Guards against
differences between drivers and bindings, each tried against a stand-in driver: pinned memory comes from cuMemAllocHost
(pools of pinned memory need CUDA 13); the time between events is read through ctypes from the symbol without version
(bindings 13 ask for one that drivers before 12.8 lack); GPUs are counted and PCI addresses put together by the driver
(cuda.core's own ways go through the runtime, or through NVML, which knows nothing of CUDA_VISIBLE_DEVICES).
"""

# cuda.core chooses its modules by the CUDA version when imported, which type checkers cannot follow.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from cuda.bindings import driver
from cuda.core import (
    Buffer,
    Device,
    Event,
    EventOptions,
    Kernel,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ObjectCode,
    Stream,
)
from cuda.core import launch as enqueue

from gpustack.bench.compiling import Code, Kernels

POLL = 0.0002
NOT_FOUND = "CUDA_ERROR_NOT_FOUND"


class CudaError(Exception):
    """The driver returned an error."""


class HungError(Exception):
    """The GPU did not finish its work in time."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that the GPU can access. Pinned memory has the same address on the host."""

    address: int
    size: int
    buffer: Buffer


Argument: TypeAlias = Memory | ctypes.c_uint32 | ctypes.c_uint64 | ctypes.c_float


def cuda_version() -> int:
    """Return the CUDA version of the driver as CUDA packs it: 13000 is 13.0."""
    (version,) = _must(*driver.cuDriverGetVersion())
    return int(version)


def devices() -> list[dict[str, Any]]:
    """Return every GPU that CUDA shows, as rows for the parent."""
    _must(*driver.cuInit(0))
    (count,) = _must(*driver.cuDeviceGetCount())
    version = cuda_version()
    cuda = f"{version // 1000}.{version % 1000 // 10}"
    return [_row(Device(ordinal), cuda) for ordinal in range(int(count))]


def _must(code: Any, *answer: Any) -> tuple[Any, ...]:  # noqa: ANN401 - what the bindings answer has no types
    """Return the result of a driver call; raises CudaError with the name of its error."""
    if int(code):
        raise CudaError(f"{code.name}")
    return answer


def _row(device: Device, cuda: str) -> dict[str, Any]:
    told = device.properties
    uuid = str(device.uuid)
    return {
        "index": device.device_id,
        "uuid": uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}",
        "name": device.name,
        "compute_capability": f"{device.compute_capability.major}.{device.compute_capability.minor}",
        "pci": f"{told.pci_domain_id:04x}:{told.pci_bus_id:02x}:{told.pci_device_id:02x}.0",
        "cuda": cuda,
        "multiprocessors": told.multiprocessor_count,
        "clock_mhz": told.clock_rate / 1000,
        "memory_clock_mhz": told.memory_clock_rate / 1000,
        "bus_bits": told.global_memory_bus_width,
        "l2_mib": told.l2_cache_size / (1 << 20),
    }


class Card:
    """One GPU made current, with its own stream."""

    def __init__(self, ordinal: int, library: str | None = None) -> None:
        """Open the GPU with this CUDA ordinal; a kernel compiler is searched for beside ``library`` first."""
        self.ordinal = ordinal
        self._device = Device(ordinal)
        self._device.set_current()
        self._stream = self._device.create_stream()
        self._pinned = LegacyPinnedMemoryResource()
        self._code: dict[str, tuple[Code, ObjectCode]] = {}
        self.cuda = cuda_version()
        told = self._device.properties
        self.multiprocessors: int = told.multiprocessor_count
        self.l2_bytes: int = told.l2_cache_size
        self.threads: int = told.max_threads_per_multiprocessor
        self.capability: tuple[int, int] = (told.compute_capability_major, told.compute_capability_minor)
        self._kernels = Kernels(capability=self.capability, cuda=self.cuda, library=library)
        self._elapsed = ctypes.CDLL("libcuda.so.1").cuEventElapsedTime
        self._elapsed.argtypes = [ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p]

    @property
    def stream(self) -> int:
        """The handle of the stream, for NVIDIA's libraries."""
        return int(self._stream.handle)

    @property
    def pci(self) -> str:
        """Its PCI address."""
        return str(_row(self._device, "")["pci"])

    def free(self) -> tuple[int, int]:
        """Return the free and total bytes of device memory."""
        free, total = _must(*driver.cuMemGetInfo())
        return int(free), int(total)

    @contextmanager
    def memory(self, size: int) -> Iterator[Memory]:
        """Yield this many bytes of device memory, and free them afterwards."""
        yield from self._lend(self._device.allocate(size, stream=self._stream), size)

    @contextmanager
    def pinned(self, size: int) -> Iterator[Memory]:
        """Yield this many bytes of pinned host memory, and free them afterwards."""
        yield from self._lend(self._pinned.allocate(size), size)

    def _lend(self, buffer: Buffer, size: int) -> Iterator[Memory]:
        self._stream.sync()
        try:
            yield Memory(int(buffer.handle), size, buffer)
        finally:
            buffer.close()

    def kernel(self, file: str, name: str) -> Kernel:
        """Return a kernel by file and function name, compiled for this GPU if the driver accepts that."""
        if file not in self._code:
            self._take(file, self._kernels.code(file))
        code, held = self._code[file]
        try:
            return held.get_kernel(name)
        except Exception as error:
            if not code.compiled or NOT_FOUND in str(error):
                raise
            self._take(file, self._kernels.shipped(file, f"the driver refused what was {code.how}"))
            return self._code[file][1].get_kernel(name)

    def has(self, file: str, name: str) -> bool:
        """Return whether this kernel exists: some are only for newer architectures."""
        try:
            self.kernel(file, name)
        except Exception as error:
            if NOT_FOUND not in str(error):
                raise
            return False
        return True

    def how(self, file: str) -> str:
        """Return in words how a file's kernels were compiled."""
        return self._code[file][0].how if file in self._code else "not loaded"

    def _take(self, file: str, code: Code) -> None:
        make = ObjectCode.from_cubin if code.compiled else ObjectCode.from_ptx
        self._code[file] = code, make(code.data, name=file)

    def launcher(
        self, file: str, name: str, blocks: int, threads: int, arguments: Sequence[Argument]
    ) -> Callable[[], None]:
        """Return a function that enqueues this kernel with these arguments once."""
        kernel, stream = self.kernel(file, name), self._stream
        config = LaunchConfig(grid=blocks, block=threads)
        given = [argument.buffer if isinstance(argument, Memory) else argument for argument in arguments]
        return lambda: enqueue(stream, config, kernel, *given)

    def starter(
        self,
        kernel: Kernel,
        sizes: tuple[tuple[int, int, int], tuple[int, int, int], int],
        arguments: Sequence[ctypes.c_uint32 | ctypes.c_uint64 | ctypes.c_float],
        stream: Stream | None = None,
    ) -> Callable[[], None]:
        """Return a function that enqueues a kernel of this grid, block and shared memory once, addresses as numbers."""
        grid, block, shared = sizes
        config, where = LaunchConfig(grid=grid, block=block, shmem_size=shared), stream or self._stream
        return lambda: enqueue(where, config, kernel, *arguments)

    def allocate(self, size: int) -> int:
        """Return the address of newly allocated device memory, in stream order if pools are supported."""
        take = driver.cuMemAllocAsync(size, self.stream) if self.has_pools else driver.cuMemAlloc(size)
        (address,) = _must(*take)
        return int(address)

    def release(self, address: int) -> None:
        """Free an allocation by its address."""
        _must(*(driver.cuMemFreeAsync(address, self.stream) if self.has_pools else driver.cuMemFree(address)))

    def spoil(self, address: int, size: int) -> None:
        """Enqueue filling bytes with ones, so that anything not overwritten is not a number."""
        _must(*driver.cuMemsetD8Async(address, 0xFF, size, self.stream))

    def copy(self, to: Memory, source: Memory) -> None:
        """Enqueue a copy between two memories of one size, on either side."""
        source.buffer.copy_to(to.buffer, stream=self._stream)

    def fill(self, to: Memory, byte: int) -> None:
        """Enqueue filling a memory with one byte value."""
        to.buffer.fill(byte, stream=self._stream)

    def another(self) -> Stream:
        """Return a second stream, for concurrent work."""
        return self._device.create_stream()

    def to_device(self, to: int, source: int, size: int, stream: Stream | None = None) -> None:
        """Enqueue a copy of this many bytes from a host address, pinned or not, to a device address."""
        _must(*driver.cuMemcpyHtoDAsync(to, source, size, int((stream or self._stream).handle)))

    def to_host(self, to: int, source: int, size: int, stream: Stream | None = None) -> None:
        """Enqueue a copy of this many bytes from a device address to a host address, pinned or not."""
        _must(*driver.cuMemcpyDtoHAsync(to, source, size, int((stream or self._stream).handle)))

    def settle(self) -> None:
        """Wait for all enqueued work, without a limit, since it is known to finish."""
        self._stream.sync()

    def after(self, event: Event) -> None:
        """Make all work enqueued from now on wait for an event of another stream."""
        self._stream.wait(event)

    def function(self, file: str, name: str) -> int:
        """Return a kernel as a handle for the driver's own launch."""
        (function,) = _must(*driver.cuKernelGetFunction(int(self.kernel(file, name).handle)))
        return int(function)

    @property
    def has_pools(self) -> bool:
        """Whether memory can be allocated in stream order."""
        return bool(self._device.properties.memory_pools_supported)

    def event(self) -> Event:
        """Return a new timing event."""
        return self._device.create_event(EventOptions(timing_enabled=True))

    def record(self, event: Event) -> None:
        """Enqueue an event."""
        self._stream.record(event)

    def wait(self, event: Event, seconds: float) -> None:
        """Wait until the GPU has passed an event; raises HungError if that takes too long."""
        late = time.monotonic() + seconds
        while not event.is_done:
            if time.monotonic() > late:
                raise HungError(f"the GPU did not finish in {seconds:g} s")
            time.sleep(POLL)

    def seconds(self, begin: Event, end: Event) -> float:
        """Return the time between two events that the GPU has passed."""
        milliseconds = ctypes.c_float()
        code = self._elapsed(ctypes.byref(milliseconds), int(begin.handle), int(end.handle))
        if code:
            raise CudaError(f"cuEventElapsedTime answered {code}")
        return milliseconds.value / 1000

    def bytes_of(self, memory: Memory, offset: int, size: int) -> bytes:
        """Return bytes of a device memory, after all enqueued work."""
        self._stream.sync()
        held = ctypes.create_string_buffer(size)
        _must(*driver.cuMemcpyDtoH(ctypes.addressof(held), memory.address + offset, size))
        return held.raw

    def put(self, memory: Memory, data: bytes) -> None:
        """Write bytes to the beginning of a device memory, after all enqueued work."""
        with self.pinned(len(data)) as held:
            ctypes.memmove(held.address, data, len(data))
            _must(*driver.cuMemcpyAsync(memory.address, held.address, len(data), self.stream))
            self._stream.sync()
