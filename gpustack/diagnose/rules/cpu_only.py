"""Builds without GPU code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.amd import cards as amd_cards
from gpustack.diagnose.machine.completing import BY_PLATFORM
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, said, value
from gpustack.diagnose.machine.frameworks import (
    because_package,
    because_torch,
    embedded,
    gpu_unused,
    gpu_used,
    installed,
    torch,
    torch_version,
)
from gpustack.diagnose.machine.intel import discrete
from gpustack.diagnose.machine.inventory import Build, builds, from_text, gpus, nvidia_here, on_bus, on_windows, starts
from gpustack.diagnose.machine.packages import on_cpu
from gpustack.diagnose.machine.toolchain import called
from gpustack.diagnose.machine.values import because, because_of, copies, flag, table, text, told, version
from gpustack.diagnose.rule import rule
from gpustack.diagnose.wheels import INSTALLED, NIX, PADDLE, paddle, wheel_for_driver, with_gpu_code
from gpustack.model.facts import Facts, Layer, Message, Strength, product
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpustack.matrix import Matrix


TF_GPU = ("tensorflow-gpu", "tensorflow-rocm", "tensorflow-directml", "tensorflow-directml-plugin")
ORT_GPU = ("onnxruntime-gpu", "ort-nightly-gpu", "onnxruntime-rocm", "onnxruntime-directml")
# What else than a build for the CPU leaves JAX without a GPU.
JAX_ELSE = (
    *("jax-plugin-version", "jax-pjrt-version", "jax-plugin-interface", "jaxlib-version", "jaxlib-too-old"),
    *("no-device", "init-error", "cuda-fails-said", "insufficient-driver", "cuda-unknown-error", "visible-devices"),
)
# What a program says of a framework that is a build without GPU code.
SAID = {
    "jax": ("jax-cpu-only", "jax-falls-back", "jax-cpu-listed"),
    "tensorflow": ("tf-built-with-cuda",),
    "onnxruntime": ("ort-provider-unavailable", "ort-cuda-absent-said", "ort-installed"),
    PADDLE: ("gpu-unused-said",),
}


def _listed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return each framework of which messages and the list of packages together say that it has no GPU code."""
    if _jax(facts):
        yield _plain(facts, "jax", "JAX", with_gpu_code("jax", facts, matrix))
    if installed(facts, "tensorflow-cpu") and not installed(facts, "tensorflow", *TF_GPU) and nvidia_here(facts):
        yield _plain(facts, "tensorflow", "TensorFlow", with_gpu_code("tensorflow", facts, matrix))
    if _onnxruntime(facts):
        yield _plain(facts, "onnxruntime", "ONNX Runtime", with_gpu_code("onnxruntime", facts, matrix))
    if installed(facts, PADDLE) and not installed(facts, f"{PADDLE}-gpu") and nvidia_here(facts):
        yield from (
            _plain(facts, PADDLE, "PaddlePaddle", paddle(facts, matrix)) for _ in said(facts, *SAID[PADDLE])[:1]
        )
    missed = nvidia_here(facts) or heard(facts, "gpu-unused-said", "gpu-complaint")
    for one in said(facts, "not-built-for-gpu", *(("llama-no-blas",) if missed else ()))[:1]:
        program = called(one.values.get("program", ""))
        yield _plain(facts, program.name.lower(), program.name, program.fix(), one.kind)


def _jax(facts: Facts) -> bool:
    """Return whether JAX lists the processor alone, and neither a plugin of it nor what else fails is mentioned."""
    alone = heard(facts, "jax-cpu-listed") and not heard(facts, *JAX_ELSE)
    plain = heard(facts, "jax-falls-back") and not heard(facts, *JAX_ELSE)
    known = alone or plain or version(facts, "jax") is not None or installed(facts, "jaxlib") is not None
    fell = (heard(facts, "jax-falls-back") or alone) and (nvidia_here(facts) or heard(facts, "tf-gpu-listed")) and known
    asked = any(build.component == "jax" and build.cuda for build in builds(facts))  # jax[cuda13]
    return fell and not table(told(facts, "jax"), "plugins") and not asked


