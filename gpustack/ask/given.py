"""The options of a question, turned into facts about an otherwise unknown machine."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpustack.diagnose import driver_packages
from gpustack.diagnose.machine.frameworks import JETPACK, jetpack
from gpustack.diagnose.machine.inventory import on_windows
from gpustack.diagnose.machine.values import copies
from gpustack.diagnose.requirements.fits import asked
from gpustack.errors import UsageError
from gpustack.matrix.subjects import amd_intel, drivers, gpus, toolkits
from gpustack.model import record, replace
from gpustack.model.facts import Component, Environment, Facts, Host, Instance, JsonValue, Layer, Status
from gpustack.model.versions import ComputeCapability, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

SOURCE = "the question"
LAYERS = {
    "gpu": Layer.HARDWARE,
    "amd-gpu": Layer.HARDWARE,
    "linux-kernel": Layer.KERNEL,
    "nvidia.ko": Layer.KERNEL_MODULE,
    "nvidia-driver": Layer.DRIVER,
    "cuda-toolkit": Layer.RUNTIME,
    "gcc": Layer.COMPILER,
    "clang": Layer.COMPILER,
    "python": Layer.ENVIRONMENT,
    "pytorch": Layer.FRAMEWORK,
    "tensorflow": Layer.FRAMEWORK,
    "jax": Layer.FRAMEWORK,
    "onnxruntime": Layer.FRAMEWORK,
    "vllm": Layer.SERVING,
}
NUMBER = {
    "python": (r"3\.\d{1,2}(?:\.\d{1,3})?t?", "3.12, or 3.14t without the GIL"),
    "glibc": (r"2\.\d{1,2}(?:\.\d{1,3})?", "2.35"),
    "cudnn": (r"\d{1,2}(?:\.\d{1,3}){0,3}", "9.10.2 or 9"),
    "gcc": (r"\d{1,2}(?:\.\d{1,2}){0,2}", "13"),
    "clang": (r"\d{1,2}(?:\.\d{1,2}){0,2}", "18"),
    "kernel": (r"\d{1,2}\.\d{1,3}(?:[.\w+~-]{0,60})?", "6.8.0-50-generic"),
}
BRANCH = re.compile(r"\d{3}")
MACHINES = ("x86_64", "aarch64")
ALSO_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "intel": "x86_64", "arm64": "aarch64", "armv8": "aarch64"}
SYSTEMS = {"linux": "Linux", "windows": "Windows", "wsl": "Linux", "macos": "macOS"}
DISTRIBUTION = re.compile(rf"({'|'.join(driver_packages.DISTRIBUTIONS)})(?:-(\d[\d.]{{0,9}}))?")
MANAGERS = ("uv", "poetry", "pixi", "conda")
NVIDIA = re.compile(r"nvidia|geforce|gtx|rtx|quadro|tesla|titan", re.IGNORECASE)
GPUS = frozenset({"gpu", "amd-gpu", "intel-gpu"})
GPU_PARTS = GPUS | {"pci-display", "libcuda"}
DRIVER_PARTS = frozenset({"nvml", "libcuda", "libnvidia-ml", "nvidia-uvm.ko", "nvidia-modeset.ko", "nvidia-drm.ko"})


@record
class Given:
    """What was given about a machine, as typed; ``ways`` are words for how it is installed or run."""

    driver: str | None = None
    gpu: str | None = None
    python: str | None = None
    glibc: str | None = None
    cudnn: str | None = None
    gcc: str | None = None
    clang: str | None = None
    kernel: str | None = None
    kernel_module: str | None = None
    os: str | None = None
    machine: str | None = None
    ways: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The given values, in words."""
        named = {
            "driver": self.driver,
            "GPU": self.gpu,
            "Python": self.python,
            "glibc": self.glibc,
            "cuDNN": self.cudnn,
            "GCC": self.gcc,
            "Clang": self.clang,
            "kernel": self.kernel,
            "kernel module": self.kernel_module,
            "system": self.os,
            "processor": self.machine,
            "by": " and ".join((self.ways or "").split()),
        }
        return tuple(f"{name} {said}" for name, said in named.items() if said)


