"""The libcuda that programs in an image get: the machine's own, or one for forward compatibility that the image brings.

The loader finds an image's own copy where a variable or ld.so.conf leads to it. NVIDIA's container toolkit puts the one
in /usr/local/cuda/compat first into the loader's list where it is of a newer branch than the driver. Source:
NVIDIA/nvidia-container-toolkit, cmd/nvidia-cdi-hook/cudacompat/cudacompat.go (015cc2f), read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.model.facts import Status
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Instance, JsonValue

ELSEWHERE, TOOLKIT = "known folder", "the container toolkit"
ASKED = ("cu_init", "cu_init_name", "driver_cuda", "kind")  # what the machine's own copy answered


def taken_over(components: Sequence[Component], brought: Mapping[str, JsonValue]) -> tuple[Component, ...]:
    """Return the components with libcuda as programs of the image meet it; ``brought`` tells which copies it holds."""
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
    """Return a copy of the image with how programs would come to it."""
    real, release, note = copy.get("real"), copy.get("release"), copy.get("note")
    own = DriverRelease.parse(release) if isinstance(release, str) else None
    branches = _list(note.get("drivers")) if isinstance(note, Mapping) else ()
    there = isinstance(real, str) and real.rpartition("/")[0] == folder and copy.get("found_by") == ELSEWHERE
    newer = own is not None and driver is not None and own.branch > driver.branch
    fits = not branches or (driver is not None and driver.branch in branches)
    return {**copy, "kind": "compat", "found_by": TOOLKIT} if there and newer and fits else copy


def _late(copy: Mapping[str, JsonValue]) -> int:
    """Return the place of a copy: LD_LIBRARY_PATH, what the toolkit puts first into the loader's list, that list."""
    order = ("LD_LIBRARY_PATH", TOOLKIT)
    by = copy.get("found_by")
    return order.index(by) if by in order else len(order) + (by == ELSEWHERE)


def _seen(machine: Instance, copies: Sequence[Mapping[str, JsonValue]], stubs: JsonValue) -> Instance:
    """Return the machine's libcuda among the image's copies; what it answered holds where no other comes first."""
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
