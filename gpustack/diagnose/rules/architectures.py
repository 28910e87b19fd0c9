"""Builds without code for the GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import change_sets, fixes, installing
from gpustack.diagnose.machine import amd
from gpustack.diagnose.machine.events import grounds, heard, said, value
from gpustack.diagnose.machine.frameworks import (
    because_torch,
    capability,
    embedded,
    gpu_name,
    gpu_words,
    named_gpus,
    torch,
    torch_version,
)
from gpustack.diagnose.machine.inventory import Build, builds, capabilities, driver_cuda, from_text, gpus, on_windows
from gpustack.diagnose.machine.toolchain import toolchain_toolkits
from gpustack.diagnose.machine.values import because, because_of, items, number, table, text, told, version
from gpustack.diagnose.requirements.fits import arch_fit, by_ptx, ptx_too_new
from gpustack.diagnose.requirements.serving import image, other_image, supports
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import frameworks, serving
from gpustack.matrix.subjects import torch as wheels
from gpustack.model import record, replace
from gpustack.model.command import ARCH, GPU, NUMBER, PYTHON, Command, either, requirement, sh
from gpustack.model.facts import Facts, Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.rows import Architecture


IGNORED = ("tf-ignores-gpu", "tf-no-binary")
NAMED = ("arch-not-compatible", "arch-too-old", "arch-needs-cuda", *IGNORED, "container-gpu-unsupported")
BARE = ("no-kernel-image", "invalid-device-function", "arch-refused", "kokkos-arch")
# Programs that are no PyTorch: how each is called, and the command that helps.
CUDA_BUILD = "cmake -B build -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES={arch} && cmake --build build --config Release"
ARCH_LIST = "export TORCH_CUDA_ARCH_LIST={arch}"
WITH_CUDA = "tensorflow[and-cuda]"
ASK = sh("nvidia-smi --query-gpu=name,compute_cap --format=csv")
OTHERS = {
    "ggml-arch": ("This build of llama.cpp (ggml-cuda)", CUDA_BUILD),
    "tei-arch": ("This image of Text Embeddings Inference", "nvidia-smi --query-gpu=name,compute_cap --format=csv"),
    "trt-sm-unsupported": ("This TensorRT", "nvidia-smi --query-gpu=name,compute_cap --format=csv"),
    "paddle-arch": ("This build of PaddlePaddle", "# its wheels: https://www.paddlepaddle.org.cn/en/install/quick"),
}
LISTS, INVALID = ("arch-supported", "ggml-arch", "paddle-arch"), "kernel-image-invalid"
OF_TENSORFLOW = (INVALID, "cublas-status")
RANGES, ASKED = ("arch-supported", "arch-range", "arch-minimum", "torch-advises"), "TORCH_CUDA_ARCH_LIST"
COMPLAINTS = (*NAMED, *BARE, *OTHERS)
OF_MONTH = "Use the image of a month that supports this GPU, as its release notes say."


@record
class Complaint:
    """One GPU without code: its name and compute capability, as far as programs or the facts tell.

    build is the one whose code was read, without all that it has no code for, others whether some have.
    """

    name: str | None
    digits: str | None
    sure: bool
    because: tuple[Because, ...] = ()
    build: Build | None = None
    without: tuple[ComputeCapability, ...] = ()
    others: bool = False


def _complaints(facts: Facts) -> bool:
    """Return whether programs complain of an NVIDIA GPU: HIP uses some of the same words.

    PyTorch prints what it has code for only where the GPU needs other code, so that list alone is a complaint as well.
    """
    if amd.alone(facts):
        return False
    named = [one.line for one in said(facts, "ggml-kernel-needs")]  # the build has code for this GPU, that kernel none
    tei = [one for one in said(facts, "tei-arch") if one.values.get("arch") == one.values.get("archs", "").strip()]
    named += [one.line for one in tei]
    others = (one.line for one in said(facts, *COMPLAINTS) if one.line not in named)
    return any("HIP" not in line and "ROCm" not in line for line in others) or _lists_others(facts)


def _lists_others(facts: Facts) -> bool:
    """Return whether PyTorch lists what it has code for, and the GPUs that are known here are not among it."""
    listed = value(facts, "arch-supported", "archs")
    found = {gpu.sm for gpu in capabilities(facts)}
    return bool(listed and found) and not found & set(re.findall(r"sm_\d+", listed or ""))


def _has_code(facts: Facts, matrix: Matrix, cc: ComputeCapability | None) -> bool:
    """Return whether PyTorch itself, or the image, has code for a GPU, so that something compiled beside it has not."""
    build = torch(facts)
    if cc and supports(facts, matrix, cc):
        return True
    named = heard(facts, *NAMED, "arch-minimum", "arch-supported")
    return bool(cc and build and not named and any(one.kind == "sm" and one.runs_on(cc) for one in build.archs))


def _of_older_cuda(facts: Facts, matrix: Matrix) -> bool:
    """Return whether CUDA refuses the code of a TensorFlow whose CUDA did not know the GPU that is here."""
    if not heard(facts, *OF_TENSORFLOW):
        return False
    cuda = _tensorflow_cuda(facts, matrix)
    known = [matrix.arch(gpu.capability) for gpu in named_gpus(facts) if gpu.capability]
    firsts = [one.first_toolkit for one in known if one and one.first_toolkit]
    return cuda is not None and bool(firsts) and cuda < min(firsts)


def _tensorflow_cuda(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the CUDA version that TensorFlow here was built with, where no PyTorch is mentioned."""
    made = frameworks.tensorflow_of(matrix, version(facts, "tensorflow") or "0")
    return made.cuda if made and torch(facts) is None else None


