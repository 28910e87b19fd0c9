"""The processes on the GPUs, in the terms of the rules: what each is called, and how it is ended or restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine.values import copies, number, table, text
from gpustack.model.command import CONTAINER, NAME, NUMBER, PID, UNIT, Command, sh, step
from gpustack.model.facts import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpustack.model.facts import Facts, Instance


PROCESSES = "gpu-processes"
MOST_NAMED = 4


def processes(facts: Facts) -> tuple[Instance, ...]:
    """Return the processes that were seen on GPUs."""
    return tuple(copy for copy in copies(facts, PROCESSES) if copy.status is Status.PRESENT)


def pid(copy: Instance) -> int:
    """Return the number of a process; 0 where nobody told it."""
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
    """Return the command that restarts a process by what it belongs to; at the last the one that ends it."""
    held, unit, job = table(copy.facts, "container"), text(copy.facts, "unit"), text(copy.facts, "slurm_job")
    engine, name = text(held, "engine"), text(held, "id")
    if engine in {"docker", "podman"} and name:
        return sh("{engine} restart {name}", engine=NAME(engine), name=CONTAINER(name))
    if engine == "kubernetes":
        return step("delete the pod that holds container {name}; its controller restarts it", name=CONTAINER(name))
    if job and job.isdecimal():
        return sh("scontrol requeue {job}", job=NUMBER(job))
    if unit:
        return sh("sudo systemctl restart {unit}", unit=UNIT(unit))
    return sh("kill {pid}", pid=PID(pid(copy)))


def releases(copy: Instance) -> tuple[str, ...]:
    """Return the driver releases of the mapped libraries whose files are gone."""
    gone = copy.facts.get("gone")
    rows = gone if isinstance(gone, tuple) else ()
    return tuple(dict.fromkeys(said for said in (text(row, "release") for row in rows) if said))
