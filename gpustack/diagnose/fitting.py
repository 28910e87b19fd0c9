"""What a text tells in several places and does not fit together by the matrix, and causes that do not fit a machine.

What does not fit together is a likely cause, never a finding: nobody says that it meets ("nvcc 13.0 for compute_61").
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import because_said, heard, said
from gpustack.diagnose.machine.frameworks import because_package, because_torch, distributions, installed, torch
from gpustack.diagnose.machine.inventory import driver_works
from gpustack.diagnose.machine.naming import architecture, branch_of, is_open, release
from gpustack.diagnose.machine.packages import pythons_of
from gpustack.diagnose.machine.toolchain import used
from gpustack.diagnose.machine.values import because, copies, text, told, version
from gpustack.diagnose.rules.toolkit import COMPILED
from gpustack.matrix.subjects import frameworks, toolkits, training
from gpustack.matrix.subjects.ranges import is_version, minor, numbers
from gpustack.model.facts import Status
from gpustack.model.versions import CodeArch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because

TOLD = {"gcc": "version", "python": "version", "nvidia-driver": "version", "nvidia.ko": "flavour_on_disk"}
# In the name of a wheel: flash_attn-2.7.4+cu12torch2.5cxx11abiFALSE.
FOR_TORCH = re.compile(r"torch(?P<torch>[12]\.\d{1,2})(?!\d)")
FOR_CUDA = re.compile(r"cupy-cuda(?P<major>\d\d)x")
TAG = re.compile(r"\+(?P<kind>cpu|cu|rocm|xpu)")
INSTALLS = ("package-install-said", "package-build-said", "setup-failed")
ARCH = "arch-asked"  # a target that someone compiles for
# What a cause needs of the machine, by how its id begins: no other can have it.
VENDORS = {"rocm-": "amd", "gpu-unsupported-by-kfd": "amd", "amdgpu-": "amd", "intel-": "intel", "oneapi-": "intel"} | {
    "user-not-in-render": "amd intel",
    "nvidia-": "nvidia",
}
# Without a known GPU, a word of the maker's own stack has to be there; and of the program or the thing at fault.
OWN_WORDS = {
    "amd": re.compile(
        r"amd|radeon|roc[mk]|\bhip|gfx|\bkfd\b|\bhsa|miopen|\brx ?\d{3,4}|\bmi\d{2,3}|vega|navi|ryzen|/dri|drm dev"
        r"|render|group"
    ),
    "nvidia": re.compile(""),
    "intel": re.compile(r"intel|level.?zero|\bze_|xpu|native.api|\bur_|one(?:api|dnn|ccl)|sycl|mkl|\barc\b|openvino"),
}
OF_PROGRAMS = {
    "wsl-": re.compile(r"wsl|windows|microsoft|/mnt/c"),
    "tf-": re.compile(r"tensorflow|\btf|keras|dso_loader|dlopen|stream_executor|dynamic library"),
    "mig-": re.compile(r"\bmig|\b[abh][1-3]00|\ba30|uuid|instance"),
    "bnb-": re.compile(r"bitsandbytes|bnb|[48].?bit|cuda.setup|qlora"),
    "jax-": re.compile(r"jax|pjrt|xla"),
    "multiple-cupy": re.compile("cupy"),
    "vulkan-": re.compile(r"vulkan|\bvk|icd"),
    "ort-": re.compile(r"onnx|\bort|executionprovider|cudnn"),
}
NOT_ON_WINDOWS, FIRST_WITHOUT = "tf-no-native-windows-gpu", (2, 11)  # the first TensorFlow without
KEY_REJECTED = "secure-boot-key-rejected"
NO_DRIVER, SMI_WORKS = "nvidia-driver-missing", ("wsl-smi-works", "host-smi-works")
ELSEWHERE = ("wsl-", NOT_ON_WINDOWS)  # causes of Windows
OF_LINUX = (
    *("dkms-", "amdgpu-", "nouveau-", "nova-", "secure-boot-", "nvidia-uvm-", "uvm-", "docker-snap", "user-not-in-"),
    *("libcuda-so-", "container-cgroup-", "nvidia-module-", "module-built-", "forward-compat-", "compat-libs-"),
    *("open-module-", "closed-module-", "fabric-manager-", "glibc-", "libstdcxx-"),
)
GPUS: Mapping[str, str] = {"gpu": "nvidia", "amd-gpu": "amd", "intel-gpu": "intel"}


def joined(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    """Yield each likely cause with what speaks for it."""
    if not facts.taken:
        for join in (_compiler, _targets, _nvcc, _tags, _wheels, _modules, _branches, _python, _binaries, _cudnn):
            yield from join(facts, matrix)


def _known(facts: Facts, component: str) -> Because:
    return because(facts, component, TOLD[component])


def _compiler(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    toolkit, gcc = used(facts), numbers(version(facts, "gcc"))
    row = toolkits.compilers_of(matrix, toolkit.version) if toolkit and gcc else None
    if row and row.gcc_max and gcc[0] > row.gcc_max:
        yield "host-compiler-too-new", _known(facts, "gcc")


def _targets(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    toolkit = used(facts)
    for message in said(facts, ARCH) if toolkit else ():
        arch = CodeArch.parse(f"sm_{message.values.get('digits', '').replace('.', '')}")
        known = matrix.arch(arch.capability) if arch else None
        if toolkit and known and known.last_toolkit and toolkit.cuda > known.last_toolkit:
            yield "arch-dropped-by-toolkit", because_said(message)
        if toolkit and known and known.first_toolkit and toolkit.cuda < known.first_toolkit:
            yield "toolkit-too-old-for-arch", because_said(message)


def _nvcc(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    mine, toolkit = torch(facts), used(facts)
    builds = heard(facts, *INSTALLS) and any(
        COMPILED.search(" ".join(one.values.values())) for one in said(facts, *INSTALLS)
    )
    if builds and mine and mine.cuda and toolkit and toolkit.sure and toolkit.cuda.major != mine.cuda.major:
        yield "nvcc-torch-mismatch", toolkit.because


def _tags(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    own = TAG.search(installed(facts, "torch") or "")
    for name in ("torchvision", "torchaudio"):
        other = TAG.search(installed(facts, name) or "")
        if own and other and own["kind"] != other["kind"]:
            yield from (("torch-torchvision-mismatch", one) for one in because_package(facts, name))


def _wheels(facts: Facts, _matrix: Matrix) -> Iterator[tuple[str, Because]]:
    here, toolkit = version(facts, "pytorch"), used(facts)
    for name, held in distributions(facts).items():
        wanted, cuda = FOR_TORCH.search(str(held)), FOR_CUDA.fullmatch(name)
        if wanted and here and is_version(here) and minor(here) != wanted["torch"]:
            yield from (("extension-abi-mismatch", one) for one in because_package(facts, name))
        if cuda and toolkit and toolkit.cuda.major != int(cuda["major"]):
            yield from (("cuda-major-mixed", one) for one in because_package(facts, name))


def _modules(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    arch, module = architecture(facts, matrix), told(facts, "nvidia.ko")
    flavour = matrix.flavour(arch) if arch else None
    kinds = {text(module, "flavour"), text(module, "flavour_on_disk")}
    if flavour and flavour.open == "impossible" and (is_open(facts) or "open" in kinds):
        yield "open-module-unsupported-gpu", _known(facts, "nvidia.ko")
    if flavour and flavour.closed == "impossible" and "proprietary" in kinds:
        yield "closed-module-unsupported-gpu", _known(facts, "nvidia.ko")


def _branches(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    arch, branch = architecture(facts, matrix), branch_of(release(facts))
    span = matrix.span(arch) if arch else None
    if span and branch and span.first and branch < span.first:
        yield "driver-too-old-for-gpu", _known(facts, "nvidia-driver")
    if span and branch and span.last and branch > span.last:
        yield "legacy-gpu-needs-older-branch", _known(facts, "nvidia-driver")


def _python(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    here = version(facts, "python")
    for name, held in distributions(facts).items() if here and is_version(here) else ():
        pythons = pythons_of(matrix, name, str(held).partition("+")[0])
        if here and pythons and minor(here) not in pythons:
            yield "python-version-no-wheel", _known(facts, "python")


def _binaries(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    mine, held = torch(facts), installed(facts, "bitsandbytes")
    row = training.bitsandbytes_of(matrix, held) if held else None
    if row and row.cudas and mine and mine.cuda and not row.serves(mine.cuda):
        yield from (("bnb-binary-missing-for-cuda", one) for one in because_torch(facts))


def _cudnn(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Because]]:
    made = frameworks.tensorflow_of(matrix, version(facts, "tensorflow") or "0")
    for name, held in distributions(facts).items() if made else ():
        if made and name.startswith("nvidia-cudnn-cu") and numbers(str(held))[:2] < numbers(made.cudnn)[:2]:
            yield from (("cudnn-too-old", one) for one in because_package(facts, name))


def possible(cause: str, facts: Facts) -> bool:
    """Return whether a machine like this can have it: its system, and whose GPUs it has, where these are known."""
    host = f"{facts.host.os or ''}".lower()
    windows = "windows" in host and not facts.host.wsl
    linux = bool(facts.host.kernel or host) and "windows" not in host and not host.startswith("macos")
    early = () < numbers(version(facts, "tensorflow"))[:2] < FIRST_WITHOUT
    contained = heard(facts, "docker-run")  # in containers of Linux
    never = cause == NOT_ON_WINDOWS and (early or contained)
    unnamed = any(cause.startswith(start) and not _named(words, facts) for start, words in OF_PROGRAMS.items())
    elsewhere = cause.startswith(OF_LINUX) if windows else linux and not facts.host.wsl and cause.startswith(ELSEWHERE)
    elsewhere = elsewhere or (facts.host.wsl and cause.startswith("amdgpu-"))  # whose kernel has none
    ways = next((vendor for start, vendor in VENDORS.items() if cause.startswith(start)), "").split()
    makers = {GPUS[one.id] for one in facts.components if one.id in GPUS and one.status is Status.PRESENT}
    named = not makers.isdisjoint(ways) if makers else any(_named(OWN_WORDS[one], facts) for one in ways)
    driven = cause == NO_DRIVER and (driver_works(facts) or heard(facts, *SMI_WORKS))
    unlocked = any(copy.facts.get("secure_boot") is False for copy in copies(facts, "linux-kernel"))
    accepted = cause == KEY_REJECTED and unlocked and not heard(facts, "secure-boot-blamed-said")  # which it was until
    return not (never or unnamed or elsewhere or driven or accepted) and (named or not ways)


def _named(words: re.Pattern[str], facts: Facts) -> bool:
    """Return whether one of these is named: in the words, a message, or a component; so where nothing is."""
    lines = [f"{one.kind} {one.line.lower()}" for one in facts.messages]
    told = (*facts.words, *lines, *(one.id for one in facts.components))
    return not told or any(map(words.search, told))
