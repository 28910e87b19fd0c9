"""Programs built for one CUDA major beside libraries of another, or of none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import driver_cuda, driver_release, nvidia_here, on_windows
from gpustack.diagnose.machine.linking import cuda_majors, soname_library
from gpustack.diagnose.machine.messages import because_said, grounds, heard, holding, said, value
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
from gpustack.diagnose.machine.packages import onnxruntime_version as ort_version
from gpustack.diagnose.machine.toolchain import parsed
from gpustack.diagnose.machine.values import because, version
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import frameworks
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import DISTRIBUTION, NUMBER, requirement, sh, step
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.frameworks import TensorflowRelease
    from gpustack.model.facts import Facts
    from gpustack.model.versions import CudaVersion


MIXED_FAILED = ("ort-requires", "ort-provider-create-failed", "ort-provider-failed")
DEFAULT_BEFORE = 11  # onnxruntime-gpu of the package index was for this major, long after machines had the next


@rule(
    "cuda-major-mixed",
    layer=Layer.LIBRARY,
    component=ONNXRUNTIME,
    severity=Severity.ERROR,
    in_one_python=True,
    from_messages=True,
)
def cuda_major_mixed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A program wants the libraries of one CUDA major, and the machine has those of another.

    The names of CUDA's libraries carry a number that belongs to a major: libcublasLt.so.11 is of CUDA 11, and CUDA 12
    has libcublasLt.so.12 only. No newer toolkit serves a program that was built for an older major, whatever the
    driver. Take the build of the program for the CUDA that is here, or install the libraries of its own major beside
    it: both may lie on one machine.
    """
    wanted = clashing(facts, matrix)
    if not wanted:
        yield from _taken_instead(facts, matrix)
        yield from _required(facts, matrix)
        return
    here = [one for one in cuda_here(facts, matrix) if one.major not in wanted[0].majors]
    needs = " or ".join(f"CUDA {major}" for major in wanted[0].majors)
    release = frameworks.onnxruntime_of(matrix, ort_version(facts) or "0") if wanted[0].asker == ONNXRUNTIME else None
    yield cuda_major_mixed.finding(
        component=wanted[0].library,
        title=f"{_asker(wanted[0], facts)} wants {wanted[0].soname} of {needs}, and {_found(here)}",
        detail=f"Not found: {', '.join(one.soname for one in wanted)}. A library of another major cannot take its "
        "place, whatever the driver.",
        confidence=Confidence.CERTAIN if any(one.sure for one in here) else Confidence.LIKELY,
        because=(*(because_said(one.message) for one in wanted[:3]), *(one.because for one in here[:3])),
        row=release.row if release else None,
        fix=_mixed_fix(wanted[0], here, facts, matrix),
    )


