"""Conclusions from facts of different lines and texts: what they say together about one machine."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.messages import patterns
from gpustack.matrix.subjects.serving import release_of, vllm_of
from gpustack.model.facts import AT_WORK, Strength

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpustack.imports.gathered import Gathered
    from gpustack.matrix import Matrix
    from gpustack.model.facts import JsonValue

PINNED = re.compile(r"==(\d[\w.]*)$")
OWN = ("program-out-of-memory", "program-assert", "program-devices")
NOT_LOADED = frozenset({"nvml-not-loaded", "module-not-found", "module-vermagic", "module-format"})
OWN_FAULT = "application-fault"  # an error of a program that reached the GPU
USED = frozenset({"ran-on-gpu", "gpu-used", "cuda-available-true", "tf-gpu-listed", "tf-numa-node", *OWN})
UNUSED = frozenset({"jax-falls-back", "jax-cpu-listed", "llama-no-gpu"})  # a GPU that another program uses is no proof
RATE = "rate-said"  # where a GPU is named and nobody complains, what computes so fast is it
UNWELL = frozenset({"gpu-unused-said", "gpu-complaint", "cuda-fails-said", "crash-said", "cuda-available-false"})
OF_TORCH = "No CUDA GPUs are available"
NOT_FOUND = frozenset(
    {"smi-no-devices", "nvml-not-loaded", "no-device", "cuda-available-false", "gpu-unused-said", "no-nvidia-gpu"}
)
OF_NVIDIA = re.compile(r"nvidia(?:-current|-legacy-\w{1,20}|-\d{3}\w{0,10})?")  # as distributions name the module
RUNNING = re.compile(r"/lib/modules/([2-9]\.\d[\w.+~-]*)")


def join(into: Gathered, matrix: Matrix) -> None:
    """Add what follows from several facts together; explicit statements of a text are kept."""
    into.strength = Strength.MESSAGE
    for one in JOINS:
        one(into, matrix)
    into.strength = Strength.PRINTED


def _served(into: Gathered, matrix: Matrix) -> None:
    """Add the PyTorch that a server's release requires, if nothing says which is installed."""
    for server in ("vllm", "sglang"):
        version = into.version(server)
        known = into.fact("packages", "distributions")
        if not version or into.knows("pytorch") or (isinstance(known, dict) and "torch" in known):
            continue
        row = vllm_of(matrix, version) if server == "vllm" else release_of(matrix, server, version)
        pin = PINNED.match(str(row.torch)) if row else None
        if row and row.cuda and pin:
            source = f"what {server} {version} requires"
            into.tell("pytorch", source, version=pin[1], cuda=str(row.cuda), accelerator="cuda")


def _other_maker(into: Gathered, _matrix: Matrix) -> None:
    """Add why a PyTorch for CUDA finds no GPU: it was requested for an Intel GPU, or only AMD GPUs exist."""
    asked = next((one for one in into.messages if one.kind == "xpu-no-devices"), None)
    if asked and into.fact("pytorch", "accelerator") == "cuda":
        into.tell("pytorch", asked.origin, available=False)
    said = next((one for one in into.messages if one.kind == "no-device" and OF_TORCH in one.line), None)
    if said and into.knows("amd-gpu") and not (into.knows("gpu") or into.knows("pytorch")):
        into.strength = Strength.STATED
        into.tell("pytorch", said.origin, accelerator="cuda", available=False)  # one for ROCm covers HIP GPUs
        into.strength = Strength.MESSAGE


def _closed(into: Gathered, _matrix: Matrix) -> None:
    """Add that the module is the proprietary one, if someone says so beside a GPU that is not found."""
    said = {one.kind: one for one in reversed(into.messages)}
    flavour = said.get("closed-module-named")
    if (
        flavour
        and said.keys() & NOT_FOUND
        and "open-module-named" not in said
        and not into.fact("nvidia.ko", "flavour")
    ):
        into.strength = Strength.STATED
        into.tell("nvidia.ko", flavour.origin, flavour="proprietary")
        into.strength = Strength.MESSAGE


def _no_devices(into: Gathered, _matrix: Matrix) -> None:
    """Add that the driver counts no GPU, and its module's flavour if only the file on disk is known."""
    said = next((one for one in into.messages if one.kind == "smi-no-devices"), None)
    if said and into.knows("nvidia.ko"):  # NVML starts only where the module is in memory
        into.tell("nvml", said.origin, gpu_count=0)
        into.tell("nvidia.ko", said.origin, loaded=True, flavour=into.fact("nvidia.ko", "flavour_on_disk"))


def _out(into: Gathered, _matrix: Matrix) -> None:
    """Add that the module is not in memory, and which other kernel it was built for."""
    found = (one for one in into.messages if one.kind in NOT_LOADED)
    said = [one for one in found if OF_NVIDIA.fullmatch(one.values.get("module", "nvidia"))]
    inside = any(into.host.get(name) for name in ("container", "wsl"))
    if not said or inside or into.fact("nvidia.ko", "loaded") or into.knows("kernel-log"):
        return
    origin, into.strength = said[0].origin, said[0].strength
    for one in said:
        running = one.values.get("needs", "").partition(" ")[0] or _folder(one.values.get("folder", ""))
        if running and running[0].isdigit() and not into.version("linux-kernel"):
            into.tell("linux-kernel", origin, version=running)
        into.tell("nvidia.ko", origin, loaded=False, vermagic=one.values.get("found"))
    kernels = [str(copy.facts.get("kernel")) for copy in into.copies.get("dkms", {}).values() if _is_nvidia(copy.facts)]
    if kernels and into.version("linux-kernel") not in kernels:
        into.tell("nvidia.ko", origin, vermagic=kernels[-1])


def _at_work(into: Gathered, matrix: Matrix) -> None:
    """Add that a GPU is working: a program shows its result, and no fault is reported."""
    rate = {RATE} if into.knows("gpu") and not any(one.kind in UNWELL for one in into.messages) else set()
    shown = next((one for one in into.messages if one.kind in USED | rate and "False" not in one.line), None)
    if shown is None:
        return
    faults = {one.kind for one in patterns(matrix) if one.finding and one.finding != OWN_FAULT}
    if not any(one.kind in faults | UNUSED for one in into.messages):
        into.messages = (*into.messages, replace(shown, kind=AT_WORK))


def _is_nvidia(facts: Mapping[str, JsonValue]) -> bool:
    return str(facts.get("module")).startswith("nvidia") and facts.get("state") == "installed"


def _folder(path: str) -> str | None:
    found = RUNNING.match(path)
    return found[1] if found else None


JOINS: tuple[Callable[[Gathered, Matrix], None], ...] = (_served, _other_maker, _closed, _no_devices, _out, _at_work)
