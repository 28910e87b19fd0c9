"""The image of a root file system: its Pythons, its files, and the libcuda that it would load.

The loader finds an image's own copy through a variable or ld.so.conf. NVIDIA's container toolkit puts the copy in
/usr/local/cuda/compat first in the loader's list if its branch is newer than the driver's. Source:
NVIDIA/nvidia-container-toolkit, cmd/nvidia-cdi-hook/cudacompat/cudacompat.go (015cc2f), read 2026-11-21.

The kernel and the driver are probed on this machine. Everything above them, and the Pythons, is searched for below the
image's root by our own Python. A libcuda that the image contains for forward compatibility replaces the driver's, as it
would in a running container.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack.collect import catalogue, isolation, probing, targets
from gpustack.collect.probe_results import parse
from gpustack.collect.subprocesses import Door
from gpustack.collect.targets import MOST, sort_out
from gpustack.collect.workers import Task, ask
from gpustack.errors import UsageError
from gpustack.model.facts import Component, Environment, Facts, Instance, JsonValue, Layer, Status, Unseen
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from gpustack.collect.catalogue import System

ELSEWHERE, TOOLKIT = "known folder", "the container toolkit"
ASKED = ("cu_init", "cu_init_name", "driver_cuda", "kind")  # what the machine's own copy reported
REPORT_SECONDS, LEAST_SECONDS = 1.0, 0.5
ROOTS = ("usr", "lib", "bin")
BELOW = frozenset({Layer.HARDWARE, Layer.KERNEL, Layer.KERNEL_MODULE, Layer.DRIVER})
RUNNING = frozenset({"limits"})  # what only a running container has
USUAL = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
PLACES = {"image": "about", "image-libcuda": "libcuda", "image-pythons": "pythons"}
NAMELESS = "its files do not say which Python version it is"
UNTOLD = Unseen(
    what="the image's variables (PATH, LD_LIBRARY_PATH, NVIDIA_REQUIRE_CUDA)",
    why="they are in its configuration, not in its files",
    enable_by="--container-env KEY=VALUE, from docker inspect",
)


def taken_over(components: Sequence[Component], brought: Mapping[str, JsonValue]) -> tuple[Component, ...]:
    """Return the components with libcuda as the image's programs load it; ``brought`` are the copies it contains."""
    release = next((DriverRelease.parse(one.version) for one in components if one.id == "nvidia-driver"), None)
    folder, stubs = brought.get("compat_folder"), brought.get("stub_on_path")
    found = [copy for copy in _list(brought.get("copies")) if isinstance(copy, Mapping)]
    copies = tuple(sorted((_placed(copy, folder, release) for copy in found), key=_late))
    return tuple(_changed(one, copies, stubs) if one.id == "libcuda" else one for one in components)


def _changed(libcuda: Component, copies: Sequence[Mapping[str, JsonValue]], stubs: JsonValue) -> Component:
    if not libcuda.instances:
        return libcuda
    first, *others = (_seen(one, copies, stubs) for one in libcuda.instances)
    return replace(
        libcuda,
        instances=(first, *others),
        status=first.status,
        version=first.version,
        path=first.path,
        facts=first.facts,
    )


def _placed(copy: Mapping[str, JsonValue], folder: JsonValue, driver: DriverRelease | None) -> Mapping[str, JsonValue]:
    """Return a copy in the image with the way in which programs would find it."""
    real, release, note = copy.get("real"), copy.get("release"), copy.get("note")
    own = DriverRelease.parse(release) if isinstance(release, str) else None
    branches = _list(note.get("drivers")) if isinstance(note, Mapping) else ()
    there = isinstance(real, str) and real.rpartition("/")[0] == folder and copy.get("found_by") == ELSEWHERE
    newer = own is not None and driver is not None and own.branch > driver.branch
    fits = not branches or (driver is not None and driver.branch in branches)
    return {**copy, "kind": "compat", "found_by": TOOLKIT} if there and newer and fits else copy


def _late(copy: Mapping[str, JsonValue]) -> int:
    """Return a copy's position: LD_LIBRARY_PATH, what the toolkit puts first in the loader's list, then that list."""
    order = ("LD_LIBRARY_PATH", TOOLKIT)
    by = copy.get("found_by")
    return order.index(by) if by in order else len(order) + (by == ELSEWHERE)


def _seen(machine: Instance, copies: Sequence[Mapping[str, JsonValue]], stubs: JsonValue) -> Instance:
    """Return the machine's libcuda among the image's copies; its results stay valid if no other comes first."""
    facts = {**machine.facts, "copies": (*copies, *_list(machine.facts.get("copies")))}
    if isinstance(stubs, Mapping):
        facts["stub_on_path"] = stubs
    first = copies[0] if copies else {}
    if first.get("kind") not in {"compat", "stub"} or first.get("found_by") == ELSEWHERE:
        return replace(machine, facts=facts)
    unanswered = {name: value for name, value in facts.items() if name not in ASKED}
    return replace(machine, version=None, path=None, status=Status.PRESENT, facts=unanswered)


