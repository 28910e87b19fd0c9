"""A program wants the libraries of one CUDA major, and the machine has those of another.

The names of CUDA's libraries carry a number that belongs to a major: libcublasLt.so.11 is of CUDA 11, and CUDA 12 has
libcublasLt.so.12 only. No newer toolkit serves a program that was built for an older major, whatever the driver. Take
the build of the program for the CUDA that is here, or install the libraries of its own major beside it: both may lie on
one machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.linking import cuda_majors
from gpustack.diagnose.rules.saying import because_said, grounds, heard, holding, value
from gpustack.diagnose.rules.wanting import ONNXRUNTIME, TENSORFLOW, Here, Missing, cuda_here, install, majors, missing
from gpustack.diagnose.rules.wanting import onnxruntime_version as ort_version
from gpustack.matrix.subjects import frameworks
from gpustack.model.command import DISTRIBUTION, NUMBER, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

FAILED = ("ort-requires", "ort-provider-create-failed", "ort-provider-failed")
DEFAULT_BEFORE = 11  # onnxruntime-gpu of the package index was for this major, long after machines had the next


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the libraries that were looked for in vain where those of another major are here."""
    wanted = clashing(facts, matrix)
    if not wanted:
        yield from _taken_instead(facts, matrix)
        yield from _required(facts, matrix)
        return
    here = [one for one in cuda_here(facts, matrix) if one.major not in wanted[0].majors]
    needs = " or ".join(f"CUDA {major}" for major in wanted[0].majors)
    release = frameworks.onnxruntime_of(matrix, ort_version(facts) or "0") if wanted[0].asker == ONNXRUNTIME else None
    yield Finding(
        id="cuda-major-mixed",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component=wanted[0].library,
        title=f"{_asker(wanted[0], facts)} wants {wanted[0].soname} of {needs}, and {_found(here)}",
        detail=f"Not found: {', '.join(one.soname for one in wanted)}. A library of another major cannot take its "
        "place, whatever the driver.",
        confidence=Confidence.CERTAIN if any(one.sure for one in here) else Confidence.LIKELY,
        because=(*(because_said(one.message) for one in wanted[:3]), *(one.because for one in here[:3])),
        row=release.row if release else None,
        fix=_fix(wanted[0], here, facts, matrix),
    )