def _taken_instead(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the library of one major that a program takes in the place of its own, where both are mentioned."""
    for one in holding(facts, "library-instead", "found", "wanted"):
        found, own = one.values["found"], one.values["wanted"]
        majors_ = [cuda_majors(name, matrix) for name in (found, own)]
        if not all(majors_) or set(majors_[0]) & set(majors_[1]):
            continue
        wheels = [here for here in cuda_here(facts, matrix) if here.major in {*majors_[0], *majors_[1]}]
        listed = list(dict.fromkeys(here.what for here in wheels))
        both = f": {', '.join(listed)}" if listed else ""
        yield cuda_major_mixed.finding(
            component="cuda-runtime",
            title=f"{found} of CUDA {majors_[0][0]} is loaded in the place of {own} of CUDA {majors_[1][0]}",
            detail=f"Both are here{both}. A library of another major cannot take the place of a program's own.",
            confidence=Confidence.CERTAIN if listed else Confidence.LIKELY,
            because=(because_said(one), *(here.because for here in wheels[:4])),
            fix=_drop(majors_[0][0], [what for what in listed if what.endswith(f"-cu{majors_[0][0]}")]),
        )
        return


def _drop(major: int, wheels: Sequence[str]) -> Fix:
    """Return how to take the libraries of a major away."""
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
    """Return the CUDA that ONNX Runtime asks for where it failed without naming a library, and another is here."""
    major, here = required(facts, matrix), [one for one in cuda_here(facts, matrix) if one.sure]
    if major is None or not here or major in majors(here) or missing(facts, matrix):
        return
    release = frameworks.onnxruntime_of(matrix, ort_version(facts) or "0")
    yield cuda_major_mixed.finding(
        title=f"onnxruntime-gpu {ort_version(facts) or ''}".strip() + f" wants CUDA {major}, and {_found(here)}",
        detail="A library of another major cannot take its place, whatever the driver.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, *MIXED_FAILED, most=2), *(one.because for one in here[:3])),
        row=release.row if release else None,
        fix=Fix(
            text=f"{build_for(here[0].major, facts, matrix)} Else: {install(facts, matrix, major).text}",
            commands=install(facts, matrix, major).commands,
            verify=sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
        ),
    )


def required(facts: Facts, matrix: Matrix) -> int | None:
    """Return the CUDA major that a failing ONNX Runtime needs: by its own words, else by the row of its release."""
    said_ = value(facts, "ort-requires", "cuda") or value(facts, "ort-package", "cuda")
    release = frameworks.onnxruntime_of(matrix, ort_version(facts) or "0")
    if said_ and said_.isascii() and said_.isdecimal():
        return int(said_[:3])
    return release.cuda if release and heard(facts, *MIXED_FAILED) else None


def clashing(facts: Facts, matrix: Matrix) -> list[Missing]:
    """Return the libraries that were not found and are of no CUDA major that is here."""
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


def _mixed_fix(one: Missing, here: Sequence[Here], facts: Facts, matrix: Matrix) -> Fix:
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
    """Return in words the onnxruntime-gpu for a CUDA major."""
    release = ort_version(facts) or "0"
    feed = next((one for one in frameworks.onnxruntime_feeds(matrix, release) if one.cuda == cuda), None)
    fitting = [one for one in frameworks.onnxruntime_releases(matrix) if one.cuda == cuda]
    span = f"onnxruntime-gpu {fitting[0].version} to {fitting[-1].version}" if fitting else "another onnxruntime-gpu"
    own = f" {release} for CUDA {cuda} is on ONNX Runtime's own feed for that major." if feed else ""
    return f"On the package index {span} is built for CUDA {cuda}: install that.{own}"


ORT_FAILED = ("ort-provider-failed", "ort-provider-create-failed", "ort-requires")


@rule(
    "ort-cudnn-major-mismatch",
    layer=Layer.LIBRARY,
    component=CUDNN,
    severity=Severity.ERROR,
    in_one_python=True,
    from_messages=True,
)
def ort_cudnn_major_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """onnxruntime-gpu wants another major of cuDNN than the one that is installed.

    ONNX Runtime's CUDA provider is linked to one major of cuDNN by name (libcudnn.so.8 or libcudnn.so.9) and brings
    none itself; where that name is not found it goes on without the GPU. A cuDNN of another major cannot take its
    place. Install cuDNN of the right major for the same CUDA, or the onnxruntime-gpu that was built for the one that is
    here.
    """
    named = next((one for one in missing(facts, matrix) if one.library == CUDNN and one.asker == ONNXRUNTIME), None)
    here = cudnn_here(facts)
    release = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0")
    wanted = _number(named.number if named else None) or _number(value(facts, "ort-requires", "cudnn"))
    wanted = wanted or (
        _archive(facts, matrix) or (release.cudnn if release else None) if said(facts, *ORT_FAILED) else None
    )
    others = [one for one in here if numbers(one[0])[:1] not in {(wanted,), ()}]
    same = any(numbers(one[0])[:1] == (wanted,) for one in here)
    if wanted is None or same or not (named or (others and _alone(facts, matrix))):
        return
    because = [because_said(named.message)] if named else list(grounds(facts, *ORT_FAILED, most=2))
    yield _finding(wanted, others, because, facts, matrix)


def _archive(facts: Facts, matrix: Matrix) -> int | None:
    """Return the cuDNN of an archive that names its CUDA, which is another build than that of the package index."""
    cuda = _number(value(facts, "ort-package", "cuda"))
    feeds = frameworks.onnxruntime_feeds(matrix, onnxruntime_version(facts) or "0") if cuda else ()
    return next((one.cudnn for one in feeds if one.cuda == cuda), None)


def _alone(facts: Facts, matrix: Matrix) -> bool:
    """Return whether nothing else was missing, so that a cuDNN that nobody named can be to blame."""
    here = majors([one for one in cuda_here(facts, matrix) if one.sure])
    return not missing(facts, matrix) and (not here or required(facts, matrix) in {None, *here})


def _number(said_: str | None) -> int | None:
    return int(said_[:3]) if said_ and said_.isascii() and said_.isdecimal() else None


def _finding(
    wanted: int, others: list[tuple[str, Because]], because: list[Because], facts: Facts, matrix: Matrix
) -> Finding:
    release = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0")
    name = f"onnxruntime-gpu {onnxruntime_version(facts) or ''}".strip()
    found = f"cuDNN {others[0][0]} is installed" if others else "no cuDNN of that major is found"
    return ort_cudnn_major_mismatch.finding(
        title=f"{name} wants cuDNN {wanted} (libcudnn.so.{wanted}), and {found}",
        detail="The CUDA provider cannot be loaded, and ONNX Runtime goes on without the GPU.",
        confidence=Confidence.CERTAIN if others else Confidence.POSSIBLE,
        because=(*because, *(ground for _, ground in others[:2])),
        row=release.row if release else None,
        fix=_ort_fix(wanted, others, facts, matrix),
    )


def _ort_fix(wanted: int, others: list[tuple[str, Because]], facts: Facts, matrix: Matrix) -> Fix:
    here = majors(cuda_here(facts, matrix))
    release = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0")
    cuda = here[0] if here else release.cuda if release else None
    if cuda:
        wheel = sh("python -m pip install {cudnn}", cudnn=requirement(f"nvidia-cudnn-cu{cuda}", f"=={wanted}.*"))
    else:
        wheel = step("install cuDNN {wanted}", wanted=NUMBER(wanted))
    held = numbers(others[0][0])[0] if others else None
    fitting = [one for one in frameworks.onnxruntime_releases(matrix) if one.cudnn == held and cuda in {one.cuda, None}]
    feeds = [
        one for one in frameworks.onnxruntime_feeds(matrix, onnxruntime_version(facts) or "0") if one.cudnn == held
    ]
    other = f", or onnxruntime-gpu {fitting[-1].version}, which is built for cuDNN {held}" if fitting else ""
    other = other or (
        f", or the build of ONNX Runtime's feed for CUDA {feeds[0].cuda} and cuDNN {held}" if feeds else ""
    )
    return Fix(
        text=f"Install cuDNN {wanted} for the CUDA that onnxruntime was built for, where the loader finds it{other}.",
        commands=(wheel,),
        verify=sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
    )


@rule(
    "cuda-runtime-missing",
    layer=Layer.RUNTIME,
    component="cuda-runtime",
    severity=Severity.ERROR,
    in_one_python=True,
    from_messages=True,
)
def cuda_runtime_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A program finds no CUDA runtime of the major that it was built for.

    The driver brings libcuda and nothing else: libcudart, cuBLAS, cuFFT and their kin come with a toolkit or with
    wheels, and the CUDA version that nvidia-smi shows is only the newest that the driver can run. Here a program did
    not find such a library ("libcudart.so.12: cannot open shared object file"). Install the libraries of that major, or
    where they are installed show the loader their folder.
    """
    elsewhere = {one.soname for one in clashing(facts, matrix)}
    wanted = [
        one
        for one in missing(facts, matrix)
        if one.library != CUDNN and one.asker != TENSORFLOW and one.soname not in elsewhere
    ]
    if not wanted or elsewhere:
        return
    first = wanted[0]
    major = first.majors[0] if first.majors else None
    installed = [one for one in cuda_here(facts, matrix) if one.sure and one.major in first.majors]
    driver = driver_cuda(facts, matrix)
    yield cuda_runtime_missing.finding(
        component=first.library,
        title=f"{first.soname} is not found: no {f'CUDA {major}' if major else 'CUDA'} runtime is "
        f"{'on the path of the loader' if installed else 'installed'}",
        detail=_detail(wanted, str(driver) if driver else None, [one.what for one in installed]),
        confidence=Confidence.CERTAIN if not installed else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in wanted[:3]),
            *(one.because for one in installed[:2]),
            *(
                [Because(component="nvml", fact="cuda_version", value=str(driver), source="the driver")]
                if driver
                else []
            ),
        ),
        fix=install(facts, matrix, major, *(one.soname for one in wanted)),
    )


