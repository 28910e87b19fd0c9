"""What could not be judged, or is only worth a remark."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes, installing
from gpustack.diagnose.change_sets import FAMILY
from gpustack.diagnose.driver_packages import supported
from gpustack.diagnose.environments import each, inside
from gpustack.diagnose.machine.inventory import (
    DRIVER,
    FRAMEWORKS,
    MAKERS,
    any_gpu,
    builds,
    capabilities,
    driver_release,
    driver_works,
    from_text,
    gpus,
    nvidia_here,
    on_bus,
    ours,
    starts,
    unasked,
    user_release,
)
from gpustack.diagnose.machine.values import (
    at,
    because,
    because_of,
    copies,
    items,
    number,
    status,
    table,
    text,
    told,
    version,
)
from gpustack.diagnose.rule import rule
from gpustack.diagnose.rules import WRONG_CUDNN, WRONG_LIBRARIES
from gpustack.matrix.subjects import known_bad
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import Command, requirement, sh
from gpustack.model.facts import Component, Facts, Instance, JsonValue, Layer, Status, once, product
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.known_bad import KnownBad


WORDS = {
    "wrong-results": "is known to give wrong results",
    "crash": "is known to fail",
    "hang": "is known to hang",
    "slow": "is known to use too much time or memory",
    "leak": "is known to leak memory",
}
GRAVE = frozenset({"wrong-results", "crash", "hang"})
WRONG_COPY = (*WRONG_CUDNN, *WRONG_LIBRARIES)
DISTRIBUTIONS = {"flash-attn": "flash-attention", "torch": "pytorch"}


@rule("known-bad-combination", Layer.LIBRARY, "pytorch", Severity.WARNING, explained_by=WRONG_COPY)
def known_bad_combination(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A combination of versions with a known problem: wrong results, a crash, a hang, or much time or memory lost.

    Its developers, or people who measured it, reported it; the row names the source. If it occurs only under a
    condition that no version shows, this is a note: check whether the condition applies to you. Otherwise change one of
    the versions as advised; wrong results are the worst of these, since nothing else reveals them.
    """
    chosen, *others = each(facts)
    found = tuple(_found(chosen, matrix))
    yield from found
    for view in others:
        python = view.environments[0].python
        own = _own(view, python)
        for finding in _found(view, matrix):
            if finding not in found and any(one.component in own for one in finding.because):
                yield inside(finding, python)


def _own(facts: Facts, python: str) -> frozenset[str]:
    """Return what lies in this Python itself: the machine's own libraries are judged with the chosen one."""
    packages = table(told(facts, "packages"), "distributions")
    named = (DISTRIBUTIONS.get(name, name) for name in packages)
    held = (one.id for one in facts.components if any(copy.environment == python for copy in one.instances))
    return frozenset((*named, *held))


