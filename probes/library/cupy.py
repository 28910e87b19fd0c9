"""CuPy, a trial: an expression that it compiles by NVRTC, and a product of matrices by cuBLAS."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Facts, Host


def exercise(host: "Host") -> "Answer":
    """Return the result of factor * left + right and of a matrix product."""
    trial = host.shared("trial.py")
    trial["variables"](CUPY_CACHE_IN_MEMORY="1")  # it writes nothing to the user's cache

    def work(facts: "Facts") -> None:
        cupy = host.module("cupy")
        facts["versions"] = {"cupy": str(cupy.value("__version__"))}
        if trial["gpu"](host, facts) is None:
            return
        factor, left, right, known = trial["vectors"]()
        trial["step"](host, facts, "compile")
        first, second = (cupy.call("asarray", numbers, "float32") for numbers in (left, right))
        total = factor * first + second
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        one, other, product = trial["matrices"]()
        sides = (cupy.call("asarray", side, "float32") for side in (one, other))
        facts["ok"] = cupy.call("matmul", *sides).tolist() == product and total.tolist() == known

    answer: "Facts" = trial["run"](host, work)
    return answer
