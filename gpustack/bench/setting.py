"""The environment of a measuring child: its variables, NVIDIA's libraries, and NCCL among several GPUs.

Names and numbers are those of nccl.h, unchanged since NCCL 2. One thread serves all GPUs, in groups of calls:
docs/decisions/0008.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpustack.bench import numa
from gpustack.collect import targets

if TYPE_CHECKING:
    from gpustack.bench.card import Card, Memory
    from gpustack.bench.exchange import Everybody, Gathering, Pair
    from gpustack.bench.routes import Site
    from gpustack.model.bench import Device

PLACES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
WHEELS = ("nvidia/cublas/lib", "nvidia/cu13/lib", "nvidia/cu14/lib", "torch/lib")
NCCL_WHEELS = ("nvidia/nccl/lib", "torch/lib")  # one folder for every major version of CUDA
# The first would measure fp32 as tf32 or the reverse; with the second the gate would wait for itself.
UNSET = frozenset({"NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING"})
# NVLink multicast belongs to the whole host, and one failing user blocks it for all: enable it explicitly.
UNLESS_SET = {"NCCL_NVLS_ENABLE": "0"}
AGAIN = "gpustack bench 'pcie.*.all' 'p2p.*' 'nccl.*'"
SHOWN = "CUDA_VISIBLE_DEVICES"
_WORD = 4  # bytes of a number
_FLOAT32, _SUM = 7, 0  # ncclDataType_t, ncclRedOp_t
_WIDER = 10000  # from 2.9 on a version is 20900; before that 2804 was 2.8.4
UNSUFFIXED = 13000  # from CUDA 13 on the wheel is that of 13


def of_environment(prefixes: Sequence[str], name: str = "cublasLt", wheels: Sequence[str] = WHEELS) -> str | None:
    """Return the newest copy of a library in the first of these environments that has one, from a wheel or its lib."""
    whole = re.compile(rf"lib{name}\.so\.(\d+)")
    for prefix in map(Path, prefixes):
        folders = [folder / wheel for place in PLACES for folder in sorted(prefix.glob(place)) for wheel in wheels]
        found = [path for folder in [*folders, prefix / "lib"] for path in folder.glob(f"lib{name}.so.*")]
        named = [(int(match[1]), str(path)) for path in found if (match := whole.fullmatch(path.name))]
        if named:
            return max(named)[1]
    return None


def alone(environ: Mapping[str, str], devices: Sequence[Device]) -> tuple[str, str]:
    """Return why multi-GPU benchmarks are skipped with one GPU, and the command that enables them."""
    if len(devices) > 1:
        named = " ".join(f"--gpu {device.index}" for device in devices)
        return "one GPU was named, but this needs two or more", f"{AGAIN} {named}"
    if SHOWN in environ:
        return f"{SHOWN} shows one GPU, but this needs two or more", f"env -u {SHOWN} {AGAIN}"
    return "CUDA shows one GPU, but this needs two or more", "nvidia-smi topo -m"


def found_here(name: str = "cublasLt") -> str | None:
    """Return the library that NVIDIA's own search finds for this process: wheels, conda, the loader, CUDA_PATH."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib  # noqa: PLC0415 - only a child that measures products needs it

    try:
        path = load_nvidia_dynamic_lib(name).abs_path
    except (DynamicLibNotFoundError, RuntimeError, OSError):
        return None
    return str(path) if path else None


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a measuring child: ours without variables that would distort figures."""
    kept = {name: value for name, value in environ.items() if name not in UNSET}
    return {**UNLESS_SET, **kept, "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def library(pythons: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the cuBLASLt that a framework of the first of these Pythons would load, or None."""
    return of_environment(_prefixes(pythons, environ))


