"""What else would work: the smallest change first, from another build of the same release to another GPU."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from gpustack.ask import commands, ground
from gpustack.ask.given import made, put, where
from gpustack.ask.pairs import SERVERS
from gpustack.ask.search import Search, builds_of, by_distance, lasting, rank, rows
from gpustack.ask.subjects import install
from gpustack.ask.why import Judged, judge
from gpustack.diagnose import installing
from gpustack.diagnose.change_sets import change_set, place, with_torch
from gpustack.diagnose.machine.frameworks import embedded
from gpustack.diagnose.machine.inventory import driver_release, on_windows
from gpustack.diagnose.machine.values import text, told, version
from gpustack.matrix.subjects import amd_intel, serving, torch
from gpustack.matrix.subjects.ranges import VersionRange, minor
from gpustack.model.command import ADDRESS, DOTTED, requirement, sh, step
from gpustack.model.matrix_answer import Alternative, Change, Compatibility
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.ask.releases import Candidate
    from gpustack.ask.subjects import Subject
    from gpustack.model.facts import Facts


def alternatives(search: Search) -> tuple[Alternative, ...]:
    """Return what would work better than the unchanged subject, the smallest change first."""
    if search.at.verdict is Compatibility.COMPATIBLE or not search.at.contracts:
        return ()
    exact = search.at.verdict is Compatibility.LIMITED and search.subject.exact  # it works: no other release is needed
    releases = () if exact else (_versions,)
    wheels = (_jetson, _together, _wheels, _rocm)
    finders = (*wheels, ground.compilers, _toolkits, _in_wsl, *releases, _overrides, ground.pythons)
    found: dict[str, Alternative] = {}
    for one in (one for find in (*finders, ground.compats, ground.drivers, ground.gpus) for one in find(search)):
        found.setdefault(one.subject, one)
    return tuple(found.values()) or tuple(_beside(search)) or tuple(_with_driver(search)) or tuple(_with_python(search))


def as_it_is(search: Search) -> tuple[Alternative, ...]:
    """Return the unchanged subject as the smallest of all changes, if it works."""
    if not rank(search.at):
        return ()
    subject = search.at.subject
    spec = next((one.spec for one in rows(search) if one.version == subject.version), f"=={subject.version}")
    words = "nothing needs to change" if search.facts.taken or search.subject.exact else "this release works"
    return (_made(Change.NONE, words, search.at, spec, search),)


def _made(kind: Change, change: str, judged: Judged, spec: str, search: Search) -> Alternative:
    return Alternative(
        change=change,
        kind=kind,
        subject=commands.named(judged.subject, spec),
        verdict=judged.verdict,
        commands=commands.install(judged.subject, spec, search.facts, search.matrix),
    )


def _together(search: Search) -> Iterator[Alternative]:
    """Return the doctor's advice if something bound to torch is installed beside it: all of it as one set."""
    subject, environment = search.at.subject, where(search.facts)
    if subject.component != "pytorch" or not {*place(search.facts, environment).held} - {"torch"}:
        return
    change = change_set(search.at.facts, search.matrix, environment, besides=(subject.version or "", subject.tag or ""))
    found = search.better(replace(subject, version=change.torch, tag=change.tag)) if change else None
    if found:
        same = found.subject.version == subject.version
        words = f"another {'build of the same release' if same else f'release: {found.subject.version}, build'}"
        kind = Change.WHEEL if same else Change.VERSION
        yield _made(kind, f"{words} {found.subject.tag}", found, f"=={found.subject.version}", search)


def _wheels(search: Search) -> Iterator[Alternative]:
    """Yield other builds of the same release: the newest without limits first, then the oldest with limits."""
    builds = [one for one in builds_of(search.at.subject, search) if not _breaks(search, one)]
    newest_first = [one for build in builds if (one := search.better(build))]
    native = [one for one in newest_first if one.verdict is Compatibility.COMPATIBLE]
    for one in (*native, *(one for one in reversed(newest_first) if one not in native)):
        change = f"another build of the same release: {one.subject.tag}"
        yield _made(Change.WHEEL, change, one, f"=={one.subject.version}", search)


def _versions(search: Search) -> Iterator[Alternative]:
    """Return other releases that work: the newest in a requested range, otherwise those nearest to the release.

    If all of them work only with limits, one without any follows.
    """
    kind = Change.DRIVER if search.subject.component == "nvidia-driver" else Change.VERSION
    offered, native = set[str](), False
    for one in by_distance(search):
        minor = ".".join(one.version.split(".")[:2])
        enough = len(offered) >= search.versions
        if minor in offered or (enough and native):
            continue
        found = _release(search, one)
        found = None if found and _breaks(search, found.subject) else found
        if found and not _bound_to_none(found) and (not enough or found.verdict is Compatibility.COMPATIBLE):
            offered.add(minor)
            native = native or found.verdict is Compatibility.COMPATIBLE
            subject = found.subject
            build = f", build {subject.tag}" if subject.tag and subject.component in {"pytorch", "jax"} else ""
            yield _made(kind, f"another release: {one.spec.removeprefix('==')}{build}", found, one.spec, search)


