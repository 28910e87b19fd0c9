"""The stand-ins that whole runs of a trace on a GPU need: a driver, its kernels, a cuBLASLt, each compiled once."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpustack import assets
from tests import sharing
from tests.leaving import leave_out

FAKES = Path(__file__).resolve().parents[1] / "fakes"


@pytest.fixture(scope="session", autouse=True)
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep compiled kernels in a folder that belongs to the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def host_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the kernels of ``microbench/trace.cu`` compiled for the processor."""
    if (compiler := shutil.which("c++") or shutil.which("g++")) is None:
        leave_out("no C++ compiler here")
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-w", f'-DTRACE="{assets.MICROBENCH / "trace.cu"}"']
    command = [compiler, *flags, str(FAKES / "trace_on_host.cpp"), "-o"]

    def build(folder: Path) -> None:
        subprocess.run([*command, str(folder / "libtrace.so")], check=True)

    return sharing.folder(tmp_path_factory, "trace on host", build) / "libtrace.so"


@pytest.fixture(scope="session")
def driver(compile_library: Callable[..., Path]) -> Path:
    """Return the folder with the stand-in driver."""
    flags = ("-O3", "-w", "-Wl,-soname,libcuda.so.1", "-lm", "-ldl")
    return compile_library("libcuda_bench.c", "libcuda.so.1", *flags).parent


@pytest.fixture(scope="session")
def products(compile_library: Callable[..., Path]) -> str:
    """Return the stand-in cuBLASLt."""
    flags = ("-O3", "-march=native", "-ffast-math", "-w", "-lm", "-ldl")
    return str(compile_library("libcublaslt_bench.c", "libcublasLt.so.13", *flags))
