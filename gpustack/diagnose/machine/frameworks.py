"""Frameworks and GPUs as texts describe them: which torch, which packages, which GPU, in words for findings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import heard
from gpustack.diagnose.machine.inventory import Build, Gpu, builds, gpus
from gpustack.diagnose.machine.values import at, because, copies, flag, table, text, told, version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.model.facts import Facts, JsonValue
    from gpustack.model.report import Because
    from gpustack.model.versions import ComputeCapability, CudaVersion


INSTALL = "python -m pip install"
GRACE = re.compile(r"\b(?:GH200|GB10|GB200|GB300|DGX Spark)\b", re.IGNORECASE)
JETSON = re.compile(r"nvgpu|\b(?:Jetson|Orin|Xavier|Thor|Tegra)\b", re.IGNORECASE)
JETPACK = "jetpack"  # the system of a Jetson, as a question names it


def torch(facts: Facts) -> Build | None:
    """Return the PyTorch that is mentioned first, or None."""
    return next((build for build in builds(facts) if build.component == "pytorch"), None)


def distributions(facts: Facts) -> Mapping[str, JsonValue]:
    """Return the packages that were listed, by name."""
    return table(told(facts, "packages"), "distributions")


def installed(facts: Facts, *names: str) -> str | None:
    """Return the version of the first of these packages that is listed."""
    listed = distributions(facts)
    return next((found for name in names if (found := text(listed, name))), None)


def torch_version(facts: Facts) -> str | None:
    """Return the version of PyTorch, with its build if known."""
    build = torch(facts)
    if build and build.copy.version:
        tagged = "+" in build.copy.version or not build.copy.build or text(build.copy.facts, "build_from")
        return build.copy.version if tagged else f"{build.copy.version}+{build.copy.build}"
    return installed(facts, "torch", "pytorch")


def torch_cuda(facts: Facts) -> CudaVersion | None:
    """Return the CUDA version that this PyTorch was built with, or None."""
    build = torch(facts)
    return build.cuda if build else None


def because_torch(facts: Facts) -> Iterator[Because]:
    """Return the version of PyTorch as evidence."""
    if version(facts, "pytorch"):
        yield because(facts, "pytorch", "version")
    elif installed(facts, "torch"):
        yield because(facts, "packages", "distributions", "torch")
    if text(told(facts, "pytorch"), "cuda") and "+" not in (version(facts, "pytorch") or ""):
        yield because(facts, "pytorch", "cuda")


def because_package(facts: Facts, name: str) -> Iterator[Because]:
    """Return the version of a package as evidence, if it is listed."""
    if at(distributions(facts), name) is not None:
        yield because(facts, "packages", "distributions", name)


def gpu_words(name: str | None, capability: ComputeCapability | str | None) -> str:
    """Return the name of a GPU with its compute capability, as far as known."""
    plain = re.sub(r"^NVIDIA\s+(?=NVIDIA)", "", (name or "this GPU").strip())
    if capability is None:
        return plain
    digits = str(capability)
    sm = f"sm_{digits.replace('.', '')}"
    return f"{plain} (compute capability {digits}, {sm})"


def named_gpus(facts: Facts) -> tuple[Gpu, ...]:
    """Return the NVIDIA GPUs whose compute capability is known, each product once."""
    seen: dict[tuple[str, str], Gpu] = {}
    for gpu in gpus(facts):
        if gpu.capability:
            seen.setdefault((gpu.name, str(gpu.capability)), gpu)
    return tuple(seen.values())


def gpu_name(facts: Facts) -> str | None:
    """Return the name of the first NVIDIA GPU that is mentioned."""
    return next((name for copy in copies(facts, "gpu") if (name := text(copy.facts, "name"))), None)


def capability(digits: str | None) -> str | None:
    """Return a compute capability as people write it, from 8.0, 80, sm_80, 800, 0x601 or (8, 0)."""
    found = re.sub(", ?", ".", (digits or "").strip().removeprefix("sm_"))
    if re.fullmatch(r"\d{1,2}\.\d", found):
        return found
    return f"{found[:-1]}.{found[-1]}" if re.fullmatch(r"\d{2,3}", found) else None


def dotted(cuda: str | None) -> str | None:
    """Return a CUDA version as people write it, from 129, 1201 or 12.9."""
    found = (cuda or "").strip().removeprefix("cuda").removeprefix("cu")
    if re.fullmatch(r"\d{1,2}\.\d{1,2}", found):
        return found
    if re.fullmatch(r"\d{2,3}", found):
        return f"{found[:-1]}.{found[-1]}"
    return f"{int(found[:-2])}.{int(found[-2:])}" if re.fullmatch(r"\d{4}", found) else None


def embedded(facts: Facts) -> bool:
    """Return whether the GPU is a Jetson's, which generic wheels do not support."""
    kernel = facts.host.kernel or version(facts, "linux-kernel") or ""
    told_so = any(flag(copy.facts, "embedded") for copy in copies(facts, "gpu"))
    named = any(JETSON.search(text(copy.facts, "name") or "") for copy in copies(facts, "gpu"))
    return "tegra" in kernel or told_so or named


def jetpack(facts: Facts) -> str | None:
    """Return the JetPack of a Jetson, if the text names it."""
    system = told(facts, "linux-kernel")
    return text(system, "os_version") if text(system, "os_id") == JETPACK else None


def gpu_unused(facts: Facts) -> bool:
    """Return whether the text says that the framework does not use the GPU."""
    build = torch(facts)
    unused = ("cuda-available-false", "torch-not-compiled-cuda", "torch-cpu-only")
    return heard(facts, *unused) or bool(build and flag(build.copy.facts, "available") is False)


def gpu_used(facts: Facts) -> bool:
    """Return whether the text says that PyTorch uses the GPU."""
    build = torch(facts)
    return heard(facts, "cuda-available-true", "ran-on-gpu") or bool(
        build and (flag(build.copy.facts, "available") or build.ran_on_gpu)
    )


def platform(facts: Facts) -> str | None:
    """Return the platform as wheels name it: linux-x86_64, linux-aarch64, windows, macos; None if unknown."""
    system, machine = (facts.host.os or "").lower(), facts.host.machine or _usual(facts)
    if "windows" in system and not facts.host.wsl:
        return "windows"
    if "mac" in system or "darwin" in system:
        return "macos"
    return {"x86_64": "linux-x86_64", "AMD64": "linux-x86_64", "aarch64": "linux-aarch64"}.get(machine)


def _usual(facts: Facts) -> str:
    """Return the usual processor beside these GPUs if none is named: Arm with Grace and Jetson."""
    named = any(GRACE.search(text(copy.facts, "name") or "") for copy in copies(facts, "gpu"))
    return "aarch64" if named or embedded(facts) else "x86_64"
