"""A faulty driver below the real cuda.bindings and cuda.core: a trial's or the bench's child says what went wrong."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from gpustack import bench
from gpustack.collect import catalogue, probing
from gpustack.collect.subprocesses import Door
from gpustack.errors import NothingSeenError
from tests.leaving import leave_out
from tests.patience import in_time

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from gpustack.model.facts import Facts
    from tests.faults.machine import Shop

pytestmark = in_time

TRIED = ("cuda-bindings", "cuda-core")
FLAGS = ("-w", "-Wl,-soname,libcuda.so.1", "-lm", "-ldl")
# Instructions for the stand-in driver (@2: from the second call on, since the first is our own), and the report.
TRIALS = {
    "cuInit@2=999": "CUDA_ERROR_UNKNOWN",
    "cuInit@2=segv": "was killed by SIGSEGV",
    "cuInit@2=hang": "gave no answer in",
}


class Passing(Door):
    """A subprocess starter that passes the stand-in's variables to the child, which otherwise does not see them."""

    def __init__(self, told: str) -> None:
        self.told = told

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        return super().start(argv, {**environ, "FAKE_FAULT": self.told}, stdin)


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the stand-in driver is for x86-64")
    if find_spec("cuda") is None:
        leave_out("the bench extra is not installed here")


@pytest.fixture(scope="module")
def drivers(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a driver that follows its instructions, and of one that lacks the first function of all."""
    folder = tmp_path_factory.mktemp("drivers")
    for name, more in (("whole", ()), ("without", ("-DcuInit=no_cuInit",))):
        (folder / name).mkdir()
        (folder / name / "libcuda.so.1").symlink_to(shop.make("libcuda_bench.c", *more, *FLAGS))
    return folder


def tried(folder: Path, told: str) -> Facts:
    """Return the results of trying both packages on this driver."""
    systems = [one for one in catalogue.load() if one.id in TRIED]
    environ = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(folder)}
    door = Passing(told)
    return probing.look(pythons=[sys.executable], deep=True, systems=systems, environ=environ, timeout=20, door=door)


def words(facts: Facts, component: str) -> str:
    """Return everything that is reported of a trial."""
    found = facts.find(component)
    assert found is not None
    return f"{found.reason} {[copy.facts.get('exercise') for copy in found.instances]}"


@pytest.mark.parametrize("told", TRIALS)
def test_a_trial_through_the_bindings_says_what_the_driver_did(
    told: str, drivers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "EXERCISE_SECONDS", 3.0)
    facts = tried(drivers / "whole", told)
    for component in TRIED:
        said = words(facts, component)
        assert TRIALS[told] in said
        assert "'ok': True" not in said


def test_a_trial_on_a_driver_without_its_first_function_says_so(drivers: Path) -> None:
    facts = tried(drivers / "without", "")
    for component in TRIED:
        assert "this driver has no such function" in words(facts, component)


@pytest.mark.parametrize(
    ("name", "told", "says"),
    [
        ("whole", "cuInit=999", "CUDA_ERROR_UNKNOWN"),
        ("whole", "cuDeviceGetCount=3", "CUDA_ERROR_NOT_INITIALIZED"),
        ("without", "", "cuInit"),
    ],
)
def test_the_bench_says_what_the_driver_did(name: str, told: str, says: str, drivers: Path) -> None:
    environ = {**os.environ, "LD_LIBRARY_PATH": str(drivers / name), "FAKE_FAULT": told}
    with pytest.raises(NothingSeenError, match=says):
        bench.measure(("hbm.copy",), quick=True, environ=environ, timeout=10.0)
