"""The IOMMU, or access control (ACS) on PCI Express bridges, stands between the GPUs.

GPUs without NVLink between them copy to each other straight over the bus. With ACS redirection every such copy goes up
to the processor and back, and an IOMMU that translates may turn it away: NCCL then hangs, or copies arrive as zeros.
As long as nothing fails it is only slower, and on purpose where virtual machines are served. Else switch ACS off in the
firmware, and set the IOMMU to pass-through (iommu=pt).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import copies, items, number, text, texts, told
from gpustack.diagnose.rules.told_peers import told_peers
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

SEVERAL = 2
REDIRECTS = frozenset({"request-redirect", "completion-redirect"})


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where several GPUs have no NVLink: a warning only where the log shows copies turned away."""
    yield from told_peers(facts, matrix)
    iommu = told(facts, "iommu")
    cards = [text(one, "pci") or "" for one in items(iommu, "gpus")]
    bridges = [text(one, "pci") or "" for one in items(iommu, "bridges") if REDIRECTS & {*texts(one, "acs")}]
    translated = [text(one, "pci") or "" for one in items(iommu, "gpus") if _translates(text(one, "domain"))]
    if len(cards) < SEVERAL or not (bridges or translated) or _linked(facts) or facts.host.virtualisation:
        return
    faults = [
        line for line in texts(told(facts, "kernel-log"), "iommu_faults") if any(_short(one) in line for one in cards)
    ]
    ways = [f"ACS redirection on {', '.join(bridges)}"] if bridges else []
    ways += [f"an IOMMU that translates ({text(items(iommu, 'gpus')[0], 'domain') or 'DMA'})"] if translated else []
    grounds = [Because(component="iommu", fact="bridges", value=one, source="PCI configuration") for one in bridges]
    grounds += [Because(component="iommu", fact="gpus", value=one, source="sysfs") for one in translated]
    grounds += [Because(component="kernel-log", fact="iommu_faults", value=one) for one in faults[-1:]]
    yield Finding(
        id="iommu-acs-p2p",
        severity=Severity.WARNING if faults else Severity.INFO,
        layer=Layer.KERNEL,
        component="iommu",
        title=f"Between the {len(cards)} GPUs stands {' and '.join(ways[:1])}"
        + (", and copies were turned away" if faults else ""),
        detail="; ".join(ways),
        confidence=Confidence.LIKELY if faults else Confidence.POSSIBLE,
        because=tuple(grounds),
        fix=fixes.rebuild(
            facts,
            "Switch ACS off in the firmware, and set the IOMMU to pass-through (not where virtual machines get GPUs).",
            sh("# add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo update-grub"),
        ),
    )


def _translates(domain: str | None) -> bool:
    return bool(domain and domain.startswith("DMA"))


def _linked(facts: Facts) -> bool:
    """Tell whether the GPUs have NVLink, which goes past the bus."""
    return any((number(copy.facts, "active") or 0) > 0 for copy in copies(facts, "nvlink"))


def _short(pci: str) -> str:
    """Give an address as the log writes it: without its domain."""
    return pci.partition(":")[2] or pci
