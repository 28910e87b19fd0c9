"""What is extracted from the kernel's log, however it could be read."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load

LOG = load("kernel/kernel_log.py")
JOURNAL = "journalctl -k -b -o short-monotonic --no-pager -q -n 10000"
DENIED = OSError(errno.EPERM, "Operation not permitted")


def kmsg(*lines: str) -> str:
    return "".join(f"4,{number},{number}500000,-;{line}\n" for number, line in enumerate(lines))


def look(*lines: str) -> dict[str, Any]:
    seen = LOG["probe"](ToldHost({"/dev/kmsg": kmsg(*lines)}))
    assert isinstance(seen, dict)
    return seen


# Forms of the line, from NVIDIA's Xid documentation and public bug reports (read 2026-11-21).
@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "NVRM: Xid (PCI:0000:65:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
            ("0000:65:00.0", 79, "GPU has fallen off the bus.", 1234, "python3", None),
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
            ("0000:01:00.0", 79, "GPU has fallen off the bus.", None, None, None),
        ),
        (
            "NVRM: Xid (PCI:0000:41:00): 119, pid='<unknown>', name=<unknown>, Timeout after 6s of waiting for RPC",
            ("0000:41:00.0", 119, "Timeout after 6s of waiting for RPC", None, None, None),
        ),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
            ("0000:01:00.0", 94, "Contained: CE User Channel (0x9). RST: No, D-RST: No", 7194, None, "GPU-I:05"),
        ),
        (
            "NVRM: Xid (PCI:0000:3B:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a b, Graphics Exception",
            ("0000:3b:00.0", 13, "Graphics Exception", 9, "a b", "GPU-I:01 GPU-CI:02"),
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", ("0000:03:00.0", 14, "Channel 00000001", None, None, None)),
        ("NVRM: Xid (PCI:00000000:03:00): 62, 6db5", ("0000:03:00.0", 62, "6db5", None, None, None)),
    ],
)
def test_every_shape_of_an_xid_is_read(line: str, says: tuple[object, ...]) -> None:
    (event,) = look(line)["xids"]
    assert tuple(event[name] for name in ("pci", "code", "text", "pid", "process", "instance")) == says
    assert event["seconds"] == 0.5


def test_an_xid_of_a_switch_is_not_an_xid_of_a_gpu() -> None:
    seen = look("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error")
    assert seen["xids"] == []
    assert [(event["pci"], event["code"]) for event in seen["sxids"]] == [("0000:05:00.0", 12028)]


def test_the_last_fifty_xids_are_kept() -> None:
    seen = look(*(f"NVRM: Xid (PCI:0000:65:00): 31, pid={number}, name=x, MMU Fault" for number in range(80)))
    assert [event["pid"] for event in seen["xids"]] == list(range(30, 80))
    assert seen["nvrm"] == []


def test_a_line_said_often_is_kept_once_where_it_was_said_last() -> None:
    seen = look("NVRM: a", "NVRM: b", "NVRM: a", "usb 1-1: new device", "nvidia 0000:65:00.0: enabling device")
    assert seen["nvrm"] == ["NVRM: b", "NVRM: a", "nvidia 0000:65:00.0: enabling device"]


def test_a_record_of_several_lines_is_several_lines() -> None:
    """The driver's words on 2023-06-21 in a public report of a 535.54.03 with a 530.30.02 module."""
    seen = look(
        "NVRM: API mismatch: the client has the version 535.54.03, but\\x0aNVRM: this kernel module has the version"
    )
    assert seen["nvrm"] == [
        "NVRM: API mismatch: the client has the version 535.54.03, but",
        "NVRM: this kernel module has the version",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Loading of unsigned module is rejected",
        "Loading of module with unavailable key is rejected",
        "PKCS#7 signature not signed with a trusted key",
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
        "nvidia: version magic '6.8.0-49-generic SMP' should be '6.8.0-50-generic SMP'",
        "nvidia_drm: Unknown symbol drm_gem_object_free (err -2)",
        "nvidia: disagrees about version of symbol module_layout",
        "nouveau 0000:01:00.0: NVIDIA GA102 (b72000a1)",
        "NovaCore 0000:01:00.0: nova-core: probe",
        "nvidia 0000:01:00.0: probe with driver nvidia failed with error -1",
    ],
)
def test_a_module_that_was_turned_away_or_in_the_way_is_kept(line: str) -> None:
    assert look(line)["module_errors"] == [line]


