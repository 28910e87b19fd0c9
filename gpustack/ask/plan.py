"""What else would work: the smallest change first, from another build of the same release to another GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.ask import commands
from gpustack.ask.given import made, put, where
from gpustack.ask.releases import Candidate, candidates
from gpustack.ask.search import Search, builds_of, may_forward, rank, wanted_cuda
from gpustack.ask.why import judge
from gpustack.diagnose.change_sets import change_set, place
from gpustack.diagnose.machine.inventory import capabilities, driver_release, on_windows
from gpustack.diagnose.machine.values import text, told
from gpustack.diagnose.requirements.versions import draw
from gpustack.matrix.subjects import amd_intel, drivers, toolkits, torch
from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.model.command import DOTTED, sh
from gpustack.model.matrix_answer import Alternative, Change, Compatibility
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.ask.why import Judged
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.versions import DriverRelease


def alternatives(search: Search) -> tuple[Alternative, ...]:
    """Return what would work better than the subject as it stands, the smallest change first."""
    if search.at.verdict is Compatibility.COMPATIBLE or not search.at.contracts:
        return ()
    finders = (_together, _wheels, _overrides, _versions, _compats, _drivers, _gpus)
    found: dict[str, Alternative] = {}
    for one in (one for find in finders for one in find(search)):
        found.setdefault(one.subject, one)
    return tuple(found.values()) or tuple(_with_driver(search))


def as_it_is(search: Search) -> tuple[Alternative, ...]:
    """Return the subject itself as the smallest of all changes, where it works."""
    if not rank(search.at):
        return ()
    subject = search.at.subject
    spec = next((one.spec for one in _rows(search) if one.version == subject.version), f"=={subject.version}")
    return (_made(Change.NONE, "nothing needs to change", search.at, spec, search),)


def _made(kind: Change, change: str, judged: Judged, spec: str, search: Search) -> Alternative:
    return Alternative(
        change=change,
        kind=kind,
        subject=commands.named(judged.subject, spec),
        verdict=judged.verdict,
        commands=commands.install(judged.subject, spec, search.facts, search.matrix),
    )


def _together(search: Search) -> Iterator[Alternative]:
    """Return what the doctor advises where something bound to torch is installed beside it: all of it in one set."""
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
    """Give other builds of the same release: those without limits first, the newest of them; with limits the oldest."""
    newest_first = [one for build in builds_of(search.at.subject, search) if (one := search.better(build))]
    native = [one for one in newest_first if one.verdict is Compatibility.COMPATIBLE]
    for one in (*native, *(one for one in reversed(newest_first) if one not in native)):
        change = f"another build of the same release: {one.subject.tag}"
        yield _made(Change.WHEEL, change, one, f"=={one.subject.version}", search)


def _versions(search: Search) -> Iterator[Alternative]:
    """Return other releases that work: the newest of a range that was asked for, else those nearest to the release.

    Where all of them work with limits alone, one without any follows.
    """
    offered: set[str] = set()
    native = False
    for one in _by_distance(search):
        minor = ".".join(one.version.split(".")[:2])
        enough = len(offered) >= search.versions
        if minor in offered or (enough and native):
            continue
        found = _release(search, one)
        if found and (not enough or found.verdict is Compatibility.COMPATIBLE):
            offered.add(minor)
            native = native or found.verdict is Compatibility.COMPATIBLE
            subject = found.subject
            build = f", build {subject.tag}" if subject.tag and subject.component in {"pytorch", "jax"} else ""
            yield _made(
                Change.VERSION, f"another release: {one.spec.removeprefix('==')}{build}", found, one.spec, search
            )


def _rows(search: Search) -> list[Candidate]:
    span = VersionRange.parse(search.subject.span)
    return [one for one in candidates(search.matrix, search.subject.component) if span.holds(one.version)]


def _by_distance(search: Search) -> list[Candidate]:
    rows, version = _rows(search), search.at.subject.version or ""
    here = version_of(version)
    others = [one for one in rows if version_of(one.version) != here]
    if not search.subject.exact or here is None:
        return others[::-1]
    newer = [one for one in others if (found := version_of(one.version)) and found > here]
    older = [one for one in others if one not in newer][::-1]
    pairs = [(place, 1, one) for place, one in enumerate(newer)] + [(place, 0, one) for place, one in enumerate(older)]
    return [one for _, _, one in sorted(pairs, key=lambda pair: pair[:2])]


def _release(search: Search, one: Candidate) -> Judged | None:
    """Return how another release is answered, in the build that an install takes or else in the best of its others."""
    subject = replace(search.subject, version=one.version)
    if subject.component == "pytorch":
        usual = torch.default_build(search.matrix, one.version)
        subject = replace(subject, tag=usual.tag if usual else None)
        tries = (subject, *builds_of(subject, search))
    else:
        tries = (subject,)
    found = [judged for build in tries if (judged := search.better(build))]
    best = max(map(rank, found), default=0)
    fitting = [judged for judged in found if rank(judged) == best]
    if not fitting:
        return None
    usual_or_native = fitting[0].subject == subject or fitting[0].verdict is Compatibility.COMPATIBLE
    return fitting[0] if usual_or_native else fitting[-1]


def _compats(search: Search) -> Iterator[Alternative]:
    """Return the compat package that carries the build on this driver: on Linux, for data-centre GPUs alone."""
    cuda, release = wanted_cuda(search), driver_release(search.facts)
    if cuda is None or release is None or on_windows(search.facts) or not may_forward(search):
        return
    for package in toolkits.compats_for(search.matrix, cuda, release.branch)[:1]:
        carried = made("libcuda", None, driver_cuda=package.cuda.major * 1000 + package.cuda.minor * 10)
        found = search.better(search.subject, put(search.facts, carried))
        if found:
            yield Alternative(
                change=f"a compat package beside driver {release}: {package.name} (data-centre GPUs only)",
                kind=Change.COMPAT,
                subject=package.name,
                verdict=found.verdict,
                commands=commands.compat(package.name),
            )


def _drivers(search: Search) -> Iterator[Alternative]:
    """Return the oldest newer driver that is enough, and the oldest that is so without limits."""
    wrong = [one for one in search.at.contracts if one.to == "nvidia-driver" and one.status is not Kept.OK]
    if search.subject.component == "nvidia-driver" or not wrong or on_windows(search.facts):
        return
    offered: list[Compatibility] = []
    for one in _upgrades(search):
        facts = put(search.facts, made("nvidia-driver", str(one)))
        found = search.better(search.subject, facts) if Compatibility.COMPATIBLE not in offered else None
        if found and found.verdict not in offered and _gpu_runs(facts, search.matrix):
            offered.append(found.verdict)
            yield Alternative(
                change=f"another driver: {one} or newer",
                kind=Change.DRIVER,
                subject=f"nvidia-driver>={one}",
                verdict=found.verdict,
                commands=commands.driver(str(one), search.facts, search.matrix),
            )


def _upgrades(search: Search) -> list[DriverRelease]:
    """Give the newer drivers to try: the floors of CUDA's families, that of the wanted minor, the last of branches."""
    above, cuda = driver_release(search.facts), wanted_cuda(search)
    native = search.matrix.native(cuda) if cuda else None
    tries = {one.last for one in drivers.branches(search.matrix) if one.last}
    tries |= {one.linux for one in search.matrix.families.values()} | ({native.driver} if native else set())
    return [one for one in sorted(tries) if above is None or one > above]


