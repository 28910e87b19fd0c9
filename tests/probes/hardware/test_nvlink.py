"""NVLink through NVML: links up and down, direct and through switches, of old and new generations, or none at all."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.facts import Status
from tests.fakes.nvml import CODES, StandIn, facts_of
from tests.told import load

Tell = Callable[..., None]
NVLINK = load("hardware/nvlink.py")
UUID = "GPU-00000000-0000-0000-0000-00000000000{}"
DISABLED = "GPU 0: NVMLError_NotSupported: Not Supported"
QUESTIONS = (
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetNvLinkErrorCounter",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetP2PStatus",
)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Tell:
    """Return a function that configures the stand-in."""

    def tell(**variables: object) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(f"NVML_FAKE_{name}", str(value))

    return tell


def test_links_to_a_switch_are_reported_each_with_its_end_its_speed_and_its_errors(nvml: StandIn, told: Tell) -> None:
    told(NVLINK=4)
    (gpu,) = nvml.ask("nvlink")
    assert json.dumps(gpu)
    assert {name: fact for name, fact in gpu.items() if name != "links"} == {
        "key": UUID.format(1),
        "index": 0,
        "active": 18,
        "total": 18,
        "topology": {},
        "unavailable": {},
    }
    assert [link["link"] for link in gpu["links"]] == list(range(18))
    assert gpu["links"][5] == {
        "link": 5,
        "active": True,
        "version": "4.0",
        "remote": {"type": "switch", "pci": "0000:00:03.0"},
        "errors": {"crc_data": 503, "replay": 5, "recovery": 5, "crc_flit": 5},
        "speed_gbps": 26.562,
    }


def test_a_switch_outside_the_virtual_machine_has_no_address(nvml: StandIn, told: Tell) -> None:
    told(NVLINK=4)
    (gpu,) = nvml.ask("nvlink")
    assert gpu["links"][17]["remote"] == {"type": "switch", "pci": None}
    assert gpu["unavailable"] == {}


def test_the_fifth_generation_counts_other_errors(nvml: StandIn, told: Tell) -> None:
    told(NVLINK=5)
    (gpu,) = nvml.ask("nvlink")
    assert (gpu["links"][0]["version"], gpu["unavailable"]) == ("5.0", {})
    assert gpu["links"][0]["errors"] == {
        "receive": 0,
        "malformed_packet": 0,
        "buffer_overrun": 0,
        "integrity": 0,
        "recovery_succeeded": 0,
        "recovery_failed": 0,
        "symbol": 0,
        "effective": 0,
        "effective_ber": 1e-15,
    }


def test_a_link_that_is_down_is_reported_beside_the_others(nvml: StandIn) -> None:
    seen = nvml.look("nvlink", NVML_FAKE_NVLINK="4", NVML_FAKE_DOWN="3")["nvlink"]
    (gpu,) = facts_of(seen)
    assert (seen.status, gpu["active"], gpu["total"]) == (Status.PRESENT, 17, 18)
    assert [link["link"] for link in gpu["links"] if not link["active"]] == [3]
    assert gpu["links"][3]["speed_gbps"] == 26.562  # by the field that older drivers have


def test_an_old_driver_tells_the_speed_by_a_field_of_each_link(old_nvml: StandIn, told: Tell) -> None:
    told(NVLINK=4)
    (gpu,) = old_nvml.ask("nvlink")
    assert [link["speed_gbps"] for link in gpu["links"]] == [26.562] * 6 + [None] * 12
    assert gpu["unavailable"] == {"speed": "link 6: NVMLError_NotSupported: Not Supported"}


def test_who_reaches_whom_through_switches(nvml: StandIn, told: Tell) -> None:
    told(NVLINK=4, GPUS=3, DOWN=2)
    gpus = nvml.ask("nvlink")
    pair = {"path": "SYS", "read": "ok", "nvlink": "ok", "nvlinks": 17}
    assert [gpu["topology"] for gpu in gpus] == [
        {"0-1": pair, "0-2": pair},
        {"0-1": pair, "1-2": pair},
        {"0-2": pair, "1-2": pair},
    ]


def test_who_reaches_whom_straight(nvml: StandIn, told: Tell) -> None:
    told(NVLINK=4, GPUS=2, STRAIGHT=1, DOWN=2)
    first, second = nvml.ask("nvlink")
    assert first["links"][0]["remote"] == {"type": "gpu", "pci": "0000:00:1b.0"}
    assert second["links"][0]["remote"] == {"type": "gpu", "pci": "0000:00:1a.0"}
    assert first["topology"]["0-1"]["nvlinks"] == second["topology"]["0-1"]["nvlinks"] == 17


def test_one_gpu_without_nvlink_is_not_enough_for_it(nvml: StandIn) -> None:
    assert nvml.ask("nvlink") == DISABLED
    off = nvml.ask("nvlink", files={"/proc/driver/nvidia/params": "ResmanDebugLevel: 1\nNvLinkDisable: 1\n"})
    assert off == DISABLED + " (the module's parameter NvLinkDisable is 1)"
    seen = nvml.look("nvlink")["nvlink"]
    assert (seen.status, seen.instances) == (Status.NOT_APPLICABLE, ())
    assert str(seen.reason).startswith(DISABLED)


def test_gpus_without_nvlink_still_tell_how_they_reach_each_other(nvml: StandIn) -> None:
    seen = nvml.look("nvlink", NVML_FAKE_GPUS="2")["nvlink"]
    assert seen.status is Status.NOT_APPLICABLE
    assert [copy.facts["why"] for copy in seen.instances] == [DISABLED, DISABLED.replace("GPU 0", "GPU 1")]
    assert seen.instances[0].facts["topology"] == {
        "0-1": {"path": "SYS", "read": "ok", "nvlink": "not-supported", "nvlinks": 0}
    }


def test_a_gpu_with_no_link_in_its_count_has_none(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml.module, "NVML_NVLINK_MAX_LINKS", 0)
    monkeypatch.setenv("NVML_FAKE", "field91=3")
    assert nvml.ask("nvlink") == "GPU 0: NVML counts no links"


@pytest.mark.parametrize("code", sorted({*CODES} - {2, 3}))
def test_a_gpu_whose_links_cannot_be_seen_has_failed(nvml: StandIn, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setenv("NVML_FAKE", f"nvmlDeviceGetNvLinkState={code}")
    (gpu,) = nvml.ask("nvlink")
    error = nvml.module.NVMLError(code)
    assert (gpu["status"], gpu["error"]) == ("failed", f"{type(error).__name__}: {error}")


def test_a_lost_gpu_fails_alone(nvml: StandIn) -> None:
    seen = nvml.look("nvlink", NVML_FAKE="nvmlDeviceGetHandleByIndex_v2#1=15", NVML_FAKE_GPUS="3",
                     NVML_FAKE_NVLINK="4")["nvlink"]  # fmt: skip
    assert [copy.status for copy in seen.instances] == [Status.PRESENT, Status.FAILED, Status.PRESENT]
    assert [copy.key for copy in seen.instances] == [UUID.format(1), "index 1", UUID.format(3)]
    assert seen.instances[1].facts["error"] == "NVMLError_GpuIsLost: GPU is lost"
    assert [list(facts["topology"]) for facts in facts_of(seen)] == [["0-2"], [], ["0-2"]]


@pytest.mark.parametrize("code", [3, 4, 13, 15, 999])
@pytest.mark.parametrize("function", QUESTIONS)
def test_no_question_can_fail_the_links(
    nvml: StandIn,
    told: Tell,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    code: int,
) -> None:
    told(NVLINK=4, GPUS=2)
    monkeypatch.setenv("NVML_FAKE", f"{function}={code}")
    for gpu in nvml.ask("nvlink"):
        assert json.dumps(gpu)
        assert "status" not in gpu
        assert (gpu["active"], gpu["total"], list(gpu["topology"])) == (18, 18, ["0-1"])


def test_what_a_link_does_not_say_is_null_and_has_its_reason(
    nvml: StandIn,
    told: Tell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told(NVLINK=4, GPUS=2)
    monkeypatch.setenv("NVML_FAKE", "nvmlDeviceGetNvLinkVersion=4;nvmlDeviceGetP2PStatus=999")
    first, second = nvml.ask("nvlink")
    assert first["links"][0]["version"] is None
    assert first["topology"]["0-1"] == {"path": "SYS", "read": None, "nvlink": None, "nvlinks": 18}
    assert first["unavailable"] == {
        "version": "link 0: NVMLError_NoPermission: Insufficient Permissions",
        "topology.0-1.read": "NVMLError_Unknown: Unknown Error",
        "topology.0-1.nvlink": "NVMLError_Unknown: Unknown Error",
    }
    assert second["topology"] == first["topology"]


@given(st.integers(0, 0xFFF))
def test_every_coded_error_rate_is_a_rate(coded: int) -> None:
    assert 0 <= NVLINK["rate"](coded) <= 15


@pytest.mark.parametrize(("coded", "meant"), [(0, 0.0), (0x10F, 1e-15), (1025, 0.4), (513, 0.2), (2048, 8.0)])
def test_an_error_rate_is_decoded_as_nvml_says(coded: int, meant: float) -> None:
    assert NVLINK["rate"](coded) == meant