def _onnxruntime(facts: Facts) -> bool:
    """Return whether the package for the processor is there alone, and CUDA's provider is missing or wanted."""
    missing = any("CUDA" in one.values.get("provider", "") for one in said(facts, "ort-provider-unavailable"))
    taken = {one.values["package"] for one in holding(facts, "ort-installed", "package")}
    plain = taken == {"onnxruntime"} or (not taken and bool(installed(facts, "onnxruntime")))
    said_ = heard(facts, "ort-cuda-absent-said")
    lacking = (plain and said_) or (bool(plain or said_) and bool(gpus(facts)) and _offers_no_gpu(facts))
    other = installed(facts, *ORT_GPU) or told(facts, "onnxruntime").get("accelerator") == "cuda"
    return (missing or lacking) and not other


def _offers_no_gpu(facts: Facts) -> bool:
    """Return whether ONNX Runtime lists its providers without CUDA's, and someone wants that one."""
    listed = holding(facts, "ort-providers", "providers")
    wanted = heard(facts, "ort-cuda-absent-said") or any(
        "CUDA" in one.line.replace(one.values["providers"], "") for one in listed
    )
    return bool(wanted) and not any(re.search("CUDA|Tensorrt|Dml", one.values["providers"]) for one in listed)


def _plain(facts: Facts, component: str, name: str, fix: Fix, *kinds: str) -> Finding:
    kinds = SAID.get(component, kinds)
    release = version(facts, component) or installed(facts, component, f"{component}-cpu") or ""
    return _without(
        f"{name} {release}".strip(),
        (*grounds(facts, *kinds), *because_package(facts, component)),
        fix,
        component=component,
        severity=Severity.ERROR if heard(facts, *kinds) else Severity.WARNING,
        confidence=Confidence.LIKELY if gpu_used(facts) else Confidence.CERTAIN,
    )


def _without(
    name: str,
    because: Iterable[Because],
    fix: Fix,
    *,
    component: str = "pytorch",
    mark: str | None = None,
    kind: str = "CPU-only",
    gpu: str = "the GPU",
    detail: str = "",
    severity: Severity = Severity.ERROR,
    confidence: Confidence = Confidence.CERTAIN,
) -> Finding:
    """Return that a framework is a build of this kind, which has no code for a GPU that is here."""
    built = f"built for {MAKERS[kind]} GPUs ({kind})" if kind in MAKERS else f"a {kind} build"
    return cpu_only_build.finding(
        instance=mark or component,
        severity=severity,
        component=component,
        title=f"{name} is {built}: it does not use {gpu}",
        detail=detail,
        because=tuple(because),
        confidence=confidence,
        fix=fix,
    )


KNOWN_MAKERS = {"intel": "Intel", "amd": "AMD"}
MAKERS = {"CUDA": "NVIDIA", "ROCm": "AMD", "XPU": "Intel"}
WORDS_KINDS = {"XPU": "xpu", "HIP": "rocm", "ROCm": "rocm"}


