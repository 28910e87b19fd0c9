"""What is installed or requested: Python packages, CUDA libraries, and the device that a program should use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.fixes import TOOLKITS, from_nvidia
from gpustack.diagnose.installing import pinned
from gpustack.diagnose.machine.events import because_said, heard, holding, said
from gpustack.diagnose.machine.inventory import builds, driver_release, nvidia_here
from gpustack.diagnose.machine.linking import cuda_majors, cuda_named, soname_library
from gpustack.diagnose.machine.toolchain import toolchain_toolkits as toolkits_here
from gpustack.diagnose.machine.values import because_of, copies, table, text, version
from gpustack.matrix.subjects import frameworks, libraries, toolkits, torch
from gpustack.matrix.subjects.ranges import is_version, minor
from gpustack.model import record
from gpustack.model.command import LIBRARY, either, sh, step
from gpustack.model.report import Because, Fix
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message


ABSENT, CHOSEN = "nvidia-absent-said", "cpu-meant-said"


def none_here(facts: Facts, *, surely: bool = False) -> bool:
    """Return whether the text says that the machine has no GPU and nothing shows one; surely: it says what it is."""
    mac = not facts.host.os or facts.host.os.startswith("macOS")
    kinds = {one.values.get("kind") for one in said(facts, ABSENT)}
    absent = "cpu" in kinds or ("mac" in kinds and mac) if surely else bool(kinds)
    return absent and not nvidia_here(facts)


def on_cpu(facts: Facts) -> bool:
    """Return whether the program is meant to run on the CPU, by choice or because there is no GPU."""
    return heard(facts, CHOSEN) or none_here(facts)


CUDNN, TENSORFLOW, ONNXRUNTIME = "cudnn", "tensorflow", "onnxruntime"
OF_CUDA = frozenset(
    (
        *("cuda-runtime", "cublas", "cublaslt", "cufft", "curand", "cusolver", "cusparse", "cusparselt"),
        *("nvrtc", "nvjitlink", "cupti", "npp"),
    )
)
NOT_FOUND, NOT_LOADED, BY_TENSORFLOW = "missing-library", "cannot-load-library", "missing-library-tf"
OF_BITSANDBYTES = re.compile("bitsandbytes|CUDA SETUP", re.IGNORECASE)
WHEEL = re.compile(
    r"nvidia-(?:cuda-runtime|cublas|cudnn|cufft|cusparse|cusolver|cuda-nvrtc)-cu(\d\d)|cupy-cuda(\d\d)\w"
)
TOOLKIT = step("install the CUDA toolkit that the program was built for")
# A library is there, and does not fit another: a symbol is missing, or what the loader complains of is another's path.
UNFIT = re.compile(r"undefined symbol|: symbol \w|Error: /\S+\.so[\w.]*:?$")
LONG = 80
GPU_BUILDS = ("onnxruntime-gpu", "ort-nightly-gpu")
VERSION = re.compile(r"\d+\.\d+")
# What TensorFlow 1.3 to 1.14 was linked to, whose import ends where it is missing; later ones open it by themselves.
LINKED = (CudaVersion(8), CudaVersion(9), CudaVersion(10))
LINKED_CUDNN = frozenset({"6", "7"})
OTHERS = ("vllm", "sglang", "deepspeed", "tensorrt", "triton")
IN_PATH = re.compile(r"/cuda-(\d+)\.\d+")


@record
class Missing:
    """A library that was not found: its name, the CUDA majors whose builds use that name, and what looked for it."""

    soname: str
    library: str
    number: str
    majors: tuple[int, ...]
    asker: str | None
    message: Message


@record
class Here:
    """A sign of libraries of one CUDA major on the machine; ``sure`` is false if only a person named the version."""

    major: int
    what: str
    because: Because
    sure: bool = True
    cuda: CudaVersion | None = None

    def __str__(self) -> str:
        what = self.what.rpartition("/")[2]
        return what if "CUDA" in what else f"{what} (CUDA {self.major})"


def missing(facts: Facts, matrix: Matrix) -> tuple[Missing, ...]:
    """Return the CUDA and cuDNN libraries that were not found, each once; none if there is no GPU."""
    if none_here(facts):
        return ()
    found: dict[str, Missing] = {}
    for message in (one for kind in (BY_TENSORFLOW, NOT_FOUND, NOT_LOADED) for one in holding(facts, kind, "soname")):
        soname = message.values["soname"]
        named = soname_library(soname)
        why = message.values.get("why", "")
        if named is None or OF_BITSANDBYTES.search(message.line) or "libcuda.so" in why or UNFIT.search(message.line):
            continue
        library, number = named
        if library in OF_CUDA or library == CUDNN:
            majors = cuda_majors(soname, matrix) if library != CUDNN else ()
            one = Missing(
                soname=soname,
                library=library,
                number=number,
                majors=majors,
                asker=_asker(message, facts),
                message=message,
            )
            found.setdefault(soname, one)
    return tuple(found.values())


def cuda_here(facts: Facts, matrix: Matrix) -> tuple[Here, ...]:
    """Return the signs of CUDA majors on this machine, the surest first; the driver's version is not one."""
    found = [*_files(facts, matrix), *_toolkits(facts), *_builds(facts), *_wheels(facts, matrix)]
    return tuple(sorted(found, key=lambda one: not one.sure))


