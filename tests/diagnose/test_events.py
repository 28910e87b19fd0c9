"""Xids that follow from one another are one fault, counted since boot; those caused by programs are not faults."""

from __future__ import annotations

import pytest

from gpustack.model.report import Health, Severity
from tests.build import PCI, found, gpu, healthy, ids, log, merged, report, roots, seen

OTHER = "0000:02:00.0"
ASKS = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
UNSEEN = seen("gpu")


def xid(code: int, seconds: float | None = 12.5, at: str = PCI, words: str = "", **more: object) -> dict[str, object]:
    return {"pci": at, "code": code, "text": words, "seconds": seconds, **more}


@pytest.mark.parametrize("lead", [48, 95, 79, 119])
def test_what_follows_a_fault_of_the_gpu_is_not_a_fault_of_a_program(lead: int) -> None:
    facts = merged(healthy(log(xids=[xid(lead), xid(45, 13.0), xid(45, 13.1), xid(43, 14.0)])), UNSEEN)
    assert "application-fault" not in ids(facts)
    (root,) = roots(facts)
    finding = found(facts, root)
    assert finding is not None
    assert "with Xid 45 2 times" in str(finding.because[0].value)


def test_memory_errors_that_come_together_are_one_and_the_driver_s_last_word_is_named() -> None:
    said = [xid(48), xid(63, 12.6), xid(94, 12.7), xid(45, 12.8), xid(154, 12.9, words=ASKS), xid(48, 20.0)]
    facts = merged(healthy(log(xids=said)), UNSEEN)
    assert roots(facts) == ("gpu-ecc-error",)
    finding = found(facts, "gpu-ecc-error")
    assert finding is not None
    value = str(finding.because[0].value)
    assert value.startswith(f"Xid 48 at {PCI}")
    assert "2 times" in value
    assert "with Xid 63; with Xid 94" in value
    assert "the driver asks for: GPU Reset Required" in value


def test_a_contained_error_harms_one_program_alone() -> None:
    facts = merged(healthy(log(xids=[xid(94), xid(45, 13.0)])), UNSEEN)
    finding = found(facts, "gpu-ecc-error")
    assert finding is not None
    assert finding.severity is Severity.WARNING


def test_programs_that_failed_are_reported_with_their_name_and_how_often() -> None:
    said = [
        xid(31, process="python"),
        xid(43, 12.6),
        xid(45, 12.7),
        xid(31, 500.0, process="python"),
        xid(13, 600.0, at=OTHER),
    ]
    facts = healthy(log(xids=said))
    assert report(facts).verdict.status is Health.HEALTHY
    mine = [one for one in report(facts).findings if one.id == "application-fault"]
    assert {one.instance for one in mine} == {PCI, OTHER}
    first = next(one for one in mine if one.instance == PCI)
    assert first.title == f"The program python failed on the GPU at {PCI}: Xid 31 (GPU memory page fault), 2 times"
    assert first.severity is Severity.INFO
    assert "compute-sanitizer" in first.detail
    assert first.row is not None


def test_what_came_long_after_or_on_another_gpu_does_not_follow() -> None:
    assert "application-fault" in ids(merged(healthy(log(xids=[xid(48), xid(45, 4000.0)])), UNSEEN))
    assert "application-fault" in ids(merged(healthy(log(xids=[xid(48), xid(45, 13.0, at=OTHER)])), UNSEEN))
    assert "application-fault" not in ids(merged(healthy(log(xids=[xid(48, None), xid(45, None)])), UNSEEN))


def test_events_of_an_earlier_start_are_history() -> None:
    before = [xid(79, 90000.0), xid(45, 90000.2), xid(31, 40.0)]
    assert ids(healthy(log(xids=before))) == {"application-fault"}
    jitter = [xid(79, 100.0), xid(45, 99.9999)]
    assert "gpu-fell-off-bus" in ids(merged(healthy(log(xids=jitter)), UNSEEN))


@pytest.mark.parametrize(
    ("words", "nvml", "wanted"),
    [
        (ASKS, None, "GPU reset required"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", None, "node reboot required"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", None, None),
        (ASKS, 0, None),
        ("odd", None, None),
    ],
)
def test_a_recovery_that_only_the_log_asks_for(words: str, nvml: int | None, wanted: str | None) -> None:
    said = log(xids=[xid(154, words=words)])
    finding = found(healthy(said, seen("gpu", gpu(recovery_action=nvml))), "gpu-recovery-needed")
    assert (finding is not None) is (wanted is not None)
    if finding and wanted:
        assert wanted in finding.title
        assert finding.fix is not None
        assert finding.fix.needs_reboot is ("reboot" in wanted)


@pytest.mark.parametrize("odd", [{"pci": None, "code": 79}, {"pci": PCI, "code": "79"}, "text", None, {"seconds": "x"}])
def test_what_is_not_an_event_is_skipped(odd: object) -> None:
    assert ids(healthy(log(xids=[odd]))) == set()  # type: ignore[list-item]  # what is no event


@pytest.mark.parametrize(
    ("now", "limit", "hot"),
    [(89, 89, True), (95, 89, True), (88, 89, True), (83, 89, False), (89, None, False), (30, 0, False)],
)
def test_a_gpu_at_its_own_limit_is_too_hot_whatever_its_clocks_say(now: int, limit: int | None, hot: bool) -> None:  # noqa: FBT001 - a row
    facts = healthy(seen("gpu", gpu(temperature={"gpu_c": now, "slowdown_c": limit})))
    assert [one.id for one in report(facts).findings] == ["gpu-overheat"] * hot


def test_a_link_that_failed_is_written_at_both_ends_and_by_switches_and_is_one_finding() -> None:
    switch = {"pci": "0000:c1:00.0", "code": 22013, "text": "Minion Link DLREQ interrupt", "seconds": 12.4}
    common = {"readable": True, "sxids": [switch, switch]}
    said = seen("kernel-log", {**common, "xids": [xid(74), xid(74, 12.6, at=OTHER), xid(45, 12.7)]})
    facts = healthy(said)
    assert ids(facts) == {"nvlink-error"}
    finding = found(facts, "nvlink-error")
    assert finding is not None
    assert finding.title == f"NVLink failed at {PCI}, {OTHER}, and switches wrote 2 SXids"
    assert finding.fix is not None
    assert f"{PCI},{OTHER}" in finding.fix.commands[0]
    lost = merged(healthy(log(xids=[xid(79), xid(74, 13.0)])), UNSEEN)
    assert roots(lost) == ("gpu-fell-off-bus",)


def test_an_event_that_another_names_as_its_cause_counts_although_its_own_line_is_missing() -> None:
    said = [xid(45, words="pid=7, name=python3, Ch 00000001 caused by previous Xid 149"), xid(45, words="Ch 00000002")]
    facts = merged(healthy(log(xids=said)), UNSEEN)
    assert roots(facts) == ("nvlink-error",)
    assert "application-fault" not in ids(facts)
    own = [xid(48), xid(45, 500.0, words="Ch 00000001 caused by previous Xid 48")]
    assert roots(merged(healthy(log(xids=own)), UNSEEN)) == ("gpu-ecc-error",)
