"""Systems that people name in words: "Ubuntu 22.04 in WSL2", "windows 11", a Jetson, the prompt of a container."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.imports import platforms

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpustack.imports.gathered import Gathered

SYSTEM = re.compile(
    r"(?<![\w./-])(?:Microsoft )?(?P<name>Ubuntu|Debian|CentOS(?: Linux| Stream)?|RHEL|Red Hat Enterprise Linux|Fedora"
    r"|Rocky(?: Linux)?|Alma ?Linux|Oracle Linux|Amazon Linux|Arch Linux|Manjaro|EndeavourOS|CachyOS|Gentoo|NixOS"
    r"|openSUSE(?: Leap| Tumbleweed)?|SLES|Pop!?[_ ]?OS!?|Linux Mint|Kali(?: Linux)?|Proxmox(?: VE)?|TrueNAS(?: SCALE)?"
    r"|Unraid|Windows|windows(?= ?(?:7|8|10|11)\b)|ubuntu(?= ?\d\d\.\d\d)|(?:centos|debian|fedora)(?= ?\d)"
    r"|[Ww]in ?(?=(?:7|8|10|11)\b)|macOS)(?:\b|(?<=[Ww]in))"
    r"(?: GNU/Linux| Linux| Server| Desktop| Workstation)?(?: release| version)?[: ]*"
    r"(?P<version>\d+(?:\.\d+)*)?"
)
WSL = re.compile(r"(?<![\w./-])(?:WSL|Wsl|wsl)[ -]?[12]?\b(?!/|\.exe)")
COMPILER = re.compile(r"#\d+ |\b(?:gcc|g\+\+|GCC|clang|ldd|GLIBC)\b")


# What is done in a system is done here, where it is not said that it works there.
INSIDE = re.compile(
    r"(?<!works)(?<!worked)(?<!fine)(?<!runs)(?<!tested)(?<!same)(?<!like) in (?:the |my |a )?$", re.IGNORECASE
)


def read(origin: str, line: str, into: Gathered, here: Callable[[str], bool]) -> None:
    """Take in the systems that a line names; ``here`` tells from the words before one whether it is this machine's."""
    wsl = WSL.search(line)
    found = [one for one in SYSTEM.finditer(line) if not COMPILER.search(line) and _named(line[: one.start()], here)]
    inside = [one for one in found if not one["name"].lower().startswith("win")] if wsl else []
    for one in (inside or found)[:1]:
        said = f"{one['name'].strip()} {one['version'] or ''}".strip()
        platforms.system(f"{origin} (in words)", said, into)
    if wsl:
        into.machine(wsl="yes")
    if re.search(r"\b(?:Jetson|tegra|nvgpu|JetPack|L4T)\b", line, re.IGNORECASE):
        into.tell("gpu", f"{origin} (in words)", "0", embedded=True)
    if re.match(r"\(container\)|[a-z_][\w-]*@[0-9a-f]{12}\b|\$ docker exec", line):
        into.machine(container="docker")


def _named(before: str, here: Callable[[str], bool]) -> bool:
    return here(before) or bool(INSIDE.search(f" {before}"[-40:]))
