"""Packages that are installed twice, or whose files another overwrites."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.installing import pinned
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, said, value
from gpustack.diagnose.machine.frameworks import because_package, installed
from gpustack.diagnose.machine.inventory import Build, builds
from gpustack.diagnose.machine.linking import symbol_owner
from gpustack.diagnose.machine.toolchain import toolchain_toolkits
from gpustack.diagnose.machine.values import because, because_of, copies, table, text, told
from gpustack.diagnose.machine.wheels import Overwritten, overwritten
from gpustack.diagnose.rule import rule
from gpustack.model import record, replace
from gpustack.model.command import DISTRIBUTION, PYTHON, SOME_PYTHON, Word, sh
from gpustack.model.facts import Facts, Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from gpustack.matrix import Matrix


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


@record
class Two:
    """Two copies: the version that is imported, the other one, and what shows that there are two."""

    imported: str | None
    other: str | None
    because: tuple[Because, ...]
    sure: Confidence


@rule("duplicate-torch-install", Layer.FRAMEWORK, "pytorch", in_one_python=True)
def duplicate_torch_install(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Two copies of PyTorch are installed, and the one that is imported is not the one that the package list shows.

    pip and conda, or the system and ~/.local, each hold a copy; Python imports the one that comes first on its path.
    Then torch.__version__ differs from what pip shows, and torchvision or an extension made for one copy meets the
    other. Uninstall until none is left, look for what remains (torch.__file__ names the place), and install once.
    """
    found = _told(facts) or _left(facts) or _listed(facts) or _torn(facts)
    if found:
        yield _finding(facts, found)


def _told(facts: Facts) -> Two | None:
    """Return two copies that someone mentions."""
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
    """Return a copy that is imported although pip knew, and took away, another."""
    imported = _imported(facts)
    put = [one.values.get("version", "") for one in said(facts, "torch-installed")]
    for one in said(facts, "torch-uninstalled", "torch-found-existing", "torch-listed-said"):
        other = one.values.get("version", "")
        if imported and other and not _same(other, imported) and not any(_same(imported, version) for version in put):
            ground = (because_said(one), *_ground(facts))
            return Two(imported=imported, other=other, because=ground, sure=Confidence.LIKELY)
    return None


def _listed(facts: Facts) -> Two | None:
    """Return a copy that is imported although the package list has another, or two copies in one list."""
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
    if (
        len(held) > 1
        and not _same(held[0].version or "", held[1].version or "")
        and (len({copy.environment for copy in copies(facts, "pytorch")}) == 1)
    ):
        ground = tuple(Because(component="pytorch", fact="version", value=copy.version) for copy in held[:3])
        return Two(imported=held[0].version, other=held[1].version, because=ground, sure=Confidence.LIKELY)
    where, shown = text(told(facts, "pytorch"), "imported_from"), text(told(facts, "pytorch"), "path")
    if where and shown and not where.startswith(shown.rstrip("/")):
        paths = (because(facts, "pytorch", "imported_from"), because(facts, "pytorch", "path"))
        return Two(imported=imported, other=None, because=paths, sure=Confidence.LIKELY)
    return None


def _torn(facts: Facts) -> Two | None:
    """Return two copies where a library of torch lacks what another of its own libraries should offer."""
    for one in said(facts, "undefined-symbol"):
        own = OWN.search(one.values.get("file", ""))
        symbol = one.values.get("symbol", "")
        if own and (symbol_owner(symbol) == "torch-abi" or OLD.match(symbol)):
            ground = (because_said(one), *_ground(facts))
            return Two(imported=_imported(facts), other=None, because=ground, sure=Confidence.POSSIBLE)
    return None


def _imported(facts: Facts) -> str | None:
    return text(told(facts, "pytorch"), "imported")


def _same(one: str, other: str) -> bool:
    """Return whether two versions are one release, whatever their builds."""
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
    home = f" One copy is in the user's own folder ({where[0]})." if where else ""
    imported = f"Python imports {two.imported}. " if two.imported else ""
    return duplicate_torch_install.finding(
        title=f"Two copies of PyTorch are installed: {versions or 'the one imported is not the one listed'}",
        detail=f"{imported}What pip installs or removes is not the copy that is imported.{home}",
        because=(*two.because, *grounds(facts, "torchvision-nms", most=1)),
        confidence=two.sure,
        fix=fixes.advice(
            "Uninstall torch until pip and conda find none, delete what is left (the second command says "
            "where), and install it once.",
            sh("python -m pip uninstall -y torch torchvision torchaudio"),
            sh('python -c "import torch; print(torch.__version__, torch.__file__)"'),
            verify=sh('python -c "import torch; print(torch.__version__, torch.__file__)"'),
        ),
    )


