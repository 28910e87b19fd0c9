"""What a text tells in several places and does not fit together by the matrix, and causes that do not fit a machine.

What does not fit together is a likely cause, never a finding: nobody says that it meets ("nvcc 13.0 for compute_61").
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import amd, naming
from gpustack.diagnose.machine.events import because_said, fails, heard, said
from gpustack.diagnose.machine.frameworks import because_package, distributions, installed, torch
from gpustack.diagnose.machine.inventory import builds, capabilities, gpus, on_bus
from gpustack.diagnose.machine.linking import soname_library
from gpustack.diagnose.machine.naming import architecture, branch_of, cuda_of_driver, is_open, own_cuda, release, whole
from gpustack.diagnose.machine.packages import pythons_of
from gpustack.diagnose.machine.toolchain import used
from gpustack.diagnose.machine.values import at, because, because_of, copies, flag, items, number, text, told, version
from gpustack.diagnose.machine.wheels import unlike
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.diagnose.requirements.versions import IN_WORDS
from gpustack.diagnose.rules.driver_age import CONSUMER
from gpustack.diagnose.rules.gpu_faults import NO_GPU
from gpustack.diagnose.rules.toolkit import COMPILED
from gpustack.matrix.subjects import drivers, frameworks, serving, toolkits
from gpustack.matrix.subjects.ranges import is_version, minor, numbers, within
from gpustack.model.facts import once
from gpustack.model.report import Kept
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.frameworks import OrtRelease, TensorflowRelease
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because

WHEEL_OF_CUDNN = re.compile(r"nvidia-cudnn-cu(\d\d)|cudnn")
INSTALLS, ORT = ("package-install-said", "package-build-said", "setup-failed"), ("onnxruntime-gpu", "onnxruntime")
WITHIN, BUILDS = ("docker-run", "container-told"), {"building", "compiling"}
MANYLINUX, PYTHON = re.compile(r"manylinux_(\d+)_(\d+)_"), re.compile(r"-cp(3)(\d{1,2})-cp3[^\s/]{0,60}\.whl")
REFUSED, LATER = "insufficient-driver", "later-without-gpu-said"
LACKS = ("missing-library", "missing-library-tf", "cannot-load-library", REFUSED)
MEANT, AILING, ASKED = ("cpu-meant-said", "nvidia-absent-said"), "ailing-said", "arch-asked"
OUT = ("module-out-said", "nvml-not-loaded", "module-load-failed", "rock-not-loaded")
SEVERAL, NEAR, FAR = 3, 0.9, 0.75  # of so many GPUs: what most run at, and the share of it that one is far below
ALIKE = (("power", "limit_watts"), ("ecc", "enabled"), ("vbios",), ("memory", "total_mib"), ("clocks", "max_sm_mhz"))
BF16 = ComputeCapability(8, 0)  # the first with bfloat16


@once
def misfits(facts: Facts, matrix: Matrix) -> Mapping[str, Because]:
    """Return each cause of what does not fit together, with what speaks for it."""
    return {} if facts.taken else dict(one for join in JOINS for one in join(facts, matrix))


def _runtime(facts: Facts, matrix: Matrix) -> OrtRelease | None:
    return frameworks.onnxruntime_of(matrix, version(facts, "onnxruntime") or installed(facts, *ORT) or "0")


def _tensorflow(facts: Facts, matrix: Matrix) -> TensorflowRelease | None:
    held = version(facts, "tensorflow") or installed(facts, "tensorflow", "tensorflow-gpu")
    return frameworks.tensorflow_of(matrix, held or "0")


def _compiles(facts: Facts) -> bool:
    return any(COMPILED.search(one.line) for one in said(facts, *INSTALLS))


def _toolchain(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that nvcc is of another major than torch, older than the compiler, or without a target, or the GPU's."""
    named = ((one, f"sm_{one.values.get('digits', '').replace('.', '')}") for one in said(facts, ASKED))
    asked = [(one, CodeArch.parse(name)) for one, name in named]
    beyond = bool(asked) and all(one and one.capability > cc for _, one in asked for cc in capabilities(facts))
    if beyond and capabilities(facts) and heard(facts, AILING):
        yield from (("arch-not-in-build", because_said(one)) for one, _ in asked)
    toolkit, gcc, mine = used(facts), numbers(version(facts, "gcc")), torch(facts)
    if toolkit is None:
        return
    if _compiles(facts) and mine and mine.cuda and toolkit.sure and toolkit.cuda.major != mine.cuda.major:
        yield "nvcc-torch-mismatch", toolkit.because
    row = toolkits.compilers_of(matrix, toolkit.version) if gcc else None
    if row and row.gcc_max and gcc[0] > row.gcc_max:
        yield "host-compiler-too-new", because(facts, "gcc", "version")
    for message, arch in asked:
        known = matrix.arch(arch.capability) if arch else None
        if known and known.last_toolkit and toolkit.cuda > known.last_toolkit:
            yield "arch-dropped-by-toolkit", because_said(message)
        if known and known.first_toolkit and toolkit.cuda < known.first_toolkit:
            yield "toolkit-too-old-for-arch", because_said(message)


