"""The management library's file: the one that the loader picks, and the others; really loaded in a child."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gpustack import assets
from gpustack.collect import catalogue
from gpustack.collect.subprocesses import Door
from gpustack.collect.workers import Task, ask
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NVML = load("driver/libnvidia_ml.py")
SYSTEM = next(system for system in catalogue.load() if system.id == "libnvidia-ml")
MISSING = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"


def answer_of(folder: Path) -> dict[str, Any]:
    """Return the result of a child whose loader searches the folder first."""
    environ = {"LD_LIBRARY_PATH": str(folder)}
    task = Task(argv=(sys.executable, "-I", "-S", str(assets.PROBES)), environ=environ, systems=(SYSTEM,))
    door = Door()
    (reply,) = ask([task], door, door.now() + 8)
    assert reply.answer is not None, reply.failure
    (instance,) = reply.answer["instances"]
    assert isinstance(instance, dict)
    return instance


def test_the_file_that_is_mapped_tells_the_release(compile_library: Callable[..., Path]) -> None:
    library = compile_library("libcuda_doctor.c", "libnvidia-ml.so.580.159.04")
    (library.parent / "libnvidia-ml.so.1").symlink_to(library.name)
    seen = answer_of(library.parent)
    assert (seen["version"], seen["path"], seen["kind"]) == ("580.159.04", str(library), "driver")
    assert seen["copies"][0] == {
        "path": str(library.parent / "libnvidia-ml.so.1"),
        "real": str(library),
        "release": "580.159.04",
        "kind": "driver",
        "found_by": "LD_LIBRARY_PATH",
    }


def test_a_file_that_is_not_a_library_is_reported_in_the_loaders_words(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    seen = answer_of(tmp_path)
    assert seen["status"] == "failed"
    assert "libnvidia-ml.so.1" in seen["error"]


def test_a_loaded_library_of_no_release_is_there_without_a_version() -> None:
    file = "/usr/lib/wsl/lib/libnvidia-ml.so.1"
    seen = NVML["probe"](ToldHost({file: ""}, libraries={"libnvidia-ml.so.1": {}}, maps=[file]))
    assert (seen["version"], seen["kind"]) == (None, "wsl")
    assert [(copy["kind"], copy["found_by"]) for copy in seen["copies"]] == [("wsl", "known folder")]


def test_a_stub_is_not_a_driver() -> None:
    stub = "/usr/local/cuda/lib64/stubs/libnvidia-ml.so"
    seen = NVML["probe"](ToldHost({stub: ""}, libraries={"libnvidia-ml.so.1": OSError(MISSING)}))
    assert (seen["status"], [copy["kind"] for copy in seen["copies"]]) == ("failed", ["stub"])


def test_no_library_and_no_copy_is_absence() -> None:
    assert NVML["probe"](ToldHost(libraries={"libnvidia-ml.so.1": OSError(MISSING)})) is None
