"""A driver that is older than what runs on it, or newer than the GPU allows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import driver_packages, fixes
from gpustack.diagnose.machine import naming, values
from gpustack.diagnose.machine.events import grounds, heard, said, value
from gpustack.diagnose.machine.inventory import (
    builds,
    capabilities,
    driver_cuda,
    driver_release,
    from_text,
    gpus,
    nvidia_here,
    on_windows,
)
from gpustack.diagnose.machine.values import because, because_of, copies, flag, table, text, told
from gpustack.diagnose.requirements.fits import Fit, by_ptx, driver_fit, ptx_too_new
from gpustack.diagnose.requirements.serving import other_image
from gpustack.diagnose.rule import rule
from gpustack.diagnose.wheels import wheel_for_driver
from gpustack.matrix.subjects import frameworks, toolkits
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import PYTHON, Command, requirement, sh
from gpustack.model.facts import Facts, Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Kept, Row, Severity
from gpustack.model.versions import CudaVersion, DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.machine.inventory import Build
    from gpustack.matrix import Matrix


# Nothing but too old a driver makes programs say this; the others are also said where no driver is found at all.
OUTRIGHT = ("torch-driver-too-old", "runtime-above-driver", "nvenc-driver", "libcuda-lacks-function")
MAYBE = ("insufficient-driver", "needs-newer-driver")
COMPLAINTS = (*OUTRIGHT, *MAYBE, "driver-older-than-needed")
NO_DRIVER_AT_ALL = ("no-driver-found", "ngc-no-gpu", "smi-missing", "nvml-missing", "nvml-not-loaded")
CONDA = ("cudatoolkit", "pytorch-cuda", "cuda-runtime", "cuda-cudart", "cuda-version")
NAMED_CUDA = re.compile(r"-cu(?:da)?(\d{2})x?$")


def complained(facts: Facts) -> bool:
    """Return whether a program said that the driver is too old, or something that this usually means."""
    well = heard(facts, *NO_DRIVER_AT_ALL, "cuda-available-true", "hosted-runner-said")
    # FFmpeg also names the driver that it needs where it cannot load the encoder's library.
    sure = [one for one in OUTRIGHT if one != "nvenc-driver" or not heard(facts, "video-library-missing")]
    return heard(facts, *sure) or (heard(facts, *MAYBE) and not well) or _named(facts)


def wanted_cuda(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the CUDA version that is too new for this driver: by what was seen, else the next that it does not run."""
    highest = naming.cuda_of_driver(facts, matrix)
    said_ = (*_seen(facts), *spoken(facts, matrix))
    broken = [cuda for cuda in said_ if driver_fit(cuda, facts, matrix).kept is Kept.BROKEN]
    beyond = [cuda for cuda in _seen(facts) if highest and cuda > highest and cuda.major > highest.major]
    found = min(broken or beyond, default=None)
    built = [build.cuda for build in builds(facts) if build.cuda]
    return found or (_next(highest, matrix) if highest else min(built or _seen(facts), default=None))


def _next(highest: CudaVersion, matrix: Matrix) -> CudaVersion | None:
    """Return the first CUDA version that a driver of this one does not run: of the next family, or the next minor."""
    family = CudaVersion(highest.major + 1)
    if toolkits.floor_of(matrix, highest):
        return family if toolkits.floor_of(matrix, family) else None
    return min((one.cuda for one in toolkits.releases(matrix) if one.cuda > highest), default=None)


def _seen(facts: Facts) -> tuple[CudaVersion, ...]:
    """Return every CUDA version that something here is of: builds, toolkits, and packages by their names."""
    held = [build.cuda for build in builds(facts)]
    held += [CudaVersion.parse(copy.version) for copy in copies(facts, "cuda-toolkit") if _is_toolkit(copy.facts)]
    for name, version in table(told(facts, "packages"), "distributions").items():
        match = NAMED_CUDA.search(name)
        if name.startswith(("nvidia-cuda-runtime", *CONDA)) and isinstance(version, str):
            held.append(CudaVersion.parse(version))
        elif match:
            held.append(CudaVersion(int(match[1])))
    return tuple(dict.fromkeys(one for one in held if one))


