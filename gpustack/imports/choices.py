"""Statements of people that a thing is as they chose it: no GPU, the processor, a GPU on a cable."""

from __future__ import annotations

from gpustack.matrix.subjects.messages import Wording

CHOICES = (
    # No GPU is in the machine.
    Wording(
        kind="nvidia-absent-said",
        has="gpu",
        match=r"\b(?:CI|CI runner|runners?|laptop|notebook|MacBook|Mac|Raspberry Pi ?\d?|(?:head|login) node|build"
        r" (?:machine|server|host)|dev(?:elopment)? machine|cloud VM|VPS|NAS|(?:this|my|our) (?:machine|computer"
        r"|PC|server|host|box|VM|node|workstation|desktop)),? (?:(?:has|have|with|there is) no|(?:is )?without(?: an?"
        r"| any)?) (?:NVIDIA |CUDA |discrete |dedicated )?GPUs?\b"
        r"(?! (?:driver|access|support|memory|passed|visible|listed))",
    ),
    # No GPU is in the machine.
    Wording(
        kind="nvidia-absent-said",
        has="gpu",
        match=r"\bon a (?:machine|laptop|computer|PC|server|host|VM|notebook|node) without (?:an? |any )?(?:NVIDIA "
        r"|CUDA )?GPUs?\b|\bGPU-less (?:machine|laptop|VM|server|host|node|box)\b|\b(?:GitHub Actions|ubuntu-latest"
        r"|Raspberry Pi)\b[^\n.;]{0,24}\bno GPU\b",
    ),
    # No GPU is in the machine.
    Wording(
        kind="nvidia-absent-said",
        has="cpu",
        match=r"\b(?:this|it|mine|my (?:machine|server|laptop)|the (?:machine|server|host))(?: is|'s) an? CPU[- ]only"
        r" (?:machine|server|host|laptop|box|node|VM|runner|instance|PC|computer)\b",
    ),
    # The processor was chosen.
    Wording(
        kind="cpu-meant-said",
        has="purpose",
        match=r"(?:\bCPU\b|_VISIBLE_DEVICES\b|\b(?:no|without(?: a| the)?) GPU\b|\bFalse\b|\bwith CUDA"
        r" enabled\b)[^\n.;]{0,60}\bon purpose\b|\bon purpose\b[^\n.;]{0,60}\b(?:CPU|(?:no|without(?: a| the)?)"
        r" GPU)\b",
    ),
    # The processor was chosen.
    Wording(
        kind="cpu-meant-said",
        has="deliberate",
        match=r"\b(?:CPU|without (?:a |the )?GPU|False)\b[^\n.;]{0,60}\bdeliberately\b|\bdeliberately\b[^\n.;]{0,60}"
        r"\b(?:CPU|without (?:a |the )?GPU)\b",
    ),
    # The processor was chosen.
    Wording(
        kind="cpu-meant-said",
        has="intentional",
        match=r"\b(?:CPU|without (?:a |the )?GPU|False)\b[^\n.;]{0,60}(?<!un)intentional(?:ly)?\b|(?<!un)intentional"
        r"(?:ly)?\b[^\n.;]{0,60}\b(?:CPU|without (?:a |the )?GPU)\b",
    ),
    # The processor was chosen.
    Wording(
        kind="cpu-meant-said",
        has="as it should",
        match=r"\b(?:CPU|False),? as it should(?: be)?\b",
    ),
    # The GPU stands outside, on a cable of four lanes.
    Wording(kind="gpu-outside-said", has="egpu", match=r"\beGPUs?\b"),
    Wording(kind="gpu-outside-said", has="thunderbolt", match=r"\bThunderbolt\b"),
    Wording(kind="gpu-outside-said", has="oculink", match=r"\bOCuLink\b"),
)
