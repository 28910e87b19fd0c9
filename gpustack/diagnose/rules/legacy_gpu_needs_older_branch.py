"""The installed driver no longer runs this GPU.

Each driver branch leaves old architectures behind: Kepler ended with branch 470, Maxwell, Pascal and Volta with 580.
The driver here is of a later branch, loads, and passes the GPU over. Install the last branch that runs it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, because_of, number, status, told
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said, value
from gpustack.diagnose.rules.seen import arch_on_bus, disk_release, driver_release, gpus, listed, on_windows, ours
from gpustack.diagnose.rules.told_machine import architecture, branch_of, cards, device, machine, more, works
from gpustack.diagnose.rules.told_machine import release as named_release
from gpustack.matrix.subjects import gpus as products
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


SAID = ("legacy-gpu", "driver-ignores-gpu")
QUIET = frozenset({"driver-named", "driver-branch-named"})
FAILS = (
    *("smi-no-devices", "nvml-not-loaded", "no-device", "no-nvidia-gpu", "no-driver-found"),
    *("module-out-said", "legacy-gpu-said", "gpu-unused-said", "cuda-fails-said", "insufficient-driver"),
    *("module-no-device", "rminit-failed"),
)


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU whose last branch is older than the driver and that the driver does not list."""
    found = tuple(_seen(facts, matrix))
    yield from found
    if not found and not works(facts):
        yield from _told(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the kernel says it, or a GPU is named that this branch has left and that fails."""
    release = named_release(facts)
    refused = said(facts, "gpu-not-in-release")
    arch = (device(refused[0], matrix)[1] if refused else None) or architecture(facts, matrix)
    span = matrix.span(arch) if arch else None
    told_branch = value(facts, "legacy-gpu", "branch", "branch2") or value(
        facts, "legacy-gpu-said", "branch", "branch2"
    )
    last = branch_of(told_branch) or (span.last if span else _last_of_either(facts, matrix))
    left = last is not None and (branch_of(release) or 0) > last
    suspect = left and not on_windows(facts) and (heard(facts, *FAILS, "gpu-not-in-release") or _alone(facts, matrix))
    if not (heard(facts, *SAID) or suspect):
        return
    gpu = value(facts, "legacy-gpu", "gpu") or ", ".join(cards(facts, matrix)) or (f"{arch} GPU" if arch else "GPU")
    yield Finding(
        id="legacy-gpu-needs-older-branch",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"{f'Driver {release}' if release else 'This driver'} no longer runs the {gpu}"
        + (f"; branch {last} (the {last}.xx legacy driver) is its last" if last else ""),
        detail=machine(facts, matrix),
        because=(
            *grounds(facts, *SAID),
            *map(because_said, refused[:1]),
            *grounds(facts, *FAILS, most=2),
            *more(facts),
        ),
        row=span.row if span and span.last == last else None,
        fix=fixes.rebuild(
            facts,
            f"Install branch {last} of the driver." if last else "Install the branch that the kernel's log names.",
            *fixes.driver(facts, matrix, last),
        ),
        confidence=Confidence.CERTAIN if heard(facts, *SAID) else Confidence.LIKELY,
    )


def _alone(facts: Facts, matrix: Matrix) -> bool:
    """Tell whether all that is told is one NVIDIA GPU and a driver: nothing else then is asked about."""
    others = facts.messages and any(one.kind not in QUIET for one in facts.messages)
    return len(gpus(facts)) == 1 and not others and not products.ambiguity_of(matrix, gpus(facts)[0].name)


def _last_of_either(facts: Facts, matrix: Matrix) -> int | None:
    """Give the last branch of a GPU whose name stands for two architectures: that of the newer one."""
    shared = (found for gpu in gpus(facts) if (found := products.ambiguity_of(matrix, gpu.name)))
    why = next((one.why for one in shared), "")
    ends = [span.last for span in map(matrix.span, re.findall(r"\b[A-Z][a-z]{4,}\b", why)) if span and span.last]
    newer = re.search("Turing|Ampere|Ada|Blackwell", why)
    return None if newer else max(ends, default=None)


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU of a machine that was looked at."""
    release = driver_release(facts) or disk_release(facts)
    if number(told(facts, "nvml"), "code") is None and status(facts, "nvml") is not Status.ABSENT:
        return
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        span = matrix.span(arch) if arch else None
        if not (release and span and span.last and span.last < release.branch) or listed(facts, copy.key):
            continue
        yield Finding(
            id="legacy-gpu-needs-older-branch",
            instance=copy.key,
            severity=Severity.ERROR,
            layer=Layer.DRIVER,
            component="nvidia-driver",
            title=f"Driver {release} no longer runs the {arch} GPU at {copy.key}; branch {span.last} is its last",
            because=(because_of(facts, "pci-display", copy, "device_id"), because(facts, "nvidia-driver", "version")),
            row=span.row,
            fix=fixes.rebuild(
                facts, f"Install branch {span.last} of the driver.", *fixes.driver(facts, matrix, span.last)
            ),
        )
