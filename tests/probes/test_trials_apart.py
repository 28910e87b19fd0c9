"""Trials in other Pythons than ours: what raises, hangs or dies there loses its own answer, and names the step.

The GPU is the bench's stand-in driver; cuda.core and cuda.bindings are the real ones, where this Python has them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.collect import catalogue, probing, targets
from gpustack.collect.subprocesses import Door
from tests.leaving import leave_out
from tests.probes.stand_ins import built, distribution, python

if TYPE_CHECKING:
    import subprocess

    from gpustack.model.facts import Facts

ROWS = {system.id: system for system in catalogue.load()}


@pytest.fixture(scope="session")
def gpu(compile_library: Callable[..., Path]) -> Mapping[str, str]:
    """Return the variables with which programs see the stand-in driver."""
    flags = ("-w", "-Wl,-soname,libcuda.so.1", "-lm", "-ldl")
    folder = compile_library("libcuda_bench.c", "libcuda.so.1", *flags).parent
    return {**os.environ, "LD_LIBRARY_PATH": str(folder)}


class Faking(Door):
    """A subprocess starter that passes on the stand-ins' variables, which a probe does not see otherwise."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Pass these on."""
        self.passed = {name: value for name, value in environ.items() if name.startswith("FAKE_")}

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a child with them."""
        return super().start(argv, {**environ, **self.passed}, stdin)


def tried(program: str | Path, environ: Mapping[str, str], *ids: str, timeout: float = 20.0) -> Facts:
    rows = [ROWS[name] for name in ids]
    door = Faking(environ)
    return probing.look(pythons=[str(program)], deep=True, systems=rows, environ=environ, timeout=timeout, door=door)


def exercise(facts: Facts, name: str) -> Mapping[str, Any]:
    found = facts.find(name)
    assert found is not None
    (told,) = [copy.facts["exercise"] for copy in found.instances if "exercise" in copy.facts]
    assert isinstance(told, Mapping)
    return told


def package(folder: Path, text: str) -> Path:
    """Create a Python whose CuPy is this text; return its program."""
    program, site = python(folder)
    distribution(site, "cupy-cuda13x", "14.2.0")
    (site / "cupy").mkdir()
    (site / "cupy" / "__init__.py").write_text(f"import os, signal, sys, time\n__version__ = '14.2.0'\n{text}\n")
    return program


WORKS = "def asarray(*_): {}\n"


def test_an_exception_is_reported_in_the_librarys_own_first_line_with_its_step(
    tmp_path: Path, gpu: Mapping[str, str]
) -> None:
    text = WORKS.format("raise RuntimeError('CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image\\n  at line 5')")
    told = exercise(tried(package(tmp_path / "env", text), gpu, "cupy"), "cupy")
    assert (told["ran"], told["ok"], told["failed_at"]) == (False, False, "compile")
    assert told["error"] == "RuntimeError: CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image"
    assert told["words"].endswith("at line 5")
    assert told["device_name"] == "Stand-in GPU 0"


def test_a_crash_says_how_and_at_which_step(tmp_path: Path, gpu: Mapping[str, str]) -> None:
    text = WORKS.format("sys.stderr.write('nvrtc: abort\\n'); sys.stderr.flush(); os.kill(os.getpid(), 11)")
    facts = tried(package(tmp_path / "env", text), gpu, "cupy")
    told = exercise(facts, "cupy")
    assert "SIGSEGV" in told["reason"]
    assert "nvrtc: abort" in told["reason"]
    assert (told["ran"], told["failed_at"]) == (False, "compile")
    assert [one.what.split()[0] for one in facts.not_seen] == ["cupy"]


def test_a_hang_is_ended_and_says_at_which_step(
    tmp_path: Path, gpu: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "EXERCISE_SECONDS", 1.5)
    told = exercise(tried(package(tmp_path / "env", "time.sleep(60)"), gpu, "cupy"), "cupy")
    assert told["reason"].startswith("gave no answer in 1.")
    assert told["failed_at"] == "import"


def test_what_is_not_installed_is_not_tried(tmp_path: Path, gpu: Mapping[str, str]) -> None:
    program, _ = python(tmp_path / "env")
    facts = tried(program, gpu, *(name for name, system in ROWS.items() if system.deep and system.id != "cuda-runtime"))
    assert [one.id for one in facts.components if one.instances] == []
    assert facts.not_seen == ()


def real(name: str) -> None:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        found = None
    if found is None:
        leave_out(f"{name} is not installed here")


@pytest.mark.parametrize("name", ["cuda-core", "cuda-bindings"])
@pytest.mark.parametrize("wrong", ["", "saxpy"])
def test_the_real_package_computes_on_a_stand_in_gpu(name: str, wrong: str, gpu: Mapping[str, str]) -> None:
    real(name.replace("-", "."))
    told = exercise(tried(sys.executable, {**gpu, "FAKE_WRONG": wrong}, name), name)
    assert (told["error"], told["ran"], told["ok"]) == (None, True, not wrong)
    assert told["failed_at"] == ("result" if wrong else None)
    assert told["versions"][name]


@pytest.mark.parametrize("name", ["cuda-core", "cuda-bindings"])
def test_the_real_package_without_a_gpu_says_so(name: str, tmp_path: Path, gpu: Mapping[str, str]) -> None:
    real(name.replace("-", "."))
    none = exercise(tried(sys.executable, {**gpu, "FAKE_GPUS": "0"}, name), name)
    assert (none["ran"], none["error"], none["failed_at"]) == (False, None, None)
    assert none["unavailable"].startswith("cu")
    built(tmp_path / "libcuda.so.1", "int unrelated;")
    odd = exercise(tried(sys.executable, {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}, name), name)
    assert (odd["error"], odd["unavailable"]) == (None, "cuInit: this driver has no such function")


def test_a_fault_of_the_driver_is_reported_with_the_drivers_name_for_it(gpu: Mapping[str, str]) -> None:
    real("cuda.bindings")
    told = exercise(
        tried(sys.executable, {**gpu, "FAKE_FAULT": "cuLaunchKernel=719"}, "cuda-bindings"), "cuda-bindings"
    )
    assert (told["error"], told["failed_at"]) == ("cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED", "launch")


RUNTIME = """
#include <stdlib.h>
#include <string.h>
#include <signal.h>
static int fault(const char *name) {
    const char *told = getenv("FAKE_RUNTIME");
    if (told && !strcmp(told, name)) { if (getenv("FAKE_DIES")) raise(SIGSEGV); return 700; }
    return 0;
}
#define CALL(name) { int code = fault(name); if (code) return code; }
static char *kept; static size_t length; static int value, capturing;
int cudaRuntimeGetVersion(int *to) { *to = 13000; return 0; }
int cudaSetDevice(int device) { CALL("cudaSetDevice") return 0; }
int cudaMalloc(void **to, size_t size) { CALL("cudaMalloc") *to = calloc(1, size); return 0; }
int cudaFree(void *at) { free(at); return 0; }
int cudaStreamCreate(void **to) { *to = (void *)1; return 0; }
int cudaStreamDestroy(void *s) { return 0; }
int cudaEventCreate(void **to) { *to = (void *)1; return 0; }
int cudaEventRecord(void *e, void *s) { return 0; }
int cudaEventSynchronize(void *e) { return 0; }
int cudaEventDestroy(void *e) { return 0; }
int cudaMemsetAsync(char *at, int byte, size_t size, void *s) {
    if (capturing) { kept = at; value = byte; length = size; } else memset(at, byte, size);
    return 0;
}
int cudaStreamBeginCapture(void *s, int mode) { capturing = 1; return 0; }
int cudaStreamEndCapture(void *s, void **to) { capturing = 0; *to = (void *)1; return 0; }
int cudaGraphInstantiateWithFlags(void **to, void *g, unsigned long long flags) { *to = (void *)1; return 0; }
int cudaGraphLaunch(void *g, void *s) {
    CALL("cudaGraphLaunch")
    if (!getenv("FAKE_IDLE")) memset(kept, value, length);
    return 0;
}
int cudaGraphExecDestroy(void *g) { return 0; }
int cudaGraphDestroy(void *g) { return 0; }
int cudaMemcpy(void *to, const void *from, size_t size, int kind) { memcpy(to, from, size); return 0; }
const char *cudaGetErrorString(int code) { return "an illegal memory access was encountered"; }
"""
ILLEGAL = "an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("variables", "ran", "failed_at", "error"),
    [
        ({}, True, None, None),
        ({"FAKE_IDLE": "1"}, True, "result", None),
        ({"FAKE_RUNTIME": "cudaGraphLaunch"}, True, "launch", f"cudaGraphLaunch: {ILLEGAL} (700)"),
        ({"FAKE_RUNTIME": "cudaMalloc", "FAKE_DIES": "1"}, False, "launch", None),
    ],
)
def test_the_runtime_is_tried_through_the_copy_that_is_found(
    tmp_path: Path, gpu: Mapping[str, str], variables: dict[str, str], failed_at: str, error: str, *, ran: bool
) -> None:
    program, site = python(tmp_path / "env")
    library = built(site / "nvidia" / "cu13" / "lib" / "libcudart.so.13", RUNTIME, "-w", "-Wl,-soname,libcudart.so.13")
    told = exercise(tried(program, {**gpu, **variables}, "cuda-runtime"), "cuda-runtime")
    assert (told["ran"], told["failed_at"], told.get("error")) == (ran, failed_at, error)
    if ran:
        assert told["ok"] == (failed_at is None)
        assert told["loaded"]["libcudart"] == (str(library),)
    else:
        assert "SIGSEGV" in told["reason"]


def test_a_python_without_a_runtime_of_its_own_takes_that_of_the_system(tmp_path: Path, gpu: Mapping[str, str]) -> None:
    program, _ = python(tmp_path / "env")
    library = built(tmp_path / "system" / "libcudart.so.13", RUNTIME, "-w", "-Wl,-soname,libcudart.so.13")
    environ = {**gpu, "LD_LIBRARY_PATH": f"{gpu['LD_LIBRARY_PATH']}:{library.parent}"}
    facts = tried(program, environ, "cuda-runtime")
    found = facts.find("cuda-runtime")
    assert found is not None
    assert [copy.environment for copy in found.instances if "exercise" in copy.facts] == [None]
    assert exercise(facts, "cuda-runtime")["ok"] is True


def test_frameworks_are_run_before_the_rest_and_each_has_a_child() -> None:
    rows = [ROWS[name] for name in ("cupy", "pytorch", "jax")]
    environments = targets.choose([sys.executable], os.environ)
    tasks = [task for task in probing.plan(environments, os.environ, rows, deep=True) if task.deep]
    assert [[system.id for system in task.systems] for task in tasks] == [["pytorch"], ["jax"], ["cupy"]]
    assert all(system == replace(ROWS[system.id], seconds=system.seconds) for task in tasks for system in task.systems)