def _taken_instead(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the library of one major that a program takes in the place of its own, where both are spoken of."""
    for one in holding(facts, "library-instead", "found", "wanted"):
        found, own = one.values["found"], one.values["wanted"]
        majors_ = [cuda_majors(name, matrix) for name in (found, own)]
        if not all(majors_) or set(majors_[0]) & set(majors_[1]):
            continue
        wheels = [here for here in cuda_here(facts, matrix) if here.major in {*majors_[0], *majors_[1]}]
        listed = list(dict.fromkeys(here.what for here in wheels))
        both = f": {', '.join(listed)}" if listed else ""
        yield Finding(
            id="cuda-major-mixed",
            severity=Severity.ERROR,
            layer=Layer.LIBRARY,
            component="cuda-runtime",
            title=f"{found} of CUDA {majors_[0][0]} is loaded in the place of {own} of CUDA {majors_[1][0]}",
            detail=f"Both are here{both}. A library of another major cannot take the place of a program's own.",
            confidence=Confidence.CERTAIN if listed else Confidence.LIKELY,
            because=(because_said(one), *(here.because for here in wheels[:4])),
            fix=_drop(majors_[0][0], [what for what in listed if what.endswith(f"-cu{majors_[0][0]}")]),
        )
        return


def _drop(major: int, wheels: Sequence[str]) -> Fix:
    """Give how to take the libraries of a major away."""
    names = [DISTRIBUTION(name) for name in dict.fromkeys(wheels)] or [DISTRIBUTION(f"nvidia-cuda-runtime-cu{major}")]
    return Fix(
        text=f"Remove the wheels of CUDA {major} (…-cu{major}), or take its folder off the path of the loader.",
        commands=(
            sh("python -m pip list | grep -e -cu{major}", major=NUMBER(major)),
            sh("python -m pip uninstall {names}", names=names),
        ),
        verify=sh("gpustack doctor --deep"),
    )


def _required(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the CUDA that ONNX Runtime asks for where it failed without naming a library, and another is here."""
    major, here = required(facts, matrix), [one for one in cuda_here(facts, matrix) if one.sure]
    if major is None or not here or major in majors(here) or missing(facts, matrix):
        return
    release = frameworks.onnxruntime_of(matrix, ort_version(facts) or "0")
    yield Finding(
        id="cuda-major-mixed",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component=ONNXRUNTIME,
        title=f"onnxruntime-gpu {ort_version(facts) or ''}".strip() + f" wants CUDA {major}, and {_found(here)}",
        detail="A library of another major cannot take its place, whatever the driver.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, *FAILED, most=2), *(one.because for one in here[:3])),
        row=release.row if release else None,
        fix=Fix(
            text=f"{build_for(here[0].major, facts, matrix)} Else: {install(facts, matrix, major).text}",
            commands=install(facts, matrix, major).commands,
            verify=sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
        ),
    )


def required(facts: Facts, matrix: Matrix) -> int | None:
    """Give the CUDA major that a failing ONNX Runtime needs: by its own words, else by the row of its release."""
    said_ = value(facts, "ort-requires", "cuda") or value(facts, "ort-package", "cuda")
    release = frameworks.onnxruntime_of(matrix, ort_version(facts) or "0")
    if said_ and said_.isascii() and said_.isdecimal():
        return int(said_[:3])
    return release.cuda if release and heard(facts, *FAILED) else None


def clashing(facts: Facts, matrix: Matrix) -> list[Missing]:
    """Give the libraries that were looked for in vain and are of no CUDA major that is here."""
    wanted = [one for one in missing(facts, matrix) if one.majors and one.asker != TENSORFLOW]
    signs = cuda_here(facts, matrix)
    if not signs:
        return [one for one in wanted if one.asker == ONNXRUNTIME and one.majors == (DEFAULT_BEFORE,)]
    brought = [one for one in signs if one.because.component != "pytorch"]
    return [one for one in wanted if not set(one.majors) & set(majors(brought or signs))]


def _asker(one: Missing, facts: Facts) -> str:
    if one.asker == ONNXRUNTIME:
        return f"onnxruntime-gpu {ort_version(facts) or ''}".strip()
    by = (one.message.values.get("by") or "").rpartition("/")[2]
    return by if "/" in (one.message.values.get("by") or "") or ".so" in by else "The program"


def _found(here: Sequence[Here]) -> str:
    return f"{here[0].what} is here (CUDA {here[0].major})" if here else "that is not here"


def _fix(one: Missing, here: Sequence[Here], facts: Facts, matrix: Matrix) -> Fix:
    other = install(facts, matrix, one.majors[0], one.soname)
    if one.asker != ONNXRUNTIME or not here:
        cuda = f" built for CUDA {here[0].major}" if here else " for the CUDA that is here"
        return Fix(
            text=f"Take the build of the program{cuda}. Else: {other.text}",
            commands=other.commands,
            needs_root=other.needs_root,
            verify=other.verify,
        )
    return Fix(
        text=f"{build_for(here[0].major, facts, matrix)} Else: {other.text}",
        commands=other.commands,
        needs_root=other.needs_root,
        verify=sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
    )


def build_for(cuda: int, facts: Facts, matrix: Matrix) -> str:
    """Give in words the onnxruntime-gpu for a CUDA major."""
    release = ort_version(facts) or "0"
    feed = next((one for one in frameworks.onnxruntime_feeds(matrix, release) if one.cuda == cuda), None)
    fitting = [one for one in frameworks.onnxruntime_releases(matrix) if one.cuda == cuda]
    span = f"onnxruntime-gpu {fitting[0].version} to {fitting[-1].version}" if fitting else "another onnxruntime-gpu"
    own = f" {release} for CUDA {cuda} is on ONNX Runtime's own feed for that major." if feed else ""
    return f"On the package index {span} is built for CUDA {cuda}: install that.{own}"
