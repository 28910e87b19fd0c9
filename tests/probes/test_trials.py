"""Each library is tried with a stand-in for itself and for the GPU: right, wrong, without a GPU, and with errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes import cuda_stand_in
from tests.fakes.cuda_stand_in import Driver
from tests.told import ToldHost, load

SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env", "base_prefix": "/env", "machine": "x86_64", "version": "3.12.3"}
TRIALS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "cupy": ("library/cupy.py", cuda_stand_in.cupy),
    "nvmath-python": ("runtime/nvmath_python.py", cuda_stand_in.nvmath),
    "cuda-compute": ("runtime/cuda_compute.py", cuda_stand_in.compute),
    "numba-cuda": ("runtime/numba_cuda.py", cuda_stand_in.numba),
    "cuda-coop": ("runtime/cuda_coop.py", cuda_stand_in.numba),
    "triton": ("compiler/triton.py", cuda_stand_in.triton),
    "torchscript": ("compiler/torchscript.py", cuda_stand_in.torch),
    "torch-compile": ("compiler/torch_compile.py", cuda_stand_in.torch),
    "tensorflow": ("framework/tensorflow.py", cuda_stand_in.tensorflow),
}
ON_TORCH = {"torchscript", "torch-compile"}
STEPS = {"torchscript": 3, "torch-compile": 3, "tensorflow": 2, "nvmath-python": 2}


def tried(
    name: str, modules: dict[str, Any], *packages: str, driver: object | None = None, steps: list[str] | None = None
) -> dict[str, Any]:
    """Return the result of a trial on a host with these modules, packages by their folders, and this driver."""
    files: dict[str, str | bytes | OSError] = {f"{SITE}/{package}/__init__.py": "" for package in packages}
    libraries = {} if driver is None else {"libcuda.so.1": driver}
    host = ToldHost(files, modules=modules, libraries=libraries, python=PYTHON, row={"id": name})
    if steps is not None:
        host.tell = steps.append
    facts: dict[str, Any] = load(TRIALS[name][0])["exercise"](host)
    return facts


PACKAGES = {"cuda-compute": "cuda/compute", "cuda-coop": "cuda/coop", "triton": "triton"}


@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.parametrize("wrong", [False, True])
def test_a_known_answer_is_right_or_is_reported_wrong(name: str, *, wrong: bool) -> None:
    steps: list[str] = []
    facts = tried(name, TRIALS[name][1](wrong=wrong), PACKAGES.get(name, name), driver=Driver(), steps=steps)
    assert (facts["error"], facts["ran"], facts["ok"]) == (None, True, not wrong)
    assert facts["failed_at"] == ("result" if wrong else None)
    assert facts["device"] == ("gpu:0" if name == "tensorflow" else "cuda:0")
    assert steps == ["import", "compile", "launch"] or (STEPS.get(name) == 2 and steps == ["import", "launch"])
    assert facts["seconds"] >= 0


@pytest.mark.parametrize("name", [name for name in TRIALS if name not in {*ON_TORCH, "tensorflow"}])
def test_without_a_gpu_that_is_said_and_it_is_not_an_error(name: str) -> None:
    modules = TRIALS[name][1](wrong=False)
    facts = tried(name, modules, PACKAGES.get(name, name))
    assert (facts["ran"], facts["error"], facts["failed_at"], facts["device"]) == (False, None, None, None)
    assert facts["unavailable"] == "libcuda.so.1: cannot open shared object file"
    refused = tried(name, modules, PACKAGES.get(name, name), driver=Driver(cuInit=100))
    assert (refused["error"], refused["unavailable"]) == (None, "cuInit: the stand-in refuses (100)")
    none = tried(name, modules, PACKAGES.get(name, name), driver=Driver(count=0))
    assert none["unavailable"] == "cuDeviceGetCount: there is no GPU that CUDA may use"


@pytest.mark.parametrize("name", sorted(ON_TORCH))
def test_compilers_of_torch_ask_torch_for_a_gpu(name: str) -> None:
    none = tried(name, cuda_stand_in.torch(wrong=False, gpu=None))
    assert (none["ran"], none["error"], none["unavailable"]) == (False, None, "torch 2.11 sees no GPU")
    intel = tried(name, cuda_stand_in.torch(wrong=False, gpu="xpu"))
    assert (intel["ok"], intel["device"], intel["device_name"]) == (True, "xpu:0", "Stand-in")


def test_tensorflow_without_a_gpu_computes_on_the_processor_and_says_so() -> None:
    facts = tried("tensorflow", cuda_stand_in.tensorflow(wrong=False, gpus=()))
    assert (facts["ran"], facts["ok"], facts["device"], facts["devices"]) == (True, True, "cpu", 0)


@pytest.mark.parametrize("name", [name for name in TRIALS if name != "cuda-compute"])
def test_what_is_not_there_is_reported_in_pythons_words_at_the_import(name: str) -> None:
    facts = tried(name, {})
    assert (facts["ran"], facts["failed_at"]) == (False, "import")
    assert facts["error"].startswith("ModuleNotFoundError: No module named ")


def test_triton_that_launches_through_a_torch_that_is_missing_says_so() -> None:
    class Kernel:
        def __init__(self, _work: object) -> None: ...

        def __getitem__(self, _grid: object) -> Callable[..., None]:
            def launch(*_: object, **__: object) -> None:
                raise ModuleNotFoundError("No module named 'torch'", name="torch")

            return launch

    modules = {"triton": {"__version__": "3.1", "jit": Kernel}, "triton.language": {}}
    facts = tried("triton", modules, "triton", driver=Driver())
    assert (facts["error"], facts["ran"]) == (None, False)
    assert "through torch, which is not installed" in facts["unavailable"]
    beside = tried("triton", {**modules, "torch": {}}, "triton", "torch", driver=Driver())
    assert (beside["error"], beside["failed_at"]) == ("ModuleNotFoundError: No module named 'torch'", "compile")


@pytest.mark.parametrize(
    ("packages", "modules"),
    [
        (["cuda/coop"], {"cuda.coop"}),
        (["cuda/cccl/cooperative"], {"cuda.cccl.cooperative.experimental"}),
        (["cuda/coop", "cuda/coop/_experimental"], {"cuda.coop._experimental"}),
    ],
)
def test_coop_is_found_under_the_name_that_its_release_has(packages: list[str], modules: set[str]) -> None:
    held = cuda_stand_in.numba(wrong=False)
    held["cuda.coop._experimental"] = held["cuda.coop"]
    others = {name: module for name, module in held.items() if not name.startswith("cuda.") or name in modules}
    assert tried("cuda-coop", others, *packages, driver=Driver())["ok"] is True


def test_compute_of_an_older_release_has_another_name_and_one_without_a_driver_is_empty() -> None:
    held = cuda_stand_in.compute(wrong=False)
    older = {"cuda.cccl.parallel.experimental": held["cuda.compute"], "numpy": held["numpy"]}
    assert tried("cuda-compute", older, driver=Driver())["ok"] is True
    empty = tried("cuda-compute", {**held, "cuda.compute": {}}, "cuda/compute", driver=Driver())
    assert (empty["failed_at"], "OpKind" in empty["error"]) == ("import", True)


def test_a_driver_that_refuses_later_is_reported_with_the_call() -> None:
    facts = tried("numba-cuda", cuda_stand_in.numba(wrong=False), driver=Driver(cuMemAlloc_v2=2))
    assert facts["error"] == "cuMemAlloc_v2: the stand-in refuses (2)"
    assert facts["failed_at"] == "launch"