def _breaks(search: Search, subject: Subject) -> bool:
    """Return whether something here that is bound to torch fits no such release: the doctor advises none then."""
    environment = where(search.facts)
    if subject.component != "pytorch" or not {*place(search.facts, environment).held} - {"torch"}:
        return False
    return with_torch(search.facts, search.matrix, environment, subject.version or "", subject.tag or "") is None


def _bound_to_none(found: Judged) -> bool:
    """Return whether a server compiled for one torch has no upper bound on it, being too old to declare one."""
    pins = (one.needs for one in found.contracts if one.kind == "torch" and one.from_ in SERVERS)
    return any("<" not in one and "==" not in one for one in pins)


def _release(search: Search, one: Candidate) -> Judged | None:
    """Return the answer for another release, in the build that an install picks or else the best of its others."""
    subject = replace(lasting(search), version=one.version)
    tries = [subject]
    if subject.component == "pytorch":
        usual = torch.default_build(search.matrix, one.version)
        subject = replace(subject, tag=usual.tag if usual else None)
        tries = [subject, *builds_of(subject, search)]
    found = [judged for build in tries if (judged := search.better(build))]
    best = max(map(rank, found), default=0)
    fitting = [judged for judged in found if rank(judged) == best]
    if not fitting:
        return None
    usual_or_native = fitting[0].subject == subject or fitting[0].verdict is Compatibility.COMPATIBLE
    return fitting[0] if usual_or_native else fitting[-1]


def _jetson(search: Search) -> Iterator[Alternative]:
    """Return NVIDIA's PyTorch build for the JetPack of a Jetson, which generic wheels do not support."""
    facts, subject = search.at.facts, search.at.subject
    wanted = subject.version if search.subject.exact else None
    if subject.component != "pytorch" or not embedded(facts):
        return
    found, typed = installing.jetson(facts, search.matrix, where(search.facts), wanted)
    if found:
        yield Alternative(
            change=f"the torch {found} that NVIDIA builds for its JetPack",
            kind=Change.WHEEL if found == wanted else Change.VERSION,
            subject=f"torch=={found}",
            verdict=Compatibility.COMPATIBLE,
            commands=typed,
        )


def _overrides(search: Search) -> Iterator[Alternative]:
    """Return the newest ROCm build that treats an AMD GPU as its nearest relative, if a variable allows it."""
    gfx = text(told(search.facts, "amd-gpu"), "gfx")
    known = amd_intel.override_of(search.matrix, gfx) if gfx else None
    if known is None or search.subject.component != "pytorch":
        return
    major, minor, stepping = known.value.split(".")
    relative = f"gfx{major}{minor}{int(stepping):x}"
    facts = put(search.facts, made("amd-gpu", None, name=relative, gfx=relative))
    there = replace(search, facts=facts, at=judge(search.at.subject, facts, search.matrix))
    found = next((one for one in (*as_it_is(there), *_wheels(there), *_versions(there))), None)
    if found:
        export = sh("export HSA_OVERRIDE_GFX_VERSION={value}", value=DOTTED(known.value))
        yield replace(
            found,
            kind=Change.WHEEL,
            change=f"a build for ROCm that treats the GPU as {relative}: {known.outcome}",
            verdict=Compatibility.LIMITED,
            commands=(*found.commands, export),
        )


def _rocm(search: Search) -> Iterator[Alternative]:
    """Return the server's own wheels for GPUs of AMD, which only its project's index has, for one Python."""
    gfx, python = text(told(search.facts, "amd-gpu"), "gfx"), version(search.facts, "python")
    known = serving.rocm_wheels(search.matrix, search.subject.component, gfx) if gfx else None
    if known is None or (python and minor(python) != known.python):
        return
    wanted = (requirement(known.component, f"=={known.version}+{known.variant}"),)
    typed = installing.install(search.facts, where(search.facts), wanted, at=ADDRESS(known.index), beside=True)
    of = {"python": DOTTED(known.python), "glibc": DOTTED(known.glibc), "rocm": DOTTED(known.rocm)}
    yield Alternative(
        change=f"the release for ROCm {known.rocm} that the project builds: {known.version}",
        kind=Change.VERSION,
        subject=f"{known.component}=={known.version}+{known.variant}",
        verdict=Compatibility.COMPATIBLE,
        commands=(
            typed,
            step(
                "these wheels are for Python {python}, glibc {glibc} or newer and ROCm {rocm}; they bring PyTorch", **of
            ),
        ),
    )


