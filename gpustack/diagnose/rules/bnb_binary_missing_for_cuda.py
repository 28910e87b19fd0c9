"""bitsandbytes of this release brings no binary for the CUDA version of torch.

Its wheel holds one library for each CUDA version (libbitsandbytes_cuda126.so) and takes the one that torch.version.cuda
names. Where that is newer than the release, or older than what it still supports, there is none. Take a release that
has it, a torch for one of its CUDA versions, or let BNB_CUDA_VERSION name a near version that it has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.frameworks import because_package, because_torch, dotted, installed, torch, torch_cuda
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.diagnose.rules.seen import from_text, nvidia_here
from gpustack.diagnose.rules.toolchain import toolkits
from gpustack.matrix.subjects import ranges, training
from gpustack.model.command import NUMBER, either, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.training import BitsandbytesRelease
    from gpustack.model.facts import Facts

ID = "bnb-binary-missing-for-cuda"
MISSING, DETECTED = "bnb-missing-binary", "bnb-detected-cuda"
WEAK = ("bnb-setup-failed", "bnb-no-gpu")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give bitsandbytes where it looked in vain for a binary, or where its release has none for torch's CUDA."""
    build = torch(facts)
    if build and build.accelerator == "cpu":
        return  # then torch itself is what is wrong
    release = _release(facts, matrix)
    own = torch_cuda(facts)
    known = bool(release and own and release.cudas and not release.serves(own))
    lacking = known or _between(facts, matrix, own)
    if heard(facts, MISSING):
        yield _finding(facts, matrix, Severity.ERROR, Confidence.CERTAIN)
    elif (heard(facts, *WEAK) and lacking) or (known and not from_text(facts)):
        yield _finding(facts, matrix, Severity.ERROR, Confidence.LIKELY)
    elif heard(facts, *WEAK) and nvidia_here(facts):
        yield _finding(facts, matrix, Severity.WARNING, Confidence.POSSIBLE)


def _release(facts: Facts, matrix: Matrix) -> BitsandbytesRelease | None:
    version = installed(facts, "bitsandbytes")
    return training.bitsandbytes_of(matrix, version) if version else None


def _between(facts: Facts, matrix: Matrix, own: CudaVersion | None) -> bool:
    """Tell whether a release without a row has no binary for a CUDA, since neither the row before nor after has."""
    wanted = ranges.version_of(installed(facts, "bitsandbytes") or "")
    if wanted is None:
        return False
    held = [(ranges.version_of(one.version), one) for one in training.bitsandbytes(matrix) if one.cudas]
    before = [one for version, one in held if version and version <= wanted]
    after = [one for version, one in held if version and version >= wanted]
    if not after or own is None:
        return False
    return not after[0].serves(own) and not any(one.serves(own) for one in before[-1:])


def _finding(facts: Facts, matrix: Matrix, severity: Severity, confidence: Confidence) -> Finding:
    version, release = installed(facts, "bitsandbytes"), _release(facts, matrix)
    file, cuda = _file(facts), _cuda(facts)
    has = f"This release has binaries for CUDA {', '.join(map(str, release.cudas))}." if release else ""
    library = f" ({file})" if file else ""
    return Finding(
        id=ID,
        severity=severity,
        layer=Layer.LIBRARY,
        component="bitsandbytes",
        title=f"bitsandbytes {version or 'here'} has no binary for {cuda or 'the CUDA version of torch'}{library}",
        detail=has,
        because=(
            *grounds(facts, MISSING, *WEAK, DETECTED),
            *because_package(facts, "bitsandbytes"),
            *because_torch(facts),
            *(one.because for one in toolkits(facts)[:1]),
        ),
        row=release.row if release else None,
        confidence=confidence,
        fix=_fix(facts, matrix),
    )


def _file(facts: Facts) -> str | None:
    return value(facts, MISSING, "file", "file2")


def _cuda(facts: Facts) -> str | None:
    """Give the CUDA or ROCm version for which there is no binary, in words."""
    variant = value(facts, MISSING, "variant", "variant2") or ""
    match = re.match(r"(?P<kind>cuda|rocm|hip)(?P<digits>\d{2,3})", variant)
    if match:
        kind = "CUDA" if match["kind"] == "cuda" else "ROCm"
        return f"{kind} {dotted(match['digits'])}"
    detected = dotted(value(facts, DETECTED, "cuda"))
    own = torch_cuda(facts)
    return f"CUDA {detected or own}" if detected or own else None


def _fix(facts: Facts, matrix: Matrix) -> Fix:
    wanted = CudaVersion.parse((_cuda(facts) or "").removeprefix("CUDA "))
    having = [one for one in training.bitsandbytes(matrix) if wanted and wanted in one.cudas]
    span = f" bitsandbytes {having[0].version} to {having[-1].version} have CUDA {wanted}." if having else ""
    pinned = requirement("bitsandbytes", f"=={having[-1].version}") if having else sh("--upgrade bitsandbytes")
    near = _near(wanted, _release(facts, matrix) or (training.bitsandbytes(matrix) or (None,))[-1])
    commands = [sh("python -m pip install {pinned}", pinned=pinned)]
    if near:
        digits = NUMBER(f"{near.major}{near.minor}")
        commands.append(sh("export BNB_CUDA_VERSION={digits}  # a near version that it has", digits=digits))
    return Fix(
        text=f"Install a bitsandbytes with a binary for it (a newer one for a newer CUDA, also on Windows), or a torch "
        f"for a CUDA that this one has.{span}",
        commands=either(*commands),
        verify=sh("python -m bitsandbytes"),
    )


def _near(wanted: CudaVersion | None, release: BitsandbytesRelease | None) -> CudaVersion | None:
    """Give the nearest CUDA of the same major that a release has."""
    if wanted is None or release is None or wanted in release.cudas:
        return None
    same = [one for one in release.cudas if one.major == wanted.major]
    return min(same, key=lambda one: abs(one.minor - wanted.minor), default=None)
