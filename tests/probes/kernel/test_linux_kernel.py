"""The kernel's facts, on fake machines and on this one."""

from __future__ import annotations

import errno
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load

KERNEL = load("kernel/linux_kernel.py")
RELEASE = "/proc/sys/kernel/osrelease"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
FLAGGED = "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n"
BARE = "processor\t: 0\nflags\t\t: fpu vme lahf_lm\n"


def look(files: dict[str, Any] | None = None, **told: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a host is told
    seen = KERNEL["probe"](ToldHost({RELEASE: "6.8.0-50-generic\n", **(files or {})}, **told))
    assert isinstance(seen, dict)
    return seen


def test_a_workstation_on_bare_metal_with_secure_boot() -> None:
    seen = look(
        {
            "/proc/sys/kernel/hostname": "box\n",
            "/proc/sys/kernel/arch": "x86_64\n",
            "/proc/sys/kernel/tainted": "12289\n",
            "/proc/sys/kernel/modules_disabled": "0\n",
            "/proc/cmdline": "root=/dev/sda1 ro quiet intel_iommu=on iommu=pt module_blacklist=nouveau\n",
            "/proc/cpuinfo": BARE,
            "/etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nID=ubuntu\nVERSION_ID="24.04"\n# a comment\n',
            SECURE_BOOT: b"\x06\x00\x00\x00\x01",
            "/sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
            "/sys/kernel/iommu_groups/0/type": "identity\n",
            "/sys/kernel/iommu_groups/1/type": "identity\n",
            "/lib/modules/6.8.0-50-generic/modules.dep": "",
            "/sys/class/dmi/id/sys_vendor": "Micro-Star International Co., Ltd.\n",
        }
    )
    assert seen["version"] == seen["release"] == "6.8.0-50-generic"
    assert (seen["hostname"], seen["machine"]) == ("box", "x86_64")
    assert (seen["os"], seen["os_id"], seen["os_version"]) == ("Ubuntu 24.04.3 LTS", "ubuntu", "24.04")
    assert (seen["secure_boot"], seen["efi"], seen["lockdown"]) == (True, True, "integrity")
    assert seen["taint"] == 12289
    assert seen["taint_flags"] == ["proprietary-module", "out-of-tree-module", "unsigned-module"]
    assert seen["iommu"] == {"groups": 2, "cmdline": ["intel_iommu=on", "iommu=pt"]}
    assert seen["cmdline"] == ["intel_iommu=on", "iommu=pt", "module_blacklist=nouveau"]
    assert seen["modules_tree"] is True
    assert seen["modules_disabled"] is False
    assert (seen["virtualisation"], seen["container"], seen["wsl"]) == (None, None, False)


def test_a_kernel_that_says_nothing_but_its_release() -> None:
    seen = look()
    assert seen["version"] == "6.8.0-50-generic"
    assert seen["modules_tree"] is False
    assert seen["iommu"] == {"groups": 0, "cmdline": []}
    for name in ("hostname", "machine", "os", "secure_boot", "lockdown", "taint", "virtualisation", "container"):
        assert seen[name] is None


def test_a_kernel_whose_release_is_denied_is_a_failure_with_its_reason() -> None:
    with pytest.raises(OSError, match="denied"):
        KERNEL["probe"](ToldHost({RELEASE: OSError(errno.EACCES, "Permission denied")}))


def test_the_architecture_is_asked_of_uname_where_an_old_kernel_has_no_file_for_it() -> None:
    assert look(commands={"uname -m": "aarch64\n"})["machine"] == "aarch64"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x06\x00\x00\x00\x01", True),
        (b"\x06\x00\x00\x00\x00", False),
        (b"\x06\x00", None),
        (b"", None),
        (OSError(errno.EACCES, "Permission denied"), None),
    ],
)
def test_secure_boot_is_the_last_byte_of_its_variable(content: bytes | OSError, *, says: bool | None) -> None:
    assert look({SECURE_BOOT: content})["secure_boot"] is says


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"/proc/cpuinfo": BARE}, None),
        ({"/proc/cpuinfo": FLAGGED}, "unknown"),
        ({"/proc/cpuinfo": FLAGGED, "/sys/class/dmi/id/sys_vendor": "QEMU\n"}, "kvm"),
        ({"/proc/cpuinfo": FLAGGED, "/sys/class/dmi/id/product_name": "VMware7,1\n"}, "vmware"),
        (
            {
                "/proc/cpuinfo": FLAGGED,
                "/sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n",
                "/sys/class/dmi/id/product_name": "Virtual Machine\n",
            },
            "hyper-v",
        ),
        ({"/proc/cpuinfo": BARE, "/sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, None),
        ({"/sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, "kvm"),
        ({"/sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "/sys/class/dmi/id/product_name": "c7g.metal\n"}, None),
        ({"/sys/hypervisor/type": "xen\n"}, "xen"),
    ],
)
def test_the_hypervisor_is_named_by_what_shows_it(files: dict[str, str], says: str | None) -> None:
    assert look(files)["virtualisation"] == says


def test_a_microvm_made_from_an_image_shows_both_marks_and_no_contradiction() -> None:
    """As on the H200 host of 2026-11-21: Firecracker, and a /.dockerenv left over from the image."""
    seen = look(
        {
            RELEASE: "6.18.44-fc-v657-gpu\n",
            "/proc/cmdline": "console=ttyS0 pci=realloc=off rdinit=/init -- --firecracker-init --addr 0.0.0.0\n",
            "/proc/cpuinfo": FLAGGED,
            "/proc/1/cgroup": "0::/init/core\n",
            "/.dockerenv": "",
        }
    )
    assert seen["virtualisation"] == "firecracker"
    assert seen["virtualisation_seen"] == ["/proc/cmdline: firecracker", "/proc/cpuinfo: unknown"]
    assert (seen["container"], seen["container_seen"]) == ("docker", ["/.dockerenv"])
    assert seen["cmdline"] == ["pci=realloc=off"]


@pytest.mark.parametrize(
    ("files", "environ", "says"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/run/.containerenv": ""}, {"container": "oci"}, "podman"),
        ({"/proc/1/cgroup": "0::/system.slice/docker-0f.scope\n"}, {}, "docker"),
        ({"/proc/1/cgroup": "0::/kubepods.slice/x\n"}, {}, "kubernetes"),
        ({"/proc/1/cgroup": "0::/lxc.payload.box\n"}, {}, "lxc"),
        ({"/proc/1/cgroup": "0::/machine.slice/x\n"}, {}, "unknown"),
        ({}, {"container": "lxc"}, "lxc"),
        ({"/run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({"/run/systemd/container": "wsl\n"}, {}, None),
        ({"/.singularity.d/runscript": ""}, {}, "apptainer"),
        ({"/proc/1/cgroup": OSError(errno.EACCES, "Permission denied")}, {}, None),
    ],
)
def test_the_container_is_named_by_what_shows_it(files: dict[str, Any], environ: dict[str, str], says: str) -> None:
    assert look(files, environ=environ)["container"] == says


def test_wsl_is_known_by_its_kernel_and_its_gpu_by_its_device() -> None:
    release = "5.15.167.4-microsoft-standard-WSL2\n"
    seen = look({RELEASE: release, "/proc/cpuinfo": FLAGGED}, devices={"/dev/dxg": {"kind": "char"}})
    assert (seen["wsl"], seen["dxg"], seen["virtualisation"]) == (True, True, "hyper-v")
    assert look()["wsl"] is False


def test_a_taint_bit_of_a_newer_kernel_has_a_number_for_a_name() -> None:
    assert look({"/proc/sys/kernel/tainted": str(1 << 40)})["taint_flags"] == ["bit-40"]
    assert look({"/proc/sys/kernel/tainted": "a lot"})["taint"] is None


def test_this_machine_answers() -> None:
    seen = KERNEL["probe"](Host())
    assert seen["version"]
    assert seen["machine"]
    assert isinstance(seen["taint"], int)


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    KERNEL["bracketed"](text)
    said = KERNEL["assignments"](text)
    assert all(isinstance(value, str) for value in said.values())
    files = ["/proc/cmdline", "/proc/cpuinfo", "/proc/1/cgroup", "/proc/sys/kernel/tainted", "/etc/os-release"]
    assert look(dict.fromkeys(files, text))["version"]


def test_what_decides_how_fast_the_processors_are_is_reported() -> None:
    cpu = "/sys/devices/system/cpu/cpu0/cpufreq/"
    files = {
        "/proc/sys/kernel/numa_balancing": "1\n",
        f"{cpu}scaling_governor": "powersave\n",
        f"{cpu}scaling_driver": "acpi-cpufreq\n",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    }
    names = ("numa_balancing", "cpu_governor", "cpu_driver", "clocksource")
    assert [look(files)[name] for name in names] == [True, "powersave", "acpi-cpufreq", "hpet"]
    assert [look()[name] for name in names] == [None] * 4
    assert look({"/proc/sys/kernel/numa_balancing": "0\n"})["numa_balancing"] is False


class Clock:
    """A C library whose adjtimex reports this clock offset, and whether the clock is synchronised."""

    def __init__(self, answer: int, microseconds: int = 0, status: int = 0) -> None:
        self.answer, self.microseconds, self.status = answer, microseconds, status

    def adjtimex(self, held: Any) -> int:  # noqa: ANN401 - a buffer
        said = held.raw[:24] + self.microseconds.to_bytes(8, sys.byteorder) + bytes(8)
        held.raw = (said + self.status.to_bytes(4, sys.byteorder)).ljust(208, b"\0")
        return self.answer


@pytest.mark.parametrize(
    ("said", "synchronised", "error"),
    [(Clock(0, 250_000), True, 0.25), (Clock(5, 16_000_000, 0x40), False, 16.0), (Clock(-1), None, None)],
)
def test_a_clock_says_whether_it_is_synchronised_and_how_far_it_may_be_off(
    said: Clock, synchronised: object, error: object
) -> None:
    seen = look(libraries={"libc.so.6": said})
    assert seen["clock"] == {"synchronised": synchronised, "max_error_s": error}


def test_a_system_without_that_library_says_nothing_of_its_clock() -> None:
    assert look()["clock"] == {"synchronised": None, "max_error_s": None}


def test_errors_of_the_memory_are_counted_for_each_controller() -> None:
    counts = {"mc0/ce_count": "12\n", "mc0/ue_count": "0\n", "mc1/ce_count": "garbage", "power/control": "auto"}
    seen = look({f"/sys/devices/system/edac/mc/{name}": said for name, said in counts.items()})
    assert seen["edac"] == [
        {"controller": "mc0", "corrected": 12, "uncorrected": 0},
        {"controller": "mc1", "corrected": None, "uncorrected": None},
    ]


@pytest.mark.parametrize(("said", "seconds"), [("86400.25 99.0\n", 86400.25), ("soon", None), ("", None)])
def test_the_time_since_the_start_is_a_number_or_nothing(said: str, seconds: float | None) -> None:
    assert look({"/proc/uptime": said})["uptime_s"] == seconds
