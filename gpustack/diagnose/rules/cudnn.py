"""cuDNN: too old, missing, or another copy than the one that a framework brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.installing import pinned
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, said
from gpustack.diagnose.machine.inventory import Build, builds
from gpustack.diagnose.machine.lacking import (
    LD_LIBRARY_PATH,
    OWN,
    lacking,
    loaded,
    off_path,
    path_blamed,
    path_grounds,
    place,
)
from gpustack.diagnose.machine.libraries import CUDNN as LIBRARY
from gpustack.diagnose.machine.libraries import Used, clashes, evidence, used
from gpustack.diagnose.machine.packages import CUDNN, NOT_LOADED, UNFIT, cuda_here, cudnn_here, majors, missing
from gpustack.diagnose.machine.values import because_of, copies, flag, items, table, text, texts, told, version
from gpustack.diagnose.rule import rule
from gpustack.diagnose.rules import WRONG_CUDNN
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import requirement, sh
from gpustack.model.facts import Facts, Instance, JsonValue, Layer, Message
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpustack.diagnose.machine.lacking import Lacking
    from gpustack.matrix import Matrix


@rule("cudnn-too-old", Layer.LIBRARY, "cudnn", explained_by=("wheel-files-overwritten",))
def cudnn_too_old(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The cuDNN that a framework loads is older than the one it was built with.

    Within a major version, cuDNN runs what was built with the same or an older minor version; an older cuDNN lacks
    functions. PyTorch refuses it, others fail in the middle. Install the version that the framework requires.
    """
    for one in clashes(facts, LIBRARY):
        if one.older and not one.foreign and not (one.build and one.build.ran_on_gpu):
            yield cudnn_too_old.finding(
                instance=one.mark,
                title=f"{one.who} {one.how} cuDNN {one.found} and was built with {one.own}: cuDNN {one.least} or newer "
                "is needed",
                detail=f"Within major {numbers(one.least)[0]} of cuDNN a newer release can replace an older one, "
                "not the other way round.",
                because=one.because,
                fix=one.fix,
            )