def _found(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return what one Python and the machine have."""
    versions = versions_of(facts)
    if not versions:
        return
    gfx = tuple(name for copy in copies(facts, "amd-gpu") if (name := text(copy.facts, "gfx")))
    count = len(gpus(facts)) or len(gfx)
    here = capabilities(facts)
    for one in known_bad.matching(matrix, versions, here, gfx, count, architecture=facts.host.machine):
        yield _bad_finding(one, versions, facts, matrix)


@once
def versions_of(facts: Facts) -> Mapping[str, str]:
    """Return the version in use of each component and package, where one is known."""
    packages = table(told(facts, "packages"), "distributions")
    named = {DISTRIBUTIONS.get(name, name): held for name, held in packages.items() if isinstance(held, str)}
    used = {one.id: told(facts, one.id).get("version") for one in facts.components}
    return {**named, **{name: held for name, held in used.items() if isinstance(held, str)}}


def _installing(wanted: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands for one requirement of a row; beside what is bound to torch, the torch that is here stays."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - a report may need none

    named = Requirement(wanted)
    if named.name == DRIVER:
        least = numbers(next(iter(named.specifier)).version)[0]
        return fixes.driver(facts, matrix, branch=supported(least, fixes.last_branch(facts, matrix), matrix))
    asked = requirement(named.name, str(named.specifier))
    python = facts.environments[0].python if facts.environments else None
    release = (version(facts, "pytorch") or "").partition("+")[0]
    if named.name in installing.FROM_SOURCE:
        return (installing.build(facts, python, asked),)
    stays = (requirement("torch", f"=={release}"),) if named.name in FAMILY and release else ()
    return (installing.install(facts, python, (asked, *stays)),)


def _bad_finding(one: KnownBad, versions: Mapping[str, str], facts: Facts, matrix: Matrix) -> Finding:
    proven = one.proof is known_bad.Proof.PROJECT
    certain = not one.when and one.effect.value in GRAVE and proven and not from_text(facts)
    seen = facts.find(one.component)
    pair = " with ".join(f"{product(name)} {versions[name]}" for name in (one.component, *one.partners))
    commands = tuple(line for text_ in one.install for line in _installing(text_, facts, matrix))
    by_driver = any(text_.startswith(DRIVER) for text_ in one.install)
    return known_bad_combination.finding(
        instance=one.id,
        severity=Severity.WARNING if certain else Severity.INFO,
        layer=seen.layer if seen else Layer.LIBRARY,
        component=one.component,
        title=f"{pair} {WORDS[one.effect.value]}{f' when {one.when}' if one.when else ''}",
        detail=f"{one.what[:1].upper()}{one.what[1:]}.",
        because=tuple(
            Because(component=name, fact="version", value=versions[name], source=_source(name, facts))
            for name in (one.component, *one.partners)
        ),
        row=one.row,
        fix=fixes.advice(
            f"{fixes.place(facts) if by_driver else ''}{one.advice}",
            *commands,
            root=by_driver,
            reboot=by_driver,
            verify=sh("gpustack doctor"),
        ),
        confidence=Confidence.LIKELY if proven else Confidence.POSSIBLE,
    )


def _source(name: str, facts: Facts) -> str:
    seen = facts.find(name) or facts.find("packages")
    return seen.source if seen else ""


FIX = fixes.advice(
    "Update gpustack from where this one was installed; `gpustack matrix update` shows what the matrix lacks.",
    verify=sh("gpustack --version"),
)


@rule("newer-than-matrix", Layer.ENVIRONMENT, "gpustack", Severity.INFO, in_one_python=True)
def newer_than_matrix(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Something here is newer than the compatibility matrix knows.

    What the matrix does not know is never called fine and never called broken: the rules that need its rows stay
    silent. Update gpustack, or let gpustack matrix update show what the package index has that the matrix lacks.
    """
    yield from _drivers(facts, matrix)
    yield from _torch(facts, matrix)


def _drivers(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    release, newest = driver_release(facts) or user_release(facts), max(matrix.branches)
    if release and release.branch > newest and not facts.host.wsl:
        title = f"Driver {release} is from a branch that the matrix does not know yet (its newest is {newest})"
        yield _newer("nvidia-driver", Layer.DRIVER, title, because(facts, "nvidia-driver", "version"))


def _torch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    for build in builds(facts):
        if build.component == "pytorch" and build.copy.version:
            newest = max(matrix.torch_releases, key=numbers)
            if numbers(build.copy.version)[:2] > numbers(newest):
                title = f"{build.name} is newer than the newest release in the matrix ({newest})"
                ground = because_of(facts, "pytorch", build.copy, "version")
                yield _newer("pytorch", Layer.FRAMEWORK, title, ground, build.mark)


def _newer(component: str, layer: Layer, title: str, ground: Because, instance: str | None = None) -> Finding:
    return newer_than_matrix.finding(
        instance=instance,
        layer=layer,
        component=component,
        title=title,
        detail="Nothing that depends on it can be judged.",
        because=(ground,),
        fix=FIX,
    )


OLD_DAYS = 270  # PyTorch and the CUDA toolkit bring a minor release every two to three months: three are missing then


@rule("matrix-old", Layer.ENVIRONMENT, "gpustack", Severity.INFO)
def matrix_old(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The compatibility matrix is older than the machine that it judges.

    Recent releases are missing from it, so more and more of the machine is neither called fine nor called broken.
    Update gpustack.
    """
    age = _days(matrix.date, facts.taken)
    if age is not None and age > OLD_DAYS:
        yield matrix_old.finding(
            title=f"The compatibility matrix dates from {matrix.date}, {age} days before these facts were recorded",
            because=(Because(component="gpustack", fact="matrix_date", value=matrix.date, source="the matrix"),),
            fix=FIX,
        )


def _days(then: str, now: str) -> int | None:
    """Return the days from one date to another, None where either is none."""
    try:
        return (date.fromisoformat(now[:10]) - date.fromisoformat(then)).days
    except ValueError:
        return None


ALWAYS = ("pci-display",)
WITH_NVIDIA = ("nvml", "libcuda", "libnvidia-ml", "nvidia.ko", "nvidia-driver")
ABOVE = frozenset({Layer.RUNTIME, Layer.LIBRARY, Layer.FRAMEWORK})
AROUND = frozenset({"linux-kernel", "kernel-log", "python", "packages"})  # what the rules ask of besides
NEEDED = AROUND | {*FRAMEWORKS, "tensorflow"}  # of no maker of GPUs
# How a process ends that asks a broken library, and what the loader says of a file that is none.
DIED = re.compile(
    r"(?:was )?killed by |(?:gave )?no answer in |ended with (?:exit )?code |printed |closed its output"
    r"|still there after|the time was up|(?:it|gpustack) was interrupted|.*could (?:not )?be started"
    r"|.*(?:invalid ELF header|file too short|wrong ELF class|undefined symbol|Is a directory"
    r"|cannot read file data|cannot open shared object file: Too many|ELF load command)"
)
UNTOLD = "no reason was given"
ANSWERED = {"nvml": "code", "libcuda": "cu_init"}  # and the fact that each has as soon as it was asked


@rule(
    "component-not-seen",
    Layer.ENVIRONMENT,
    "gpustack",
    Severity.UNKNOWN,
    explained_by=("gpu-fell-off-bus", "gsp-timeout"),
)
def component_not_seen(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Something that a verdict depends on could not be examined.

    The probe crashed, was stopped because its time was up, or could not run. A driver that does not respond is usually
    stuck in the kernel: read the kernel's log, and look for processes in state D. A probe that failed on its own met a
    file that it cannot read, or has a bug: report it. What was not examined counts neither as healthy nor as faulty, so
    the verdict is unknown.
    """
    wanted = ALWAYS + (WITH_NVIDIA if nvidia_here(facts) or any_gpu(facts) is None else ())
    if nvidia_here(facts) and status(facts, "nvml") is not Status.FAILED:  # else the list of GPUs fails with NVML
        linked = gpus(facts)[1:] and status(facts, "gpu") is Status.PRESENT  # else the links fail with the GPUs
        wanted += ("gpu", "nvlink") if linked else ("gpu",)
    wanted += ("nvidia-uvm.ko",) if nvidia_here(facts) and starts(facts) is None else ()
    wanted += tuple(one.id for one in facts.components if one.id in WITH_NVIDIA and DIED.match(one.reason or ""))
    for seen in facts.components:
        if seen.id in wanted and seen.status in {Status.FAILED, Status.UNKNOWN} and not _explained(seen):
            errors = (text(copy.facts, "error") for copy in seen.instances)
            yield _unseen_finding(seen, seen.id, seen.reason or next(filter(None, errors), None) or UNTOLD)
    gpu = facts.find("gpu")
    for copy in gpu.instances if gpu else ():
        if gpu and copy.status is Status.FAILED and unasked(copy):
            yield _unseen_finding(gpu, f"gpu {copy.key}", text(copy.facts, "error") or UNTOLD)
    if nvidia_here(facts) and not from_text(facts) and not facts.host.wsl:
        yield from _silent(facts)
    if any_gpu(facts) and not from_text(facts):
        yield from _above(facts)


def _silent(facts: Facts) -> Iterator[Finding]:
    """Return what a machine with an NVIDIA GPU must answer and did not: its libraries, each GPU, and its NVLinks."""
    if not ours(facts) and not gpus(facts) and not driver_works(facts):
        return
    for name, fact in ANSWERED.items():
        seen, answers = facts.find(name), copies(facts, name)
        told_ = any(copy.status is Status.FAILED or at(copy.facts, fact) is not None for copy in answers)
        started = name == "libcuda" and starts(facts)  # by a framework that ran
        if not started and (seen is None or (seen.status is Status.PRESENT and not told_)):
            yield _no_answer(facts, name, name, fact)
    counted, without = number(told(facts, "nvml"), "gpu_count"), {None, Status.ABSENT, Status.NOT_APPLICABLE}
    if counted and status(facts, "gpu") in without:
        yield _no_answer(facts, "gpu", f"each of the {counted} GPUs that NVML counts", "name")
    linked = {name for copy in copies(facts, "nvlink") if items(copy.facts, "links") for name in _names(copy)}
    each = gpus(facts)[1:] and status(facts, "nvlink") in {
        None,
        Status.PRESENT,
        Status.ABSENT,
    }  # else said of all at once
    for gpu in gpus(facts):
        if gpu.copy.status is Status.PRESENT and not any(text(gpu.copy.facts, one) for one in ("name", "cc")):
            yield _no_answer(facts, "gpu", f"the GPU at {gpu.mark}", "name")
        if each and number(gpu.copy.facts, "nvlinks") and not linked & set(_names(gpu.copy)):
            yield _no_answer(facts, "nvlink", f"the NVLinks of the GPU at {gpu.mark}", "links")


def _names(copy: Instance) -> tuple[JsonValue, ...]:
    """Return what a GPU is called in the lists of GPUs and of NVLinks: its UUID, or its number."""
    return tuple(one for one in (copy.key, text(copy.facts, "uuid"), number(copy.facts, "index")) if one is not None)


def _no_answer(facts: Facts, component: str, name: str, fact: str) -> Finding:
    nothing = Component(id=component, layer=Layer.DRIVER, vendor="nvidia", status=Status.UNKNOWN)
    return _unseen_finding(facts.find(component) or nothing, name, f"these facts have no {component} {fact}")


def _above(facts: Facts) -> Iterator[Finding]:
    """Return what stands on the driver and could not be asked: one finding for all that failed in the same words."""
    makers = {maker for maker in MAKERS if on_bus(facts, maker) or copies(facts, f"{maker}-gpu")}
    makers |= {"any", *(("nvidia",) if nvidia_here(facts) else ())}
    alike: dict[str, list[Component]] = {}
    for seen in facts.components:
        if not _around(seen) or seen.vendor not in makers:
            continue
        for copy in seen.instances:
            error = text(copy.facts, "error") or ""
            if copy.status is Status.FAILED and copy.environment is None and DIED.match(error):
                yield _unseen_finding(seen, copy.path or copy.key, error)
            elif copy.status is Status.UNKNOWN and _lost(seen, text(copy.facts, "answer"), error):
                yield _unseen_finding(seen, f"{seen.id} in {copy.environment}", error or UNTOLD)
        if not seen.instances and _lost(seen, seen.status, seen.reason):
            alike.setdefault(seen.reason or UNTOLD, []).append(seen)
    for reason, group in alike.items():
        more = f" and {len(group) - 1} more" if group[1:] else ""
        yield _unseen_finding(group[0], group[0].id + more, reason)


def _around(seen: Component) -> bool:
    return seen.layer in ABOVE or seen.id in AROUND


def _lost(seen: Component, answer: str | None, reason: str | None) -> bool:
    """Return whether nothing was learnt of something that the verdict rests on; files alone need not tell all."""
    failed, unknown = answer == Status.FAILED, answer == Status.UNKNOWN
    needed = seen.vendor != "any" or seen.id in NEEDED
    died = bool(DIED.match(reason or ""))
    return (failed and (needed or died)) or (unknown and (died or (needed and not reason)))


def _unseen_finding(seen: Component, name: str, why: str) -> Finding:
    shown = product(seen.id) + name.removeprefix(seen.id) if name.startswith(seen.id) else name
    return component_not_seen.finding(
        instance=name,
        layer=seen.layer,
        component=seen.id,
        title=f"{shown} could not be examined: {why}",
        because=(Because(component=seen.id, fact="status", value=seen.status.value, source=seen.source),),
        fix=AGAIN if "was interrupted" in why else STUCK if DIED.match(why) or not _around(seen) else UNREADABLE,
    )


def _explained(seen: Component) -> bool:
    """Return whether it failed in words or a number of its own, which other rules speak of: of links none does."""
    told = (copy.facts.get(name) for copy in seen.instances for name in ("code", "cu_init", "error"))
    return seen.id != "nvlink" and any(told)


AGAIN = fixes.advice("Run gpustack again, and let it finish.", verify=sh("gpustack doctor"))
STUCK = fixes.advice(
    "Read what the kernel says, and look for processes that wait in it.",
    sh("sudo dmesg | grep -iE 'nvrm|xid|hung task'"),
    sh("ps -eo pid,stat,wchan:30,comm | awk '$2 ~ /D/'"),
    verify=sh("gpustack doctor"),
)
UNREADABLE = fixes.advice(
    "Its probe found something that it cannot read. If that is damaged, reinstall it; otherwise report this "
    "with a snapshot.",
    sh("gpustack snapshot"),
    verify=sh("gpustack doctor"),
)
