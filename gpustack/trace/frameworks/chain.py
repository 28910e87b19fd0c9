"""From the script down to the kernel: what was really loaded at each layer, from which file, in which version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpustack.model.facts import Layer
from gpustack.model.trace import Loaded
from gpustack.trace.mapped import mapped, numbered

PROC_DRIVER, SYS_MODULE = "proc/driver/nvidia/version", "sys/module/nvidia"
MODULE_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+([\d.]+)")
MODULES = ("updates/dkms", "extra", "kernel/drivers/video", "kernel/drivers/video/nvidia", "updates", "video")
DEVICES = ("dev/nvidiactl", "dev/dxg", PROC_DRIVER)
SITE = re.compile(r"^(.*/(?:site|dist)-packages)/(.+)$")
EXPECTED = ("libcudnn", "libcublasLt", "libcudart", "libcuda")
LAYER_OF = {
    "libcudnn": Layer.LIBRARY,
    "libcublasLt": Layer.LIBRARY,
    "libcudart": Layer.RUNTIME,
    "libcuda": Layer.DRIVER,
}


def chain(
    script: str,
    framework: Loaded | None,
    paths: Sequence[str],
    versions: Mapping[str, str],
    *,
    why_not: str | None,
    root: str = "/",
) -> tuple[Loaded, ...]:
    """Give the links, top first; ``why_not`` says why the framework reaches no GPU, and there the chain ends."""
    top = (Loaded(layer=Layer.APPLICATION, name="script", file=script), *([framework] if framework else ()))
    known = {path: _version(path, versions) for path in paths}
    below = mapped(paths, known)
    bindings = tuple(one for one in below if one.layer is Layer.FRAMEWORK)
    if why_not is not None or framework is None:
        return (*top, *below, _end(below, why_not or "the framework was not imported"))
    return (*top, *bindings, *_with_missing([one for one in below if one not in bindings]), *_kernel(root))


def _end(below: Sequence[Loaded], why: str) -> Loaded:
    """Give the link at which the chain ends: below the lowest that was loaded."""
    names = {one.name for one in below}
    if "libcuda" in names:
        return Loaded(layer=Layer.KERNEL_MODULE, name="nvidia.ko", missing=why)
    if names:
        return Loaded(layer=Layer.DRIVER, name="libcuda", missing=why)
    return Loaded(layer=Layer.FRAMEWORK, name="way to a GPU", missing=why)


def there(root: str = "/") -> bool:
    """Tell whether a GPU of NVIDIA is offered to programs here, or its driver is loaded."""
    return any(Path(root, device).exists() for device in DEVICES)


def _with_missing(found: Sequence[Loaded]) -> Iterator[Loaded]:
    """Give the libraries with a word for each that could be expected and is not there, in its place."""
    names = {one.name for one in found}
    absent = [
        Loaded(layer=LAYER_OF[name], name=name, missing="not loaded as a file of its own by this run")
        for name in EXPECTED
        if name not in names
    ]
    order = list(Layer)
    yield from sorted((*found, *absent), key=lambda one: (-order.index(_down(one.layer)), one.name == "libcublasLt"))


def _down(layer: Layer) -> Layer:
    """Give the layer by which a link is sorted: compilers stand beside the libraries that call them."""
    return Layer.LIBRARY if layer is Layer.COMPILER else layer


def _version(path: str, versions: Mapping[str, str]) -> str | None:
    """Give the version of a file: the release of the driver from its name, what it says itself, or its wheel's."""
    if "/libcuda.so" in path:
        return " ".join(filter(None, (numbered(path), f"({versions[path]})" if path in versions else None))) or None
    return versions.get(path) or wheel(path)


def wheel(path: str) -> str | None:
    """Give the version of the wheel that a file came with, from the list of files that the wheel left."""
    if (match := SITE.match(path)) is None:
        return None
    try:
        for record in sorted(Path(match[1]).glob("*.dist-info/RECORD")):
            if f"\n{match[2]}," in "\n" + record.read_text("utf-8", "replace"):
                return record.parent.name.removesuffix(".dist-info").rpartition("-")[2]
    except OSError:
        return None
    return None


def _kernel(root: str) -> Iterator[Loaded]:
    """Give the kernel module and the kernel."""
    release = os.uname().release
    try:
        said = MODULE_VERSION.search(Path(root, PROC_DRIVER).read_text("utf-8", "replace"))
    except OSError:
        missing = f"/{PROC_DRIVER} is not there: no driver of NVIDIA's is loaded, or it is hidden from this container"
        yield Loaded(layer=Layer.KERNEL_MODULE, name="nvidia.ko", missing=missing)
    else:
        yield Loaded(
            layer=Layer.KERNEL_MODULE,
            name="nvidia.ko",
            file=_module(release, root) or f"/{PROC_DRIVER}",
            version=said[1] if said else None,
        )
    yield Loaded(layer=Layer.KERNEL, name="Linux", file="/proc/version", version=release)


def _module(release: str, root: str) -> str | None:
    """Give the file of the module, where the folder of this kernel's modules can be seen."""
    for folder in MODULES:
        for name in ("nvidia.ko", "nvidia.ko.xz", "nvidia.ko.zst", "nvidia.ko.gz"):
            path = Path(root, "lib/modules", release, folder, name)
            if path.exists():
                return str(path)
    return f"/{SYS_MODULE}" if Path(root, SYS_MODULE).exists() else None
