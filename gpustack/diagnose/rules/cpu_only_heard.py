"""Builds for the CPU alone by the words of programs, where the build itself was not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.cpu_only_others import others_heard
from gpustack.diagnose.rules.frameworks import because_torch, embedded, gpu_unused, torch, torch_version
from gpustack.diagnose.rules.reading import because, copies, flag, text, version
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said, value
from gpustack.diagnose.rules.seen import from_text, nvidia_here, on_windows
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message

KNOWN_MAKERS = {"intel": "Intel", "amd": "AMD"}
KINDS = {"XPU": "xpu", "HIP": "rocm", "ROCm": "rocm"}


def heard_builds(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each framework of which a program says that it is a build without GPU code."""
    yield from _torch(facts, matrix)
    yield from _jetson(facts)
    yield from _other_maker(facts, matrix)
    yield from _nixpkgs(facts)
    yield from others_heard(facts, matrix)


def _torch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    complaints = said(facts, "torch-not-compiled-cuda", "torch-cpu-only")
    complaints = complaints or (said(facts, "torch-cpu-index") if gpu_unused(facts) and nvidia_here(facts) else ())
    complaints = complaints or _usual_on_windows(facts)
    what = next((one.values.get("what") for one in complaints if one.values.get("what")), None) or "CUDA"
    build = torch(facts)
    amd = build is not None and build.accelerator == "rocm"
    excused = (facts.host.os or "").startswith("macOS") or (what != "XPU" and (amd or _for_intel(facts)))
    if not complaints or excused:
        return
    release = torch_version(facts)
    tagged = bool(build and build.accelerator == "cuda" and "+cu" in (build.copy.version or ""))
    listed = f" The package list shows {release}, so another copy is imported." if tagged else ""
    yield Finding(
        id="cpu-only-build",
        instance="pytorch",
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="pytorch",
        title=f"PyTorch {release or 'here'} is a CPU-only build: it was not compiled with {what}",
        detail=f"PyTorch says so itself; GPU and driver are not at fault.{listed}",
        because=(*map(because_said, complaints[:3]), *because_torch(facts), *_driver(facts)),
        fix=_torch_fix(facts, matrix, what),
    )


def _usual_on_windows(facts: Facts) -> tuple[Message, ...]:
    """Give the command that took PyTorch from the usual index on Windows, whose builds are for the CPU alone there.

    Of a PyTorch whose version or CUDA is told, the facts say more.
    """
    build = torch(facts)
    known = build is not None and bool(build.copy.version or build.cuda)
    here = on_windows(facts) and not facts.host.wsl and gpu_unused(facts) and nvidia_here(facts)
    return said(facts, "pip-torch-plain") if here and not known else ()


def _for_intel(facts: Facts) -> bool:
    """Tell whether PyTorch may be the build for the Intel GPU that is here: it has no CUDA either."""
    build = torch(facts)
    known = build is not None and build.accelerator == "cpu" and not text(build.copy.facts, "build_from")
    return (
        bool(copies(facts, "intel-gpu")) and not nvidia_here(facts) and not known and not heard(facts, "torch-cpu-only")
    )


def _other_maker(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give a PyTorch for CUDA, which alone looks for NVIDIA's driver, beside a GPU of another maker."""
    maker = next((one for one in ("intel", "amd") if copies(facts, f"{one}-gpu")), None)
    build = torch(facts)
    if not heard(facts, "no-driver-found") or maker is None or nvidia_here(facts) or copies(facts, "gpu"):
        return
    if build and build.accelerator not in {"cuda", None}:
        return
    release = torch_version(facts) or value(facts, "pip-torch-command", "version") or "here"
    name = text(copies(facts, f"{maker}-gpu")[0].facts, "name") or f"the {KNOWN_MAKERS[maker]} GPU"
    yield Finding(
        id="cpu-only-build",
        instance="pytorch",
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="pytorch",
        title=f"PyTorch {release} is a build for CUDA: it does not use the {name}",
        detail="Only a build for CUDA looks for NVIDIA's driver. On a GPU of another maker it computes on the CPU.",
        because=(*grounds(facts, "no-driver-found", "pip-torch-command", most=2), *because_torch(facts)),
        confidence=Confidence.LIKELY,
        fix=fixes.any_torch(build, matrix, "rocm" if maker == "amd" else "xpu"),
    )


def _nixpkgs(facts: Facts) -> Iterator[Finding]:
    """Give the PyTorch of nixpkgs, which is built without CUDA where nobody switched that on."""
    if not (heard(facts, "nix-torch") and heard(facts, "cuda-available-false")):
        return
    yield Finding(
        id="cpu-only-build",
        instance="pytorch",
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="pytorch",
        title="The PyTorch of nixpkgs here is a CPU-only build: it has no CUDA inside",
        detail="nixpkgs builds PyTorch without CUDA unless cudaSupport is set; pytorch-bin (torch-bin) is the wheel"
        " of PyTorch itself, which has it.",
        because=grounds(facts, "nix-torch", "cuda-available-false", most=3),
        confidence=Confidence.LIKELY,
        fix=Fix(
            text="Take torch-bin (formerly pytorch-bin), or set cudaSupport = true in the configuration of nixpkgs.",
            commands=(sh("nix-shell -p python3Packages.torch-bin"),),
            verify=fixes.TORCH_SEES,
        ),
    )


def _torch_fix(facts: Facts, matrix: Matrix, what: str) -> Fix:
    build = torch(facts)
    if build and embedded(facts):
        return fixes.jetson(build)
    wheel = fixes.torch_wheel(build, facts, matrix) if build else fixes.new_torch(facts, matrix)
    if wheel is None or what != "CUDA":
        return fixes.any_torch(build, matrix, KINDS.get(what, "cuda"))
    return Fix(text=wheel[0], commands=wheel[1], verify=fixes.TORCH_SEES)


def _driver(facts: Facts) -> Iterator[Because]:
    if version(facts, "nvidia-driver"):
        yield because(facts, "nvidia-driver", "version")


def _jetson(facts: Facts) -> Iterator[Finding]:
    """Give a PyTorch on a Jetson that does not see the GPU, and of which no build for CUDA is told."""
    build = torch(facts)
    unused = build is not None and flag(build.copy.facts, "available") is False
    guessed = build is not None and text(build.copy.facts, "build_from") is not None
    plain = build is not None and (guessed or build.accelerator not in {"cuda", "cpu"})
    if not (from_text(facts) and build and unused and plain and embedded(facts)) or heard(facts, "no-kernel-image"):
        return
    yield Finding(
        id="cpu-only-build",
        instance="pytorch",
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="pytorch",
        title=f"{build.name} on this Jetson (Orin and the like, aarch64) does not use the GPU: a generic wheel",
        detail="Wheels of the package index for aarch64 are CPU-only or for server GPUs; the integrated GPU of a Jetson"
        " (tegra kernel, nvgpu) needs the build that NVIDIA makes for its JetPack.",
        because=(because(facts, "pytorch", "available"), because(facts, "gpu", "name")),
        confidence=Confidence.LIKELY,
        fix=fixes.jetson(build),
    )
