"""Machines built from facts, in a few words each: the input of tests of rules and of the judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpustack.collect.probe_results import plain
from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.model.facts import Component, Environment, Facts, Host, Instance, Layer, Status, Unseen
from gpustack.model.report import Finding, Purpose, Report

MATRIX = Matrix()
PYTHON = "/opt/venv/bin/python"
PCI = "0000:01:00.0"
CUDA_NAMES = {
    0: "CUDA_SUCCESS",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    100: "CUDA_ERROR_NO_DEVICE",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
}
H200 = "0x2335"
LAYERS = {
    "linux-kernel": Layer.KERNEL,
    "kernel-headers": Layer.KERNEL,
    "dkms": Layer.KERNEL,
    "kernel-log": Layer.KERNEL,
    "pci-display": Layer.HARDWARE,
    "gpu": Layer.HARDWARE,
    "nvidia.ko": Layer.KERNEL_MODULE,
    "nvidia-uvm.ko": Layer.KERNEL_MODULE,
    "python": Layer.ENVIRONMENT,
    "cudnn": Layer.LIBRARY,
    "pytorch": Layer.FRAMEWORK,
    "jax": Layer.FRAMEWORK,
    "onnxruntime": Layer.FRAMEWORK,
    "cuda-toolkit": Layer.RUNTIME,
    "cuda-core": Layer.RUNTIME,
    "cuda-bindings": Layer.RUNTIME,
}
NAMED = ("key", "version", "build", "path", "environment", "status")


def seen(
    component: str, *copies: Mapping[str, object], reason: str | None = None, status: str | None = None
) -> Component:
    """Return a component with these copies, as the probe results would make it; without copies it is absent."""
    instances = tuple(_copy(number, copy) for number, copy in enumerate(copies))
    used = next((copy for copy in instances if copy.status is Status.PRESENT), None)
    best = Status.PRESENT if used else Status.FAILED if instances else Status.ABSENT
    return Component(
        id=component,
        layer=LAYERS.get(component, Layer.DRIVER),
        vendor="nvidia",
        status=Status(status) if status else best,
        version=used.version if used else None,
        build=used.build if used else None,
        path=used.path if used else None,
        facts=used.facts if used else {},
        source=f"probe of {component}",
        reason=reason,
        instances=instances,
    )


def _copy(number: int, said: Mapping[str, object]) -> Instance:
    facts = plain({name: value for name, value in said.items() if name not in NAMED})
    assert isinstance(facts, Mapping)
    return Instance(
        key=_text(said, "key") or _text(said, "path") or str(number),
        version=_text(said, "version"),
        build=_text(said, "build"),
        path=_text(said, "path"),
        environment=_text(said, "environment"),
        status=Status(said.get("status", "present")),
        facts=facts,
    )


def _text(said: Mapping[str, object], name: str) -> str | None:
    value = said.get(name)
    return None if value is None else str(value)


def machine(
    *components: Component, container: str | None = None, wsl: bool = False, pythons: Iterable[str] = ()
) -> Facts:
    """Return the facts of a machine with these components."""
    return Facts(
        taken="2026-11-21T10:00:00+00:00",
        host=Host(os="Ubuntu 24.04.3 LTS", kernel="6.8.0-50-generic", machine="x86_64", container=container, wsl=wsl),
        components=components,
        environments=tuple(Environment(python=python, kind="venv", version="3.12.3") for python in pythons),
    )


def merged(facts: Facts, *components: Component, drop: Iterable[str] = (), unseen: Iterable[Unseen] = ()) -> Facts:
    """Return the facts with these components replacing those of the same id, and without those to drop."""
    new = {one.id: one for one in components}
    kept = [new.pop(one.id, one) for one in facts.components if one.id not in drop]
    return replace(facts, components=(*kept, *new.values()), not_seen=(*facts.not_seen, *unseen))


def kernel(**facts: object) -> Component:
    """Return the kernel of an ordinary Ubuntu machine."""
    release = facts.pop("release", "6.8.0-50-generic")
    common = {"version": release, "release": release, "os_id": "ubuntu", "modules_tree": True, "secure_boot": False}
    return seen("linux-kernel", {**common, **facts})


def pci(
    driver: str | None = "nvidia", device: str = H200, at: str = PCI, vendor: str = "nvidia", **facts: object
) -> dict[str, object]:
    """Return one GPU on the bus."""
    link = {"speed": 32.0, "width": 16, "max_speed": 32.0, "max_width": 16}
    common = {
        "key": at,
        "vendor": vendor,
        "vendor_id": "0x10de",
        "device_id": device,
        "class": "0x030200",
        "driver": driver,
    }
    return {**common, "link": link, "bridges": [], **facts}


def gpu(name: str = "NVIDIA H200", cc: str = "9.0", at: str = PCI, **facts: object) -> dict[str, object]:
    """Return one GPU as NVML reports it, in good health."""
    common = {
        "key": f"GPU-00000000-0000-0000-0000-{at[-7:-5]}0000000000",
        "uuid": f"GPU-00000000-0000-0000-0000-{at[-7:-5]}0000000000",
        "name": name,
        "pci": at,
        "cc": cc,
        "throttle": {"mask": 1, "reasons": ["gpu_idle"]},
        "ecc": {"enabled": True, "uncorrected_volatile": 0},
        "remap": {"pending": False, "failed": False},
        "mig": {"enabled": False, "instances": []},
        "recovery_action": 0,
    }
    return {**common, **facts}


def module(release: str | None = "580.95.05", disk: str | None = "580.95.05", **facts: object) -> Component:
    """Return nvidia.ko, loaded and on disk in these versions."""
    if release is None and disk is None:
        return seen("nvidia.ko")
    nodes = [
        {"path": path, "exists": True, "readable": True, "writable": True}
        for path in ("/dev/nvidiactl", "/dev/nvidia0")
    ]
    common = {
        "version": release or disk,
        "loaded": release is not None,
        "version_loaded": release,
        "version_on_disk": disk,
        "path": "/lib/modules/6.8.0-50-generic/updates/dkms/nvidia.ko" if disk else None,
        "flavour": "open",
        "competitors": [],
        "blacklisted": [],
        "nodes": nodes if release else [],
    }
    return seen("nvidia.ko", {**common, **facts})


def driver(release: str | None = "580.95.05", **facts: object) -> Component:
    """Return the driver's libraries."""
    if release is None:
        return seen("nvidia-driver")
    return seen("nvidia-driver", {"version": release, "libcuda": release, "libnvidia_ml": release, **facts})


