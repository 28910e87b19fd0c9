"""What messages of programs and the kernel say of the machine beside the fault: releases, GPUs, codes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.imports import gathered
from gpustack.imports.gathered import HERE
from gpustack.model.facts import Status, Strength

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpustack.imports.gathered import Gathered
    from gpustack.model.facts import JsonValue, Message

# Kinds of messages that stand in people's own words: such a line may tell more, and is read as words too.
BY_PEOPLE = frozenset(
    {
        *("container-told", "docker-snap", "docker-desktop", "daemon-reload", "host-smi-works", "wsl-smi-works"),
        *("gpu-count", "no-such-gpu", "mig-enabled-said", "mig-several-said", "works-as-root", "user-fails"),
        *("linux-driver-package", "linux-driver-said", "pip-torch-plain"),
        *("fabric-manager-version", "suspend", "hang", "setvars", "driver-older-than-needed"),
        *(
            "driver-told",
            "libcuda-file",
            "libcuda-place",
            "ldconfig-libcuda",
            "docker-run",
            "runfile",
            "compat-folder",
            "ld-library-path",
            "ld-library-path-added",
            "ld-library-path-said",
        ),
    }
)
NVML_FAILS = frozenset({"nvml-mismatch", "nvml-unknown", "nvml-no-permission", "nvml-not-loaded"})


def told(message: Message) -> bool:
    """Tell whether a message stands in people's own words."""
    return message.kind in BY_PEOPLE or message.kind.endswith(("-said", "-told", "-named", "-version"))


def read(messages: tuple[Message, ...], into: Gathered) -> None:
    """Take in the facts that stand in messages."""
    messages = tuple(replace(one, strength=Strength.STATED) if told(one) else one for one in messages)
    into.messages = (*into.messages, *messages)
    for message in messages:
        take = TAKERS.get(message.kind)
        if take:
            into.strength = message.strength
            take(message.origin, message.values, into)
    into.strength = Strength.MESSAGE
    xids: list[JsonValue] = [_xid(one) for one in messages if one.kind == "xid"]
    kernel = [one.line for one in messages if one.kind in KERNEL]
    if xids or kernel:
        into.tell("kernel-log", messages[0].origin)
        facts = into.copies["kernel-log"][HERE].facts
        known = facts.get("xids")
        facts["xids"] = (*(known if isinstance(known, tuple) else ()), *xids)
    for message in messages:
        if message.kind in NVML_FAILS and not into.knows("nvml"):
            into.tell("nvml", message.origin, status=Status.FAILED, code=int(message.values.get("code", "999")[:9]))
    into.strength = Strength.PRINTED


def _xid(message: Message) -> JsonValue:
    pci = re.sub(r"^PCI:", "", message.values["pci"]).lower()
    pci = pci if "." in pci else f"{pci}.0"
    text = message.values.get("text", "")
    pid = re.search(r"pid='?(\d{1,9})", text)
    return {"pci": pci, "code": int(message.values["code"][:9]), "text": text, "pid": int(pid[1]) if pid else None}