def collective(pythons: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the NCCL that a framework of the first of these Pythons would load, or None."""
    return of_environment(_prefixes(pythons, environ), "nccl", NCCL_WHEELS)


def _prefixes(pythons: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    chosen = targets.choose(pythons, environ)[0]
    own = str(Path(environ.get("HOME", "/nowhere"), ".local"))
    prefixes = [chosen.prefix] if chosen.prefix else []
    return [*prefixes, *([own] if chosen.kind == "system" else [])]


class NcclError(Exception):
    """The library returned an error, or could not be loaded."""


@dataclass(slots=True)
class Nccl:
    """One loaded copy of the library, with its real path and version."""

    path: str
    version: str = ""
    _library: ctypes.CDLL = field(init=False)

    def __post_init__(self) -> None:
        """Load it; raises NcclError on failure."""
        number = ctypes.c_int()
        try:
            self._library = ctypes.CDLL(self.path)
            self._library.ncclGetErrorString.restype = ctypes.c_char_p
            code = self._library.ncclGetVersion(ctypes.byref(number))
        except (OSError, AttributeError) as error:
            raise NcclError(str(error)) from error
        if code:
            raise NcclError(f"ncclGetVersion answered {code}")
        self.path = os.path.realpath(self.path)
        self.version = _version(number.value)

    def join(self, gpus: Sequence[int]) -> Ring:
        """Return the communicators of these GPUs (CUDA's numbers); raises NcclError on failure."""
        made = (ctypes.c_void_p * len(gpus))()
        self.must("ncclCommInitAll", made, ctypes.c_int(len(gpus)), (ctypes.c_int * len(gpus))(*gpus))
        return Ring(self, [ctypes.c_void_p(one) for one in made])

    def must(self, function: str, *given: object) -> None:
        """Call a function; raises NcclError with the library's error message."""
        if code := getattr(self._library, function)(*given):
            raise NcclError(f"{function} answered {code}: {self._why(code)}")

    def _why(self, code: int) -> str:
        said = (self._library.ncclGetErrorString(code) or b"").decode("utf-8", "replace")
        try:
            self._library.ncclGetLastError.restype = ctypes.c_char_p
            last = (self._library.ncclGetLastError(None) or b"").decode("utf-8", "replace").strip()
        except AttributeError:  # before 2.13
            last = ""
        return f"{said} ({last.splitlines()[-1]})" if last else said


class Ring:
    """The communicators of several GPUs, all served by this thread."""

    def __init__(self, library: Nccl, members: Sequence[ctypes.c_void_p]) -> None:
        """Serve these communicators, in the order of their GPUs."""
        self._library, self._members = library, members

    def add(self, count: int, ways: Sequence[tuple[int, int, int]]) -> None:
        """Enqueue the sum of this many 32-bit numbers; a way is source, target and stream of one GPU."""
        self._each("ncclAllReduce", count, (ctypes.c_int(_SUM),), ways)

    def _each(self, name: str, count: int, how: tuple[ctypes.c_int, ...], ways: Sequence[tuple[int, int, int]]) -> None:
        """Make the same call for each GPU, as one group."""
        call, number, kind = self._library.must, ctypes.c_size_t(count), ctypes.c_int(_FLOAT32)
        call("ncclGroupStart")
        for member, (source, to, stream) in zip(self._members, ways, strict=True):
            where = ctypes.c_void_p(source), ctypes.c_void_p(to)
            call(name, *where, number, kind, *how, member, ctypes.c_void_p(stream))
        call("ncclGroupEnd")

    def gather(self, count: int, ways: Sequence[tuple[int, int, int]]) -> None:
        """Enqueue an all-gather: each sends this many numbers, from its position in its source."""
        each = count // len(ways)
        self._each("ncclAllGather", each, (), [(a + n * each * _WORD, b, c) for n, (a, b, c) in enumerate(ways)])

    def scatter(self, count: int, ways: Sequence[tuple[int, int, int]]) -> None:
        """Enqueue a reduce-scatter: each gets only its part of the sum, at its position in its target."""
        each, how = count // len(ways), (ctypes.c_int(_SUM),)
        self._each("ncclReduceScatter", each, how, [(a, b + n * each * _WORD, c) for n, (a, b, c) in enumerate(ways)])

    def exchange(self, count: int, ways: Sequence[tuple[int, int, int]]) -> None:
        """Enqueue an all-to-all: each sends every other its part, and gets one from each."""
        each = count // len(ways)
        pairs = product(range(len(ways)), repeat=2)
        self._pass([(one, other, other * each, one * each, each) for one, other in pairs], ways)

    def hand_on(self, count: int, ways: Sequence[tuple[int, int, int]]) -> None:
        """Enqueue that each sends all its numbers to the next one, and the last one to the first."""
        self._pass([(one, (one + 1) % len(ways), 0, 0, count) for one in range(len(ways))], ways)

    def _pass(self, parts: Sequence[tuple[int, int, int, int, int]], ways: Sequence[tuple[int, int, int]]) -> None:
        """Send parts: source rank, target rank, offset in the source, offset in the target, and count."""
        call, kind = self._library.must, ctypes.c_int(_FLOAT32)
        call("ncclGroupStart")
        for one, other, at, to, count in parts:
            number = ctypes.c_size_t(count)
            for name, own, peer, address in (
                ("ncclSend", one, other, ways[one][0] + at * _WORD),
                ("ncclRecv", other, one, ways[other][1] + to * _WORD),
            ):
                stream = ctypes.c_void_p(ways[own][2])
                call(name, ctypes.c_void_p(address), number, kind, ctypes.c_int(peer), self._members[own], stream)
        call("ncclGroupEnd")

    def close(self) -> None:
        """Destroy the communicators."""
        for member in self._members:
            self._library.must("ncclCommDestroy", member)


def _version(number: int) -> str:
    """Return a version in its usual form."""
    step = 10000 if number >= _WIDER else 1000
    return f"{number // step}.{number % step // 100}.{number % 100}"


@dataclass(frozen=True, slots=True)
class Several:
    """The GPU to measure, the NCCL to use (None: the one found here), and how to skip with a remedy."""

    card: Card
    library: str | None
    skip: Callable[[str, str], NoReturn]

    @contextmanager
    def far(self) -> Iterator[str]:
        """Allocate host memory on the node furthest from this GPU; skips if the kernel reports none."""
        with ExitStack() as stack:
            try:
                said = stack.enter_context(numa.far(self.card.pci))
            except numa.RefusedError as error:
                self.skip(f"no far NUMA node: {error}", "numactl --hardware")
            yield said

    def pair(self, other: int) -> Pair:
        """Return this GPU and another one, each accessing the other's memory if the driver allows it."""
        from gpustack.bench.exchange import paired  # noqa: PLC0415 - it needs the bindings, which may be missing

        return paired(self.card, other)

    def everybody(self, others: Sequence[int]) -> tuple[list[Site], str | None]:
        """Return this GPU and others, each accessing every other's memory, or why one of them cannot."""
        from gpustack.bench.exchange import everybody  # noqa: PLC0415 - it needs the bindings, which may be missing

        return everybody(self.card, others)

    def crowd(self, sites: Sequence[Site], held: Sequence[tuple[Memory, Sequence[Memory]]]) -> Everybody:
        """Return the sampler of the copies from each GPU to every other."""
        from gpustack.bench.exchange import Everybody  # noqa: PLC0415 - it needs the bindings, which may be missing

        return Everybody(self.card, sites, held)

    def gathering(self, others: Sequence[int]) -> tuple[AbstractContextManager[Gathering], Mapping[str, Any]]:
        """Return this GPU and others joined by NCCL, and which copy of it that is; skips if unavailable."""
        from gpustack.bench.exchange import joined  # noqa: PLC0415 - it needs the bindings, which may be missing

        path = self.library or found_here("nccl")
        remedy = f"pip install nvidia-nccl-cu{13 if self.card.cuda >= UNSUFFIXED else 12}"
        if path is None:
            self.skip("there is no NCCL here", remedy)
        try:
            library = Nccl(path)
        except NcclError as error:
            self.skip(f"the NCCL at {path} cannot be loaded: {error}", remedy)
        told = {"library": library.path, "library_version": library.version}
        return joined(self.card, others, library), told