def apply(given: Given, facts: Facts | None, matrix: Matrix) -> Facts:
    """Return the facts of a machine, or of an empty one, with the given values in place of its own."""
    checked(given)
    machine = facts or Facts(taken="", host=Host(os="Linux"))
    if given.machine:
        machine = replace(machine, host=replace(machine.host, machine=given.machine))
    if given.os:
        system = SYSTEMS.get(given.os, "Linux")
        machine = replace(machine, host=replace(machine.host, os=system, wsl=given.os == "wsl"))
        machine = put(machine, _distribution(given.os)) if given.os not in SYSTEMS else machine
        machine = _jetson(machine, given, matrix)
    manager = next((one for one in (given.ways or "").split() if one in MANAGERS), None)
    if manager and not machine.environments:
        machine = replace(machine, environments=(Environment(python="python", kind=manager),))
    for component in _components(given, where(machine), machine, matrix):
        machine = put(machine, component)
    return machine


def checked(given: Given) -> None:
    """Raise UsageError for any value that does not match its option."""
    if given.driver and not BRANCH.fullmatch(given.driver) and DriverRelease.parse(given.driver) is None:
        raise UsageError(f"--driver {given.driver!r} is not a driver release, such as 550.54.15")
    for name, (pattern, example) in NUMBER.items():
        said = getattr(given, name)
        if said and not re.fullmatch(pattern, said):
            raise UsageError(f"--{name} {said!r} is not a version, such as {example}")
    if given.kernel_module not in {None, "open", "proprietary"}:
        raise UsageError(f"--kernel-module {given.kernel_module!r} is neither open nor proprietary")
    if given.os not in {None, *SYSTEMS} and not DISTRIBUTION.fullmatch(given.os or ""):
        raise UsageError(
            f"--os {given.os!r} is neither linux, windows, wsl nor macos, nor a distribution such as ubuntu-24.04"
        )
    if given.machine not in {None, *MACHINES}:
        near = difflib.get_close_matches(given.machine or "", (*MACHINES, *ALSO_MACHINES), 1, 0.3)
        meant = ALSO_MACHINES.get(near[0], near[0]) if near else MACHINES[0]
        raise UsageError(f"--machine {given.machine!r} is neither x86_64 nor aarch64: did you mean {meant}?")


def put(facts: Facts, component: Component) -> Facts:
    """Return the facts with this component replacing that with its id; another driver or GPU replaces all its parts."""
    kept = [one for one in facts.components if one.id != component.id]
    if component.id in GPUS:
        kept = [one for one in kept if one.id not in GPU_PARTS]
    if component.id == "nvidia-driver":
        kept = [_without_release(one) for one in kept if one.id not in DRIVER_PARTS]
    return replace(facts, components=(*kept, component))


def where(facts: Facts) -> str | None:
    """Return the Python that questions are about: the first one examined."""
    return facts.environments[0].python if facts.environments else None


def is_given(facts: Facts, component: str) -> bool:
    """Return whether this component was given rather than found."""
    return any(asked(copy) for copy in copies(facts, component))


def given_parts(facts: Facts) -> tuple[str, ...]:
    """Return the ids of all given components."""
    return tuple(one.id for one in facts.components if is_given(facts, one.id))


def made(component: str, version: str | None, place: str | None = None, **facts: JsonValue) -> Component:
    """Return one copy of a component in question."""
    held: Mapping[str, JsonValue] = {"given": True, **{name: one for name, one in facts.items() if one is not None}}
    build = held.get("build")
    copy = Instance(
        key=SOURCE, version=version, build=build if isinstance(build, str) else None, environment=place, facts=held
    )
    return Component(
        id=component,
        layer=LAYERS.get(component, Layer.LIBRARY),
        vendor="any",
        status=Status.PRESENT,
        version=version,
        build=copy.build,
        facts=held,
        source=SOURCE,
        instances=(copy,),
    )


def gpu(text: str, matrix: Matrix) -> Component:
    """Return a GPU from sm_90, 9.0, gfx1100 or a product's name; raises UsageError for anything else."""
    capability = ComputeCapability.parse(text)
    if capability:
        return made("gpu", None, name=None, cc=str(capability))
    target = None if NVIDIA.search(text) else amd_intel.gfx_of(matrix, text)  # both have a 780M; today it means AMD's
    capability = None if target else gpus.capability_of(matrix, text)
    if capability:
        return made("gpu", None, name=text, cc=str(capability))
    device = amd_intel.device_named(matrix, text)
    if device is not None:
        return made("intel-gpu", None, name=text, device_id=f"{device:#06x}")
    if target or re.fullmatch(r"gfx[0-9a-f]{3,5}", text):
        return made("amd-gpu", None, name=text, gfx=target.gfx if target else text)
    shared = gpus.ambiguity_of(matrix, text)
    if shared:
        raise UsageError(f"--gpu {text!r} does not determine the architecture ({shared.why}): give it as sm_NN")
    raise UsageError(f"--gpu {text!r} is not a known GPU: give it as sm_90, 9.0, gfx1100 or by name, such as L40S")


