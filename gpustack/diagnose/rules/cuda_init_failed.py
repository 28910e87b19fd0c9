"""CUDA does not start: cuInit, the first call of every CUDA program, answers with an error.

No CUDA program works until it succeeds. Mostly this follows from something deeper, which is then named as its cause. By
itself, its number says what to look at.
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
    """Give the finding where cuInit failed, or libcuda could not be loaded, although a GPU is here."""
    libcuda = told(facts, "libcuda")
    code, error = number(libcuda, "cu_init"), text(libcuda, "error")
    if not nvidia_here(facts) or (error is None and not code):
        return
    row = matrix.cuda_codes.get(code) if code else None
    said = f"error {code} {text(libcuda, 'cu_init_name') or ''}".rstrip() if code else "libcuda cannot be loaded"
    said = error or said if code == 0 else said  # it starts, and what comes next fails
    yield Finding(
        id="cuda-init-failed",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="libcuda",
        title=f"CUDA does not start: {said}",
        detail=row.meaning if row else error or "",
        because=(
            because(facts, "libcuda", "cu_init"),
            because(facts, "libcuda", "path"),
            because(facts, "libcuda", "error"),
        ),
        row=row.row if row else None,
        fix=Fix(
            text="Read what the driver said to the kernel's log.",
            commands=(sh("sudo dmesg | grep -iE 'nvrm|nvidia'"),),
            needs_root=True,
            verify=sh("gpustack doctor"),
        ),
    )