def _gpu_runs(facts: Facts, matrix: Matrix) -> bool:
    kinds = (one for one in draw(facts, matrix) if one.from_ == "gpu" and one.to == "nvidia-driver")
    return all(one.status is not Kept.BROKEN for one in kinds)


def _gpus(search: Search) -> Iterator[Alternative]:
    """Return the next newer GPU architecture that would do; an older one is no way out for who has a newer."""
    wrong = any("gpu" in {one.from_, one.to} and one.status is Kept.BROKEN for one in search.at.contracts)
    here = capabilities(search.facts)
    if search.subject.component == "gpu" or not wrong or not here:
        return
    for capability, arch in sorted(search.matrix.architectures.items(), key=lambda pair: pair[0]):
        newer = not arch.embedded and all(capability > one for one in here)
        facts = put(search.facts, made("gpu", None, cc=str(capability)))
        found = search.better(search.subject, facts) if newer else None
        if found:
            such = f", such as {arch.gpus[0]}" if arch.gpus else ""
            yield Alternative(
                change=f"another GPU: {capability.sm} ({arch.name}{such})",
                kind=Change.GPU,
                subject=capability.sm,
                verdict=found.verdict,
            )
            return


def _overrides(search: Search) -> Iterator[Alternative]:
    """Return the newest build for ROCm that takes an AMD GPU for its nearest relative, where a variable can say so."""
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


def _with_driver(search: Search) -> Iterator[Alternative]:
    """Return another build or release together with a newer driver, where neither of them alone would do."""
    told = search.facts.taken or driver_release(search.facts)
    if search.subject.component == "nvidia-driver" or on_windows(search.facts) or not told:
        return
    for one in _upgrades(search):
        facts = put(search.facts, made("nvidia-driver", str(one)))
        there = replace(search, facts=facts, at=judge(search.at.subject, facts, search.matrix))
        found = next((other for other in (*_wheels(there), *_versions(there))), None)
        if found and _gpu_runs(facts, search.matrix):
            typed = (*commands.driver(str(one), search.facts, search.matrix), *found.commands)
            change = f"{found.change}, and another driver: {one} or newer"
            yield replace(found, kind=Change.DRIVER, change=change, commands=typed)
            return
