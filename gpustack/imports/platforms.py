"""What texts say of the machine itself: its system, kernel, C library, and the GPUs by their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.imports.gathered import Gathered

PLATFORM = re.compile(
    r"(?P<system>Linux|Windows|macOS|Darwin)-(?P<release>[\w.+~]{1,80}(?:-[\w.+~]{1,80}){0,12}?)(?:-(?P<machine>x86_64"
    r"|aarch64|arm64|ppc64le|AMD64|SP\d))?"
    r"(?:-with-(?P<libc>glibc|musl|debian|Ubuntu|centos|redhat)[-]?(?P<libc_version>[\d.]{1,20})?(?:[^\s\d.]\S*)?)?$"
)
NAMES = (
    *(
        ("ubuntu", "ubuntu"),
        ("debian", "debian"),
        ("linux ?mint", "linuxmint"),
        ("pop!?[ _]?os", "pop"),
        ("fedora", "fedora"),
    ),
    *(("centos", "centos"), ("red hat", "rhel"), ("rhel", "rhel"), ("rocky", "rocky"), ("alma ?linux", "almalinux")),
    *(
        ("oracle linux", "ol"),
        ("amazon linux", "amzn"),
        ("arch linux", "arch"),
        ("manjaro", "manjaro"),
        ("kali", "kali"),
    ),
    *(("endeavouros", "endeavouros"), ("cachyos", "cachyos"), ("opensuse leap", "opensuse-leap"), ("gentoo", "gentoo")),
    *(
        ("opensuse tumbleweed", "opensuse-tumbleweed"),
        ("opensuse", "opensuse"),
        ("sles|suse", "sles"),
        ("nixos", "nixos"),
    ),
    *(("tencentos", "tencentos"), ("proxmox", "debian"), ("truenas", "debian")),
)


def named(said: str) -> bool:
    """Tell whether a text names an operating system that we know."""
    return (
        bool(re.search(r"windows|macos|darwin|\bwin[ _-]?(?:7|8|10|11)\b", said, re.IGNORECASE))
        or _id(said) is not None
    )


def _id(said: str) -> str | None:
    low = said.lower()
    return next((known for words, known in NAMES if re.search(rf"\b(?:{words})(?![a-z])", low)), None)


def system(origin: str, said: str, into: Gathered) -> None:
    """Take in the name of an operating system, such as "Ubuntu 22.04.4 LTS (x86_64)"."""
    if not said:
        return
    plain = re.sub(r" \((?:x86_64|aarch64|arm64|AMD64|64-bit)\)", "", said.partition(";")[0])[:120]
    plain = re.sub(r"^(?:GNU/)?Linux (?=[A-Z])", "", plain)
    plain = re.sub(r"^([Uu]buntu) ?(\d\d)(04|10)$", r"\1 \2.\3", plain)  # as NVIDIA's repositories are called
    plain = re.sub(r"^(?:Microsoft )?[Ww]in(?:dows)?[ _-]?(?=1[01]\b|[78]\b)", "Windows ", plain)
    if into.host.get("os") == "Windows" and "windows" in plain.lower():
        into.host["os"] = plain
    into.machine(os=plain)
    machine = re.search(r"\b(x86_64|aarch64|arm64)\b", said)
    into.machine(machine=machine[1] if machine else None)
    name = _id(said)
    number = re.search(r"\d+(?:\.\d+)?", said)
    if name:
        into.tell("linux-kernel", origin, os_id=name, os=said, os_version=number[0] if number else None)


def kernel(origin: str, release: str, into: Gathered) -> None:
    """Take in the release of the running kernel."""
    into.machine(kernel=release, wsl="yes" if "microsoft" in release.lower() else None)
    into.tell("linux-kernel", origin, version=release)


def platform(origin: str, said: str, into: Gathered) -> None:
    """Take in a platform as Python writes it: Linux-6.8.0-40-generic-x86_64-with-glibc2.35."""
    match = PLATFORM.match(said.strip())
    if not match:
        return
    into.machine(machine=match["machine"] if match["machine"] not in {"SP0", "SP1"} else None)
    if match["system"] == "Linux":
        kernel(origin, match["release"], into)
    else:
        release = match["release"] if match["system"] != "Windows" else match["release"].partition("-")[0]
        into.machine(os=f"{'macOS' if match['system'] != 'Windows' else 'Windows'} {release}")
    if match["libc"] == "glibc" and match["libc_version"]:
        into.tell("python", origin, glibc=match["libc_version"])


def libc(origin: str, said: str, into: Gathered) -> None:
    """Take in the C library, such as glibc-2.35."""
    match = re.match(r"glibc[- ]?(\d+\.\d+)", said)
    if match:
        into.tell("python", origin, glibc=match[1])


def gpu(origin: str, said: str, into: Gathered, key: str, uuid: str | None = None) -> None:
    """Take in a GPU by the name that a driver or a person gives it."""
    name = re.sub(r"\((?:UUID|id)[^()]{0,80}\)$", "", said.rstrip()).rstrip().strip(" .|")
    made = maker(name)
    if made == "nvidia":
        into.tell("gpu", origin, key, name=name, uuid=uuid, index=int(key) if key.isdecimal() else None)
    else:
        into.tell(f"{made}-gpu", origin, key, name=name)


def maker(name: str) -> str:
    """Give the maker of a GPU by its name: amd, intel, or nvidia where neither is named."""
    low = name.lower()
    if re.search(r"\bamd\b|radeon|instinct|\bmi\d{2,3}\b|\brx ?\d{3,4}\b|firepro|\bgfx\d", low):
        return "amd"
    if re.search(r"\bintel\b|\barc\b|\biris\b|\buhd graphics\b|data center gpu (?:max|flex)", low):
        return "intel"
    return "nvidia"


def pci(said: str) -> str:
    """Give a PCI address as the kernel writes it: 0000:01:00.0."""
    low = said.lower()
    domain, _, rest = low.partition(":")
    if low.count(":") == 1:
        return f"0000:{low}"
    return f"{domain[-4:]}:{rest}" if rest.count(":") == 1 else low


def uuid(said: str | None) -> str | None:
    """Give the UUID of a GPU, or None for anything else, such as one that somebody took out."""
    return said if said and re.match(r"(?:GPU|MIG)-(?:GPU-)?[0-9a-fA-F]{8}-", said) else None
