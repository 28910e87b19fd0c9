"""What probes of kernel modules and their device nodes share: what keeps a module out, groups, this login's rights.

Standard library and Python 3.8 syntax; loaded by path through the host.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional

    from probes.host import Facts, Host

USUAL = ("render", "video")  # the groups that distributions give the nodes of GPUs
GROUP = re.compile(r"^([^:\n]+):[^:\n]*:(\d{1,10}):(.*)$", re.MULTILINE)
CONFIGURATION = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)


def forbidden(host: "Host", module: str) -> "List[str]":
    """Return the files that keep a module from being loaded, and the kernel's command line where that does.

    Of files of one name the first folder's alone counts: an empty one in /etc overrides the one of a package.
    """
    name = re.escape(module).replace("_", "[-_]")
    rule = re.compile(
        r"^[ \t]*(?:blacklist[ \t]+%s|install[ \t]+%s[ \t]+\S*/(?:false|true)\b.*|alias[ \t]+%s[ \t]+off)"
        r"[ \t]*(?:#.*)?$" % (name, name, name),
        re.MULTILINE,
    )
    files: "Dict[str, str]" = {}
    for path in (path for folder in CONFIGURATION for path in host.glob(folder + "/*.conf")):
        files.setdefault(path.rpartition("/")[2], path)
    seen = [path for path in files.values() if rule.search(host.read(path) or "")]
    words = [word.partition("=") for word in (host.read("/proc/cmdline") or "").split()]
    listed = [one for key, _, value in words if key.endswith("blacklist") for one in value.replace("-", "_").split(",")]
    return list(dict.fromkeys(map(host.real, seen))) + (["/proc/cmdline"] if module in listed else [])


def group_name(host: "Host", number: int) -> "Optional[str]":
    """Return a group's name on this system, or None if it has none."""
    found = re.search(r"^([^:\n]+):[^:\n]*:%d:" % number, host.read("/etc/group") or "", re.MULTILINE)
    return found.group(1) if found else None


def login(host: "Host", owners: "Iterable[str]") -> "Facts":
    """Return whether this process is root's, its groups by number, and which of the nodes' owners are among them.

    ``groups`` has those that this process really has, ``account_groups`` those that its account has on paper: one that
    was given after the login began is only in the second. Other groups are not reported.
    """
    status = host.read("/proc/self/status", 1 << 14) or ""
    user = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    lines = re.findall(r"^(?:Groups:|Gid:[ \t]+\d+)[ \t]+(\d[\d \t]*)$", status, re.MULTILINE)
    numbers = sorted({int(one) for line in lines for one in line.split()})
    mine = re.compile(r"^([^:\n]+):[^:\n]*:%s:" % (user.group(1) if user else "none"), re.MULTILINE)
    account = mine.search(host.read("/etc/passwd") or "")
    rows = GROUP.findall(host.read("/etc/group") or "")
    wanted = {*USUAL, *owners}
    return {
        "root": user.group(1) == "0" if user else None,
        "gids": numbers,
        "groups": [name for name, number, _ in rows if name in wanted and int(number) in numbers],
        "account_groups": [
            name for name, _, held in rows if name in wanted and account and account.group(1) in held.split(",")
        ],
    }
