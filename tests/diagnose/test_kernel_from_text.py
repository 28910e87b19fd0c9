"""Faults of the kernel and its modules, named from what people paste and write: the true cause is the first root."""

from __future__ import annotations

import io

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load
from gpustack.matrix import Matrix
from gpustack.model.report import Confidence, Finding

MATRIX = Matrix()
SMI = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it is running."
NO_DEVICE = "$ nvidia-smi\nNo devices were found"
PROBE = "NVRM: The NVIDIA probe routine was not called for 1 device(s).\nNVRM: No NVIDIA devices probed."
NO_GSP = """NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:13c2)
NVRM: installed in this system is not supported by open
NVRM: nvidia.ko because it does not include the required GPU
NVRM: System Processor (GSP)."""
LEGACY = """NVRM: The NVIDIA GeForce GTX 660 GPU installed in this system is
NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please
NVRM:  visit http://www.nvidia.com/object/unix.html for more
NVRM:  information.  The 510.47.03 NVIDIA driver will ignore
NVRM:  this GPU.  Continuing probe..."""
NO_KERNEL_390 = """Error! Bad return status for module build on kernel: 6.5.0-14-generic (x86_64)
Consult /var/lib/dkms/nvidia/390.157/build/make.log for more information."""
NO_LSMOD_UVM = """cuInit returns 999
nvidia_drm 57344 8
nvidia_modeset 1228800 10 nvidia_drm
nvidia 34144256 500 nvidia_modeset"""
NOT_LISTED = """NVRM: The NVIDIA GPU 0000:03:00.0 (PCI ID: 10de:1180)
NVRM: installed in this system is not supported by the
NVRM: NVIDIA 535.104.05 driver release."""
OLD_GCC = """DKMS make.log for nvidia-535.129.03 for kernel 6.5.0-35-generic (x86_64)
warning: the compiler differs from the one used to build the kernel
  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0
  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'"""
