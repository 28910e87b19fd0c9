"""cuda.coop, a trial: a kernel of numba-cuda in which a block of threads adds its numbers by CCCL's block-wide sum.

The distribution cuda-cccl brings it, until 0.3.0 as ``cuda.cccl.cooperative.experimental``, from 1.0 as
``cuda.coop._experimental``, and from 1.2 no more (read in its wheels 0.1.3 to 1.2.1, as are the names of the sum).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from probes.host import Answer, Facts, Host, Library

THREADS = 128
NAMES = (
    ("cuda/coop/_experimental", "cuda.coop._experimental"),
    ("cuda/coop", "cuda.coop"),
    ("cuda/cccl/cooperative", "cuda.cccl.cooperative.experimental"),
)


def exercise(host: "Host") -> "Answer":
    """Return the result of a block's sum."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        coop = module(host)
        cuda, numba = host.module("numba.cuda"), host.module("numba")
        facts["versions"] = {"numba": str(numba.value("__version__"))}
        gpu = trial["gpu"](host, facts)
        if gpu is None:
            return
        numbers = trial["vectors"]()[1][:THREADS]
        trial["step"](host, facts, "compile")
        block = coop.value("block")
        total = (getattr(block, "make_sum", None) or block.sum)(numba.value("int32"), THREADS)
        kernel = cuda.value("jit")("void(int32[::1], int32[::1])", link=total.files)(adding(cuda.loaded, total))
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        given, out = (cuda.call("as_cuda_array", gpu.array(held, "int32")) for held in (numbers, [0]))
        kernel[1, THREADS](out, given)
        facts["ok"] = out.copy_to_host().tolist() == [sum(numbers)]

    with trial["scratch"]():  # where it puts what it compiles
        answer: "Facts" = trial["run"](host, work)
    return answer


def module(host: "Host") -> "Library":
    """Return the module with the algorithms of a block."""
    places = host.shared("installed.py")["places"]
    return host.module(next((name for place, name in NAMES if places(host, place)), "cuda.coop"))


def adding(cuda: "Any", total: "Any") -> "Callable[..., None]":
    """Return the kernel: each thread gives one number, the first writes the sum."""

    def add(out: "Any", given: "Any") -> None:
        held = total(given[cuda.threadIdx.x])
        if cuda.threadIdx.x == 0:
            out[0] = held

    return add