def spoken(facts: Facts, matrix: Matrix) -> tuple[CudaVersion, ...]:
    """Return the CUDA versions that builds are said to be of, and that of the TensorFlow that is here."""
    names = ("cuda", "needs", "of", "runtime", "image")
    held = [one.values.get(name) for one in said(facts, "cuda-build-said", "toolkit-named") for name in names]
    found = [CudaVersion.parse(one) for one in held if one]
    made = frameworks.tensorflow_of(matrix, values.version(facts, "tensorflow") or "0")
    return tuple(dict.fromkeys(one for one in (*found, made.cuda if made else None) if one))


def _is_toolkit(held: object) -> bool:
    return not (isinstance(held, dict) and held.get("whose") == "driver")


def _paddle(facts: Facts, matrix: Matrix) -> bool:
    """Return whether PaddlePaddle, which names no reason, sees no GPU, and a CUDA here is too new for the driver."""
    newer = (driver_fit(cuda, facts, matrix).kept is Kept.BROKEN for cuda in _seen(facts))
    return heard(facts, "paddle-no-gpu") and any(newer)


def _named(facts: Facts) -> bool:
    """Return whether a program names a driver release, and this one is older."""
    if any("found" in one.values for one in said(facts, "driver-older-than-needed")):
        return True
    needs, release = value(facts, "driver-older-than-needed", "needs"), driver_release(facts)
    least = DriverRelease.parse(needs if needs and "." in needs else f"{needs}.0") if needs else None
    return bool(least and release and release < least and not on_windows(facts))


def _row(wanted: CudaVersion | None, matrix: Matrix) -> Row | None:
    if wanted is None:
        return None
    floor = toolkits.floor_of(matrix, wanted)
    native = next((one for one in toolkits.releases(matrix) if one.cuda == wanted), None)
    return floor.row if floor else native.row if native else None


CONSUMER = re.compile(r"GeForce|\bGTX\b|\bRTX\b|TITAN|Quadro")


