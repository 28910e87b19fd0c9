"""Triton, the kernel language: its distributions, the GPUs it compiles for, NVIDIA's assemblers in it. No import.

``exercise`` compiles a kernel and launches it. Source: wheels of triton 2.1 to 3.9 (``backends``, before 3.0
``common/../third_party``); the assembler tells its version in a text among its constants.
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from probes.host import Answer, Facts, Host

WORD = b"Cuda compilation tools, release "
RELEASE = re.compile(rb"Cuda compilation tools, release \d+\.\d+, V(\d+\.\d+\.\d+)")
FOLDERS = ("backends/nvidia/bin", "third_party/cuda/bin", "common/../third_party/cuda/bin", "third_party/nvidia/bin")
DEVICES = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu"}


def probe(host: "Host") -> "Answer":
    """Return each distribution of Triton; of the first, what its package contains."""
    installed = host.shared("installed.py")
    wanted = {installed["normal"](name) for name in host.row["distributions"]}
    copies = [copy for copy in installed["find"](host) if copy["name"] in wanted]
    place = next(iter(installed["places"](host, "triton")), None)
    found = [
        {
            "key": copy["name"] + ("" if not number else " in " + copy["path"]),
            "version": copy["version"],
            "path": place if not number else copy["path"],
            "build": copy.get("build"),
            "distribution": copy["name"],
            **installed["origin"](host, copy),
        }
        for number, copy in enumerate(copies)
    ]
    if place is None:
        error = "the distribution is installed, but no folder on the path holds the package triton"
        return [dict(copy, path=None, status="failed", error=error) for copy in found]
    if not found:
        found.append({"key": "triton", "version": said(host, place), "path": place, "distribution": None})
    found[0].update(package(host, place))
    return found


def said(host: "Host", place: str) -> "Optional[str]":
    """Return the version assigned in the package's own file."""
    version = host.shared("installed.py")["literals"](host.read(place + "/__init__.py") or "").get("__version__")
    return version if isinstance(version, str) else None


def package(host: "Host", place: str) -> "Facts":
    """Return the kinds of GPU that the package compiles for, and the assemblers that it brings or is set to use."""
    backends = [
        name for name in host.list(place + "/backends") if host.exists("%s/backends/%s/driver.py" % (place, name))
    ]
    told = host.env("TRITON_PTXAS_PATH")
    return {
        "backends": backends,
        "devices": [DEVICES[name] for name in backends if name in DEVICES],
        "assemblers": assemblers(host, place),
        "ptxas_path": told,
        "ptxas_path_exists": host.exists(told) if told else None,
        "libdevice": bool(host.glob(place + "/backends/nvidia/lib/libdevice*.bc")),
    }


def assemblers(host: "Host", place: str) -> "Dict[str, Optional[str]]":
    """Return the name and version of each assembler in the package."""
    folder: "List[str]" = [place + "/" + inside for inside in FOLDERS if host.list(place + "/" + inside)][:1]
    paths = [path for inside in folder for path in host.glob(inside + "/ptxas*")]
    return {os.path.basename(path): release(host, path) for path in paths}


def release(host: "Host", path: str) -> "Optional[str]":
    """Return the version in an assembler's constants, read section by section and not as a whole (35 to 50 MB)."""
    for piece in host.shared("elf.py")["within"](host.shared("elf.py")["reader"](host, path), ".rodata", WORD, 64):
        match = RELEASE.search(piece)
        if match:
            return match.group(1).decode("ascii")
    return None


def exercise(host: "Host") -> "Answer":
    """Return the result of factor * left + right by a kernel in Triton.

    It launches through torch, where that is installed, and before 3.9 needs it for that.
    """
    trial = host.shared("trial.py")
    torch = bool(host.shared("installed.py")["places"](host, "torch"))

    def work(facts: "Facts") -> None:
        triton, language = host.module("triton"), host.module("triton.language")
        facts["versions"] = {"triton": str(triton.value("__version__"))}
        gpu = trial["gpu"](host, facts)
        if gpu is None:
            return
        if torch:
            host.module("torch")
        factor, left, right, known = trial["vectors"]()
        out, first, second = (gpu.array(numbers) for numbers in ([0] * len(known), left, right))
        trial["step"](host, facts, "compile")
        kernel = triton.call("jit", saxpy(language.loaded))
        try:
            kernel[(1,)](out, float(factor), first, second, BLOCK=len(known))  # compiles first
        except ImportError as error:
            if error.name != "torch" or torch:
                raise
            facts["unavailable"] = "this release launches kernels through torch, which is not installed"
            return
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        facts["ok"] = out.tolist() == known

    with trial["scratch"]() as folder:
        trial["variables"](TRITON_CACHE_DIR=folder)
        answer: "Facts" = trial["run"](host, work)
    return answer


def saxpy(language: "Any") -> "Callable[..., None]":
    """Return the kernel; Triton reads its text and takes the names in it from this file."""
    globals()["language"] = language

    def kernel(out, factor, left, right, BLOCK: "language.constexpr"):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
        at = language.arange(0, BLOCK)
        language.store(out + at, factor * language.load(left + at) + language.load(right + at))

    return kernel
