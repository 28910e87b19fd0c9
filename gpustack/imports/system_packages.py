"""Packages as the distribution's own managers list them: dpkg, apt, rpm, dnf, pacman."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from gpustack.imports.gathered import HERE, Gathered
from gpustack.matrix.subjects.ranges import numbers

MOST = 5000
DEB = re.compile(
    r"^(?:ii|iU|iF|iH|hi)[ \t]+(?P<name>[a-z0-9][\w.+-]*)(?::\w+)?[ \t]+(?P<version>\d[\w.+:~-]*)", re.MULTILINE
)
APT = re.compile(
    r"^(?P<name>[a-z0-9][\w.+-]{1,60})/(?:[\w,.-]+,now[\w,.-]* (?P<version>\d[\w.+:~-]*)|[\w,.-]+ "
    r"(?P<version2>\d[\w.+:~-]*)"
    r" \w+ \[installed)",
    re.MULTILINE,
)
POLICY = re.compile(r"^(?P<name>[a-z0-9][\w.+-]{1,60}):\n[ \t]*Installed: (?P<version>\d[\w.+:~-]*)$", re.MULTILINE)
PACMAN = re.compile(
    r"^(?:local/)?(?P<name>(?:lib32-|opencl-)?(?:nvidia|cuda|cudnn|nccl|rocm|hip|linux|python-pytorch|intel-compute-runtime)"
    r"[\w+-]{0,40}) (?P<version>(?:\d:)?\d[\w.+~]{0,40}-\d{1,3}(?:\.\d{1,2})?)$",
    re.MULTILINE,
)
# A name and a release alone, as "dpkg -l | awk" prints them.
COLUMNS = re.compile(
    r"^(?P<name>(?:lib)?nvidia-[a-z][\w.+-]{1,50})(?::\w+)?[ \t]+(?P<version>\d{3}\.\d{2,3}[\w.+:~-]{0,40})[ \t]*$",
    re.MULTILINE,
)
DNF = re.compile(
    r"^(?P<name>[a-zA-Z][\w+-]{1,60})\.(?:x86_64|aarch64|noarch|i686)[ \t]+(?P<version>"
    r"(?:\d:)?\d[\w.+~^]{0,40})-[\w.+~^]{1,40}[ \t]+"
    r"@?\S{1,80}[ \t]*$",
    re.MULTILINE,
)
# dpkg's output during an installation.
UNPACKED = re.compile(
    r"^(?:Setting up|Unpacking) (?P<name>[a-z0-9][\w.+-]{1,60})(?::\w+)? \((?P<version>\d[\w.+:~-]{0,50})\)",
    re.MULTILINE,
)
LOGGED = re.compile(  # /var/log/apt/history.log
    r"(?<=[ ,])(?P<name>[a-z0-9][\w.+-]{1,60}):(?:amd64|arm64) \((?P<version>\d[\w.+:~-]{0,50})(?:, automatic)?\)"
)
INSTALLED = re.compile(r"^(?P<name>[a-z][\w+-]{1,50}) (?P<version>\d[\w.+:~-]{1,50}) \(installed\)", re.MULTILINE)
RPM = re.compile(
    r"^(?P<name>(?:[a-z]*-)?(?:nvidia|cuda|xorg-x11-drv-nvidia|kmod-nvidia|akmod-nvidia|dkms-nvidia"
    r"|kernel-devel|rocm|libcudnn)[\w+-]*?)-(?:\d:)?(?P<version>\d{1,4}\.[\d.]+)(?:-[\w.~+]+)?[ \t]*$",
    re.MULTILINE,
)
DRIVER = re.compile(
    r"^(?:nvidia-(?:driver|utils|smi|kernel-(?:common|source|dkms|open)|dkms|compute-utils|open|headless)"
    r"|libnvidia-(?:compute|gl|ml)|cuda-drivers|nvidia$|nvidia-driver-cuda|xorg-x11-drv-nvidia|kmod-nvidia"
    r"|akmod-nvidia|xserver-xorg-video-nvid)"
)


TOOLKIT = re.compile(r"(?:nvidia-)?cuda-toolkit(?:-\d+(?:-\d+)?)?|cuda")  # as NVIDIA, Debian and Arch name it
# Kernels and their headers, several of which may be installed: by dnf and rpm, and by dpkg.
KERNELS = re.compile(
    r"^kernel(?:-lt|-ml|-uek)?(?:-core)?(?:\.\w+[ \t]+|-)"
    r"(?P<rpm>\d[\w.]+-[\w.]+?)(?:\.(?:x86_64|aarch64))?(?:[ \t]+@?\S+)?[ \t]*$"
    r"|^(?:ii[ \t]+)?linux-image-(?:unsigned-)?(?P<deb>\d[\w.-]+)(?:[ \t]|$)",
    re.MULTILINE,
)
OF_KERNELS = re.compile(
    r"^kernel(?:-lt|-ml|-uek)?-devel(?:\.\w+[ \t]+|-)"
    r"(?P<rpm>\d[\w.]+-[\w.]+?)(?:\.(?:x86_64|aarch64))?(?:[ \t]+@?\S+)?[ \t]*$"
    r"|^(?:ii[ \t]+)?(?:linux|proxmox|pve)-headers-(?P<deb>\d[\w.-]+)(?:[ \t]|$)",
    re.MULTILINE,
)


def read(origin: str, text: str, into: Gathered) -> None:
    """Read the distribution's packages in this text."""
    for name, pattern in (("kernels", KERNELS), ("kernel_headers", OF_KERNELS)):
        found = tuple(dict.fromkeys(one["rpm"] or one["deb"] for one in islice(pattern.finditer(text), MOST)))
        if found:
            into.tell("system-packages", origin, also={name: found})
    for name, version in _system(text):
        _package(origin, name, version, into)


def _system(text: str) -> Iterator[tuple[str, str]]:
    for pattern in (DEB, APT, POLICY, UNPACKED, LOGGED, INSTALLED, RPM, PACMAN, COLUMNS, DNF):
        for match in islice(pattern.finditer(text), MOST):
            yield match["name"], match["version"] or match["version2"]


def _package(origin: str, name: str, version: str, into: Gathered) -> None:
    """Read one of the distribution's packages: those of the driver give the release of its libraries."""
    plain = re.sub(r"^\d+:", "", version)
    into.tell("system-packages", origin)
    held = into.copies["system-packages"][HERE].facts
    known = held.get("packages")
    held["packages"] = {**(known if isinstance(known, dict) else {}), name: plain}
    release = re.match(r"\d{3}\.\d+(?:\.\d+)?", plain)
    if DRIVER.match(name) and release:
        known = into.fact("nvidia-driver", "package_version")
        into.tell("nvidia-driver", origin)
        if not isinstance(known, str) or numbers(known) < numbers(release[0]):  # of several the newest is in use
            into.copies["nvidia-driver"][HERE].facts.update(package=f"{name} {plain}", package_version=release[0])
    toolkit = re.match(r"\d{1,2}\.\d{1,2}", plain) if TOOLKIT.fullmatch(name) else None
    if toolkit:
        into.tell("cuda-toolkit", origin, f"package {name}", version=toolkit[0])
    kind = re.match(r"libcudnn(\d+)?", name)
    if kind:
        into.tell("cudnn", origin, f"package {name}", version=plain.partition("-")[0])
