"""The numeric ids of NVML queries: a wrong one is answered too, with something else."""

from __future__ import annotations

import importlib.metadata

import pytest

pynvml = pytest.importorskip("pynvml")
telemetry = pytest.importorskip("gpustack.bench.telemetry")
OURS = importlib.metadata.version("nvidia-ml-py").partition(".")[2]  # 13.580.82 is from driver 580.82


def test_each_reason_for_a_slower_clock_is_asked_for_by_its_own_number() -> None:
    reasons = {
        "SwPowerCap": "SW_POWER_CAP",
        "SyncBoost": "SYNC_BOOST",
        "SwThermalSlowdown": "SW_THERM_SLOWDOWN",
        "HwThermalSlowdown": "HW_THERM_SLOWDOWN",
        "HwPowerBrakeSlowdown": "HW_POWER_BRAKE_SLOWDOWN",
    }
    named = {
        getattr(pynvml, f"nvmlClocksEventReason{bit}"): getattr(pynvml, f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{field}")
        for bit, field in reasons.items()
    }
    assert telemetry.events(OURS) == named
    assert telemetry.events("580.65.06") != telemetry.events("580.159.04"), "they were renumbered there"
    assert telemetry.events("570.133.20") == telemetry.events("None") == telemetry.EVENTS, "not told, so not asked for"


def test_errors_of_links_are_the_totals_of_all_links_of_a_gpu() -> None:
    kinds = ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
    named = tuple(getattr(pynvml, f"NVML_FI_DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL") for kind in kinds)
    assert named == telemetry.NVLINK_ERRORS