def _runs_all_the_same(facts: Facts) -> bool:
    """Return whether PyTorch only warns: it has code of the GPU's generation, or the GPU was seen to compute."""
    if heard(facts, *BARE, *OTHERS, "tf-ignores-gpu"):
        return False
    build, refused = torch(facts), ComputeCapability.parse(capability(value(facts, "arch-not-compatible", "arch")))
    if heard(facts, "ran-on-gpu"):
        return True
    if refused:
        return any(one.kind == "sm" and one.runs_on(refused) for one in (build.archs if build else ()))
    high = ComputeCapability.parse(value(facts, "arch-range", "high"))
    found = ComputeCapability.parse(value(facts, "arch-too-old", "cc"))
    return bool(high and found and found.major == high.major and found >= high)


def _words_gpu(facts: Facts) -> Complaint:
    """Return the GPU that is complained of: as a message names it, else the only kind that is mentioned."""
    for one in said(facts, *NAMED):
        digits = capability(one.values.get("cc") or one.values.get("arch"))
        name = (one.values.get("gpu") or "").rpartition("Warning: ")[2].strip()
        found = next((gpu for gpu in named_gpus(facts) if name and (name in gpu.name or gpu.name in name)), None)
        if digits or name:
            return Complaint(name=name or None, digits=digits or (str(found.capability) if found else None), sure=True)
    for one in said(facts, *OTHERS):
        values = one.values
        digits = capability(values.get("cc") or values.get("arch") or values.get("arch2") or _hex(values.get("hex")))
        if digits:
            return Complaint(name=None, digits=_short(digits), sure=True)
    if gpus := named_gpus(facts):
        return Complaint(name=gpus[0].name, digits=str(gpus[0].capability), sure=len(gpus) == 1)
    return Complaint(name=gpu_name(facts), digits=None, sure=False)


def _hex(digits: str | None) -> str | None:
    """Return 601 for 0x601, which is how TensorRT writes compute capability 6.1."""
    whole = digits and re.fullmatch("[0-9a-fA-F]{3,4}", digits)
    return f"{int(digits[:-2], 16)}.{int(digits[-2:], 16)}" if digits and whole else None


def _short(digits: str) -> str:
    """Return 6.0 for 60.0, since llama.cpp writes ten times the number."""
    major, _, rest = digits.partition(".")
    return f"{major[:-1]}.{major[-1]}" if rest == "0" and len(major) > 1 and int(major) >= 30 else digits  # noqa: PLR2004


