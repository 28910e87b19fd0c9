"""Rules about the kernel module: what prevents it from loading, and what else holds the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.fixes import DRIVERS
from gpustack.diagnose.machine import exercised
from gpustack.model.report import Confidence, Health, Severity
from tests.build import (
    MATRIX,
    PCI,
    driver,
    found,
    gpu,
    healthy,
    ids,
    kernel,
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
    uvm,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts

NOT_LOADED = nvml_error(9, "NVML_ERROR_DRIVER_NOT_LOADED")
HEADERS = {"version": "6.8.0-50-generic", "path": "/usr/src/linux-headers-6.8.0-50-generic", "makefile": True}


def out(*others: Component, holder: str | None = None, device: str = "0x2684") -> Facts:
    """Return a machine whose driver is installed but whose module is not loaded."""
    bare = (seen("pci-display", pci(holder, device)), module(None), uvm(None), NOT_LOADED, libcuda(init=100))
    return merged(healthy(torch()), *bare, seen("gpu"), *others)


def dkms(state: str, kernel_: str = "6.8.0-50-generic", tail: str | None = None) -> Component:
    key = f"nvidia/580.95.05 on {kernel_}"
    here = kernel_ == "6.8.0-50-generic"
    said = {"module": "nvidia", "module_version": "580.95.05", "kernel": kernel_, "state": state}
    return seen("dkms", {"key": key, **said, "for_running_kernel": here, "log_tail": tail})


def test_a_module_that_is_not_loaded_has_to_be_loaded() -> None:
    finding = found(out(), "nvidia-module-not-loaded")
    assert finding is not None
    assert finding.fix is not None
    assert finding.fix.commands[0] == "sudo modprobe nvidia"
    assert roots(out()) == ("nvidia-module-not-loaded",)


def test_a_module_that_is_not_shown_and_works_is_loaded_somewhere() -> None:
    sandboxed = healthy(module(None, None), driver(None), uvm(None), seen("pci-display", pci(None)))
    assert ids(sandboxed) == set()
    bus = seen("pci-display")
    wsl = machine(kernel(), bus, module(None, None), driver(None), libcuda(12060, "566.36"), seen("nvml"), wsl=True)
    assert ids(wsl) == set()
    assert report(wsl).verdict.status is Health.HEALTHY


def test_a_module_that_is_kept_out_names_the_files_that_do() -> None:
    facts = out(module(None, blacklisted=["/etc/modprobe.d/no.conf"]))
    finding = found(facts, "nvidia-module-not-loaded")
    assert finding is not None
    assert "/etc/modprobe.d/no.conf" in finding.detail
    assert finding.fix is not None
    assert "/etc/modprobe.d/no.conf" in finding.fix.text


def test_a_module_that_is_not_on_disk_is_to_be_built() -> None:
    finding = found(out(module(None, None)), "nvidia-module-not-loaded")
    assert finding is not None
    assert finding.title.endswith("not built for this kernel")
    assert finding.fix is not None
    assert "linux-headers-6.8.0-50-generic" in finding.fix.commands[0]


@pytest.mark.parametrize(
    ("holder", "finding"), [("nouveau", "nouveau-loaded"), ("nova_core", "nova-loaded"), ("NovaCore", "nova-loaded")]
)
def test_another_driver_on_the_gpu_is_the_root(holder: str, finding: str) -> None:
    assert roots(out(holder=holder)) == (finding,)


def test_another_driver_in_memory_is_the_root_where_nvidia_is_not() -> None:
    facts = out(module(None, competitors=["nouveau"]))
    assert roots(facts) == ("nouveau-loaded",)
    assert "nouveau-loaded" not in ids(healthy(module(competitors=["nouveau"])))


def test_the_drivers_own_words_about_nouveau_are_enough() -> None:
    lines = (
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).",
        "NVRM: This can occur when a driver such as:",
        "NVRM: nouveau, rivafb, nvidiafb or rivatv",
        "NVRM: obtained ownership",
    )
    assert roots(out(log(*lines))) == ("nouveau-loaded",)


def test_a_log_is_checked_against_messages_only_where_it_mentions_trouble() -> None:
    usual = (
        "nvidia: loading out-of-tree module taints kernel.",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04",
    )
    quiet, loud = healthy(log(*usual)), healthy(log(*usual, "NVRM: RmInitAdapter failed! (0x62:0x40:1860)"))
    assert exercised.recognised(quiet, MATRIX) is quiet
    assert "rminit-failed" in {one.kind for one in exercised.recognised(loud, MATRIX).messages}


def test_nouveau_on_one_gpu_of_two_is_a_warning() -> None:
    bus = seen("pci-display", pci(), pci("nouveau", "0x1db6", "0000:02:00.0"))
    finding = found(healthy(bus), "nouveau-loaded")
    assert finding is not None
    assert finding.severity is Severity.WARNING


def test_without_any_driver_the_missing_driver_is_the_root() -> None:
    facts = out(module(None, None), driver(None), seen("nvml"), seen("libcuda"), holder="nouveau")
    assert roots(facts) == ("nvidia-driver-missing",)
    assert found(facts, "nouveau-loaded") is not None
    assert "nvidia-module-not-loaded" not in ids(facts)


@pytest.mark.parametrize(
    ("os_id", "device", "command"),
    [
        ("ubuntu", "0x2684", "sudo ubuntu-drivers install"),
        ("ubuntu", "0x1004", "sudo apt-get install nvidia-driver-470"),
        ("debian", "0x2684", "sudo apt-get install nvidia-open"),
        ("rocky", "0x2684", "sudo dnf install nvidia-open"),
        ("opensuse-leap", "0x2684", "sudo zypper install nvidia-open"),
        ("arch", "0x2684", "sudo pacman -S nvidia-open nvidia-utils"),
        ("pop", "0x2684", "sudo apt-get install system76-driver-nvidia"),
        ("gentoo", "0x2684", f"as described in {DRIVERS}"),
        ("rocky", "0x1b82", "sudo dnf module enable nvidia-driver:580-dkms"),
        ("debian", "0x1b82", "sudo apt-get install nvidia-driver-pinning-580"),
        ("arch", "0x1b82", "nvidia-580xx-dkms"),
    ],
)
def test_the_driver_is_installed_as_the_distribution_does_it(os_id: str, device: str, command: str) -> None:
    bare = (module(None, None), driver(None), seen("nvml"), seen("libcuda"), kernel(os_id=os_id))
    finding = found(out(*bare, device=device), "nvidia-driver-missing")
    assert finding is not None
    assert finding.fix is not None
    assert command in finding.fix.commands or command in finding.fix.text
    assert finding.fix.needs_reboot


def test_a_gpu_of_an_unknown_number_is_without_a_driver_anyway() -> None:
    bare = (module(None, None), driver(None), seen("nvml"), seen("libcuda"))
    assert roots(out(*bare, device="0x0001")) == ("nvidia-driver-missing",)
    assert roots(out(*bare, device="garbage")) == ("nvidia-driver-missing",)


def test_a_gpu_held_for_a_virtual_machine_needs_no_driver() -> None:
    facts = out(module(None, None), driver(None), seen("nvml"), seen("libcuda"), uvm(None), holder="vfio-pci")
    finding = found(facts, "gpu-passed-through")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert roots(facts) == ()


REFUSED = "Loading of module with unavailable key is rejected"


def test_a_refused_key_is_the_root() -> None:
    facts = out(kernel(secure_boot=True), log(modules=[REFUSED]))
    finding = found(facts, "secure-boot-key-rejected")
    assert finding is not None
    assert finding.confidence is Confidence.CERTAIN
    assert roots(facts) == ("secure-boot-key-rejected",)


@pytest.mark.parametrize(
    ("signed", "confidence"),
    [(module(None, signer=None), Confidence.LIKELY), (module(None, signer="DKMS"), Confidence.POSSIBLE)],
)
def test_where_the_log_is_closed_secure_boot_is_a_guess(signed: Component, confidence: Confidence) -> None:
    unread = seen("kernel-log", {"readable": False, "xids": [], "nvrm": [], "module_errors": []})
    finding = found(out(kernel(secure_boot=True), unread, signed), "secure-boot-key-rejected")
    assert finding is not None
    assert finding.confidence is confidence


@pytest.mark.parametrize(("mode", "fault"), [("integrity", True), ("confidentiality", True), ("none", False)])
def test_a_kernel_that_is_locked_down_keeps_unsigned_modules_out_without_secure_boot(mode: str, *, fault: bool) -> None:
    unread = seen("kernel-log", {"readable": False, "xids": [], "nvrm": [], "module_errors": []})
    facts = out(kernel(secure_boot=False, lockdown=mode), unread, module(None, signer=None))
    assert ("secure-boot-key-rejected" in ids(facts)) == fault
    if fault:
        finding = found(facts, "secure-boot-key-rejected")
        assert finding
        assert "lockdown" in finding.title
        assert ("lockdown", mode) in [(one.fact, one.value) for one in finding.because]


def test_secure_boot_by_itself_is_not_a_fault() -> None:
    assert "secure-boot-key-rejected" not in ids(out(kernel(secure_boot=True)))
    assert "secure-boot-key-rejected" not in ids(healthy(kernel(secure_boot=True), log(modules=[REFUSED])))


@pytest.mark.parametrize(("os_id", "key"), [("fedora", "akmods"), ("ubuntu", "shim-signed"), ("arch", "dkms")])
def test_the_key_lies_where_the_distribution_keeps_it(os_id: str, key: str) -> None:
    finding = found(out(kernel(os_id=os_id, secure_boot=True), log(modules=[REFUSED])), "secure-boot-key-rejected")
    assert finding is not None
    assert finding.fix is not None
    assert key in finding.fix.commands[0]


def test_missing_headers_are_the_root_of_a_module_that_was_not_built() -> None:
    facts = out(module(None, None), dkms("added"), seen("kernel-headers"))
    assert roots(facts) == ("dkms-headers-missing",)


@pytest.mark.parametrize(
    "others", [(seen("kernel-headers", HEADERS),), (), (seen("kernel-headers", status="not-applicable"),)]
)
def test_headers_are_missing_only_where_they_were_looked_for(others: tuple[Component, ...]) -> None:
    assert "dkms-headers-missing" not in ids(out(module(None, None), dkms("added"), *others))


def test_missing_headers_do_no_harm_while_the_module_is_there() -> None:
    assert "dkms-headers-missing" not in ids(healthy(dkms("installed"), seen("kernel-headers")))
    assert "dkms-headers-missing" not in ids(out(dkms("added"), seen("kernel-headers")))


def test_a_failed_build_is_the_root_and_its_log_names_the_line() -> None:
    tail = "make[1]: Entering directory\nnv-mmap.c:12: error: unknown type name\nmake: *** failed"
    facts = out(module(None, None), dkms("failed", tail=tail), seen("kernel-headers", HEADERS))
    finding = found(facts, "dkms-build-failed")
    assert finding is not None
    assert "unknown type name" in finding.detail
    assert roots(facts) == ("dkms-build-failed",)


def test_a_failed_build_for_another_kernel_is_not_this_ones() -> None:
    facts = out(module(None, None), dkms("failed", "6.11.0-1-generic"), seen("kernel-headers", HEADERS))
    assert "dkms-build-failed" not in ids(facts)
    assert roots(facts) == ("nvidia-module-not-loaded",)


def test_a_build_failed_for_want_of_headers_has_one_root() -> None:
    facts = out(module(None, None), dkms("failed"), seen("kernel-headers"))
    assert roots(facts) == ("dkms-headers-missing",)


def test_a_module_of_another_kernel_is_the_root() -> None:
    facts = out(module(None, vermagic="6.8.0-48-generic SMP preempt mod_unload"))
    assert roots(facts) == ("module-built-for-other-kernel",)
    line = "nvidia: version magic '6.8.0-48-generic SMP' should be '6.8.0-50-generic SMP'"
    assert roots(out(log(modules=[line]))) == ("module-built-for-other-kernel",)
    assert roots(out(module(None, vermagic="6.8.0-50-generic SMP"))) == ("nvidia-module-not-loaded",)


def unlisted(device: str, release: str, flavour: str, count: int = 0) -> Facts:
    """Return a machine whose driver is loaded but does not list its one GPU."""
    parts = (seen("pci-display", pci(device=device)), module(release, release, flavour=flavour), driver(release))
    loaded = uvm(release), nvml(release, count=count), libcuda(release=release, init=100), seen("gpu")
    return healthy(torch(), *parts, *loaded)


@pytest.mark.parametrize(
    ("device", "release", "flavour", "root"),
    [
        ("0x1b82", "580.95.05", "open", "open-module-unsupported-gpu"),
        ("0x1db6", "590.48.01", "open", "open-module-unsupported-gpu"),
        ("0x1b82", "590.48.01", "proprietary", "legacy-gpu-needs-older-branch"),
        ("0x1004", "535.183.01", "proprietary", "legacy-gpu-needs-older-branch"),
        ("0x2b85", "580.95.05", "proprietary", "closed-module-unsupported-gpu"),
        ("0x2684", "580.95.05", "open", "gpu-not-listed"),
        ("0x0001", "580.95.05", "open", "gpu-not-listed"),
    ],
)
def test_a_gpu_that_the_driver_leaves_out_has_its_reason(device: str, release: str, flavour: str, root: str) -> None:
    assert roots(unlisted(device, release, flavour)) == (root,)


def test_the_open_modules_own_refusal_is_evidence() -> None:
    lines = (
        f"NVRM: The NVIDIA GPU {PCI} (PCI ID: 10de:1b82)",
        "NVRM: installed in this system is not supported by open",
        "NVRM: nvidia.ko because it does not include the required GPU",
        "NVRM: System Processor (GSP).",
    )
    facts = merged(out(log(*lines), device="0x1b82"), module(None, flavour=None))
    finding = found(facts, "open-module-unsupported-gpu")
    assert finding is not None
    assert finding.instance == PCI
    assert roots(facts) == ("open-module-unsupported-gpu",)


def test_a_gpu_that_is_listed_is_supported_whatever_rows_say() -> None:
    facts = healthy(seen("pci-display", pci(device="0x1b82")), seen("gpu", gpu("GTX 1070 Ti", "6.1")))
    assert roots(facts) == ()


def test_uvm_is_missed_only_where_cuda_does_not_start() -> None:
    assert "nvidia-uvm-missing" not in ids(healthy(uvm(None)))
    assert roots(healthy(uvm(None), libcuda(init=999))) == ("nvidia-uvm-missing",)
    node = {"path": "/dev/nvidia-uvm", "exists": False}
    assert roots(healthy(uvm(nodes=[node]), libcuda(init=999))) == ("nvidia-uvm-missing",)
    assert roots(healthy(seen("nvidia-uvm.ko"), libcuda(init=3))) == ("nvidia-uvm-missing",)


def test_an_unknown_error_with_all_else_well_is_a_stale_uvm() -> None:
    facts = healthy(libcuda(init=999))
    finding = found(facts, "uvm-stale-after-suspend")
    assert finding is not None
    assert finding.confidence is Confidence.LIKELY
    assert roots(facts) == ("uvm-stale-after-suspend",)
    assert "uvm-stale-after-suspend" not in ids(merged(facts, nvml_error(999, "NVML_ERROR_UNKNOWN")))


def test_a_build_log_with_an_option_that_gcc_does_not_know_asks_for_the_compiler_of_the_kernel() -> None:
    tail = "gcc: error: unrecognized command-line option '-fmin-function-alignment=16'\nmake: *** [all] Error 2"
    facts = out(module(None, None), dkms("failed", tail=tail), seen("kernel-headers", HEADERS))
    finding = found(facts, "dkms-build-failed")
    assert finding is not None
    assert finding.fix is not None
    assert "does not know -fmin-function-alignment=16" in finding.detail
    assert "sudo apt-get install gcc-GCC g++-GCC" in finding.fix.commands
