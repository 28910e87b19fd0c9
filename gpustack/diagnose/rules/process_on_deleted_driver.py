"""A process on the GPU runs on a driver library whose file is no longer there: the driver was replaced under it.

A package update puts new files in the place of the old ones, and what was started before goes on with the old ones. It
works until it loads one more library of the driver, which is then of another release; and as long as it runs, the old
kernel module cannot be taken out of memory. Start it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import on_gpu
from gpustack.diagnose.rules.reading import because_of
from gpustack.diagnose.rules.seen import loaded_release, user_release
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

MOST_GROUNDS, MOST_COMMANDS = 4, 8


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:  # noqa: ARG001 - every rule is asked alike
    """Give one finding for all processes that have a deleted library of the driver mapped."""
    found = [copy for copy in on_gpu.processes(facts) if on_gpu.releases(copy)]
    if not found:
        return
    old = " and ".join(dict.fromkeys(release for copy in found for release in on_gpu.releases(copy)))
    installed, loaded = user_release(facts), loaded_release(facts)
    now = f" Installed now is {installed}." if installed else ""
    module = f" The module in memory is {loaded}." if loaded else ""
    many = "A process runs" if len(found) == 1 else f"{len(found)} processes run"
    yield Finding(
        id="process-on-deleted-driver",
        severity=Severity.WARNING,
        layer=Layer.APPLICATION,
        component=on_gpu.PROCESSES,
        title=f"{many} on files of driver {old} that are no longer there",
        detail=f"{on_gpu.listed(found)}. The driver's files were replaced after the start.{now}{module}",
        because=tuple(because_of(facts, on_gpu.PROCESSES, copy, "gone") for copy in found[:MOST_GROUNDS]),
        fix=Fix(
            text="Start each of them again when its work allows.",
            commands=tuple(dict.fromkeys(map(on_gpu.restart, found)))[:MOST_COMMANDS],
            verify=sh("gpustack doctor"),
        ),
    )
