"""TensorFlow cannot open a library of CUDA or cuDNN that it was built for, and leaves the GPU alone.

TensorFlow opens CUDA's libraries by name when it starts, and each release looks for the names of one CUDA and one cuDNN
("Could not load dynamic library 'libcudnn.so.7'"). Where another version is installed, or none, it skips the GPU and
computes on the CPU. Install the version that this TensorFlow was built for, or TensorFlow with the extra and-cuda,
which brings its own since 2.14. TensorRT, which it looks for too, may be missing without harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.linking import soname_library
from gpustack.diagnose.rules.reading import because, version
from gpustack.diagnose.rules.saying import because_said, grounds, heard, holding
from gpustack.diagnose.rules.seen import driver_release, on_windows
from gpustack.diagnose.rules.toolchain import parsed
from gpustack.diagnose.rules.wanting import (
    CUDNN,
    TENSORFLOW,
    cuda_here,
    cudnn_here,
    missing,
    of_tensorflow_1,
    plain_version,
)
from gpustack.matrix.subjects import frameworks
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.wanting import Missing
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.frameworks import TensorflowRelease
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because
    from gpustack.model.versions import CudaVersion

SKIPS, LISTS = "tf-skips-gpu", "tf-gpu-listed"
UNUSED = ("tf-cpu-listed", "tf-gpu-empty")
BLIND = "tf-no-cuda-drivers"  # said where libcudart cannot be opened, whatever it says of drivers
ELSE = ("no-device", "init-error", "insufficient-driver", "libcuda-not-found", "tf-cpu-build")
FIRST_EXTRA = (2, 14)
ONE_NAME_A_MAJOR = 11


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the libraries that TensorFlow could not open; where the driver's own is missing that is another fault."""
    wanted = [one for one in missing(facts, matrix) if one.asker == TENSORFLOW]
    if heard(facts, LISTS) or _no_driver(facts):
        return
    if not (wanted or heard(facts, SKIPS)):
        yield from _other_versions(facts, matrix)
        return
    release = frameworks.tensorflow_of(matrix, plain_version(facts, TENSORFLOW) or "0")
    guessed = bool(wanted) and not facts.find(TENSORFLOW) and of_tensorflow_1(wanted[0].message, facts)
    name = f"TensorFlow {plain_version(facts, TENSORFLOW) or ''}".strip()
    name = "The program (by this name TensorFlow 1)" if guessed else name
    ends = "its import ends" if wanted and "ImportError" in wanted[0].message.line else "leaves the GPU alone"
    what = ", ".join(_spelled(one) for one in wanted) or "a library of CUDA"
    yield Finding(
        id="tf-cannot-dlopen",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component=wanted[0].library if wanted else TENSORFLOW,
        title=f"{name} cannot open {what} and {ends}{_other(wanted, facts, matrix)}",
        detail=_needs(release, wanted),
        confidence=Confidence.CERTAIN if wanted and not guessed else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in wanted[:4]),
            *grounds(facts, SKIPS, most=1),
            *([because(facts, TENSORFLOW, "version")] if plain_version(facts, TENSORFLOW) else []),
            *_grounds(wanted, facts, matrix),
        ),
        row=release.row if release else None,
        fix=_fix(release, wanted, facts),
    )


