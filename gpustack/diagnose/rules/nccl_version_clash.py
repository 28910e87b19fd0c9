"""The NCCL that a framework loads is not the one that it was built with.

NCCL carries what several GPUs say to each other. An older one lacks functions that the framework calls (undefined
symbol: ncclMemFree, ncclCommRegister …), or fails once a second GPU takes part. It comes from LD_LIBRARY_PATH, from the
system, or from a second wheel: nvidia-nccl-cu11, -cu12 and -cu13 write the same file, and the last one installed stays.
Keep one of them, of the version that the framework requires, and take others off the loader's path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.foreign import lacking, off_path, path_grounds, removed
from gpustack.diagnose.rules.libraries import clash
from gpustack.diagnose.rules.overwritten import Overwritten, overwritten
from gpustack.diagnose.rules.reading import because, table
from gpustack.diagnose.rules.reading import told as told_
from gpustack.diagnose.rules.saying import because_said, grounds, heard, holding, value
from gpustack.diagnose.rules.seen import builds
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import SOME_PYTHON, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.diagnose.rules.foreign import Lacking
    from gpustack.diagnose.rules.libraries import Clash
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

ID, FILE = "nccl-version-clash", "libnccl.so"
REFUSED = ("nccl-too-old", "nccl-mismatch")
SEVERAL = 2
VERIFY = sh('python -c "import torch; print(torch.cuda.nccl.version())"')


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework that uses an older NCCL than its own, and each NCCL that two wheels have written."""
    found = list(_seen(facts))
    yield from found or _said(facts)


def _said(facts: Facts) -> Iterator[Finding]:
    """Give what NCCL or the loader says of an older copy, with the wheels and versions that are spoken of."""
    lack = lacking(facts, "nccl")
    wheels = _wheels(facts)
    complained = bool(lack) or heard(facts, *REFUSED)
    if not complained and len(wheels) < SEVERAL:
        return
    built, found = (value(facts, "nccl-too-old", name) for name in ("built", "found"))
    named = [
        one.values["version"]
        for one in holding(facts, "library-version", "version", "library")
        if "nccl" in one.values["library"].lower()
    ]
    versions = sorted({one for one in (built, found, *named) if one}, key=numbers)
    both = " and ".join(f"{name} {number}" for name, number in wheels.items()) if len(wheels) >= SEVERAL else ""
    spelled = both or " and ".join(versions)
    symbol = f": the one that is loaded has no {lack[0].symbol}" if lack else ""
    told = heard(facts, "wheels-two-majors")
    yield Finding(
        id=ID,
        severity=Severity.ERROR if complained else Severity.INFO,
        layer=Layer.LIBRARY,
        component="nccl",
        title=f"Two NCCL releases are here{f' ({spelled})' if spelled else ''}{symbol}",
        detail=f"{_asking(lack)}A framework loads one libnccl.so.2. "
        + (
            "nvidia-nccl-cu11, -cu12 and -cu13 write the same file, and the last one installed stays."
            if both or told
            else "An older one of the system, of an image, or of another package is loaded first."
        ),
        confidence=Confidence.CERTAIN if complained and spelled else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in lack[:2]),
            *grounds(facts, *REFUSED, most=2),
            *(because(facts, "packages", "distributions", name) for name in wheels),
            *(grounds(facts, "library-version", most=2) if not wheels else ()),
            *path_grounds(facts),
        ),
        fix=removed(SOME_PYTHON, *wheels, keep=(kept := _kept(wheels)), version=wheels[kept])
        if both
        else off_path(facts, "NCCL", VERIFY),
    )


def _asking(lack: Sequence[Lacking]) -> str:
    return f"{lack[0].asking} was built with a newer NCCL. " if lack and lack[0].asking else ""


def _wheels(facts: Facts) -> dict[str, str]:
    held = table(told_(facts, "packages"), "distributions")
    return {name: str(held[name]) for name in sorted(held) if name.startswith("nvidia-nccl")}


def _kept(wheels: dict[str, str]) -> str:
    """Give the wheel to keep: the newest, for an older NCCL is what frameworks complain of."""
    return max(wheels, key=lambda one: numbers(wheels[one]))


def _seen(facts: Facts) -> Iterator[Finding]:
    clashes = [clash(build, "libnccl", "nccl", "nvidia-nccl", facts) for build in builds(facts)]
    older = {found.build.mark: found for found in clashes if found and found.older}
    for one in overwritten(facts):
        if one.named(FILE) and not (one.severity is Severity.INFO and one.mark in older):
            yield _written(one)
    yield from map(_older, older.values())


def _older(found: Clash) -> Finding:
    build = found.build
    return Finding(
        id=ID,
        instance=build.mark,
        severity=Severity.WARNING if build.ran_on_gpu else Severity.ERROR,
        layer=Layer.LIBRARY,
        component="nccl",
        title=f"{build.name} {found.one.how} NCCL {found.found} and was built with {found.own}",
        detail=f"In use: {found.one.path}.",
        confidence=Confidence.CERTAIN if found.one.loaded else Confidence.LIKELY,
        because=found.because,
        fix=found.fix,
    )


def _written(one: Overwritten) -> Finding:
    return Finding(
        id=ID,
        instance=one.mark,
        severity=one.severity,
        layer=Layer.LIBRARY,
        component="nccl",
        title=f"{' and '.join(one.owners)} both write {one.file}: {one.whose}",
        detail=one.detail,
        because=one.because,
        fix=one.fix,
    )
