"""The release of NVIDIA's driver in each of its parts: libraries, module in memory and on disk, firmware, packages.

The parts are installed together and must be of one release; which of them is behind says what to do about it. The
user-space release is read from the file names of libcuda and libnvidia-ml, forward-compatibility copies and stubs left
out: those are not part of the installed driver.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from probes.host import Answer, Facts, Host

FIRMWARE = re.compile(r"\d{3,4}\.\d{1,3}(\.\d{1,3})?")
APART = ("compat", "stub")
DPKG, MOST_STATUS = "/var/lib/dpkg/status", 64 << 20
SECONDS = 1.5  # for a command: two that hang leave time for the rest
# Packages that bring parts of the driver, whatever the branch in their names; the others of NVIDIA's are tools on top.
TOOLS = r"(?!container|cuda|docker|nsight|profiler|visual)"
DEB = re.compile(
    r"^Package: ((?:lib|xserver-xorg-video-|linux-\w+-)?nvidia-"
    + TOOLS
    + r"\S+|libcuda1\S*|cuda-drivers\S*)\n((?:.+\n)*)",
    re.MULTILINE,
)
DEB_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)
RPM = re.compile(r"^([\w.+-]+) (\d[\w.+~^-]*)$", re.ASCII | re.MULTILINE)
PACMAN = re.compile(r"((?:lib32-|opencl-)?nvidia(?:-" + TOOLS + r"[a-z0-9-]+?)?)-(\d[^-]*-[^-]+)")
# By name, since rpm finds a name in its index and a pattern only by reading the whole database.
RPMS = (
    "nvidia-driver nvidia-driver-libs nvidia-driver-cuda nvidia-driver-cuda-libs nvidia-open nvidia-kmod-common "
    "kmod-nvidia-open-dkms kmod-nvidia-latest-dkms kmod-nvidia-dkms akmod-nvidia akmod-nvidia-open xorg-x11-drv-nvidia "
    "xorg-x11-drv-nvidia-libs xorg-x11-drv-nvidia-cuda xorg-x11-drv-nvidia-cuda-libs cuda-drivers nvidia-compute-G06 "
    "nvidia-open-driver-G06-signed-kmp-default nvidia-fabricmanager nvidia-fabric-manager"
)


def probe(host: "Host") -> "Answer":
    """Return the release of every part that is here; None if there is no part at all."""
    libcuda, libnvidia_ml = in_use(host, "libcuda.so"), in_use(host, "libnvidia-ml.so")
    facts: "Facts" = {
        "version": libnvidia_ml.get("release") or libcuda.get("release"),
        "libraries": [found["real"] for found in (libcuda, libnvidia_ml) if found],
        "libcuda": libcuda.get("release"),
        "libnvidia_ml": libnvidia_ml.get("release"),
        "module_loaded": module_loaded(host),
        "module_on_disk": module_on_disk(host),
        "packages": [*debs(host), *rpms(host), *pacman(host), *runfile(host)],
    }
    if not any(facts.values()):
        return None
    return dict(facts, firmware=firmware(host))


def in_use(host: "Host", name: str) -> "Facts":
    """Return the driver's own copy of a library that the loader finds first; empty if there is none."""
    found = host.shared("nvidia.py")["copies"](host, name)
    return next((dict(copy) for copy in found if copy["kind"] not in APART), {})


def module_loaded(host: "Host") -> "Optional[str]":
    """Return the release of the module in memory, or None."""
    nvidia = host.shared("nvidia.py")
    banner = host.read("/proc/driver/nvidia/version", 4096) or ""
    release: "Optional[str]" = nvidia["of_module"](host, "nvidia") or nvidia["in_banner"](banner)
    return release


def module_on_disk(host: "Host") -> "Optional[str]":
    """Return the release of the module that would be loaded for the running kernel, or None."""
    path = host.shared("nvidia.py")["on_disk"](host, "nvidia")
    output = host.shared("commands.py")["output"]
    return output(host, "modinfo", "-F", "version", path, seconds=SECONDS).strip() or None if path else None


def firmware(host: "Host") -> "List[str]":
    """Return the releases whose GPU firmware is on disk, in the kernel's own folders."""
    custom = (host.read("/sys/module/firmware_class/parameters/path", 4096) or "").strip()
    folders = [*([custom] if custom else []), "/lib/firmware/updates", "/lib/firmware"]
    names = [name for folder in folders for name in host.list(folder + "/nvidia")]
    return sorted({name for name in names if FIRMWARE.fullmatch(name)})


def debs(host: "Host") -> "List[Facts]":
    """Return the driver's packages that dpkg lists as installed, from its own list."""
    rows = []
    text = host.read(DPKG, MOST_STATUS) or ""
    if text and not ("Package: " in text and text.endswith("\n")):
        host.log.append(("read", DPKG, "not understood: it is no list of packages, or not a whole one"))
    for found in DEB.finditer(text):
        version = DEB_VERSION.search(found.group(2))
        if version and "\nStatus: install ok installed\n" in "\n" + found.group(2):
            rows.append({"kind": "deb", "name": found.group(1), "version": version.group(1)})
    return rows


def rpms(host: "Host") -> "List[Facts]":
    """Return the driver's packages that rpm knows."""
    if not any(host.exists(folder) for folder in ("/var/lib/rpm", "/usr/lib/sysimage/rpm")):
        return []
    asked = ("rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n", *RPMS.split())
    said = host.shared("commands.py")["output"](host, *asked, seconds=SECONDS)
    return [{"kind": "rpm", "name": name, "version": version} for name, version in RPM.findall(said)]


def pacman(host: "Host") -> "List[Facts]":
    """Return the driver's packages that pacman holds: its database is a folder for each."""
    found = [PACMAN.fullmatch(name) for name in host.list("/var/lib/pacman/local")]
    return [{"kind": "pacman", "name": match.group(1), "version": match.group(2)} for match in found if match]


def runfile(host: "Host") -> "List[Facts]":
    """Return NVIDIA's own installer where it left its uninstaller; it is no package, and packages clash with it."""
    there = host.exists("/usr/bin/nvidia-uninstall")
    return [{"kind": "runfile", "name": "nvidia-installer", "version": None}] if there else []
