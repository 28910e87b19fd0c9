"""The way between GPUs and the host: PCIe bridges, NVLink, and whether peers reach each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml

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
    """Return the folders of a device and of every bridge above it; nothing where the kernel does not know it."""
    own = Path(root, "bus/pci/devices", pci)
    try:
        real = own.resolve(strict=True)
    except OSError:
        return ()
    return tuple(folder for folder in (real, *real.parents) if ADDRESS.fullmatch(folder.name))


def look(folders: Sequence[Path]) -> list[Hop]:
    """Return what each link runs at and can do: address, generation, lanes, and the most of both."""
    return [(folder.name, *_numbers([_said(folder / name) for name in FILES])) for folder in folders]


def _numbers(said: Sequence[str]) -> tuple[int | None, int | None, int | None, int | None]:
    speed, width, max_speed, max_width = said
    return _generation(speed), _lanes(width), _generation(max_speed), _lanes(max_width)


def _generation(said: str) -> int | None:
    return GENERATIONS.get(said.partition(" ")[0])


def _lanes(said: str) -> int | None:
    """Return the lanes; root ports that are made up tell none, or 255."""
    return int(said) if said.isdecimal() and 0 < int(said) <= MOST_LANES else None


def _said(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class Routes:
    """The links of the GPUs that CUDA shows, found by their UUIDs, since NVML's numbers are others."""

    def __init__(self, handles: Mapping[str, object], rows: Sequence[Mapping[str, Any]]) -> None:
        """Ask NVML by these handles, of the GPUs in these rows."""
        self._handles = {int(row["index"]): handles.get(str(row["uuid"]).lower()) for row in rows}
        self._places = {int(row["index"]): str(row["pci"]).lower() for row in rows}

    def ends(self, gpus: Iterable[int]) -> list[End]:
        """Return the links of each of these GPUs; nothing for one of which NVML tells nothing."""
        listed = list(gpus)
        return [end for gpu in listed if (end := self._end(gpu, [one for one in listed if one != gpu])) is not None]

    def _end(self, gpu: int, others: Sequence[int]) -> End | None:
        handle = self._handles.get(gpu)
        states = _states(handle) if handle is not None else []
        if not states:
            return None
        up = [link for link, state in enumerate(states) if state]
        speeds = [speed for link in up if (speed := _speed(handle, link))]
        straight = {str(one): sum(_leads(handle, link, self._places.get(one)) for link in up) for one in others}
        return {
            "gpu": gpu,
            "links": len(states),
            "up": len(up),
            "mb_s": min(speeds) if speeds else None,
            "straight": {one: count for one, count in straight.items() if count},
        }


def _states(handle: object) -> list[int]:
    """Return for each link whether it is up, as far as there are links."""
    states: list[int] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        told = _told(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        if told is None:
            break
        states.append(int(told))
    return states


def _speed(handle: object, link: int) -> int | None:
    asked: list[Any] = [(SPEED, link), *([OLDER[link]] if link < len(OLDER) else [])]
    for value in _told(pynvml.nvmlDeviceGetFieldValues, handle, asked) or ():
        if not value.nvmlReturn and value.value.uiVal:
            return int(value.value.uiVal)
    return None


def _leads(handle: object, link: int, place: str | None) -> bool:
    """Tell whether this link ends at the GPU at this PCI address."""
    if place is None or _told(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link) != TO_GPU:
        return False
    far = _told(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
    address = getattr(far, "busId", b"")
    text = address.decode("ascii", "replace") if isinstance(address, bytes) else str(address)
    return text.lower().endswith(place) if text else False


def _told(ask: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - NVML answers numbers and structures
    """Return what NVML answers, or None."""
    with suppress(pynvml.NVMLError, AttributeError, UnicodeDecodeError):
        return ask(*given)
    return None