def _what(facts: Facts, matrix: Matrix, cc: ComputeCapability | None) -> str:
    release, server, tag = torch_version(facts), version(facts, "vllm"), image(facts)
    if _of_older_cuda(facts, matrix) or heard(facts, *IGNORED, *(() if release else (INVALID,))):
        return f"TensorFlow {version(facts, 'tensorflow') or ''}".strip()
    beside = _has_code(facts, matrix, cc)
    if heard(facts, "container-gpu-unsupported") or (tag and not beside and not heard(facts, *OTHERS)):
        return f"The image {tag}" if tag else "This image"
    other = said(facts, *OTHERS)
    if other:
        return OTHERS[other[0].kind][0]
    if beside and not embedded(facts):
        return f"The vLLM wheel {server}" if server else "A compiled extension beside PyTorch"
    if release or heard(facts, *NAMED):
        return f"PyTorch {release}" if release else "This PyTorch"
    return "A compiled part of the program"


def _details(facts: Facts, matrix: Matrix, cc: ComputeCapability | None, build: Build | None) -> Iterator[str]:
    """Return what the build does have, and which CUDA knows the GPU."""
    listed = next((found for kind in LISTS if (found := value(facts, kind, "archs"))), None)
    asked = text(table(told(facts, "environment"), "variables"), ASKED) if from_text(facts) else None
    low, high = value(facts, "arch-range", "low"), value(facts, "arch-range", "high")
    least = value(facts, "arch-minimum", "low") or value(facts, "tf-ignores-gpu", "needs")
    cuda = (build.cuda if build else None) or _tensorflow_cuda(facts, matrix)
    floor = serving.vllm_floor(matrix, version(facts, "vllm") or "0")
    yield f"{ASKED} asked for {asked} when it was built." if asked else ""
    if listed:
        yield f"It has code for {listed.strip(' .,')}."
    elif build and build.archs:
        archs = (f"{one.kind}_{one.capability.sm.removeprefix('sm_')}" for one in build.archs)
        yield f"It has code for {' '.join(archs)}."
    if low and high:
        yield f"It supports compute capability {low} to {high}."
    elif least:
        yield f"The lowest compute capability that it supports is {least}."
    yield f"It was built with CUDA {cuda}." if cuda and heard(facts, *OF_TENSORFLOW) else ""
    yield from _toolkit(matrix.arch(cc) if cc else None, cuda)
    if _has_code(facts, matrix, cc):
        yield "PyTorch's own build has code for this GPU; what was compiled separately does not."
    if floor and cc and cc < floor.capability:
        yield f"The wheels of this vLLM need compute capability {floor.capability} or higher."
    yield "It is a Jetson: generic wheels are made for other GPUs." if embedded(facts) else ""


def _toolkit(known: Architecture | None, cuda: CudaVersion | None) -> Iterator[str]:
    """Return which CUDA knows a GPU, where that is what hinders."""
    if known and known.first_toolkit and (cuda is None or cuda < known.first_toolkit) and known.last_toolkit is None:
        yield f"CUDA {known.first_toolkit} is the first that can compile for it."
    elif known and known.last_toolkit and (cuda is None or cuda > known.last_toolkit):
        yield f"CUDA {known.last_toolkit} was the last that compiled for it."


def _words_fix(facts: Facts, matrix: Matrix, cc: ComputeCapability | None) -> Fix:
    build, advised, month = torch(facts), value(facts, "torch-advises", "cuda"), other_image(facts, matrix)
    if month or (image(facts) and not _has_code(facts, matrix, cc)):
        words, commands = month or (OF_MONTH, ())
        return fixes.advice(words, *commands, verify=fixes.TORCH_SEES)
    if _of_older_cuda(facts, matrix):
        pin, python = installing.clause(WITH_CUDA, facts, matrix), change_sets.place(facts, None).python
        fits = (pin or not python) and not on_windows(facts)
        newer = sh("python -m pip install {wanted}", wanted=requirement(WITH_CUDA, pin)) if fits else ASK
        return fixes.advice("Install a TensorFlow whose CUDA knows this GPU.", newer, verify=fixes.TENSORFLOW_SEES)
    if embedded(facts) and build:
        return fixes.jetson(build, facts, matrix)
    if advised:
        tag = f"cu{advised.split()[-1].replace('.', '')}"
        release = fixes.newest_with(tag, facts, matrix)
        return fixes.advice(
            f"Install the build for CUDA {advised.strip()} ({tag}), as PyTorch itself advises.",
            *((fixes.install_torch(PYTHON(None), release, tag),) if release else ()),
            verify=fixes.TORCH_SEES,
        )
    wheel = _wheel(facts, matrix, cc)
    if wheel:
        return fixes.advice(wheel[0], *wheel[1], verify=fixes.TORCH_SEES)
    other = said(facts, *OTHERS)
    command = OTHERS[other[0].kind][1] if other else ARCH_LIST
    arch = NUMBER(cc.sm.removeprefix("sm_")) if cc and other else ARCH(cc)
    return fixes.advice(
        "Install a build that has code for this GPU, or build it from source for it" + (f" ({cc.sm})." if cc else "."),
        *((sh(command, arch=arch),) if cc else (ASK,)),
        verify=ASK,
    )


