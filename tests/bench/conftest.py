"""The stand-ins that whole bench runs need: a driver, a cuBLASLt and an NVML, compiled once per session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep compiled kernels in a folder that belongs to the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def driver(compile_library: Callable[..., Path]) -> Path:
    """Return the folder with the stand-in driver."""
    flags = ("-O3", "-march=native", "-w")
    return compile_library("libcuda_bench.c", "libcuda.so.1", *flags, "-Wl,-soname,libcuda.so.1", "-lm", "-ldl").parent


@pytest.fixture(scope="session")
def products(compile_library: Callable[..., Path]) -> str:
    """Return the stand-in cuBLASLt."""
    flags = ("-O3", "-march=native", "-ffast-math", "-w", "-lm", "-ldl")
    return str(compile_library("libcublaslt_bench.c", "libcublasLt.so.13", *flags))


@pytest.fixture(scope="session")
def sums(compile_library: Callable[..., Path]) -> str:
    """Return the stand-in NCCL."""
    return str(compile_library("libnccl_bench.c", "libnccl.so.2", "-O3", "-march=native", "-w", "-ldl"))


@pytest.fixture(scope="session")
def nvml(compile_library: Callable[..., Path]) -> Path:
    """Return the folder with the stand-in NVML."""
    return compile_library("libnvidia_ml.c", "libnvidia-ml.so.1", "-Wl,-soname,libnvidia-ml.so.1").parent
