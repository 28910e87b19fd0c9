"""torch and torchvision (or torchaudio) are of releases, or of builds, that do not belong together.

torchvision and torchaudio are compiled against exactly one release of torch. With another, their operators are missing
("operator torchvision::nms does not exist"), their libraries do not load (undefined symbol), or they notice another
CUDA. It comes from installing one of them alone, or each from another index. Install all in one command from one index.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.fixes import TORCH_INDEX
from gpustack.diagnose.rules.frameworks import (
    because_package,
    because_torch,
    distributions,
    installed,
    torch,
    torch_version,
)
from gpustack.diagnose.rules.linking import TORCH, symbol_owner
from gpustack.diagnose.rules.reading import text
from gpustack.diagnose.rules.saying import grounds, heard, said, value
from gpustack.diagnose.rules.unfitting import unfitting
from gpustack.matrix.subjects import torch as rows
from gpustack.matrix.subjects.ranges import is_version, minor, within
from gpustack.model.command import ADDRESS, BUILD_TAG, DISTRIBUTION, MODULE, NOTHING, code, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.unfitting import Unfitting
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.torch import Companions
    from gpustack.model.facts import Facts, Message

ID = "torch-torchvision-mismatch"
VISION = ("torchvision-nms", "torchvision-cpu", "torchvision-circular", "torchvision-load", "torchvision-cuda-mismatch")
AUDIO = ("torchaudio-load",)
PACKAGES = ("torchvision", "torchaudio", "torchtext")
LAST_AUDIO = "2.11"  # since then one torchaudio serves every torch
PLAIN = re.compile(r"\d+\.\d+\.\d+(?:\.post\d+)?(?:\+(?:cu\d+|cpu|rocm[\d.]+|xpu))?")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the package that does not belong to this torch: by the words of programs, else by their releases."""
    if _sources(facts, matrix):
        return
    lacking = {one.extension.name: one for one in unfitting(facts, matrix)}
    package = next((name for name in PACKAGES if _complained(facts, name) or name in lacking), None)
    if package:
        yield _finding(facts, matrix, package, Severity.ERROR, lacking.get(package))
        return
    for name in ("torchvision", "torchaudio"):
        if _apart(facts, matrix, name):
            yield _finding(facts, matrix, name, Severity.WARNING)


def _sources(facts: Facts, matrix: Matrix) -> bool:
    """Tell whether sources of torchvision are imported in the place of a package that belongs to this torch."""
    release, found = torch_version(facts), installed(facts, "torchvision")
    made = _made_for(matrix, "torchvision", found) if found else None
    return bool(heard(facts, "hub-vision") and release and made and minor(made.torch) == minor(release))


def _complained(facts: Facts, package: str) -> bool:
    kinds = {"torchvision": VISION, "torchaudio": AUDIO}.get(package, ())
    named = [
        one for one in said(facts, "torchvision-cuda-mismatch") if one.values.get("package", "").lower() == package
    ]
    conflict = any(
        one.values.get("package", "").replace("_", "-") == package for one in said(facts, "pip-torch-conflict")
    )
    other = [kind for kind in kinds if kind != "torchvision-cuda-mismatch"]
    return heard(facts, *other) or bool(named) or conflict or bool(_symbols(facts, package))


def _symbols(facts: Facts, package: str) -> tuple[Message, ...]:
    """Give the symbols of torch that a library of this package lacks."""
    return tuple(
        one
        for one in said(facts, "undefined-symbol")
        if package in one.line and symbol_owner(one.values.get("symbol", "")) == TORCH
    )


def _apart(facts: Facts, matrix: Matrix, package: str) -> bool:
    """Tell whether plain releases of both are listed that belong to different minor releases of torch."""
    release, found = torch_version(facts), installed(facts, package)
    if not (release and found and PLAIN.fullmatch(release) and PLAIN.fullmatch(found)):
        return False
    made = _made_for(matrix, package, found)
    if package == "torchaudio" and within(found, f">={LAST_AUDIO}"):
        return False  # it pins no torch any more
    return bool(made and rows.release_of(matrix, release) and minor(made.torch) != minor(release) and _pinned(made))