def _packages(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    for name, held in distributions(facts).items():
        causes = (*unlike(name, str(held), facts), *_cudnn(name, str(held), facts, matrix))
        yield from ((cause, one) for cause in causes for one in because_package(facts, name))
    own = version(facts, "cudnn") or ""  # not a wheel
    yield from ((cause, because(facts, "cudnn", "version")) for cause in own and _cudnn("cudnn", own, facts, matrix))


def _cudnn(name: str, held: str, facts: Facts, matrix: Matrix) -> Iterator[str]:
    """Yield that cuDNN's wheel is older than a framework needs, or not the one of an ONNX Runtime that fails."""
    made, runtime, jaxlib = _tensorflow(facts, matrix), _runtime(facts, matrix), installed(facts, "jaxlib", "jax")
    wheel, mine = WHEEL_OF_CUDNN.fullmatch(name), numbers(held)
    plugin = frameworks.jax_build(matrix, jaxlib, int(wheel[1] or 12)) if wheel and jaxlib else None
    old = made and mine[:2] < numbers(made.cudnn)[:2]
    if wheel and (old or (plugin and plugin.cudnn and not within(held, plugin.cudnn))):
        yield "cudnn-too-old"
    if wheel and runtime and runtime.cudnn not in {None, *mine[:1]} and heard(facts, AILING, "ort-providers"):
        yield "ort-cudnn-major-mismatch"


def _images(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that an image has no cuDNN, or another one, though ONNX Runtime needs it."""
    runtime = _runtime(facts, matrix)
    for one in said(facts, "image-without-cudnn", "image-cudnn") if runtime and runtime.cudnn else ():
        if (major := one.values.get("major")) != str(runtime and runtime.cudnn):
            yield "ort-cudnn-major-mismatch" if major else "cudnn-missing", because_said(one)


def _drivers(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that the module's flavour or the driver's branch does not drive the GPU."""
    arch, branch, module = architecture(facts, matrix), branch_of(release(facts)), told(facts, "nvidia.ko")
    flavour, span = (matrix.flavour(arch), matrix.span(arch)) if arch else (None, None)
    kinds = {text(module, "flavour"), text(module, "flavour_on_disk")}
    kinds |= {"proprietary"} if heard(facts, "closed-module-named") else set()
    if flavour and flavour.open == "impossible" and (is_open(facts) or "open" in kinds):
        yield "open-module-unsupported-gpu", because(facts, "nvidia.ko", "flavour_on_disk")
    if flavour and flavour.closed == "impossible" and "proprietary" in kinds:
        yield "closed-module-unsupported-gpu", because(facts, "nvidia.ko", "flavour_on_disk")
    if naming.newer_than_driver(facts, matrix):
        yield "driver-too-old-for-gpu", because(facts, "nvidia-driver", "version")
    if span and branch and span.last and drivers.series_of(matrix, branch) > span.last:
        yield "legacy-gpu-needs-older-branch", because(facts, "nvidia-driver", "version")


def _python(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    here = version(facts, "python")
    for name, held in distributions(facts).items() if here and is_version(here) else ():
        pythons = pythons_of(matrix, name, str(held).partition("+")[0])
        if here and pythons and minor(here) not in pythons:
            yield "python-version-no-wheel", because(facts, "python", "version")


def _generations(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that a build has no code for the GPU: by its targets, or as its CUDA is older than the GPU."""
    name, vllm = architecture(facts, matrix), version(facts, "vllm")
    generation = (name or "").partition(" ")[0]
    family = ((cc, one) for cc, one in matrix.architectures.items() if not one.embedded)
    known = [(cc, one) for cc, one in family if one.name.partition(" ")[0] == generation]
    here = [(cc, one) for cc, one in known if cc in capabilities(facts)] or known
    first = min(filter(None, (matrix.first_code(cc) for cc, _ in here)), default=None)
    own = min((one.first_toolkit for _, one in here if one.first_toolkit), default=None)

    def older(cuda: CudaVersion | None) -> bool:
        return bool(first and cuda and cuda < first)

    for build in builds(facts) if here else ():
        sees = any(arch.runs_on(cc) for arch in build.archs for cc, _ in here)
        if build.component == "pytorch" and (not sees if build.archs else older(build.cuda)):
            yield "arch-not-in-build", because_of(facts, "pytorch", build.copy, "version")
    floor = serving.vllm_floor(matrix, vllm) if vllm else None
    if floor and here and all(cc < floor.capability for cc, _ in here):
        yield "arch-not-in-build", because(facts, "vllm", "version")
    ailing, built = heard(facts, AILING), _compiles(facts) or not BUILDS.isdisjoint(facts.words)
    for one in (*(said(facts, "cuda-build-said") if ailing else ()), *said(facts, "gpu-listed")):
        if older(CudaVersion.parse(next(filter(None, map(one.values.get, ("of", "cuda", "runtime"))), None))):
            yield "arch-not-in-build", because_said(one)
    toolkit = used(facts) if (ailing or built) and not any(one.cuda for one in builds(facts)) else None
    old = toolkit and own and toolkit.cuda < own and built
    if toolkit and (old or older(toolkit.cuda)):
        yield "toolkit-too-old-for-arch" if old else "arch-not-in-build", toolkit.because


def _programs(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that something is wrong, and a program that the text names has no code for any of the GPUs."""
    named = [one for one in serving.programs(matrix) if not set(one.words).isdisjoint(facts.words)]
    mine, targets = capabilities(facts), {text(copy.facts, "gfx") for copy in copies(facts, "amd-gpu")} - {None}
    for row in named if heard(facts, AILING) else ():
        if row.unserved and row.capability and mine and all(cc < row.capability for cc in mine):
            yield row.unserved, because(facts, "gpu", "name")
        if row.gfx and targets and not mine and targets.isdisjoint(row.gfx):
            yield "rocm-gfx-unsupported", because(facts, "amd-gpu", "gfx")


def _headers(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that headers are listed for other kernels than the one that runs, beside a module that is not there."""
    running = (version(facts, "linux-kernel") or "").removesuffix(".x86_64")
    held = [str(one) for one in items(told(facts, "system-packages"), "kernel_headers")]
    out = flag(told(facts, "nvidia.ko"), "loaded") is False or flag(told(facts, "amdgpu.ko"), "loaded") is False
    if running and held and running not in held and (out or heard(facts, *OUT)):
        yield "dkms-headers-missing", because(facts, "system-packages", "kernel_headers")


def _siblings(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield each of several GPUs that has another limit, memory or firmware than most, or a far lower clock."""
    held = gpus(facts) if len(gpus(facts)) >= SEVERAL and len({gpu.name for gpu in gpus(facts)}) == 1 else ()
    for path in ALIKE:
        said_ = [(at(gpu.copy.facts, *path), gpu) for gpu in held]
        usual = Counter(str(value) for value, _ in said_).most_common(1)
        for value, gpu in said_ if usual and usual[0][1] * 2 > len(said_) else ():
            if value is not None and str(value) != usual[0][0] != "None":
                yield "sibling-differs", because_of(facts, "gpu", gpu.copy, *path)
    clocks = sorted((number(gpu.copy.facts, "clocks", "sm_mhz") or 0, gpu.mark, gpu) for gpu in held)
    most = clocks[len(clocks) // 2][0] if clocks else 0
    alike = sum(clock >= NEAR * most for clock, _, _ in clocks)
    for clock, _, gpu in clocks if alike * 2 > len(clocks) else ():
        if 0 < clock < FAR * most:
            yield "sibling-differs", because_of(facts, "gpu", gpu.copy, "clocks", "sm_mhz")


def _beyond_driver(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield what needs a newer driver: an image, which a GeForce's has to reach in full, TensorFlow, or a toolkit's."""
    highest, tensorflow, toolkit = cuda_of_driver(facts, matrix), _tensorflow(facts, matrix), used(facts)
    within_ = heard(facts, *WITHIN)
    asked = [(one, one.values.get("needs")) for one in said(facts, "cuda-requirement-env")]
    asked += [(one, one.values.get("image")) for one in (said(facts, "toolkit-named") if within_ else ())]
    for message, named in asked:
        image = CudaVersion.parse(named)
        if image and highest and image > highest:
            yield "container-requires-newer-driver", because_said(message)
    if tensorflow and driver_fit(tensorflow.cuda, facts, matrix).kept is Kept.BROKEN:
        yield "driver-too-old-for-cuda-build", because(facts, "tensorflow", "version")
    if toolkit and toolkit.sure and highest and toolkit.cuda > highest and fails(facts.words):
        newer = toolkit.cuda.major > highest.major
        yield "driver-too-old-for-cuda-build" if newer else "ptx-newer-than-driver", toolkit.because


def _foreign(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield a build for the CPU that nobody wants ("torch 2.3.1+cpu"), or one for CUDA where only AMD or Intel is."""
    mine = torch(facts)
    if mine and mine.accelerator == "cpu" and "+cpu" in (mine.copy.version or "") and not heard(facts, *MEANT):
        yield "cpu-only-build", because_of(facts, mine.component, mine.copy, "version")
    if not amd.foreign(facts):
        return
    lacks = (one for one in said(facts, *LACKS) if one.kind == REFUSED or soname_library(one.values.get("soname", "")))
    yield from (("cpu-only-build", because_said(one)) for one in lacks)
    for name, copy in ((one, copy) for one in ("pytorch", "tensorflow") for copy in copies(facts, one)):
        if copy.version and text(copy.facts, "accelerator") in {"cuda", None} and "rocm" not in copy.version:
            yield "cpu-only-build", because_of(facts, name, copy, "version")


def _counted(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that a list of visible GPUs begins with one that is not there, or that the bus has more than the driver."""
    listed, there, many = facts.find("gpu"), on_bus(facts, "nvidia"), len(gpus(facts))
    if not listed or listed.source.endswith(IN_WORDS) or not many:
        return
    for one in said(facts, "visible-devices"):
        first = one.values.get("devices", "").partition(",")[0].strip()
        if first.isdecimal() and int(first) >= many:
            yield "cuda-visible-devices-invalid", because_said(one)
    if many < len(there) and not any(text(copy.facts, "driver") == "vfio-pci" for copy in there):
        yield "gpu-missing", because_of(facts, "pci-display", there[-1], "name")


def _told(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield what a message means in its surroundings: libraries that are not for the GPU, a loss, a folder by hand."""
    mine, many, own = capabilities(facts), len(gpus(facts)), own_cuda(facts, matrix)
    consumer, shown = any(CONSUMER.search(gpu.name) for gpu in gpus(facts)), cuda_of_driver(facts, matrix)
    blind = facts.host.wsl and heard(facts, "no-driver-found", "cuda-available-false", *LACKS)
    for holds, kind, words, cause in (
        (consumer, "compat-folder", "", "forward-compat-804"),
        (consumer and shown and own and shown > own, "smi-version", "", "forward-compat-804"),  # a newer libcuda
        (shown and own and shown < own, "smi-version", "", "compat-libs-803"),  # an older one
        (not facts.host.wsl and heard(facts, "docker-desktop"), "toolkit-needs-nvml", "", "container-toolkit-missing"),
        (heard(facts, *WITHIN), LATER, "", "container-cgroup-lost-devices"),  # it had its GPU at first
        (blind, "ld-library-path", "/usr/lib/wsl/lib", "wsl-libcuda-shadowed"),
        (heard(facts, AILING) and mine and all(cc < BF16 for cc in mine), "bf16-asked", "", "gpu-feature-unsupported"),
    ):
        yield from ((cause, because_said(one)) for one in said(facts, kind) if holds and words in one.line)
    if flag(told(facts, "nvswitch"), "on_bus") and not told(facts, "nvidia-fabricmanager") and heard(facts, *NO_GPU):
        yield "fabric-manager-not-running", because(facts, "nvswitch", "on_bus")
    if facts.host.wsl and text(told(facts, "nvidia-driver"), "package"):
        yield "wsl-linux-driver-installed", because(facts, "nvidia-driver", "package")
    without = [one for one in said(facts, "runtimes-listed") if "nvidia" not in one.line and many]
    yield from (("container-toolkit-missing", because_said(one)) for one in without)
    driver = str(release(facts))
    stale = [one for one in said(facts, "cdi-host-file") if driver != "None" != one.values.get("release") != driver]
    stale += (one for one in said(facts, "cdi-device-listed") if whole(one.values.get("index")) >= many > 0)
    yield from (("cdi-spec-stale", because_said(one)) for one in stale)


def _manylinux(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that a wheel that is refused is for a newer glibc than is here, or for another Python."""
    held, here = numbers(text(told(facts, "python"), "glibc")), version(facts, "python")
    for one in said(facts, "wheel-not-supported", "package-install-said"):
        wanted, tag = MANYLINUX.search(one.line), PYTHON.search(one.line)
        if wanted and held and numbers(f"{wanted[1]}.{wanted[2]}") > held:
            yield "glibc-too-old", because_said(one)
        if tag and here and (tag[1], tag[2]) != tuple(minor(here).split(".")) and heard(facts, AILING):
            yield "python-version-no-wheel", because_said(one)


JOINS = (
    *(_toolchain, _packages, _drivers, _python, _foreign, _beyond_driver, _generations, _programs),
    *(_counted, _images, _told, _headers, _siblings, _manylinux),
)
