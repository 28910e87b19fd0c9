"""A program or wheel wants a newer C library than this system has.

glibc belongs to the distribution and cannot be taken from a package index: what was built on a newer one stops with
"version `GLIBC_2.32' not found". Take a build made for the older one (an older release, a manylinux2014 wheel, conda),
build it here, run it in a container, or upgrade the distribution. Do not copy another glibc over the system's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.extensions import of_file
from gpustack.diagnose.rules.frameworks import because_torch
from gpustack.diagnose.rules.reading import because, because_of, copies, text, told
from gpustack.diagnose.rules.saying import because_said, grounds, said
from gpustack.diagnose.rules.seen import builds
from gpustack.matrix.subjects.ranges import is_version, numbers
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message

ID = "glibc-too-old"
SAYS, TOLD, WHEEL = "glibc-too-old", "glibc-told", "wheel-not-supported"
MANYLINUX = re.compile(r"manylinux_(?P<major>\d+)_(?P<minor>\d+)_|manylinux(?P<year>1|2010|2014)_")
YEARS = {"1": "2.5", "2010": "2.12", "2014": "2.17"}


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the newest glibc that something wanted in vain."""
    spoken = [(needs, one) for one in said(facts, SAYS, TOLD) if is_version(needs := one.values.get("needs", ""))]
    if spoken:
        needs, newest = max(spoken, key=lambda one: numbers(one[0]))
        yield _finding(newest, needs.rstrip("."), facts, matrix)
        return
    for message in said(facts, WHEEL):
        least, here = wanted_by(message.values.get("wheel", "")), glibc(facts)
        if least and here and is_version(here) and numbers(here) < numbers(least):
            yield _finding(message, least, facts, matrix)
            return
    yield from _live(facts)


def _live(facts: Facts) -> Iterator[Finding]:
    """Give each build whose libraries want a newer glibc than its own Python runs on."""
    here = {copy.environment: text(copy.facts, "glibc") for copy in copies(facts, "python")}
    for build in builds(facts):
        needs, found = text(build.copy.facts, "glibc_needed"), here.get(build.copy.environment)
        if needs and found and is_version(needs) and is_version(found) and numbers(found) < numbers(needs):
            yield Finding(
                id=ID,
                instance=build.mark,
                severity=Severity.ERROR,
                layer=Layer.ENVIRONMENT,
                component="glibc",
                title=f"{build.name} wants glibc {needs} (GLIBC_{needs}), and here is glibc {found}",
                because=(
                    because_of(facts, build.component, build.copy, "glibc_needed"),
                    Because(component="python", fact="glibc", value=found, source=f"of {build.python}"),
                ),
                fix=_fix(needs, f"glibc {found}"),
            )


def glibc(facts: Facts) -> str | None:
    """Give the version of the C library here."""
    return text(told(facts, "python"), "glibc")


def wanted_by(wheel: str) -> str | None:
    """Give the oldest glibc on which a wheel may be installed, by its file name; of several tags the oldest."""
    found = [
        f"{match['major']}.{match['minor']}" if match["major"] else YEARS[match["year"]]
        for match in MANYLINUX.finditer(wheel)
    ]
    return min(found, key=numbers, default=None)


def _finding(message: Message, needs: str, facts: Facts, matrix: Matrix) -> Finding:
    here, system = glibc(facts), facts.host.os
    by = message.values.get("by") or message.values.get("wheel")
    who = _who(message, facts, matrix)
    has = f"glibc {here}" if here else "an older one"
    where = f" ({system})" if system else ""
    return Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="glibc",
        title=f"{who} wants glibc {needs} (GLIBC_{needs}), and this system has {has}{where}",
        detail=f"Wanted by {by}." if by else "",
        because=(because_said(message), *grounds(facts, SAYS, most=2), *_ground(facts), *because_torch(facts)),
        confidence=Confidence.CERTAIN if message.kind == SAYS else Confidence.LIKELY,
        fix=_fix(needs, has),
    )


def _fix(needs: str, has: str) -> Fix:
    return Fix(
        text=f"Run it in a container whose distribution has glibc {needs} or newer, upgrade the distribution, or "
        f"take a build made for {has} (an older release, a manylinux wheel for it, conda) or build it here.",
        commands=(
            sh("ldd --version  # the glibc of this system"),
            sh("docker run --rm -it --gpus all nvidia/cuda:12.6.3-devel-ubuntu24.04 ldd --version"),
        ),
        verify=sh("ldd --version"),
    )


def _who(message: Message, facts: Facts, matrix: Matrix) -> str:
    by = message.values.get("by") or ""
    if message.values.get("wheel"):
        return message.values["wheel"].partition("-")[0]
    if by:
        return of_file(by, facts, matrix).words if "/" not in by or "packages/" in by else by.rpartition("/")[2]
    found = re.search(r"\bin (?P<who>[A-Z]\w{2,30})\b", message.line)
    return found["who"] if found else "A program"


def _ground(facts: Facts) -> Iterator[Because]:
    if glibc(facts):
        yield because(facts, "python", "glibc")
    if facts.host.os:
        yield Because(component="host", fact="os", value=facts.host.os)
