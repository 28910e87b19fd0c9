"""nvmath-python, a trial: a product of matrices by cuBLASLt, from NumPy's arrays and back."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Facts, Host


def exercise(host: "Host") -> "Answer":
    """Return the result of a matrix product with a known answer."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        facts["versions"] = {"nvmath-python": str(host.module("nvmath").value("__version__"))}
        advanced, numpy = host.module("nvmath.linalg.advanced"), host.module("numpy")
        if trial["gpu"](host, facts) is None:
            return
        left, right, known = trial["matrices"]()
        given = [numpy.call("asarray", side, "float32") for side in (left, right)]
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        facts["ok"] = advanced.call("matmul", *given).tolist() == known

    answer: "Facts" = trial["run"](host, work)
    return answer