@pytest.mark.parametrize(
    "line",
    [
        "Command line: ro modprobe.blacklist=nouveau nvidia-drm.modeset=1",
        "Kernel command line: ro modprobe.blacklist=nouveau",
        "Modules linked in: nvidia(O) nouveau",
        "NVRM: GPU Board Serial Number: 0",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    ],
)
def test_echoes_serial_numbers_and_loaded_modules_are_not_events(line: str) -> None:
    assert look(line)["module_errors"] == []
    assert "Serial" not in str(look(line)["nvrm"])


def test_what_programs_write_to_the_log_is_not_the_kernels_word() -> None:
    forged = "30,7,100,-;NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.\n KEY=value\n"
    seen = LOG["probe"](ToldHost({"/dev/kmsg": forged}))
    assert (seen["readable"], seen["xids"], seen["nvrm"]) == (True, [], [])


def test_the_journal_answers_where_the_kernel_denies() -> None:
    said = (
        "[    7.250000] box kernel: NVRM: Xid (PCI:0000:65:00): 48, DBE\n[    8.000000] box kernel: nvidia-uvm: x\n?\n"
    )
    seen = LOG["probe"](ToldHost({"/dev/kmsg": DENIED}, commands={JOURNAL: said}))
    assert (seen["readable"], seen["source"]) == (True, "journalctl -k -b")
    assert [(event["code"], event["seconds"]) for event in seen["xids"]] == [(48, 7.25)]
    assert seen["nvrm"] == ["nvidia-uvm: x"]


@pytest.mark.parametrize(
    ("files", "commands", "says"),
    [
        ({"/dev/kmsg": DENIED}, {}, "/dev/kmsg: denied"),
        ({}, {}, "/dev/kmsg: missing"),
        ({"/dev/kmsg": ""}, {}, "/dev/kmsg: empty"),
        ({"/dev/kmsg": DENIED}, {JOURNAL: (1, "")}, "/dev/kmsg: denied; journalctl: exit 1"),
        ({"/dev/kmsg": DENIED}, {JOURNAL: "\n"}, "/dev/kmsg: denied; journalctl: empty"),
        ({"/dev/kmsg": DENIED}, {JOURNAL: TimeoutError("journalctl gave no answer")}, "journalctl gave no answer"),
    ],
)
def test_what_cannot_be_read_is_said_and_is_not_clean(
    files: dict[str, Any], commands: dict[str, Any], says: str
) -> None:
    seen = LOG["probe"](ToldHost(files, commands=commands))
    assert (seen["readable"], seen["source"], seen["xids"]) == (False, None, [])
    assert says in seen["why"]


def test_a_log_that_would_make_us_wait_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """An open pipe stands in for the kernel's log: both report "not now" at their end, and neither closes."""
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev" / "kmsg")
    keeper = os.open(tmp_path / "dev" / "kmsg", os.O_RDWR)
    try:
        os.write(keeper, kmsg("NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.").encode())
        seen = LOG["probe"](Host(root=str(tmp_path)))
    finally:
        os.close(keeper)
    assert [event["code"] for event in seen["xids"]] == [79]


def test_this_machine_answers_one_way_or_the_other() -> None:
    seen = LOG["probe"](Host())
    assert seen["readable"] is (seen["source"] is not None)
    assert seen["readable"] or seen["why"]


LINES = st.lists(st.text() | st.from_regex(LOG["XID"]) | st.from_regex(LOG["STAMPED"]))


@given(LINES)
def test_no_line_is_too_odd(lines: list[str]) -> None:
    told = [(1.0, line) for line in lines]
    seen = LOG["sift"](told)
    assert len(seen["xids"]) <= 50
    text = "\n".join(lines)
    assert all(isinstance(line, str) for _, line in LOG["records"](text))
    assert all(seconds >= 0 for seconds, _ in LOG["stamped"](text))
    LOG["probe"](ToldHost({"/dev/kmsg": kmsg(*lines)}))


@pytest.mark.parametrize(
    "line",
    [
        "nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0010 address=0x64a7f000 flags=0x0000]",
        "DMAR: [DMA Read NO_PASID] Request device [41:00.0] fault addr 0xffdf8000 [fault reason 0x06]",
        "DMAR: [DMA Write] Request device [41:00.0] PASID ffffffff fault addr 7f000 [fault reason 05]",
    ],
)
def test_what_an_iommu_turned_away_is_kept(line: str) -> None:
    assert look(line, "DMAR: IOMMU enabled")["iommu_faults"] == [line]


