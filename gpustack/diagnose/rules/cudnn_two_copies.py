"""Parts of two cuDNN versions are mixed.

cuDNN is several libraries that must be of one version (libcudnn, _ops, _cnn, _graph …). Here they are not: one folder
holds parts of two versions, or a framework loads parts from two folders. The second happens without anybody meaning it:
a wheel's libcudnn opens its parts by name, and LD_LIBRARY_PATH goes before the folder that the wheel names. cuDNN then
says CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH or does not find a part. Take the other one off the path, or install the
right one anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.foreign import OWN, lacking, off_path, path_blamed, path_grounds
from gpustack.diagnose.rules.libraries import LD_LIBRARY_PATH, evidence, used
from gpustack.diagnose.rules.reading import because_of, copies, flag, items, table, text, texts
from gpustack.diagnose.rules.saying import because_said, grounds, heard, holding
from gpustack.diagnose.rules.seen import builds
from gpustack.diagnose.rules.wanting import cudnn_here
from gpustack.model.command import requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpustack.diagnose.rules.libraries import Used
    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue, Message


REFUSED = ("cudnn-sublibrary-mismatch", "cudnn-version-mismatch")
VERIFY = sh("grep libcudnn /proc/$PID/maps  # of the running program: one folder alone")


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework that uses a mixed cuDNN: a warning where it ran rightly all the same."""
    found = list(_seen(facts))
    yield from found or _said(facts)


def _said(facts: Facts) -> Iterator[Finding]:
    """Give what cuDNN itself says, or a symbol that one of its parts lacks, with the versions that are spoken of."""
    parts = [one for one in lacking(facts, "cudnn") if "cudnn" in one.asking]
    if path_blamed(facts, *(one.file for one in parts)):
        parts = [one for one in parts if OWN.search(one.file) or not one.file.startswith("/")]
    apart = _loaded_apart(facts)
    if not heard(facts, *REFUSED) and not parts and not apart:
        return
    versions = list(dict.fromkeys(number for number, _ in cudnn_here(facts) if number.count(".")))[:3]
    lying = {message.values["path"].rpartition("/")[0]: message for message in holding(facts, "library-file", "path")}
    where = [folder for folder, message in lying.items() if "libcudnn" in message.values["path"]]
    system = [folder for folder in where if not OWN.search(folder)]
    title = f"Parts of two cuDNN releases are mixed{f': {_and(versions)}' if versions else ''}"
    yield Finding(
        id="cudnn-two-copies",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=title + (f", the system's in {system[0]}" if system else ""),
        detail="All parts of libcudnn must be of exactly one version. A framework brings its own; another copy, mostly "
        "of the system, is found before it or beside it (LD_LIBRARY_PATH, the loader's cache)."
        + (f" Parts lie in {_and(where)}." if len(where) > 1 else ""),
        because=(
            *grounds(facts, *REFUSED, most=2),
            *(because_said(one.message) for one in parts[:1]),
            *(because_said(one) for one in apart),
            *(ground for number, ground in cudnn_here(facts) if number in versions),
            *(because_said(lying[folder]) for folder in where[:2]),
            *path_grounds(facts),
        ),
        fix=off_path(facts, "cuDNN", VERIFY)
        if path_grounds(facts)
        else Fix(
            text="Remove the system's cuDNN (or bring it to the version of the wheel), and install the wheel's anew.",
            commands=(sh("ldconfig -p | grep libcudnn"), sh("python -m pip list | grep -i cudnn")),
            verify=VERIFY,
        ),
    )


def _loaded_apart(facts: Facts) -> tuple[Message, ...]:
    """Give a part of cuDNN that the loader took from a wheel, and one that it took from outside of all wheels."""
    parts = [one for one in holding(facts, "library-loaded", "path", "soname") if "libcudnn" in one.values["soname"]]
    outside = [one for one in parts if not OWN.search(one.values["path"])]
    inside = [one for one in parts if OWN.search(one.values["path"])]
    return (inside[0], outside[0]) if inside and outside else ()


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def _seen(facts: Facts) -> Iterator[Finding]:
    for build in builds(facts):
        one = used(build, "libcudnn", "cudnn", facts)
        loaded = {path.rpartition("/")[0] for path in texts(build.exercise, "loaded", "libcudnn")}
        folders = loaded or _to_come(build, facts)
        mixed = bool(one and one.copy and flag(one.copy.facts, "mixed"))
        if one and (mixed or len(folders) > 1):
            yield _finding(build, one, sorted(folders), facts)


def _to_come(build: Build, facts: Facts) -> set[str]:
    """Give the folders from which the loader would take the parts, where the copies in them are of two versions."""
    search = table(build.copy.facts, "search")
    firsts = [items(search, name)[:1] for name in search if name.startswith("libcudnn")]
    folders = {_folder(one) for first in firsts for one in first} - {""}
    held = {copy.version for copy in copies(facts, "cudnn") if (copy.path or "").rpartition("/")[0] in folders}
    return folders if len(held - {None}) > 1 else set()


def _on_path(build: Build, folders: Iterable[str]) -> str | None:
    """Give the folder of these that LD_LIBRARY_PATH puts before the framework's own, or None where none is."""
    search = table(build.copy.facts, "search")
    found = [one for name in search if name.startswith("libcudnn") for one in items(search, name)]
    named = {_folder(one): text(one, "folder") for one in found if text(one, "step") == LD_LIBRARY_PATH}
    return next((named[folder] or folder for folder in folders if folder in named), None)


def _folder(candidate: JsonValue) -> str:
    return (text(candidate, "real") or text(candidate, "path") or "").rpartition("/")[0]


def _finding(build: Build, one: Used, folders: list[str], facts: Facts) -> Finding:
    where = " and ".join(folders) if len(folders) > 1 else one.path.rpartition("/")[0]
    parts = [because_of(facts, "cudnn", one.copy, "parts")] if one.copy else []
    fact = "exercise.loaded.libcudnn" if one.loaded else "search.libcudnn"
    loaded = [Because(component=build.component, fact=fact, value=path) for path in folders]
    name = text(one.copy.facts, "owner", "name") if one.copy else None
    version = one.version or ""
    other = _on_path(build, folders)
    anew = Fix(
        text="Install the cuDNN that the framework requires anew, and take every other off the loader's path.",
        commands=(
            sh(
                "{python} -m pip install --force-reinstall --no-deps {wheel}",
                python=build.python,
                wheel=requirement(name or "nvidia-cudnn-cu12", f"=={version}.*" if name and version else ""),
            ),
        ),
        verify=fixes.verify_loaded(build),
    )
    return Finding(
        id="cudnn-two-copies",
        instance=build.mark,
        severity=Severity.WARNING if build.ran_on_gpu else Severity.ERROR,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=f"{build.name} uses parts of two cuDNN versions, in {where}",
        confidence=Confidence.CERTAIN if one.loaded or len(folders) < 2 else Confidence.LIKELY,  # noqa: PLR2004 - two
        because=(evidence(build, "libcudnn", one), *parts, *loaded),
        fix=fixes.off_path([other], other, fixes.verify_loaded(build)) if other else anew,
    )
