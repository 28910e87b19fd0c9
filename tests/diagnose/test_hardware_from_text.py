"""Faults of GPUs and of the machine, named from what people paste and write: the true cause is the first root."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load
from gpustack.matrix import Matrix

if TYPE_CHECKING:
    from gpustack.model.report import Finding

MATRIX = Matrix()
XID = "NVRM: Xid (PCI:0000:3b:00): "
NO_BAR = (
    "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)"
)
REMAPPED = (
    "    Remapped Rows\n        Uncorrectable Error : 1\n        Pending : No\n        Remapping Failure Occurred : Yes"
)
LOST = "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. Reboot the system to recover this GPU"
AER = "pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"
FELL, HOT, ECC, LINK, BAR = (
    "gpu-fell-off-bus",
    "gpu-overheat",
    "gpu-ecc-error",
    "pcie-link-degraded",
    "bios-bar-setting",
)
NAMED = (
    (BAR, NO_BAR, "BAR1 is 0M"),
    (BAR, "pci 0000:03:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space", "32768 MiB"),
    (BAR, "pci 0000:82:00.0: BAR 1: no space for [mem size 0x400000000 64bit pref]\nTesla K80", "Above 4G Decoding"),
    (BAR, "RTX 5090\nBIOS: Above 4G Decoding disabled\n$ nvidia-smi\nNo devices were found", "Resizable BAR"),
    (FELL, LOST, "0000:02:00.0"),
    (FELL, "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error", "0000:41:00.0"),
    (FELL, "pynvml.nvml.NVMLError_GpuIsLost: GPU is lost", "bus"),
    (FELL, "RTX 3090, driver 515.65.01\nXid 79 after an hour of training", "Xid 79"),
    (FELL, f"{XID}79, pid=1, GPU has fallen off the bus.", "Xid 79"),
    (HOT, f"RTX 3090 at 97\u00b0C under load\n{LOST}", "97 C"),
    (HOT, "        HW Thermal Slowdown               : Active", "thermal"),
    (HOT, "Detected clock throttling due to thermal violation in GPU 0.", "Cool it"),
    (ECC, f"{XID}48, pid=1234, An uncorrectable double bit error (DBE) has been detected on GPU", "Xid 48"),
    (ECC, "XidCriticalError: Xid=94 on Device=GPU-1; the device will be marked as unhealthy", "Xid 94"),
    (ECC, "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered\nA100-SXM4-40GB", "sm_80"),
    (ECC, "|   0  Tesla V100-SXM2...  On   | 00000000:3B:00.0 Off |                    2 |", "3B:00.0"),
    (ECC, REMAPPED, "Remapping Failure"),
    (ECC, "amdgpu 0000:43:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block", "dmesg | grep -i ras"),
    (
        LINK,
        "H100 PCIe\nduring training the link is at Gen3 x16, the GPU supports Gen5",
        "Gen3 (8 GT/s) of Gen5 (32 GT/s)",
    ),
    (LINK, "LnkCap: Port #0, Speed 16GT/s, Width x16\nLnkSta: Speed 16GT/s (ok), Width x4 (downgraded)", "x4 of x16"),
    (LINK, "RTX 4090: the PCIe link drops to 2.5 GT/s and never recovers", "Gen1 (2.5 GT/s)"),
    ("gsp-timeout", f"{XID}119, pid=2345, Timeout waiting for RPC from GSP0! Expected function 10 (FREE).", "Xid 119"),
    ("gsp-timeout", "A100 80GB, driver 525.60.13: Xid 119 errors, nvidia-smi hangs", "525.60.13"),
    ("gsp-timeout", "Timeout waiting for RPC from GSP! Expected function 4098 (GSP_INIT_DONE)", "GSP"),
    ("host-hardware-fault", "mce: [Hardware Error]: Processor context corrupt", "machine check"),
    ("host-hardware-fault", AER, "AER"),
    ("host-hardware-fault", "NCCL WARN unhandled cuda error; replacing the mainboard fixed it", "board"),
)
WELL = (
    f"{XID}31, pid=77, name=python, MMU Fault\nRuntimeError: CUDA error: an illegal memory access was encountered",
    "pci 0000:00:1c.0: BAR 13: no space for [io  size 0x1000]\npci 0000:00:1c.0: BAR 13: failed to assign",
    "pcieport 0000:00:1c.5: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "mce: [Hardware Error]: Machine check events logged\nEDAC MC0: 1 CE memory read error (corrected)",
    "LnkSta: Speed 2.5GT/s (downgraded), Width x16\nRTX 4090 idle",
    "LnkCap: Port #0, Speed 16GT/s, Width x16\nLnkSta: Speed 16GT/s (ok), Width x8 (downgraded)",
    "RTX 4090, the link goes to Gen1 when idle",
    "PCIe link at idle: Gen 1 @ 16x\nPCIe link under load: Gen 4 @ 16x",
    "            DRAM Uncorrectable            : 0\n            SRAM Uncorrectable : 0",
    "Detected 0 volatile double-bit ECC errors",
    "GPU temperature 84C under load, the GPU is not overheating, training works",
    "HW Thermal Slowdown: Not Active\nSW Thermal Slowdown : Not Active\nSW Power Cap: Active",
    "Resizable BAR: enabled\nRTX 4090",
)


def roots(text: str) -> list[Finding]:
    report = judge(load(["-"], io.BytesIO(text.encode()), MATRIX), MATRIX)
    return [next(one for one in report.findings if one.key == key) for key in report.verdict.root_keys]


@pytest.mark.parametrize(("finding", "text", "fact"), NAMED)
def test_the_cause_is_named_with_the_fact_that_decides(finding: str, text: str, fact: str) -> None:
    first = roots(text)[0]
    assert first.id == finding
    fix = first.fix
    assert fix
    told = [first.title, first.detail, fix.text, *fix.commands, *(str(ground.value) for ground in first.because)]
    assert fact.lower() in " ".join(told).lower()


@pytest.mark.parametrize("text", WELL)
def test_what_healthy_machines_print_too_is_not_a_fault(text: str) -> None:
    assert not roots(text)


def test_heat_is_behind_a_gpu_that_went_away_hot() -> None:
    assert [one.id for one in roots(f"Titan V: 95C under load seconds before\n{LOST}")] == ["gpu-overheat"]


def test_a_window_without_room_is_behind_a_gpu_that_does_not_answer() -> None:
    fallen = "NVRM: GPU 0000:0a:00.0: GPU has fallen off the bus and is not responding to commands."
    assert [one.id for one in roots(f"{NO_BAR}\n{fallen}")] == ["bios-bar-setting"]


def test_firmware_that_fails_to_start_after_a_timeout_follows_from_it() -> None:
    text = f"{XID}119, pid=1, Timeout waiting for RPC from GSP!\nRmInitAdapter: Cannot initialize GSP firmware RM"
    assert [one.id for one in roots(text)] == ["gsp-timeout"]