PLAIN = "onnxruntime"
ORT_SAID, EMPTY = "ort-both-said", "ort-empty"
ABSENT = ("ort-provider-unavailable", "ort-cuda-absent-said")
GPU = ("onnxruntime-gpu", "ort-nightly-gpu")


@rule("ort-cpu-and-gpu-installed", Layer.LIBRARY, "onnxruntime", Severity.WARNING, in_one_python=True)
def ort_cpu_and_gpu_installed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Both onnxruntime and onnxruntime-gpu are installed.

    They bring the same package, onnxruntime, and overwrite each other's files: the one installed last is imported, and
    after one of them is removed neither works. Remove both and install the one you need.
    """
    said_ = {one.values["name"].lower().replace("_", "-") for one in holding(facts, "pip-existing", "name")}
    said_ |= {one.values["package"] for one in holding(facts, "ort-installed", "package")}
    said_ |= {*table(told(facts, "packages"), "distributions")}
    providers = value(facts, "ort-providers", "providers")
    here = [build for build in builds(facts) if build.component == PLAIN]
    listed = [(build, {*table(build.copy.facts, "distributions")}) for build in here]
    both = [(build, names) for build, names in listed if PLAIN in names and not names.isdisjoint(GPU)]
    for build, names in both:
        answers = f"; the {build.copy.build} one answers" if build.copy.build else ""
        grounds_ = tuple(because_of(facts, PLAIN, build.copy, name) for name in ("distributions", "build"))
        grave = build.accelerator == "cpu"
        yield _both((facts, matrix), build, names, answers, grave=grave, because=grounds_)
    lost = (providers is not None and "CUDA" not in providers) or heard(facts, *ABSENT)
    told_ = PLAIN in said_ and not said_.isdisjoint(GPU)
    empty = heard(facts, EMPTY) and (told_ or holding(facts, "ort-named", "package"))
    if both or not (heard(facts, ORT_SAID) or (told_ and lost) or empty):
        return
    found = _both(
        (facts, matrix),
        next(iter(here), None),
        said_,
        "; the CPU build is the one imported" if lost and not heard(facts, EMPTY) else "",
        grave=lost or providers is None,
        because=grounds(facts, ORT_SAID, EMPTY, *ABSENT, "ort-providers", "pip-existing"),
    )
    why = f": the providers are {providers}, without CUDA." if lost and providers else "."
    gone = " After one was removed the package is empty." if heard(facts, EMPTY) else ""
    yield replace(found, detail=f"{found.detail[:-1]}{why}{gone}")


def _both(
    at: tuple[Facts, Matrix],
    build: Build | None,
    names: Collection[str],
    answers: str,
    *,
    grave: bool,
    because: tuple[Because, ...],
) -> Finding:
    kept = next((name for name in GPU if name in names), GPU[0])
    python = build.python if build else SOME_PYTHON
    return ort_cpu_and_gpu_installed.finding(
        instance=build.mark if build else PLAIN,
        severity=Severity.ERROR if grave else Severity.WARNING,
        title=f"onnxruntime and {kept} are both installed{answers}",
        detail="They bring the same package and overwrite each other's files.",
        because=because,
        fix=fixes.advice(
            f"Remove both, then install only {kept}.",
            sh("{python} -m pip uninstall -y onnxruntime {kept}", python=python, kept=DISTRIBUTION(kept)),
            sh(
                "{python} -m pip install {wanted}",
                python=python,
                wanted=pinned(kept, *at, build.copy.environment if build else None),
            ),
            verify=sh('{python} -c "import onnxruntime; print(onnxruntime.get_available_providers())"', python=python),
        ),
    )


ALL = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")
CUPY_SAID = "cupy-several"
CUPY = re.compile(r"cupy(-cuda\d{2,3}x?|-rocm-\d+-\d+)?")


@rule("multiple-cupy", Layer.LIBRARY, "packages", Severity.WARNING)
def multiple_cupy(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """More than one CuPy is installed.

    The distributions cupy, cupy-cuda12x, cupy-cuda13x … all bring the package cupy and overwrite each other's files, so
    that what is imported is a mixture. CuPy itself warns about it when imported. Remove them all and install the one
    for the CUDA version that is here.
    """
    held = [
        (copy, sorted(name for name in table(copy.facts, "distributions") if CUPY.fullmatch(name)))
        for copy in copies(facts, "packages")
    ]
    several = [(copy, names) for copy, names in held if len(names) > 1]
    for copy, names in several:
        versions = table(copy.facts, "distributions")
        spelled = [f"{name} {text(versions, name) or ''}".strip() for name in names]
        ground = because_of(facts, "packages", copy, "distributions", names[-1])
        found = _cupys(spelled, names, (ground,), PYTHON(copy.environment), facts)
        yield replace(found, instance=f"packages:{copy.environment or copy.key}")
    if heard(facts, CUPY_SAID) and not several:
        words = re.findall(r"cupy[\w-]*", value(facts, CUPY_SAID, "packages") or "")
        names = [name for name in dict.fromkeys(words) if CUPY.fullmatch(name)]
        yield _cupys(names, names, grounds(facts, CUPY_SAID), SOME_PYTHON, facts)


def _cupys(
    spelled: Sequence[str], names: Sequence[str], because: tuple[Because, ...], python: Word, facts: Facts
) -> Finding:
    return multiple_cupy.finding(
        title="Several CuPy distributions are installed" + (f": {', '.join(spelled)}" if spelled else ""),
        detail="They bring the same package and overwrite each other's files.",
        because=because,
        fix=_fix(python, names, facts),
    )


def _fix(python: Word, names: Sequence[str], facts: Facts) -> Fix:
    """Return how to keep one: that of the CUDA that is here, where something tells it."""
    here = [one.cuda.major for one in toolchain_toolkits(facts)]
    several = len(names) > 1
    fitting = (name for major in here for name in names if f"cuda{major}" in name)
    kept = next(fitting, names[-1] if several else "cupy-cuda12x")
    return fixes.advice(
        "Remove all of them, then install the one for the CUDA version that is installed.",
        sh(
            "{python} -m pip uninstall -y {names}",
            python=python,
            names=tuple(map(DISTRIBUTION, names if several else ALL)),
        ),
        sh("{python} -m pip install {kept}", python=python, kept=DISTRIBUTION(kept)),
        verify=sh('{python} -c "import cupy; cupy.show_config()"', python=python),
    )


# Wheels of which rules of their own speak.
NCCL, FILES_CUPY = "libnccl.so", "cupy"
BOTH = ({"onnxruntime", "onnxruntime-gpu"}, {"onnxruntime", "ort-nightly-gpu"})


@rule("wheel-files-overwritten", Layer.LIBRARY, "packages", Severity.WARNING)
def wheel_files_overwritten(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Two installed wheels bring the same library file, and one has overwritten the other's.

    Wheels for several CUDA majors, and flavours of one package, are installed into the same folders. The last one
    installed silently overwrites the other's files, so a program may load a library that was made for another CUDA
    version; and removing one of them deletes the file of both. Each wheel's record shows whose file is on disk. Remove
    them all, then install the one that is needed.
    """
    told: dict[tuple[str, tuple[str, ...]], Overwritten] = {}
    for one in overwritten(facts):
        if not _elsewhere(one):
            told.setdefault((one.mark, one.owners), one)
    for number, one in enumerate(told.values()):
        first = all(other.mark != one.mark for other in list(told.values())[:number])
        yield wheel_files_overwritten.finding(
            instance=one.mark if first else f"{one.mark} {'+'.join(one.owners)}",
            severity=one.severity,
            title=f"{' and '.join(one.owners)} both write {one.file}: {one.whose}",
            detail=one.detail,
            because=one.because,
            fix=one.fix,
        )


def _elsewhere(one: Overwritten) -> bool:
    names = {owner.partition(" ")[0] for owner in one.owners}
    return one.named(NCCL) or any(name.startswith(FILES_CUPY) for name in names) or any(pair <= names for pair in BOTH)
