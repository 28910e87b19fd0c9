"""Calls of the driver in C loops, with prepared arguments: the host's cost of an operation.

Python's overhead per call is measured with the same loop over an empty function, and subtracted. The calls hold
Python's lock, so that no other thread of ours interferes.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, repeat, starmap
from statistics import median
from typing import Any

from gpustack.bench.timing import Timer, Train

LIBRARY = "libcuda.so.1"
THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
Given = tuple[Any, ...]


class RefusedError(Exception):
    """The driver returned an error."""


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Functions of the driver, called repeatedly in turn with these arguments."""

    steps: Sequence[tuple[str, Given]]
    kept: object = None  # what must live as long as its address among the arguments

    def __call__(self, count: int) -> None:
        """Call them this many times; raises RefusedError with the first error."""
        if code := _loop(self._functions, [given for _, given in self.steps], count):
            raise RefusedError(f"{' and '.join(name for name, _ in self.steps)} answered {code}")

    def idle(self, count: int) -> float:
        """Return the seconds that Python alone needs for this many calls."""
        begun = time.perf_counter()
        _loop([_nothing()] * len(self.steps), [given for _, given in self.steps], count)
        return time.perf_counter() - begun

    @cached_property
    def _functions(self) -> list[Any]:
        library = ctypes.PyDLL(LIBRARY)
        return [getattr(library, name) for name, _ in self.steps]


def _loop(functions: Sequence[Any], given: Sequence[Given], count: int) -> int:
    """Call functions in turn for this many rounds, without Python code in between; return the first error code."""
    each = [starmap(function, repeat(one, count)) for function, one in zip(functions, given, strict=True)]
    return next(filter(None, map(next, cycle(each))), 0)


def _nothing() -> Any:  # noqa: ANN401 - a function of the C library
    function = ctypes.PyDLL(None).abs  # it reads only its first argument, and the caller removes them all
    function.restype = None
    return function


def launches(function: int, arguments: Sequence[ctypes._SimpleCData[Any]], stream: int) -> Calls:
    """Return the launch of a kernel with one block of one thread."""
    held = [ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p) for argument in arguments]
    table = (ctypes.c_void_p * len(held))(*held)
    one, none = ctypes.c_uint(1), ctypes.c_uint(0)
    given = (ctypes.c_void_p(function), *[one] * 6, none, ctypes.c_void_p(stream), table, ctypes.c_void_p(0))
    return Calls(steps=[("cuLaunchKernel", given)], kept=arguments)


def pooled(size: int, stream: int) -> Calls:
    """Return an asynchronous allocation of this many bytes from the device's pool, and its release."""
    at, ordered = ctypes.c_uint64(0), ctypes.c_void_p(stream)
    take = ("cuMemAllocAsync", (ctypes.byref(at), ctypes.c_size_t(size), ordered))
    return Calls(steps=[take, ("cuMemFreeAsync", (at, ordered))])


@contextmanager
def captured(enqueue: Callable[[], None], stream: int) -> Iterator[Calls]:
    """Yield the replay of a graph of the work that this enqueues."""
    library, ready = ctypes.CDLL(LIBRARY), ctypes.c_void_p()
    with graph_of(library, enqueue, stream) as graph:
        try:
            must(library, "cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
            yield Calls(steps=[("cuGraphLaunch", (ready, ctypes.c_void_p(stream)))])
        finally:
            if ready.value:
                must(library, "cuGraphExecDestroy", ready)


@contextmanager
def graph_of(library: ctypes.CDLL, enqueue: Callable[[], None], stream: int) -> Iterator[ctypes.c_void_p]:
    """Yield the graph of the work that this enqueues, without running it; raises RefusedError on an error."""
    ordered, graph = ctypes.c_void_p(stream), ctypes.c_void_p()
    must(library, "cuStreamBeginCapture_v2", ordered, ctypes.c_int(THIS_THREAD))
    try:
        enqueue()
    finally:
        must(library, "cuStreamEndCapture", ordered, ctypes.byref(graph))
    try:
        yield graph
    finally:
        must(library, "cuGraphDestroy", graph)


def must(library: ctypes.CDLL, name: str, *given: object) -> None:
    """Call a driver function; raises RefusedError if it is missing or returns an error."""
    try:
        code = getattr(library, name)(*given)
    except AttributeError as error:
        raise RefusedError(f"this driver has no {name}") from error
    if code:
        raise RefusedError(f"{name} answered {code}")


class Slope:
    """Samples the cost of a call as the extra time of twice as many: ``count`` and twice ``count`` calls.

    Up to ``queued`` calls fit behind the closed gate, which shows the GPU's own part. The larger of the host's and the
    GPU's part is what such a call costs in a program that makes one after another.
    """

    def __init__(self, calls: Calls, *, count: int, operations: int = 1, queued: int = 0) -> None:
        """Sample these calls, each of which is this many operations."""
        self.runs = count
        self._calls, self._operations, self._queued = calls, operations, queued
        self._gpu: float | None = None
        self._python: list[float] = []

    def take(self, timer: Timer) -> Train:
        """Return one sample: the seconds of one call, without Python's overhead."""
        if self._gpu is None:
            timer.first(lambda: self._calls(2 * self.runs))
            self._gpu = self._ready(timer) if self._queued else 0.0
        few, many = (_burst(timer.open(), self._calls, count) for count in (self.runs, 2 * self.runs))
        self._python.append(self._calls.idle(2 * self.runs) / (2 * self.runs))
        host = (many.seconds - few.seconds) / self.runs - median(self._python)
        return Train(max(host, self._gpu, 1e-12), many.clock_mhz)

    def told(self) -> Mapping[str, object]:
        """Return details for the method: Python's and the GPU's time per operation, in microseconds."""
        python = round(median(self._python) * 1e6 / self._operations, 4)
        gpu = {"gpu_us": round(self._gpu * 1e6 / self._operations, 4)} if self._gpu else {}
        return {"calls": [self.runs, 2 * self.runs], "python_us": python, **gpu}

    def _ready(self, timer: Timer) -> float:
        """Return the GPU time of a call when all are queued behind the gate; zero if the gate timed out."""
        half = self._queued // 2
        few, many = (_burst(timer, self._calls, count) for count in (half, 2 * half))
        return (many.seconds - few.seconds) / half if timer.gated else 0.0


def _burst(timer: Timer, calls: Calls, count: int) -> Train:
    return timer.train(lambda: calls(count), 1)
