"""The CUDA runtime, a trial: memory, a stream, events, and a graph captured and launched, through libcudart alone.

The copy is the one that the target's Python would load: its own wheel's first, else the system's.
"""

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional

    from probes.host import Answer, Facts, Host, Library

SIZE = 4096
BYTES = (0x5A, 0xC3)
RELAXED = 2  # cudaStreamCaptureModeRelaxed


class RuntimeRefusedError(Exception):
    """A call gave an error."""


def exercise(host: "Host") -> "Answer":
    """Return the result of filling memory by a graph and reading it back; None if there is no copy."""
    trial = host.shared("trial.py")
    path = found(host)
    if path is None:
        return None

    def work(facts: "Facts") -> None:
        facts["path"] = path
        runtime = host.library(path)
        if trial["gpu"](host, facts) is None:
            return
        number = ctypes.c_int()
        must(runtime, "cudaRuntimeGetVersion", ctypes.byref(number))
        facts["versions"] = {"cuda": "%d.%d" % (number.value // 1000, number.value % 1000 // 10)}
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        must(runtime, "cudaSetDevice", 0)
        facts["ok"] = filled(runtime) == bytes(BYTES[:1]) * (SIZE // 2) + bytes(BYTES[1:]) * (SIZE // 2)

    answer: "Facts" = trial["run"](host, work)
    return answer


def found(host: "Host") -> "Optional[str]":
    """Return the first copy that is no stub: of this Python, else of the system."""
    gather = host.shared("library/shared_object.py")["gather"]
    target = host.environment
    real: "List[str]" = []
    for host.environment in (target, None) if target else (None,):
        real = [str(copy["at"]) for copy in gather(host) if not copy["stub"]]
        if real:
            break
    host.environment = target
    return real[0] if real else None


def filled(runtime: "Library") -> bytes:
    """Return memory that was filled half by a stream's work and half by a graph's."""
    memory, stream, done, graph, ready = (ctypes.c_void_p() for _ in range(5))
    must(runtime, "cudaMalloc", ctypes.byref(memory), ctypes.c_size_t(SIZE))
    must(runtime, "cudaStreamCreate", ctypes.byref(stream))
    must(runtime, "cudaEventCreate", ctypes.byref(done))
    half = ctypes.c_size_t(SIZE // 2)
    must(runtime, "cudaMemsetAsync", memory, BYTES[0], ctypes.c_size_t(SIZE), stream)
    must(runtime, "cudaStreamBeginCapture", stream, RELAXED)
    second = ctypes.c_void_p((memory.value or 0) + SIZE // 2)
    must(runtime, "cudaMemsetAsync", second, BYTES[1], half, stream)
    must(runtime, "cudaStreamEndCapture", stream, ctypes.byref(graph))
    # without ...WithFlags, which came with 11.4, the arguments differ between 11 and 12
    must(runtime, "cudaGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
    must(runtime, "cudaGraphLaunch", ready, stream)
    must(runtime, "cudaEventRecord", done, stream)
    must(runtime, "cudaEventSynchronize", done)
    answer = ctypes.create_string_buffer(SIZE)
    must(runtime, "cudaMemcpy", answer, memory, ctypes.c_size_t(SIZE), 2)
    for name, handle in (("cudaGraphExecDestroy", ready), ("cudaGraphDestroy", graph), ("cudaEventDestroy", done)):
        must(runtime, name, handle)
    must(runtime, "cudaStreamDestroy", stream)
    must(runtime, "cudaFree", memory)
    return answer.raw


def must(runtime: "Library", name: str, *args: "Any") -> None:
    """Call the runtime; raises RuntimeRefusedError with its words for what went wrong."""
    code = runtime.call(name, *args)
    if code:
        runtime.value("cudaGetErrorString").restype = ctypes.c_char_p
        said = runtime.call("cudaGetErrorString", code) or b"an error without a name"
        raise RuntimeRefusedError("%s: %s (%d)" % (name, said.decode("utf-8", "replace"), code))
