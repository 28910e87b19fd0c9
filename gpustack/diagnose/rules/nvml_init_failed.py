"""NVML, the driver's management library, does not start.

nvidia-smi and everything that lists GPUs go through it. Mostly this follows from something deeper, which is then named
as its cause. By itself, its number says what to look at; the kernel's log has the driver's own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because, number, text, told
from gpustack.diagnose.rules.seen import nvidia_here
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where NVML answered with an error although a GPU is here."""
    code, error = number(told(facts, "nvml"), "code"), text(told(facts, "nvml"), "error")
    if code == 0 or (code is None and error is None) or not nvidia_here(facts):
        return
    row = matrix.nvml_codes.get(code) if code else None
    name = text(told(facts, "nvml"), "code_name") or (row.name if row else "")
    yield Finding(
        id="nvml-init-failed",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvml",
        title=f"NVML does not start: error {code} {name}".rstrip() if code else "libnvidia-ml cannot be loaded",
        detail=(row.advice or row.meaning) if row else error or "",
        because=(because(facts, "nvml", "code"), because(facts, "nvml", "error")),
        row=row.row if row else None,
        fix=Fix(
            text="Read what the driver said to the kernel's log.",
            commands=(sh("sudo dmesg | grep -iE 'nvrm|nvidia'"),),
            needs_root=True,
            verify=sh("nvidia-smi"),
        ),
    )