def nvml(release: str = "580.95.05", cuda: int = 13000, count: int = 1, **facts: object) -> Component:
    """Return NVML, initialised."""
    common = {
        "version": release,
        "code": 0,
        "code_name": "NVML_SUCCESS",
        "driver_version": release,
        "cuda_version": cuda,
    }
    return seen("nvml", {**common, "gpu_count": count, **facts})


def nvml_error(code: int, name: str) -> Component:
    """Return NVML, refusing to initialise."""
    return seen("nvml", {"status": "failed", "code": code, "code_name": name, "error": name})


def libcuda(
    cuda: int = 13000, release: str = "580.95.05", cc: str | None = "9.0", init: int = 0, **facts: object
) -> Component:
    """Return libcuda, initialised, or with cuInit's error."""
    devices = [{"ordinal": 0, "pci": PCI, "cc": cc}] if cc and init == 0 else []
    common = {
        "version": release,
        "path": f"/usr/lib/x86_64-linux-gnu/libcuda.so.{release}",
        "kind": "driver",
        "cu_init": init,
        "cu_init_name": CUDA_NAMES.get(init, "CUDA_ERROR_UNKNOWN"),
        "driver_cuda": cuda,
        "devices": devices,
        "copies": [],
        "stub_on_path": {"LD_LIBRARY_PATH": [], "LIBRARY_PATH": []},
        "visible": None,
        "status": "present" if init == 0 else "failed",
    }
    return seen("libcuda", {**common, **facts})