def _other_versions(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give a TensorFlow that lists no GPU where the CUDA or cuDNN that is named has other names than it looks for."""
    release = frameworks.tensorflow_of(matrix, plain_version(facts, TENSORFLOW) or "0")
    blind = heard(facts, BLIND)
    if release is None or not heard(facts, *UNUSED, BLIND) or heard(facts, *ELSE) or (blind and not _driver(facts)):
        return
    if numbers(release.version)[:2] >= FIRST_EXTRA and not blind:
        return
    if on_windows(facts) and frameworks.tensorflow_gpu_on(matrix, release.version, "windows") is False:
        return
    here = [one for one in cuda_here(facts, matrix) if one.cuda]
    others = [] if any(_serves(release, one.cuda) for one in here) else here[:1]
    found = cudnn_here(facts)[:1]
    wrong = [one for one in found if numbers(one[0])[:1] != numbers(release.cudnn)[:1]] if others or not blind else []
    names = [one.what for one in others] + [f"cuDNN {number}" for number, _ in wrong]
    if not names:
        return
    yield Finding(
        id="tf-cannot-dlopen",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component=TENSORFLOW,
        title=f"TensorFlow {plain_version(facts, TENSORFLOW)} looks for the libraries of CUDA {release.cuda} and cuDNN"
        f" {release.cudnn}; {' and '.join(names)} is here",
        detail=f"{_needs(release, [])} Libraries of another version have other names, so it leaves the GPU alone.",
        confidence=Confidence.LIKELY,
        because=(
            *grounds(facts, BLIND, *UNUSED, most=2),
            because(facts, TENSORFLOW, "version"),
            *(one.because for one in others),
            *(ground for _, ground in wrong),
        ),
        row=release.row,
        fix=_fix(release, [], facts),
    )


def _driver(facts: Facts) -> bool:
    """Tell whether a driver is told of, so that it is not the driver that TensorFlow misses."""
    return driver_release(facts) is not None or version(facts, "nvml") is not None or heard(facts, "wsl-smi-works")


def _serves(release: TensorflowRelease, cuda: CudaVersion | None) -> bool:
    """Tell whether a CUDA has the names that a release looks for: up to CUDA 10 each minor release has its own."""
    if cuda is None or cuda.major != release.cuda.major:
        return False
    return cuda.major >= ONE_NAME_A_MAJOR or cuda.minor == release.cuda.minor


def _no_driver(facts: Facts) -> bool:
    """Tell whether TensorFlow misses the driver's own library, which no toolkit brings."""
    return any(
        (soname_library(one.values["soname"]) or ("", ""))[0] == "libcuda" or "nvcuda.dll" in one.values["soname"]
        for one in holding(facts, "missing-library-tf", "soname")
    )


def _spelled(one: Missing) -> str:
    why = one.message.values.get("why")
    return f"{one.soname} (for lack of {why})" if why and why != one.soname else one.soname


def _other(wanted: list[Missing], facts: Facts, matrix: Matrix) -> str:
    """Give in words what is installed in the place of what is wanted."""
    libraries = {one.library for one in wanted}
    found = [f"cuDNN {number}" for number, _ in cudnn_here(facts)[:1] if CUDNN in libraries]
    if libraries - {CUDNN}:
        found += [one.what for one in cuda_here(facts, matrix)[:1]]
    return f"; {' and '.join(found)} is here" if found else ""


def _grounds(wanted: list[Missing], facts: Facts, matrix: Matrix) -> list[Because]:
    found = [ground for _, ground in cudnn_here(facts)[:1]] if any(one.library == CUDNN for one in wanted) else []
    return [*found, *(one.because for one in cuda_here(facts, matrix)[:1])]


def _needs(release: TensorflowRelease | None, wanted: list[Missing]) -> str:
    if release:
        return f"TensorFlow {release.version} is built for CUDA {release.cuda} and cuDNN {release.cudnn}."
    named = [cuda for one in wanted if one.library != CUDNN and (cuda := _cuda(one))]
    return f"It was built for CUDA {named[0]}." if named else ""


def _cuda(one: Missing) -> str | None:
    """Give the CUDA version that a name spells: libcudart.so.10.1 and cudart64_101.dll are of 10.1."""
    number = one.soname.partition(".so.")[2]
    digits = one.soname.rpartition("_")[2].removesuffix(".dll")
    if not number and numbers(digits) and digits.isdecimal():
        number = f"{digits[:-1]}.{digits[-1]}" if len(digits) > 2 else digits  # noqa: PLR2004 - 101 is 10.1, 12 is 12
    if one.library == "cuda-runtime" and number:
        return number if number.count(".") else str(parsed(number) or number).partition(".")[0]
    return str(one.majors[0]) if len(one.majors) == 1 else None


def _fix(release: TensorflowRelease | None, wanted: list[Missing], facts: Facts) -> Fix:
    verify = sh("python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\"")
    release_ = plain_version(facts, TENSORFLOW)
    if release_ and numbers(release_)[:2] >= FIRST_EXTRA:
        return Fix(
            text="Install TensorFlow with the libraries that belong to it, and take others off LD_LIBRARY_PATH.",
            commands=(
                sh("python -m pip install {wanted}", wanted=requirement("tensorflow[and-cuda]", f"=={release_}")),
            ),
            verify=verify,
        )
    needs = f"CUDA {release.cuda} and cuDNN {release.cudnn}" if release else _needs(None, wanted).rstrip(".")
    needs = needs.replace("It was built for ", "") or "the CUDA and cuDNN that this TensorFlow names"
    return Fix(
        text=f"Install {needs}, beside what is there, and let the loader find them (LD_LIBRARY_PATH, on Windows PATH); "
        "or install a TensorFlow that is built for the CUDA that is here.",
        commands=(sh("ldconfig -p | grep -E 'libcudart|libcudnn'"),),
        verify=verify,
    )
