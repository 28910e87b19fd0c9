"""Stand-ins, in Python, for a GPU and for what computes on it: device memory is this process's own."""

# ruff: noqa: ANN401, SLF001, ARG005 - a vendor's arrays have any type, and ctypes passes by reference

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class Driver:
    """libcuda as far as probes/cuda_device.py calls it; ``codes`` are what its functions return instead of success."""

    def __init__(self, count: int = 1, **codes: int) -> None:
        self.count = count
        self.codes = codes
        self.held: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        work = getattr(type(self), f"do_{name}", lambda *_: None)

        def call(*args: Any) -> int:
            if name not in self.codes:
                work(self, *args)
            return self.codes.get(name, 0)

        return call

    def do_cuDeviceGetCount(self, to: Any) -> None:  # noqa: N802 - the driver's name
        """Return how many GPUs there are."""
        to._obj.value = self.count

    def do_cuDeviceGetName(self, to: Any, _size: int, _device: Any) -> None:  # noqa: N802
        """Return the GPU's name."""
        to.value = b"Stand-in"

    def do_cuMemAlloc_v2(self, to: Any, size: Any) -> None:  # noqa: N802
        """Allocate memory."""
        memory = ctypes.create_string_buffer(size.value)
        self.held[ctypes.addressof(memory)] = memory
        to._obj.value = ctypes.addressof(memory)

    def do_cuMemcpyHtoD_v2(self, to: Any, source: Any, size: Any) -> None:  # noqa: N802
        """Copy to the device."""
        ctypes.memmove(to.value, source, size.value)

    def do_cuMemcpyDtoH_v2(self, to: Any, source: Any, size: Any) -> None:  # noqa: N802
        """Copy from the device."""
        ctypes.memmove(to, source.value, size.value)

    def do_cuGetErrorString(self, _code: int, to: Any) -> None:  # noqa: N802
        """Return an error's description."""
        to._obj.value = b"the stand-in refuses"


def put(array: Any, numbers: Sequence[int]) -> None:
    """Write numbers into one of the probe's arrays."""
    array.gpu.write(array.address, list(numbers), array.dtype)


class Numbers:
    """A vector or a matrix like many libraries' arrays; ``wrong`` ones get one added to a number."""

    def __init__(self, rows: Any, *, wrong: bool = False) -> None:
        self.rows, self.wrong = rows, wrong

    def __rmul__(self, factor: float) -> Numbers:
        return Numbers([factor * number for number in self.rows], wrong=self.wrong)

    def __add__(self, other: Numbers) -> Numbers:
        total = [one + more for one, more in zip(self.rows, other.rows, strict=True)]
        return Numbers([total[0] + self.wrong, *total[1:]])

    def tolist(self) -> Any:
        """Return plain lists."""
        return self.rows

    def to(self, _device: str) -> Numbers:
        """Return itself: all memory is the same."""
        return self

    float = numpy = to_host = lambda self: self