def _module(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    flavour = "open" if said.get("open") else None
    into.tell("nvidia.ko", origin, version=said["driver"], version_loaded=said["driver"], loaded=True, flavour=flavour)


def _mismatch(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    into.tell("nvidia.ko", origin, version=said["module"], version_loaded=said["module"], loaded=True)
    into.tell("nvidia-driver", origin, version=said["client"])


def _library(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    into.tell("nvidia-driver", origin, libnvidia_ml=said["library"])


def _fabric_manager(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    into.tell("nvidia-fabricmanager", origin, version=said.get("manager") or said.get("version"))
    if said.get("driver"):
        into.tell("nvidia-driver", origin, version=said["driver"])


def _told_driver(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    into.tell("nvidia-driver", f"{origin} (in words)", version=next(iter(said.values())))


def _told_toolkit(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    version = next(iter(said.values()))
    version = version if "." in version else f"{version}.0"
    into.tell("cuda-toolkit", f"{origin} (in words)", f"told {version}", version=version, as_told=True)


def _image_driver(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    into.tell("nvidia-driver", origin, version=said["found"])


def _driver_cuda(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    into.tell("nvml", origin, cuda_version=int(said["driver_cuda"][:9]))


def _named_gpu(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    """Take in a GPU with its compute capability, joined to one of that name."""
    name = re.sub(r"^(?:.*?(?:Warning|Error): *|.*\bYour )", "", said.get("gpu", "")).strip()
    if not name:
        return
    arch = re.fullmatch(r"sm_(\d+)(\d)", said.get("arch", ""))
    cc = said.get("cc") or (f"{arch[1]}.{arch[2]}" if arch else None)
    same = (key for key, told in into.copies.get("gpu", {}).items() if str(told.facts.get("name")).endswith(name))
    key = next(same, None) or str(len(into.copies.get("gpu", {})))
    gathered.gpu(origin, name, into, key)
    into.tell("gpu", origin, key, cc=cc)


def _archs(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    archs = tuple(re.findall(r"(?:sm|compute)_\d{2,3}[af]?", said["archs"]))
    into.tell("pytorch", origin, archs=archs)


def _ignored_gpu(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    """Take in a GPU that the kernel module names by its PCI numbers."""
    device = (said.get("id") or "").lower().partition("10de:")[2]
    if re.fullmatch("[0-9a-f]{4}", device):
        key = said.get("pci") or "0"
        into.tell("pci-display", origin, key, vendor="nvidia", device_id=f"0x{device}", also={"class": "0x030000"})
    if said.get("driver"):
        into.tell("nvidia.ko", origin, version=said["driver"], version_loaded=said["driver"], loaded=True)


def _gfx(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    gfx = said.get("gfx") or said.get("gfx2")
    if gfx and not into.fact("amd-gpu", "gfx"):
        into.tell("amd-gpu", origin, "0", gfx=gfx)


def _xformers(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    """Take in the PyTorch that is here, of which xFormers says that it was built for another."""
    tag = re.search(r"\+(?P<tag>(?:cu|rocm|cpu|xpu)[\w.]*)", said["have"])
    into.tell("pytorch", origin, version=said["have"], build=tag["tag"] if tag else None, imported=said["have"])
    if said.get("python"):
        into.tell("python", origin, version=said["python"])


def _requested_python(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    if said.get("found"):
        into.tell("python", origin, version=said["found"])


def _ort_archive(origin: str, said: Mapping[str, str], into: Gathered) -> None:
    if not into.version("onnxruntime"):
        into.tell("onnxruntime", origin, version=said["version"], accelerator="cuda", cuda=said.get("cuda"))


TAKERS: Mapping[str, Callable[[str, Mapping[str, str], Gathered], None]] = {
    "module-version": _module,
    "api-mismatch": _mismatch,
    "tf-driver-mismatch": _mismatch,
    "fabric-manager-mismatch": _fabric_manager,
    "fabric-manager-version": _fabric_manager,
    "image-wants-driver": _image_driver,
    "driver-told": _told_driver,
    "toolkit-told": _told_toolkit,
    "nvml-library-version": _library,
    "torch-driver-too-old": _driver_cuda,
    "arch-not-compatible": _named_gpu,
    "arch-too-old": _named_gpu,
    "bf16-unsupported": _named_gpu,
    "arch-supported": _archs,
    "open-module-unsupported": _ignored_gpu,
    "gpu-not-in-release": _ignored_gpu,
    "gfx-not-compatible": _gfx,
    "gfx-unsupported": _gfx,
    "requires-other-python": _requested_python,
    "uv-python-needed": _requested_python,
    "python-told": _requested_python,
    "arch-needs-cuda": _named_gpu,
    "tf-ignores-gpu": _named_gpu,
    "triton-gpu-too-old": _named_gpu,
    "container-gpu-unsupported": _named_gpu,
    "tensile-missing": _gfx,
    "hip-no-binary": _gfx,
    "ollama-amdgpu-unsupported": _gfx,
    "xformers-built-for": _xformers,
    "ort-package": _ort_archive,
}
KERNEL = frozenset({"probe-not-called", "open-module-unsupported", "no-nvidia-gpu", "rminit-failed", "api-mismatch"})
