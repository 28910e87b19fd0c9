"""Changes below the packages (compiler, Python, compat package, driver, GPU), and why the plans are in their order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.ask import commands
from gpustack.ask.given import made, put
from gpustack.ask.search import Search, builds_of, may_forward, wanted_cuda
from gpustack.ask.why import judge
from gpustack.diagnose import fixes
from gpustack.diagnose.machine import containers
from gpustack.diagnose.machine.inventory import capabilities, driver_release, on_windows
from gpustack.diagnose.machine.values import text, told, version
from gpustack.diagnose.requirements.versions import draw
from gpustack.matrix.subjects import drivers as branches
from gpustack.matrix.subjects import gpus as products
from gpustack.matrix.subjects import toolkits, torch
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import DOTTED, NAME, Command, sh, step
from gpustack.model.matrix_answer import Alternative, Change, Compatibility, NotTaken
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.versions import DriverRelease

OF_LAST, OR_NEWER = ", from the last branch that supports this GPU", " or newer"


def compilers(search: Search) -> Iterator[Alternative]:
    """Return the newest GCC that the toolkit accepts, beside the one it rejects: the doctor's first advice."""
    cuda = version(search.at.facts, "cuda-toolkit")
    known = toolkits.compilers_of(search.matrix, cuda) if cuda else None
    broken = [{one.from_, one.to} for one in search.at.contracts if one.status is Kept.BROKEN]
    here = numbers(version(search.facts, "gcc"))[:1]
    if {"cuda-toolkit", "gcc"} in broken and known and known.gcc_max and here > (known.gcc_max,):
        yield Alternative(
            change=f"another host compiler: GCC {known.gcc_max}, alongside the one that is here",
            kind=Change.COMPILER,
            subject=f"gcc=={known.gcc_max}",
            verdict=Compatibility.COMPATIBLE,
            commands=fixes.older_gcc(search.at.facts, search.matrix, known.gcc_max),
        )


def pythons(search: Search) -> Iterator[Alternative]:
    """Return the nearest other Python with which the release works unchanged, in its own environment."""
    for number, facts in other_pythons(search):
        found = search.better(search.at.subject, facts)
        if found:
            spec = f"=={found.subject.version}"
            yield Alternative(
                change=f"another Python: {number}, in its own environment",
                kind=Change.PYTHON,
                subject=f"python=={number}",
                verdict=found.verdict,
                commands=(*commands.python(number), *commands.install(found.subject, spec, facts, search.matrix)),
            )
            return


def other_pythons(search: Search) -> Iterator[tuple[str, Facts]]:
    """Yield other Pythons, the nearest first, each with the facts of its machine; none if this one is suitable."""
    wrong = any("python" in {one.from_, one.to} and one.status is Kept.BROKEN for one in search.at.contracts)
    here = numbers(version(search.facts, "python"))[:2]
    if search.subject.component == "python" or not wrong or not here:
        return
    known = {numbers(number)[:2] for one in torch.releases(search.matrix) for number in one.pythons}
    for number in sorted(known - {here}, key=lambda one: (abs(one[1] - here[1]), -one[1])):
        there = replace(search.facts, environments=())
        said = ".".join(map(str, number))
        python = search.facts.find("python")
        glibc = python.facts.get("glibc") if python else None
        kept = tuple(one for one in there.components if one.id not in {"python", "packages"})
        yield said, put(replace(there, components=kept), made("python", said, None, glibc=glibc, gil=True))


def compats(search: Search) -> Iterator[Alternative]:
    """Return the compat package that supports the build on this driver: on Linux, for data-centre GPUs only."""
    cuda, release = wanted_cuda(search), driver_release(search.facts)
    if search.subject.component == "image":  # which has its own
        return
    if cuda is None or release is None or on_windows(search.facts) or not may_forward(search):
        return
    for package in toolkits.compats_for(search.matrix, cuda, release.branch)[:1]:
        carried = made("libcuda", None, driver_cuda=package.cuda.major * 1000 + package.cuda.minor * 10)
        found = search.better(search.subject, put(search.facts, carried))
        if found:
            yield Alternative(
                change=f"a compat package with driver {release}: {package.name} (data-centre GPUs only)",
                kind=Change.COMPAT,
                subject=package.name,
                verdict=found.verdict,
                commands=commands.compat(package.name, search.facts),
            )