@rule(
    "driver-too-old-for-cuda-build",
    Layer.DRIVER,
    "nvidia-driver",
    explained_by=(
        *("driver-library-mismatch", "forward-compat-804", "compat-libs-803"),
        *("container-requires-newer-driver", "container-no-gpus-flag", "container-toolkit-missing"),
        *("docker-snap", "wsl-linux-driver-installed"),
    ),
)
def driver_too_old_for_cuda_build(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The driver is too old for the CUDA version of a build.

    A build for a CUDA major version needs a driver that supports that major version: CUDA 12.x needs driver 525.60.13
    or newer, 13.x needs 580.65.06 or newer; before CUDA 11 each minor version has its own minimum. Within a major
    version an older driver works with limits, which is not a fault. Install a build for the driver's CUDA version,
    which affects nobody else on the machine, or update the driver.
    """
    too_new = [(build, fit) for build, fit in _fits(facts, matrix) if fit.kept is Kept.BROKEN]
    for build, fit in too_new:
        what = f" for {build.name}: it is built for CUDA {build.cuda}"
        found = _finding(what, fit, build, facts, matrix)
        # A build that is only thought to be the usual one is a guess until a program complains.
        guessed = text(build.copy.facts, "build_from") is not None
        yield replace(found, confidence=Confidence.LIKELY if guessed and not complained(facts) else Confidence.CERTAIN)
    if not too_new and (complained(facts) or _paddle(facts, matrix)):
        yield _complaint(facts, matrix)
    elif from_text(facts) and not any(build.cuda for build in builds(facts)):
        yield from _packages(facts, matrix)
    if nvidia_here(facts):
        yield from _toolkit(facts, matrix)


def _fits(facts: Facts, matrix: Matrix) -> Iterator[tuple[Build, Fit]]:
    """Return how each build for CUDA fits the driver, those left out that are known to reach a GPU."""
    for build in builds(facts) if nvidia_here(facts) or complained(facts) else ():
        works = build.ran_on_gpu or (from_text(facts) and flag(build.copy.facts, "available"))
        if build.cuda and not works and not (from_text(facts) and heard(facts, "cuda-available-true")):
            yield build, driver_fit(build.cuda, facts, matrix)


def _packages(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return a package that is for a CUDA which the driver does not run, by its name: cupy-cuda13x."""
    for name, held in table(told(facts, "packages"), "distributions").items():
        named, own = NAMED_CUDA.search(name), name.startswith(CONDA) and CudaVersion.parse(str(held))
        cuda = CudaVersion(int(named[1])) if named else own or None
        fit = driver_fit(cuda, facts, matrix) if cuda else None
        if fit and fit.kept is Kept.BROKEN:
            found = _finding(f" for {name}", fit, None, facts, matrix)
            why = because(facts, "packages", "distributions", name)
            yield replace(found, confidence=Confidence.LIKELY, because=(why, *naming.of_driver(facts)))
            return


def _complaint(facts: Facts, matrix: Matrix) -> Finding:
    """Return what complaints lead to where no build was seen that is too new for the driver."""
    wanted = wanted_cuda(facts, matrix)
    by_name = value(facts, "nvenc-driver", "needs") or value(facts, "driver-older-than-needed", "needs")
    needs = f"driver {by_name} or newer" if by_name else naming.needed_driver(wanted, facts, matrix) if wanted else ""
    what = f"a program here is built for CUDA {wanted}" if wanted and not by_name else "a program needs a newer one"
    what += " or newer" if wanted and not by_name and wanted not in _seen(facts) else ""
    fit = Fit(kept=Kept.BROKEN, needs=needs, found="", row=_row(wanted, matrix))
    return _finding(f": {what}", fit, None, facts, matrix)


def _newer(build: Build | None, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return how the oldest branch is installed that NVIDIA supports and that runs a build; else the usual one."""
    last = fixes.last_branch(facts, matrix)
    floor = toolkits.floor_of(matrix, build.cuda) if build and build.cuda else None
    if floor is None or on_windows(facts) or (last is not None and last < floor.linux.branch):
        return fixes.driver(facts, matrix)
    spans = filter(None, map(matrix.span, driver_packages.archs(facts, matrix)))
    least = max((floor.linux.branch, *(one.first or 0 for one in spans)))
    return fixes.driver(facts, matrix, branch=driver_packages.supported(least, last, matrix))


def _finding(what: str, fit: Fit, build: Build | None, facts: Facts, matrix: Matrix) -> Finding:
    """Return that the driver is too old for a build that was seen, or for what a program complained of."""
    highest, names = naming.cuda_of_driver(facts, matrix), naming.gpu_names(facts)
    loaded, needs = value(facts, "libcuda-lacks-function", "found"), fit.needs
    driver = naming.driver_name(facts, matrix) or (f"driver {loaded}" if loaded and "." in loaded else "the driver")
    wheel = other_image(facts, matrix) or (wheel_for_driver(build, facts, matrix) if build else None)
    outright = heard(facts, *OUTRIGHT)
    named = bool(naming.driver_name(facts, matrix))
    parts = [f"It needs {needs}." if needs else ""]
    parts += [f"The driver runs programs built for CUDA {highest}." if highest else ""]
    parts += [f"GPU: {names}." if names and from_text(facts) else "", _compat(build, facts, matrix) if build else ""]
    if not build and not outright:
        parts.append("The same message appears if a program finds no driver at all, as in a container without the GPU.")
    newer = f"Install {needs or 'a newer driver'}."
    older = f" Or install a build of the same program for CUDA {highest} or older." if highest and not build else ""
    shown = build or next(iter(builds(facts)), None)
    return driver_too_old_for_cuda_build.finding(
        instance=build.mark if build else None,
        title=f"The driver is too old{what}; this is {driver}",
        detail=" ".join(part for part in parts if part),
        confidence=Confidence.CERTAIN if outright else Confidence.LIKELY if named else Confidence.POSSIBLE,
        because=(*grounds(facts, *COMPLAINTS), *(_grounds(build, facts) if build else naming.of_driver(facts))),
        row=fit.row,
        fix=fixes.advice(
            f"{wheel[0]} Or update the driver: {needs}." if wheel else f"{fixes.place(facts)}{newer}{older}",
            *(wheel[1] if wheel else _newer(build, facts, matrix)),
            root=not wheel,
            reboot=not wheel,
            verify=fixes.verify(shown) if shown else sh("nvidia-smi"),
        ),
    )


def _grounds(build: Build, facts: Facts) -> tuple[Because, ...]:
    if not from_text(facts):
        return (
            because_of(facts, build.component, build.copy, "build"),
            because(facts, "nvidia.ko", "version_loaded"),
            because(facts, "libcuda", "driver_cuda"),
        )
    of_build = (because_of(facts, build.component, build.copy, name) for name in ("version", "build", "cuda"))
    return (*(one for one in of_build if one.value is not None), *naming.of_driver(facts))


def _compat(build: Build, facts: Facts, matrix: Matrix) -> str:
    """Return the compat package that would do, on GPUs where one may be used."""
    release, names = driver_release(facts), [gpu.name for gpu in gpus(facts)]
    if release is None or not names or any(CONSUMER.search(name) for name in names):
        return ""
    fitting = [one for one in matrix.compats if one.cuda == build.cuda and release.branch in one.bases]
    return f"On data-centre GPUs the package {fitting[0].name} lets it run on this driver." if fitting else ""


def _toolkit(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    for copy in copies(facts, "cuda-toolkit"):
        cuda = CudaVersion.parse(copy.version)
        fit = driver_fit(cuda, facts, matrix) if cuda and flag(copy.facts, "in_use") else None
        if fit and fit.kept is Kept.BROKEN:
            yield driver_too_old_for_cuda_build.finding(
                instance=f"cuda-toolkit:{copy.key}",
                severity=Severity.INFO,
                layer=Layer.RUNTIME,
                component="cuda-toolkit",
                title=f"Programs built with CUDA toolkit {cuda} need a newer driver; this is {fit.found}",
                because=(
                    because_of(facts, "cuda-toolkit", copy, "version"),
                    because(facts, "nvidia-driver", "version"),
                ),
                row=fit.row,
            )


SAID = ("ptx-toolchain", "ptx-version")
UNSUPPORTED = 222


@rule("ptx-newer-than-driver", Layer.DRIVER, "nvidia-driver")
def ptx_newer_than_driver(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A build has only PTX for this GPU, from a newer CUDA version than the driver can compile.

    PTX is turned into machine code by the driver when the program starts. A driver accepts PTX of its own CUDA version
    and older; newer PTX is refused ("unsupported toolchain", error 222). Install a build with machine code for this
    GPU, or one for a CUDA version that the driver supports, or update the driver.
    """
    seen = [(build, gpu) for build in builds(facts) for gpu in capabilities(facts) if by_ptx(build, gpu)]
    first = {build.mark: (build, gpu) for build, gpu in reversed(seen) if not build.ran_on_gpu}
    too_new = [one for one in reversed(first.values()) if ptx_too_new(one[0], facts, matrix)]
    driver = naming.driver_name(facts, matrix) or "the driver"
    for build, gpu in too_new:
        wheel = wheel_for_driver(build, facts, matrix)
        archs = because_of(facts, build.component, build.copy, "archs")
        yield ptx_newer_than_driver.finding(
            instance=build.mark,
            title=f"{build.name} supports {gpu.sm} only through CUDA {build.cuda} PTX, which {driver} cannot compile",
            detail=_ptx_detail(build.cuda, facts, matrix),
            because=(*grounds(facts, *SAID), archs, *naming.of_driver(facts)),
            fix=fixes.advice(wheel[0], *wheel[1], verify=fixes.verify(build))
            if wheel
            else _ptx_fix(build.cuda, facts, matrix),
        )
    if heard(facts, *SAID) and not too_new:
        made, row = _made_with(facts, matrix), matrix.cuda_codes.get(UNSUPPORTED)
        toolkit = naming.known(facts, ("cuda-toolkit", "version"))
        yield ptx_newer_than_driver.finding(
            title=f"GPU code (PTX) of {f'CUDA {made}' if made else 'a newer CUDA'} is too new for {driver} to compile",
            detail=_ptx_detail(made, facts, matrix),
            because=(*grounds(facts, *SAID), *naming.of_driver(facts), *toolkit),
            row=row.row if row else None,
            fix=_ptx_fix(made, facts, matrix),
        )


def _made_with(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the CUDA version of the code: by its PTX version, else by a toolkit newer than the driver."""
    needs, highest = _ptx(facts, "needs"), naming.cuda_of_driver(facts, matrix)
    if needs:
        return min((one.cuda for one in toolkits.targets(matrix) if one.ptx >= needs), default=None)
    held = [CudaVersion.parse(copy.version) for copy in copies(facts, "cuda-toolkit")]
    held += [CudaVersion.parse(text(copy.facts, "also_told")) for copy in copies(facts, "cuda-toolkit")]
    held += [*(build.cuda for build in builds(facts)), *spoken(facts, matrix)]
    return next((one for one in held if one and (highest is None or one > highest)), None)


def _ptx_detail(made: CudaVersion | None, facts: Facts, matrix: Matrix) -> str:
    needs, found, names = _ptx(facts, "needs"), _ptx(facts, "found"), naming.gpu_names(facts)
    parts = [f"The code is PTX {needs[0]}.{needs[1]}."] if needs else []
    if found:
        own = max((one.cuda for one in toolkits.targets(matrix) if one.ptx <= found), default=None)
        parts.append(f"The compiler here reads PTX up to {found[0]}.{found[1]}" + (f" (CUDA {own})." if own else "."))
    highest = naming.cuda_of_driver(facts, matrix)
    parts += [f"The driver compiles PTX of CUDA {highest} and older."] if highest else []
    parts += [f"CUDA {made} came with {naming.native_driver(made, facts, matrix)}."] if made else []
    parts += [f"GPU: {names}."] if names else []
    return " ".join(parts)


def _ptx_fix(made: CudaVersion | None, facts: Facts, matrix: Matrix) -> Fix:
    """Return the two ways out: a newer driver, or code that needs no compiling or is of the driver's own CUDA."""
    highest, here = naming.cuda_of_driver(facts, matrix), capabilities(facts)
    newer = naming.native_driver(made, facts, matrix) if made else "a newer driver"
    other = f"with CUDA {highest} or older" if highest else "with an older CUDA"
    own = (
        f", or for the GPU itself (nvcc -arch={here[0].sm})" if here else ", or for the GPU itself (nvcc -arch=native)"
    )
    return fixes.advice(
        f"{fixes.place(facts)}Install {newer}. Or build the code {other}{own}.",
        *fixes.driver(facts, matrix),
        root=True,
        reboot=True,
        verify=sh("nvidia-smi"),
    )


def _ptx(facts: Facts, name: str) -> tuple[int, int] | None:
    """Return a version of PTX that a message names."""
    major, _, minor = (value(facts, "ptx-version", name) or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


@rule("cuda-bindings-newer-than-driver", Layer.RUNTIME, "cuda-bindings", Severity.WARNING)
def cuda_bindings_newer_than_driver(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """cuda-bindings is for a newer CUDA major version than the driver supports, so some of its functions fail.

    cuda-bindings requests each function from the driver by the CUDA version of its newest form, and has no older form.
    On an older driver some calls fail when they are made (event timing), others only give a warning. Install the
    release of cuda-bindings for the driver's CUDA major, or update the driver.
    """
    highest = driver_cuda(facts, matrix)
    if highest is None or not nvidia_here(facts):
        return
    for copy in copies(facts, "cuda-bindings"):
        major = numbers(copy.version)[:1]
        floors = [one for one in matrix.bindings_floors if (one.bindings,) == major and highest < one.driver]
        if not floors:
            continue
        python = PYTHON(copy.environment)
        yield cuda_bindings_newer_than_driver.finding(
            instance=copy.environment,
            severity=Severity(floors[0].weight),
            title=f"cuda-bindings {copy.version} on a driver for CUDA {highest}: {floors[0].outcome}",
            because=(
                because_of(facts, "cuda-bindings", copy, "version"),
                because(facts, "libcuda", "driver_cuda"),
                because(facts, "nvidia-driver", "version"),
            ),
            row=floors[0].row,
            fix=fixes.advice(
                f"Install cuda-bindings for CUDA {highest.major}; other packages here may require the newer one.",
                sh(
                    "{python} -m pip install {wanted}",
                    python=python,
                    wanted=requirement("cuda-bindings", f"=={highest.major}.*"),
                ),
                verify=sh('{python} -c "import cuda.bindings.driver"', python=python),
            ),
        )
