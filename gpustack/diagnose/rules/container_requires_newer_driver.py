"""The image asks for a driver of a newer CUDA than the machine has.

NVIDIA's images name what they need in NVIDIA_REQUIRE_CUDA, such as cuda>=12.8. The container toolkit compares that
with the CUDA version of the machine's driver (nvidia-smi shows it) and does not start the container. The driver belongs
to the machine, not to the image. Bring it up to date there, or take an image for an older CUDA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes, naming, requirements
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.matrix.subjects import toolkits
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Row

SAID = ("cuda-requirement", "image-wants-driver")
ENVIRONMENT, TOLD, FAILS = "cuda-requirement-env", "image-requires-said", "container-fails-said"


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the container toolkit or the image itself says so, or its variable asks for more."""
    refused = requirements.refused(facts, matrix)
    if refused:
        yield _unmet(refused, facts, matrix)
        return
    if not heard(facts, *SAID) and not _refused(facts, matrix):
        return
    cuda = CudaVersion.parse(_cuda(facts))
    driver = naming.driver_name(facts, matrix) or "an older driver"
    yield Finding(
        id="container-requires-newer-driver",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"The image asks for {_wanted(facts)}, and the machine has {driver}",
        detail=f"It needs {_needs(cuda, facts, matrix)}." + _gpus(facts),
        because=(
            *grounds(facts, *SAID, ENVIRONMENT, TOLD),
            *naming.of_driver(facts),
            *naming.known(facts, ("cuda-toolkit", "version")),
        ),
        row=_row(cuda, matrix),
        fix=_fix(cuda, facts, matrix),
    )


def _unmet(wanted: str, facts: Facts, matrix: Matrix) -> Finding:
    """Give the finding that an image's own requirement is not met by this machine."""
    cuda = CudaVersion.parse(requirements.cuda(wanted))
    asked = f"a driver of CUDA {cuda} or newer (cuda>={cuda})" if cuda else f"another driver or GPU ({wanted[:60]})"
    return Finding(
        id="container-requires-newer-driver",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"The image asks for {asked}, and the machine has {naming.driver_name(facts, matrix)}",
        detail=f"{requirements.NAME}: none of its alternatives holds here." + _gpus(facts),
        because=(
            Because(component="image", fact=f"variables.{requirements.NAME}", value=wanted, source="--container-env"),
            *naming.of_driver(facts),
        ),
        row=_row(cuda, matrix),
        fix=_fix(cuda, facts, matrix),
    )


def _refused(facts: Facts, matrix: Matrix) -> bool:
    """Tell whether an image is said to ask for a newer CUDA than the driver has, and its container not to start."""
    cuda, highest = CudaVersion.parse(value(facts, TOLD, "needs")), naming.cuda_of_driver(facts, matrix)
    return bool(cuda and highest and cuda > highest and heard(facts, FAILS))


def _cuda(facts: Facts) -> str | None:
    """Give the CUDA version that the image asks for: what was refused, else what stands beside it."""
    beside = value(facts, ENVIRONMENT, "needs") or value(facts, TOLD, "needs")
    return value(facts, SAID[0], "needs", "image") or beside


def _wanted(facts: Facts) -> str:
    """Give what the image asks for, as it says it."""
    cuda, driver = _cuda(facts), value(facts, SAID[0], "driver") or value(facts, SAID[1], "needs")
    if cuda:
        below = value(facts, SAID[0], "below")
        return f"a driver of CUDA {cuda} or newer (cuda>={cuda}){f', or one below {below}' if below else ''}"
    return f"driver {driver} or newer" if driver else f"another driver or GPU ({value(facts, SAID[0], 'other')})"


def _needs(cuda: CudaVersion | None, facts: Facts, matrix: Matrix) -> str:
    return naming.native_driver(cuda, facts, matrix) if cuda else _wanted(facts)


def _gpus(facts: Facts) -> str:
    names = naming.gpu_names(facts)
    return f" GPU: {names}." if names else ""


def _row(cuda: CudaVersion | None, matrix: Matrix) -> Row | None:
    return next((one.row for one in toolkits.releases(matrix) if one.cuda == cuda), None)


def _fix(cuda: CudaVersion | None, facts: Facts, matrix: Matrix) -> Fix:
    highest = naming.cuda_of_driver(facts, matrix)
    older = f"an image for CUDA {highest} or older" if highest else "an image for an older CUDA"
    needs = _needs(cuda, facts, matrix) if cuda or heard(facts, *SAID) else "the driver that the image asks for"
    return Fix(
        text=f"On the machine itself, install {needs}. Or take {older}. Within a CUDA major an "
        "older driver often does: NVIDIA_DISABLE_REQUIRE=1 starts the container all the same.",
        commands=fixes.driver(facts, matrix),
        needs_root=True,
        needs_reboot=True,
        verify=sh("nvidia-smi"),
    )
