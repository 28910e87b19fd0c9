"""Conclusions from known facts: a GPU's architecture from its name, a wheel's build from its version and platform.

Observed facts are never changed; additions state their basis (``cc_from``, ``build_from``, ``archs_from``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine import intel
from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.inventory import builds, driver_release, from_text
from gpustack.diagnose.machine.libraries import used
from gpustack.diagnose.machine.values import flag, items, number, table, text, texts, told
from gpustack.matrix.subjects import amd_intel, frameworks, gpus, torch
from gpustack.model import record, replace
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts, Instance, JsonValue


FABRIC = {"degraded_bandwidth": 0, "route_recovery": 2, "route_unhealthy": 4, "access_timeout": 6}  # bits of nvml.h
WRONG = "incorrect_configuration"  # four bits above those: 0 not supported, 1 none, then which
SLOWED = {
    0x08: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
BY_NAME = "its name"
LOADED = {"cudnn": "libcudnn", "nccl": "libnccl", "cublas": "libcublas"}  # libraries that frameworks load
BY_PLATFORM = "what a plain install takes on this platform"
BY_RELEASE = "the matrix row of this build"


def complete(facts: Facts, matrix: Matrix) -> Facts:
    """Return the facts with the conclusions from them and the matrix."""
    makers: Mapping[str, Callable[[Instance, Facts, Matrix], Instance]] = {
        "gpu": _gpu,
        "amd-gpu": _amd,
        "intel-gpu": intel.completed,
        "libcuda": _libcuda,
        "onnxruntime": _onnxruntime,
        "pytorch": _pytorch,
    }
    components = tuple(
        _each(one, makers[one.id], facts, matrix) if one.id in makers else _in_use(one, facts)
        for one in facts.components
    )
    return facts if components == facts.components else replace(facts, components=components)


def _in_use(component: Component, facts: Facts) -> Component:
    """Return a library with the copy first that the first framework loads, which may depend on a search path."""
    file = LOADED.get(component.id)
    if file is None or not component.instances[1:]:
        return component
    loaded = (one.copy for build in builds(facts) if (one := used(build, file, component.id, facts)))
    copy = next((one for one in loaded if one), None)
    if copy is None or copy is component.instances[0]:
        return component
    others = tuple(one for one in component.instances if one is not copy)
    return replace(component, version=copy.version, build=copy.build, path=copy.path, instances=(copy, *others))


def _each(
    component: Component, make: Callable[[Instance, Facts, Matrix], Instance], facts: Facts, matrix: Matrix
) -> Component:
    copies = tuple(make(copy, facts, matrix) for copy in component.instances)
    return component if copies == component.instances else replace(component, instances=copies)


def _gpu(copy: Instance, _facts: Facts, matrix: Matrix) -> Instance:
    copy = _masks(copy)
    name = text(copy.facts, "name")
    if not name or text(copy.facts, "cc"):
        return copy
    capability = gpus.capability_of(matrix, name)
    return _with(copy, cc=str(capability), cc_from=BY_NAME) if capability else copy


def _amd(copy: Instance, _facts: Facts, matrix: Matrix) -> Instance:
    name = text(copy.facts, "name")
    if not name or text(copy.facts, "gfx"):
        return copy
    target = amd_intel.gfx_of(matrix, name)
    return _with(copy, gfx=target.gfx, gfx_from=BY_NAME) if target else copy


def _masks(copy: Instance) -> Instance:
    """Return a GPU with the problems in its fabric and clock masks, if only the masks state them."""
    held, throttle = table(copy.facts, "fabric"), table(copy.facts, "throttle")
    health, clocks = number(held, "health_mask") or 0, number(throttle, "mask") or 0
    wrong: dict[str, JsonValue] = {matter: True for matter, shift in FABRIC.items() if health >> shift & 3 == 1}
    wrong |= {WRONG: code} if (code := health >> 8 & 15) and not number(held, "health", WRONG) else {}
    slow = tuple(name for bit, name in SLOWED.items() if clocks & bit and name not in texts(throttle, "reasons"))
    more: dict[str, JsonValue] = {}
    if wrong:
        more["fabric"] = {**held, "health": {**table(held, "health"), **wrong}}
    if slow:
        more["throttle"] = {**throttle, "reasons": (*texts(throttle, "reasons"), *slow)}
    return replace(copy, facts={**copy.facts, **more}) if more else copy


def _libcuda(copy: Instance, facts: Facts, matrix: Matrix) -> Instance:
    """Return an unqueried libcuda with the CUDA version it provides, if it pairs with the kernel driver.

    One example is a forward-compatibility copy in an unpacked image, where nothing is loaded.
    """
    if not facts.taken or number(copy.facts, "cu_init") is not None or number(copy.facts, "driver_cuda"):
        return copy
    found, driver = winner(facts), driver_release(facts)
    row = matrix.branches.get(found.release.branch) if found and found.release else None
    if not found or not driver or not row:
        return copy
    listed = any(one.cuda == row.cuda and driver.branch in one.bases for one in matrix.compats)
    if not (found.pairs(driver) or (found.pairs(driver) is None and listed)):
        return copy
    packed = row.cuda.major * 1000 + row.cuda.minor * 10
    return _with(copy, driver_cuda=packed, driver_cuda_from="the branch of the compat libcuda")


def _onnxruntime(copy: Instance, facts: Facts, matrix: Matrix) -> Instance:
    """Return an onnxruntime-gpu from a text with the CUDA that its release was built for."""
    if facts.taken or text(copy.facts, "accelerator") != "cuda" or text(copy.facts, "cuda"):
        return copy
    known = frameworks.onnxruntime_of(matrix, copy.version or "")
    return _with(copy, cuda=str(known.cuda), cuda_from=BY_RELEASE) if known and known.cuda else copy


def _pytorch(copy: Instance, facts: Facts, matrix: Matrix) -> Instance:
    """Return a copy of PyTorch with its implied build and that build's code."""
    where = platform(facts)
    if not copy.version or not where:
        return copy
    release = copy.version.partition("+")[0]
    nobody_said = not (copy.build or text(copy.facts, "accelerator") or text(copy.facts, "conda_build"))
    if nobody_said and facts.messages == () and flag(copy.facts, "available") is None and facts.taken:
        return copy  # found on a live machine, whose probe reports what it could not read
    if nobody_said:
        usual = torch.default_build(matrix, release, where)
        if usual is None:
            return copy
        cuda = str(usual.cuda) if usual.cuda else None
        copy = replace(_with(copy, accelerator=usual.accelerator, cuda=cuda, build_from=BY_PLATFORM), build=usual.tag)
    cuda = text(copy.facts, "cuda") if text(copy.facts, "accelerator") == "cuda" else None
    tag = copy.build or (f"cu{cuda}".replace(".", "") if cuda and from_text(facts) else None)
    if tag and not texts(copy.facts, "archs"):
        made = torch.build_of(matrix, release, tag, where)
        if made and made.archs:
            archs = tuple(_name(arch.kind, arch.capability.sm, arch.suffix) for arch in made.archs)
            copy = _with(copy, archs=archs, archs_from=BY_RELEASE)
    return copy


