"""Compiled extensions of a framework: built for another release or ABI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes, wheels
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, said, value
from gpustack.diagnose.machine.extensions import (
    FRAMEWORK_OF,
    SERVING,
    UNNAMED,
    Extension,
    of_name,
    other_cuda_alone,
    unfitting,
)
from gpustack.diagnose.machine.frameworks import because_package, because_torch, installed, torch_version
from gpustack.diagnose.machine.linking import TORCH, demangled, symbol_owner
from gpustack.diagnose.machine.wheels import ALL_OF_PYG, pyg
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import torch as rows
from gpustack.matrix.subjects.ranges import is_version, minor, numbers, within
from gpustack.model.command import code, sh
from gpustack.model.facts import Facts, Layer, Message
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.machine.extensions import Unfitting
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.torch import Companions


VISION = ("torchvision-nms", "torchvision-cpu", "torchvision-circular", "torchvision-load", "torchvision-cuda-mismatch")
AUDIO = ("torchaudio-load",)
PACKAGES = ("torchvision", "torchaudio", "torchtext")
LAST_AUDIO = "2.11"  # since then one torchaudio serves every torch
PLAIN = re.compile(r"\d+\.\d+\.\d+(?:\.post\d+)?(?:\+(?:cu\d+|cpu|rocm[\d.]+|xpu))?")


@rule(
    "torch-torchvision-mismatch",
    Layer.FRAMEWORK,
    "torchvision",
    in_one_python=True,
    explained_by=("duplicate-torch-install",),
)
def torch_torchvision_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The installed torch and torchvision (or torchaudio) are releases or builds that do not work together.

    torchvision and torchaudio are compiled against exactly one release of torch. With another, their operators are
    missing ("operator torchvision::nms does not exist"), their libraries do not load (undefined symbol), or they notice
    another CUDA. It comes from installing one of them alone, or each from another index. Install all in one command
    from one index.
    """
    if _sources(facts, matrix):
        return
    lacking = {one.extension.name: one for one in unfitting(facts, matrix)}
    package = next((name for name in PACKAGES if _complained(facts, name) or name in lacking), None)
    if package:
        yield _vision_finding(facts, matrix, package, Severity.ERROR, lacking.get(package))
        return
    for name in ("torchvision", "torchaudio"):
        if _apart(facts, matrix, name):
            yield _vision_finding(facts, matrix, name, Severity.WARNING)


def _sources(facts: Facts, matrix: Matrix) -> bool:
    """Return whether sources of torchvision are imported instead of a package that belongs to this torch."""
    release, found = torch_version(facts), installed(facts, "torchvision")
    made = wheels.made_for(matrix, "torchvision", found) if found else None
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
    """Return the symbols of torch that a library of this package lacks."""
    return tuple(
        one
        for one in said(facts, "undefined-symbol")
        if package in one.line and symbol_owner(one.values.get("symbol", "")) == TORCH
    )


def _apart(facts: Facts, matrix: Matrix, package: str) -> bool:
    """Return whether plain releases of both are listed that belong to different minor releases of torch."""
    release, found = torch_version(facts), installed(facts, package)
    if not (release and found and PLAIN.fullmatch(release) and PLAIN.fullmatch(found)):
        return False
    made = wheels.made_for(matrix, package, found)
    if package == "torchaudio" and within(found, f">={LAST_AUDIO}"):
        return False  # it pins no torch any more
    return bool(
        made and rows.release_of(matrix, release) and minor(made.torch) != minor(release) and made.pin.startswith("==")
    )