def cudnn_here(facts: Facts) -> tuple[tuple[str, Because], ...]:
    """Return the cuDNN versions on this machine, each with its evidence."""
    found = [(copy.version, because_of(facts, CUDNN, copy, "version")) for copy in copies(facts, CUDNN) if copy.version]
    found += [
        (message.values["path"].partition(".so.")[2], because_said(message))
        for message in holding(facts, "library-file", "path")
        if "libcudnn" in message.values["path"]
    ]
    found += [
        (message.values["version"], because_said(message))
        for message in holding(facts, "library-version", "version", "library")
        if message.values["library"].lower() == CUDNN
    ]
    for copy in copies(facts, "packages"):
        held = table(copy.facts, "distributions")
        wheels = [name for name in held if name.startswith("nvidia-cudnn")]
        found += [(str(held[name]), because_of(facts, "packages", copy, "distributions", name)) for name in wheels]
    longest = sorted(found, key=lambda one: -one[0].count("."))
    return tuple({number: (number, ground) for number, ground in longest}.values())


def install(facts: Facts, matrix: Matrix, major: int | None, *sonames: str) -> Fix:
    """Return how to install the libraries of a CUDA major so that the loader finds them."""
    wheels = [wheel for name in sonames for wheel in libraries.wheel_of_soname(matrix, name, major)]
    names = tuple(pinned(one, facts, matrix) for one in dict.fromkeys(wheels))
    library = sonames[0].partition(".so")[0] if sonames else ""
    pip = (sh("python -m pip install {names}", names=names),) if names else ()
    release = _release(facts, matrix, major) if major else None
    package = f"cuda-libraries-{release.replace('.', '-')}" if release else ""
    system = from_nvidia(facts, package, TOOLKITS) if package else ()
    which = f"CUDA {major}" if major else "CUDA"
    return Fix(
        text=f"Install the {which} libraries, as a toolkit beside what is there or as wheels, and let the loader find "
        "them (ldconfig, or LD_LIBRARY_PATH to their folder). The CUDA version in nvidia-smi is what the driver can "
        "run; the driver brings none of these libraries.",
        commands=(*system[:-1], *either(*system[-1:], *pip)) or (TOOLKIT,),
        needs_root=any("sudo " in one for one in system),
        verify=sh("ldconfig -p | grep {library}", library=LIBRARY(library if LIBRARY.holds(library) else "libcudart")),
    )


def _release(facts: Facts, matrix: Matrix, major: int) -> str | None:
    """Return the newest toolkit of a CUDA major that the driver fully supports, else the newest of all."""
    driver = driver_release(facts)
    held = [one for one in toolkits.releases(matrix) if one.cuda.major == major]
    fitting = [one for one in held if driver and one.driver and one.driver <= driver] or held
    return str(max(one.cuda for one in fitting)) if fitting else None


def _asker(message: Message, facts: Facts) -> str | None:
    """Return the framework that looked for a library: TensorFlow, ONNX Runtime, or None for any other program."""
    line, imported = message.line.lower(), any("tensorflow" in one.line for one in said(facts, "extension-import"))
    if imported or message.kind == BY_TENSORFLOW or heard(facts, BY_TENSORFLOW, "tf-native-runtime", "tf-skips-gpu"):
        return TENSORFLOW if facts.find(TENSORFLOW) or not facts.find("jax") else None  # JAX prints it as well
    if "onnxruntime" in line or heard(facts, "ort-provider-failed", "ort-provider-create-failed", "ort-requires"):
        return ONNXRUNTIME
    if any(one.origin == message.origin for one in said(facts, "ort-named")):
        return ONNXRUNTIME
    if facts.find("pytorch") or facts.find("jax"):
        return None
    return TENSORFLOW if facts.find(TENSORFLOW) or of_tensorflow_1(message, facts) else None


