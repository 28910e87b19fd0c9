"""The running kernel: release, distribution, Secure Boot, lockdown, taint, IOMMU, virtualisation, container, WSL."""

import ctypes
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

RELEASE = "/proc/sys/kernel/osrelease"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
NAME = re.compile(r"[\w.+~-]{1,64}", re.ASCII)
EDAC = "/sys/devices/system/edac/mc"
MOST_CONTROLLERS = 64
# struct timex of 64-bit Linux (include/uapi/linux/timex.h): maxerror and status, by their places; STA_UNSYNC.
TIMEX, MAX_ERROR, CLOCK_STATUS, UNSYNCHRONISED = 208, 24, 40, 0x40
EFI_VARIABLE = 5  # four bytes of attributes, one of value
# Bits of /proc/sys/kernel/tainted in order. Source: Documentation/admin-guide/tainted-kernels.rst, Linux 6.17.
TAINTS = (
    "proprietary-module",
    "forced-load",
    "cpu-out-of-spec",
    "forced-unload",
    "machine-check",
    "bad-page",
    "user-request",
    "died",
    "acpi-override",
    "warning",
    "staging-driver",
    "firmware-workaround",
    "out-of-tree-module",
    "unsigned-module",
    "soft-lockup",
    "live-patched",
    "auxiliary",
    "randomised-layout",
    "in-kernel-test",
    "fwctl",
)
# The machine's vendor and product in DMI, and the hypervisor that they mean; the first match counts.
MAKERS = (
    ("firecracker", "firecracker"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("microsoft corporation virtual machine", "hyper-v"),
    ("parallels", "parallels"),
    ("apple virtualization", "apple"),
    ("bhyve", "bhyve"),
    ("xen", "xen"),
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("amazon ec2", "kvm"),
    ("google", "kvm"),
    ("openstack", "kvm"),
    ("digitalocean", "kvm"),
    ("alibaba", "kvm"),
    ("nutanix", "kvm"),
)
# Words in the paths of process 1's control groups, to the manager that makes them.
CGROUPS = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("lxc", "lxc"),
    ("containerd", "unknown"),
    ("machine.slice", "unknown"),
)
# Parameters of the kernel's command line that decide whether a GPU works; the rest is private.
GPU_WORDS = re.compile(
    r"(\S*iommu\S*|pci|nomodeset|nomodule|lockdown|module\.sig_enforce|\S*blacklist|(nvidia|nouveau|nova)\S*)(=|$)"
)


def probe(host: "Host") -> "Answer":
    """Return the kernel's facts; what cannot be read is null, and the log says why."""
    for folder in host.shared("mounts.py")["FOLDERS"]:
        host.shared("mounts.py")["bare"](host, folder)
    release = line(host, RELEASE) or (told(host, "-r") if host.why(RELEASE) == "missing" else None)
    if not release or not named(release):
        why = host.why(RELEASE)
        raise OSError("%s: %s" % (RELEASE, why if why != "ok" else "no kernel's release stands in it"))
    words = (host.read("/proc/cmdline") or "").split(" -- ")[0].split()
    facts: "Facts" = {
        "version": release,
        "release": release,
        "hostname": named(line(host, "/proc/sys/kernel/hostname")) or told(host, "-n"),
        "machine": machine(host),
        "cmdline": [word for word in words if GPU_WORDS.match(word)],
        "efi": host.exists("/sys/firmware/efi"),
        "secure_boot": secure_boot(host),
        "lockdown": bracketed(host.read("/sys/kernel/security/lockdown") or ""),
        "modules_tree": host.exists("/lib/modules/" + release),
        "modules_disabled": {"0": False, "1": True}.get(line(host, "/proc/sys/kernel/modules_disabled") or ""),
        "iommu": {
            "groups": len(host.list("/sys/kernel/iommu_groups")),
            "cmdline": [word for word in words if "iommu" in word.partition("=")[0]],
        },
    }
    facts.update(distribution(host))
    facts.update(tuning(host))
    facts.update({"boot_id": boot(host), "uptime_s": uptime(host), "edac": edac(host), "clock": clock(host)})
    facts.update(taint(host))
    facts.update({"wsl": is_wsl(release), "dxg": host.exists("/dev/dxg")})
    facts.update(virtualisation(host, release))
    facts.update(container(host))
    return facts