def _torch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the PyTorch of which only the index that it came from, or another kind of GPU that it lacks, is known."""
    complaints = said(facts, "torch-not-compiled-cuda", "torch-cpu-only")
    complaints = complaints or _named_so(facts) or _usual_on_windows(facts)
    what = next((one.values["what"] for one in complaints if one.values.get("what")), "CUDA")
    build = torch(facts)
    amd = build is not None and build.accelerator == "rocm"
    excused = (facts.host.os or "").startswith("macOS") or (what != "XPU" and (amd or _for_intel(facts)))
    if complaints and not excused:
        yield _without(
            f"PyTorch {torch_version(facts) or ''}".strip(),
            (*map(because_said, complaints[:3]), *because_torch(facts)),
            _torch_fix(facts, matrix, what),
            detail=f"PyTorch itself reports that it was not compiled with {what}; GPU and driver are not at fault.",
        )


def _named_so(facts: Facts) -> tuple[Message, ...]:
    """Return the sentences that call this PyTorch a CPU build, if the GPU is unused or known."""
    build = torch(facts)
    other = build is not None and (build.cuda is not None or build.accelerator not in {"cpu", None})
    return said(facts, "cpu-build-said") if not other and (gpu_unused(facts) or gpus(facts)) else ()


def _usual_on_windows(facts: Facts) -> tuple[Message, ...]:
    """Return the command that took PyTorch from the usual index on Windows, whose builds are CPU-only there.

    Of a PyTorch whose version or CUDA is known, the facts say more.
    """
    build = torch(facts)
    known = build is not None and bool(build.copy.version or build.cuda)
    here = on_windows(facts) and not facts.host.wsl and gpu_unused(facts) and nvidia_here(facts)
    return said(facts, "pip-torch-plain") if here and not known else ()


def _for_intel(facts: Facts) -> bool:
    """Return whether PyTorch may be the build for the Intel GPU that is here: it has no CUDA either."""
    build = torch(facts)
    known = build is not None and build.accelerator == "cpu" and not text(build.copy.facts, "build_from")
    known = known and not (build and _says_so(build) and not heard(facts, "torch-cpu-only"))
    return bool(copies(facts, "intel-gpu")) and not nvidia_here(facts) and not known


def _says_so(build: Build) -> bool:
    """Return whether the framework itself complained that it has no CUDA."""
    said_of = "build" if build.component == "jax" else "accelerator"
    return build.accelerator == "cpu" and build.copy.strengths.get(said_of) is Strength.MESSAGE


def _other_maker(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return a PyTorch for CUDA, which alone looks for NVIDIA's driver, beside a GPU of another maker."""
    maker = next((one for one in ("intel", "amd") if copies(facts, f"{one}-gpu")), None)
    build = torch(facts)
    lacks = heard(facts, "no-driver-found", "torch-tag") or (build and heard(facts, "insufficient-driver"))
    if not lacks or maker is None or nvidia_here(facts) or copies(facts, "gpu"):
        return
    if build and build.accelerator not in {"cuda", None}:
        return
    release = torch_version(facts) or value(facts, "pip-torch-command", "version") or ""
    name = text(copies(facts, f"{maker}-gpu")[0].facts, "name") or f"the {KNOWN_MAKERS[maker]} GPU"
    yield _without(
        f"PyTorch {release}".strip(),
        (*grounds(facts, *OF_CUDA, most=2), *because_torch(facts)),
        fixes.any_torch(build, facts, matrix, "rocm" if maker == "amd" else "xpu"),
        kind="CUDA",
        gpu=f"the {name}",
        detail="Only a build for CUDA looks for NVIDIA's driver. On another vendor's GPU it computes on the CPU.",
        confidence=Confidence.LIKELY,
    )


def _nixpkgs(facts: Facts) -> Iterator[Finding]:
    """Return the PyTorch of nixpkgs, which is built without CUDA where nobody switched that on."""
    if heard(facts, "nix-torch") and heard(facts, "cuda-available-false"):
        yield _without(
            "PyTorch from nixpkgs",
            grounds(facts, "nix-torch", "cuda-available-false", most=3),
            NIX,
            detail="nixpkgs builds PyTorch without CUDA unless cudaSupport is set; pytorch-bin (torch-bin) is "
            "PyTorch's own wheel, which has it.",
            confidence=Confidence.LIKELY,
        )


def _torch_fix(facts: Facts, matrix: Matrix, what: str) -> Fix:
    build = torch(facts)
    if build and embedded(facts):
        return fixes.jetson(build, facts, matrix)
    wheel = fixes.torch_wheel(build, facts, matrix) if build else fixes.new_torch(facts, matrix)
    if wheel is None or what != "CUDA":
        return fixes.any_torch(build, facts, matrix, WORDS_KINDS.get(what, "cuda"))
    return fixes.advice(wheel[0], *wheel[1], verify=fixes.TORCH_SEES)


