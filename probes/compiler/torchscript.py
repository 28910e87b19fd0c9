"""TorchScript, a trial: a function compiled from text by torch.jit, run until its fuser has made a GPU kernel.

The first run is only profiled and the second is compiled; the third uses the compiled code.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Facts, Host

SOURCE = """
def saxpy(factor: float, left: Tensor, right: Tensor):
    return factor * left + right
"""
RUNS = 3


def exercise(host: "Host") -> "Answer":
    """Return the result of factor * left + right by TorchScript."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        torch = host.module("torch")
        facts["versions"] = {"torch": str(torch.value("__version__"))}
        if not trial["torch_gpu"](torch, facts):
            return
        factor, left, right, known = trial["vectors"]()
        first, second = (torch.call("tensor", numbers).to(facts["device"]).float() for numbers in (left, right))
        trial["step"](host, facts, "compile")
        unit = torch.value("jit").CompilationUnit(SOURCE)
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        answers = [unit.saxpy(float(factor), first, second).tolist() for _ in range(RUNS)]
        facts["ok"] = all(answer == known for answer in answers)

    answer: "Facts" = trial["run"](host, work)
    return answer