def _vision_finding(
    facts: Facts, matrix: Matrix, package: str, severity: Severity, lacking: Unfitting | None = None
) -> Finding:
    release = torch_version(facts) or value(facts, "pip-torch-conflict", "found")
    found = installed(facts, package) or _conflicting(facts, package)
    other, own = value(facts, "torchvision-cuda-mismatch", "found"), value(facts, "torchvision-cuda-mismatch", "torch")
    cudas = f" (CUDA {own} and CUDA {other})" if other and own else ""
    made = wheels.made_for(matrix, package, found) if found else None
    right = rows.companions(matrix, release) if release and is_version(release) else None
    return torch_torchvision_mismatch.finding(
        instance=package,
        severity=severity,
        component=package,
        title=f"torch {release or ''} and {package} {found or ''} do not work together{cudas}".replace("  ", " "),
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
        fix=wheels.companions_fix(facts, matrix, package),
    )


def _lacks(lacking: Unfitting | None) -> Iterator[str]:
    """Return what its own file says that it misses."""
    if lacking:
        file = (lacking.files[0].path or "").rpartition("/")[2]
        yield f"{file} wants {lacking.symbol or lacking.library}, which this torch does not provide."


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


FOR_TENSORFLOW = fixes.advice(
    "Compile it again against the TensorFlow that is here, with the flags that it names, or install the TensorFlow "
    "that it was built for.",
    sh("python -c {code}", code=code("import tensorflow as tf; print(*tf.sysconfig.get_compile_flags())")),
    verify=fixes.TENSORFLOW_SEES,
)
COMPANIONS = ("torchvision", "torchaudio", "torchtext")