def uvm(release: str | None = "580.95.05", **facts: object) -> Component:
    """Return nvidia-uvm.ko, loaded in this version."""
    return seen(
        "nvidia-uvm.ko", {"version": release, "loaded": release is not None, "version_loaded": release, **facts}
    )


def log(*lines: str, xids: Iterable[Mapping[str, object]] = (), modules: Iterable[str] = ()) -> Component:
    """Return the kernel's log."""
    return seen(
        "kernel-log",
        {
            "readable": True,
            "source": "/dev/kmsg",
            "nvrm": list(lines),
            "xids": list(xids),
            "module_errors": list(modules),
        },
    )


def torch(
    version: str = "2.11.0", build: str | None = "cu130", cuda: str | None = "13.0", **facts: object
) -> Component:
    """Return PyTorch in the target Python."""
    archs = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"] if cuda else []
    common: dict[str, object] = {
        "version": f"{version}+{build}" if build else version,
        "build": build,
        "path": "/opt/venv/lib/python3.12/site-packages/torch",
        "environment": PYTHON,
        "cuda": cuda,
        "accelerator": "cuda" if cuda else "cpu",
        "archs": archs,
        "pins": {},
        "search": {},
    }
    return seen("pytorch", {**common, **facts})


def onnxruntime(build: str = "cpu", version: str = "1.30.0", **facts: object) -> Component:
    """Return ONNX Runtime in the target Python."""
    path = "/opt/venv/lib/python3.12/site-packages/onnxruntime"
    return seen("onnxruntime", {"version": version, "build": build, "path": path, "environment": PYTHON, **facts})


def jax(build: str = "cuda13", version: str = "0.11.2", **facts: object) -> Component:
    """Return JAX in the target Python."""
    plugins = {f"jax-{build}-plugin": version, f"jax-{build}-pjrt": version} if build != "cpu" else {}
    common = {"version": version, "build": build, "environment": PYTHON, "jaxlib": version, "plugins": plugins}
    return seen("jax", {**common, **facts})


def python(version: str = "3.12.3", glibc: str = "2.39") -> Component:
    """Return the target Python."""
    return seen("python", {"key": PYTHON, "version": version, "path": PYTHON, "environment": PYTHON, "glibc": glibc})


def healthy(*others: Component) -> Facts:
    """Return an ordinary machine with one H200, its driver, and whatever else is given."""
    cards = next((one for one in others if one.id == "gpu" and one.instances), seen("gpu", gpu()))
    asked = libcuda(cc=str(cards.instances[0].facts.get("cc", "9.0")))
    driven = (kernel(), log(), seen("pci-display", pci()), module(), uvm(), driver(), nvml(), asked)
    return merged(machine(*driven, seen("gpu", gpu()), python(), pythons=[PYTHON]), *others)


def on(release: str, cuda: int, *others: Component, cc: str = "8.6", name: str = "NVIDIA RTX A6000") -> Facts:
    """Return an ordinary machine with this driver and this GPU."""
    loaded = (module(release, release), uvm(release))
    parts = (*loaded, driver(release), nvml(release, cuda), libcuda(cuda, release, cc))
    return healthy(*parts, seen("gpu", gpu(name, cc)), seen("pci-display", pci(device="0x2230")), *others)


def report(facts: Facts, purpose: Purpose = Purpose.ANY) -> Report:
    """Return the judge's report."""
    return judge(facts, MATRIX, purpose)


def found(facts: Facts, finding: str, purpose: Purpose = Purpose.ANY) -> Finding | None:
    """Return the first finding of this id, or None."""
    return next((one for one in report(facts, purpose).findings if one.id == finding), None)


def ids(facts: Facts, purpose: Purpose = Purpose.ANY) -> set[str]:
    """Return the ids of all findings."""
    return {one.id for one in report(facts, purpose).findings}


def roots(facts: Facts, purpose: Purpose = Purpose.ANY) -> tuple[str, ...]:
    """Return the root causes."""
    return report(facts, purpose).verdict.root_causes