def _list(value: JsonValue) -> tuple[JsonValue, ...]:
    return value if isinstance(value, tuple) else ()


def look(folder: Path, variables: Sequence[str], *, timeout: float = 10.0, door: Door | None = None) -> Facts:
    """Return the facts of an image on this machine; raises UsageError for a folder that is not a file system root."""
    root = _root(folder)
    door = door or Door()
    begun = door.now()
    deadline = begun + max(LEAST_SECONDS, timeout - REPORT_SECONDS)
    told = {**USUAL, **_told(variables)}
    first, denied = parse(tuple(ask([_task(root, told, [_system(name) for name in PLACES])], door, deadline)))
    about, libcuda, pythons = first
    said = {copy.path or "": copy.facts.get("interpreter") for copy in pythons.instances}
    interpreters = {python: value for python, value in said.items() if isinstance(value, Mapping)}
    environments, not_seen = sort_out(pythons.instances)
    not_seen += [Unseen(what=one.python, why=NAMELESS) for one in environments if one.python not in interpreters]
    able = [one for one in environments if one.python in interpreters][:MOST]
    kept = tuple(replace(one, found=number > 0) for number, one in enumerate(able))
    machine = about.facts.get("machine")
    tasks = [*_here(), *_inside(root, told, {"machine": machine or os.uname().machine}, kept, interpreters)]
    components, unseen = parse(tuple(ask(tasks, door, deadline)), beside={one.python for one in kept[1:]})
    image = _image(about, libcuda, root)
    joined = taken_over(components, libcuda.facts)
    return Facts(
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        host=replace(catalogue.describe(joined), container=root.name or str(root), os=_text(image, "os")),
        components=(*joined, image),
        environments=catalogue.versions(kept, joined),
        not_seen=(*(() if variables else (UNTOLD,)), *not_seen, *dict.fromkeys((*denied, *unseen))),
        seconds=round(door.now() - begun, 3),
    )


def _root(folder: Path) -> Path:
    """Return the absolute folder if it looks like the root of a file system."""
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise UsageError(f"--container {folder}: {error.strerror}") from error
    if not names & set(ROOTS):
        raise UsageError(f"--container {folder}: it is not the root of a file system (it has no usr, lib or bin)")
    return folder.resolve()


def _image(about: Component, libcuda: Component, root: Path) -> Component:
    """Return what is known about the image itself, with the copies of libcuda that it contains."""
    facts = {**about.facts, "libcuda": libcuda.facts}
    instances = tuple(replace(one, path=str(root), facts=facts) for one in about.instances)
    return replace(about, path=str(root), facts=facts, instances=instances)


def _told(variables: Sequence[str]) -> dict[str, str]:
    """Return the variables by name; raises UsageError for one without a name or an equals sign."""
    for one in variables:
        if "=" not in one or one.startswith("=") or "\0" in one:
            raise UsageError(f"--container-env {one}: KEY=VALUE is expected")
    return {name: value for name, _, value in (one.partition("=") for one in variables)}


def _system(name: str) -> System:
    asked = catalogue.question(name, 5.0, probe="image.py", place=PLACES[name])
    return replace(asked, layer=Layer.CONTAINER)


def _here() -> list[Task]:
    """Return the children that examine this machine: everything below a container."""
    systems = [one for one in catalogue.load() if one.here and _under(one)]
    environ, path = targets.environment_of(os.environ), tuple(isolation.path())
    return [
        Task(argv=targets.OURS, environ=environ, systems=group, path=path) for group in probing.groups(systems, "here")
    ]


def _inside(
    root: Path,
    told: Mapping[str, str],
    bare: Mapping[str, Any],
    environments: Sequence[Environment],
    interpreters: Mapping[str, Mapping[str, Any]],
) -> list[Task]:
    """Return the children that read the image: one for its system, and one for each of its Pythons."""
    above = [one for one in catalogue.load() if not _under(one) and one.id not in RUNNING]
    tasks = [_task(root, told, [one for one in above if one.here and one.layer is not Layer.APPLICATION], bare)]
    tasks += [
        _task(root, told, [system for system in above if system.target], interpreters[one.python], one.python)
        for one in environments
    ]
    return [task for task in tasks if task.systems]


def _task(
    root: Path,
    told: Mapping[str, str],
    systems: Sequence[System],
    interpreter: Mapping[str, Any] | None = None,
    environment: str | None = None,
) -> Task:
    more = {"root": str(root), "image": {"environ": dict(told), "interpreter": interpreter and dict(interpreter)}}
    environ = targets.environment_of(os.environ)
    return Task(argv=targets.OURS, environ=environ, systems=tuple(systems), environment=environment, more=more)


def _under(system: System) -> bool:
    """Return whether a system belongs to the machine below the container, including its container runtime."""
    return system.layer in BELOW or (system.layer is Layer.CONTAINER and system.id not in RUNNING)


def _text(component: Component, name: str) -> str | None:
    value = component.facts.get(name)
    return value if isinstance(value, str) and component.status is Status.PRESENT else None