def product(left: Numbers, right: Numbers) -> Numbers:
    """Multiply two matrices."""
    columns = list(zip(*right.rows, strict=True))
    return Numbers([[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left.rows])


def spoilt(answer: Numbers, *, wrong: bool) -> Numbers:
    """Return the matrix, with its first number wrong if requested."""
    answer.rows[0][0] += wrong
    return answer


def cupy(*, wrong: bool) -> dict[str, Any]:
    """CuPy: lists instead of arrays."""
    make = lambda rows, _kind: Numbers(rows)  # noqa: E731
    matmul = lambda left, right: spoilt(product(left, right), wrong=wrong)  # noqa: E731
    return {"cupy": {"__version__": "14", "asarray": make, "matmul": matmul}}


def nvmath(*, wrong: bool) -> dict[str, Any]:
    """nvmath-python and the NumPy that it uses."""
    matmul = lambda left, right: spoilt(product(left, right), wrong=wrong)  # noqa: E731
    numpy = {"asarray": lambda rows, _kind: Numbers(rows)}
    return {"nvmath": {"__version__": "1"}, "nvmath.linalg.advanced": {"matmul": matmul}, "numpy": numpy}


def compute(*, wrong: bool) -> dict[str, Any]:
    """cuda.compute, which adds."""

    def reduce_into(*, d_in: Any, d_out: Any, op: str, num_items: int, h_init: list[int]) -> None:
        assert (op, num_items, h_init) == ("plus", len(d_in.tolist()), [0])
        assert d_in.__cuda_array_interface__["typestr"] == "<i4"
        put(d_out, [sum(d_in.tolist()) + wrong])

    module = {"OpKind": SimpleNamespace(PLUS="plus"), "reduce_into": reduce_into}
    return {"cuda.compute": module, "numpy": {"array": lambda held, _kind: held}}


def numba(*, wrong: bool) -> dict[str, Any]:
    """numba-cuda and cuda.coop: threads run one after the other, the first last, so that it knows all sums."""
    at = SimpleNamespace(x=0)
    sums: list[int] = []

    class Kernel:
        def __init__(self, work: Callable[..., None]) -> None:
            self.work = work

        def __getitem__(self, size: tuple[int, int]) -> Callable[..., None]:
            def launch(out: Any, *given: Any) -> None:
                for number in reversed(range(size[1])):
                    at.x = number
                    self.work(out, *given)
                out.numbers[0] += wrong

            return launch

    class Held:
        def __init__(self, array: Any) -> None:
            self.numbers = array.tolist()
            self.size = len(self.numbers)

        def __getitem__(self, number: int) -> Any:
            return self.numbers[number]

        def __setitem__(self, number: int, held: Any) -> None:
            self.numbers[number] = held

        def copy_to_host(self) -> Numbers:
            return Numbers(self.numbers)

    def total(number: int) -> int:
        sums.append(number)
        return sum(sums)

    total.files = ["a"]  # type: ignore[attr-defined]  # as what CCCL gives has them
    cuda = {
        "__version__": "0.30",
        "jit": lambda _signature, link=(): Kernel,
        "as_cuda_array": Held,
        "grid": lambda _: at.x,
        "threadIdx": at,
    }
    block = SimpleNamespace(make_sum=lambda _kind, _threads: total)
    older = SimpleNamespace(sum=lambda _kind, _threads: total)
    modules = {"numba.cuda": cuda, "numba": {"__version__": "0.68", "int32": "i4"}, "cuda.coop": {"block": block}}
    return {**modules, "cuda.cccl.cooperative.experimental": {"block": older}}


def triton(*, wrong: bool) -> dict[str, Any]:
    """Triton: it accepts the kernel and does what the kernel would."""

    class Kernel:
        def __init__(self, work: Callable[..., None]) -> None:
            assert "language.load" in (work.__doc__ or "language.load")

        def __getitem__(self, _grid: tuple[int]) -> Callable[..., None]:
            def launch(out: Any, factor: float, left: Any, right: Any, BLOCK: int) -> None:  # noqa: N803
                pairs = zip(left.tolist(), right.tolist(), strict=True)
                numbers = [int(factor * one + other) for one, other in pairs]
                assert len(numbers) == BLOCK
                put(out, [numbers[0] + wrong, *numbers[1:]])

            return launch

    return {"triton": {"__version__": "3.9", "jit": Kernel}, "triton.language": {}}


def torch(*, wrong: bool, gpu: str | None = "cuda") -> dict[str, Any]:
    """PyTorch with its compilers; ``gpu`` is the kind of GPU that it sees."""

    class Unit:
        def __init__(self, source: str) -> None:
            exec(source, {"Tensor": object}, self.__dict__)  # noqa: S102 - what TorchScript compiles is Python too

    kinds = {
        kind: SimpleNamespace(is_available=lambda kind=kind: kind == gpu, get_device_name=lambda _: "Stand-in")
        for kind in ("cuda", "xpu")
    }
    return {
        "torch": {
            "__version__": "2.11",
            "tensor": lambda rows: Numbers(rows, wrong=wrong),
            "jit": SimpleNamespace(CompilationUnit=Unit),
            "compile": lambda function, backend: function if backend == "inductor" else None,
            **kinds,
        }
    }


def tensorflow(*, wrong: bool, gpus: Sequence[str] = ("GPU:0",)) -> dict[str, Any]:
    """TensorFlow."""
    devices: list[str] = []

    @contextmanager
    def device(name: str) -> Iterator[None]:
        devices.append(name)
        yield

    def matmul(left: Numbers, right: Numbers) -> Numbers:
        assert devices == (["/GPU:0"] if gpus else ["/CPU:0"])
        return spoilt(product(left, right), wrong=wrong)

    config = SimpleNamespace(list_physical_devices=lambda kind: list(gpus) if kind == "GPU" else [])
    module = {"__version__": "2.20", "config": config, "device": device, "matmul": matmul}
    return {"tensorflow": {**module, "constant": lambda rows, _kind: Numbers(rows)}}
