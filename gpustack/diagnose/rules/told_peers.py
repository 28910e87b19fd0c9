"""IOMMU and access control between GPUs, as programs and people tell them: what iommu-acs-p2p has from texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import at, copies, told
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.diagnose.rules.seen import from_text, gpus
from gpustack.diagnose.rules.told_machine import machine, more
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

SEVERAL = 2
NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
MUCH = 2.0  # times slower with peer access than without it
HELPS = "p2p-off-helps-said"
SET = re.compile(r"iommu(?:\.passthrough)?=(?:pt|off|soft|1)\b")  # of the kernel's command line
WAYS = ("acs-redirect", "io-page-fault", "iommu-passthrough", "iommu-on", "acs-on")
DIRECT = ("peer-copy-wrong", "direct-only-said")  # copies fail on the straight way alone


def told_peers(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where IOMMU or ACS is on and work of several GPUs fails, or the library itself warns."""
    several = heard(facts, "gpus-talk") or len(gpus(facts)) >= SEVERAL
    fails = (heard(facts, "gpus-fail-together") and several) or heard(facts, "peer-copy-wrong")
    warned = heard(facts, "iommu-passthrough")
    turned_away = heard(facts, "io-page-fault") and several
    slower = _slower(facts)
    booted = fails and _booted_without(facts)
    if not (warned or turned_away or slower or booted or (fails and heard(facts, *WAYS, HELPS, *DIRECT))):
        return
    acs = heard(facts, "acs-redirect", "acs-on")
    way = "ACS redirection (PCI Express access control)" if acs else "the IOMMU"
    yield Finding(
        id="iommu-acs-p2p",
        severity=Severity.ERROR if fails or turned_away else Severity.WARNING,
        layer=Layer.KERNEL,
        component="iommu",
        title=f"Copies between GPUs (P2P) {f'are slower than without it ({slower})' if slower else 'go wrong'}: "
        f"{way} stands between them"
        if fails or turned_away or slower
        else "The IOMMU is not in pass-through mode (iommu=pt), which can hang copies between GPUs",
        detail=machine(
            facts,
            matrix,
            "With IOMMU or ACS in the way, P2P copies hang, crawl or arrive as zeros.",
            "The kernel was booted without iommu=pt, which AMD asks for with several GPUs." if booted else "",
        ),
        because=(
            *grounds(facts, *WAYS, HELPS, *DIRECT, "p2p-bandwidth", "p2p-speeds-said"),
            *grounds(facts, "gpus-fail-together", most=2),
            *more(facts),
        ),
        fix=fixes.rebuild(
            facts,
            "Set the IOMMU to pass-through (iommu=pt) or switch it off (intel_iommu=off, amd_iommu=off), and switch "
            "ACS off in the firmware or on the bridges (setpci); not where virtual machines get GPUs. Until then set "
            "NCCL_P2P_DISABLE=1.",
            sh("# add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo update-grub"),
            sh("sudo lspci -vvv | grep -i acsctl"),
        ),
        confidence=Confidence.CERTAIN
        if warned or turned_away
        else Confidence.LIKELY
        if slower or booted or heard(facts, *WAYS)
        else Confidence.POSSIBLE,
    )


def _booted_without(facts: Facts) -> bool:
    """Tell whether AMD GPUs were booted with a command line that says nothing of the IOMMU's mode."""
    words = at(told(facts, "linux-kernel"), "cmdline")
    if not from_text(facts) or not copies(facts, "amd-gpu") or not isinstance(words, tuple):
        return False
    return not any(isinstance(one, str) and SET.search(one) for one in words)


def _slower(facts: Facts) -> str | None:
    """Give the two bandwidths between GPUs, with and without peer access, where the first is much the lower."""
    for one in said(facts, "p2p-bandwidth"):
        on, off = _between(one.values.get("on", "")), _between(one.values.get("off", ""))
        if on and off and max(on) * MUCH < min(off):
            return f"{max(on):g} GB/s at most with P2P, {min(off):g} GB/s at least without"
    for one in said(facts, "p2p-speeds-said"):
        with_, without = (NUMBER.fullmatch(one.values.get(name, "")) for name in ("on", "off"))
        if with_ and without and float(with_[0]) * MUCH < float(without[0]):
            return f"{with_[0]} GB/s with P2P, {without[0]} GB/s without"
    return None


def _between(matrix: str) -> list[float]:
    """Give the numbers of a square matrix that are not on its diagonal; nothing where it is none."""
    rows = [re.findall(r"\d+(?:\.\d+)?", line) for line in matrix.split("\n")[1:]]
    return [
        float(number)
        for place, row in enumerate(rows)
        for column, number in enumerate(row[1:])
        if column != place and len(row) == len(rows) + 1
    ]
