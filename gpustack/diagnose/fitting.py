"""What a text tells in several places and does not fit together by the matrix, and causes that do not fit a machine.

What does not fit together is a likely cause, never a finding: nobody says that it meets ("nvcc 13.0 for compute_61").
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import amd, naming
from gpustack.diagnose.machine.events import because_said, fails, heard, said
from gpustack.diagnose.machine.frameworks import because_package, because_torch, distributions, installed, torch
from gpustack.diagnose.machine.inventory import builds, capabilities, gpus, on_bus
from gpustack.diagnose.machine.linking import soname_library
from gpustack.diagnose.machine.naming import architecture, branch_of, cuda_of_driver, is_open, release
from gpustack.diagnose.machine.packages import pythons_of
from gpustack.diagnose.machine.toolchain import used
from gpustack.diagnose.machine.values import because, because_of, copies, text, told, version
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.diagnose.requirements.versions import IN_WORDS
from gpustack.diagnose.rules.driver_age import CONSUMER
from gpustack.diagnose.rules.toolkit import COMPILED
from gpustack.matrix.subjects import drivers, frameworks, serving, toolkits, training
from gpustack.matrix.subjects.ranges import is_version, minor, numbers
from gpustack.model.facts import once
from gpustack.model.report import Kept
from gpustack.model.versions import CodeArch, CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.frameworks import OrtRelease, TensorflowRelease
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because

# In the name of a wheel: flash_attn-2.7.4+cu12torch2.5cxx11abiFALSE.
FOR_TORCH = re.compile(r"torch(?P<torch>[12]\.\d{1,2})(?!\d)|\+pt(?P<major>[12])(?P<minor>\d{1,2})(?!\d)")
# The C++ ABI that a wheel is for. PyTorch's own wheels have the old one before 2.6, which came with either, and the new
# one since (release notes of 2.6 and 2.7).
ABI, EITHER = re.compile(r"cxx11abi(TRUE|FALSE)"), (2, 6)
CUDA_OF = re.compile(r"\+cu(1\d)\d?torch")
FOR_CUDA = re.compile(r"cupy-cuda(?P<major>\d\d)x")
TAG = re.compile(r"\+(?:cpu|cu\d+|rocm\d|xpu)")
INSTALLS = ("package-install-said", "package-build-said", "setup-failed")
ORT = ("onnxruntime-gpu", "onnxruntime")
REFUSED, LATER = "insufficient-driver", "later-without-gpu-said"
LACKS = ("missing-library", "missing-library-tf", "cannot-load-library", REFUSED)
MEANT = ("cpu-meant-said", "nvidia-absent-said")
AILING = "ailing-said"


@once
def misfits(facts: Facts, matrix: Matrix) -> Mapping[str, Because]:
    """Return each cause of what a text tells and does not fit together, with what speaks for it."""
    return {} if facts.taken else dict(one for join in JOINS for one in join(facts, matrix))


def _runtime(facts: Facts, matrix: Matrix) -> OrtRelease | None:
    return frameworks.onnxruntime_of(matrix, version(facts, "onnxruntime") or installed(facts, *ORT) or "0")


def _tensorflow(facts: Facts, matrix: Matrix) -> TensorflowRelease | None:
    held = version(facts, "tensorflow") or installed(facts, "tensorflow", "tensorflow-gpu")
    return frameworks.tensorflow_of(matrix, held or "0")


def _compiler(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    toolkit, gcc = used(facts), numbers(version(facts, "gcc"))
    row = toolkits.compilers_of(matrix, toolkit.version) if toolkit and gcc else None
    if row and row.gcc_max and gcc[0] > row.gcc_max:
        yield "host-compiler-too-new", because(facts, "gcc", "version")


def _targets(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    toolkit = used(facts)
    for message in said(facts, "arch-asked") if toolkit else ():
        arch = CodeArch.parse(f"sm_{message.values.get('digits', '').replace('.', '')}")
        known = matrix.arch(arch.capability) if arch else None
        if toolkit and known and known.last_toolkit and toolkit.cuda > known.last_toolkit:
            yield "arch-dropped-by-toolkit", because_said(message)
        if toolkit and known and known.first_toolkit and toolkit.cuda < known.first_toolkit:
            yield "toolkit-too-old-for-arch", because_said(message)


def _compiles(facts: Facts) -> bool:
    return any(COMPILED.search(one.line) for one in said(facts, *INSTALLS))


def _nvcc(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    mine, toolkit = torch(facts), used(facts)
    if _compiles(facts) and mine and mine.cuda and toolkit and toolkit.sure and toolkit.cuda.major != mine.cuda.major:
        yield "nvcc-torch-mismatch", toolkit.because


def _tags(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    mine = torch(facts)
    own = TAG.search(installed(facts, "torch") or "")
    tag = own[0] if own else f"+cu{mine.cuda.major}{mine.cuda.minor}" if mine and mine.cuda else ""
    for name in ("torchvision", "torchaudio"):
        other = TAG.search(installed(facts, name) or "")
        if tag and other and other[0] != tag:
            yield from (("torch-torchvision-mismatch", one) for one in because_package(facts, name))


def _wheels(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    here, toolkit = version(facts, "pytorch"), used(facts)
    for name, held in distributions(facts).items():
        wanted, cuda = FOR_TORCH.search(str(held)), FOR_CUDA.fullmatch(name)
        torch_ = wanted and (wanted["torch"] or f"{wanted['major']}.{wanted['minor']}")
        if torch_ and here and is_version(here) and minor(here) != torch_:
            yield from (("extension-abi-mismatch", one) for one in because_package(facts, name))
        own, mine = CUDA_OF.search(str(held)), torch(facts)
        if own and mine and mine.cuda and mine.cuda.major != int(own[1]):
            yield from (("cuda-major-mismatch-wheel", one) for one in because_package(facts, name))
        abi = ABI.search(str(held))
        series = numbers(here)[:2]
        if abi and series and series != EITHER and (abi[1] == "TRUE") is (series < EITHER):
            yield from (("extension-abi-mismatch", one) for one in because_package(facts, name))
        if cuda and toolkit and toolkit.cuda.major != int(cuda["major"]):
            yield from (("cuda-major-mixed", one) for one in because_package(facts, name))


def _modules(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    arch, module = architecture(facts, matrix), told(facts, "nvidia.ko")
    flavour = matrix.flavour(arch) if arch else None
    kinds = {text(module, "flavour"), text(module, "flavour_on_disk")}
    kinds |= {"proprietary"} if heard(facts, "closed-module-named") else set()
    if flavour and flavour.open == "impossible" and (is_open(facts) or "open" in kinds):
        yield "open-module-unsupported-gpu", because(facts, "nvidia.ko", "flavour_on_disk")
    if flavour and flavour.closed == "impossible" and "proprietary" in kinds:
        yield "closed-module-unsupported-gpu", because(facts, "nvidia.ko", "flavour_on_disk")


def _branches(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    arch, branch = architecture(facts, matrix), branch_of(release(facts))
    span = matrix.span(arch) if arch else None
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


def _binaries(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    mine, held = torch(facts), installed(facts, "bitsandbytes")
    row = training.bitsandbytes_of(matrix, held) if held else None
    if row and row.cudas and mine and mine.cuda and not row.serves(mine.cuda):
        yield from (("bnb-binary-missing-for-cuda", one) for one in because_torch(facts))


def _foreign(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    lacks = (one for one in said(facts, *LACKS) if one.kind == REFUSED or soname_library(one.values.get("soname", "")))
    if amd.foreign(facts):
        yield from (("cpu-only-build", because_said(one)) for one in lacks)


def _cudnn(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    made = _tensorflow(facts, matrix)
    for name, held in distributions(facts).items() if made else ():
        if made and name.startswith("nvidia-cudnn-cu") and numbers(str(held))[:2] < numbers(made.cudnn)[:2]:
            yield from (("cudnn-too-old", one) for one in because_package(facts, name))


def _majors(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that something is wrong, and a framework is for another major version of CUDA than the toolkit has."""
    toolkit, runtime, tensorflow = used(facts), _runtime(facts, matrix), _tensorflow(facts, matrix)
    wanted = runtime.cuda if runtime else tensorflow.cuda.major if tensorflow else None
    if toolkit and wanted not in {None, toolkit.cuda.major} and heard(facts, AILING):
        yield "cuda-major-mixed", toolkit.because


