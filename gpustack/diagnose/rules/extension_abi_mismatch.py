"""A compiled extension was built against another release of torch, or another C++ ABI, than the torch here.

An extension (flash-attn, vLLM's kernels, mamba, xFormers …) calls torch's C++ by mangled names that change from
release to release; with another torch one is missing ("undefined symbol: _ZN3c10…"). Names that end in
__cxx1112basic_string or Ss tell of the C++ ABI. Install the build of the extension for this torch, the torch that it
was built for, or build it here with --no-build-isolation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.extensions import (
    SERVING,
    SOURCES,
    Extension,
    distribution_of,
    listed,
    of_file,
    of_name,
    other_cuda_alone,
)
from gpustack.diagnose.rules.frameworks import because_package, because_torch, torch_version
from gpustack.diagnose.rules.linking import TORCH, demangled, soname_library, symbol_owner
from gpustack.diagnose.rules.saying import because_said, grounds, heard, holding, said
from gpustack.diagnose.rules.unfitting import unfitting
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import (
    ADDRESS,
    BUILD_TAG,
    DISTRIBUTION,
    HERE,
    MODULE,
    PYTHON,
    SOME_PYTHON,
    VERSION,
    Command,
    Word,
    code,
    either,
    requirement,
    sh,
)
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.unfitting import Unfitting
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message

ID, UNNAMED = "extension-abi-mismatch", "a compiled extension"
TORCH_OWN = ("libtorch", "libc10", "torch/lib", "torch/_C", "libnccl", "libcu")
BUILT_FOR = "{python} -m pip install {torch}  # the torch that it was built for"
PYG = (
    "python -m pip install --force-reinstall --no-deps torch-scatter torch-sparse torch-cluster torch-spline-conv"
    " -f https://data.pyg.org/whl/torch-{torch}+{tag}.html"
)
COMPANIONS = ("torchvision", "torchaudio", "torchtext")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the extension that does not fit this torch, by the symbol that it misses or by its own words."""
    for message in said(facts, "xformers-built-for"):
        if not message.values.get("have", "+cpu").endswith("+cpu") and not other_cuda_alone(message):
            yield _built_for(message, facts, matrix)
            return
    found = _missing(facts)
    if found:
        yield _finding(found, facts, matrix)
        return
    page = _other_page(facts)
    if page:
        yield _of_page(page, facts)
        return
    yield from (_on_disk(one, facts) for one in unfitting(facts, matrix) if one.extension.name not in COMPANIONS)
    for message in said(facts, "pip-torch-conflict"):
        package = message.values.get("package", "").replace("_", "-")
        if package and package not in COMPANIONS:
            yield _pinned(message, package, facts, matrix)
            return


def _other_page(facts: Facts) -> Message | None:
    """Give the page of PyTorch Geometric's wheels that is of another torch, where a symbol is said to be missing."""
    here = numbers(torch_version(facts))[:2]
    pages = holding(facts, "pyg-page", "torch")
    other = next((one for one in pages if here and numbers(one.values["torch"])[:2] != here), None)
    return other if heard(facts, "undefined-symbol", "undefined-symbol-said") else None


def _of_page(page: Message, facts: Facts) -> Finding:
    release = torch_version(facts) or ""
    plain, _, tag = release.partition("+")
    return Finding(
        id=ID,
        instance="torch-scatter",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="torch-scatter",
        title=f"Wheels of PyTorch Geometric for torch {page.values['torch']} were installed, and torch {release} is "
        "here",
        detail="torch-scatter, torch-sparse and their like fit one release of torch alone.",
        because=(because_said(page), *because_torch(facts)),
        confidence=Confidence.LIKELY,
        fix=Fix(
            text="Install them from the page of the torch that is here.",
            commands=(sh(PYG, torch=VERSION(plain), tag=BUILD_TAG(tag or page.values.get("cuda", "cpu"))),),
            verify=sh('python -c "import torch_sparse"'),
        ),
    )


def _missing(facts: Facts) -> Message | None:
    """Give the first message of an extension that lacks something of torch."""
    for one in said(facts, "undefined-symbol"):
        file, own = one.values.get("file", ""), any(name in one.line for name in COMPANIONS)
        torch_itself = any(part in file for part in TORCH_OWN)
        if symbol_owner(one.values.get("symbol", "")) == TORCH and not own and not torch_itself:
            return one
    for one in () if heard(facts, "torchvision-load", "torchaudio-load") else said(facts, "missing-library"):
        library = soname_library(one.values.get("soname", ""))
        if library and library[0] == "pytorch" and not any(name in one.line for name in COMPANIONS):
            return one
    for one in said(facts, "dll-procedure"):
        if not any(name in one.line for name in (*COMPANIONS, "torch._C")):
            return one
    return None


def _finding(message: Message, facts: Facts, matrix: Matrix) -> Finding:
    values = message.values
    extension = _extension(message, facts, matrix)
    release, symbol, soname = torch_version(facts), values.get("symbol"), values.get("soname")
    lacks = f"torch has no {demangled(symbol)} of this form (undefined symbol: {symbol})" if symbol else ""
    lacks = lacks or (f"it wants {soname}, which this torch does not bring" if soname else "a procedure was not found")
    abi = " The name tells of the C++11 ABI of strings." if symbol and "__cxx11" in symbol else ""
    return Finding(
        id=ID,
        instance=extension.name,
        severity=Severity.ERROR,
        layer=Layer.SERVING if extension.name in SERVING else Layer.LIBRARY,
        component=extension.name,
        title=f"{_first(extension.words)} was built for another torch than {_torch(release)}",
        detail=f"In it, {lacks}.{abi}{_asks(extension)}",
        because=(
            because_said(message),
            *because_torch(facts),
            *because_package(facts, extension.name),
            *grounds(facts, "pyg-page", most=1),
        ),
        row=extension.row,
        confidence=Confidence.CERTAIN if symbol else Confidence.LIKELY,
        fix=_fix(extension, release, facts),
    )