def test_what_amdgpu_says_of_firmware_resets_and_kfd_is_kept_and_its_greetings_are_not() -> None:
    lines = (
        "amdgpu 0000:03:00.0: [drm] Loading DMUB firmware via PSP: version=0x07002F00",
        "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/navi31_mes.bin failed with error -2",
        "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2",
        "kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0",
        "amdgpu 0000:03:00.0: amdgpu: SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x0000000F",
        "amdgpu 0000:03:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
        "amdgpu 0000:03:00.0: amdgpu: PSP load tos failed!",
        "kfd kfd: amdgpu: added device 1002:744c",
    )
    found = LOG["sift"]([(1.0, line) for line in lines])
    assert found["amdgpu"] == [*lines[1:7]]


def test_what_the_machines_own_hardware_reports_is_kept() -> None:
    lines = [
        "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: be00000000800400",
        "{1}[Hardware Error]: event severity: corrected",
        "Memory failure: 0x1234567: recovery action for dirty LRU page: Recovered",
        "pcieport 0000:64:02.0: DPC: containment event, status:0x1f01 source:0x0000",
        "pcieport 0000:64:02.0: AER: Uncorrectable (Fatal) error message received from 0000:65:00.0",
        "mce: CPU12: Package temperature above threshold, cpu clock throttled (total events = 812)",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
        "NMI: PCI system error (SERR) for reason a1 on CPU 0.",
        "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0 IMC#0",
        "mce: CPU0: Thermal monitoring enabled (TM1)",
        "Modules linked in: [Hardware Error]",
        "pcieport 0000:64:02.0: AER: enabled with IRQ 123",
    ]
    assert LOG["sift"]([(1.0, line) for line in lines])["hardware_errors"] == lines[:8]


def test_what_xe_and_i915_say_of_a_fault_is_kept_and_what_they_say_of_a_start_is_not() -> None:
    lines = [
        "xe 0000:03:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:03:00.0 as wedged.",
        "xe 0000:03:00.0: [drm] GT0: Schedule disable failed to respond, guc_id=2",
        "xe 0000:03:00.0: probe with driver xe failed with error -110",
        "i915 0000:03:00.0: [drm] GPU HANG: ecode 12:1:85dffffb, in python [77]",
        "xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=1, lrc_seqno=1, guc_id=2, flags=0x0 in python [77]",
        "xe 0000:03:00.0: [drm] Using GuC firmware from xe/bmg_guc_70.bin version 70.44.1",
    ]
    assert LOG["sift"]([(1.0, line) for line in lines])["intel"] == lines[:4]


BOOT, BEFORE = "0b7c9e1a-0000-4000-8000-000000000001", "11111111111111111111111111111111"
EARLIER = "journalctl _TRANSPORT=kernel -g NVRM: Xid -n 200 -o json --no-pager -q"


def entry(boot: str, text: object) -> str:
    return json.dumps({"_BOOT_ID": boot, "MESSAGE": text})


def test_xids_of_earlier_starts_are_counted_by_start() -> None:
    lost = "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    rows = [
        entry(BEFORE, lost),
        entry(BEFORE, lost),
        entry("2" * 32, lost),
        entry(BOOT.replace("-", ""), lost),
        entry("3" * 32, [78, 86]),
        "{broken",
        "[]",
    ]
    files = {"/dev/kmsg": kmsg("x"), "/proc/sys/kernel/random/boot_id": f"{BOOT}\n", "/var/log/journal/ab/system": ""}
    seen = LOG["probe"](ToldHost(files, commands={EARLIER: "\n".join(rows)}))
    assert seen["earlier_xids"] == [{"pci": "0000:41:00.0", "code": 79, "starts": 2}]
    late = ToldHost(files, commands={EARLIER: TimeoutError("journalctl gave no answer")})
    assert LOG["probe"](late)["earlier_xids"] == []


def test_where_no_journal_is_kept_nothing_is_asked_of_earlier_starts() -> None:
    files = {"/dev/kmsg": kmsg("x"), "/proc/sys/kernel/random/boot_id": f"{BOOT}\n"}
    assert LOG["probe"](ToldHost(files))["earlier_xids"] == []
