"""Rules about the GPU itself: faults, heat, links, and what could not be checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack.model.facts import Status
from gpustack.model.report import Health, Severity
from tests.build import (
    PCI,
    PYTHON,
    found,
    gpu,
    healthy,
    ids,
    libcuda,
    log,
    machine,
    merged,
    module,
    nvml,
    nvml_error,
    pci,
    report,
    roots,
    seen,
    torch,
)

OTHER = "0000:02:00.0"


def xid(code: int, at: str = PCI, words: str = "") -> dict[str, object]:
    return {"pci": at, "code": code, "text": words, "seconds": 12.5}


def test_a_gpu_that_nvml_calls_lost_has_fallen_off_the_bus() -> None:
    lost = gpu(status="failed", code=15, error="NVMLError_GpuIsLost: GPU is lost")
    facts = healthy(seen("gpu", lost), libcuda(init=999))
    finding = found(facts, "gpu-fell-off-bus")
    assert finding is not None
    assert finding.instance == PCI
    assert finding.severity is Severity.ERROR
    assert roots(facts) == ("gpu-fell-off-bus",)
    assert roots(healthy(nvml_error(15, "NVML_ERROR_GPU_IS_LOST"), seen("gpu"))) == ("gpu-fell-off-bus",)


def test_the_kernels_word_is_enough_and_weighs_less_where_the_gpu_answers_again() -> None:
    event = log(xids=[xid(79, words="GPU has fallen off the bus.")])
    gone = found(merged(healthy(event), seen("gpu")), "gpu-fell-off-bus")
    assert gone is not None
    assert gone.severity is Severity.ERROR
    assert gone.because[0].value == f"Xid 79 at {PCI}: GPU has fallen off the bus."
    assert gone.row is not None
    again = found(healthy(event), "gpu-fell-off-bus")
    assert again is not None
    assert again.severity is Severity.WARNING
    assert report(healthy(event)).verdict.status is Health.DEGRADED


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        ({"ecc": {"uncorrected_volatile": 1}}, Severity.ERROR),
        ({"ecc": {"sram_threshold_exceeded": True}}, Severity.WARNING),
        ({"remap": {"failed": True}}, Severity.ERROR),
        ({"remap": {"pending": True}}, Severity.WARNING),
        ({"retired": {"pending": True}}, Severity.WARNING),
        ({"repair": {"channel_pending": True}}, Severity.WARNING),
        ({"remap": {"uncorrectable": 511}}, None),
        ({"remap": {"uncorrectable": 512}}, Severity.ERROR),
        ({"remap": {"banks": {"none": 1}}}, Severity.WARNING),
        ({"remap": {"banks": {"none": 0}}}, None),
        ({"retired": {"single_bit": 40, "double_bit": 14}}, None),
        ({"retired": {"single_bit": 40, "double_bit": 15}}, Severity.WARNING),
        ({"retired": {"single_bit": 49, "double_bit": 14}}, Severity.ERROR),
        ({"ecc": {"uncorrected_volatile": 0, "uncorrected_aggregate": 9, "corrected_volatile": 900}}, Severity.INFO),
        ({"ecc": {"uncorrected_volatile": None}}, None),
        ({"ecc": "garbage", "remap": 7}, None),
    ],
)
def test_memory_errors_weigh_by_what_they_did(facts: dict[str, object], severity: Severity | None) -> None:
    finding = found(healthy(seen("gpu", gpu(**facts))), "gpu-ecc-error")  # type: ignore[arg-type]  # facts of any name
    assert (finding.severity if finding else None) is severity


def test_a_memory_error_of_the_log_weighs_less_where_the_counters_were_reset() -> None:
    event = log(xids=[xid(48), xid(13), xid(95)])
    past = found(healthy(event), "gpu-ecc-error")
    assert past is not None
    assert past.severity is Severity.WARNING
    assert "has had" in past.title
    unknown = found(healthy(event, seen("gpu", gpu(ecc={}))), "gpu-ecc-error")
    assert unknown is not None
    assert unknown.severity is Severity.ERROR
    gone = found(merged(healthy(event), seen("gpu")), "gpu-ecc-error")
    assert gone is not None
    assert gone.instance == PCI


def test_xids_of_programs_are_no_fault_of_the_stack() -> None:
    facts = healthy(log(xids=[xid(13), xid(31), xid(43), xid(45)]))
    assert ids(facts) == {"application-fault"}
    assert report(facts).verdict.status is Health.HEALTHY


def test_a_recovery_that_the_driver_asks_for_is_an_error() -> None:
    wanted = seen("gpu", gpu(recovery_action=2, recovery_action_name="node-reboot"))
    finding = found(healthy(wanted), "gpu-recovery-needed")
    assert finding is not None
    assert "node reboot" in finding.title
    assert finding.fix is not None
    assert finding.fix.needs_reboot
    reset = found(healthy(seen("gpu", gpu(recovery_action=None, status="failed", code=16))), "gpu-recovery-needed")
    assert reset is not None
    assert "GPU reset" in reset.title
    assert "gpu-recovery-needed" not in ids(healthy(seen("gpu", gpu(recovery_action=None))))


@pytest.mark.parametrize(
    ("reasons", "finding"),
    [
        ("", None),
        ("gpu_idle", None),
        ("applications_clocks_setting", None),
        ("sw_power_cap", None),
        ("sync_boost", None),
        ("display_clock_setting", None),
        ("sw_power_cap gpu_idle 0x200", None),
        ("sw_thermal_slowdown", "gpu-overheat"),
        ("hw_thermal_slowdown", "gpu-overheat"),
        ("hw_thermal_slowdown hw_slowdown sw_power_cap", "gpu-overheat"),
        ("hw_slowdown", "gpu-hw-slowdown"),
        ("hw_power_brake_slowdown", "gpu-hw-slowdown"),
        ("hw_power_brake_slowdown hw_slowdown sw_power_cap", "gpu-hw-slowdown"),
    ],
)
def test_why_the_clocks_are_held_back_is_read_by_name(reasons: str, finding: str | None) -> None:
    facts = healthy(seen("gpu", gpu(throttle={"reasons": reasons.split()})))
    assert ids(facts) == ({finding} if finding else set())
    assert report(facts).verdict.status is (Health.DEGRADED if finding else Health.HEALTHY)


def link(width: int | None, most: int | None, *bridges: int | None, speed: float = 32.0) -> dict[str, object]:
    ends = [{"pci": f"0000:0{number}:00.0", "max_width": one} for number, one in enumerate(bridges)]
    return pci(link={"speed": speed, "width": width, "max_speed": 32.0, "max_width": most}, bridges=ends)


@pytest.mark.parametrize(
    ("device", "degraded"),
    [
        (link(8, 16, 16), True),
        (link(1, 16), True),
        (link(16, 16, 16), False),
        (link(4, 16, 8), True),
        (link(16, 16, 16, speed=2.5), False),
        (link(None, 16), False),
        (link(0, 16), False),
        (link(255, 255), False),
        (link(8, None, 16), False),
        (link(8, 16, 0, 255), True),
    ],
)
def test_a_link_is_narrow_only_against_the_narrowest_end_of_its_way(device: dict[str, object], degraded: bool) -> None:  # noqa: FBT001 - a row
    assert ("pcie-link-degraded" in ids(healthy(seen("pci-display", device)))) is degraded


@pytest.mark.parametrize("device", [link(8, 16, 8), link(8, 16, 16, 8)])
def test_a_slot_that_is_narrow_by_its_bridge_is_a_fault_of_a_board_that_has_sixteen_lanes(
    device: dict[str, object],
) -> None:
    assert "pcie-link-degraded" in ids(healthy(seen("pci-display", device)))
    assert "pcie-link-degraded" not in ids(healthy(seen("pci-display", device), seen("gpu", gpu("NVIDIA L4", "8.9"))))


@pytest.mark.parametrize(
    ("mig", "broken"),
    [
        ({"enabled": True, "instances": []}, True),
        ({"enabled": True, "instances": 0}, True),
        ({"enabled": True, "instances": [{"uuid": "MIG-1"}]}, False),
        ({"enabled": True, "instances": 3}, False),
        ({"enabled": True, "instances": None}, False),
        ({"enabled": False, "instances": []}, False),
        (None, False),
    ],
)
def test_mig_without_an_instance_leaves_nothing_to_use(mig: object, broken: bool) -> None:  # noqa: FBT001 - a row
    facts = (
        healthy(torch(), seen("gpu", gpu(mig=mig)), libcuda(init=100)) if broken else healthy(seen("gpu", gpu(mig=mig)))
    )
    assert roots(facts) == (("mig-enabled-no-instance",) if broken else ())


def test_a_gsp_that_stopped_answering_explains_what_hangs() -> None:
    event = log(xids=[xid(119, words="Timeout after 6s of waiting for RPC response from GPU0 GSP!"), xid(119)])
    stuck = seen("nvml", reason="gave no answer in 4.5 s", status="failed")
    facts = merged(healthy(event, stuck), seen("gpu", reason="gave no answer", status="failed"))
    assert roots(facts) == ("gsp-timeout",)
    finding = found(facts, "component-not-seen")
    assert finding is not None
    assert finding.caused_by == f"gsp-timeout@{PCI}"
    again = found(healthy(event), "gsp-timeout")
    assert again is not None
    assert again.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("name", "width", "severity"),
    [
        ("NVIDIA GeForce RTX 4060 Laptop GPU", 8, Severity.INFO),
        ("NVIDIA GeForce RTX 4090", 8, Severity.INFO),
        ("NVIDIA GeForce RTX 4090", 4, Severity.WARNING),
        ("NVIDIA H200", 8, Severity.WARNING),
    ],
)
def test_half_of_the_lanes_is_a_design_of_boards_but_not_of_servers(name: str, width: int, severity: Severity) -> None:
    finding = found(healthy(seen("pci-display", link(width, 16, 16)), seen("gpu", gpu(name))), "pcie-link-degraded")
    assert finding is not None
    assert finding.severity is severity


@pytest.mark.parametrize("name", ["nvml", "libcuda", "pci-display", "nvidia.ko"])
def test_what_had_to_be_seen_and_was_not_leaves_the_verdict_unknown(name: str) -> None:
    for status in ("failed", "unknown"):
        facts = healthy(seen(name, reason="was killed by signal 11", status=status))
        assert report(facts).verdict.status is Health.UNKNOWN
        finding = found(facts, "component-not-seen")
        assert finding is not None
        assert finding.severity is Severity.UNKNOWN
        assert "signal 11" in finding.title
        assert roots(facts) == ()


@pytest.mark.parametrize("name", ["pytorch", "jax", "onnxruntime", "cudnn", "cuda-toolkit", "python", "kernel-log"])
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("failed", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0"),
        ("failed", "the probe's answer is malformed: KeyError: 'x'"),
        ("unknown", None),
        ("unknown", "the time was up before it was asked"),
    ],
)
def test_a_probe_that_failed_in_any_words_leaves_the_verdict_unknown(name: str, status: str, reason: str) -> None:
    maker = "nvidia" if name in {"cudnn", "cuda-toolkit"} else "any"
    lost = replace(seen(name, reason=reason, status=status), vendor=maker)
    assert report(healthy(lost)).verdict.status is Health.UNKNOWN
    finding = found(healthy(lost), "component-not-seen")
    assert finding is not None
    assert (reason or "no reason") in finding.title
    assert report(machine(seen("pci-display"), lost)).verdict.status is Health.NO_GPU
    files_alone = replace(lost, status=Status.UNKNOWN, reason="libcudnn.so: it would have to be run")
    assert report(healthy(files_alone)).verdict.status is Health.HEALTHY


def test_a_framework_that_one_python_could_not_be_asked_about_leaves_the_verdict_unknown() -> None:
    blank = {"status": "unknown", "answer": "failed", "error": "KeyError: 'x'", "environment": PYTHON}
    well = {"version": "2.11.0+cu130", "environment": "/b/bin/python"}
    facts = healthy(replace(seen("pytorch", well, blank), vendor="any"))
    assert report(facts).verdict.status is Health.UNKNOWN
    finding = found(facts, "component-not-seen")
    assert finding is not None
    assert f"PyTorch in {PYTHON}" in finding.title


def test_a_gpu_whose_questions_all_fail_is_not_healthy() -> None:
    facts = healthy(
        seen("gpu", gpu(), gpu(at=OTHER, status="failed", code=999, error="NVMLError_Unknown: Unknown Error"))
    )
    assert roots(facts) == ("gpu-not-answering",)
    finding = found(facts, "gpu-not-answering")
    assert finding is not None
    assert OTHER in finding.title
    assert "Unknown Error" in finding.title


def test_a_gpu_that_there_was_no_time_to_ask_is_not_seen() -> None:
    late = gpu(at=OTHER, status="failed", error="not asked: the time was up")
    devices = [{"ordinal": number, "pci": at} for number, at in enumerate((PCI, OTHER))]
    bus = seen("pci-display", pci(), pci(at=OTHER))
    facts = healthy(seen("gpu", gpu(), late), bus, nvml(count=2), libcuda(devices=devices))
    assert report(facts).verdict.status is Health.UNKNOWN
    assert found(facts, "component-not-seen")


def test_the_list_of_gpus_that_fails_by_itself_is_missed_too() -> None:
    facts = healthy(seen("gpu", reason="was killed by signal 6", status="failed"))
    assert report(facts).verdict.status is Health.UNKNOWN


def test_what_is_not_needed_may_fail() -> None:
    facts = healthy(seen("dkms", reason="OSError", status="failed"), seen("nvlink", reason="x", status="failed"))
    assert report(facts).verdict.status is Health.HEALTHY


def test_a_gpu_of_another_maker_is_not_examined() -> None:
    amd = pci("amdgpu", "0x74a1", vendor="amd", vendor_id="0x1002")
    alone = machine(seen("pci-display", amd), seen("nvml"), seen("libcuda"), module(None, None))
    assert report(alone).verdict.status is Health.UNKNOWN
    assert found(alone, "gpu-stack-not-examined") is not None
    beside = healthy(seen("pci-display", pci(), pci("i915", "0x4680", "0000:00:02.0", "intel")))
    assert report(beside).verdict.status is Health.HEALTHY


def test_bridges_and_emulated_displays_are_not_gpus() -> None:
    switch = pci("nvidia-nvswitch", "0x22a3", **{"class": "0x068000"})
    emulated = pci(None, "0x1111", "0000:00:01.0", "other")
    facts = machine(seen("pci-display", switch, emulated), seen("nvml"), seen("libcuda"), module(None, None))
    assert report(facts).verdict.status is Health.NO_GPU


def test_nvml_that_counts_is_not_asked_twice() -> None:
    assert ids(healthy(nvml(count=1))) == set()
