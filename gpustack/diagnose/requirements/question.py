"""Requirements of what is only asked about: the GPU's vendor, and the CUDA version of a toolkit."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.frameworks import jetpack, platform
from gpustack.diagnose.machine.inventory import Build, builds, gpus, ours
from gpustack.diagnose.machine.values import copies, items, number, text, told, version
from gpustack.diagnose.requirements import metadata
from gpustack.diagnose.requirements.fits import Fit, asked, edge, release
from gpustack.diagnose.requirements.python import ON_ARM, UNFIT, machines_of, packages
from gpustack.matrix.subjects import frameworks, generated, libraries, terms, torch
from gpustack.matrix.subjects.gpus import jetpacks_for
from gpustack.matrix.subjects.ranges import minor, numbers
from gpustack.model.report import Contract, Kept, Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.terms import System
    from gpustack.model.facts import Component, Facts, Instance


TOOLKIT = "cuda-toolkit"
MAKERS: Mapping[str, str] = {"cuda": "nvidia", "rocm": "amd", "xpu": "intel"}
WORDS: Mapping[str, str] = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
DEVICES: Mapping[str, str] = {"nvidia": "gpu", "amd": "amd-gpu", "intel": "intel-gpu"}
# What the package index serves as a CUDA build alone; beside a PyTorch of another maker it is a build of one's own.
CUDA_ALONE = frozenset({"tensorflow", "vllm", "xformers", "transformer-engine", "tensorrt-llm"})
BEFORE_MAJORS = 11  # until then one build of a library served one minor of CUDA


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether each thing that is asked about fits the GPU's vendor, and the toolkit beside it."""
    if not any(asked(copy) for one in facts.components for copy in one.instances):
        return
    here = tuple(_makers_here(facts))
    for one in facts.components if here else ():
        if any(asked(copy) for copy in one.instances):
            yield from _maker(one, here, facts, matrix)
    yield from _platforms(facts, matrix)
    yield from _jetson(facts, matrix)
    yield from metadata.draw(facts, matrix)
    toolkit = version(facts, TOOLKIT)
    if toolkit and numbers(toolkit) and any(asked(copy) for copy in copies(facts, TOOLKIT)):
        yield from _libraries(toolkit, facts, matrix)
        yield from _frameworks(toolkit, facts, matrix)


WITHOUT = ("a system other than Linux", "a wheel for Linux")  # of what nobody builds there, and of what pip compiles


