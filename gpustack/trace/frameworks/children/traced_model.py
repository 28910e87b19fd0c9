"""Runs a model in one framework of the Python that starts this, step by step, and prints a JSON line for each thing.

It is given one argument, JSON: {"framework", "model" (tensors, ops, precision, seed), "onnx", "output" (a file for the
numbers that came out, as float32)}. Lines: {"at": N}, {"measured": {"what": "step" | "layers" | "kernels" |
"loaded" | "framework" | "gpu" | "numbers" ...}}, {"failed": {"step", "reason"}}, {"done": null}. Python 3.8 and
the standard library; the framework is imported in step 1.
"""

import os
import sys

# Without this folder, and Python's own library before what PYTHONPATH names: a json.py there is not meant for us.
FOLDER = os.path.dirname(os.path.abspath(__file__))
STANDARD = os.path.dirname(os.__file__)
sys.path[:] = [entry for entry in sys.path if entry != FOLDER]
sys.path.sort(key=lambda entry: entry not in (STANDARD, os.path.join(STANDARD, "lib-dynload")))

import ctypes  # noqa: E402 - see above
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import time  # noqa: E402
from typing import Any, Dict, List, Optional  # noqa: E402

MODULES = {"torch": "traced_torch", "jax": "traced_jax", "onnxruntime": "traced_onnxruntime"}
NOTED = "/proc/self/maps"


