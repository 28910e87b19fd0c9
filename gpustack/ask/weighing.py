"""Why the plans are in this order: what each leaves unchanged, why it is not the first, and what would not help."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.ask.search import builds_of, may_forward, wanted_cuda
from gpustack.ask.why import judge
from gpustack.diagnose.machine import containers
from gpustack.diagnose.machine.inventory import driver_release, on_windows
from gpustack.model.command import DOTTED, NAME, Command, sh, step
from gpustack.model.matrix_answer import Change, Compatibility, NotTaken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.ask.search import Search
    from gpustack.model.matrix_answer import Alternative

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
    if cuda is None or release is None:
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