def _detail(wanted: list[Missing], driver: str | None, installed: list[str]) -> str:
    names = f"Not found: {', '.join(one.soname for one in wanted)}."
    told = f" CUDA {driver} is what the driver can run, and brings no such library." if driver else ""
    here = f" {installed[0]} is here, and the loader does not look there." if installed else ""
    return names + told + here


SKIPS, LISTS, IGNORES = "tf-skips-gpu", "tf-gpu-listed", "tf-ignore-cudart"
UNUSED = ("tf-cpu-listed", "tf-gpu-empty")
BLIND = "tf-no-cuda-drivers"  # said where libcudart cannot be opened, whatever it says of drivers
ELSE = ("no-device", "init-error", "insufficient-driver", "libcuda-not-found", "tf-cpu-build")
FIRST_EXTRA = (2, 14)
ONE_NAME_A_MAJOR = 11


@rule(
    "tf-cannot-dlopen",
    layer=Layer.LIBRARY,
    component="tensorflow",
    severity=Severity.ERROR,
    in_one_python=True,
    from_messages=True,
)
def tf_cannot_dlopen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """TensorFlow cannot open a library of CUDA or cuDNN that it was built for, and leaves the GPU alone.

    TensorFlow opens CUDA's libraries by name when it starts, and each release looks for the names of one CUDA and one
    cuDNN ("Could not load dynamic library 'libcudnn.so.7'"). Where another version is installed, or none, it skips the
    GPU and computes on the CPU. Install the version that this TensorFlow was built for, or TensorFlow with the extra
    and-cuda, which brings its own since 2.14. TensorRT, which it looks for too, may be missing without harm.
    """
    wanted = [one for one in missing(facts, matrix) if one.asker == TENSORFLOW]
    if heard(facts, LISTS) or _no_driver(facts) or _needless(wanted, facts):
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
    yield tf_cannot_dlopen.finding(
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
        fix=_tf_fix(release, wanted, facts),
    )


