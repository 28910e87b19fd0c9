"""Which finding explains which: one broken driver has one root, however many things fail above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine import exercised
from gpustack.diagnose.machine.messages import MESSAGE
from gpustack.diagnose.rulebook import explained_by
from gpustack.diagnose.rules import NAMED, WRONG_CUDNN, WRONG_LIBRARIES
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpustack.model.report import Finding


# What is wrong with one GPU explains what is wrong with the same one, and not with another.
OF_ONE_GPU = frozenset(
    {"gpu-not-answering", "gpu-sensor-error", "gpu-missing", "sibling-differs", "gpu-xid", "pcie-errors"}
    | {"fabric-state"}
)
TRIED = ("framework-fails-on-gpu", "framework-import-fails")
EXPLAINING = frozenset({Severity.ERROR, Severity.WARNING})
ON_PURPOSE = frozenset({"cuda-visible-devices-invalid"})  # only a warning where it hides all GPUs, and yet decisive
# Findings about one Python explain only what is about the same one.
OWN_INSTANCE = frozenset(
    {
        "driver-too-old-for-cuda-build",
        "ptx-newer-than-driver",
        "arch-not-in-build",
        "jax-plugin-mismatch",
        "ort-cpu-and-gpu-installed",
        "extension-abi-mismatch",
        *WRONG_CUDNN,
        *WRONG_LIBRARIES,
    }
)
OWN_COMPONENT = frozenset({"known-bad-combination"})


def cause_of(finding: Finding, findings: Sequence[Finding]) -> str | None:
    """Return the key of the finding that explains this one, or None where none does."""
    for wanted in explained_by(finding.id):
        fitting = [other for other in findings if other.id == wanted and _explains(other, finding)]
        if fitting:
            return min(fitting, key=lambda other: (other.instance != finding.instance, other.key)).key
    return next((other.key for other in findings if _is_ground(other, finding)), None)


def _is_ground(other: Finding, finding: Finding) -> bool:
    """Return whether a finding is that what another rests on failed as well, in the same Python."""
    if finding.id not in TRIED or other.id not in TRIED or other.severity not in EXPLAINING:
        return False
    places = {(one.instance or "").partition(":")[2] for one in (other, finding)}
    strong = other.severity is Severity.ERROR or finding.severity is not Severity.ERROR
    return other.component in exercised.RESTS_ON.get(finding.component, ()) and len(places) == 1 and strong


def _explains(cause: Finding, finding: Finding) -> bool:
    """Return whether a finding can be the cause of another: it weighs as much, and it is about the same thing."""
    same = cause.instance == finding.instance or cause.id not in OWN_INSTANCE or _of_its_copy(cause, finding)
    same = same and (cause.id not in OWN_COMPONENT or cause.component == finding.component)
    same = same and (finding.id not in OF_ONE_GPU or cause.instance in {None, finding.instance})
    strong = cause.severity is Severity.ERROR or finding.severity is not Severity.ERROR or cause.id in ON_PURPOSE
    return (
        cause.severity in EXPLAINING and strong and same and (finding.id not in TRIED or _in_its_words(cause, finding))
    )


def _of_its_copy(cause: Finding, finding: Finding) -> bool:
    """Return whether a known problem is that of the very copy of a library that a cause names as the wrong one."""
    wrong, held = (
        {str(one.value) for one in among.because if (one.component, one.fact) == (cause.component, "version")}
        for among in (cause, finding)
    )
    return finding.id == "known-bad-combination" and bool(wrong & held)


def _in_its_words(cause: Finding, finding: Finding) -> bool:
    """Return whether a cause that the words of trials name was named by this one, or by another in the same words."""
    heard = [one for one in cause.because if one.component == MESSAGE and one.source.endswith(exercised.RUN)]
    if cause.id not in NAMED or not heard:
        return True
    own, said = exercised.origin(finding.instance or ""), finding.detail
    return any(one.source == own or (said and (said in str(one.value) or str(one.value) in said)) for one in heard)
