"""Real packages, run where there is no GPU: each is imported and reports that there is none, which is not an error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from gpustack.collect import catalogue
from gpustack.collect.probing import look
from tests.probes.stand_ins import python
from tests.system.test_python_packages import SECONDS, install

if TYPE_CHECKING:
    from pathlib import Path

    from gpustack.model.facts import Facts

PACKAGES = (
    *("cuda-core", "cuda-bindings", "cuda-pathfinder", "cuda-cccl==1.1.1", "nvmath-python", "triton"),
    *("numba-cuda", "numba", "llvmlite", "numpy<2.5", "packaging", "typing_extensions"),
)
IDS = ("cuda-core", "cuda-bindings", "cuda-coop", "cuda-compute", "nvmath-python", "triton", "numba-cuda")

pytestmark = [pytest.mark.timeout(SECONDS + 120), pytest.mark.packages]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    program, site = python(tmp_path_factory.mktemp("trials") / "env")
    install(site, PACKAGES)
    before = names(site)
    rows = [system for system in catalogue.load() if system.id in IDS]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    seen = look(pythons=[str(program)], deep=True, systems=rows, environ=environ, timeout=100)
    assert names(site) == before
    return seen


def names(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize("name", IDS)
def test_a_package_that_is_there_says_that_there_is_no_gpu(facts: Facts, name: str) -> None:
    found = facts.find(name)
    assert found is not None
    told = found.facts["exercise"]
    assert isinstance(told, Mapping)
    assert (told["error"], told["ran"], told["failed_at"]) == (None, False, None)
    assert "cuda" in str(told["unavailable"]).lower() or "cuInit" in str(told["unavailable"])


def test_nothing_was_left_unsaid(facts: Facts) -> None:
    assert facts.not_seen == ()