def drivers(search: Search) -> Iterator[Alternative]:
    """Return the oldest newer driver that is sufficient, and the oldest that is so without limits."""
    wrong = [one for one in search.at.contracts if one.to == "nvidia-driver" and one.status is not Kept.OK]
    if search.subject.component == "nvidia-driver" or not wrong or on_windows(search.facts):
        return
    offered: list[Compatibility] = []
    last = _last(search)
    for one in [last] if last else upgrades(search):
        facts = put(search.facts, made("nvidia-driver", str(one)))
        found = search.better(search.subject, facts) if Compatibility.COMPATIBLE not in offered else None
        if found and found.verdict not in offered and gpu_runs(facts, search.matrix):
            offered.append(found.verdict)
            yield Alternative(
                change=f"another driver: {one}{OF_LAST if last else OR_NEWER}",
                kind=Change.DRIVER,
                subject=f"nvidia-driver{'==' if last else '>='}{one}",
                verdict=found.verdict,
                commands=commands.driver(str(one), search.at.facts, search.matrix),
            )


def _last(search: Search) -> DriverRelease | None:
    """Return the newest driver that runs the GPU, if the installed one is from a later branch."""
    number, here = fixes.last_branch(search.at.facts, search.matrix), driver_release(search.facts)
    known = branches.branch_of(search.matrix, number) if number and here and here.branch > number else None
    return known.last if known else None


def upgrades(search: Search) -> list[DriverRelease]:
    """Return the newer drivers to try: the minimum for CUDA's families and for the required minor, and branch ends."""
    above, cuda = driver_release(search.facts), wanted_cuda(search)
    native = search.matrix.native(cuda) if cuda else None
    tries = {one.last for one in branches.branches(search.matrix) if one.last}
    tries |= {one.linux for one in search.matrix.families.values()} | ({native.driver} if native else set())
    return [one for one in sorted(tries) if above is None or one > above]


def gpu_runs(facts: Facts, matrix: Matrix) -> bool:
    """Return whether the driver among the facts runs every GPU."""
    kinds = (one for one in draw(facts, matrix) if one.from_ == "gpu" and one.to == "nvidia-driver")
    return all(one.status is not Kept.BROKEN for one in kinds)


def gpus(search: Search) -> Iterator[Alternative]:
    """Return the next newer GPU architecture that would work, and a product of the same class that has it.

    An older GPU is no solution for someone with a newer one, nor a desktop card for someone with a data-centre GPU.
    """
    wrong = any("gpu" in {one.from_, one.to} and one.status is Kept.BROKEN for one in search.at.contracts)
    here = capabilities(search.facts)
    if search.subject.component == "gpu" or not wrong or not here:
        return
    lines = products.product_lines(search.matrix)
    kind = products.class_of(search.matrix, text(told(search.facts, "gpu"), "name") or "")
    for capability, arch in sorted(search.matrix.architectures.items(), key=lambda pair: pair[0]):
        newer = not arch.embedded and all(capability > one for one in here)
        facts = put(search.facts, made("gpu", None, cc=str(capability)))
        named = (*arch.gpus, *(name for one in lines if one.capability == capability for name in one.names[::-1]))
        alike = [
            one for one in named if not kind or (products.class_of(search.matrix, one) == kind and "CMP" not in one)
        ]
        found = search.better(search.subject, facts) if newer and (alike or not kind) else None
        if found:
            such = f", such as {alike[0]}" if alike else ""
            yield Alternative(
                change=f"another GPU: {capability.sm} ({arch.name}{such})",
                kind=Change.GPU,
                subject=capability.sm,
                verdict=found.verdict,
            )
            return


KEEPS = {
    Change.NONE: "Nothing else changes.",
    Change.WHEEL: "The release, the Python, the driver and the GPU stay as they are.",
    Change.COMPILER: "The toolkit and all packages stay as they are, and the current compiler stays too.",
    Change.VERSION: "The Python, the driver and the GPU stay as they are.",
    Change.PYTHON: "The Python that is here and all its packages, the driver and the GPU stay as they are.",
    Change.SYSTEM: "Windows, its driver and the GPU stay as they are.",
    Change.COMPAT: "All packages, the driver and the GPU stay as they are.",
    Change.DRIVER: "The Python and the GPU stay as they are.",
    Change.GPU: "The software stays as it is.",
}
COSTS = {
    Change.NONE: "nothing",
    Change.WHEEL: "it changes the build",
    Change.VERSION: "it changes the release, and so perhaps how programs behave",
    Change.COMPILER: "it installs another compiler",
    Change.PYTHON: "it needs its own environment, with all packages",
    Change.SYSTEM: "it needs Linux beside Windows, with its own environment",
    Change.COMPAT: "it needs root, and a variable wherever the program is started",
    Change.DRIVER: "it needs root and a restart, and every program on the machine gets another driver",
    Change.GPU: "it needs other hardware",
}