def _toolkits(search: Search) -> Iterator[Alternative]:
    """Return another toolkit for a program that nvcc compiles, if the one given does not compile for the GPU."""
    compiled = any(one.compiled for one in serving.programs_of(search.matrix, search.subject.component))
    toolkit = next((one for one in search.others if one.component == "cuda-toolkit"), None)
    if compiled and toolkit:
        others = tuple(one for one in search.facts.components if one.id != toolkit.component)
        facts = replace(search.facts, components=others)
        there = replace(search, subject=toolkit, facts=facts, at=judge(toolkit, facts, search.matrix))
        yield from _versions(there) if not rank(there.at) else ()


def _with_driver(search: Search) -> Iterator[Alternative]:
    """Return another build or release together with a newer driver, if neither alone would be enough.

    The driver is the oldest sufficient one. What runs with a driver also runs with each newer one that runs the GPU, so
    only a few need to be tried.
    """
    told = search.facts.taken or driver_release(search.facts)
    if search.subject.component == "nvidia-driver" or on_windows(search.facts) or not told:
        return
    newer = [(one, put(search.facts, made("nvidia-driver", str(one)))) for one in ground.upgrades(search)]
    tries = [(one, facts) for one, facts in newer if ground.gpu_runs(facts, search.matrix)]
    at = bisect_left(tries, 1, key=lambda one: int(packages(search, one[1]) is not None))
    found = packages(search, tries[at][1]) if at < len(tries) else None
    if found:
        driver = str(tries[at][0])
        typed = (*commands.driver(driver, search.at.facts, search.matrix), *found.commands)
        change = f"{found.change}, and another driver: {driver} or newer"
        yield replace(found, kind=Change.DRIVER, change=change, commands=typed)


def _beside(search: Search) -> Iterator[Alternative]:
    """Yield another release of what stands beside the subject, if nothing but the subject's requirement on it fails."""
    wrong = [one for one in search.at.contracts if one.status is Kept.BROKEN]
    other = next((one for one in search.others if wrong and one.component == wrong[0].to), None)
    if other is None or len(wrong) > 1 or wrong[0].kind not in {"requirement", "torch"}:
        return
    span = VersionRange.parse(wrong[0].needs.partition(" ")[2])
    there = replace(search, subject=other, at=replace(search.at, subject=other))
    for one in (one for one in by_distance(there) if span.holds(one.version)):
        usual = torch.default_build(search.matrix, one.version) if other.component == "pytorch" else None
        changed = replace(other, version=one.version, tag=usual.tag if usual else other.tag)
        found = search.better(
            search.at.subject, put(search.facts, install(changed, where(search.facts), search.matrix))
        )
        if found:
            words = f"another release of {other.name} beside it: {one.spec.removeprefix('==')}"
            yield _made(Change.VERSION, words, replace(found, subject=changed), one.spec, search)
            return


def _in_wsl(search: Search) -> Iterator[Alternative]:
    """Return what works in WSL 2 although it exists only for Linux; Windows' driver runs the GPU there."""
    wrong = [one for one in search.at.contracts if one.status is Kept.BROKEN]
    by_system = any(one.kind in {"system", "platform", "accelerator"} for one in wrong)
    if not by_system or not on_windows(search.facts) or search.facts.host.wsl:
        return
    facts = replace(search.facts, host=replace(search.facts.host, os="Linux", wsl=True))
    there = replace(search, facts=facts, at=judge(search.at.subject, facts, search.matrix))
    found = next(chain(as_it_is(there), _wheels(there), _versions(there)), None)
    if found:
        by_hand = step("type the first in PowerShell as an administrator, the other in the Linux that it installs")
        steps = (sh("wsl.exe --install"), *found.commands, by_hand)
        yield replace(found, kind=Change.SYSTEM, change=f"{found.subject} on Linux in WSL 2", commands=steps)


def packages(search: Search, facts: Facts) -> Alternative | None:
    """Return the smallest change of packages that would work with other facts."""
    there = replace(search, facts=facts, at=judge(search.at.subject, facts, search.matrix))
    return next(chain(_wheels(there), _versions(there)), None)


def _with_python(search: Search) -> Iterator[Alternative]:
    """Return the first plan for another Python, if this one is too old or too new for every plan."""
    for number, facts in ground.other_pythons(search):
        there = replace(search, facts=facts, at=judge(search.at.subject, facts, search.matrix))
        found = next(chain(_wheels(there), _versions(there), ground.drivers(there), _with_driver(there)), None)
        if found:
            change = f"another Python, {number}, and {found.change}"
            root = [one for one in found.commands if one.startswith("sudo ")]
            typed = (*root, *commands.python(number), *(one for one in found.commands if one not in root))
            kind = found.kind if found.kind is Change.DRIVER else Change.PYTHON
            yield replace(found, kind=kind, change=change, commands=typed, keeps="The GPU stays as it is.")
            return
