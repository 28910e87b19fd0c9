"""cuda.core, a trial: a kernel compiled by NVRTC, loaded, launched on a stream of its own, in memory that it gave.

Until 0.4 all of it lay in ``cuda.core.experimental``. Without NVRTC, which its distribution does not bring, the driver
compiles the same kernel from PTX.
"""

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from probes.host import Answer, Facts, Host, Library


def exercise(host: "Host") -> "Answer":
    """Return the result of factor * left + right through cuda.core."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        facts["versions"] = {"cuda-core": str(host.module("cuda.core").value("__version__"))}
        core = module(host)
        gpu = trial["gpu"](host, facts)
        if gpu is None:
            return
        device = core.call("Device", 0)
        device.set_current()
        stream = device.create_stream()
        trial["step"](host, facts, "compile")
        kernel = compiled(host, core, facts)
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        factor, left, right, known = trial["vectors"]()
        buffers = [device.allocate(4 * len(known), stream=stream) for _ in range(3)]
        stream.sync()
        out, first, second = (int(buffer.handle) for buffer in buffers)
        gpu.write(first, left)
        gpu.write(second, right)
        config = core.value("LaunchConfig")(grid=1, block=len(known))
        given = (ctypes.c_float(factor), buffers[1], buffers[2], ctypes.c_uint(len(known)))
        core.call("launch", stream, config, kernel, buffers[0], *given)
        stream.sync()
        facts["ok"] = gpu.read(out, len(known)) == known

    answer: "Facts" = trial["run"](host, work)
    return answer


def module(host: "Host") -> "Library":
    """Return the module with Device and Program."""
    core = host.module("cuda.core")
    return core if core.has("Device") else host.module("cuda.core.experimental")


def compiled(host: "Host", core: "Library", facts: "Facts") -> "Any":
    """Return the kernel, and tell what compiled it."""
    written = host.shared("cuda_device.py")
    if has_nvrtc(host) or not hasattr(core.value("ObjectCode"), "from_ptx"):
        facts["compiler"] = "nvrtc"
        return core.call("Program", written["SOURCE"], "c++").compile("cubin").get_kernel("saxpy")
    facts["compiler"] = "driver"
    return core.value("ObjectCode").from_ptx(written["PTX"].rstrip(b"\0")).get_kernel("saxpy")


def has_nvrtc(host: "Host") -> bool:
    """Return whether NVRTC is found here: each release of the bindings has an error of its own for that."""
    try:
        host.module("cuda.bindings.nvrtc").call("nvrtcVersion")
    except Exception:  # noqa: BLE001 - whatever it is, there is none to compile with
        return False
    return True
