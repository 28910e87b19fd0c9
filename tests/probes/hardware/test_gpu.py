"""GPUs via NVML: healthy, partly unreadable, lost, partitioned, shared, behind drivers that lie or know less."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.collect import catalogue, probing
from gpustack.model.facts import Status
from tests.fakes.nvml import CODES, StandIn, facts_of
from tests.told import ToldHost, load

FAKES = Path(__file__).parents[2] / "fakes"
GPU = load("hardware/gpu.py")
FUNCTIONS = sorted(
    {f"nvmlDeviceGet{row[1]}" for row in (*GPU["QUESTIONS"], *GPU["STRUCTURES"])}
    | {f"field{number}" for number in (82, 91, 193, 230, 75)}
    | {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetFieldValues", "nvmlDeviceGetComputeRunningProcesses_v3"}
)
H200: dict[str, Any] = json.loads((FAKES / "nvml_h200.json").read_text("utf-8"))  # what the stand-in must yield


def same_shape(facts: object, other: object) -> bool:
    """Return whether two answers have the same facts, whatever their values and reasons."""
    if isinstance(facts, dict) and isinstance(other, dict):
        shared = [name for name in facts if name != "unavailable"]
        return set(facts) == set(other) and all(same_shape(facts[name], other[name]) for name in shared)
    return True


def one(nvml: StandIn, **told: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a told host takes
    (gpu,) = nvml.ask("gpu", **told)
    assert json.dumps(gpu)
    return dict(gpu)


def test_a_whole_h200_is_reported(nvml: StandIn) -> None:
    assert one(nvml) == H200


@pytest.mark.gpu
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA driver is at work here")
def test_a_real_gpu_tells_the_same_facts_in_plausible_ranges() -> None:
    systems = [system for system in catalogue.load() if system.id == "gpu"]
    (seen,) = probing.look(pythons=[sys.executable], systems=systems).components
    for gpu in facts_of(seen):
        assert same_shape(gpu, {name: fact for name, fact in H200.items() if name != "key"})
        assert 1000 < gpu["memory"]["total_mib"] < 1 << 20
        assert 0 < gpu["temperature"]["gpu_c"] < 110


def test_a_whole_look_tells_the_same(nvml: StandIn) -> None:
    seen = nvml.look("gpu")["gpu"]
    (gpu,) = seen.instances
    assert (seen.status, gpu.key, gpu.facts["name"]) == (Status.PRESENT, H200["key"], H200["name"])
    assert same_shape(gpu.facts, {name: fact for name, fact in H200.items() if name != "key"})
    assert sum(call.name == "nvmlDeviceGetTotalEccErrors" for call in seen.calls) == 4


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_one_question_loses_only_its_own_fact(
    nvml: StandIn, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setenv("NVML_FAKE", f"nvmlDeviceGetEccMode={code};field230={code}")
    gpu = one(nvml)
    assert (gpu["ecc"]["enabled"], gpu["ecc"]["pending"], gpu["ecc"]["uncorrected_volatile"]) == (None, None, 10)
    assert (gpu["recovery_action"], gpu["recovery_action_name"]) == (None, None)
    assert set(gpu["unavailable"]) == {"ecc.enabled", "ecc.pending", "recovery_action"}
    assert set(gpu["unavailable"].values()) == {
        f"{type(error).__name__}: {error}" for error in (nvml.module.NVMLError(code),)
    }
    if code in {15, 16}:  # these two concern the whole GPU
        assert (gpu["status"], gpu["code"], gpu["error"]) == ("failed", code, gpu["unavailable"]["ecc.enabled"])
    else:
        assert "status" not in gpu
    rest = {name for name in gpu if gpu[name] != H200.get(name)}
    assert rest <= {"ecc", "recovery_action", "recovery_action_name", "unavailable", "status", "code", "error"}


@pytest.mark.parametrize("does", ["garbage", "3", "13", "4"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_question_can_fail_the_gpu(nvml: StandIn, monkeypatch: pytest.MonkeyPatch, function: str, does: str) -> None:
    monkeypatch.setenv("NVML_FAKE", f"{function}={does}")
    monkeypatch.setenv("NVML_FAKE_PIDS", "1")
    gpu = one(nvml)
    assert "status" not in gpu
    assert same_shape(gpu, H200)


@pytest.mark.parametrize("function", ["UUID", "Name", "VbiosVersion"])
def test_garbage_where_text_should_be_is_a_reason(
    nvml: StandIn, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("NVML_FAKE", f"nvmlDeviceGet{function}=garbage")
    gpu = one(nvml)
    (why,) = gpu["unavailable"].values()
    assert "UnicodeDecodeError" in why
    assert gpu["key"] == ("index 0" if function == "UUID" else H200["key"])


def test_a_field_of_an_unknown_type_is_a_reason(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_FAKE", "field82=garbage")
    gpu = one(nvml)
    assert gpu["unavailable"] == {"temperature.memory_c": "its type is unknown: 99"}
    assert gpu["temperature"]["shutdown_margin_c"] == -8


def test_an_older_nvidia_ml_py_costs_what_it_does_not_know(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvmlDeviceGetRepairStatus", "c_nvmlGpuFabricInfoV_t", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"):
        monkeypatch.delattr(nvml.module, name)
    gpu = one(nvml)
    assert set(gpu["unavailable"]) == {"repair.channel_pending", "repair.tpc_pending", "fabric", "recovery_action"}
    assert "has no attribute 'c_nvmlGpuFabricInfoV_t'" in gpu["unavailable"]["fabric"]


def test_an_old_driver_answers_with_what_it_has_and_the_rest_is_said(old_nvml: StandIn) -> None:
    gpu = one(old_nvml)
    assert same_shape(gpu, H200)
    assert gpu["throttle"] == {"mask": 1, "reasons": ["gpu_idle"]}
    assert gpu["temperature"]["gpu_c"] == 38
    assert gpu["memory"] == {**H200["memory"], "used_mib": 616, "reserved_mib": None}
    assert gpu["processes"] == []
    assert set(gpu["unavailable"]) == {
        "fabric",
        "gsp_firmware",
        "recovery_action",
        "repair.channel_pending",
        "repair.tpc_pending",
        "processes.compute",
        "processes.graphics",
        "processes.mps",
        "ecc.sram_uncorrected_volatile",
        "ecc.sram_uncorrected_aggregate",
        "ecc.sram_corrected_volatile",
        "ecc.sram_corrected_aggregate",
        "ecc.sram_threshold_exceeded",
        "pcie.correctable_errors",
        "pcie.nonfatal_errors",
        "pcie.fatal_errors",
        "temperature.margin_c",
        "temperature.shutdown_margin_c",
        "temperature.slowdown_margin_c",
        "temperature.gpu_max_margin_c",
        "temperature.memory_max_margin_c",
    }
    assert gpu["unavailable"]["gsp_firmware"] == "NVMLError_FunctionNotFound: Function Not Found"


def test_one_lost_gpu_of_eight_fails_alone(nvml: StandIn) -> None:
    seen = nvml.look("gpu", NVML_FAKE="nvmlDeviceGetHandleByIndex_v2#3=15;nvmlDeviceGetMemoryBusWidth#5=16",
                     NVML_FAKE_GPUS="8")["gpu"]  # fmt: skip
    assert seen.status is Status.PRESENT
    assert [copy.status for copy in seen.instances] == [
        Status.FAILED if index in {3, 5} else Status.PRESENT for index in range(8)
    ]
    lost, resetting = seen.instances[3], seen.instances[5]
    assert lost.key == "index 3"
    assert lost.facts == {"index": 3, "code": 15, "error": "NVMLError_GpuIsLost: GPU is lost"}
    assert (resetting.facts["code"], resetting.facts["index"], resetting.facts["cc"]) == (16, 5, "9.0")
    assert len({copy.key for copy in seen.instances}) == 8


def test_no_gpu_at_all_is_absence(nvml: StandIn) -> None:
    seen = nvml.look("gpu", NVML_FAKE_GPUS="0")["gpu"]
    assert (seen.status, seen.instances) == (Status.ABSENT, ())


def test_a_senseless_count_of_gpus_ends(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_FAKE_GPUS", "2000000000")
    monkeypatch.setenv("NVML_FAKE", "nvmlDeviceGetHandleByIndex_v2=6")
    assert len(nvml.ask("gpu")) == GPU["MOST_GPUS"]


def test_the_parts_of_a_divided_gpu_are_reported(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_FAKE_MIG", "2")
    mig = one(nvml)["mig"]
    assert (mig["enabled"], mig["pending"], mig["max_instances"]) == (True, True, 7)
    assert mig["instances"] == [
        {
            "index": number,
            "uuid": f"MIG-00000000-0000-0000-0000-{1001 + 1000 * number:012x}",
            "name": "NVIDIA H200",
            "gpu_instance": number + 1,
            "compute_instance": 0,
            "sms": 60,
            "memory_mib": 71424,
            "unavailable": {},
        }
        for number in range(2)
    ]


@pytest.mark.parametrize("function", ["nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"])
def test_parts_that_are_not_visible_are_not_said_to_be_none(
    nvml: StandIn, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("NVML_FAKE_MIG", "2")
    monkeypatch.setenv("NVML_FAKE", f"{function}=4")
    gpu = one(nvml)
    assert (gpu["mig"]["enabled"], gpu["mig"]["instances"]) == (True, None)
    assert gpu["unavailable"]["mig.instances"] == "NVMLError_NoPermission: Insufficient Permissions"
    monkeypatch.setenv("NVML_FAKE", "nvmlDeviceGetMigDeviceHandleByIndex=6")
    assert one(nvml)["mig"]["instances"] == []


def test_a_gpu_that_does_not_say_which_it_is_has_failed(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_FAKE", "nvmlDeviceGetName=999;nvmlDeviceGetUUID=999;nvmlDeviceGetPciInfo=999")
    gpu = one(nvml)
    assert (gpu["status"], gpu["error"]) == ("failed", "NVMLError_Unknown: Unknown Error")


def test_a_loss_that_is_reported_for_a_part_is_that_of_the_gpu(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_FAKE_MIG", "1")
    monkeypatch.setenv("NVML_FAKE", "nvmlDeviceGetGpuInstanceId=15")
    gpu = one(nvml)
    assert (gpu["status"], gpu["code"]) == ("failed", 15)


def test_processes_have_the_names_that_the_kernel_knows(nvml: StandIn) -> None:
    seen = nvml.look("gpu", NVML_FAKE_PIDS=f"{os.getpid()},999999999")["gpu"]
    (gpu,) = facts_of(seen)
    ours, gone = gpu["processes"]
    name = Path("/proc/self/comm").read_text("utf-8").strip()
    assert ours == {"pid": os.getpid(), "kind": "compute", "used_mib": 512, "name": name}
    assert gone == {"pid": 999999999, "kind": "compute", "used_mib": None, "name": None}
    assert gpu["pids_unreliable"] is True


def test_the_shuffled_list_of_r535_is_known_by_its_numbers(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"/proc/{pid}/comm": "train\n" for pid in (41, 42, 43)}
    monkeypatch.setenv("NVML_FAKE_PIDS", "41,42,43")
    well = one(nvml, files=files)
    assert [process["pid"] for process in well["processes"]] == [41, 42, 43]
    assert well["pids_unreliable"] is False
    monkeypatch.setenv("NVML_FAKE", "nvmlDeviceGetComputeRunningProcesses_v3=r535")
    ill = one(nvml, files=files)
    assert [process["pid"] for process in ill["processes"]] == [41, 0, 4294967295]
    assert ill["pids_unreliable"] is True


def test_a_running_multi_process_service_is_reported(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_FAKE_PIDS", "683,650")
    files = {
        "/run/mps/nvidia-cuda-mps-control.pid": "645",
        "/proc/645/comm": "nvidia-cuda-mps\n",
        "/proc/683/comm": "nvidia-cuda-mps\n",
        "/proc/650/comm": "python3\n",
    }
    gpu = one(nvml, files=files, environ={"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"})
    assert gpu["mps"] == {"folder": "/run/mps", "control": 645, "servers": [683], "clients": []}


@pytest.mark.parametrize("said", ["645", "", "not a number", "9" * 40])
def test_a_dead_multi_process_service_leaves_its_folder(nvml: StandIn, said: str) -> None:
    folder = "/tmp/nvidia-mps"  # noqa: S108 - where NVIDIA puts it
    gpu = one(nvml, files={f"{folder}/nvidia-cuda-mps-control.pid": said, "/proc/645/comm": "bash\n"})
    assert gpu["mps"] == {"folder": folder, "control": None, "servers": [], "clients": []}


def test_clients_of_the_multi_process_service_are_told_from_its_servers() -> None:
    processes = [{"pid": 650, "kind": "compute", "name": "python3"}, {"pid": 650, "kind": "mps", "name": None}]
    assert GPU["mps"](ToldHost(), processes)["clients"] == [650]


@given(st.integers(0, (1 << 64) - 1))
def test_every_bit_of_the_event_reasons_has_a_name(mask: int) -> None:
    told, names = GPU["events"](mask)
    assert told == mask
    assert len(names) == len(set(names)) == mask.bit_count()
    assert all(name.startswith("0x") or "_" in name for name in names)


@given(st.integers(-(1 << 31), 1 << 32))
def test_every_number_has_a_name(number: int) -> None:
    for names in ("architecture", "compute_mode", "virtualisation", "recovery", "fabric_state"):
        assert GPU[names](number)


@pytest.mark.parametrize(
    ("action", "name"),
    [(0, "none"), (1, "gpu-reset"), (2, "node-reboot"), (3, "drain-p2p"), (4, "drain-and-reset"), (9, "9")],
)
def test_the_recovery_action_is_named(action: int, name: str) -> None:
    assert GPU["recovery"](action) == name


def test_an_inforom_is_valid_corrupted_or_not_known(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert one(nvml)["inforom"] == {"valid": True}
    monkeypatch.setenv("NVML_FAKE", "nvmlDeviceValidateInforom=14")
    corrupted = one(nvml)
    assert (corrupted["inforom"], corrupted["unavailable"]) == ({"valid": False}, {})
    monkeypatch.setenv("NVML_FAKE", "nvmlDeviceValidateInforom=3")
    refused = one(nvml)
    assert refused["inforom"] == {"valid": None}
    assert refused["unavailable"]["inforom.valid"].startswith("NVMLError_NotSupported")
