"""A ROCm build has no code for this AMD GPU.

Code for AMD's GPUs is made for each target (gfx1030, gfx1100 …) and runs on that alone; builds carry those that AMD
supports. Other GPUs get "hipErrorNoBinaryForGpu", "HIP error: invalid device function" or "Cannot read
TensileLibrary.dat … for GPU arch". Take a build that has the target; where a near relative is supported, the variable
HSA_OVERRIDE_GFX_VERSION makes ROCm take the GPU for it, which AMD does not support and which often works.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import amd
from gpustack.diagnose.rules.frameworks import because_torch, installed, torch_version
from gpustack.diagnose.rules.reading import because, because_of, copies, table, text, texts, told, version
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.diagnose.rules.seen import builds
from gpustack.matrix.subjects import amd_intel
from gpustack.matrix.subjects.ranges import is_version, numbers
from gpustack.model.command import DOTTED, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.amd_intel import TorchRocmBuild
    from gpustack.model.facts import Facts, Message

ID = "rocm-gfx-unsupported"
CERTAIN = ("tensile-missing", "hip-no-binary", "hip-invalid-function", "ollama-amdgpu-unsupported")
PARTS = re.compile(
    r"flash|attention|fp8|hipblaslt|triton|composable|aotriton|miopen|warning|experimental", re.IGNORECASE
)
WHOLE = re.compile(r"supported by (?:this |the |your )?(?:ROCm|HIP|PyTorch|build)", re.IGNORECASE)
FAILS = ("gpu-unused-said", "cuda-available-false", "crash-said")
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
# Where no row names an override: the first target of each family, as AMD numbers them.
FAMILIES = {"gfx103": "10.3.0", "gfx110": "11.0.0", "gfx115": "11.0.0"}


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the AMD GPU for which a build has no code: by the words of programs, else by the build's own list."""
    if amd.gpus(facts):
        yield from _seen(facts, matrix)
        return
    gfx = target(facts, matrix)
    build = torch_build(facts, matrix)
    spoken = said(facts, "gfx-unsupported")
    named = _by_name(facts, matrix)
    complaints = [
        one
        for one in spoken
        if (WHOLE.search(one.line) or not PARTS.search(one.line)) and not (named and _about(one) not in named)
    ]
    gfx = min(named) if named and gfx not in named and not heard(facts, *CERTAIN) else gfx
    listed = gfx and build and build.archs and gfx not in build.archs
    overridden = text(table(told(facts, "environment"), "variables"), OVERRIDE)
    if heard(facts, *CERTAIN):
        yield _finding(facts, matrix, gfx, Confidence.CERTAIN)
    elif (
        (complaints and copies(facts, "amd-gpu") and not _of_others(facts))
        or (not overridden and (listed or (gfx and _left_alone(facts, matrix, gfx))))
        or (heard(facts, "gfx-override-said") and copies(facts, "amd-gpu"))
    ):
        yield _finding(facts, matrix, gfx, Confidence.LIKELY)


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each PyTorch for ROCm of a machine that was looked at which has no code for a GPU there."""
    here = amd.computing(facts)
    for build in builds(facts):
        tag = (build.copy.build or "").removeprefix("rocm")
        known = amd_intel.torch_build_of(matrix, build.copy.version or "", tag)
        archs = texts(build.copy.facts, "archs") or (known.archs if known else ())
        without = [gpu for gpu in here if gpu.gfx not in archs]
        if build.accelerator != "rocm" or not archs or not without or amd.override(facts) in archs:
            continue
        some = len(without) < len(here)
        aside = some and all(gpu.integrated for gpu in without)
        gpu = without[0]
        yield Finding(
            id=ID,
            instance=build.mark,
            severity=Severity.INFO if aside else Severity.WARNING if some else Severity.ERROR,
            layer=Layer.FRAMEWORK,
            component=build.component,
            title=f"{build.name} has no code for {gpu.title}",
            detail=f"It has code for {' '.join(archs)}."
            + (" Hide this GPU with HIP_VISIBLE_DEVICES where a program takes it first." if some else ""),
            because=(
                because_of(facts, build.component, build.copy, "version"),
                because_of(facts, build.component, build.copy, "archs"),
                because_of(facts, "amd-gpu", gpu.copy, "gfx"),
            ),
            row=known.row if known else None,
            confidence=Confidence.CERTAIN if texts(build.copy.facts, "archs") else Confidence.LIKELY,
            fix=_fix(gpu.gfx, matrix),
        )


def _left_alone(facts: Facts, matrix: Matrix, gfx: str) -> bool:
    """Tell whether somebody says that a program of ROCm does not use a GPU for which no usual build has code."""
    of_rocm = heard(facts, "rocm-named", "gfx-unsupported") or bool(version(facts, "rocm"))
    here = (torch_version(facts) or "").partition("+")[0]
    builds_ = [one for one in amd_intel.torch_builds(matrix) if one.archs and _until(one, here)]
    usual = any(gfx in one.archs for one in builds_)
    return of_rocm and bool(builds_ and copies(facts, "amd-gpu")) and not usual and heard(facts, *FAILS)


def _until(build: TorchRocmBuild, release: str) -> bool:
    """Tell whether a build is of this release of torch or an older one; any is where the release is not known."""
    return not is_version(release) or numbers(build.torch) <= numbers(release)


def _of_others(facts: Facts) -> bool:
    """Tell whether the only GPU that is named is NVIDIA's, so that a target is spoken of in general."""
    named_ = any(text(copy.facts, "name") for copy in copies(facts, "amd-gpu"))
    return bool(copies(facts, "gpu")) and not named_ and not version(facts, "rocm")


