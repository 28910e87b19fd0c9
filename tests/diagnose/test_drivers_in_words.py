"""Faults of module, driver and hardware described in users' own words are named; what is not a fault is not."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load
from gpustack.matrix import Matrix

if TYPE_CHECKING:
    from pathlib import Path

    from gpustack.model.report import Report

MATRIX = Matrix()
KEY, HEADERS, BUILD = "secure-boot-key-rejected", "dkms-headers-missing", "dkms-build-failed"
OLD, OPEN, STALE, UVM = (
    "legacy-gpu-needs-older-branch",
    "open-module-unsupported-gpu",
    "uvm-stale-after-suspend",
    "nvidia-uvm-missing",
)
PEERS, HOT, HOST, LINK = "iommu-acs-p2p", "gpu-overheat", "host-hardware-fault", "pcie-link-degraded"
APART, DRIVER, PTX = "driver-library-mismatch", "driver-too-old-for-cuda-build", "ptx-newer-than-driver"
SLOWER = """2x RTX A5000
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 650.20  12.15
     1  12.30 651.70
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 650.49   1.60
     1   1.72 651.33"""
FASTER = SLOWER.replace("  1.60", " 24.90").replace("  1.72", " 25.10")
VOID = """Skipping kernel-5.4.9_1. kernel-headers package not installed...
Building DKMS module 'nvidia-440.31' for kernel-5.5.2_1... FAILED!"""
NODES = "$ ls /dev/nvidia*\n/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-modeset\ncuInit returns 999"
TOLD = (
    (KEY, "Kubuntu 24.04, secure boot is ON, since the upgrade nvidia-smi stopped working", "Secure Boot"),
    (KEY, "Disabling Secure Boot in the BIOS fixed it: the nvidia module would not load before", "MOK"),
    (KEY, "Secure Boot enabled. I skipped the MOK enrollment, and nvidia-smi fails", "mokutil"),
    (
        KEY,
        (
            "modprobe nvidia: Key was rejected by service\n01:00.0 VGA compatible controller: NVIDIA GA104\n"
            "\tKernel driver in use: nouveau"
        ),
        "Secure Boot",
    ),
    (HEADERS, "manjaro: nvidia-dkms is installed, linux66-headers are missing, black screen", "headers"),
    (HEADERS, "I had forgotten to install linux-headers-6.1.0-21-amd64, nvidia-smi fails", "headers"),
    (BUILD, VOID, "5.5.2_1"),
    (
        BUILD,
        "Building rpms failed; see /var/cache/akmods/nvidia/470.223.02-1-for-6.8.4-200.fc39.x86_64.failed.log",
        "470.223.02",
    ),
    ("nouveau-loaded", "gpu-operator fails: nouveau was enabled by default on the nodes", "blacklist"),
    ("nova-loaded", "kernel 6.18, lsmod shows nova_core; the nvidia driver does not load", "nova"),
    (OPEN, "nvidia-open 575 on a Quadro P1000\nnvidia-smi fails", "proprietary"),
    (OPEN, "GeForce MX250\nNVRM: nvidia.ko because it does not include the required GPU", "GSP"),
    (OLD, "Geforce 930MX, Nvidia driver 595\nnvidia stopped working after the upgrade", "580"),
    (OLD, "GT 710, driver 550.163.01\nNo devices were found", "470"),
    (
        OLD,
        "The NVIDIA GeForce 610M installed in this system is supported through the NVIDA 390.xx Legacy drivers",
        "390",
    ),
    (STALE, "after the PC wakes up from sleep ollama falls back to the CPU, RTX 3060", "nvidia_uvm"),
    (STALE, "torch.cuda.is_available() is False\nafter I closed the laptop lid", "nvidia_uvm"),
    (UVM, "nvidia-smi is fine in the jail, but I didn't have `/dev/nvidia-uvm`", "/dev/nvidia-uvm"),
    (
        UVM,
        "error gathering device information: lstat /dev/nvidia-uvm-tools: no such file or directory",
        "nvidia-uvm",
    ),
    (UVM, NODES, "modprobe"),
    (PEERS, SLOWER, "1.72 GB/s"),
    (PEERS, "2x MI210, RCCL all-reduce hangs; after adding iommu=pt to the kernel command line it works", "iommu=pt"),
    (HOT, "RX 7900 XTX: hotspot temperature 110 C while training, then the PC shuts down", "110"),
    (HOT, "amdgpu: ERROR: GPU over temperature range(SW CTF) detected!", "hot"),
    (HOST, "the machine suddenly shuts down with two RTX 3090; the PSU was overloaded", "PSU"),
    (HOST, "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: bea0000000000108", "machine check"),
    (LINK, "training stops on the third GPU, which is connected to a slower PCI express port via a riser", "riser"),
    (
        APART,
        (
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "Upgrade: nvidia-driver-535:amd64 (535.183.01-0ubuntu0.22.04.1, 535.216.03-0ubuntu0.22.04.1)"
        ),
        "535.216.03",
    ),
    (
        DRIVER,
        (
            "CUDA driver version is insufficient for CUDA runtime version\n`modinfo nvidia | grep version`\n"
            "returns: 390.48\nthe binary is a CUDA 9.2 build"
        ),
        "390.48",
    ),
    (DRIVER, "tensorflow 1.13.1, driver 390.116\nCUDA driver version is insufficient for CUDA runtime version", "410"),
    (PTX, "cudaErrorUnsupportedPtxVersion\ncuda\u7248\u672c\uff1a11.2\n\u9a71\u52a8\u7248\u672c: 450.102.04", "11.2"),
    (PTX, "the provided PTX was compiled with an unsupported toolchain; nvcc 12.4, driver 535.129.03", "12.4"),
)
NO_FAULT = (
    "secure boot is enabled, RTX 3060, driver 550.54.14. KeyError: 'labels'",
    "How do I check whether Secure Boot is on? Does nvidia-open support Pascal?",
    "modprobe.blacklist=nouveau rd.driver.blacklist=nouveau\ndriver 570.86.15\nTypeError: forward()",
    (
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel\n"
        "PKCS#7 signature not signed with a trusted key\ntorch.cuda.is_available() True"
    ),
    "$ ls /dev/nvidia*\n/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-uvm\nCUDA out of memory",
    f"{FASTER}\nloss is nan",
    "After resuming from the checkpoint the loss jumps. A100, driver 550.90.07",
    "GPU temp is 78C at a 350 W power limit, no throttling. The power supply is fine. Loss is nan.",
    "Ollama runs 20%/80% CPU/GPU, since the model does not fit the RTX 3070",
    "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: 8c00004000010090",
    "GTX 1080, driver 580.95.05, torch 2.6.0+cu126. Will it work with the next driver?",
    "the PC crashed yesterday because of an update. RTX 4070: expected all tensors on the same device",
)


def report(told: str, folder: Path) -> Report:
    path = folder / "told.txt"
    path.write_text(told, "utf-8")
    return judge(load([str(path)], io.BytesIO(), MATRIX), MATRIX)


@pytest.mark.parametrize(("finding", "told", "named"), TOLD, ids=[f"{one[0]}-{n}" for n, one in enumerate(TOLD)])
def test_what_people_tell_names_the_cause_and_what_decides(finding: str, told: str, named: str, tmp_path: Path) -> None:
    found = report(told, tmp_path)
    assert found.verdict.root_causes[:1] == (finding,)
    root = next(one for one in found.findings if one.id == finding)
    assert named.lower() in str(root).lower()


@pytest.mark.parametrize("told", NO_FAULT)
def test_what_is_merely_mentioned_is_not_a_fault(told: str, tmp_path: Path) -> None:
    assert report(told, tmp_path).verdict.root_causes == ()