def _beyond_driver(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield what needs a newer driver: an image, which a GeForce's driver has to reach in full, and TensorFlow."""
    highest, tensorflow = cuda_of_driver(facts, matrix), _tensorflow(facts, matrix)
    for message in said(facts, "toolkit-named") if highest else ():
        image = CudaVersion.parse(message.values.get("image"))
        if image and highest and image > highest and heard(facts, "docker-run", "container-told"):
            yield "container-requires-newer-driver", because_said(message)
    if tensorflow and driver_fit(tensorflow.cuda, facts, matrix).kept is Kept.BROKEN:
        yield "driver-too-old-for-cuda-build", because(facts, "tensorflow", "version")


def _other_maker(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that a framework is for CUDA, as those of the package index are, where only AMD or Intel has a GPU."""
    for name in ("pytorch", "tensorflow") if amd.foreign(facts) else ():
        for copy in copies(facts, name):
            if copy.version and text(copy.facts, "accelerator") in {"cuda", None} and "rocm" not in copy.version:
                yield "cpu-only-build", because_of(facts, name, copy, "version")


def _generations(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that a build has no code for the GPU: by its targets, or as its CUDA is older than the GPU."""
    name, vllm = architecture(facts, matrix), version(facts, "vllm")
    generation = (name or "").partition(" ")[0]
    family = ((cc, one) for cc, one in matrix.architectures.items() if not one.embedded)
    known = [(cc, one) for cc, one in family if one.name.partition(" ")[0] == generation]
    here = [(cc, one) for cc, one in known if cc in capabilities(facts)] or known
    first = min((one.first_toolkit for _, one in here if one.first_toolkit), default=None)

    def older(cuda: CudaVersion | None) -> bool:
        return bool(first and cuda and cuda < first)

    for build in builds(facts) if here else ():
        sees = any(arch.runs_on(cc) for arch in build.archs for cc, _ in here)
        if build.component == "pytorch" and (not sees if build.archs else older(build.cuda)):
            yield "arch-not-in-build", because_of(facts, "pytorch", build.copy, "version")
    floor = serving.vllm_floor(matrix, vllm) if vllm else None
    if floor and here and all(cc < floor.capability for cc, _ in here):
        yield "arch-not-in-build", because(facts, "vllm", "version")
    ailing = heard(facts, AILING)
    for one in (*(said(facts, "cuda-build-said") if ailing else ()), *said(facts, "gpu-listed")):
        if older(CudaVersion.parse(next(filter(None, map(one.values.get, ("of", "cuda", "runtime"))), None))):
            yield "arch-not-in-build", because_said(one)
    toolkit = used(facts) if ailing and not any(one.cuda for one in builds(facts)) else None
    if toolkit and older(toolkit.cuda):
        yield "toolkit-too-old-for-arch" if _compiles(facts) else "arch-not-in-build", toolkit.because


def _programs(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that something is wrong, and a program that the text names has no code for any of the GPUs."""
    named = [one for one in serving.programs(matrix) if not set(one.words).isdisjoint(facts.words)]
    mine, targets = capabilities(facts), {text(copy.facts, "gfx") for copy in copies(facts, "amd-gpu")} - {None}
    for row in named if heard(facts, AILING) else ():
        if row.unserved and row.capability and mine and all(cc < row.capability for cc in mine):
            yield row.unserved, because(facts, "gpu", "name")
        if row.gfx and targets and not mine and targets.isdisjoint(row.gfx):
            yield "rocm-gfx-unsupported", because(facts, "amd-gpu", "gfx")


def _visible(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that a list of visible GPUs begins with one that is not there."""
    many = len(gpus(facts))
    for one in said(facts, "visible-devices") if many else ():
        first = one.values.get("devices", "").partition(",")[0].strip()
        listed = facts.find("gpu")
        if first.isdecimal() and int(first) >= many and listed and not listed.source.endswith(IN_WORDS):
            yield "cuda-visible-devices-invalid", because_said(one)


def _fewer(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that the driver lists fewer GPUs than are on the bus."""
    listed, there = facts.find("gpu"), on_bus(facts, "nvidia")
    held = any(text(copy.facts, "driver") == "vfio-pci" for copy in there)
    if listed and not listed.source.endswith(IN_WORDS) and 0 < len(gpus(facts)) < len(there) and not held:
        yield "gpu-missing", because_of(facts, "pci-display", there[-1], "name")


def _images(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that an image has no cuDNN, or another one, though ONNX Runtime needs it."""
    runtime = _runtime(facts, matrix)
    for one in said(facts, "image-without-cudnn") if runtime else ():
        yield "cudnn-missing", because_said(one)
    for one in said(facts, "image-cudnn"):
        if runtime and runtime.cudnn and one.values.get("major") != str(runtime.cudnn):
            yield "ort-cudnn-major-mismatch", because_said(one)


def _compat(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that compatibility libraries are used with a GPU for which they are not meant."""
    if any(CONSUMER.search(gpu.name) for gpu in gpus(facts)):
        yield from (("forward-compat-804", because_said(one)) for one in said(facts, "compat-folder"))


def _container(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that a container lost its GPU: it had it at first."""
    if heard(facts, "docker-run", "container-told"):
        yield from (("container-cgroup-lost-devices", because_said(one)) for one in said(facts, LATER))


def _made_newer(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield that a program made by a toolkit newer than the driver fails."""
    toolkit, highest = used(facts), cuda_of_driver(facts, matrix)
    if toolkit and toolkit.sure and highest and toolkit.cuda > highest and fails(facts.words):
        newer = toolkit.cuda.major > highest.major
        yield "driver-too-old-for-cuda-build" if newer else "ptx-newer-than-driver", toolkit.because


def _for_cpu(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield a build for the CPU that a text names which nobody wants: "I get 48 s/it, torch 2.3.1+cpu"."""
    build = torch(facts)
    if build and build.accelerator == "cpu" and "+cpu" in (build.copy.version or "") and not heard(facts, *MEANT):
        yield "cpu-only-build", because_of(facts, build.component, build.copy, "version")


JOINS = (
    *(_compiler, _targets, _nvcc, _tags, _wheels, _modules, _branches, _python, _binaries, _cudnn, _foreign, _for_cpu),
    *(_majors, _beyond_driver, _other_maker, _generations, _programs, _visible, _fewer, _images, _compat, _container),
    _made_newer,
)