def _pinned(made: Companions) -> bool:
    return made.pin.startswith("==")


def _made_for(matrix: Matrix, package: str, version: str) -> Companions | None:
    if package == "torchvision":
        return rows.torch_for_torchvision(matrix, version)
    return rows.torch_for_torchaudio(matrix, version) if package == "torchaudio" else None


def _finding(
    facts: Facts, matrix: Matrix, package: str, severity: Severity, lacking: Unfitting | None = None
) -> Finding:
    release = torch_version(facts) or value(facts, "pip-torch-conflict", "found")
    found = installed(facts, package) or _conflicting(facts, package)
    other, own = value(facts, "torchvision-cuda-mismatch", "found"), value(facts, "torchvision-cuda-mismatch", "torch")
    cudas = f" (CUDA {own} and CUDA {other})" if other and own else ""
    made = _made_for(matrix, package, found) if found else None
    right = rows.companions(matrix, release) if release and is_version(release) else None
    return Finding(
        id=ID,
        instance=package,
        severity=severity,
        layer=Layer.FRAMEWORK,
        component=package,
        title=f"torch {release or 'here'} and {package} {found or 'here'} do not belong together{cudas}",
        detail=" ".join([*_details(package, found, made, right, release), *_lacks(lacking)]),
        because=(
            *grounds(facts, *VISION, *AUDIO, "pip-torch-conflict"),
            *(lacking.because(facts) if lacking else ()),
            *grounds(facts, *(("undefined-symbol",) if _symbols(facts, package) else ()), most=2),
            *because_torch(facts),
            *because_package(facts, package),
        ),
        row=right.row if right else made.row if made else None,
        confidence=Confidence.CERTAIN if severity is Severity.ERROR else Confidence.LIKELY,
        fix=_fix(facts, package, right, own),
    )


def _lacks(lacking: Unfitting | None) -> Iterator[str]:
    """Give what its own file says that it misses."""
    if lacking:
        file = (lacking.files[0].path or "").rpartition("/")[2]
        yield f"{file} wants {lacking.symbol or lacking.library}, which this torch does not offer."


def _conflicting(facts: Facts, package: str) -> str | None:
    return next(
        (
            one.values.get("version")
            for one in said(facts, "pip-torch-conflict")
            if one.values.get("package") == package
        ),
        None,
    )


def _details(
    package: str, found: str | None, made: Companions | None, right: Companions | None, release: str | None
) -> Iterator[str]:
    if made:
        yield f"{package} {found} was made for torch {made.torch}."
    fitting = _of(right, package)
    if right and fitting:
        yield f"torch {right.torch} goes with {package} {fitting}."
    elif release is None:
        yield f"Each release of {package} is compiled against one release of torch."


def _of(right: Companions | None, package: str) -> str | None:
    if right is None:
        return None
    return {"torchvision": right.torchvision, "torchaudio": right.torchaudio}.get(package)


def _fix(facts: Facts, package: str, right: Companions | None, cuda: str | None) -> Fix:
    build = torch(facts)
    tag = build.copy.build if build and build.copy.build else f"cu{cuda.replace('.', '')}" if cuda else None
    known = sh("--index-url {index}/{tag}", index=ADDRESS(TORCH_INDEX), tag=BUILD_TAG(tag))
    index = known if BUILD_TAG.holds(tag) else NOTHING
    fitting = _of(right, package)
    pins = {"torch": right.torch, package: fitting} if right and fitting else {"torch": None, package: None}
    wanted = [requirement(name, f"=={release}" if release else "") for name, release in pins.items()]
    if package != "torchaudio" and text(distributions(facts), "torchaudio") and not fitting:
        wanted.append(requirement("torchaudio"))
    return Fix(
        text=f"Install torch and {package} of one release, in one command, from one index.",
        commands=(
            sh("python -m pip uninstall -y torch {package}", package=DISTRIBUTION(package)),
            sh("python -m pip install {wanted} {index}", wanted=wanted, index=index),
        ),
        verify=sh("python -c {code}", code=code("import torch, {package}", package=MODULE(package))),
    )