def _platforms(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether there are wheels for the processor, named or usual for the GPU; else none for x86-64."""
    system = platform(facts) or ""
    if system == "windows" and not facts.taken:
        yield from _windows(facts, matrix)
    machine, named = system.removeprefix("linux-"), facts.host.machine or system == ON_ARM
    for one in facts.components if system.startswith("linux-") else ():
        for copy in one.instances if any(map(asked, one.instances)) else ():
            machines, row = machines_of(one.id, copy, machine, matrix)
            if row and (named or machine not in machines):
                kept = Kept.OK if machine in machines else UNFIT.get(one.id, Kept.BROKEN)
                found = machine if named else f"{machine}, as no other was named"
                needs = f"Linux on {' or '.join(machines)}" if machines else WITHOUT[one.id in UNFIT]
                fit = Fit(kept=kept, needs=needs, found=found, row=row)
                yield edge(one.id, "machine", "platform", fit, copy.environment)


def _jetson(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return from which JetPack a Jetson can run ARM server builds, as on the index and PyTorch's own."""
    here = jetpack(facts)
    for gpu, build in product(gpus(facts), builds(facts)):
        known = jetpacks_for(matrix, gpu.capability) if gpu.capability and build.accelerator == "cuda" else ()
        first = next((one for one in known if one.servers), None)
        if known and asked(build.copy):
            newer = f"JetPack {first.jetpack} (Jetson Linux {first.l4t}) or newer, else " if first else ""
            runs = first is not None and here is not None and numbers(here) >= numbers(first.jetpack)
            kept = Kept.OK if runs else Kept.LIMITED if first and here is None else Kept.BROKEN
            found = f"a {gpu.name}{f' with JetPack {here}' if here else ''}"
            fit = Fit(kept=kept, needs=f"{newer}a build for its own JetPack", found=found, row=(first or known[-1]).row)
            yield edge(build.component, "gpu", "platform", fit, build.copy.environment)


def _windows(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether the index has Windows wheels of what is asked about; platform-independent ones do not count.

    Wheels for Windows on ARM were not read.
    """
    arm = facts.host.machine == "aarch64"
    for one in facts.components:
        for copy in one.instances if any(map(asked, one.instances)) else ():
            names = packages(one.id, copy, matrix)
            known = [generated.release_of(matrix, name, copy.version or "") for name in names]
            listed = [held for held in known if held and held.wheels and generated.EVERY not in held.wheels]
            without = next((held for held in listed if "windows" not in held.wheels), None)
            held = without or (listed[0] if listed and len(listed) == len(names) else None)
            if held:
                kept, needs = Kept.BROKEN if without else Kept.OK, f"a platform with a wheel: {', '.join(held.wheels)}"
                kept, found = (Kept.UNKNOWN, "Windows on ARM") if arm else (kept, "Windows")
                fit = Fit(kept=kept, needs=needs, found=found, row=held.row)
                yield edge(one.id, "machine", "platform", fit, copy.environment)


def _makers_here(facts: Facts) -> Iterator[str]:
    if gpus(facts) or ours(facts) or items(told(facts, "libcuda"), "devices"):
        yield "nvidia"
    yield from (maker for maker in ("amd", "intel") if copies(facts, DEVICES[maker]))


def _maker(one: Component, here: tuple[str, ...], facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return that a thing supports only GPUs of a vendor that is absent; PyTorch's builds are judged elsewhere."""
    build = next((build for build in builds(facts) if build.component == one.id), None)
    maker = MAKERS.get(build.accelerator or "") if build else _alone(one.id, facts, matrix)
    on_cpu = build is not None and build.accelerator == "cpu" and build.component != "pytorch"
    if one.id == "pytorch" and here != ("intel",):
        return
    if on_cpu and "nvidia" not in here:
        fit = Fit(kept=Kept.BROKEN, needs=f"a build for GPUs of {WORDS[here[0]]}", found="a build for cpu")
        yield edge(one.id, DEVICES[here[0]], "accelerator", fit, one.instances[0].environment)
    elif maker and maker not in here:
        what = "a GPU of NVIDIA" if maker == "nvidia" else f"a GPU of {WORDS[maker]}"
        built = one.id in CUDA_ALONE or build is not None
        needs = f"{what}, since it is a {_platform(maker)} build" if built else what
        known = None if built else _system(one.id, matrix)
        fit = Fit(kept=Kept.BROKEN, needs=needs, found=_name(here[0], facts), row=known.row if known else None)
        yield edge(one.id, DEVICES[here[0]], "maker", fit, one.instances[0].environment)


def _platform(maker: str) -> str:
    return {"nvidia": "CUDA", "amd": "ROCm", "intel": "SYCL"}[maker]


def _alone(component: str, facts: Facts, matrix: Matrix) -> str | None:
    """Return the only vendor whose GPUs a component supports; None for GPUs themselves or if it supports several."""
    if component in DEVICES.values():
        return None
    if component in CUDA_ALONE:
        beside = next((build.accelerator for build in builds(facts) if build.component == "pytorch"), None)
        return "nvidia" if beside in {None, "cuda"} else None
    known = _system(component, matrix)
    return known.vendor if known and known.vendor in DEVICES else None


def _system(component: str, matrix: Matrix) -> System | None:
    return next((one for one in terms.systems(matrix) if one.id == component), None)


def _name(maker: str, facts: Facts) -> str:
    copy = next(iter(copies(facts, DEVICES[maker])), None)
    name = (text(copy.facts, "name") or text(copy.facts, "gfx")) if copy else None
    return f"{name}, a GPU of {WORDS[maker]}" if name else f"a GPU of {WORDS[maker]}"


def _libraries(toolkit: str, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Yield for which CUDA major the separate libraries are built; one build serves all its minors."""
    for component in ("cudnn", "nccl", "tensorrt"):
        for copy in copies(facts, component):
            known = _built(component, copy, matrix) if asked(copy) and release(copy) else None
            if known and known[0]:
                yield edge(component, TOOLKIT, "cuda", _library_fit(toolkit, copy, *known))


def _built(component: str, copy: Instance, matrix: Matrix) -> tuple[tuple[str, ...], Row] | None:
    held = copy.version or ""
    if component == "cudnn":
        known = libraries.cudnn_of(matrix, held)
        return (known.cuda, known.row) if known else None
    if component == "tensorrt":
        made = libraries.tensorrt_of(matrix, held)
        return (made.cuda, made.row) if made else None
    wheel = libraries.nccl_of(matrix, held)
    return (tuple(map(str, wheel.built)), wheel.row) if wheel else None


def _library_fit(toolkit: str, copy: Instance, cudas: tuple[str, ...], row: Row) -> Fit:
    major, tagged = numbers(toolkit)[0], number(copy.facts, "cuda_major")
    old = major < BEFORE_MAJORS
    fits = minor(toolkit) in cudas if old else str(major) in {one.partition(".")[0] for one in cudas}
    kept = Kept.OK if fits and tagged in {None, major} else Kept.BROKEN
    needs = f"CUDA {tagged}" if tagged else f"CUDA {' or '.join(cudas)}"
    return Fit(kept=kept, needs=needs, found=f"CUDA {toolkit}", row=row)


def _frameworks(toolkit: str, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Yield whether CUDA builds fit a toolkit beside them: wheels bring their own, ONNX Runtime uses this one."""
    major = numbers(toolkit)[0]
    for component, wanted, copy, row in _cudas(facts, matrix):
        if component == "jax":
            yield from _local(toolkit, wanted, copy, matrix)
            continue
        alone = component == "tensorflow" and numbers(copy.version)[:2] < BRINGS_CUDA
        kept = Kept.OK if wanted == major else Kept.BROKEN if alone else OTHERWISE.get(component, Kept.UNKNOWN)
        needs = "nvcc" if component == "pytorch" else "libraries"
        why = " to compile extensions" if component == "pytorch" else ""
        fit = Fit(kept=kept, needs=f"{needs} of CUDA {wanted}{why}", found=f"CUDA {toolkit}", row=row)
        yield edge(component, TOOLKIT, "toolkit", fit, copy.environment)


TOLD = ("nvcc", "cudart")  # of many parts that are too old these are named first


def _local(toolkit: str, major: int, copy: Instance, matrix: Matrix) -> Iterator[Contract]:
    """Return whether a JAX could use this toolkit's libraries and compiler instead of its wheels'."""
    plugin, build = (
        frameworks.jax_plugin(matrix, copy.version or "", major),
        frameworks.jax_build(matrix, copy.version or "", major),
    )
    known = [one for one in libraries.toolkits(matrix) if numbers(one.toolkit)[:2] == numbers(toolkit)[:2]]
    parts = next((one.parts for one in known if one.toolkit == toolkit), known[-1].parts if known else {})
    instead = "instead of those of its own wheels"
    fit = None
    if plugin and numbers(toolkit)[0] != major:
        fit = Fit(kept=Kept.LIMITED, needs=f"a toolkit of CUDA {major} to take its libraries {instead}", found="")
    elif plugin and parts:
        old = [name for name, span in plugin.requires.items() if name in parts and not span.holds(parts[name])]
        old = sorted(old, key=lambda name: name not in TOLD)[: len(TOLD)]
        needs = " and ".join(f"{name} {plugin.requires[name]}" for name in old) or f"parts of CUDA {major}"
        has = f" with {' and '.join(f'{name} {parts[name]}' for name in old)}" if old else ""
        kept = Kept.LIMITED if old else Kept.OK
        fit = Fit(kept=kept, needs=f"{needs} to take a toolkit's libraries {instead}", found=has, row=plugin.row)
    elif build and build.oldest_cuda and numbers(toolkit)[:2] < (build.oldest_cuda.major, build.oldest_cuda.minor):
        needs = f"CUDA {build.oldest_cuda} or newer to take a toolkit's libraries {instead}"
        fit = Fit(kept=Kept.LIMITED, needs=needs, found="", row=build.row)
    if fit:
        yield edge("jax", TOOLKIT, "toolkit", replace(fit, found=f"CUDA {toolkit}{fit.found}"), copy.environment)


BRINGS_CUDA = 2, 14  # the first TensorFlow with the extra and-cuda; wheels before it take the machine's libraries
# What a toolkit of another CUDA major is; for others no row says whether their wheels brought their own.
OTHERWISE: Mapping[str, Kept] = {"pytorch": Kept.LIMITED, "onnxruntime": Kept.BROKEN}


def _cudas(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, int, Instance, Row | None]]:
    """Return the CUDA majors of builds, each with the row that states it."""
    for build in builds(facts):
        if build.cuda and build.accelerator == "cuda" and asked(build.copy):
            yield build.component, build.cuda.major, build.copy, _made_for(build, matrix)
    for copy in copies(facts, "tensorflow"):
        known = frameworks.tensorflow_of(matrix, copy.version or "") if asked(copy) and release(copy) else None
        if known:
            yield "tensorflow", known.cuda.major, copy, known.row


def _made_for(build: Build, matrix: Matrix) -> Row | None:
    held = build.copy.version or ""
    if build.component == "onnxruntime":
        known = frameworks.onnxruntime_of(matrix, held)
        return known.row if known else None
    if build.component == "pytorch":
        made = torch.build_of(matrix, held, build.copy.build or "")
        return made.row if made else None
    plugin = frameworks.jax_build(matrix, held, build.cuda.major) if build.cuda else None
    return plugin.row if plugin else None
