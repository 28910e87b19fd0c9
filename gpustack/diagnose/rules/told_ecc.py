"""Memory errors that ECC could not correct, as programs and people tell them: what gpu-ecc-error has from texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.events import xids
from gpustack.diagnose.rules.saying import because_said, said
from gpustack.diagnose.rules.told_machine import machine, more, whole, xids_named
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

SAID = ("ecc-uncorrectable", "ecc-count", "remap-failed", "ras-uncorrectable")
XIDS = (48, 64, 94, 95, 140)
NONE = re.compile(r"\b(?:0|no|zero|without) (?:[a-z]+ )?(?:uncorrectable|uncorrected|double[- ]bit)", re.IGNORECASE)


def told_ecc(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a text has an uncorrectable memory error."""
    counted = (one for one in said(facts, *SAID) if not NONE.search(one.line))
    wrong = (*counted, *xids_named(facts, *XIDS))
    if not wrong or any(True for _ in xids(facts, *XIDS)):
        return  # the log has it by GPU
    code = next((whole(one.values.get("code")) for one in xids_named(facts, *XIDS)), None)
    row = matrix.xids.get(code) if code else matrix.cuda_codes.get(214)
    pci = next((one.values["pci"] for one in wrong if one.values.get("pci")), None)
    amd = any(one.kind == "ras-uncorrectable" for one in wrong)
    asked = sh("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT")
    show = sh("sudo dmesg | grep -i ras") if amd else asked
    yield Finding(
        id="gpu-ecc-error",
        severity=Severity.ERROR,
        layer=Layer.HARDWARE,
        component="gpu",
        title=f"{f'The GPU at {pci}' if pci else 'A GPU'} has uncorrectable memory errors (ECC"
        + (f", Xid {code})" if code else ")"),
        detail=machine(facts, matrix, "Its memory is damaged, or a bit was hit once; the program is not at fault."),
        because=(*map(because_said, wrong[:4]), *more(facts)),
        row=row.row if row else None,
        fix=Fix(
            text=f"{fixes.place(facts)}Find the GPU by its counters, stop its programs and reset it, or restart the "
            "machine. If errors come back or remapping failed, have the board exchanged.",
            commands=(show, *(() if amd else (sh("# sudo nvidia-smi --gpu-reset -i INDEX, that of the list"),))),
            needs_root=True,
            verify=show,
        ),
    )