@rule("several-cudnn-copies", Layer.LIBRARY, "cudnn", Severity.INFO, explained_by=WRONG_CUDNN)
def several_cudnn_copies(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """There are several copies of cuDNN; this says which one a framework uses. It is not a fault by itself.

    A wheel brings its own cuDNN, and the system may have another. Which of them counts is decided by the loader's
    order, or by the framework itself, and other tools guess it from file names. With --deep the framework is run and
    its own memory map says which files it really loaded.
    """
    for build in builds(facts):
        one = used(build, "libcudnn", "cudnn", facts)
        others = [copy for copy in reachable(build, facts) if one and copy.path != one.path and copy.version]
        differing = [copy for copy in others if one and copy.version != one.version]
        if one is None or not differing:
            continue
        version = one.version or "of an unknown version"
        yield several_cudnn_copies.finding(
            instance=build.mark,
            title=f"{build.name} {one.how} cuDNN {version}, not {' or '.join(_versions(differing))}",
            detail=f"In use: {one.path}. Not used: {'; '.join(map(_line, differing))}.",
            because=(
                evidence(build, "libcudnn", one),
                *(Because(component="cudnn", fact="path", value=copy.path, source=_owner(copy)) for copy in differing),
            ),
        )


def reachable(build: Build, facts: Facts) -> tuple[Instance, ...]:
    """Return the copies in the same Python and those of the system, stubs left out."""
    places = {None, build.copy.environment}
    return tuple(copy for copy in copies(facts, "cudnn") if copy.environment in places and not flag(copy.facts, "stub"))


def _owner(copy: Instance) -> str:
    """Return who brought a copy, in words."""
    name = text(copy.facts, "owner", "name")
    return f"{text(copy.facts, 'owner', 'kind')} {name}" if name else ", ".join(texts(copy.facts, "found_by"))


def _versions(found: list[Instance]) -> list[str]:
    return sorted({copy.version for copy in found if copy.version})


def _line(copy: Instance) -> str:
    return f"{copy.version} at {copy.path} ({_owner(copy)})"


@rule("cudnn-missing", Layer.LIBRARY, CUDNN, in_one_python=True, from_messages=True)
def cudnn_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A program finds no cuDNN, or none of the major version that it was built for.

    cuDNN is part of neither the driver nor the CUDA toolkit: it comes as a separate package or as a wheel, and its
    major version is in its name (libcudnn.so.8, libcudnn_ops.so.9). A wheel's cuDNN lies in its Python, where other
    programs do not look. Install that major version of cuDNN for the same CUDA, or add the wheel's folder to the
    loader's path.
    """
    wanted = [one for one in missing(facts, matrix) if one.library == CUDNN and one.asker is None]
    refused = said(facts, "cudnn-not-loaded") if not missing(facts, matrix) else ()
    if not (wanted or refused):
        return
    major = next((one.number for one in wanted if one.number), "")
    here = cudnn_here(facts)
    others = [number for number, _ in here if major and numbers(number)[:1] != (int(major),)]
    cuda = next(iter(majors(cuda_here(facts, matrix))), None)
    wheel = requirement(f"nvidia-cudnn-cu{cuda or 12}", f"=={major}.*" if major else "")
    yield cudnn_missing.finding(
        title=(f"{wanted[0].soname} of cuDNN {major} is not found" if wanted else "cuDNN is not found").replace(
            "  ", " "
        )
        + (f"; cuDNN {others[0]} is installed" if others else ""),
        detail="Another major version of cuDNN cannot take its place."
        if others
        else "It is not installed, or it is inside a wheel, where the loader does not look for other programs.",
        confidence=Confidence.LIKELY,
        because=(
            *map(because_said, [*(one.message for one in wanted), *refused][:3]),
            *(ground for _, ground in here[:2]),
        ),
        fix=fixes.advice(
            f"Install cuDNN {major} for the CUDA of the program and let the loader find it.".replace("  ", " "),
            sh("python -m pip install {wheel}", wheel=wheel),
            sh(
                "export LD_LIBRARY_PATH=$(python -c "
                "\"import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0] + '/lib')\"):$LD_LIBRARY_PATH"
            ),
            verify=sh("ldconfig -p | grep libcudnn"),
        ),
    )


LONG = 60  # of a symbol in a title
SPOKEN, REFUSED = "cudnn-older-path-said", "cudnn-incompatible"
FAILED = ("cudnn-not-initialized", "cudnn-sublibrary-loading")
SHOWS = sh('python -c "import torch; print(torch.backends.cudnn.version())"')


@rule(
    "cudnn-shadowed-by-ld-library-path", Layer.LIBRARY, "cudnn", in_one_python=True, explained_by=("cudnn-two-copies",)
)
def cudnn_shadowed_by_ld_library_path(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """LD_LIBRARY_PATH puts another cuDNN before the framework's own.

    The loader searches LD_LIBRARY_PATH before the folders that a wheel names, so the cuDNN there is loaded instead of
    the one that the framework was built and tested with. An older one is refused by PyTorch ("compiled against … but
    found runtime version …") or fails later. Remove that folder from LD_LIBRARY_PATH: wheels bring what they need.
    """
    found = [one for one in clashes(facts, LIBRARY) if one.foreign]
    for one in found:
        yield cudnn_shadowed_by_ld_library_path.finding(
            instance=one.mark,
            severity=Severity.WARNING if one.severity is Severity.INFO else one.severity,
            title=f"{one.who} {one.how} cuDNN {one.found} instead of its own {one.own}"
            + (": LD_LIBRARY_PATH names it first" if one.build else ""),
            detail="Another copy is found before its own, usually through LD_LIBRARY_PATH.",
            confidence=Confidence.LIKELY if heard(facts, REFUSED) and not one.build else Confidence.CERTAIN,
            because=one.because,
            fix=one.fix,
        )
    symbol = None if found else next(_of_the_path(facts), None)
    if symbol or (not found and heard(facts, REFUSED, SPOKEN)):
        lacks = f": it has no {_short(symbol.symbol)}" if symbol else ""
        name = f"PyTorch {release}" if (release := version(facts, "pytorch")) else "PyTorch"
        yield _taken(
            f"{name} loads another cuDNN than its own{lacks}",
            (*grounds(facts, REFUSED, SPOKEN, most=2), *((symbol.because,) if symbol else ())),
            facts,
        )
        return
    file, held = next(iter(loaded(facts, "libcudnn")), None), table(told(facts, "packages"), "distributions")
    wheel = next((name for name in held if name.startswith("nvidia-cudnn")), None)
    if file and wheel and not found and heard(facts, *FAILED):
        folder, own = file.values["path"].rpartition("/")[0], f"{wheel} {text(held, wheel) or ''}".strip()
        yield _taken(
            f"cuDNN is loaded from {folder} instead of the framework's own ({own})",
            (because_said(file), *grounds(facts, *FAILED, most=1)),
            facts,
        )


def _taken(title: str, because: tuple[Because, ...], facts: Facts) -> Finding:
    """Return a foreign cuDNN of which no release is known."""
    where = place(facts, "cudnn")
    return cudnn_shadowed_by_ld_library_path.finding(
        title=title,
        detail=f"The framework brings its own cuDNN; another is found first, usually through LD_LIBRARY_PATH"
        f"{f' ({where})' if where else ''}.",
        confidence=Confidence.LIKELY,
        because=(*because, *path_grounds(facts)),
        fix=off_path(facts, "cuDNN", SHOWS),
    )


def _short(symbol: str) -> str:
    return symbol if len(symbol) <= LONG else f"{symbol[:LONG]}…"


def _of_the_path(facts: Facts) -> Iterator[Lacking]:
    """Yield what a framework asks for and cuDNN lacks, or a part outside of all wheels on the path that is blamed."""
    lack = lacking(facts, "cudnn")
    blamed = path_blamed(facts, *(one.file for one in lack))
    for one in lack:
        foreign = blamed and one.file.startswith("/") and not OWN.search(one.file)
        if foreign if "cudnn" in one.asking else one.by_a_framework:
            yield one


TWO_REFUSED = ("cudnn-sublibrary-mismatch", "cudnn-version-mismatch")
TWO_VERIFY = sh("grep -ho '/.*libcudnn.*' /proc/[0-9]*/maps | sort -u")


@rule("cudnn-two-copies", Layer.LIBRARY, "cudnn", explained_by=("wheel-files-overwritten",))
def cudnn_two_copies(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Parts of two cuDNN versions are mixed.

    cuDNN is several libraries that must be of one version (libcudnn, _ops, _cnn, _graph …). Here they are not: one
    folder holds parts of two versions, or a framework loads parts from two folders. The second happens by accident: a
    wheel's libcudnn opens its parts by name, and LD_LIBRARY_PATH takes precedence over the folder that the wheel names.
    cuDNN then says CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH or does not find a part. Take the other one off the path,
    or reinstall the right one.
    """
    found = list(_two_seen(facts, matrix))
    yield from found or _two_said(facts)


def _two_said(facts: Facts) -> Iterator[Finding]:
    """Return what cuDNN itself says, or a symbol that one of its parts lacks, with the versions that are mentioned."""
    parts = [one for one in lacking(facts, "cudnn") if "cudnn" in one.asking]
    if path_blamed(facts, *(one.file for one in parts)):
        parts = [one for one in parts if OWN.search(one.file) or not one.file.startswith("/")]
    apart = _loaded_apart(facts)
    sure = bool(heard(facts, *TWO_REFUSED) or parts or apart)
    apart = apart or (() if lacking(facts, "cudnn") else _unfit(facts))
    if not sure and not apart:
        return
    versions = list(dict.fromkeys(number for number, _ in cudnn_here(facts) if number.count(".")))[:3]
    lying = {message.values["path"].rpartition("/")[0]: message for message in holding(facts, "library-file", "path")}
    where = [folder for folder, message in lying.items() if folder and "libcudnn" in message.values["path"]]
    system = [folder for folder in where if not OWN.search(folder)]
    title = f"Parts of two cuDNN releases are mixed{f': {_and(versions)}' if versions else ''}"
    yield cudnn_two_copies.finding(
        title=title + (f", the system's in {system[0]}" if system else ""),
        detail="All parts of libcudnn must be of exactly one version. A framework brings its own; another copy, "
        "usually the system's, is found before it or mixed with it (LD_LIBRARY_PATH, the loader's cache)."
        + (f" Parts lie in {_and(where)}." if len(where) > 1 else ""),
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
        because=(
            *grounds(facts, *TWO_REFUSED, most=2),
            *(one.because for one in parts[:1]),
            *(because_said(one) for one in apart),
            *(ground for number, ground in cudnn_here(facts) if number in versions),
            *(because_said(lying[folder]) for folder in where[:2]),
            *path_grounds(facts),
        ),
        fix=off_path(facts, "cuDNN", TWO_VERIFY)
        if path_grounds(facts)
        else fixes.advice(
            "Remove the system's cuDNN (or install the wheel's version of it), and reinstall the wheel's.",
            sh("ldconfig -p | grep libcudnn"),
            sh("python -m pip list | grep -i cudnn"),
            verify=TWO_VERIFY,
        ),
    )


def _loaded_apart(facts: Facts) -> tuple[Message, ...]:
    """Return a part of cuDNN that the loader took from a wheel, and one that it took from outside of all wheels."""
    parts = [one for one in holding(facts, "library-loaded", "path", "soname") if "libcudnn" in one.values["soname"]]
    outside = [one for one in parts if not OWN.search(one.values["path"])]
    inside = [one for one in parts if OWN.search(one.values["path"])]
    return (inside[0], outside[0]) if inside and outside else ()


def _unfit(facts: Facts) -> tuple[Message, ...]:
    """Return a part of cuDNN that could not be loaded since another does not fit it."""
    refused = holding(facts, NOT_LOADED, "soname")
    return tuple(one for one in refused if "libcudnn" in one.values["soname"] and UNFIT.search(one.line))[:1]


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def _two_seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    for build in builds(facts):
        one = used(build, "libcudnn", "cudnn", facts)
        loaded = {path.rpartition("/")[0] for path in texts(build.exercise, "loaded", "libcudnn")}
        folders = loaded or _to_come(build, facts)
        mixed = bool(one and one.copy and flag(one.copy.facts, "mixed"))
        if one and (mixed or len(folders) > 1):
            yield _two_finding(build, one, sorted(folders), facts, matrix)


def _to_come(build: Build, facts: Facts) -> set[str]:
    """Return the folders from which the loader would take the parts, where the copies in them are of two versions."""
    search = table(build.copy.facts, "search")
    firsts = [items(search, name)[:1] for name in search if name.startswith("libcudnn")]
    folders = {_folder(one) for first in firsts for one in first} - {""}
    held = {copy.version for copy in copies(facts, "cudnn") if (copy.path or "").rpartition("/")[0] in folders}
    return folders if len(held - {None}) > 1 else set()


def _on_path(build: Build, folders: Iterable[str]) -> str | None:
    """Return the folder of these that LD_LIBRARY_PATH puts before the framework's own, or None where none is."""
    search = table(build.copy.facts, "search")
    found = [one for name in search if name.startswith("libcudnn") for one in items(search, name)]
    named = {_folder(one): text(one, "folder") for one in found if text(one, "step") == LD_LIBRARY_PATH}
    return next((named[folder] or folder for folder in folders if folder in named), None)


def _folder(candidate: JsonValue) -> str:
    return (text(candidate, "real") or text(candidate, "path") or "").rpartition("/")[0]


def _two_finding(build: Build, one: Used, folders: list[str], facts: Facts, matrix: Matrix) -> Finding:
    where = " and ".join(folders) if len(folders) > 1 else one.path.rpartition("/")[0]
    parts = [because_of(facts, "cudnn", one.copy, "parts")] if one.copy else []
    fact = "exercise.loaded.libcudnn" if one.loaded else "search.libcudnn"
    loaded = [Because(component=build.component, fact=fact, value=path) for path in folders]
    name = text(one.copy.facts, "owner", "name") if one.copy else None
    version = one.version or ""
    other = _on_path(build, folders)
    again = fixes.advice(
        "Reinstall the cuDNN that the framework requires, and remove every other from the loader's path.",
        sh(
            "{python} -m pip install --force-reinstall --no-deps {wheel}",
            python=build.python,
            wheel=requirement(name, f"=={version}.*")
            if name and version
            else pinned("nvidia-cudnn-cu12", facts, matrix, build.copy.environment),
        ),
        verify=fixes.verify_loaded(build),
    )
    return cudnn_two_copies.finding(
        instance=build.mark,
        severity=Severity.WARNING if build.ran_on_gpu else Severity.ERROR,
        title=f"{build.name} uses parts of two cuDNN versions, in {where}",
        confidence=Confidence.CERTAIN if one.loaded or len(folders) < 2 else Confidence.LIKELY,  # noqa: PLR2004 - two
        because=(evidence(build, "libcudnn", one), *parts, *loaded),
        fix=fixes.off_path([other], other, fixes.verify_loaded(build)) if other else again,
    )