def weighed(found: Sequence[Alternative]) -> tuple[Alternative, ...]:
    """Return the plans with what each leaves unchanged and, for all but the first, why it is not first."""
    return tuple(
        replace(one, keeps=one.keeps or KEEPS[one.kind], not_first=_later(one, found[0]) if number else "")
        for number, one in enumerate(found)
    )


def _later(one: Alternative, first: Alternative) -> str:
    if one.kind is not first.kind:
        return f"Not the first: {COSTS[one.kind]}."
    if one.verdict is Compatibility.LIMITED and first.verdict is Compatibility.COMPATIBLE:
        return "Not the first: it works with limits."
    return "Not the first: another of the same kind is closer, or works as well with fewer changes."


def suited(one: Alternative, ways: Sequence[str]) -> Alternative:
    """Return a plan adapted to a container, a cluster, or a user who may not install packages."""
    root = [line for line in one.commands if line.startswith("sudo ")]
    if root and {"slurm", "user"} & {*ways}:
        own = tuple(_own(one, "slurm" in ways))
        who = "the cluster's administrators" if "slurm" in ways else "who administers the machine"
        lines = " and ".join(f"`{line}`" for line in root)
        asked = f"{'Else ask' if own else 'Ask'} {who} to run {lines}: that needs root."
        rest = () if own else tuple(line for line in one.commands if line not in root)
        steps = asked if own else f"{asked} {one.steps}"
        return replace(one, commands=(*own, *rest), steps=steps)
    engine = next((way for way in ways if way in containers.WAYS), None)
    if engine and root:
        where = "On the machine that runs the containers, not in the image, unless it is a package for building."
        return replace(one, steps=f"{where} {one.steps}".strip())
    if engine:
        where = f"In the image, as a RUN line of its Dockerfile. It gets the GPUs by {containers.WAYS[engine]}."
        return replace(one, steps=f"{where} {one.steps}".strip())
    return one


def _own(one: Alternative, cluster: bool) -> Iterator[Command]:  # noqa: FBT001 - whether there are modules to load
    """Yield how to get a compiler or a toolkit without root: as a module of the cluster, else from conda-forge."""
    name, _, version = one.subject.partition("==")
    what = {"gcc": "gcc", "cuda": "cuda", "cuda-toolkit": "cuda"}.get(name)
    if what is None or not DOTTED.holds(version):
        return
    words = {"what": NAME(what), "version": DOTTED(".".join(version.split(".")[:2]))}
    if cluster:
        yield sh("module avail {what}", **words)
        yield sh("module load {what}/{version}", **words)
        yield step("take the name that the first command lists, if the site calls it otherwise")
    else:
        words["what"] = NAME("gxx" if what == "gcc" else "cuda-toolkit")
        yield sh("conda install -c conda-forge {what}={version}", **words)
    if what == "gcc":
        yield sh('export NVCC_CCBIN="$(command -v g++)"') if cluster else sh('export NVCC_CCBIN="$CXX"')


def not_taken(search: Search, found: Sequence[Alternative]) -> Iterator[NotTaken]:
    """Yield the kinds of change that were tried for a problem and would not help, and why."""
    if search.at.verdict is Compatibility.COMPATIBLE or not search.at.contracts:
        return
    kinds = {one.kind for one in found}
    for kind, why in ((Change.WHEEL, _wheel), (Change.COMPAT, _compat), (Change.DRIVER, _driver)):
        because = why(search) if kind not in kinds else ""
        if because:
            yield NotTaken(kind=kind, because=because)


def _wheel(search: Search) -> str:
    others = builds_of(search.at.subject, search)
    if not others:
        return ""
    reason = judge(others[0], search.facts, search.matrix).reasons[0].text
    return f"Another build of the same release does not help: {', '.join(one.tag or '' for one in others)}. {reason}"


def _compat(search: Search) -> str:
    cuda, release = wanted_cuda(search), driver_release(search.facts)
    if cuda is None or release is None or search.subject.component == "image":
        return ""
    if on_windows(search.facts):
        return "A compat package does not help: there is none for Windows."
    if not may_forward(search):
        return "A compat package does not help: it works on data-centre GPUs only."
    return f"A compat package does not help: none brings CUDA {cuda} to driver branch {release.branch}."


def _driver(search: Search) -> str:
    if not any(one.to == "nvidia-driver" for one in search.at.contracts):
        return ""
    wrong = any(one.to == "nvidia-driver" and one.status.value != "ok" for one in search.at.contracts)
    which = "none that supports this GPU is new enough" if wrong else "the driver is not the problem"
    return f"A newer driver alone does not help: {which}."