def newest(said: str, where: str, facts: Facts, matrix: Matrix) -> str:
    """Return a driver release; a branch alone, typed after ``where``, means its newest known release.

    On Windows it is the newest that a CUDA of that branch came with (550: 551.78), else the branch's first.
    """
    if not BRANCH.fullmatch(said):
        return said
    if on_windows(facts):
        releases = (one for one in toolkits.releases(matrix) if one.windows and one.branch == int(said))
        beside = [one.windows for one in releases if one.windows]
        known = [one.windows for one in toolkits.releases(matrix) if one.windows]
        if min(known).branch <= int(said) <= max(known).branch:
            return str(max(beside)) if beside else f"{said}.00"
    branch = None if on_windows(facts) else drivers.branch_of(matrix, int(said))
    if branch is None or branch.last is None:
        raise UsageError(f"{where}{said} is not a release, and no newest one of that branch is known: give it in full")
    return str(branch.last)


def _components(given: Given, place: str | None, facts: Facts, matrix: Matrix) -> Iterator[Component]:
    if given.gpu:
        yield gpu(given.gpu, matrix)
    if given.driver:
        yield made("nvidia-driver", newest(given.driver, "--driver ", facts, matrix))
    if given.kernel_module:
        yield made("nvidia.ko", None, flavour=given.kernel_module)
    system = DISTRIBUTION.fullmatch(given.os or "")
    name = driver_packages.DISTRIBUTIONS[system[1]] if system else ""
    usual = toolkits.glibc_of(matrix, name, system[2]) if system and system[2] else None
    if given.python or given.glibc or usual:
        known = facts.find("python")
        glibc = given.glibc or usual or (known.facts.get("glibc") if known else None)
        typed = given.python or (known.version if known else None)
        gil = not given.python.endswith("t") if given.python else known is None or known.facts.get("gil")
        number = typed.removesuffix("t") if typed else None
        implied = True if usual and not given.glibc else None
        yield made("python", number, place, glibc=glibc, gil=gil, glibc_implied=implied)
    for component, version in (("cudnn", given.cudnn), ("gcc", given.gcc), ("clang", given.clang)):
        if version:
            yield made(component, version)
    if given.kernel:
        there = facts.find("linux-kernel")
        held = there.facts if there else {}
        yield made("linux-kernel", given.kernel, os_id=held.get("os_id"), os_version=held.get("os_version"))


def _distribution(named: str) -> Component:
    """Return what a machine with this distribution shows of it; the distribution itself is never a subject."""
    found = DISTRIBUTION.fullmatch(named)
    held: dict[str, JsonValue] = {
        "os_id": driver_packages.DISTRIBUTIONS[found[1]] if found else None,
        "os_version": found[2] if found else None,
    }
    copy = Instance(key=SOURCE, version=None, build=None, environment=None, facts=held)
    one = made("linux-kernel", None)
    return replace(one, facts=held, instances=(copy,))


def _jetson(machine: Facts, given: Given, matrix: Matrix) -> Facts:
    """Return a machine with the given JetPack or Jetson Linux and the newest GPU that it supports."""
    said = jetpack(machine)
    known = gpus.jetpack_named(matrix, said) if said else None
    if known is None:
        return machine
    there = put(machine, _distribution(f"{JETPACK}-{known.jetpack}"))
    board = made("gpu", None, name="Jetson", cc=str(max(known.capabilities)))
    held = {name: one for name, one in board.facts.items() if name != "given"}  # a GPU in the question replaces it
    copies_ = tuple(replace(copy, facts=held) for copy in board.instances)
    return there if given.gpu else put(there, replace(board, facts=held, instances=copies_))


def _without_release(component: Component) -> Component:
    """Return nvidia.ko without the machine's release of it, since the question is about another driver."""
    if component.id != "nvidia.ko":
        return component
    gone = ("version_loaded", "version_on_disk", "vermagic")
    copies = tuple(
        replace(copy, version=None, facts={name: one for name, one in copy.facts.items() if name not in gone})
        for copy in component.instances
    )
    facts = {name: one for name, one in component.facts.items() if name not in gone}
    return replace(component, version=None, facts=facts, instances=copies)
