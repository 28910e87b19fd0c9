"""A daemon of the driver: whether it is installed, which release it is, and whether it runs; with or without systemd.

The row names its ``program``, ``pid`` (the file that it writes its number to), ``socket``, ``unit`` (of systemd),
``packages`` (how names of packages begin that own it), ``settings`` (a file, and the names in it that are facts), and
with ``switches`` it is needed where NVSwitches are on the bus, with ``control`` (IMEX) where NVLink joins the GPUs of
a rack. What it prints when asked for its version is read only where no package says it:
"Fabric Manager version is : 450.102.04", "nvidia-persistenced:  version 535.129.03".
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

    from probes.host import Answer, Facts, Host

RELEASE = re.compile(r"(?<![\d.])(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.])")
DEVICES = "/sys/bus/pci/devices"
SWITCH = ("0x10de", "0x0680")
WANTED = "/etc/systemd/system/*.target.wants/"
SECONDS = 1.0
GPUS = "/proc/driver/nvidia/gpus"
RACKED = re.compile(r"\bGB[23]00\b")
CHANNELS = "/dev/nvidia-caps-imex-channels"
DOMAIN = re.compile(r"Domain State:\s{0,20}([A-Z]{2,20})")


def probe(host: "Host") -> "Answer":
    """Return the daemon; None if it is neither installed nor seen to run, unless this machine needs it."""
    row = host.row
    path, pid = host.path(row["program"]), running(host)
    socket = bool(row.get("socket")) and host.exists(row["socket"])
    needed = {"needed": True if switches(host) else None} if row.get("switches") else {}  # type: Facts
    if row.get("control"):
        needed = {"needed": racked(host), "channels": len(host.list(CHANNELS))}
    if path is None and pid is None and not socket:
        return dict(needed, key=row["program"], status="absent") if needed.get("needed") else None
    told, source, package = version(host, path)
    facts = {
        "key": row["program"],
        "path": path,
        "version": told,
        "version_from": source,
        "package": package,
        # A container may be given the socket of a daemon that runs outside of it.
        "running": True if pid is not None else None if socket or host.kept.get("hidden") else False,
        "pid": pid,
        "socket": row.get("socket") if socket else None,
        "enabled": bool(host.glob(WANTED + row["unit"])),
    }
    facts.update(needed, **settings(host))
    if row.get("control"):
        facts["domain"] = domain(host, row["control"]) if pid is not None else None
    return dict(facts, **process(host, pid)) if pid is not None else facts


def running(host: "Host") -> "Optional[int]":
    """Return the daemon's process number: from its own file if that is valid, else by its name."""
    processes, program = host.shared("processes.py"), host.row["program"]
    said = (host.read(host.row["pid"], 64) or "").strip()
    if re.fullmatch("[0-9]{1,9}", said) and processes["name"](host, int(said)) == program[: processes["LONGEST_NAME"]]:
        return int(said)
    found = processes["by_name"](host).get(program[: processes["LONGEST_NAME"]], ())
    return found[0] if found else None


def process(host: "Host", pid: int) -> "Facts":
    """Return the account that the daemon runs as, and whether its program was replaced since its start."""
    processes = host.shared("processes.py")
    program = host.link("/proc/%d/exe" % pid)
    return {
        "user": processes["user"](host, pid),
        "replaced": program.endswith(" (deleted)") if program else None,
    }


def version(host: "Host", path: "Optional[str]") -> "Tuple[Optional[str], Optional[str], Optional[str]]":
    """Return its release, how that is known, and its package."""
    if path is None:
        return None, None, None
    owners = host.shared("owners.py")["of_system"](host, host.real(path), host.row["packages"])
    package = owners[0]["name"] if owners else None
    found = RELEASE.search(owners[0]["version"] or "") if owners else None
    if found:
        return found.group(1), "package", package
    try:
        said = host.run(path, "--version", seconds=min(SECONDS, host.seconds)) or {"out": "", "err": ""}
    except OSError:  # TimeoutError is an OSError; the host has logged it
        return None, None, package
    found = RELEASE.search(said["out"] + said["err"])
    return (found.group(1), "program", package) if found else (None, None, package)


def switches(host: "Host") -> int:
    """Return how many NVSwitches are on the PCI bus."""
    kinds = [[(host.read("%s/%s/%s" % (DEVICES, name, file), 64) or "").strip() for file in ("vendor", "class")]
             for name in host.list(DEVICES)]  # fmt: skip
    return sum(vendor == SWITCH[0] and kind.startswith(SWITCH[1]) for vendor, kind in kinds)


def racked(host: "Host") -> "Optional[bool]":
    """Return whether a GPU is on a board of a rack that NVLink joins; None if none is or if that is unknown."""
    models = [host.read("%s/%s/information" % (GPUS, name), 4096) or "" for name in host.list(GPUS)]
    return True if any(RACKED.search(model) for model in models) else None


def domain(host: "Host", control: str) -> "Optional[str]":
    """Return the state of the IMEX domain from the daemon's own control program; None if it prints none."""
    try:
        said = host.run(control, "-N", seconds=min(SECONDS, host.seconds)) or {"out": ""}
    except OSError:  # TimeoutError is an OSError; the host has logged it
        return None
    found = DOMAIN.search(said["out"])
    return found.group(1) if found else None


def settings(host: "Host") -> "Facts":
    """Return what the daemon's file of settings says under the names in the row."""
    if "settings" not in host.row:
        return {}
    path, names = host.row["settings"]
    said = dict(re.findall(r"^([A-Z_]{3,60})=(\S{0,60})\s*$", host.read(path, 1 << 16) or "", re.MULTILINE))
    return {"settings": {name: said[name] for name in names if name in said}, "settings_file": os.path.basename(path)}
