"""Who uses the GPUs: which of the driver's device nodes this user may open, and the processes on the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpustack.diagnose.machine.values import at, copies, flag, items, number, table, text, texts, told
from gpustack.model.command import CONTAINER, NAME, NUMBER, PID, UNIT, Command, sh, step
from gpustack.model.facts import Facts, Instance, JsonValue, Status, once

MODULES = ("nvidia.ko", "nvidia-uvm.ko")
TOOLS = "-tools"
CONTROL, OF_GPU = "/dev/nvidiactl", re.compile(r"/dev/nvidia\d+")
ALL = 0o006  # everybody may read and write
NONE = "NoDevFiles"  # what a scheduler sets for a job without a GPU


def refused(facts: Facts) -> Iterator[tuple[str, bool]]:
    """Return each node that cannot be opened, and whether its mode is the reason, without tools' own nodes."""
    for module in MODULES:
        for node in items(told(facts, module), "nodes"):
            path, opened = text(node, "path"), text(node, "open")
            if not path or path.endswith(TOOLS) or not flag(node, "exists"):
                continue
            shut = flag(node, "readable") is False or flag(node, "writable") is False
            if shut or opened not in {None, "ok"}:
                yield path, shut and not _for_all(node)


def for_others(facts: Facts) -> tuple[str, ...]:
    """Return the nodes of a group, as a listing shows them, that this user is not known to be in."""
    nodes = [node for module in MODULES for node in items(told(facts, module), "nodes") if text(node, "group")]
    held = texts(told(facts, "user"), "groups")
    shut = (node for node in nodes if not _for_all(node) and text(node, "group") not in held)
    return () if "root" in held else tuple(path for node in shut if (path := text(node, "path")))


@once
def withheld(facts: Facts) -> bool:
    """Return whether a scheduler gave this process no GPU: the driver counts none, and their nodes are closed.

    Rules about devices, as control groups have them, refuse whatever the mode is; the driver's own node stays open.
    """
    if number(told(facts, "nvml"), "gpu_count") != 0:
        return False
    shut = {path for path, by_mode in refused(facts) if not by_mode}
    held = (text(node, "path") or "" for node in items(told(facts, MODULES[0]), "nodes") if flag(node, "exists"))
    own = {path for path in held if OF_GPU.fullmatch(path)}
    return at(told(facts, "libcuda"), "visible") == NONE or (bool(own) and own <= shut and CONTROL not in shut)


@once
def left_out(facts: Facts) -> bool:
    """Return whether this container was started without the driver's nodes, and nothing in it finds a GPU."""
    module = told(facts, MODULES[0])
    held = any(flag(node, "exists") for node in items(module, "nodes"))
    found = number(told(facts, "nvml"), "gpu_count") or items(told(facts, "libcuda"), "devices")
    return bool(facts.host.container) and "nodes" in module and not (held or found)


def _for_all(node: JsonValue) -> bool:
    """Return whether the mode allows everybody, so that something else denies access."""
    mode = text(node, "mode") or ""
    return bool(re.fullmatch(r"0o[0-7]{1,6}", mode)) and int(mode, 8) & ALL == ALL


PROCESSES = "gpu-processes"
MOST_NAMED = 4


def processes(facts: Facts) -> tuple[Instance, ...]:
    """Return the processes found on GPUs."""
    return tuple(copy for copy in copies(facts, PROCESSES) if copy.status is Status.PRESENT)


def pid(copy: Instance) -> int:
    """Return the number of a process; 0 if unknown."""
    return number(copy.facts, "pid") or 0


def named(copy: Instance) -> str:
    """Return a process as people name it: python train.py (pid 123, training script)."""
    called = text(copy.facts, "command") or text(copy.facts, "name") or "a process"
    kind = text(copy.facts, "application")
    return f"{called} (pid {pid(copy)}{f', {kind}' if kind else ''})"


def listed(found: Iterable[Instance]) -> str:
    """Return the first of the processes by name, and how many more there are."""
    names = [named(copy) for copy in found]
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def restart(copy: Instance) -> Command:
    """Return the command that restarts a process through what manages it, or else ends it."""
    held, unit, job = table(copy.facts, "container"), text(copy.facts, "unit"), text(copy.facts, "slurm_job")
    engine, name = text(held, "engine"), text(held, "id")
    if engine in {"docker", "podman"} and name:
        return sh("{engine} restart {name}", engine=NAME(engine), name=CONTAINER(name))
    if engine == "kubernetes":
        return step("delete the pod that holds container {name}; its controller restarts it", name=CONTAINER(name))
    if job and job.isdecimal():
        return sh("scontrol requeue {job}", job=NUMBER(job))
    return sh("sudo systemctl restart {unit}", unit=UNIT(unit)) if unit else sh("kill {pid}", pid=PID(pid(copy)))


def releases(copy: Instance) -> tuple[str, ...]:
    """Return the driver releases of the mapped libraries whose files are gone."""
    gone = copy.facts.get("gone")
    rows = gone if isinstance(gone, tuple) else ()
    return tuple(dict.fromkeys(said for said in (text(row, "release") for row in rows) if said))
