"""Wheels for another CUDA than that of the framework beside them."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.change_sets import FAMILY, fitting, place
from gpustack.diagnose.fixes import TORCH_INDEX
from gpustack.diagnose.installing import pinned
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, said, value
from gpustack.diagnose.machine.extensions import (
    FRAMEWORKS,
    SERVING,
    Extension,
    bringing,
    listed,
    named,
    of_file,
    of_name,
    other_cuda_alone,
)
from gpustack.diagnose.machine.frameworks import (
    because_package,
    because_torch,
    distributions,
    dotted,
    installed,
    torch,
    torch_cuda,
    torch_version,
)
from gpustack.diagnose.machine.inventory import nvidia_here, on_windows
from gpustack.diagnose.machine.linking import cuda_majors, soname_library
from gpustack.diagnose.machine.packages import missing
from gpustack.diagnose.machine.toolchain import toolchain_toolkits
from gpustack.diagnose.machine.values import text, version
from gpustack.diagnose.machine.wheels import ASK, OtherCuda, fix, other_cuda, shows, torches
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import ranges, training
from gpustack.model import record
from gpustack.model.command import ADDRESS, BUILD_TAG, DISTRIBUTION, MODULE, NUMBER, either, requirement, sh, step
from gpustack.model.facts import Facts, Layer, Message
from gpustack.model.report import Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.training import BitsandbytesRelease


BESIDE = frozenset({"torchvision", "torchaudio"})  # they have a finding of their own
OWN_CUDA = re.compile(r"\+(?:[\w.]{0,20}[._])?cu(?:da)?(?P<major>1\d)")


@record
class Sought:
    """A library of CUDA that a wheel did not find, and the majors that it belongs to."""

    soname: str
    majors: tuple[int, ...]
    message: Message


@rule("cuda-major-mismatch-wheel", Layer.SERVING, "pytorch", in_one_python=True)
def cuda_major_mismatch_wheel(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A wheel is built for a different CUDA major version than torch.

    torch brings the CUDA libraries of its own major version. A server or extension whose wheel is built for the next or
    the previous one looks for libraries that nothing here provides ("libcudart.so.13: cannot open shared object file"
    beside a torch for CUDA 12). Package indexes serve one CUDA version for each release: install the wheel of this
    release for torch's CUDA version, or the torch for the wheel's.
    """
    if not facts.messages:
        yield from (_on_disk(one, facts, matrix) for one in other_cuda(facts, matrix))
        return
    for message in said(facts, "xformers-built-for"):
        if other_cuda_alone(message):
            yield _built_for(message, facts, matrix)
            return
    for message in holding(facts, "torchvision-cuda-mismatch", "package", "torch", "found"):
        package, mine = message.values["package"], message.values["torch"]
        ours, theirs = (ranges.numbers(dotted(one) or "")[:1] for one in (mine, message.values["found"]))
        if package.lower() not in BESIDE and ours and theirs and ours != theirs:
            yield _finding(Sought(soname=package, majors=theirs, message=message), mine, facts, matrix)
            return
    own = None if _wheels_of_two_majors(facts) and _guessed(facts) else torch_cuda(facts)
    if heard(facts, "bnb-missing-binary"):
        return
    if own is None:
        yield from _imported(facts, matrix)
        return
    found = next((one for one in _sought(facts, matrix) if own.major not in one.majors), None)
    if found:
        yield _finding(found, str(own), facts, matrix)


def _on_disk(one: OtherCuda, facts: Facts, matrix: Matrix) -> Finding:
    """Return the wheel whose own file names the runtime that it needs, which is nowhere here."""
    wheel, own = one.extension, str(one.build.cuda)
    return cuda_major_mismatch_wheel.finding(
        instance=one.mark,
        severity=Severity.WARNING,
        layer=Layer.SERVING if wheel.name in SERVING else Layer.FRAMEWORK,
        component=wheel.name,
        title=f"{wheel.words} is built for CUDA {one.major}, but {one.build.name} is for CUDA {own}",
        detail=f"{(one.file.path or '').rpartition('/')[2]} needs libcudart.so.{one.major}, which is not here.",
        because=(*one.because(facts), *because_package(facts, wheel.name)),
        row=wheel.row,
        confidence=Confidence.LIKELY,
        fix=fix(wheel, own, one.major, facts, matrix),
    )


