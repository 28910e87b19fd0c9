"""What the card did while something was measured, read from NVML by a thread; the readings are summed up elsewhere.

NVML's numbering of GPUs is not CUDA's, and it ignores CUDA_VISIBLE_DEVICES: the card is found by its UUID. What a card
or a driver does not tell is None, and never ends a measurement.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml

PERIOD = 0.025
# How long each reason held the clock back so far, by its bit in the mask: catches what is over between two readings.
EVENTS = {0x4: 74, 0x10: 76, 0x20: 269, 0x40: 270, 0x80: 271}
POWER_INSTANT = 186
Reading = dict[str, Any]


class Telemetry:
    """The readings of one card, taken all the time by a thread that ends with its process."""

    def __init__(self, handle: object) -> None:
        """Begin to read this card."""
        self._handle = handle
        self._readings: list[Reading] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._thread.start()

    def window(self, begun: float, ended: float) -> list[Reading]:
        """Give the readings between two times of the monotonic clock; where none fell between them, one of now."""
        return [dict(one) for one in self._readings if begun <= one["at"] <= ended] or [self._reading()]

    def counters(self) -> Reading:
        """Give the counters whose growth matters."""
        return {
            "events": {str(bit): _field(self._handle, number) for bit, number in EVENTS.items()},
            "replays": _told(pynvml.nvmlDeviceGetPcieReplayCounter, self._handle),
            "corrected": _told(pynvml.nvmlDeviceGetTotalEccErrors, self._handle, 0, 0),
            "uncorrected": _told(pynvml.nvmlDeviceGetTotalEccErrors, self._handle, 1, 0),
        }

    def limits(self) -> Reading:
        """Give what does not change while we look."""
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
        }

    def stop(self) -> None:
        """End the readings, without waiting for one that hangs."""
        self._stop.set()
        self._thread.join(1.0)

    def _read_on(self) -> None:
        while not self._stop.is_set():
            self._readings.append(self._reading())
            self._stop.wait(PERIOD)

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
        }


def opened() -> dict[str, object]:
    """Give NVML's handles by UUID; an empty answer where NVML cannot be opened."""
    handles: dict[str, object] = {}
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = _told(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid = _told(pynvml.nvmlDeviceGetUUID, handle) if handle is not None else None
            if isinstance(uuid, str):
                handles[uuid.lower()] = handle
    return handles


def others(handles: Mapping[str, object]) -> dict[str, list[str]]:
    """Give the processes that compute on each GPU, by its UUID. Ask before our own opens one: then all are others.

    Numbers of processes that do not run here are left out: some drivers shuffle them, and a container may not see them.
    """
    return {uuid: _processes(handle) for uuid, handle in handles.items()}


def _processes(handle: object) -> list[str]:
    named = []
    for process in _told(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ():
        with suppress(OSError):
            name = Path(f"/proc/{int(process.pid)}/comm").read_text("utf-8", "replace").strip()
            named.append(f"{process.pid} {name}")
    return named


def _told(ask: Callable[..., Any], *arguments: object, otherwise: Callable[..., Any] | None = None) -> Any:  # noqa: ANN401 - NVML answers numbers, texts and structures
    """Give what NVML answers; where the driver has no such function ask the older one; else None."""
    try:
        return ask(*arguments)
    except pynvml.NVMLError_FunctionNotFound:  # pyright: ignore[reportAttributeAccessIssue] - made at import
        return _told(otherwise, *arguments) if otherwise else None
    except (pynvml.NVMLError, AttributeError, UnicodeDecodeError):
        return None


def _throttle(handle: object) -> object:
    return pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)


def _power(handle: object) -> float | None:
    """Give the watts of this moment; where only the mean of the last second is told, that."""
    return _watts(_field(handle, POWER_INSTANT) or _told(pynvml.nvmlDeviceGetPowerUsage, handle))


def _field(handle: object, number: int) -> int | None:
    """Give one field value that is an unsigned number."""
    answers = _told(pynvml.nvmlDeviceGetFieldValues, handle, [number])
    if not answers or answers[0].nvmlReturn:
        return None
    return int(answers[0].value.ullVal)  # a shorter number fills the lower bytes of a union that was zero


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _mib(memory: Any) -> int | None:  # noqa: ANN401 - a structure of NVML's
    return None if memory is None else int(memory.total) >> 20