@rule(
    "extension-abi-mismatch",
    Layer.LIBRARY,
    "torch-scatter",
    in_one_python=True,
    explained_by=("duplicate-torch-install",),
)
def extension_abi_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A compiled extension was built against another release of torch, or another C++ ABI, than the torch here.

    An extension (flash-attn, vLLM's kernels, mamba, xFormers …) calls torch's C++ by mangled names that change from
    release to release; with another torch one is missing ("undefined symbol: _ZN3c10…"). Names that end in
    __cxx1112basic_string or Ss show the C++ ABI. Install the extension's build for this torch or the torch that it was
    built for, or build it here with --no-build-isolation.
    """
    for message in said(facts, "xformers-built-for"):
        same = message.values.get("built") == message.values.get("have") and _same_python(message)
        if not (same or message.values.get("have", "+cpu").endswith("+cpu") or other_cuda_alone(message)):
            yield _built_for(message, facts, matrix)
            return
    companion = heard(facts, "torchvision-load", "torchaudio-load")  # what is missing then is missing for them
    found = [one for one in unfitting(facts, matrix) if one.extension.name not in COMPANIONS]
    found = [one for one in found if one.symbol or not companion]
    yield from (_misfit(one, facts, matrix) for one in found)
    page = _other_page(facts)
    if page and not found:
        yield _of_page(page, facts)
    if found or page:
        return
    for message in said(facts, "pip-torch-conflict"):
        package = message.values.get("package", "").replace("_", "-")
        if package and package not in COMPANIONS:
            yield _abi_pinned(message, package, facts, matrix)
            return


def _same_python(message: Message) -> bool:
    """Return whether an extension was built for the Python that it is in, or names none."""
    built, here = (numbers(message.values.get(name))[:2] for name in ("built_python", "python"))
    return built == here


def _other_page(facts: Facts) -> Message | None:
    """Return the page of PyTorch Geometric's wheels that is of another torch, where a symbol is said to be missing."""
    here = numbers(torch_version(facts))[:2]
    pages = holding(facts, "pyg-page", "torch")
    other = next((one for one in pages if here and numbers(one.values["torch"])[:2] != here), None)
    return other if heard(facts, "undefined-symbol", "undefined-symbol-said") else None


def _of_page(page: Message, facts: Facts) -> Finding:
    release = torch_version(facts) or ""
    plain, _, tag = release.partition("+")
    return extension_abi_mismatch.finding(
        instance="torch-scatter",
        title=f"Wheels of PyTorch Geometric for torch {page.values['torch']} were installed, but torch {release} is "
        "here",
        detail="torch-scatter, torch-sparse and similar packages fit only one release of torch.",
        because=(because_said(page), *because_torch(facts)),
        confidence=Confidence.LIKELY,
        fix=fixes.advice(
            "Install them from the page for the installed torch.",
            pyg(ALL_OF_PYG, plain, tag or page.values.get("cuda", "cpu")),
            verify=sh('python -c "import torch_sparse"'),
        ),
    )


def _misfit(one: Unfitting, facts: Facts, matrix: Matrix) -> Finding:
    """Return an extension that misses something of torch, by its own file or by what was said when it was loaded."""
    extension, symbol, file = one.extension, one.symbol, (one.files[0].path or "").rpartition("/")[2]
    of = FRAMEWORK_OF.get(symbol_owner(symbol or "") or TORCH, "torch")
    lacks = f"{of} offers no {demangled(symbol)} of this form (undefined symbol: {symbol})" if symbol else ""
    lacks = lacks or (
        f"it needs {one.library}, which this torch does not bring" if one.library else "a procedure was not found"
    )
    abi = " The name shows the C++11 string ABI." if symbol and "__cxx11" in symbol else ""
    part = "" if one.whole else " Its other files match."
    release = one.torch if one.environment else torch_version(facts) if of == "torch" else None
    return extension_abi_mismatch.finding(
        instance=one.mark,
        severity=Severity.ERROR if one.whole else Severity.WARNING,
        layer=Layer.SERVING if extension.name in SERVING else Layer.LIBRARY,
        component=extension.name,
        title=f"{_first(extension.words)} was built for a different {of} than {_torch(release)}",
        detail=f"In {file or 'it'}, {lacks}.{part}{abi}{_asks(extension)}",
        because=(*one.because(facts), *because_package(facts, extension.name), *grounds(facts, "pyg-page", most=1)),
        row=extension.row,
        confidence=Confidence.CERTAIN if symbol or one.environment else Confidence.LIKELY,
        fix=wheels.extension_fix(extension, release, facts, matrix, environment=one.environment)
        if of == "torch"
        else FOR_TENSORFLOW,
    )


def _torch(release: str | None) -> str:
    return f"torch {release}" if release else "the one here"


def _first(words: str) -> str:
    return f"A{words[1:]}" if words == UNNAMED else words


def _asks(extension: Extension) -> str:
    if not extension.torch:
        return ""
    if extension.name == "flash-attn":
        return f" Its wheels are for torch {extension.torch}."
    return f" This release requires torch {extension.torch}."


def _built_for(message: Message, facts: Facts, matrix: Matrix) -> Finding:
    values = message.values
    extension = of_name("xformers", facts, matrix)
    built = values.get("built")
    return extension_abi_mismatch.finding(
        instance=extension.name,
        component=extension.name,
        title=f"{extension.words} was built for torch {built or 'another'}, but torch {values['have']} is installed",
        detail="Its own kernels cannot be loaded: without them it is slow or fails." + _asks(extension),
        because=(because_said(message), *because_package(facts, extension.name)),
        row=extension.row,
        fix=wheels.extension_fix(extension, values["have"], facts, matrix, built=built),
    )


def _abi_pinned(message: Message, package: str, facts: Facts, matrix: Matrix) -> Finding:
    values = message.values
    extension, needs, found = (
        of_name(package, facts, matrix),
        values.get("needs", "another"),
        values.get("found", "another"),
    )
    return extension_abi_mismatch.finding(
        instance=package,
        severity=Severity.WARNING,
        layer=Layer.SERVING if package in SERVING else Layer.LIBRARY,
        component=package,
        title=f"{package} {values.get('version', '')} requires torch {needs}, but torch {found} is installed",
        detail="If it has compiled parts, they are for the torch that it requires.",
        because=(because_said(message), *because_torch(facts)),
        row=extension.row,
        confidence=Confidence.POSSIBLE,
        fix=wheels.extension_fix(extension, found, facts, matrix, built=needs.lstrip("=")),
    )
