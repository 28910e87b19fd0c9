"""NCCL through ctypes: the very library that a framework would load, asked for one sum over all GPUs.

Names and numbers are those of nccl.h, which have been the same since NCCL 2. One thread serves all GPUs, in groups of
calls: docs/decisions/0008.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

_FLOAT32, _SUM = 7, 0  # ncclDataType_t, ncclRedOp_t
_WIDER = 10000  # from 2.9 on a version is 20900, before that 2804 was 2.8.4


class NcclError(Exception):
    """The library refused a call, or could not be loaded."""


@dataclass(slots=True)
class Nccl:
    """One loaded copy of the library, real path and version told."""

    path: str
    version: str = ""
    _library: ctypes.CDLL = field(init=False)

    def __post_init__(self) -> None:
        """Load it; raises NcclError where it will not."""
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
        """Give the communicators of these GPUs (CUDA's numbers); raises NcclError where they do not come about."""
        made = (ctypes.c_void_p * len(gpus))()
        self.must("ncclCommInitAll", made, ctypes.c_int(len(gpus)), (ctypes.c_int * len(gpus))(*gpus))
        return Ring(self, [ctypes.c_void_p(one) for one in made])

    def must(self, function: str, *given: object) -> None:
        """Call a function; raises NcclError with what the library says of its error."""
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
        """Enqueue the sum of so many numbers of 32 bits; a way is source, target and stream of one GPU."""
        call = self._library.must
        number, kind, how = ctypes.c_size_t(count), ctypes.c_int(_FLOAT32), ctypes.c_int(_SUM)
        call("ncclGroupStart")
        for member, (source, to, stream) in zip(self._members, ways, strict=True):
            where = ctypes.c_void_p(source), ctypes.c_void_p(to)
            call("ncclAllReduce", *where, number, kind, how, member, ctypes.c_void_p(stream))
        call("ncclGroupEnd")

    def close(self) -> None:
        """Take the communicators apart."""
        for member in self._members:
            self._library.must("ncclCommDestroy", member)


def _version(number: int) -> str:
    """Give a version as it is spoken of."""
    step = 10000 if number >= _WIDER else 1000
    return f"{number // step}.{number % step // 100}.{number % 100}"