def _needless(wanted: Sequence[Missing], facts: Facts) -> bool:
    """Return whether TensorFlow misses the runtime alone, harmless by its words without a GPU, and none is known."""
    only = heard(facts, IGNORES) and not heard(facts, SKIPS) and all("cudart" in _spelled(one) for one in wanted)
    return only and not nvidia_here(facts) and facts.find("cuda-toolkit") is None


def _other_versions(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return a TensorFlow that lists no GPU where the CUDA or cuDNN that is named has other names than it looks for."""
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
    yield tf_cannot_dlopen.finding(
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
        fix=_tf_fix(release, [], facts),
    )


def _driver(facts: Facts) -> bool:
    """Return whether a driver is mentioned, so that it is not the driver that TensorFlow misses."""
    return driver_release(facts) is not None or version(facts, "nvml") is not None or heard(facts, "wsl-smi-works")


def _serves(release: TensorflowRelease, cuda: CudaVersion | None) -> bool:
    """Return whether a CUDA has the names that a release looks for: up to CUDA 10 each minor release has its own."""
    if cuda is None or cuda.major != release.cuda.major:
        return False
    return cuda.major >= ONE_NAME_A_MAJOR or cuda.minor == release.cuda.minor


def _no_driver(facts: Facts) -> bool:
    """Return whether TensorFlow misses the driver's own library, which no toolkit brings."""
    return any(
        (soname_library(one.values["soname"]) or ("", ""))[0] == "libcuda" or "nvcuda.dll" in one.values["soname"]
        for one in holding(facts, "missing-library-tf", "soname")
    )


def _spelled(one: Missing) -> str:
    why = one.message.values.get("why")
    return f"{one.soname} (for lack of {why})" if why and why != one.soname else one.soname


def _other(wanted: list[Missing], facts: Facts, matrix: Matrix) -> str:
    """Return in words what is installed in the place of what is wanted."""
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
    """Return the CUDA version that a name spells: libcudart.so.10.1 and cudart64_101.dll are of 10.1."""
    number = one.soname.partition(".so.")[2]
    digits = one.soname.rpartition("_")[2].removesuffix(".dll")
    if not number and numbers(digits) and digits.isdecimal():
        number = f"{digits[:-1]}.{digits[-1]}" if len(digits) > 2 else digits  # noqa: PLR2004 - 101 is 10.1, 12 is 12
    if one.library == "cuda-runtime" and number:
        return number if number.count(".") else str(parsed(number) or number).partition(".")[0]
    return str(one.majors[0]) if len(one.majors) == 1 else None


def _tf_fix(release: TensorflowRelease | None, wanted: list[Missing], facts: Facts) -> Fix:
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
