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

import importlib.machinery  # noqa: E402 - see above
import importlib.util  # noqa: E402
import json  # noqa: E402
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


def loaded() -> Any:
    """Return the files that are mapped into this process."""
    with open(NOTED, "rb") as file:
        lines = file.read().decode("utf-8", "replace").splitlines()
    paths = (line[line.find("/") :] for line in lines if "/" in line)
    return sorted({path for path in paths if ".so" in path})


def main(asked: Dict[str, Any]) -> None:
    """Run what is asked for, and end with the words of what refused a step."""
    teller = Teller()
    try:
        run = sibling("traced_onnx_file" if asked.get("onnx") else MODULES[asked["framework"]])
        run.follow(asked, teller, sibling)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        said = [line for line in str(error).strip().splitlines() if line.strip()] or [""]
        teller.line("failed", {"step": teller.number, "reason": type(error).__name__ + ": " + said[0]})
    try:
        teller.say("loaded", paths=loaded(), versions=sibling("traced_versions").versions(loaded()))
    except OSError:
        teller.say("loaded", paths=[], versions={})
    teller.line("done", None)
    os._exit(0)  # frameworks take seconds to come apart, and some crash while they do


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