NEW_LOG = """DKMS (dkms-3.2.2) make.log for nvidia/580.95.05 for kernel 6.17.0-6-generic (x86_64)
make: *** [Makefile:115: modules] Error 2"""
KEY, HEADERS, BUILD = "secure-boot-key-rejected", "dkms-headers-missing", "dkms-build-failed"
OPEN, HMM, STALE, UVM = "open-module-unsupported-gpu", "uvm-hmm-bug", "uvm-stale-after-suspend", "nvidia-uvm-missing"
PEERS, KFD, GSP, OLD = (
    "iommu-acs-p2p",
    "gpu-unsupported-by-kfd",
    "gsp-firmware-regression",
    "legacy-gpu-needs-older-branch",
)
NAMED = (
    (KEY, "modprobe: ERROR: could not insert 'nvidia': Required key not available", "Secure Boot"),
    (KEY, "insmod: ERROR: could not insert module nvidia.ko: Key was rejected by service", "mokutil"),
    (KEY, "Lockdown: systemd-udevd: unsigned module loading is restricted; see man kernel_lockdown.7", "sign"),
    (KEY, f"$ mokutil --sb-state\nSecureBoot enabled\n$ nvidia-smi\n{SMI}", "MOK"),
    (KEY, "UEFI Secure Boot enabled\nmodprobe: ERROR: could not insert 'nvidia': Operation not permitted", "key"),
    (HEADERS, "Error! Your kernel headers for kernel 5.15.0-91-generic cannot be found.", "linux-headers-5.15.0-91"),
    (HEADERS, "Debian 12\nmake: *** /lib/modules/6.1.0-18-amd64/build: No such file or directory", "6.1.0-18-amd64"),
    (HEADERS, "E: Unable to locate package linux-headers-5.15.0-1049-aws", "5.15.0-1049-aws"),
    (HEADERS, "Error: Unable to find a match: kernel-devel-4.18.0-477.el8.x86_64", "kernel-devel"),
    (HEADERS, "ERROR: Unable to find the kernel source tree for the currently running kernel.", "headers"),
    (BUILD, NO_KERNEL_390, "390.157"),
    (BUILD, NEW_LOG, "580.95.05"),
    (BUILD, "Error! Build of amd/amdgpu.ko failed for: 6.8.0-50-generic (x86_64)", "6.8.0-50"),
    (BUILD, OLD_GCC, "sudo apt-get install gcc-12"),
    (BUILD, OLD_GCC, "does not know -ftrivial-auto-var-init=zero"),
    (BUILD, "GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_lock'\nLinux 6.1.9", "6.1.9"),
    (BUILD, "/usr/src/nvidia-470.199.02/nvidia/nv-acpi.c:87:19: error: incompatible pointer type", "does not build"),
    (BUILD, 'ERROR: An error occurred while performing the step: "Building kernel modules".', "make.log"),
    ("nouveau-loaded", f"NVRM: GPU 0000:65:00.0 is already bound to nouveau.\n{PROBE}", "blacklist"),
    ("nouveau-loaded", PROBE, "nouveau"),
    ("nouveau-loaded", f"$ lsmod | grep nouveau\nnouveau 1949696 4\n$ nvidia-smi\n{SMI}", "initramfs"),
    ("nova-loaded", f"NVRM: GPU 0000:01:00.0 is already bound to NovaCore.\n{PROBE}", "nova_core"),
    ("nova-loaded", f"nova_core 0000:01:00.0: NVIDIA (Chipset: GA102)\n{PROBE}", "blacklist"),
    (OPEN, NO_GSP, "Maxwell"),
    (OPEN, f"Tesla P40, nvidia-open-dkms 575.64\n{NO_DEVICE}", "proprietary"),
    (HMM, "nvidia-uvm: uvm_pmm_gpu.c:3304 devmem_alloc_pagemap request_free_mem_region() err -34", "uvm_disable_hmm=1"),
    (HMM, "RTX 4070, nvidia-open 560.35.03\ncuInit returned 3", "HMM"),
    (HMM, "RTX 5090, driver 575.57.08\ncuda driver library init failure: 3", "575.57.08"),
    (STALE, "failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error\nthe laptop was suspended before", "nvidia_uvm"),
    (STALE, "cuInit returned 999 after resuming from hibernation", "suspend"),
    (UVM, "ls: cannot access '/dev/nvidia-uvm': No such file or directory\ncuInit failed: 999", "/dev/nvidia-uvm"),
    (UVM, "modprobe: FATAL: Module nvidia-uvm not found in directory /lib/modules/5.4.0", "nvidia_uvm"),
    (UVM, NO_LSMOD_UVM, "modprobe nvidia_uvm"),
    (PEERS, "8x A6000, NCCL all-reduce hangs\namd_iommu=on", "IOMMU"),
    (PEERS, "2x RTX 3090, NCCL hangs\nACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+", "ACS"),
    (PEERS, 'NCCL WARN Missing "iommu=pt" from kernel command line', "iommu=pt"),
    (KFD, "kfd kfd: amdgpu: TAHITI  not supported in kfd", "TAHITI"),
    (KFD, "amdgpu 0000:03:00.0: kfd not supported on this ASIC", "KFD"),
    (KFD, "kfd: skipped device 1002:67df, PCI rejects atomics", "atomics"),
    (GSP, "driver 570.86.16\nNVRM: RmInitAdapter: Cannot initialize GSP firmware RM\n565.77 works", "565.77"),
    (GSP, "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x40:2168)\n595.58.03: fails on boot", "595.58.03"),
    (OLD, LEGACY, "510.47.03"),
    (OLD, f"GTX 970, driver 590.44.01\n{NO_DEVICE}", "branch 580"),
    (OLD, NOT_LISTED, "470"),
    (OPEN, "GTX 1080 Ti, nvidia-open 575\nnvidia-smi says there is no driver", "proprietary"),
    (STALE, "RTX 3060\nafter waking from sleep: Unable to init GPU: unknown error", "nvidia_uvm"),
    (PEERS, "2x MI250, RCCL all-reduce hangs\n$ cat /proc/cmdline\nBOOT_IMAGE=/vmlinuz-6.8.0 ro quiet", "iommu=pt"),
)  # fmt: skip
WELL = (
    "nvidia: module verification failed: signature and/or required key missing - tainting kernel\nRTX 3080",
    "modprobe: ERROR: could not insert 'vboxdrv': Key was rejected by service",
    "Error! Bad return status for module build on kernel: 6.8.0\nConsult /var/lib/dkms/vboxhost/7.0.8/build/make.log",
    "blacklist nouveau\noptions nouveau modeset=0\nRTX 2080, driver 525.60.11",
    "Kernel driver in use: nvidia\nKernel modules: nvidiafb, nouveau, nvidia_drm, nvidia",
    "nvidia-open 570.124.06, RTX 5090, torch 2.7.0+cu128",
    "RuntimeError: CUDA error: initialization error\nCannot re-initialize CUDA in forked subprocess.",
    "PM: suspend entry (deep)\nPM: suspend exit\nRTX 4090",
    "nvidia-uvm: Loaded the UVM driver, major device number 511.\nRTX 4090, driver 535.129.03",
    "DMAR: IOMMU enabled\nAMD-Vi: Interrupt remapping enabled\nRTX A5000",
    "DataLoader hangs with num_workers=8\nRTX 3090",
    "kfd kfd: amdgpu: added device 1002:744c\nkfd kfd: amdgpu: RAPHAEL  not supported in kfd",
    "GTX 1070, driver 535.129.03, torch 2.1.0",
    "2x MI250, RCCL all-reduce hangs\n$ cat /proc/cmdline\nBOOT_IMAGE=/vmlinuz-6.8.0 ro iommu=pt",
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


def test_a_module_that_lists_its_gpus_was_not_kept_out() -> None:
    smi = "| NVIDIA-SMI 535.129.03   Driver Version: 535.129.03   CUDA Version: 12.2 |"
    gpu = "GPU 0: NVIDIA RTX A5000 (UUID: GPU-1)"
    assert not roots(f"modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n{smi}\n{gpu}")


def test_a_build_without_headers_is_only_a_consequence() -> None:
    text = f"{NO_KERNEL_390}\nError! Your kernel headers for kernel 6.5.0-14-generic cannot be found."
    assert [one.id for one in roots(text)] == ["dkms-headers-missing"]


def test_a_release_that_a_row_knows_not_to_build_says_so() -> None:
    first = roots(NO_KERNEL_390)[0]
    assert first.row
    assert "6.2" in first.row.text


def test_a_gpu_given_on_to_a_guest_is_not_held_by_nouveau() -> None:
    lspci = "01:00.0 VGA compatible controller: NVIDIA Corporation GA104 [GeForce RTX 3070]"
    assert not roots(f"{lspci}\n\tKernel driver in use: vfio-pci\n{PROBE}")


@pytest.mark.parametrize(
    "error",
    [
        "failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error",
        "UserWarning: CUDA unknown error - this may be due to an incorrectly set up environment",
    ],
)
def test_an_unknown_error_proves_a_stale_module_only_beside_a_suspend(error: str) -> None:
    assert not roots(error)
    report = judge(load(["-"], io.BytesIO(error.encode()), MATRIX), MATRIX)
    assert STALE in [one.id for one in report.candidates[:2]]
    assert [(one.id, one.confidence) for one in roots(f"{error}\nafter suspend and resume")] == [
        (STALE, Confidence.LIKELY)
    ]


def test_a_kernel_too_old_for_an_amd_gpu_is_told_from_a_gpu_too_old() -> None:
    new, old = (roots(f"kfd kfd: amdgpu: {chip}  not supported in kfd")[0].fix for chip in ("GC IP 0b0004", "PITCAIRN"))
    assert new
    assert "newer kernel" in new.text
    assert old
    assert "newer kernel" not in old.text
