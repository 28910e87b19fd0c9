"""The connections between GPUs and the host: PCIe bridges, NVLink, and peer access."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import pynvml
from cuda.bindings import driver
from cuda.core import Buffer

from gpustack.bench.card import CudaError, Memory

ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# The rate of a lane as the kernel writes it (drivers/pci/probe.c, pci_speed_string), by generation.
GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
MOST_LANES = 32
FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
Hop = tuple[str, int | None, int | None, int | None, int | None]
SPEED = 164  # NVML_FI_DEV_NVLINK_GET_SPEED: megabytes a second of one link and direction; the scope is the link
OLDER = tuple(range(84, 90)) + tuple(range(132, 138))  # NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 to L11, on older drivers
TO_GPU = 0  # NVML_NVLINK_DEVICE_TYPE_GPU
End = dict[str, Any]


def chain(pci: str, root: str = "/sys") -> tuple[Path, ...]:
    """Return the folders of a device and of every bridge above it; nothing if the kernel does not know it."""
    own = Path(root, "bus/pci/devices", pci)
    try:
        real = own.resolve(strict=True)
    except OSError:
        return ()
    return tuple(folder for folder in (real, *real.parents) if ADDRESS.fullmatch(folder.name))


def look(folders: Sequence[Path]) -> list[Hop]:
    """Return each link's current and maximum state: address, generation, lanes, and both maxima."""
    return [(folder.name, *_numbers([_said(folder / name) for name in FILES])) for folder in folders]


def _numbers(said: Sequence[str]) -> tuple[int | None, int | None, int | None, int | None]:
    speed, width, max_speed, max_width = said
    return _generation(speed), _lanes(width), _generation(max_speed), _lanes(max_width)


def _generation(said: str) -> int | None:
    return GENERATIONS.get(said.partition(" ")[0])


def _lanes(said: str) -> int | None:
    """Return the lanes; virtual root ports report none, or 255."""
    return int(said) if said.isdecimal() and 0 < int(said) <= MOST_LANES else None


