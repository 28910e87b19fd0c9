"""What all tests share."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.nvml import SONAME, StandIn
from tests.leaving import leave_out

# Machines that run tests beside other work draw slowly; slowness of the drawing is no property of ours.
settings.register_profile("patient", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

FAKES = Path(__file__).parent / "fakes"


def pytest_xdist_auto_num_workers() -> int:
    """Give two workers for each core: half of their time they wait for children that hang on purpose."""
    return 2 * (os.cpu_count() or 1)


@pytest.fixture(scope="session")
def compile_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Give a function that compiles one C file of ``tests/fakes`` to a shared library and gives its path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        leave_out("no C compiler here: stand-in libraries cannot be built")

    def compile_(source: str, name: str, *flags: str) -> Path:
        folder = tmp_path_factory.mktemp(Path(source).stem)
        library = folder / name
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(FAKES / source), *flags]
        subprocess.run(command, check=True, capture_output=True)
        return library

    return compile_


@pytest.fixture(scope="session")
def nvml(compile_library: Callable[..., Path]) -> StandIn:
    """Give a stand-in for the NVML of a driver of today."""
    return StandIn(compile_library("libnvidia_ml.c", SONAME))


@pytest.fixture(scope="session")
def old_nvml(compile_library: Callable[..., Path]) -> StandIn:
    """Give a stand-in for the NVML of an old driver."""
    return StandIn(compile_library("libnvidia_ml.c", SONAME, "-DOLD"))
