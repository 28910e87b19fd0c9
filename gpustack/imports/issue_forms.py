"""What people fill in for bug trackers, and what JAX and DeepSpeed print for them, beside collect_env."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.imports import platforms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.imports.gathered import Gathered

UNAME = re.compile(
    r"uname_result\(system='Linux',[^)\n]{0,200}?release='(?P<release>[^']{3,80})'[^)\n]{0,300}?machine='(?P<machine>\w+)'"
)
PAIR = re.compile(
    r"^[^\d\n]{0,12}(?P<cuda>\d{1,2}(?:\.\d{1,3}){0,2})(?:_?r\d{1,2}\.\d)?(?:[^\d\n]{0,20}(?:/|,|;|&|\band\b|cudnn)"
    r"[^\d\n]{0,12}(?P<cudnn>\d{1,2}(?:\.\d{1,3}){0,3}))?",
    re.IGNORECASE,
)
XPU = re.compile(
    r"^\* (?:\[\d+\] _XpuDeviceProperties\(name=')?(?P<name>Intel[^'\n]{3,80}?)'?(?:,[^\n]*)?$", re.MULTILINE
)


def read(origin: str, text: str, known: Mapping[str, str], into: Gathered) -> None:
    """Take in the forms; ``known`` are the values of the lines "name: value" of this text."""
    _versions(origin, known, into)
    _cuda(origin, known, into)
    for number, match in enumerate(XPU.finditer(known.get("intel gpu models onboard", ""))):
        into.tell("intel-gpu", origin, str(number), name=match["name"].strip())
    if known.get("os", "").startswith("Linux") and re.match(r"[2-9]\.\d+\.\d+", known.get("release", "")):
        platforms.kernel(origin, known["release"], into)
    uname = UNAME.search(text) if "uname_result" in text else None
    if uname:
        platforms.kernel(origin, uname["release"], into)
        into.machine(machine=uname["machine"])


def _versions(origin: str, known: Mapping[str, str], into: Gathered) -> None:
    for component, names in NAMES.items():
        found = (re.search(r"(?<![\w.])v?(\d+\.\d[\w.]*)", known.get(name, "")) for name in names)
        version = next((match[1] for match in found if match), None)
        if version:
            into.tell(component, origin, version=version)
    if "jax" in known and re.match(r"\d", known.get("jaxlib", "")):
        into.tell("jax", origin, jaxlib=known["jaxlib"])


# The component, and the names that forms give to its version.
NAMES: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("tensorflow version", "tensorflow version (gpu?)"),
    "onnxruntime": ("onnx runtime version", "onnx runtime version or commit id"),
    "jax": ("jax",),
    "deepspeed": ("deepspeed info",),
}


def _cuda(origin: str, known: Mapping[str, str], into: Gathered) -> None:
    """Take in "CUDA/cuDNN version: 10.1/7.6"; whose CUDA it is, people do not say."""
    pair = PAIR.match(known.get("cuda/cudnn version") or known.get("cuda/cudnn") or "")
    if pair and not into.knows("cuda-toolkit"):
        into.tell("cuda-toolkit", origin, version=pair["cuda"], as_told=True)
    if pair and pair["cudnn"] and not into.knows("cudnn"):
        into.tell("cudnn", origin, version=pair["cudnn"])
