"""Programs built for one CUDA major beside libraries of another, or of none."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import amd, naming
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, value
from gpustack.diagnose.machine.inventory import driver_cuda, driver_release, from_text, nvidia_here, on_windows
from gpustack.diagnose.machine.linking import cuda_majors, soname_library
from gpustack.diagnose.machine.packages import (
    CUDNN,
    ONNXRUNTIME,
    TENSORFLOW,
    Here,
    Missing,
    cuda_here,
    cudnn_here,
    install,
    majors,
    missing,
    of_tensorflow_1,
    onnxruntime_version,
    plain_version,
)
from gpustack.diagnose.machine.toolchain import parsed
from gpustack.diagnose.machine.values import because, version
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import frameworks
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import DISTRIBUTION, NUMBER, requirement, sh, step
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.frameworks import TensorflowRelease
    from gpustack.model.facts import Facts

    Given: TypeAlias = tuple[Facts, Matrix]


ORT_FAILED = ("ort-requires", "ort-provider-create-failed", "ort-provider-failed")
DEFAULT_BEFORE = 11  # onnxruntime-gpu of the package index was for this major, long after machines had the next
ALONE = "A library of another major version cannot take its place, whatever the driver."
PROVIDERS = sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"')


@rule(
    "cuda-major-mixed",
    Layer.LIBRARY,
    ONNXRUNTIME,
    in_one_python=True,
    from_messages=True,
    explained_by=("cuda-major-mismatch-wheel", "bnb-binary-missing-for-cuda", "libcuda-so-symlink-missing"),
)
def cuda_major_mixed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A program needs the libraries of one CUDA major version, and the machine has those of another.

    The names of CUDA's libraries carry a number that belongs to a major version: libcublasLt.so.11 is from CUDA 11, and
    CUDA 12 has only libcublasLt.so.12. A newer toolkit does not serve a program that was built for an older major
    version, whatever the driver. Install the program's build for the CUDA version that is here, or install the
    libraries of its own major version as well: both can coexist on one machine.
    """
    wanted, signs = clashing(facts, matrix), cuda_here(facts, matrix)
    if not wanted:
        yield from _taken_instead(facts, matrix)
        major, here = required(facts, matrix), [one for one in signs if one.sure]
        if major and here and major not in majors(here) and not missing(facts, matrix):
            yield _mixed((), major, f"CUDA {major}", here, (facts, matrix))
        return
    soname, own = wanted[0].soname, wanted[0].majors
    what = f"{soname} of {' or '.join(f'CUDA {major}' for major in own)}"
    yield _mixed(wanted, own[0], what, [one for one in signs if one.major not in own], (facts, matrix))


def _mixed(wanted: Sequence[Missing], major: int, what: str, here: Sequence[Here], given: Given) -> Finding:
    """Return that a program wants the libraries of other majors; ONNX Runtime may fail without naming one."""
    facts, matrix = given
    ort = not wanted or wanted[0].asker == ONNXRUNTIME
    by = "" if ort else wanted[0].message.values.get("by") or ""
    name = f"onnxruntime-gpu {onnxruntime_version(facts) or ''}".strip() if ort else "The program"
    name = by.rpartition("/")[2] if "/" in by or ".so" in by else name
    release = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0") if ort else None
    other = install(facts, matrix, major, *(one.soname for one in wanted[:1]))
    build = f"Install the program's build for {f'CUDA {here[0].major}' if here else 'the installed CUDA'}."
    build = _build_for(here[0].major, facts, matrix) if ort and here else build
    text = f"{build} Or {other.text[:1].lower()}{other.text[1:]}"
    own = wanted and {*wanted[0].majors} & {*majors(cuda_here(facts, matrix))}  # of PyTorch, which brings its own
    return cuda_major_mixed.finding(
        component=wanted[0].library if wanted else None,
        title=f"{name} needs {what}, " + (f"but {here[0]} is installed" if here else "which is not installed"),
        detail=f"Not found: {', '.join(one.soname for one in wanted)}. {ALONE}" if wanted else ALONE,
        confidence=Confidence.CERTAIN if wanted and not own and any(one.sure for one in here) else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in wanted[:3]),
            *(() if wanted else grounds(facts, *ORT_FAILED, most=2)),
            *(one.because for one in here[:3]),
        ),
        row=release.row if release else None,
        fix=fixes.advice(text, *other.commands, verify=PROVIDERS if ort else other.verify),
    )