def _wheel(facts: Facts, matrix: Matrix, cc: ComputeCapability | None) -> tuple[str, tuple[Command, ...]] | None:
    """Return a PyTorch of the index with code for a GPU: fit for the driver, else the newest, smallest CUDA first."""
    build = torch(facts)
    if cc is None or _has_code(facts, matrix, cc) or not (build or heard(facts, *NAMED, *BARE)):
        return None
    fitting = fixes.torch_wheel(build, facts, matrix) if build else fixes.new_torch(facts, matrix)
    if fitting and cc in capabilities(facts) and driver_cuda(facts, matrix):
        return fitting
    current = (torch_version(facts) or "").partition("+")[0], build.copy.build if build else None
    found = [one for one in wheels.builds_for_arch(matrix, cc) if one.cuda and (one.version, one.tag) != current]
    same = [one for one in found if one.version == current[0]]
    if not found:
        return None
    last = (same or found)[-1].version
    one = next(one for one in found if one.version == last)
    words = f"Install PyTorch {one.version}, build {one.tag} (CUDA {one.cuda}) or newer, which has code for {cc.sm}."
    return words, (fixes.install_torch(PYTHON(None), one.version, one.tag),)


@rule("arch-not-in-build", Layer.FRAMEWORK, "pytorch", in_one_python=True)
def arch_not_in_build(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A build has no code for this GPU.

    Machine code runs only on its own architecture generation, and a build includes code for some of them: a GPU that is
    newer than the build, or one that the build has dropped, gets "no kernel image is available" (error 209) or "not
    compatible with the current PyTorch installation". Install a build that lists the GPU's architecture.
    """
    complained = (_complaints(facts) or _of_older_cuda(facts, matrix)) and not _runs_all_the_same(facts)
    seen = [] if complained and not facts.taken else list(_seen(facts, matrix))  # a look says more than complaints
    for one in seen or ([_spoken(facts)] if complained else []):
        cc, build = ComputeCapability.parse(one.digits), one.build
        known = matrix.arch(cc) if cc else None
        what = build.name if build else _what(facts, matrix, cc)
        framework = build.component if build else "pytorch" if what.startswith("PyTorch") else "cuda-runtime"
        yield arch_not_in_build.finding(
            instance=build.mark if build else "pytorch" if torch(facts) else None,
            severity=Severity.WARNING if one.others else Severity.ERROR,
            component=framework,
            title=f"{what} has no code for {gpu_words(one.name, one.digits)}",
            detail=" ".join(filter(None, _details(facts, matrix, cc, build or torch(facts)))),
            because=one.because,
            row=known.row if known else None,
            confidence=Confidence.CERTAIN if one.sure else Confidence.LIKELY,
            fix=_build_fix(build, one.without, facts, matrix) if build else _words_fix(facts, matrix, cc),
        )


def _spoken(facts: Facts) -> Complaint:
    """Return the GPU that programs complain of, with what they say and what else is known."""
    gpu, first = _words_gpu(facts), named_gpus(facts)[:1]
    grounds_ = (
        *grounds(facts, *COMPLAINTS, *OF_TENSORFLOW, *RANGES, most=6),
        *because_torch(facts),
        *(because(facts, "gpu", name) for _ in first for name in ("name", "cc")),
        *(one.because for one in toolchain_toolkits(facts)[:1] if torch(facts) is None),
    )
    return replace(gpu, because=grounds_)


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Complaint]:
    """Yield each build whose code was read and that has none for a GPU that is here."""
    here = capabilities(facts)
    for build in builds(facts):
        guessed = text(build.copy.facts, "build_from") is not None
        if from_text(facts) and (heard(facts, "ran-on-gpu") or build.accelerator != "cuda" or guessed):
            yield from () if heard(facts, "ran-on-gpu") else _in_no_build(build, facts, matrix)
            continue  # it was seen at work, or nobody knows which build it is
        without = [gpu for gpu in here if not any(arch.runs_on(gpu) for arch in build.archs)]
        if not build.archs or not without or any(by_ptx(build, gpu) for gpu in without):
            continue
        gpu = next((gpu for gpu in gpus(facts) if gpu.capability == without[0]), None)
        yield Complaint(
            name=gpu.name if gpu else None,
            digits=str(without[0]),
            sure=True,
            because=(
                because_of(facts, build.component, build.copy, "version"),
                because_of(facts, build.component, build.copy, "archs"),
                *([because_of(facts, "gpu", gpu.copy, name) for name in ("name", "cc")] if gpu else ()),
                *(() if gpu else (because(facts, "libcuda", "devices"),)),
            ),
            build=build,
            without=tuple(without),
            others=len(without) < len(here),
        )


def _in_no_build(build: Build, facts: Facts, matrix: Matrix) -> Iterator[Complaint]:
    """Yield a PyTorch of which a text says the release alone, where none of its CUDA builds has code for the GPU."""
    release = build.copy.version or ""
    offered = [one for one in wheels.builds_of(matrix, release) if one.cuda]
    here = [(gpu, gpu.capability) for gpu in gpus(facts) if gpu.capability]
    known = bool(offered) and all(one.archs for one in offered) and build.accelerator in {None, "cuda"}
    archs = [arch for one in offered for arch in one.archs]
    if (
        build.component != "pytorch"
        or not known
        or not here
        or any(arch.runs_on(cc) for _, cc in here for arch in archs)
    ):
        return
    gpu, cc = here[0]
    grounds_ = (because_of(facts, "pytorch", build.copy, "version"), because_of(facts, "gpu", gpu.copy, "name"))
    yield Complaint(name=gpu.name, digits=str(cc), sure=False, because=grounds_)


def _build_fix(build: Build, without: Sequence[ComputeCapability], facts: Facts, matrix: Matrix) -> Fix:
    """Return how to get code for the GPUs; where there is code for some, how to use those alone."""
    wheel = other_image(facts, matrix) or fixes.torch_wheel(build, facts, matrix)
    text_ = wheel[0] if wheel else "No official PyTorch build that we know has code for it: build it from source."
    commands = wheel[1] if wheel else (sh(ARCH_LIST, arch=ARCH(without[0])),)
    devices = items(told(facts, "libcuda"), "devices")
    usable = (one for one in devices if ComputeCapability.parse(text(one, "cc")) not in {None, *without})
    fit = [str(number(one, "ordinal")) for one in usable]
    if fit and len(fit) < len(devices):
        text_ = f"Show programs only the GPUs that it has code for. Or, for all of them: {text_}"
        commands = either(sh("export CUDA_VISIBLE_DEVICES={gpus}", gpus=GPU(",".join(fit))), *commands)
    return fixes.advice(text_, *commands, verify=fixes.verify(build))


@rule("arch-by-ptx-only", Layer.FRAMEWORK, "pytorch", Severity.WARNING, explained_by=("arch-not-in-build",))
def arch_by_ptx_only(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A build supports this GPU only through PTX, which the driver must compile at the first start.

    It works, but the first start takes minutes while the driver compiles every kernel, and the result is slower than
    code made for the GPU. The driver keeps what it compiled (in ~/.nv/ComputeCache) until build or driver changes.
    Install a build with machine code for this GPU if there is one.
    """
    for build in builds(facts):
        gpus = [gpu for gpu in capabilities(facts) if by_ptx(build, gpu)]
        if not gpus or ptx_too_new(build, facts, matrix):
            continue
        wheel = fixes.torch_wheel(build, facts, matrix)
        yield arch_by_ptx_only.finding(
            instance=build.mark,
            component=build.component,
            title=f"{build.name} supports {gpus[0].sm} only through PTX: its first start is slow",
            because=(because_of(facts, build.component, build.copy, "archs"),),
            row=arch_fit(build, gpus[0], facts, matrix).row,
            fix=fixes.advice(
                wheel[0]
                if wheel
                else "Give the driver room to cache what it compiles, and allow time for the first start.",
                *(wheel[1] if wheel else (sh("export CUDA_CACHE_MAXSIZE=4294967296"),)),
                verify=fixes.verify(build),
            ),
        )