def _built_for(message: Message, facts: Facts, matrix: Matrix) -> Finding:
    """Return xFormers, which says itself for which torch it was built: this release, with another CUDA."""
    built, have = message.values["built"], message.values["have"]
    wheel = of_name("xformers", facts, matrix)
    return cuda_major_mismatch_wheel.finding(
        instance=wheel.name,
        layer=Layer.FRAMEWORK,
        component=wheel.name,
        title=f"{wheel.words} is built for torch {built}, but torch {have} is installed, for a different CUDA",
        detail="Its own kernels cannot be loaded: without them it is slow or fails.",
        because=(because_said(message), *because_package(facts, wheel.name)),
        row=wheel.row,
        fix=fixes.advice(
            f"Install the build of {wheel.name} for the CUDA of torch {have}.",
            sh(
                "python -m pip install --force-reinstall --no-deps {wheel} --index-url {index}/{tag}",
                wheel=pinned(wheel.name, facts, matrix),
                index=ADDRESS(TORCH_INDEX),
                tag=BUILD_TAG(have.partition("+")[2]),
            ),
            verify=sh("python -m {module}.info", module=MODULE(wheel.name)),
        ),
    )


def _imported(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the wheel whose import does not find a library that torch, which it loads first, would have brought."""
    for one in holding(facts, "extension-import", "module", "soname"):
        name = bringing(one.values["module"])
        found = next((found for found in _sought(facts, matrix) if found.soname == one.values["soname"]), None)
        if name and found and not _same_major(found, facts):
            yield _unfit(of_name(name, facts, matrix), found, one, facts, matrix)
            return

    yield from islice(_misnamed(facts, matrix), 1)
    found, several = next(_sought(facts, matrix), None), _wheels_of_two_majors(facts)
    held = (one for one in listed(facts, matrix) if one.name in SERVING) if several else named(facts, matrix)
    wheel = next(held, None) if found else None
    if wheel and found and (several or not _same_major(found, facts)):
        yield _unfit(wheel, found, found.message, facts, matrix)


def _misnamed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the wheel whose version names a CUDA of another major than the library that was not found."""
    for name, release in distributions(facts).items():
        tag = OWN_CUDA.search(str(release))
        found = next((one for one in _sought(facts, matrix) if tag and int(tag["major"]) not in one.majors), None)
        if tag and found and name not in FRAMEWORKS:
            yield cuda_major_mismatch_wheel.finding(
                instance=name,
                component=name,
                title=f"{name} {release} is named for CUDA {tag['major']}, but needs {found.soname} of "
                f"CUDA {found.majors[-1]}",
                detail="A wheel needs the libraries of the CUDA major version that it was linked against, whatever "
                "its name says.",
                because=(because_said(found.message), *because_package(facts, name)),
                confidence=Confidence.LIKELY,
                fix=fixes.advice(
                    f"Install another release of {name} whose files are built for CUDA {tag['major']}, or install "
                    f"the runtime of CUDA {found.majors[-1]} beside it.",
                    sh("python -m pip show -f {name}", name=DISTRIBUTION(name)),
                ),
            )


def _guessed(facts: Facts) -> bool:
    build = torch(facts)
    return build is not None and text(build.copy.facts, "build_from") is not None


def _wheels_of_two_majors(facts: Facts) -> bool:
    """Return whether NVIDIA's wheels of two CUDA majors are listed, so that nobody knows which of them is torch's."""
    names = (name for name in distributions(facts) if name.startswith("nvidia-"))
    return len({name[-len("-cu12") :] for name in names if re.search(r"-cu1\d$", name)}) > 1


def _same_major(found: Sought, facts: Facts) -> bool:
    """Return whether wheels of the library's own CUDA major are listed, so that torch is not of another."""
    names = distributions(facts)
    return any(name.startswith("nvidia-") and name.endswith(f"-cu{major}") for name in names for major in found.majors)


def _unfit(wheel: Extension, found: Sought, message: Message, facts: Facts, matrix: Matrix) -> Finding:
    major, release = found.majors[-1], torch_version(facts)
    beside = f"torch {release}" if release else "the torch"
    return cuda_major_mismatch_wheel.finding(
        instance=wheel.name,
        layer=Layer.SERVING if wheel.name in SERVING else Layer.FRAMEWORK,
        component=wheel.name,
        title=f"{wheel.words} is built for CUDA {major} ({found.soname}), but {beside} here brings none of it",
        detail=f"{wheel.name} loads torch first, whose wheels bring only the CUDA libraries of their own major version."
        + (f" This release requires torch {wheel.torch}." if wheel.torch else ""),
        because=(
            because_said(message),
            *because_torch(facts),
            *because_package(facts, wheel.name),
            *(one.because for one in toolchain_toolkits(facts)[:1]),
            *(because_said(one) for one in said(facts, "library-file") if "libcudart" in one.line),
        ),
        row=wheel.row,
        confidence=Confidence.LIKELY,
        fix=fixes.advice(
            f"Install the torch for CUDA {major}"
            + (f" that this release asks for (torch {wheel.torch})" if wheel.torch else "")
            + f", or the build of {wheel.name} for the CUDA of the installed torch: both must have the same "
            "major version.",
            ASK,
            *torches(wheel, major, matrix),
            verify=shows(wheel.name),
        ),
    )


def _sought(facts: Facts, matrix: Matrix) -> Iterator[Sought]:
    for one in missing(facts, matrix):
        if one.majors and one.asker is None and not _of_another_program(one.message, facts):
            yield Sought(soname=one.soname, majors=one.majors, message=one.message)
    for message in said(facts, "library-sought"):
        soname = message.values.get("soname", "")
        majors = cuda_majors(soname, matrix)
        if majors and soname_library(soname):
            yield Sought(soname=soname, majors=majors, message=message)


def _of_another_program(message: Message, facts: Facts) -> bool:
    """Return whether CTranslate2 looked for a library, which has no part in torch and loads cuBLAS by itself."""
    own = "is not found" in message.line or bool(installed(facts, "ctranslate2", "faster-whisper"))
    return own and not heard(facts, "extension-import")


def _finding(found: Sought, own: str, facts: Facts, matrix: Matrix) -> Finding:
    wheel = _wheel(found.message, facts, matrix)
    release, major = torch_version(facts), found.majors[-1]
    name, beside = wheel.words if wheel else "A wheel", f"torch {release}" if release else "the torch beside it"
    of = "" if "package" in found.message.values else f" ({found.soname})"
    return cuda_major_mismatch_wheel.finding(
        instance=wheel.name if wheel else None,
        layer=Layer.SERVING if wheel is None or wheel.name in SERVING else Layer.FRAMEWORK,
        component=wheel.name if wheel else "pytorch",
        title=f"{name} is built for CUDA {major}{of}, but {beside} is for CUDA {own}",
        detail=f"torch brings only the libraries of CUDA {own.partition('.')[0]}; {found.soname} is for CUDA {major}.",
        because=(
            because_said(found.message),
            *because_torch(facts),
            *(because_package(facts, wheel.name) if wheel else ()),
        ),
        row=wheel.row if wheel else None,
        confidence=Confidence.LIKELY if _guessed(facts) else Confidence.CERTAIN,
        fix=fix(wheel, own, major, facts, matrix),
    )


def _wheel(message: Message, facts: Facts, matrix: Matrix) -> Extension | None:
    """Return the wheel that looked for the library: as the message names its file, else the server that is listed."""
    by, package = message.values.get("by", ""), message.values.get("package")
    if package:
        return of_name(package.replace("_", "-"), facts, matrix)
    if ("/" in by and "packages/" in by) or ".so" in by:
        return of_file(by, facts, matrix)
    held = [one for one in listed(facts, matrix) if one.name in message.line.replace("_", "-").lower()]
    found = held or [one for one in listed(facts, matrix) if one.name in SERVING] or list(listed(facts, matrix))
    if found:
        return found[0]
    named = next((name for name in sorted(SERVING) if name in message.line.lower() or version(facts, name)), None)
    return of_name(named, facts, matrix) if named else None


MISSING, DETECTED = "bnb-missing-binary", "bnb-detected-cuda"
WEAK = ("bnb-setup-failed", "bnb-no-gpu")


@rule("bnb-binary-missing-for-cuda", Layer.LIBRARY, "bitsandbytes", in_one_python=True)
def bnb_binary_missing_for_cuda(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """This release of bitsandbytes has no binary for torch's CUDA version.

    Its wheel holds one library for each CUDA version (libbitsandbytes_cuda126.so) and takes the one that
    torch.version.cuda names. If that is newer than the release, or older than what it still supports, there is none.
    Install a release that has it, or a torch for one of its CUDA versions, or set BNB_CUDA_VERSION to a close version
    that it has.
    """
    build = torch(facts)
    if build and build.accelerator == "cpu":
        return  # then torch itself is what is wrong
    release = _release(facts, matrix)
    own = torch_cuda(facts)
    known = bool(release and own and release.cudas and not release.serves(own))
    # sought by Linux's name
    foreign = on_windows(facts) and not facts.host.wsl and heard(facts, "libcuda-not-found", "libcuda-nowhere")
    lacking = known or foreign or _between(facts, matrix, own)
    if heard(facts, MISSING):
        yield _bnb_finding(facts, matrix, Severity.ERROR, Confidence.CERTAIN)
    elif (heard(facts, *WEAK) and lacking) or known or (heard(facts, WEAK[1]) and build is None):
        yield _bnb_finding(facts, matrix, Severity.ERROR, Confidence.LIKELY)
    elif heard(facts, *WEAK) and nvidia_here(facts):
        yield _bnb_finding(facts, matrix, Severity.WARNING, Confidence.POSSIBLE)


def _release(facts: Facts, matrix: Matrix) -> BitsandbytesRelease | None:
    version = installed(facts, "bitsandbytes")
    return training.bitsandbytes_of(matrix, version) if version else None


def _between(facts: Facts, matrix: Matrix, own: CudaVersion | None) -> bool:
    """Return whether a release without a row has no binary for a CUDA, since neither the row before nor after has."""
    wanted = ranges.version_of(installed(facts, "bitsandbytes") or "")
    if wanted is None:
        return False
    held = [(ranges.version_of(one.version), one) for one in training.bitsandbytes(matrix) if one.cudas]
    before = [one for version, one in held if version and version <= wanted]
    after = [one for version, one in held if version and version >= wanted]
    if not after or own is None:
        return False
    return not after[0].serves(own) and not any(one.serves(own) for one in before[-1:])


def _bnb_finding(facts: Facts, matrix: Matrix, severity: Severity, confidence: Confidence) -> Finding:
    version, release = installed(facts, "bitsandbytes"), _release(facts, matrix)
    file, cuda = value(facts, MISSING, "file", "file2"), _cuda(facts)
    has = f"This release has binaries for CUDA {', '.join(map(str, release.cudas))}." if release else ""
    library = f" ({file})" if file else ""
    return bnb_binary_missing_for_cuda.finding(
        severity=severity,
        title=f"bitsandbytes {version or 'here'} has no binary for {cuda or 'the CUDA version of torch'}{library}",
        detail=has,
        because=(
            *grounds(facts, MISSING, *WEAK, DETECTED),
            *because_package(facts, "bitsandbytes"),
            *because_torch(facts),
            *(one.because for one in toolchain_toolkits(facts)[:1]),
        ),
        row=release.row if release else None,
        confidence=confidence,
        fix=_bnb_fix(facts, matrix),
    )


def _cuda(facts: Facts) -> str | None:
    """Return the CUDA or ROCm version for which there is no binary, in words."""
    variant = value(facts, MISSING, "variant", "variant2") or ""
    match = re.match(r"(?P<kind>cuda|rocm|hip)(?P<digits>\d{2,3})", variant)
    if match:
        kind = "CUDA" if match["kind"] == "cuda" else "ROCm"
        return f"{kind} {dotted(match['digits'])}"
    detected = dotted(value(facts, DETECTED, "cuda"))
    own = torch_cuda(facts)
    return f"CUDA {detected or own}" if detected or own else None


def _bnb_fix(facts: Facts, matrix: Matrix) -> Fix:
    wanted = CudaVersion.parse((_cuda(facts) or "").removeprefix("CUDA "))
    having = [one for one in training.bitsandbytes(matrix) if wanted and wanted in one.cudas]
    span = f" bitsandbytes {having[0].version} to {having[-1].version} have CUDA {wanted}." if having else ""
    here = place(facts, None)
    known = FAMILY["bitsandbytes"](matrix)
    beside = {one.version for one in fitting(known, here, here.release)} if here.release else set()
    newest = next((one.version for one in reversed(having) if one.version in beside or not here.release), None)
    near = _bnb_near(wanted, _release(facts, matrix) or (training.bitsandbytes(matrix) or (None,))[-1])
    commands = [
        sh("python -m pip install {wanted}", wanted=requirement("bitsandbytes", f"=={newest}"))
        if newest
        else step("install a bitsandbytes that has that binary and works with the installed torch, or build it")
    ]
    if near:
        digits = NUMBER(f"{near.major}{near.minor}")
        commands.append(sh("export BNB_CUDA_VERSION={digits}", digits=digits))
    return fixes.advice(
        f"Install a bitsandbytes with a binary for it (a newer one for a newer CUDA, also on Windows), or a torch "
        f"for a CUDA that this one has.{span}",
        *either(*commands),
        verify=sh("python -m bitsandbytes"),
    )


def _bnb_near(wanted: CudaVersion | None, release: BitsandbytesRelease | None) -> CudaVersion | None:
    """Return the nearest CUDA of the same major that a release has."""
    if wanted is None or release is None or wanted in release.cudas:
        return None
    same = [one for one in release.cudas if one.major == wanted.major]
    return min(same, key=lambda one: abs(one.minor - wanted.minor), default=None)
