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
    r"|Unraid|Windows|windows(?= ?(?:7|8|10|11)\b)|ubuntu(?= ?\d\d\.\d\d|\d\d04\b)|(?:centos|debian|fedora)(?= ?\d)"
    r"|[Ww]in ?(?=(?:7|8|10|11)\b)|macOS)(?:\b|(?<=[Ww]in)|(?=\d\d04\b))"
    r"(?: GNU/Linux| Linux| Server| Desktop| Workstation)?(?: release| version)?[: ]*"
    r"(?P<version>\d+(?:\.\d+)*)?"
)
WSL = re.compile(r"(?<![\w./-])(?:WSL|Wsl|wsl)[ -]?[12]?\b(?!/|\.exe)")
JETSON = re.compile(r"\b(?:Jetson|tegra|nvgpu|JetPack|L4T)\b", re.IGNORECASE)
COMPILER = re.compile(r"#\d+ |\b(?:cc|gcc|g\+\+|GCC|clang|ldd|GLIBC)\b")


# What is done in a system is done here, where it is not said that it works there.
INSIDE = re.compile(
    r"(?<!works)(?<!worked)(?<!fine)(?<!runs)(?<!tested)(?<!same)(?<!like) in (?:the |my |a )?$", re.IGNORECASE
)

# What this machine is said not to be, and where the same was tried.
AWAY = re.compile(
    r"(?:\b(?:not|no|non|never|neither|nor|without|isn.t|aren.t|wasn.t|instead of|than)(?: \w+){0,2}"
    r"|\b(?:works?|worked|runs|ran|fine|same|tested|tried)(?: \w+){0,3} (?:on|in|with)(?: \w+){0,1}) ?\(?$",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"(?:\w{1,40}(?: \w{1,40})?|(?: \w{1,40}){1,2})? (?:is|was|were|are) not\b"
    r"|(?:\w{1,40}(?: \w{1,40}){0,2}|(?: \w{1,40}){1,3})? ?\?|[\"'`]?\s*[:=]\s*(?:false|no|0|null|none)\b",
    re.IGNORECASE,
)


def read(origin: str, line: str, into: Gathered, here: Callable[[str], bool]) -> None:
    """Take in the systems that a line names; ``here`` tells from the words before one whether it is this machine's."""
    wsl = WSL.search(line)
    found = [one for one in SYSTEM.finditer(line) if not COMPILER.search(line) and _named(line[: one.start()], here)]
    inside = [one for one in found if not one["name"].lower().startswith("win")] if wsl else []
    for one in (inside or found)[:1]:
        said = f"{one['name'].strip()} {one['version'] or ''}".strip()
        platforms.system(f"{origin} (in words)", said, into)
    if wsl and _is_this(line, wsl, here):
        into.machine(wsl="yes")
    jetson = JETSON.search(line)
    if jetson and _is_this(line, jetson, here):
        into.tell("gpu", f"{origin} (in words)", "0", embedded=True)
    if re.match(r"\(container\)|[a-z_][\w-]*@[0-9a-f]{12}\b|\$ docker exec", line):
        into.machine(container="docker")


def _is_this(line: str, found: re.Match[str], here: Callable[[str], bool]) -> bool:
    """Tell whether a line says of this machine that it is what was found."""
    before = line[: found.start()]
    return _named(before, here) and not AWAY.search(before[-60:]) and not DENIED.match(line, found.end())


def _named(before: str, here: Callable[[str], bool]) -> bool:
    return here(before) or bool(INSIDE.search(f" {before}"[-40:]))