def _taken_instead(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the library of one major that a program takes instead of its own, where both are mentioned."""
    for one in holding(facts, "library-instead", "found", "wanted"):
        found, own = one.values["found"], one.values["wanted"]
        taken, proper = (cuda_majors(name, matrix) for name in (found, own))
        if not taken or not proper or {*taken} & {*proper}:
            continue
        wheels = [here for here in cuda_here(facts, matrix) if here.major in {*taken, *proper}]
        listed, major = list(dict.fromkeys(here.what for here in wheels)), taken[0]
        dropped = [what for what in listed if what.endswith(f"-cu{major}")] or [f"nvidia-cuda-runtime-cu{major}"]
        yield cuda_major_mixed.finding(
            component="cuda-runtime",
            title=f"{found} of CUDA {major} is loaded instead of {own} of CUDA {proper[0]}",
            detail=f"{': '.join(['Both are installed', *([', '.join(listed)] if listed else [])])}. {ALONE}",
            confidence=Confidence.CERTAIN if listed else Confidence.LIKELY,
            because=(because_said(one), *(here.because for here in wheels[:4])),
            fix=fixes.advice(
                f"Remove the wheels of CUDA {major} (…-cu{major}), or remove its folder from the loader's path.",
                sh("python -m pip list | grep -e -cu{major}", major=NUMBER(major)),
                sh("python -m pip uninstall {names}", names=tuple(map(DISTRIBUTION, dict.fromkeys(dropped)))),
                verify=fixes.DOCTOR_DEEP,
            ),
        )
        return


def required(facts: Facts, matrix: Matrix) -> int | None:
    """Return the CUDA major that a failing ONNX Runtime needs: by its own words, else by the row of its release."""
    named = _number(value(facts, "ort-requires", "cuda") or value(facts, "ort-package", "cuda"))
    release = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0")
    return named or (release.cuda if release and heard(facts, *ORT_FAILED) else None)


def clashing(facts: Facts, matrix: Matrix) -> list[Missing]:
    """Return the libraries that were not found and are of no CUDA major that is here."""
    wanted = [one for one in missing(facts, matrix) if one.majors and one.asker != TENSORFLOW]
    signs = cuda_here(facts, matrix)
    if not signs:
        return [one for one in wanted if one.asker == ONNXRUNTIME and one.majors == (DEFAULT_BEFORE,)]
    brought = [one for one in signs if one.because.component != "pytorch"]
    return [one for one in wanted if not set(one.majors) & set(majors(brought or signs))]


def _build_for(cuda: int, facts: Facts, matrix: Matrix) -> str:
    """Return in words the onnxruntime-gpu for a CUDA major."""
    release = onnxruntime_version(facts) or "0"
    feed = next((one for one in frameworks.onnxruntime_feeds(matrix, release) if one.cuda == cuda), None)
    fitting = [one for one in frameworks.onnxruntime_releases(matrix) if one.cuda == cuda]
    span = f"onnxruntime-gpu {fitting[0].version} to {fitting[-1].version}" if fitting else "another onnxruntime-gpu"
    own = f" {release} for CUDA {cuda} is on ONNX Runtime's own feed for that major." if feed else ""
    return f"On the package index {span} is built for CUDA {cuda}: install that.{own}"


@rule("ort-cudnn-major-mismatch", Layer.LIBRARY, CUDNN, in_one_python=True, from_messages=True)
def ort_cudnn_major_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """onnxruntime-gpu needs a different cuDNN major version than the one that is installed.

    ONNX Runtime's CUDA provider is linked to one major version of cuDNN by name (libcudnn.so.8 or libcudnn.so.9) and
    brings none itself; if that name is not found, it continues without the GPU. Another major version cannot take its
    place. Install the right major version of cuDNN for the same CUDA version, or the onnxruntime-gpu that was built for
    the one that is here.
    """
    release, here = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0"), cudnn_here(facts)
    asked = (one for one in missing(facts, matrix) if one.library == CUDNN and one.asker == ONNXRUNTIME)
    named = next((one for one in asked if "libcudnn_" not in one.message.line), None)  # cuDNN itself loads its parts
    wanted = _number(named.number if named else None) or _number(value(facts, "ort-requires", "cudnn"))
    if wanted is None and heard(facts, *ORT_FAILED):
        wanted = _archive(facts, matrix) or (release.cudnn if release else None)
    others = [one for one in here if numbers(one[0])[:1] not in {(wanted,), ()}]
    same = any(numbers(one[0])[:1] == (wanted,) for one in here)
    if wanted is None or same or not (named or (others and _alone(facts, matrix))):
        return
    name = f"onnxruntime-gpu {onnxruntime_version(facts) or ''}".strip()
    found = f"cuDNN {others[0][0]} is installed" if others else "no such cuDNN is found"
    yield ort_cudnn_major_mismatch.finding(
        title=f"{name} needs cuDNN {wanted} (libcudnn.so.{wanted}), but {found}",
        detail="The CUDA provider cannot be loaded, and ONNX Runtime continues without the GPU.",
        confidence=Confidence.CERTAIN if others else Confidence.POSSIBLE,
        because=(
            *((because_said(named.message),) if named else grounds(facts, *ORT_FAILED, most=2)),
            *(ground for _, ground in others[:2]),
        ),
        row=release.row if release else None,
        fix=_ort_fix(wanted, numbers(others[0][0])[0] if others else None, facts, matrix),
    )


def _archive(facts: Facts, matrix: Matrix) -> int | None:
    """Return the cuDNN of an archive that names its CUDA, which is another build than that of the package index."""
    cuda = _number(value(facts, "ort-package", "cuda"))
    feeds = frameworks.onnxruntime_feeds(matrix, onnxruntime_version(facts) or "0") if cuda else ()
    return next((one.cudnn for one in feeds if one.cuda == cuda), None)


def _alone(facts: Facts, matrix: Matrix) -> bool:
    """Return whether nothing else was missing, so that a cuDNN that nobody named can be to blame."""
    here = majors([one for one in cuda_here(facts, matrix) if one.sure])
    return not missing(facts, matrix) and (not here or required(facts, matrix) in {None, *here})


def _number(said: str | None) -> int | None:
    return int(said[:3]) if said and said.isascii() and said.isdecimal() else None


def _ort_fix(wanted: int, held: int | None, facts: Facts, matrix: Matrix) -> Fix:
    """Return how to get the cuDNN that is needed, and the ONNX Runtime for the one that is here."""
    here, version_ = majors(cuda_here(facts, matrix)), onnxruntime_version(facts) or "0"
    release = frameworks.onnxruntime_of(matrix, version_)
    cuda = here[0] if here else release.cuda if release else None
    fitting = [one for one in frameworks.onnxruntime_releases(matrix) if one.cudnn == held and cuda in {one.cuda, None}]
    feeds = [one for one in frameworks.onnxruntime_feeds(matrix, version_) if one.cudnn == held]
    other = f", or the build of ONNX Runtime's feed for CUDA {feeds[0].cuda} and cuDNN {held}" if feeds else ""
    other = f", or onnxruntime-gpu {fitting[-1].version}, which is built for cuDNN {held}" if fitting else other
    return fixes.advice(
        f"Install cuDNN {wanted} for the CUDA that onnxruntime was built for, where the loader finds it{other}.",
        sh("python -m pip install {cudnn}", cudnn=requirement(f"nvidia-cudnn-cu{cuda}", f"=={wanted}.*"))
        if cuda
        else step("install cuDNN {wanted}", wanted=NUMBER(wanted)),
        verify=PROVIDERS,
    )


@rule(
    "cuda-runtime-missing",
    Layer.RUNTIME,
    "cuda-runtime",
    in_one_python=True,
    from_messages=True,
    explained_by=("cuda-major-mismatch-wheel", "bnb-binary-missing-for-cuda", "oneapi-env-not-sourced"),
)
def cuda_runtime_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A program finds no CUDA runtime of the major version that it was built for.

    The driver brings only libcuda: libcudart, cuBLAS, cuFFT and the others come with a toolkit or with wheels, and the
    CUDA version that nvidia-smi shows is only the newest that the driver can run. Here a program did not find such a
    library ("libcudart.so.12: cannot open shared object file"). Install the libraries of that major version or, if they
    are installed, add their folder to the loader's search path.
    """
    wanted = [one for one in missing(facts, matrix) if one.library != CUDNN and one.asker != TENSORFLOW]
    if not wanted or clashing(facts, matrix) or amd.foreign(facts):
        return
    first, driver = wanted[0], driver_cuda(facts, matrix)
    major = first.majors[0] if first.majors else None
    installed = [one for one in cuda_here(facts, matrix) if one.sure and one.major in first.majors]
    where = "on the loader's path" if installed else "installed"
    yield cuda_runtime_missing.finding(
        component=first.library,
        title=f"{first.soname} is not found: no {f'CUDA {major}' if major else 'CUDA'} runtime is {where}",
        detail=f"Not found: {', '.join(one.soname for one in wanted)}."
        + (f" The driver can run CUDA {driver}, but does not bring this library." if driver else "")
        + (f" {installed[0].what} is installed, but the loader does not look there." if installed else ""),
        confidence=Confidence.LIKELY if installed or from_text(facts) else Confidence.CERTAIN,
        because=(
            *(because_said(one.message) for one in wanted[:3]),
            *(one.because for one in installed[:2]),
            *naming.known(facts, ("nvml", "cuda_version")),
        ),
        fix=install(facts, matrix, major, *(one.soname for one in wanted)),
    )


SKIPS, LISTS, IGNORES = "tf-skips-gpu", "tf-gpu-listed", "tf-ignore-cudart"
UNUSED = ("tf-cpu-listed", "tf-gpu-empty", "gpu-unused-said")
BLIND = "tf-no-cuda-drivers"  # said where libcudart cannot be opened, whatever it says of drivers
ELSE = ("no-device", "init-error", "insufficient-driver", "libcuda-not-found", "libcuda-nowhere", "tf-cpu-build")
FIRST_EXTRA, ONE_NAME_A_MAJOR = (2, 14), 11


@rule(
    "tf-cannot-dlopen",
    Layer.LIBRARY,
    "tensorflow",
    in_one_python=True,
    from_messages=True,
    explained_by=("tf-no-native-windows-gpu", "container-no-gpus-flag"),
)
def tf_cannot_dlopen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """TensorFlow cannot open a CUDA or cuDNN library that it was built for, and does not use the GPU.

    TensorFlow opens CUDA's libraries by name when it starts, and each release looks for the names of one CUDA and one
    cuDNN ("Could not load dynamic library 'libcudnn.so.7'"). Where another version is installed, or none, it skips the
    GPU and computes on the CPU. Install the version that this TensorFlow was built for, or TensorFlow with the extra
    and-cuda, which brings its own since 2.14. TensorRT, which it looks for too, may be missing without harm.
    """
    wanted = [one for one in missing(facts, matrix) if one.asker == TENSORFLOW]
    version_ = plain_version(facts, TENSORFLOW)
    release = frameworks.tensorflow_of(matrix, version_ or "0")
    if heard(facts, LISTS) or _excused(wanted, facts):
        return
    named = bool(wanted) or heard(facts, SKIPS)
    here = _here(wanted, facts, matrix) if named else _others(release, facts, matrix)
    if not named and not here:
        return
    guessed = bool(wanted) and not facts.find(TENSORFLOW) and of_tensorflow_1(wanted[0].message, facts)
    name = "The program (TensorFlow 1, by the library's name)" if guessed else f"TensorFlow {version_ or ''}".strip()
    built = _built(release, wanted)
    needs = f"{f'TensorFlow {release.version} is' if release else 'It was'} built for {built}." if built else ""
    if named:
        ends = "cannot be imported" if wanted and "ImportError" in wanted[0].message.line else "does not use the GPU"
        title = f"{name} cannot open {', '.join(map(_spelled, wanted)) or 'a CUDA library'} and {ends}"
    else:
        title = f"{name} needs the libraries of {built}"
        needs = f"{needs} Libraries of another version have other names, so it does not use the GPU."
    yield tf_cannot_dlopen.finding(
        component=wanted[0].library if wanted else TENSORFLOW,
        title=title + (f"; {' and '.join(what for what, _ in here)} is installed" if here else ""),
        detail=needs,
        confidence=Confidence.CERTAIN if wanted and not guessed else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in wanted[:4]),
            *grounds(facts, *((SKIPS,) if named else (BLIND, *UNUSED)), most=2),
            *([because(facts, TENSORFLOW, "version")] if version_ else []),
            *(ground for _, ground in here),
        ),
        row=release.row if release else None,
        fix=_tf_fix(release, wanted, facts),
    )