def sibling(name: str) -> Any:
    """Return another file of this folder as a module, which needs no place on the path."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(FOLDER, name + ".py"))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


# The numbers of a model are the same as the parent makes: a hash of seed and place (Chris Wellons, lowbias32), on whole
# numbers of 64 bits, of which the lower 32 count, so that NumPy and torch do the same.
FIRST, SECOND, LOW = 0x7FEB352D, 0x846CA68B, 0xFFFFFFFF
CHUNK = 1 << 22


def hashed(bits: Any) -> Any:
    """Return the hash of each number."""
    bits = bits ^ (bits >> 16)
    bits = (bits * FIRST) & LOW
    bits = bits ^ (bits >> 15)
    bits = (bits * SECOND) & LOW
    return bits ^ (bits >> 16)


def with_numpy(tensor: Dict[str, Any], seed: int, np: Any) -> Any:
    """Return the numbers of a tensor as float32 in NumPy."""
    count = math.prod(tensor["shape"])
    out = np.empty(count, np.float32)
    for begin in range(0, count, CHUNK):
        end = min(count, begin + CHUNK)
        places = (np.arange(begin, end, dtype=np.int64) + tensor["first"]) & LOW
        unit = (hashed(places ^ seed) >> 8).astype(np.float32)
        unit *= np.float32(2 * tensor["spread"] / 2**24)
        unit += np.float32(tensor["centre"] - tensor["spread"] + tensor["spread"] / 2**24)
        out[begin:end] = unit
    return out.reshape(tensor["shape"])


def with_torch(tensor: Dict[str, Any], seed: int, torch: Any) -> Any:
    """Return the numbers of a tensor as float32 in torch, which may be there without NumPy."""
    count = math.prod(tensor["shape"])
    out = torch.empty(count, dtype=torch.float32)
    single = torch.float32
    factor = torch.tensor(2 * tensor["spread"] / 2**24, dtype=single)
    offset = torch.tensor(tensor["centre"] - tensor["spread"] + tensor["spread"] / 2**24, dtype=single)
    for begin in range(0, count, CHUNK):
        end = min(count, begin + CHUNK)
        places = (torch.arange(begin, end, dtype=torch.int64) + tensor["first"]) & LOW
        out[begin:end] = (hashed(places ^ seed) >> 8).to(single) * factor + offset
    return out.reshape(tuple(tensor["shape"]))


class Teller:
    """Where the lines go: standard output as it was, which from now on is standard error for all others."""

    def __init__(self) -> None:
        self.file = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.number = 1
        self.begun = self.mark = time.perf_counter()
        self.figures: List[Dict[str, Any]] = []
        self.why: List[str] = []

    def line(self, kind: Any, what: Any) -> None:
        """Print one line."""
        self.file.write(json.dumps({kind: what}) + "\n")
        self.file.flush()

    def say(self, what: Any, **more: Any) -> None:
        """Say something that was measured."""
        self.line("measured", dict(more, what=what))

    def figure(self, name: str, value: float, unit: str, note: Optional[str] = None) -> None:
        """Write down a number of the step that is being done."""
        self.figures.append({"name": name, "value": float(value), "unit": unit, "note": note})

    def step(self, number: int) -> None:
        """Begin a step."""
        self.number, self.figures, self.why = number, [], []
        self.line("at", number)

    def done(self, status: str = "done") -> None:
        """End the step: its time runs from the end of the one before, so that nothing lies between."""
        now = time.perf_counter()
        row = {"number": self.number, "status": status, "seconds": now - self.mark}
        self.say("step", begin=self.mark - self.begun, figures=self.figures, why=self.why, **row)
        self.mark = now

    def through(self, *steps: Any) -> None:
        """Go some steps, each a number and its work."""
        for number, work in steps:
            self.step(number)
            work()
            self.done()

    def write(self, path: str, plain: Any) -> None:
        """Write an array of float32, and say so."""
        plain.tofile(path)
        self.say("numbers", file=path, count=int(plain.size))


def loaded() -> Any:
    """Return the files that are mapped into this process."""
    with open(NOTED, "rb") as file:
        lines = file.read().decode("utf-8", "replace").splitlines()
    paths = (line[line.find("/") :] for line in lines if "/" in line)
    return sorted({path for path in paths if ".so" in path})


# By the name between lib and .so: the function to ask, and how it answers.
ASKED = {
    "cuda": ("cuDriverGetVersion", "pointer"),
    "cudart": ("cudaRuntimeGetVersion", "pointer"),
    "cublasLt": ("cublasLtGetVersion", "size"),
    "cudnn": ("cudnnGetVersion", "size"),
    "nccl": ("ncclGetVersion", "pointer"),
    "nvrtc": ("nvrtcVersion", "pair"),
}
CUDNN_9, NCCL_2_9 = 90000, 20900


def versions(paths: List[str]) -> Any:
    """Return the version of each library by its path; one that does not answer is left out."""
    found = {}
    for path in paths:
        name = os.path.basename(path).split(".so")[0][3:]
        if name in ASKED:
            try:
                found[path] = said(name, ctypes.CDLL(path))
            except (OSError, AttributeError, ValueError):
                continue
    return {path: version for path, version in found.items() if version}


def said(name: str, library: Any) -> Any:
    """Return what one library answers, as people write it."""
    function, how = ASKED[name]
    call = getattr(library, function)
    if how == "pair":
        major, minor = ctypes.c_int(), ctypes.c_int()
        return None if call(ctypes.byref(major), ctypes.byref(minor)) else "%d.%d" % (major.value, minor.value)
    if how == "size":
        call.restype = ctypes.c_size_t
        return written(name, call())
    number = ctypes.c_int()
    return None if call(ctypes.byref(number)) else written(name, number.value)


def written(name: str, number: int) -> Any:
    """Return a packed version in words."""
    if name in ("cuda", "cudart"):
        return "CUDA %d.%d" % (number // 1000, number % 1000 // 10)
    if name == "cudnn" and number < CUDNN_9:
        return "%d.%d.%d" % (number // 1000, number // 100 % 10, number % 100)
    if name == "nccl" and number < NCCL_2_9:
        return "%d.%d.%d" % (number // 1000, number // 100 % 10, number % 100)
    return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)


def main(asked: Dict[str, Any]) -> None:
    """Run what is asked for, and end with the words of what refused a step."""
    teller = Teller()
    try:
        run = sibling(MODULES[asked["framework"]])
        run.follow(asked, teller, sibling)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        said = [line for line in str(error).strip().splitlines() if line.strip()] or [""]
        teller.line("failed", {"step": teller.number, "reason": type(error).__name__ + ": " + said[0]})
    try:
        teller.say("loaded", paths=loaded(), versions=versions(loaded()))
    except OSError:
        teller.say("loaded", paths=[], versions={})
    teller.line("done", None)
    os._exit(0)  # frameworks take seconds to come apart, and some crash while they do


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