def line(host: "Host", path: str) -> "Optional[str]":
    """Return a file of one line, or None if it is empty or cannot be read."""
    return (host.read(path, 4096) or "").strip() or None


def machine(host: "Host") -> "Optional[str]":
    """Return the processor's architecture as ``uname -m`` does; the file exists from Linux 6.1 on."""
    return named(line(host, "/proc/sys/kernel/arch")) or told(host, "-m")


def told(host: "Host", option: str) -> "Optional[str]":
    """Return what ``uname`` says, which needs no /proc."""
    return named(host.shared("commands.py")["output"](host, "uname", option).strip())


def named(text: "Optional[str]") -> "Optional[str]":
    """Return the name of a host, a release or a processor, or None if the text is not one."""
    return text if text and NAME.fullmatch(text) else None


def distribution(host: "Host") -> "Facts":
    """Return the distribution's name for people and its id."""
    text = host.read("/etc/os-release") or host.read("/usr/lib/os-release") or ""
    said = assignments(text)
    return {"os": said.get("PRETTY_NAME"), "os_id": said.get("ID"), "os_version": said.get("VERSION_ID")}


def tuning(host: "Host") -> "Facts":
    """Return what decides how fast the processors serve the GPUs: NUMA balancing, frequency governor, clock source."""
    balancing = line(host, "/proc/sys/kernel/numa_balancing")
    return {
        "numa_balancing": balancing != "0" if (balancing or "").isdecimal() else None,
        "cpu_governor": line(host, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "cpu_driver": line(host, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
        "clocksource": line(host, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }


def boot(host: "Host") -> "Optional[str]":
    """Return the number that the kernel drew for itself when it was started."""
    said = line(host, "/proc/sys/kernel/random/boot_id") or ""
    return said if re.match(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", said) else None


def uptime(host: "Host") -> "Optional[float]":
    """Return how many seconds ago the kernel was started."""
    found = re.match(r"\d{1,12}\.\d{1,4}(?=\s)", host.read("/proc/uptime", 64) or "")
    return float(found.group()) if found else None


def edac(host: "Host") -> "List[Facts]":
    """Return how many errors each controller of the machine's memory has counted since boot."""
    names = [name for name in host.list(EDAC) if re.fullmatch(r"mc\d{1,3}", name)]
    return [
        {
            "controller": name,
            "corrected": count(host, "%s/%s/ce_count" % (EDAC, name)),
            "uncorrected": count(host, "%s/%s/ue_count" % (EDAC, name)),
        }
        for name in names[:MOST_CONTROLLERS]
    ]


def count(host: "Host", path: str) -> "Optional[int]":
    said = line(host, path) or ""
    return int(said) if re.fullmatch(r"[0-9]{1,18}", said) else None


def clock(host: "Host") -> "Facts":
    """Return whether the kernel's clock is synchronised, and how far it may be off; adjtimex(2) sets nothing."""
    unknown = {"synchronised": None, "max_error_s": None}  # type: Facts
    if host.root or ctypes.sizeof(ctypes.c_long) != ctypes.sizeof(ctypes.c_longlong):
        return unknown  # files of another machine say nothing about the running kernel
    held = ctypes.create_string_buffer(TIMEX)
    try:
        answer = host.library("libc.so.6").call("adjtimex", held)
    except (OSError, AttributeError):
        return unknown
    if not isinstance(answer, int) or answer < 0:
        return unknown
    status = int.from_bytes(held.raw[CLOCK_STATUS : CLOCK_STATUS + 4], sys.byteorder)
    error = int.from_bytes(held.raw[MAX_ERROR : MAX_ERROR + 8], sys.byteorder)
    return {"synchronised": not status & UNSYNCHRONISED, "max_error_s": error / 1e6}


def assignments(text: str) -> "Dict[str, str]":
    """Return the names and values of shell-like assignments, quotes removed."""
    pairs = (row.strip().partition("=") for row in text.splitlines())
    return {name: value.strip("\"'") for name, equals, value in pairs if equals and value.strip("\"'")}


def bracketed(text: str) -> "Optional[str]":
    """Return the word that the kernel has put in brackets: the choice in force."""
    found = re.search(r"\[(\w+)\]", text)
    return found.group(1) if found else None


def secure_boot(host: "Host") -> "Optional[bool]":
    """Return whether the firmware enforces signatures; None if there is no EFI or its variable cannot be read."""
    data = host.bytes(SECURE_BOOT, 64)
    return data[-1] == 1 if data and len(data) == EFI_VARIABLE else None


def taint(host: "Host") -> "Facts":
    """Return the taint mask and the names of its bits; a bit of a newer kernel is named by its number."""
    text = line(host, "/proc/sys/kernel/tainted") or ""
    if not re.fullmatch("[0-9]{1,20}", text):
        return {"taint": None, "taint_flags": []}
    bits = [bit for bit in range(64) if int(text) >> bit & 1]
    return {"taint": int(text), "taint_flags": [TAINTS[bit] if bit < len(TAINTS) else "bit-%d" % bit for bit in bits]}


def is_wsl(release: str) -> bool:
    """Return whether the kernel is that of the Windows Subsystem for Linux, by its release."""
    return bool(re.search("microsoft|wsl", release.lower()))


def virtualisation(host: "Host", release: str) -> "Facts":
    """Return the hypervisor's name (None: none seen; "unknown": one without a name) and every mark that was seen."""
    seen: "List[Tuple[str, str]]" = [("hyper-v", "WSL")] if is_wsl(release) else []
    if "firecracker" in (host.read("/proc/cmdline") or "").lower():
        seen.append(("firecracker", "/proc/cmdline"))
    kind = line(host, "/sys/hypervisor/type")
    seen += [(kind, "/sys/hypervisor/type")] if kind else []
    processor = host.read("/proc/cpuinfo", 8192) or ""
    flagged = bool(re.search(r"^flags\s*:.*\bhypervisor\b", processor, re.MULTILINE))
    # Clouds put their name on bare metal as well: on x86, DMI names a hypervisor only where the processor shows one.
    if flagged or not re.search(r"^flags\s*:", processor, re.MULTILINE):
        said = " ".join(line(host, "/sys/class/dmi/id/" + name) or "" for name in ("sys_vendor", "product_name"))
        named = [name for word, name in MAKERS if word in said.lower() and not said.endswith(".metal")]
        seen += [(name, "/sys/class/dmi/id") for name in named[:1]]
    seen += [("unknown", "/proc/cpuinfo")] if flagged else []
    return {
        "virtualisation": seen[0][0] if seen else None,
        "virtualisation_seen": ["%s: %s" % (where, name) for name, where in seen],
    }


def container(host: "Host") -> "Facts":
    """Return the container's manager (None: no mark of a container) and every mark that was seen.

    A mark is no proof: a virtual machine unpacked from an image keeps its /.dockerenv.
    """
    groups = host.read("/proc/1/cgroup") or ""
    named = host.env("container") or line(host, "/run/systemd/container")
    marks = (
        ("kubernetes", "KUBERNETES_SERVICE_HOST", host.env("KUBERNETES_SERVICE_HOST") is not None),
        ("podman", "/run/.containerenv", host.exists("/run/.containerenv")),
        ("docker", "/.dockerenv", host.exists("/.dockerenv")),
        ("apptainer", "/.singularity.d", host.exists("/.singularity.d")),
        *((name, "/proc/1/cgroup", word in groups) for word, name in CGROUPS),
        (named or "", "container=" + (named or ""), bool(named) and named != "wsl"),
    )
    seen = [(name, mark) for name, mark, there in marks if there]
    return {"container": seen[0][0] if seen else None, "container_seen": [mark for _, mark in dict.fromkeys(seen)]}
