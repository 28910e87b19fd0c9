"""What torch.compile needs beside torch: Triton, a C compiler, Python's headers, an assembler. Nothing is compiled.

``exercise`` compiles one small function with Inductor and runs it, with its caches in a temporary folder.

Inductor generates GPU kernels with Triton, which compiles a small C launcher for each: with ``CC``, else gcc, else
clang, against the ``Python.h`` of the running Python. On a CPU, Inductor compiles C++ with ``CXX``, else g++. Sources:
triton/runtime/build.py of triton 3.9.0; torch/_inductor/cpp_builder.py and torch/_dynamo/device_interface.py of torch
2.14.1.
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

    from probes.host import Answer, Facts, Host

DISTRIBUTIONS = ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-triton-xpu", "triton-xpu")
FLOOR = re.compile(r"\.major\s*>=\s*(\d+)")
TEXT = 1 << 17


def probe(host: "Host") -> "Answer":
    """Return torch's version and which of these it finds; None if no torch with a compiler is installed."""
    installed = host.shared("installed.py")
    place = next(iter(installed["places"](host, "torch")), None)
    if place is None or not host.exists(place + "/_inductor"):
        return None
    said = installed["literals"](host.read(place + "/version.py", TEXT) or "")
    versions = installed["versions"](installed["find"](host))
    name = next((name for name in DISTRIBUTIONS if name in versions), None)
    package = next(iter(installed["places"](host, "triton")), None)
    floor = FLOOR.search(host.read(place + "/_dynamo/device_interface.py", TEXT) or "")
    return {
        "key": place,
        "version": said.get("__version__") or versions.get("torch"),
        "path": place + "/_inductor",
        "triton": versions[name] if name else None,
        "triton_distribution": name,
        "triton_path": package,
        "assembler": any(host.glob("%s/%s/ptxas" % (package, inside)) for inside in ("backends/nvidia/bin",)),
        "c": compiler(host, "CC", ("gcc", "clang")),
        "cxx": compiler(host, "CXX", ("g++", "clang++")),
        "headers": headers(host),
        "floor": floor.group(1) + ".0" if floor else None,
        "cache": host.env("TORCHINDUCTOR_CACHE_DIR"),
    }


def compiler(host: "Host", variable: str, names: "Tuple[str, ...]") -> "Facts":
    """Return the compiler that would be used, what selects it, and its path; the toolkit reports its version."""
    told = (host.env(variable) or "").split(" ")[0]
    for named_by, name in [(variable, told)] if told else [("PATH", name) for name in names]:
        path = host.path(name) if "/" not in name else name if host.exists(name) else None
        if path or told:
            return {"name": name, "path": path, "named_by": named_by}
    return {"name": None, "path": None, "named_by": None}


def headers(host: "Host") -> "Facts":
    """Return where this Python's Python.h belongs, and whether it is there."""
    here = host.interpreter()
    minor = ".".join(here["version"].split(".")[:2])
    named = "python%s%s" % (minor, "" if here.get("gil", True) else "t")
    path = os.path.join(here["base_prefix"], "include", named, "Python.h")
    own = os.path.join(here["prefix"], "include", named, "Python.h")
    found: "Optional[str]" = next((place for place in (path, own) if host.exists(place)), None)
    return {"path": found or path, "exists": found is not None}


def exercise(host: "Host") -> "Answer":
    """Return the result of factor * left + right, compiled for the GPU by Inductor."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        torch = host.module("torch")
        facts["versions"] = {"torch": str(torch.value("__version__"))}
        if not trial["torch_gpu"](torch, facts):
            return
        factor, left, right, known = trial["vectors"]()
        first, second = (torch.call("tensor", numbers).to(facts["device"]).float() for numbers in (left, right))
        trial["step"](host, facts, "compile")
        function = torch.value("compile")(lambda one, other: factor * one + other, backend="inductor")
        answer = function(first, second)
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        facts["ok"] = answer.tolist() == known and function(first, second).tolist() == known

    with trial["scratch"]() as folder:
        trial["variables"](TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=folder + "/triton")
        trial["variables"](TORCHINDUCTOR_COMPILE_THREADS="1")  # no process pool that outlives the trial
        answer: "Facts" = trial["run"](host, work)
    return answer