def _excused(wanted: Sequence[Missing], facts: Facts) -> bool:
    """Return whether TensorFlow misses the driver's library, or the runtime alone, which is harmless without a GPU."""
    names = [one.values["soname"] for one in holding(facts, "missing-library-tf", "soname")]
    driver = any((soname_library(one) or ("", ""))[0] == "libcuda" or "nvcuda.dll" in one for one in names)
    if driver or (names and all("cupti" in one for one in names)):  # no toolkit brings that; this is to profile with
        return True
    only = heard(facts, IGNORES) and not heard(facts, SKIPS) and all("cudart" in _spelled(one) for one in wanted)
    return only and not nvidia_here(facts) and facts.find("cuda-toolkit") is None


def _here(wanted: Sequence[Missing], facts: Facts, matrix: Matrix) -> list[tuple[str, Because]]:
    """Return what is installed instead of what is needed, each with its ground."""
    libraries = {one.library for one in wanted}
    cudnn = [(f"cuDNN {number}", ground) for number, ground in cudnn_here(facts)[:1] if CUDNN in libraries]
    return cudnn + [(one.what, one.because) for one in cuda_here(facts, matrix)[:1] if libraries - {CUDNN}]


def _others(release: TensorflowRelease | None, facts: Facts, matrix: Matrix) -> list[tuple[str, Because]]:
    """Return the CUDA or cuDNN that is named and has other names than a TensorFlow that lists no GPU looks for."""
    blind, driver = heard(facts, BLIND), driver_release(facts) or version(facts, "nvml")
    driverless = not driver and not heard(facts, "wsl-smi-works")  # it may be the driver that TensorFlow misses
    if release is None or not heard(facts, *UNUSED, BLIND) or heard(facts, *ELSE) or (blind and driverless):
        return []
    if numbers(release.version)[:2] >= FIRST_EXTRA and not blind:
        return []
    if on_windows(facts) and frameworks.tensorflow_gpu_on(matrix, release.version, "windows") is False:
        return []
    here = [one for one in cuda_here(facts, matrix) if one.cuda]
    same = 1 if release.cuda.major >= ONE_NAME_A_MAJOR else 2  # before it the libraries are named after the minor too
    wanted = numbers(str(release.cuda))[:same]
    others = [] if any(numbers(str(one.cuda))[:same] == wanted for one in here) else here[:1]
    wrong = [one for one in cudnn_here(facts)[:1] if numbers(one[0])[:1] != numbers(release.cudnn)[:1]]
    wrong = wrong if others or not blind else []
    return [(one.what, one.because) for one in others] + [(f"cuDNN {number}", ground) for number, ground in wrong]