def of_tensorflow_1(message: Message, facts: Facts) -> bool:
    """Return whether an import failed for a library that TensorFlow 1 links to, with no other program named."""
    soname = message.values.get("soname", "")
    cuda, named = cuda_named(soname), soname_library(soname)
    linked = (cuda is not None and named is not None and named[0] == "cublas" and cuda in LINKED) or (
        named is not None and named[0] == CUDNN and named[1] in LINKED_CUDNN
    )
    other = "/" in message.values.get("by", "") or heard(facts, "extension-import")
    return linked and "ImportError: lib" in message.line and not other and not any(map(facts.find, OTHERS))


def _toolkits(facts: Facts) -> Iterator[Here]:
    for one in toolkits_here(facts):
        yield Here(major=one.cuda.major, what=f"CUDA {one.version}", because=one.because, sure=one.sure, cuda=one.cuda)


def _builds(facts: Facts) -> Iterator[Here]:
    for build in builds(facts):
        if build.component == "pytorch" and build.cuda:
            ground = because_of(facts, build.component, build.copy, "build")
            yield Here(major=build.cuda.major, what=f"{build.name} (CUDA {build.cuda})", because=ground)


def _files(facts: Facts, matrix: Matrix) -> Iterator[Here]:
    for message in holding(facts, "library-file", "path"):
        path = message.values["path"]
        name = path.rpartition("/")[2]
        folder = IN_PATH.search(path)
        short = libraries.soname_of(matrix, name)
        majors = short.majors if short else cuda_majors(name, matrix)
        if "cudnn" not in name and (folder or len(majors) == 1):
            major = int(folder[1]) if folder else majors[0]
            yield Here(major=major, what=path if len(path) <= LONG else name, because=because_said(message))


def _wheels(facts: Facts, matrix: Matrix) -> Iterator[Here]:
    sought = {major for one in missing(facts, matrix) for major in one.majors}  # CuPy brings none, it was built for one
    for copy in copies(facts, "packages"):
        for name in table(copy.facts, "distributions"):
            match = WHEEL.fullmatch(name)
            if match and (match[1] or int(match[2]) not in sought):
                ground = because_of(facts, "packages", copy, "distributions", name)
                yield Here(major=int(match[1] or match[2]), what=name, because=ground)


def majors(here: Sequence[Here]) -> tuple[int, ...]:
    """Return the CUDA majors of these signs, the surest first."""
    return tuple(dict.fromkeys(one.major for one in here))


def onnxruntime_version(facts: Facts) -> str | None:
    """Return the version of ONNX Runtime's GPU build that is installed."""
    for copy in copies(facts, "packages"):
        held = table(copy.facts, "distributions")
        gpu = next((found for name in GPU_BUILDS if (found := text(held, name))), None)
        if gpu and VERSION.match(gpu):
            return gpu
    typed = holding(facts, "ort-installed", "version", "package")
    asked = (one.values["version"] for one in typed if one.values["package"] in GPU_BUILDS)
    return plain_version(facts, ONNXRUNTIME) or next((one for one in asked if VERSION.match(one)), None)


def plain_version(facts: Facts, component: str) -> str | None:
    """Return the version of a component if it looks like one, so that it can be looked up in the matrix."""
    found = version(facts, component)
    return found if found and VERSION.match(found) else None


TENSORFLOW_WHEELS = frozenset({"tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-intel"})
JAX = frozenset({"jaxlib"})


def pythons_of(matrix: Matrix, package: str, version: str) -> tuple[str, ...]:
    """Return the Pythons with a wheel of this release, oldest first; empty if the matrix lacks it."""
    if not is_version(version):
        return ()
    return next((pythons for release, pythons in _releases(matrix, package) if _same(release, version)), ())


def releases_for(matrix: Matrix, package: str, python: str) -> tuple[str, ...]:
    """Return the releases that have a wheel for this Python, oldest first."""
    return tuple(release for release, pythons in _releases(matrix, package) if python in pythons)


def _releases(matrix: Matrix, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if package == "torch":
        yield from ((one.version, one.pythons) for one in torch.releases(matrix))
    if package in {"torchvision", "torchaudio"}:
        for one in torch.releases(matrix):
            beside = torch.companions(matrix, one.version)
            named = beside and (beside.torchvision if package == "torchvision" else beside.torchaudio)
            if named:
                yield named, one.pythons
    if package in TENSORFLOW_WHEELS:
        yield from ((one.version, one.pythons) for one in frameworks.tensorflow_releases(matrix))
    if package == "onnxruntime-gpu":
        yield from ((one.version, one.pythons) for one in frameworks.onnxruntime_releases(matrix) if one.pythons)
    if package in JAX:
        yield from ((one.version, one.pythons) for one in frameworks.jax_releases(matrix) if one.pythons)


def _same(release: str, version: str) -> bool:
    """Return whether a version is of this release; a release with two numbers covers all its patches."""
    return release == version or (release.count(".") == 1 and minor(version) == release)
