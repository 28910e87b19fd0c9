"""cuda.bindings, a trial: memory, a kernel from PTX and its launch through the driver interface.

Until 12.6 the module was ``cuda.cuda``. Every call gives its error first, then what it answers.
"""

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from probes.host import Answer, Facts, Host, Library


class RefusedError(Exception):
    """A call gave an error."""


def exercise(host: "Host") -> "Answer":
    """Return the result of factor * left + right through cuda.bindings."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        driver = module(host)
        facts["versions"] = {"cuda-bindings": version(host)}
        gpu = trial["gpu"](host, facts)
        if gpu is None:
            return
        must(driver, "cuInit", 0)
        must(driver, "cuCtxSetCurrent", must(driver, "cuDevicePrimaryCtxRetain", must(driver, "cuDeviceGet", 0)))
        trial["step"](host, facts, "compile")
        code = ctypes.create_string_buffer(host.shared("cuda_device.py")["PTX"])
        kernel = must(driver, "cuModuleGetFunction", must(driver, "cuModuleLoadData", ctypes.addressof(code)), b"saxpy")
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        factor, left, right, known = trial["vectors"]()
        places = [int(must(driver, "cuMemAlloc", 4 * len(known))) for _ in range(3)]
        for place, numbers in zip(places[1:], (left, right)):
            held = (ctypes.c_float * len(numbers))(*numbers)
            must(driver, "cuMemcpyHtoD", place, ctypes.addressof(held), ctypes.sizeof(held))
        out, first, second = (ctypes.c_uint64(place) for place in places)
        given = (out, ctypes.c_float(factor), first, second, ctypes.c_uint(len(known)))
        pointers = (ctypes.c_void_p * len(given))(*(ctypes.addressof(one) for one in given))
        size = (1, 1, 1, len(known), 1, 1)
        must(driver, "cuLaunchKernel", kernel, *size, 0, 0, ctypes.addressof(pointers), 0)
        must(driver, "cuCtxSynchronize")
        answer = (ctypes.c_float * len(known))()
        must(driver, "cuMemcpyDtoH", ctypes.addressof(answer), places[0], ctypes.sizeof(answer))
        facts["ok"] = list(answer) == known

    answer: "Facts" = trial["run"](host, work)
    return answer


def module(host: "Host") -> "Library":
    """Return the module with the driver's functions."""
    try:
        return host.module("cuda.bindings.driver")
    except ModuleNotFoundError as error:
        if error.name not in ("cuda.bindings", "cuda.bindings.driver"):
            raise
        return host.module("cuda.cuda")


def version(host: "Host") -> str:
    """Return the bindings' own version."""
    name = "cuda.bindings" if host.shared("installed.py")["places"](host, "cuda/bindings") else "cuda"
    return str(host.module(name).value("__version__"))


def must(driver: "Library", name: str, *args: "Any") -> "Any":
    """Call the driver; gives its answer, or raises RefusedError with the name of its error."""
    code, *answer = driver.call(name, *args)
    if int(code):
        raise RefusedError("%s: %s" % (name, getattr(code, "name", code)))
    return answer[0] if answer else None