def _about(message: Message) -> str:
    return message.values.get("gfx") or message.values.get("gfx2") or ""


def _by_name(facts: Facts, matrix: Matrix) -> set[str]:
    """Give the targets of the GPUs here by their products' names: a text may speak of other GPUs besides."""
    found = (amd_intel.gfx_of(matrix, text(copy.facts, "name") or "") for copy in copies(facts, "amd-gpu"))
    return {one.gfx for one in found if one}


def target(facts: Facts, matrix: Matrix) -> str | None:
    """Give the target of the AMD GPU: as a message names it, as ROCm lists it, or by the product's name."""
    for one in said(facts, *CERTAIN, "gfx-unsupported"):
        named = one.values.get("gfx") or one.values.get("gfx2")
        if named:
            return named
    for copy in copies(facts, "amd-gpu"):
        gfx = text(copy.facts, "gfx")
        known = None if gfx else amd_intel.gfx_of(matrix, text(copy.facts, "name") or "")
        if gfx or known:
            return gfx or (known.gfx if known else None)
    return None


def torch_build(facts: Facts, matrix: Matrix) -> TorchRocmBuild | None:
    """Give what is known of the PyTorch for ROCm that is here."""
    match = re.match(r"(?P<torch>\d{1,4}\.\d{1,4})[^+]{0,80}\+rocm(?P<rocm>[\d.]{1,20}\d)$", torch_version(facts) or "")
    return amd_intel.torch_build_of(matrix, match["torch"], match["rocm"]) if match else None


def _finding(facts: Facts, matrix: Matrix, gfx: str | None, confidence: Confidence) -> Finding:
    name, build = _name(facts), torch_build(facts, matrix)
    what = _what(facts)
    gpu = " ".join(part for part in (name, f"({gfx})" if gfx and name else gfx) if part) or "this AMD GPU"
    listed = list(dict.fromkeys(one.values.get("gfx", "") for one in said(facts, "tensile-list")))
    archs = listed or (list(build.archs) if build else [])
    has = f"It has code for {' '.join(archs)}." if archs else ""
    return Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="rocm",
        title=f"{what} has no code for {gpu}",
        detail=has,
        because=(
            *grounds(facts, *CERTAIN, "gfx-unsupported", "gfx-override-said"),
            *_gpu(facts),
            *because_torch(facts),
        ),
        row=build.row if build else None,
        confidence=confidence,
        fix=_fix(gfx, matrix),
    )


def _what(facts: Facts) -> str:
    release = torch_version(facts)
    if release and ("rocm" in release or not heard(facts, "tensile-missing")):
        return f"PyTorch {release}"
    tensorflow = installed(facts, "tensorflow-rocm") or version(facts, "tensorflow")
    if tensorflow:
        return f"TensorFlow {tensorflow} for ROCm"
    found = version(facts, "rocm")
    of = f" of ROCm {found}" if found else ""
    return f"rocBLAS{of}" if heard(facts, "tensile-missing") else f"The ROCm build{of}"


def _name(facts: Facts) -> str | None:
    return next((name for copy in copies(facts, "amd-gpu") if (name := text(copy.facts, "name"))), None)


def _gpu(facts: Facts) -> Iterator[Because]:
    for copy in copies(facts, "amd-gpu")[:1]:
        yield because_of(facts, "amd-gpu", copy, "gfx")
        yield because_of(facts, "amd-gpu", copy, "name")
    if version(facts, "rocm"):
        yield because(facts, "rocm", "version")


def _fix(gfx: str | None, matrix: Matrix) -> Fix:
    row = amd_intel.override_of(matrix, gfx) if gfx else None
    value = (
        row.value if row else next((held for family, held in FAMILIES.items() if (gfx or "").startswith(family)), None)
    )
    having = [one for one in amd_intel.torch_builds(matrix) if gfx in one.archs]
    newest = f" The newest of PyTorch that has it: {having[-1].torch} for ROCm {having[-1].rocm}." if having else ""
    outcome = f" ({row.outcome})" if row else ""
    override = f" Or let ROCm take it for its nearest relative with {OVERRIDE}={value}{outcome}." if value else ""
    return Fix(
        text=f"Install a build with code for {gfx or 'this target'}, or build it for that.{newest}{override}",
        commands=(sh("export HSA_OVERRIDE_GFX_VERSION={value}", value=DOTTED(value)),)
        if value
        else (sh("rocminfo | grep gfx"),),
        verify=sh("python -c \"import torch; print(torch.ones(1, device='cuda'))\""),
    )
