"""Kernels made ready: PTX as it ships (``tools/kernels.py`` makes it), or compiled by NVRTC for the GPU at hand.

NVRTC leaves the thread that calls it with the locale C: call it in a thread of its own.

Compiled for one architecture they may use what only it has (bulk copies on Hopper, its wide products). What was made is
kept in the user's cache folder by source, architecture and compiler, with its own checksum in front: a damaged entry is
made again, and a folder in which nothing may be written costs nothing but the time to compile again.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpustack import assets
from gpustack.errors import BrokenError, NothingSeenError, OutputError
from gpustack.model import record, writing

WHEELS = ("nvidia/cu14/lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")
TOOLKITS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
USUAL_TOOLKIT = "/usr/local/cuda"
_NAME = re.compile(r"libnvrtc\.so\.(\d+)")
OPTIONS = ("--std=c++17",)
SPECIFIC = 9  # from this major capability on there are architecture-specific instructions, marked by a suffix
DIGEST = 32


class Nvrtc:
    """One copy of the compiler; ``version`` is its CUDA version."""

    def __init__(self, path: Path) -> None:
        """Load the library; raises NothingSeenError if that fails."""
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise NothingSeenError(f"{path} cannot be loaded: {error}") from error
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._must(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.version = (major.value, minor.value)

    def architectures(self) -> frozenset[int]:
        """Return the architectures that it compiles for, as 90 for sm_90."""
        count = ctypes.c_int()
        self._must(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        known = (ctypes.c_int * count.value)()
        self._must(self._library.nvrtcGetSupportedArchs(known))
        return frozenset(known)

    def ptx(self, source: str, name: str, options: Sequence[str]) -> str:
        """Return the PTX of a source text; raises BrokenError with the compiler's message on failure."""
        return self._made(source, name, options, "PTX").rstrip(b"\0").decode("utf-8", "replace")

    def cubin(self, source: str, name: str, options: Sequence[str]) -> bytes:
        """Return the machine code of a source text; raises BrokenError like ``ptx``."""
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
    """Yield the available copies with their major versions: beside this cuBLASLt, wheels on this path, toolkits."""
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


@record
class Code:
    """The code of one kernel file: machine code or PTX, and how it was compiled."""

    data: bytes
    compiled: bool
    how: str


@dataclass(kw_only=True)
class Kernels:
    """The kernels for GPUs of one compute capability, under a driver of this CUDA version (13000 is 13.0).

    ``library`` is the cuBLASLt to measure, next to its environment's compiler.
    """

    capability: tuple[int, int]
    cuda: int
    library: str | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    why_not: str = "no NVRTC was found"

    @property
    def architecture(self) -> str:
        """The compiler's name for the architecture: sm_90a."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= SPECIFIC else ''}"

    def code(self, file: str) -> Code:
        """Return the code of ``microbench/FILE.cu``, compiled if possible."""
        with ThreadPoolExecutor(1) as apart:  # NVRTC leaves the thread that called it with the locale C
            return apart.submit(self._code, file).result()

    def shipped(self, file: str, why: str) -> Code:
        """Return a file's shipped PTX, which the driver compiles."""
        data = (assets.MICROBENCH / f"{file}.ptx").read_bytes()
        return Code(data=data, compiled=False, how=f"shipped PTX: {why}")

    def _code(self, file: str) -> Code:
        nvrtc = self._nvrtc
        if nvrtc is None:
            return self.shipped(file, self.why_not)
        source = (assets.MICROBENCH / f"{file}.cu").read_bytes()
        options = (f"--gpu-architecture={self.architecture}", *OPTIONS)
        compiler = "NVRTC {}.{}".format(*nvrtc.version)
        how = f"compiled for {self.architecture} by {compiler}"
        key = hashlib.sha256(b"\0".join([source, compiler.encode(), *(option.encode() for option in options)]))
        kept = self._entry(f"{file}-{self.architecture}-{key.hexdigest()[:32]}.cubin")
        if kept and (data := read(kept)):
            return Code(data=data, compiled=True, how=f"{how}, cached from an earlier run")
        try:
            data = nvrtc.cubin(source.decode("utf-8"), f"{file}.cu", options)
        except BrokenError as error:
            return self.shipped(file, f"{compiler} refused the source ({str(error).splitlines()[-1]})")
        if kept:
            keep(kept, data)
        return Code(data=data, compiled=True, how=how)

    @cached_property
    def _nvrtc(self) -> Nvrtc | None:
        """The first compiler that knows this GPU and is not newer than the driver, which would reject its code."""
        target = 10 * self.capability[0] + self.capability[1]
        for major, path in copies(self.library, sys.path, self.environ):
            if major > self.cuda // 1000:
                self.why_not = f"NVRTC {major} is newer than the driver"
                continue
            with suppress(NothingSeenError, BrokenError, AttributeError):  # an older one lacks functions
                found = Nvrtc(path)
                if target in found.architectures():
                    return found
                self.why_not = "NVRTC {}.{} does not know sm_{}".format(*found.version, target)
        return None

    def _entry(self, name: str) -> Path | None:
        root = self.environ.get("XDG_CACHE_HOME", "")
        if not root.startswith("/"):  # relative paths are ignored: XDG Base Directory Specification
            home = self.environ.get("HOME", "")
            root = f"{home}/.cache" if home.startswith("/") else ""
        return Path(root, "gpustack/kernels", name) if root else None


def read(entry: Path) -> bytes | None:
    """Return the cached entry, or None if it is missing or damaged."""
    try:
        digest, data = (whole := entry.read_bytes())[:DIGEST], whole[DIGEST:]
    except OSError:
        return None
    return data if data and hashlib.sha256(data).digest() == digest else None


def keep(entry: Path, data: bytes) -> None:
    """Cache some code under this name, atomically; do nothing if writing is not permitted."""
    with suppress(OSError, OutputError):
        entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        writing.write(entry, hashlib.sha256(data).digest() + data)
