"""What the card did while something was measured, read from NVML by a thread; the readings are summed up elsewhere.

NVML's numbering of GPUs is not CUDA's, and it ignores CUDA_VISIBLE_DEVICES: the card is found by its UUID. What a card
or a driver does not tell is None, and never ends a measurement.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml

from gpustack.bench import routes
from gpustack.matrix.subjects import ranges

PERIOD = 0.025
HOPS_EVERY = 4  # readings: the kernel queries every bridge, which takes longer than NVML
MOST_READINGS = 2000  # of one window; those of a long one are thinned out evenly
IDLE, DECAY, ASK_EVERY = 10, 1.5, 0.1  # percent; seconds for another process's last work to fade, and between queries
# How long each reason held the clock back so far, by its bit in the mask: catches what is over between two readings.
# The last three got other numbers within R580, where settings had these: NVML_FI_DEV_CLOCKS_EVENT_REASON_* of
# nvidia-ml-py 12.570.86, which has none of them, 12.575.51, 13.580.65 and 13.580.82.
EVENTS = {0x4: 74, 0x10: 76}
SINCE_575, SINCE_580_82 = {0x20: 251, 0x40: 252, 0x80: 253}, {0x20: 269, 0x40: 270, 0x80: 271}
HIGHEST = 1 << 22  # number of a process: PID_MAX_LIMIT in the kernel's include/linux/threads.h
SERVERS = frozenset({"nvidia-cuda-mps", "nvidia-cuda-mps-server"})  # without a client on the card they compute nothing
LAG = 1.0  # seconds until NVML reports what a process used
POWER_INSTANT = 186
# Flits and data that came with errors, repeats, recoveries: totals of all links of a GPU.
NVLINK_ERRORS = (38, 45, 52, 59)
Reading = dict[str, Any]


class Telemetry:
    """The readings of one card, taken continuously by a thread that ends with its process."""

    def __init__(self, handle: object, pci: str = "", own: frozenset[int] = frozenset()) -> None:
        """Start reading the card at a PCI address; ``own`` are NVML's numbers of our own process."""
        self._handle = handle
        self._chain = routes.chain(pci) if pci else ()
        self._hops: list[routes.Hop] = []
        self._own = own or frozenset({os.getpid()})
        self._driver = str(_told(pynvml.nvmlSystemGetDriverVersion))
        self._asked = time.time()
        self._readings: list[Reading] = []
        threading.Thread(target=self._read_on, daemon=True).start()

    def window(self, begun: float, ended: float) -> list[Reading]:
        """Return the readings between two times of the monotonic clock; without any, one of now."""
        found = [dict(one) for one in self._readings if begun <= one["at"] <= ended] or [self._reading()]
        found[0]["hops"] = found[0]["hops"] or self._hops
        return found[:: -(-len(found) // MOST_READINGS)]

    def forget(self, before: float) -> None:
        """Drop the readings before a time of the monotonic clock: a load may run for days."""
        self._readings = [one for one in self._readings if one["at"] >= before]

    def counters(self) -> Reading:
        """Return the counters whose growth matters, and who else has worked since the last call."""
        since, self._asked = self._asked, time.time()
        return {
            "others": self.others(),
            "used": _used(self._handle, since - LAG, self._own),
            "nvlink_errors": _sum(_field(self._handle, number) for number in NVLINK_ERRORS),
            "events": {str(bit): _field(self._handle, number) for bit, number in events(self._driver).items()},
            "replays": _told(pynvml.nvmlDeviceGetPcieReplayCounter, self._handle),
            "corrected": _told(pynvml.nvmlDeviceGetTotalEccErrors, self._handle, 0, 0),
            "uncorrected": _told(pynvml.nvmlDeviceGetTotalEccErrors, self._handle, 1, 0),
        }

    def others(self) -> list[str]:
        """Return the number, name and memory of each other process on the card; without a name if it is outside.

        If NVML has another number for us than we have, it counts as the host does and not as our container: its numbers
        are then those of other processes here. Otherwise those not running here are left out.
        """
        outside = os.getpid() not in self._own
        those = [one for one in _listed(self._handle) if one.pid not in self._own]
        told = [(one, "as the host counts" if outside else _name(one.pid)) for one in those]
        return [f"{one.pid} {name}{_held(one.usedGpuMemory)}" for one, name in told if name is not None]

    def limits(self) -> Reading:
        """Return what does not change during the measurement."""
        handle = self._handle
        return {
            "driver": _told(pynvml.nvmlSystemGetDriverVersion),
            "memory_mib": _mib(_told(pynvml.nvmlDeviceGetMemoryInfo, handle)),
            "max_sm": _told(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
            "max_memory": _told(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM),
            "limit": _watts(_told(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
            "default_limit": _watts(_told(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)),
            "slowdown": _told(pynvml.nvmlDeviceGetTemperatureThreshold, handle, 1),
            "max_generation": _told(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "max_width": _told(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
            "remap_pending": _remap_pending(handle),
            "nvlinks": _nvlinks(handle),
        }

    def _read_on(self) -> None:
        while True:
            self._readings.append(self._reading())
            time.sleep(PERIOD)

    def _reading(self) -> Reading:
        handle = self._handle
        reasons = getattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        return {
            "at": time.monotonic(),
            "sm": _told(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
            "memory": _told(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
            "watts": _power(handle),
            "gpu_c": _told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
            "memory_c": _field(handle, pynvml.NVML_FI_DEV_MEMORY_TEMP),
            "mask": _told(reasons or _throttle, handle, otherwise=_throttle),
            "generation": _told(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "width": _told(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            "state": _told(pynvml.nvmlDeviceGetPerformanceState, handle),
            "hops": self._changed() if len(self._readings) % HOPS_EVERY == 0 else None,
        }

    def _changed(self) -> list[routes.Hop] | None:
        """Return the links up to the root if they changed since the last reading."""
        now = routes.look(self._chain)
        changed, self._hops = now != self._hops, now
        return now if changed else None


def opened() -> dict[str, object]:
    """Return NVML's handles by UUID; empty if NVML cannot be opened."""
    handles: dict[str, object] = {}
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = _told(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid = _told(pynvml.nvmlDeviceGetUUID, handle) if handle is not None else None
            if isinstance(uuid, str):
                handles[uuid.lower()] = handle
    return handles


def parent(handles: Mapping[str, object], uuid: str) -> tuple[object, str | None]:
    """Return the handle of the card with this UUID, or of a MIG instance's parent, and its share."""
    if uuid.lower() in handles or not uuid.startswith("MIG-"):
        return handles.get(uuid.lower()), None
    mine = _told(pynvml.nvmlDeviceGetHandleByUUID, uuid.encode())
    whole = _told(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, mine) if mine is not None else None
    part, all_ = (
        _mib(_told(pynvml.nvmlDeviceGetMemoryInfo, one)) if one is not None else None for one in (mine, whole)
    )
    return whole, f"{part / 1024:.0f} of {all_ / 1024:.0f} GiB" if part and all_ else "its share is not reported"


def events(driver: str) -> Mapping[int, int]:
    """Return the fields of this driver release for the reasons of a lower clock, by bit."""
    release = ranges.numbers(driver)[:2]
    later = SINCE_580_82 if release >= (580, 82) else SINCE_575 if release >= (575,) else {}
    return {**EVENTS, **later}


def numbers(handle: object) -> frozenset[int]:
    """Return NVML's numbers of all processes on a GPU."""
    return frozenset(int(process.pid) for process in _listed(handle))


def company(handle: object) -> list[str]:
    """Return who computes on a GPU that we have not opened: its number, and its name if it runs here."""
    told = [(one.pid, _name(one.pid)) for one in _listed(handle)]
    return [f"{pid} {name or 'elsewhere'}" for pid, name in told if name not in SERVERS]


def busy(handle: object) -> int | None:
    """Return how busy a GPU is in percent, once the rest of another process's work has faded."""
    return settled(lambda: _busy(handle), time.sleep)


def settled(ask: Callable[[], int | None], wait: Callable[[float], None]) -> int | None:
    """Return a reading once it is low, or after the time in which it should have dropped."""
    seen = [ask()]
    while seen[-1] is not None and seen[-1] > IDLE and len(seen) * ASK_EVERY < DECAY:
        wait(ASK_EVERY)
        seen.append(ask())
    return seen[-1]


def _busy(handle: object) -> int | None:
    told = _told(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return None if told is None else int(told.gpu)


def _listed(handle: object) -> list[Any]:
    """Return the processes computing on a GPU, without impossible numbers: R535.43 to .86 shuffle the list."""
    listed = _told(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
    return [one for one in listed if 0 < one.pid <= HIGHEST]


def _name(pid: int) -> str | None:
    """Return the name of a process of this machine, or None for an unknown number."""
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return None


def _held(memory: int | None) -> str:
    return f", {memory / (1 << 30):.1f} GiB" if memory else ""


def _used(handle: object, since: float, own: frozenset[int]) -> int | None:
    """Return the maximum share of multiprocessor time that another process used, in percent; 0 for none."""
    try:
        samples: Sequence[Any] = pynvml.nvmlDeviceGetProcessUtilization(handle, int(since * 1e6))
    except pynvml.NVMLError as error:
        return 0 if getattr(error, "value", None) in {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND} else None
    except (AttributeError, ValueError):
        return None
    return max((int(one.smUtil) for one in samples if int(one.pid) not in own), default=0)


def _remap_pending(handle: object) -> bool | None:
    told = _told(pynvml.nvmlDeviceGetRemappedRows, handle)
    return bool(told[2]) if told is not None else None


def _nvlinks(handle: object) -> dict[str, int] | None:
    """Return how many links to other GPUs there are, and how many are up."""
    states = routes.states(handle)
    return {"total": len(states), "active": sum(states)} if states else None


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _told(ask: Callable[..., Any], *arguments: object, otherwise: Callable[..., Any] | None = None) -> Any:  # noqa: ANN401 - NVML answers numbers, texts and structures
    """Return NVML's answer, from the older function if the driver lacks this one; else None."""
    try:
        return ask(*arguments)
    except pynvml.NVMLError_FunctionNotFound:  # pyright: ignore[reportAttributeAccessIssue] - made at import
        return _told(otherwise, *arguments) if otherwise else None
    except (pynvml.NVMLError, AttributeError, UnicodeDecodeError):
        return None


def _throttle(handle: object) -> object:
    return pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)


def _power(handle: object) -> float | None:
    """Return the current watts, or the mean of the last second if only that is reported."""
    return _watts(_field(handle, POWER_INSTANT) or _told(pynvml.nvmlDeviceGetPowerUsage, handle))


def _field(handle: object, number: int) -> int | None:
    """Return one field value that is an unsigned number."""
    answers = _told(pynvml.nvmlDeviceGetFieldValues, handle, [number])
    if not answers or answers[0].nvmlReturn:
        return None
    return int(answers[0].value.ullVal)  # a shorter number fills the lower bytes of a union that was zero


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _mib(memory: Any) -> int | None:  # noqa: ANN401 - a structure of NVML's
    return None if memory is None else int(memory.total) >> 20
