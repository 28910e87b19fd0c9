"""NVIDIA's run-time compiler through ctypes, whichever version is at hand, and where its copies lie.

It leaves the thread that calls it with the locale C: call it in a thread of its own.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpustack.errors import BrokenError, NothingSeenError

WHEELS = ("nvidia/cu14/lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")
TOOLKITS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
USUAL_TOOLKIT = "/usr/local/cuda"
_NAME = re.compile(r"libnvrtc\.so\.(\d+)")


class Nvrtc:
    """One copy of the compiler; ``version`` is its CUDA version."""

    def __init__(self, path: Path) -> None:
        """Load the library; raises NothingSeenError where it cannot be loaded."""
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise NothingSeenError(f"{path} cannot be loaded: {error}") from error
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._must(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.version = (major.value, minor.value)

    def architectures(self) -> frozenset[int]:
        """Give the architectures that it compiles for, as 90 for sm_90."""
        count = ctypes.c_int()
        self._must(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        known = (ctypes.c_int * count.value)()
        self._must(self._library.nvrtcGetSupportedArchs(known))
        return frozenset(known)

    def ptx(self, source: str, name: str, options: Sequence[str]) -> str:
        """Give the PTX of a source text; raises BrokenError with the compiler's words where it refuses it."""
        return self._made(source, name, options, "PTX").rstrip(b"\0").decode("utf-8", "replace")

    def cubin(self, source: str, name: str, options: Sequence[str]) -> bytes:
        """Give the machine code of a source text; raises BrokenError as ``ptx`` does."""
        return self._made(source, name, options, "CUBIN")

    def _made(self, source: str, name: str, options: Sequence[str], what: str) -> bytes:
        program, library = ctypes.c_void_p(), self._library
        self._must(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None))
        try:
            given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            if library.nvrtcCompileProgram(program, len(options), given):
                log = self._text(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
                raise BrokenError(f"{name} does not compile:\n{log}")
            return self._text(program, what)
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._must(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._must(getattr(self._library, f"nvrtcGet{what}")(program, text))
        return text.raw

    @staticmethod
    def _must(code: int) -> None:
        if code:
            raise BrokenError(f"NVRTC answered {code}")


def copies(library: str | None, path: Sequence[str], environ: Mapping[str, str]) -> Iterator[tuple[int, Path]]:
    """Give the copies that lie here with their major versions: beside this cuBLASLt, wheels on this path, toolkits."""
    for folder in _folders(library, path, environ):
        found = [(int(match[1]), each) for each in _files(folder) if (match := _NAME.fullmatch(each.name))]
        yield from sorted(found, reverse=True)


def _folders(library: str | None, path: Sequence[str], environ: Mapping[str, str]) -> Iterator[Path]:
    if library:
        beside = Path(library).parent
        yield from (beside, beside.parents[1] / "cuda_nvrtc/lib" if len(beside.parents) > 1 else beside)
    yield from (Path(folder, wheel) for folder in path if folder for wheel in WHEELS)
    toolkits = filter(None, (environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), environ.get("CONDA_PREFIX")))
    yield from (Path(root, lib) for root in (*toolkits, USUAL_TOOLKIT) for lib in TOOLKITS)


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.glob("libnvrtc.so.*"))
    except OSError:
        return []
