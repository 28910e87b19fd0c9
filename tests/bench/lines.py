"""Lines that the child printed on an H200 on 2026-11-21, for tests to change."""

from __future__ import annotations

from typing import Any

DEVICE: dict[str, Any] = {
    "index": 0,
    "uuid": "GPU-00000000-0000-0000-0000-000000000001",
    "name": "NVIDIA H200",
    "compute_capability": "9.0",
    "pci": "0000:00:06.0",
    "cuda": "13.0",
    "multiprocessors": 132,
    "clock_mhz": 1980.0,
    "memory_clock_mhz": 3201.0,
    "bus_bits": 6016,
    "l2_mib": 60.0,
}
OPENED: dict[str, Any] = {
    "devices": [DEVICE],
    "limits": {
        "driver": "580.159.04",
        "memory_mib": 143771,
        "max_sm": 1980,
        "max_memory": 3201,
        "limit": 700.0,
        "default_limit": 700.0,
        "slowdown": 89,
        "max_generation": 5,
        "max_width": 16,
    },
    "others": [],
    "payload": 256,
}
READING: dict[str, Any] = {
    "at": 10.0,
    "sm": 1980,
    "memory": 3201,
    "watts": 450.0,
    "gpu_c": 47,
    "memory_c": 41,
    "mask": 0,
    "generation": 5,
    "width": 16,
}
COUNTERS: dict[str, Any] = {
    "replays": 0,
    "corrected": 0,
    "uncorrected": 0,
    "events": {"4": 100, "16": None, "32": 0, "64": 0, "128": 0},
}


def measured(name: str, amount: float, each: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """Return what the child prints for a benchmark whose every run took this long."""
    return {
        "id": name,
        "amount": amount,
        "runs": 5,
        "seconds": [each] * 12,
        "clocks": [1980.0] * 12,
        "gated": True,
        "method": {"way": "copy engine", "bytes": amount},
        "tried": {},
        "readings": [READING, {**READING, "watts": 460.0, "mask": None, "generation": 1}],
        "before": COUNTERS,
        "after": COUNTERS,
        "wall": 0.5,
        **more,
    }