def _said(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class Routes:
    """The links of the GPUs that CUDA shows, found by UUID, since NVML's numbers differ."""

    def __init__(self, handles: Mapping[str, object], rows: Sequence[Mapping[str, Any]]) -> None:
        """Query NVML with these handles about the GPUs in these rows."""
        self._handles = {int(row["index"]): handles.get(str(row["uuid"]).lower()) for row in rows}
        self._places = {int(row["index"]): str(row["pci"]).lower() for row in rows}

    def ends(self, gpus: Iterable[int]) -> list[End]:
        """Return the links of each of these GPUs; nothing for one that NVML reports nothing about."""
        listed = list(gpus)
        return [end for gpu in listed if (end := self._end(gpu, [one for one in listed if one != gpu])) is not None]

    def _end(self, gpu: int, others: Sequence[int]) -> End | None:
        handle = self._handles.get(gpu)
        known = states(handle) if handle is not None else []
        if not known:
            return None
        up = [link for link, state in enumerate(known) if state]
        speeds = [speed for link in up if (speed := _speed(handle, link))]
        straight = {str(one): sum(_leads(handle, link, self._places.get(one)) for link in up) for one in others}
        return {
            "gpu": gpu,
            "links": len(known),
            "up": len(up),
            "mb_s": min(speeds) if speeds else None,
            "straight": {one: count for one, count in straight.items() if count},
        }


def states(handle: object) -> list[int]:
    """Return for each existing link whether it is up."""
    told = (_told(pynvml.nvmlDeviceGetNvLinkState, handle, link) for link in range(pynvml.NVML_NVLINK_MAX_LINKS))
    return [int(one) for one in takewhile(lambda one: one is not None, told)]


def _speed(handle: object, link: int) -> int | None:
    asked: list[Any] = [(SPEED, link), *([OLDER[link]] if link < len(OLDER) else [])]
    for value in _told(pynvml.nvmlDeviceGetFieldValues, handle, asked) or ():
        if not value.nvmlReturn and value.value.uiVal:
            return int(value.value.uiVal)
    return None


def _leads(handle: object, link: int, place: str | None) -> bool:
    """Return whether this link ends at the GPU with this PCI address."""
    if place is None or _told(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link) != TO_GPU:
        return False
    far = _told(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
    address = getattr(far, "busId", b"")
    text = address.decode("ascii", "replace") if isinstance(address, bytes) else str(address)
    return text.lower().endswith(place) if text else False


def _told(ask: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - NVML answers numbers and structures
    """Return NVML's answer, or None."""
    with suppress(pynvml.NVMLError, AttributeError, UnicodeDecodeError):
        return ask(*given)
    return None


# pyright: reportAttributeAccessIssue=false
# cuda.core and cuda.bindings choose their modules when imported, which type checkers cannot follow.


ALREADY = "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"
STEP = 1 << 16
LARGEST_PART = 4  # no buffer takes more than this share of the free memory
UNORDERED = 1  # CU_STREAM_NON_BLOCKING
NO_TIME = 2  # CU_EVENT_DISABLE_TIMING


class Site:
    """One of several GPUs, with its primary context: the one that every library in this process uses."""

    def __init__(self, ordinal: int) -> None:
        """Open the GPU with this CUDA ordinal; it stays open until the process ends."""
        self.ordinal = ordinal
        (self._device,) = _asked(driver.cuDeviceGet, ordinal)
        (self._context,) = _asked(driver.cuDevicePrimaryCtxRetain, self._device)
        with self._current():
            (stream,) = _asked(driver.cuStreamCreate, UNORDERED)
            (event,) = _asked(driver.cuEventCreate, NO_TIME)
        self.stream, self.done = int(stream), int(event)

    def reach(self, other: Site) -> str | None:
        """Let this GPU access the other's memory; return why it cannot, or None."""
        (able,) = _asked(driver.cuDeviceCanAccessPeer, self._device, other._device)
        if not able:
            return f"the driver does not let GPU {self.ordinal} access the memory of GPU {other.ordinal}"
        try:
            with self._current():
                _asked(driver.cuCtxEnablePeerAccess, other._context, 0)
        except CudaError as error:
            return None if ALREADY in str(error) else str(error)
        return None

    def room(self) -> int:
        """Return the buffer size: a quarter of the free memory."""
        with self._current():
            free, _ = _asked(driver.cuMemGetInfo)
        return int(free) // LARGEST_PART // STEP * STEP

    @contextmanager
    def memory(self, size: int) -> Iterator[Memory]:
        """Yield this many bytes of this GPU's memory, and free them afterwards."""
        with self._current():
            (address,) = _asked(driver.cuMemAlloc, size)
        try:
            yield Memory(int(address), size, Buffer.from_handle(int(address), size))
        finally:
            self.settle()
            with self._current():
                _asked(driver.cuMemFree, int(address))

    def clear(self, memory: Memory) -> None:
        """Fill a memory of this GPU with ones, and wait."""
        with self._current():
            _asked(driver.cuMemsetD8Async, memory.address, 0xFF, memory.size, self.stream)
        self.settle()

    def copy(self, to: Memory, source: Memory) -> None:
        """Enqueue a copy on this GPU's stream, by its own copy engine; both memories have the same size."""
        with self._current():
            _asked(driver.cuMemcpyAsync, to.address, source.address, to.size, self.stream)

    def after(self, event: int) -> None:
        """Make work enqueued on this GPU's stream from now on wait for an event of any GPU."""
        with self._current():
            _asked(driver.cuStreamWaitEvent, self.stream, event, 0)

    def record(self) -> int:
        """Record this GPU's event on its stream, and return it."""
        with self._current():
            _asked(driver.cuEventRecord, self.done, self.stream)
        return self.done

    def settle(self) -> None:
        """Wait for all work on this GPU's stream."""
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
    """Make a stream of the current GPU wait for an event of any GPU."""
    _asked(driver.cuStreamWaitEvent, stream, event, 0)


def move(to: Memory, source: Memory, stream: int) -> None:
    """Enqueue a copy on a stream of the current GPU, by its copy engine, wherever the two memories are."""
    _asked(driver.cuMemcpyAsync, to.address, source.address, to.size, stream)


def _asked(function: Callable[..., Any], *given: Any) -> list[Any]:  # noqa: ANN401 - the bindings have no types
    """Return the driver's answer; raises CudaError with the name of its error."""
    code, *answer = function(*given)
    if int(code):
        raise CudaError(f"{function.__name__} answered {getattr(code, 'name', int(code))}")
    return list(answer)
