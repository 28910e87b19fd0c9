"""cuda.compute, a trial: the sum of whole numbers by the reduction of CCCL, which it compiles for the GPU.

The distribution cuda-cccl brings it, until 0.3.0 as ``cuda.cccl.parallel.experimental`` (read in its wheels 0.1.3 to
1.2.1, as are the arguments). Where it finds no driver it can be imported and has none of its functions.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Facts, Host, Library


def exercise(host: "Host") -> "Answer":
    """Return the result of a sum on the GPU."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        gpu = trial["gpu"](host, facts)
        if gpu is None:  # to import it asks the driver: some releases fail, some come up empty
            return
        compute, numpy = module(host), host.module("numpy")
        plus = compute.loaded.OpKind.PLUS  # raises, with reason given, where it came up empty
        numbers = trial["vectors"]()[1]
        given, out = gpu.array(numbers, "int32"), gpu.array([0], "int32")
        trial["step"](host, facts, "compile")
        start = numpy.call("array", [0], "int32")
        with trial["scratch"]() as folder:
            trial["variables"](CCCL_PCH_CACHE_DIR=folder)
            # one call that compiles and launches
            compute.value("reduce_into")(d_in=given, d_out=out, op=plus, num_items=len(numbers), h_init=start)
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        facts["ok"] = out.tolist() == [sum(numbers)]

    answer: "Facts" = trial["run"](host, work)
    return answer


def module(host: "Host") -> "Library":
    """Return the module with the algorithms."""
    newer = host.shared("installed.py")["places"](host, "cuda/compute")
    return host.module("cuda.compute" if newer else "cuda.cccl.parallel.experimental")