def _spelled(one: Missing) -> str:
    why = one.message.values.get("why")
    return f"{one.soname} (for lack of {why})" if why and why != one.soname else one.soname


def _built(release: TensorflowRelease | None, wanted: Sequence[Missing]) -> str:
    """Return what TensorFlow was built for, as far as its release or a name tells; empty where nothing does."""
    if release:
        return f"CUDA {release.cuda} and cuDNN {release.cudnn}"
    return next((f"CUDA {cuda}" for one in wanted if one.library != CUDNN and (cuda := _cuda(one))), "")


def _cuda(one: Missing) -> str | None:
    """Return the CUDA version that a name spells: libcudart.so.10.1 and cudart64_101.dll are of 10.1."""
    number = one.soname.partition(".so.")[2]
    digits = one.soname.rpartition("_")[2].removesuffix(".dll")
    if not number and numbers(digits) and digits.isdecimal():
        number = f"{digits[:-1]}.{digits[-1]}" if len(digits) > 2 else digits  # noqa: PLR2004 - 101 is 10.1, 12 is 12
    if one.library == "cuda-runtime" and number:
        return number if number.count(".") else str(parsed(number) or number).partition(".")[0]
    return str(one.majors[0]) if len(one.majors) == 1 else None


def _tf_fix(release: TensorflowRelease | None, wanted: Sequence[Missing], facts: Facts) -> Fix:
    version_ = plain_version(facts, TENSORFLOW)
    if version_ and numbers(version_)[:2] >= FIRST_EXTRA:
        return fixes.advice(
            "Install TensorFlow with the libraries that belong to it, and remove others from LD_LIBRARY_PATH.",
            sh("python -m pip install {wanted}", wanted=requirement("tensorflow[and-cuda]", f"=={version_}")),
            verify=fixes.TENSORFLOW_SEES,
        )
    return fixes.advice(
        f"Install {_built(release, wanted) or 'the CUDA and cuDNN that this TensorFlow names'} "
        "alongside what is installed, and add its folder to the loader's path (LD_LIBRARY_PATH, on Windows PATH); "
        "or install a TensorFlow that is built for the installed CUDA version.",
        sh("ldconfig -p | grep -E 'libcudart|libcudnn'"),
        verify=fixes.TENSORFLOW_SEES,
    )