def _jetson(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return a PyTorch on a Jetson that does not see the GPU, and of which no build for CUDA is mentioned."""
    build = torch(facts)
    unused = build is not None and flag(build.copy.facts, "available") is False
    guessed = build is not None and text(build.copy.facts, "build_from") is not None
    plain = build is not None and (guessed or build.accelerator not in {"cuda", "cpu"})
    own = heard(facts, "no-kernel-image", "jetson-image")  # of NVIDIA's build
    if own or not (from_text(facts) and build and unused and plain and embedded(facts)):
        return
    yield _without(
        f"{build.name} on this Jetson (Orin and the like, aarch64)",
        (because(facts, "pytorch", "available"), because(facts, "gpu", "name")),
        fixes.jetson(build, facts, matrix),
        kind="generic",
        detail="Wheels of the package index for aarch64 are CPU-only or for server GPUs; the integrated GPU of a Jetson"
        " (tegra kernel, nvgpu) needs the build that NVIDIA makes for its JetPack.",
        confidence=Confidence.LIKELY,
    )


COMPLAINTS = ("torch-not-compiled-cuda", "torch-cpu-only", "xformers-built-for", "cuda-available-false")
FAILS, TOOLKIT = "cuda-fails-said", "cuda-toolkit"
OF_CUDA = ("no-driver-found", "torch-tag", "insufficient-driver", "pip-torch-command")
BUILD_KINDS = {"rocm": "ROCm", "xpu": "XPU", "cuda": "CUDA"}


@rule("cpu-only-build", Layer.FRAMEWORK, "pytorch", in_one_python=True, explained_by=("ort-cpu-and-gpu-installed",))
def cpu_only_build(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A framework is installed as a CPU-only build, or for another vendor's GPUs, on a machine with a GPU.

    It works, but never uses the GPU. pip takes a CPU build where the index it was sent to has no other for this
    platform (Windows, most ARM machines), or where a requirement names one; onnxruntime is the CPU build by its name,
    onnxruntime-gpu the other. "Torch not compiled with CUDA enabled" says the same. Install the build for the driver's
    CUDA; on a Jetson, NVIDIA's build for its JetPack.
    """
    if on_cpu(facts):
        return
    found = [one for one in builds(facts) if _unfit(one, facts) and not _works_all_the_same(one, facts)]
    yield from (_finding(build, facts, matrix) for build in found)
    known = {build.component for build in found}
    if "pytorch" not in known:
        for what in (_torch(facts, matrix), _jetson(facts, matrix), _other_maker(facts, matrix), _nixpkgs(facts)):
            yield from what
    yield from (one for one in _listed(facts, matrix) if one.component not in known)


def _unfit(build: Build, facts: Facts) -> bool:
    """Return whether a build is for no GPU that is here."""
    amd, intel = _of(facts, "amd"), _of(facts, "intel")
    if not nvidia_here(facts):
        if (facts.host.os or "").startswith("macOS"):
            return False  # no build for it has CUDA, and its own GPU needs none
        missed = heard(facts, *COMPLAINTS) or (heard(facts, FAILS) and bool(flag(told(facts, TOOLKIT), "in_use")))
        complained = build.component == "pytorch" and missed and not (amd or intel)
        unused = from_text(facts) and (amd or intel) and flag(build.copy.facts, "available") is False
        asked = _asked_in_vain(build) or (_says_so(build) and build.component != "pytorch")
        complained = complained or (asked and not (amd or intel)) or _other_than_asked(build)
        if build.component == "pytorch" and build.accelerator in {"cpu", "cuda"} and _cards(facts):
            return True
        wrong = {"cpu"} if intel or amd else set()
        wrong |= {"cuda"} if build.component == "pytorch" and not text(build.copy.facts, "build_from") else set()
        return (complained and build.accelerator == "cpu") or bool(unused and build.accelerator in wrong)
    others = {"rocm": amd, "xpu": intel}
    return build.accelerator == "cpu" or (build.accelerator in others and not others[build.accelerator])


def _cards(facts: Facts) -> bool:
    """Return whether there is a discrete AMD or Intel GPU that can compute; integrated ones do not count."""
    return bool(amd_cards(facts) or discrete(facts))


def _asked_in_vain(build: Build) -> bool:
    """Return whether someone asked PyTorch after its GPU and its CUDA, and it had neither."""
    held = build.copy.facts
    return flag(held, "asked") is True and flag(held, "available") is False and not text(held, "build_from")


def _other_than_asked(build: Build) -> bool:
    """Return whether someone asked the installer for a build with CUDA, and this came of it."""
    return build.accelerator == "cpu" and text(build.copy.facts, "asked_cuda") is not None


def _of(facts: Facts, maker: str) -> bool:
    return bool(on_bus(facts, maker) or copies(facts, f"{maker}-gpu"))


def _works_all_the_same(build: Build, facts: Facts) -> bool:
    """Return whether the build was only guessed from the platform, and nobody complains of it."""
    if not from_text(facts) or build.component != "pytorch":
        return False
    guessed = text(build.copy.facts, "build_from") == BY_PLATFORM
    return gpu_used(facts) or (guessed and not gpu_unused(facts))


def _finding(build: Build, facts: Facts, matrix: Matrix) -> Finding:
    beside = any(
        other.accelerator == "cuda" and other.copy.environment == build.copy.environment for other in builds(facts)
    )
    remark = (starts(facts) is False and not gpu_unused(facts) and not _cards(facts)) or (
        build.component == "onnxruntime" and beside
    )
    complained = build.component == "pytorch" and (gpu_unused(facts) or _other_than_asked(build))
    complained = from_text(facts) and (complained or _says_so(build))
    kind = BUILD_KINDS.get(build.accelerator or "", "CPU-only")
    where = f" in {build.copy.environment}" if build.copy.environment else ""
    return _without(
        f"{build.name}{where}",
        (
            *grounds(facts, *(COMPLAINTS if build.component == "pytorch" else SAID.get(build.component, ()))),
            because_of(facts, build.component, build.copy, "build"),
            because_of(facts, build.component, build.copy, "version"),
        ),
        fix_of(build, facts, matrix),
        component=build.component,
        mark=build.mark,
        kind=kind,
        gpu=_gpu_here(facts),
        detail=_why(build, facts),
        severity=Severity.INFO if remark else Severity.ERROR if complained else Severity.WARNING,
    )


def _gpu_here(facts: Facts) -> str:
    makers = () if nvidia_here(facts) else [name for maker, name in KNOWN_MAKERS.items() if _of(facts, maker)]
    return f"the {makers[0]} GPU" if makers else "the GPU"


def _why(build: Build, facts: Facts) -> str:
    if text(build.copy.facts, "build_from") == BY_PLATFORM:
        return "The package index serves builds without CUDA for this platform, and no other build is named."
    asked = text(build.copy.facts, "asked_cuda")
    if asked and build.accelerator == "cpu":
        return f"A build with CUDA {asked} was asked for, but the installer chose one without CUDA."
    if _says_so(build):
        return f"{product(build.component)} reports it itself; GPU and driver are not at fault."
    said = text(build.copy.facts, "cuda_used")
    if said and build.component == "pytorch" and from_text(facts):
        return f'Its report says "CUDA used to build PyTorch: {said}", so it was built without CUDA.'
    return ""


def fix_of(build: Build, facts: Facts, matrix: Matrix) -> Fix:
    """Return the build to install instead."""
    if embedded(facts):
        return fixes.jetson(build, facts, matrix)
    if build.component == "pytorch" and not nvidia_here(facts):
        maker = "rocm" if _of(facts, "amd") else "xpu" if _of(facts, "intel") else "cuda"
        return fixes.any_torch(build, facts, matrix, maker)
    wheel = wheel_for_driver(build, facts, matrix) if build.component != "tensorflow" else None
    if wheel is None and (from_text(facts) or build.component == "tensorflow"):
        known = build.component in INSTALLED
        return with_gpu_code(build.component, facts, matrix) if known else fixes.any_torch(build, facts, matrix)
    return fixes.advice(
        wheel[0] if wheel else "No build for the GPU that we know fits this driver: update the driver first.",
        *(wheel[1] if wheel else fixes.driver(facts, matrix)),
        root=not wheel,
        reboot=not wheel,
        verify=fixes.verify(build),
    )
