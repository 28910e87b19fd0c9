"""Distributions of one name: all copies, the one that an import sees first."""

from __future__ import annotations

from pathlib import Path

from gpustack import catalogue
from gpustack.model.facts import Status
from gpustack.probing import look
from tests.probes.stand_ins import distribution, python
from tests.told import ToldHost, load

probe = load("environment/distribution.py")["probe"]
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": ["/user", SITE], "prefix": "/env"}
ROW = {"id": "cuda-bindings", "distributions": ["cuda_bindings"]}


def test_a_distribution_that_is_not_there_is_absent() -> None:
    assert probe(ToldHost(python=PYTHON, row=ROW)) == []
    denied = ToldHost(files={f"{SITE}/x": PermissionError(13, "denied")}, python=PYTHON, row=ROW)
    assert probe(denied) == []


def test_two_copies_are_two_instances_and_the_second_says_what_hides_it() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{SITE}/cuda_bindings-13.3.1.dist-info/INSTALLER": "pip\n",
        "/user/cuda_bindings-12.9.2.dist-info/INSTALLER": "uv\n",
        f"{SITE}/cuda_core-1.2.0.dist-info/INSTALLER": "pip\n",
    }
    first, second = probe(ToldHost(files=files, python=PYTHON, row=ROW))
    assert first == {
        "key": "cuda-bindings",
        "version": "12.9.2",
        "build": None,
        "path": "/user/cuda_bindings-12.9.2.dist-info",
        "kind": "dist-info",
        "shadowed_by": None,
        "installer": "uv",
        "editable": False,
    }
    assert second["version"] == "13.3.1"
    assert second["key"] == f"cuda-bindings in {SITE}/cuda_bindings-13.3.1.dist-info"
    assert second["shadowed_by"] == first["path"]


def test_a_package_of_conda_is_seen_with_its_build() -> None:
    files: dict[str, str | bytes | OSError] = {"/env/conda-meta/cuda-bindings-12.9.2-py312h_1.json": "{}"}
    (seen,) = probe(ToldHost(files=files, python=PYTHON, row=ROW))
    assert (seen["version"], seen["build"], seen["installer"]) == ("12.9.2", "py312h_1", "conda")


def test_in_a_real_python_that_is_not_ours(tmp_path: Path) -> None:
    program, site = python(tmp_path / "env")
    distribution(site, "cuda-core", "1.2.0", INSTALLER="stand-in\n")
    rows = [system for system in catalogue.load() if system.id in {"cuda-core", "cuda-pathfinder"}]
    facts = look(pythons=[str(program)], systems=rows, timeout=20)
    seen, missing = facts.find("cuda-core"), facts.find("cuda-pathfinder")
    assert seen is not None
    assert missing is not None
    assert (seen.version, seen.facts["installer"]) == ("1.2.0", "stand-in")
    assert seen.instances[0].environment == str(program)
    assert missing.status is Status.ABSENT
