"""Two copies of PyTorch are installed, and the one that is imported is not the one that the package list shows.

pip and conda, or the system and ~/.local, each hold a copy; Python imports the one that comes first on its path. Then
torch.__version__ differs from what pip shows, and torchvision or an extension made for one copy meets the other.
Uninstall until none is left, look for what remains (torch.__file__ names the place), and install once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.frameworks import because_package, installed
from gpustack.diagnose.rules.linking import symbol_owner
from gpustack.diagnose.rules.reading import because, copies, text, told
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

ID = "duplicate-torch-install"
PROVIDERS = ("torch", "pytorch", "pytorch-nightly", "torch-nightly", "pytorch-cpu")  # each brings the package torch
OWN = re.compile(
    r"(?:^|/)lib(?:torch(?:_(?:cpu|cuda|hip|xpu|python)\w*)?|c10(?:_\w+)?|ATen\w*|caffe2\w*|TH\w*|shm)\.so|/torch/_C\b"
)
OLD = re.compile(r"TH[A-Z]|_Z\w*?\d(?:thpp|onnx_torch|caffe2|TH[A-Z])")  # of torch before 1.0
NUMBER = re.compile(r"\d+(?:\.\d+)+")
HOME = re.compile(
    r"~?/[^\s'\"]{0,200}\.local/lib/python[\d.]{1,8}/(?:site|dist)-packages[^\s'\"]*|\.local\b|user[- ]site",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    """Two copies: the version that is imported, the other one, and what shows that there are two."""

    imported: str | None
    other: str | None
    because: tuple[Because, ...]
    sure: Confidence


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the two copies, where anything shows that there are two."""
    found = _told(facts) or _left(facts) or _listed(facts) or _torn(facts)
    if found:
        yield _finding(facts, found)


def _told(facts: Facts) -> Two | None:
    """Give two copies of which somebody speaks."""
    for one in said(facts, "torch-twice"):
        first, second = one.values.get("one"), one.values.get("two")
        imported = _imported(facts)
        if first and second and _same(first, second):
            continue
        return Two(
            imported=imported or first,
            other=second,
            because=(because_said(one), *_ground(facts)),
            sure=Confidence.CERTAIN,
        )
    return None


def _left(facts: Facts) -> Two | None:
    """Give a copy that is imported although pip knew, and took away, another."""
    imported = _imported(facts)
    put = [one.values.get("version", "") for one in said(facts, "torch-installed")]
    for one in said(facts, "torch-uninstalled", "torch-found-existing", "torch-listed-said"):
        other = one.values.get("version", "")
        if imported and other and not _same(other, imported) and not any(_same(imported, version) for version in put):
            ground = (because_said(one), *_ground(facts))
            return Two(imported=imported, other=other, because=ground, sure=Confidence.LIKELY)
    return None


def _listed(facts: Facts) -> Two | None:
    """Give a copy that is imported although the package list has another, or two copies in one list."""
    imported, listed = _imported(facts), installed(facts, "torch", "pytorch")
    if imported and listed and not _same(imported, listed) and not heard(facts, "torch-installed"):
        ground = (*because_package(facts, "torch"), *_ground(facts))
        return Two(imported=imported, other=listed, because=ground, sure=Confidence.LIKELY)
    names = {name: found for name in PROVIDERS if (found := installed(facts, name))}
    first = next(iter(names.values()), "")
    second = next((name for name, found in names.items() if not _same(found, first)), None)
    if second:
        ground = tuple(one for name in names for one in because_package(facts, name))
        return Two(imported=first, other=names[second], because=(*ground, *_ground(facts)), sure=Confidence.LIKELY)
    held = [copy for copy in copies(facts, "pytorch") if copy.version]
    if len(held) > 1 and not _same(held[0].version or "", held[1].version or "") and _one_place(facts):
        ground = tuple(Because(component="pytorch", fact="version", value=copy.version) for copy in held[:3])
        return Two(imported=held[0].version, other=held[1].version, because=ground, sure=Confidence.LIKELY)
    where, shown = text(told(facts, "pytorch"), "imported_from"), text(told(facts, "pytorch"), "path")
    if where and shown and not where.startswith(shown.rstrip("/")):
        paths = (because(facts, "pytorch", "imported_from"), because(facts, "pytorch", "path"))
        return Two(imported=imported, other=None, because=paths, sure=Confidence.LIKELY)
    return None


def _torn(facts: Facts) -> Two | None:
    """Give two copies where a library of torch lacks what another of its own libraries should offer."""
    for one in said(facts, "undefined-symbol"):
        own = OWN.search(one.values.get("file", ""))
        symbol = one.values.get("symbol", "")
        if own and (symbol_owner(symbol) == "torch-abi" or OLD.match(symbol)):
            ground = (because_said(one), *_ground(facts))
            return Two(imported=_imported(facts), other=None, because=ground, sure=Confidence.POSSIBLE)
    return None


def _one_place(facts: Facts) -> bool:
    return len({copy.environment for copy in copies(facts, "pytorch")}) == 1


def _imported(facts: Facts) -> str | None:
    return text(told(facts, "pytorch"), "imported")


def _same(one: str, other: str) -> bool:
    """Tell whether two versions are one release, whatever their builds."""
    first, second = NUMBER.match(one), NUMBER.match(other)
    short, long = sorted((first[0] if first else one, second[0] if second else other), key=len)
    return long == short or long.startswith(f"{short}.")


def _ground(facts: Facts) -> Iterator[Because]:
    if _imported(facts):
        yield because(facts, "pytorch", "imported")


def _finding(facts: Facts, two: Two) -> Finding:
    versions = " and ".join(f"torch {version}" for version in (two.imported, two.other) if version)
    words = " ".join(str(one.value) for one in two.because)
    where = HOME.search(words)
    home = f" One copy lies in the user's own folder ({where[0]})." if where else ""
    imported = f"Python imports {two.imported}. " if two.imported else ""
    return Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="pytorch",
        title=f"Two copies of PyTorch are installed: {versions or 'the one imported is not the one listed'}",
        detail=f"{imported}What is installed or taken away by pip is not what is imported.{home}",
        because=(*two.because, *grounds(facts, "torchvision-nms", most=1)),
        confidence=two.sure,
        fix=Fix(
            text="Uninstall torch until pip and conda know of none, delete what is left, and install it once.",
            commands=(
                sh("python -m pip uninstall -y torch torchvision torchaudio  # until it says that none is installed"),
                sh('python -c "import torch; print(torch.__version__, torch.__file__)"  # what is left, and where'),
            ),
            verify=sh('python -c "import torch; print(torch.__version__, torch.__file__)"'),
        ),
    )
