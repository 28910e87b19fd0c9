"""Kernels for the GPU at hand: compiled where an NVRTC is found, and kept for the next run; else the shipped PTX.

Compiled for one architecture they may use what only it has (bulk copies on Hopper, its wide products). What was made is
kept in the user's cache folder by source, architecture and compiler, with its own checksum in front: a damaged entry is
made anew, and a folder in which nothing may be written costs nothing but the time to compile again.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpustack import assets
from gpustack.bench.nvrtc import Nvrtc, copies
from gpustack.errors import BrokenError, NothingSeenError, OutputError
from gpustack.model import writing

OPTIONS = ("--std=c++17",)
SPECIFIC = 9  # from this major capability on there are instructions of one architecture alone, behind a suffix
DIGEST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code of one file of kernels: machine code or PTX, and in words how it came about."""

    data: bytes
    compiled: bool
    how: str


@dataclass(kw_only=True)
class Kernels:
    """The kernels for GPUs of one compute capability, under a driver of this CUDA version (13000 is 13.0).

    ``library`` is the cuBLASLt that is measured, beside which its environment's compiler lies.
    """

    capability: tuple[int, int]
    cuda: int
    library: str | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    why_not: str = "no NVRTC was found"

    @property
    def architecture(self) -> str:
        """The name of the architecture in the compiler's words: sm_90a."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= SPECIFIC else ''}"

    def code(self, file: str) -> Code:
        """Give the code of ``microbench/FILE.cu``, compiled where that can be done."""
        with ThreadPoolExecutor(1) as apart:  # NVRTC leaves the thread that called it with the locale C
            return apart.submit(self._code, file).result()

    def shipped(self, file: str, why: str) -> Code:
        """Give the shipped PTX of a file, which the driver compiles itself."""
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
            return Code(data=data, compiled=True, how=f"{how}, kept from an earlier run")
        try:
            data = nvrtc.cubin(source.decode("utf-8"), f"{file}.cu", options)
        except BrokenError as error:
            return self.shipped(file, f"{compiler} refused the source ({str(error).splitlines()[-1]})")
        if kept:
            keep(kept, data)
        return Code(data=data, compiled=True, how=how)

    @cached_property
    def _nvrtc(self) -> Nvrtc | None:
        """The first compiler that knows this GPU and is no younger than the driver, which would refuse its code."""
        target = 10 * self.capability[0] + self.capability[1]
        for major, path in copies(self.library, sys.path, self.environ):
            if major > self.cuda // 1000:
                self.why_not = f"NVRTC {major} is younger than the driver"
                continue
            with suppress(NothingSeenError, BrokenError, AttributeError):  # an older one lacks functions
                found = Nvrtc(path)
                if target in found.architectures():
                    return found
                self.why_not = "NVRTC {}.{} does not know sm_{}".format(*found.version, target)
        return None

    def _entry(self, name: str) -> Path | None:
        root = self.environ.get("XDG_CACHE_HOME", "")
        if not root.startswith("/"):  # a relative path is to be ignored: XDG Base Directory Specification
            home = self.environ.get("HOME", "")
            root = f"{home}/.cache" if home.startswith("/") else ""
        return Path(root, "gpustack/kernels", name) if root else None


def read(entry: Path) -> bytes | None:
    """Give what is kept there, or None where there is nothing, or it is damaged."""
    try:
        digest, data = (whole := entry.read_bytes())[:DIGEST], whole[DIGEST:]
    except OSError:
        return None
    return data if data and hashlib.sha256(data).digest() == digest else None


def keep(entry: Path, data: bytes) -> None:
    """Keep some code under this name, whole or not at all; where nothing may be written, do nothing."""
    with suppress(OSError, OutputError):
        entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        writing.write(entry, hashlib.sha256(data).digest() + data)
