"""numba-cuda, a trial: a kernel written in Python, compiled for the GPU and launched.

The distribution numba-cuda takes the place of what numba itself has as ``numba.cuda``.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from probes.host import Answer, Facts, Host


def exercise(host: "Host") -> "Answer":
    """Return the result of factor * left + right by a kernel in Python."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        cuda = host.module("numba.cuda")
        facts["versions"] = {"numba": str(host.module("numba").value("__version__"))}
        if cuda.has("__version__"):
            facts["versions"]["numba-cuda"] = str(cuda.value("__version__"))
        gpu = trial["gpu"](host, facts)
        if gpu is None:
            return
        factor, left, right, known = trial["vectors"]()
        trial["step"](host, facts, "compile")
        signature = "void(float32[::1], float32, float32[::1], float32[::1])"
        kernel = cuda.call("jit", signature)(saxpy(cuda.loaded))
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        arrays = (cuda.call("as_cuda_array", gpu.array(numbers)) for numbers in ([0] * len(known), left, right))
        out, first, second = arrays
        kernel[1, len(known)](out, float(factor), first, second)
        facts["ok"] = out.copy_to_host().tolist() == known

    answer: "Facts" = trial["run"](host, work)
    return answer


def saxpy(cuda: "Any") -> "Callable[..., None]":
    """Return the kernel."""

    def kernel(out: "Any", factor: "Any", left: "Any", right: "Any") -> None:
        at = cuda.grid(1)
        if at < out.size:
            out[at] = factor * left[at] + right[at]

    return kernel