def _name(kind: str, sm: str, suffix: str) -> str:
    return f"{kind}_{sm.removeprefix('sm_')}{suffix}"


def _with(copy: Instance, **more: JsonValue) -> Instance:
    return replace(copy, facts={**{name: value for name, value in more.items() if value is not None}, **copy.facts})


ELSEWHERE = "known folder"  # not on the loader's path


@record
class Compat:
    """The compat libcuda that the loader finds first, and the driver branches in its own note."""

    path: str
    release: DriverRelease | None
    branches: tuple[int, ...]

    def pairs(self, driver: DriverRelease) -> bool | None:
        """Return whether it pairs with a kernel driver, by its note; None without a note about that."""
        if not self.branches:
            return None
        return driver.branch in self.branches and (self.release is None or self.release.branch >= driver.branch)


def winner(facts: Facts) -> Compat | None:
    """Return the compat libcuda that was or would be loaded; None if the loader takes another."""
    libcuda = told(facts, "libcuda")
    on_path = [one for one in items(libcuda, "copies") if text(one, "found_by") != ELSEWHERE]
    path = text(libcuda, "path") or next((text(one, "real") for one in on_path), None) or ""
    copy = next((one for one in items(libcuda, "copies") if text(one, "real") == path), None)
    loaded = text(libcuda, "kind") if text(libcuda, "path") else None
    if "compat" not in {loaded, text(copy, "kind")} and "/compat/" not in path:
        return None
    branches = tuple(one for one in items(copy, "note", "drivers") if isinstance(one, int))
    return Compat(path=path, release=DriverRelease.parse(text(copy, "release")), branches=branches)