def _on_disk(one: Unfitting, facts: Facts) -> Finding:
    """Give an extension whose own file says what it misses, without having been loaded."""
    extension, symbol = one.extension, one.symbol
    lacks = (
        f"torch offers no {demangled(symbol)} of this form (undefined symbol: {symbol})"
        if symbol
        else f"it needs {one.library}, which this torch does not bring"
    )
    part = "" if one.whole else " Other files of it fit."
    return Finding(
        id=ID,
        instance=one.mark,
        severity=Severity.ERROR if one.whole else Severity.WARNING,
        layer=Layer.SERVING if extension.name in SERVING else Layer.LIBRARY,
        component=extension.name,
        title=f"{_first(extension.words)} was built for another torch than {_torch(one.torch)}",
        detail=f"In {(one.files[0].path or '').rpartition('/')[2]}, {lacks}.{part}{_asks(extension)}",
        because=(*one.because(facts), *because_package(facts, extension.name)),
        row=extension.row,
        confidence=Confidence.CERTAIN,
        fix=_fix(extension, one.torch, facts, python=PYTHON(one.environment)),
    )


def _extension(message: Message, facts: Facts, matrix: Matrix) -> Extension:
    """Give whose file it is; where the message does not say, the compiled package that is listed."""
    values = message.values
    file = values.get("file") or values.get("module") or values.get("by") or ""
    if "/" in file or ".so" in file or "\\" in file or (message.kind != "missing-library" and file):
        return of_file(file, facts, matrix)
    return next(iter(listed(facts, matrix)), None) or Extension(name=UNNAMED)


def _torch(release: str | None) -> str:
    return f"torch {release}" if release else "the one here"


def _first(words: str) -> str:
    return f"A{words[1:]}" if words == UNNAMED else words


def _asks(extension: Extension) -> str:
    if not extension.torch:
        return ""
    if extension.name == "flash-attn":
        return f" Its wheels are for torch {extension.torch}."
    return f" This release asks for torch {extension.torch}."


def _built_for(message: Message, facts: Facts, matrix: Matrix) -> Finding:
    values = message.values
    extension = of_name("xformers", facts, matrix)
    built = values.get("built")
    return Finding(
        id=ID,
        instance=extension.name,
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component=extension.name,
        title=f"{extension.words} was built for torch {built or 'another'}, and torch {values['have']} is here",
        detail="Its own kernels cannot be loaded: without them it is slow or fails." + _asks(extension),
        because=(because_said(message), *because_package(facts, extension.name)),
        row=extension.row,
        fix=_fix(extension, values["have"], facts, built),
    )


def _pinned(message: Message, package: str, facts: Facts, matrix: Matrix) -> Finding:
    values = message.values
    extension, needs, found = (
        of_name(package, facts, matrix),
        values.get("needs", "another"),
        values.get("found", "another"),
    )
    return Finding(
        id=ID,
        instance=package,
        severity=Severity.WARNING,
        layer=Layer.SERVING if package in SERVING else Layer.LIBRARY,
        component=package,
        title=f"{package} {values.get('version', '')} asks for torch {needs}, and torch {found} is here",
        detail="Where it has compiled parts, they are for the torch that it asks for.",
        because=(because_said(message), *because_torch(facts)),
        row=extension.row,
        confidence=Confidence.POSSIBLE,
        fix=_fix(extension, found, facts, needs.lstrip("=")),
    )


def _fix(
    extension: Extension, release: str | None, facts: Facts, built: str | None = None, python: Word = SOME_PYTHON
) -> Fix:
    name = extension.name
    wanted = built or (extension.torch or "").lstrip("=")
    plain = wanted.partition("+")[0]
    exact = plain.replace(".", "").isdecimal() and plain.count(".") == len("..")
    module = name.replace("-", "_")
    return Fix(
        text=f"Install the build of {name} for torch {release or 'here'} (same minor release, CUDA and C++ ABI)"
        + (f", or torch {wanted}, for which this one was built." if wanted else ", or build it from source here."),
        commands=either(
            *_anew(extension, release, distribution_of(name, facts), python),
            *((sh(BUILT_FOR, python=python, torch=requirement("torch", f"=={plain}")),) if exact else ()),
        ),
        verify=sh("{python} -c {code}", python=python, code=code("import torch, {module}", module=MODULE(module)))
        if module.isidentifier()
        else sh('{python} -c "import torch"', python=python),
    )


def _anew(extension: Extension, release: str | None, wanted: str | None, python: Word) -> tuple[Command, ...]:
    """Give how it is installed anew, or built here; only in words where pip is not known to have it."""
    torch = VERSION(release) if release else HERE
    if wanted is None:
        name, source = DISTRIBUTION(extension.name), SOURCES.get(extension.name)
        if source is None:
            return (sh("# build {name} for torch {torch}: from where it came", name=name, torch=torch),)
        return (sh("# build {name} for torch {torch}: {source}", name=name, torch=torch, source=ADDRESS(source)),)
    wheel = DISTRIBUTION(wanted)
    again = sh("{python} -m pip install --force-reinstall --no-deps", python=python)
    return (
        sh("{again} {wheel}  # its release for torch {torch}", again=again, wheel=wheel, torch=torch),
        sh("{again} --no-build-isolation --no-binary {wheel} {wheel}  # built here", again=again, wheel=wheel),
    )
