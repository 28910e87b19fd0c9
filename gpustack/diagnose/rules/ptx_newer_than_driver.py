"""A build has only PTX for this GPU, and of a newer CUDA than the driver can compile.

PTX is turned into machine code by the driver when the program starts. A driver knows the PTX of its own CUDA version
and older; newer is refused ("unsupported toolchain", error 222). Take a build with machine code for this GPU, or of a
CUDA that the driver knows, or bring the driver up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import driver_complaints, fixes, naming
from gpustack.diagnose.rules.compatibility import by_ptx, ptx_too_new
from gpustack.diagnose.rules.reading import because, because_of, copies, text
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.diagnose.rules.seen import builds, capabilities, driver_cuda
from gpustack.diagnose.rules.wheels import wheel_for_driver
from gpustack.matrix.subjects import toolkits
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.versions import ComputeCapability

ID = "ptx-newer-than-driver"
SAID = ("ptx-toolchain", "ptx-version")
UNSUPPORTED = 222


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each build that reaches a GPU by PTX alone, where the driver cannot read it; else what programs said."""
    told = False
    for build in builds(facts):
        gpus = [gpu for gpu in capabilities(facts) if by_ptx(build, gpu)]
        if gpus and ptx_too_new(build, facts, matrix) and not build.ran_on_gpu:
            told = True
            yield _of_build(build, gpus[0], facts, matrix)
    if heard(facts, *SAID) and not told:
        yield _said(facts, matrix)


def _of_build(build: Build, gpu: ComputeCapability, facts: Facts, matrix: Matrix) -> Finding:
    wheel = wheel_for_driver(build, facts, matrix)
    return Finding(
        id=ID,
        instance=build.mark,
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"{build.name} reaches {gpu.sm} by PTX of CUDA {build.cuda}, which a driver of CUDA "
        f"{driver_cuda(facts, matrix)} cannot compile",
        because=(
            *grounds(facts, *SAID),
            because_of(facts, build.component, build.copy, "archs"),
            because(facts, "libcuda", "driver_cuda"),
            because(facts, "nvidia-driver", "version"),
        ),
        fix=Fix(
            text=wheel[0] if wheel else f"{fixes.place(facts)}Install a driver of CUDA {build.cuda} or newer.",
            commands=wheel[1] if wheel else fixes.driver(facts, matrix),
            needs_root=not wheel,
            needs_reboot=not wheel,
            verify=fixes.verify(build),
        ),
    )


def _said(facts: Facts, matrix: Matrix) -> Finding:
    """Give the finding on what the driver's compiler refused, with the CUDA version that the code is of."""
    made, driver = _made_with(facts, matrix), naming.driver_name(facts, matrix) or "the driver"
    row = matrix.cuda_codes.get(UNSUPPORTED)
    return Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"GPU code (PTX) of {f'CUDA {made}' if made else 'a newer CUDA'} is too new for {driver} to compile",
        detail=_detail(made, facts, matrix),
        because=(*grounds(facts, *SAID), *naming.of_driver(facts), *naming.known(facts, ("cuda-toolkit", "version"))),
        row=row.row if row else None,
        fix=_fix(made, facts, matrix),
    )


def _made_with(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Give the CUDA version of the code: by the PTX version that it names, else by a toolkit newer than the driver."""
    needs, highest = _ptx(facts, "needs"), naming.cuda_of_driver(facts, matrix)
    if needs:
        return min((one.cuda for one in toolkits.targets(matrix) if one.ptx >= needs), default=None)
    held = [CudaVersion.parse(copy.version) for copy in copies(facts, "cuda-toolkit")]
    held += [CudaVersion.parse(text(copy.facts, "also_told")) for copy in copies(facts, "cuda-toolkit")]
    held += [*(build.cuda for build in builds(facts)), *driver_complaints.spoken(facts, matrix)]
    return next((one for one in held if one and (highest is None or one > highest)), None)


def _detail(made: CudaVersion | None, facts: Facts, matrix: Matrix) -> str:
    needs, found, names = _ptx(facts, "needs"), _ptx(facts, "found"), naming.gpu_names(facts)
    parts = [f"The code is PTX {needs[0]}.{needs[1]}."] if needs else []
    if found:
        own = max((one.cuda for one in toolkits.targets(matrix) if one.ptx <= found), default=None)
        parts.append(
            f"What has to compile it reads PTX up to {found[0]}.{found[1]}" + (f" (CUDA {own})." if own else ".")
        )
    highest = naming.cuda_of_driver(facts, matrix)
    parts += [f"The driver compiles PTX of CUDA {highest} and older."] if highest else []
    parts += [f"CUDA {made} came with {naming.native_driver(made, facts, matrix)}."] if made else []
    parts += [f"GPU: {names}."] if names else []
    return " ".join(parts)


def _fix(made: CudaVersion | None, facts: Facts, matrix: Matrix) -> Fix:
    """Give the two ways out: a newer driver, or code that needs no compiling or is of the driver's own CUDA."""
    highest, here = naming.cuda_of_driver(facts, matrix), capabilities(facts)
    newer = naming.native_driver(made, facts, matrix) if made else "a newer driver"
    other = f"with CUDA {highest} or older" if highest else "with an older CUDA"
    own = (
        f", or for the GPU itself (nvcc -arch={here[0].sm})" if here else ", or for the GPU itself (nvcc -arch=native)"
    )
    return Fix(
        text=f"{fixes.place(facts)}Install {newer}. Or build the code {other}{own}.",
        commands=fixes.driver(facts, matrix),
        needs_root=True,
        needs_reboot=True,
        verify=sh("nvidia-smi"),
    )


def _ptx(facts: Facts, name: str) -> tuple[int, int] | None:
    """Give a version of PTX that a message names."""
    major, _, minor = (value(facts, "ptx-version", name) or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
