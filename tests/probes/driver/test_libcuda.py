"""The libcuda probe, in a child that really loads one: a stand-in compiled here, healthy and faulty."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpustack import assets
from gpustack.collect import catalogue
from gpustack.collect.probe_results import parse
from gpustack.collect.subprocesses import Door
from gpustack.collect.workers import Reply, Task, ask
from gpustack.model.facts import Status
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LIBCUDA = load("driver/libcuda.py")
SYSTEM = next(system for system in catalogue.load() if system.id == "libcuda")
NAME = "libcuda.so.580.159.04"
MISSING = "libcuda.so.1: cannot open shared object file: No such file or directory"
UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


def placed(library: Path) -> Path:
    """Return the folder of a library, after linking to it by the name that the loader looks for."""
    link = library.parent / "libcuda.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(library.name)
    return library.parent


@pytest.fixture(scope="session")
def folder(compile_library: Callable[..., Path]) -> Path:
    """Return the folder of a stand-in driver."""
    return placed(compile_library("libcuda_doctor.c", NAME))


def reply_of(folder: Path, environ: Mapping[str, str] | None = None, seconds: float = 5.0) -> Reply:
    """Return the result of a child whose loader searches the folder first."""
    task = Task(
        argv=(sys.executable, "-I", "-S", str(assets.PROBES)),
        environ={"LD_LIBRARY_PATH": str(folder), **(environ or {})},
        systems=(replace(SYSTEM, seconds=seconds),),
    )
    door = Door()
    (reply,) = ask([task], door, door.now() + 8)
    return reply


def answer_of(folder: Path, **environ: str) -> dict[str, Any]:
    """Return the only instance that the child reports."""
    reply = reply_of(folder, environ)
    assert reply.failure is None
    assert reply.answer is not None
    (instance,) = reply.answer["instances"]
    assert isinstance(instance, dict)
    return instance


def test_a_driver_that_works_is_reported_with_its_file_and_its_gpus(folder: Path) -> None:
    seen = answer_of(folder)
    assert (seen["path"], seen["version"], seen["kind"]) == (str(folder / NAME), "580.159.04", "driver")
    assert (seen["cu_init"], seen["cu_init_name"], seen["driver_cuda"]) == (0, "CUDA_SUCCESS", 13000)
    assert "status" not in seen
    (gpu,) = seen["devices"]
    assert (gpu["ordinal"], gpu["name"], gpu["cc"]) == (0, "NVIDIA H200", "9.0")
    assert (gpu["pci"], gpu["uuid"]) == ("0000:3b:00.0", UUID)
    assert gpu["attributes"] == {
        "sms": 132,
        "clock_khz": 1980000,
        "memory_clock_khz": 3201000,
        "bus_width_bits": 6016,
        "l2_bytes": 62914560,
        "shared_per_sm_bytes": 233472,
        "shared_per_block_optin_bytes": None,
        "registers_per_sm": 65536,
        "threads_per_sm": 2048,
        "warp": 32,
        "async_engines": 3,
        "integrated": 0,
        "ecc": 1,
        "memory_bytes": 150109880320,
    }
    assert seen["unavailable"] == {"cuDeviceGetAttribute": "CUDA_ERROR_INVALID_VALUE"}


def test_the_latency_of_each_call_is_recorded(folder: Path) -> None:
    answer = reply_of(folder).answer
    assert answer is not None
    names = [name for name, _, _ in answer["calls"]]
    assert names.index("dlopen libcuda.so.1") < names.index("cuInit") < names.index("cuDriverGetVersion")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),  # named by the library, the others by the probe
        (999, "CUDA_ERROR_UNKNOWN"),
        (100, "CUDA_ERROR_NO_DEVICE"),
        (34, "CUDA_ERROR_STUB_LIBRARY"),
        (12345, "CUDA_ERROR_12345"),
    ],
)
def test_a_driver_that_does_not_start_is_there_and_failed(folder: Path, code: int, name: str) -> None:
    reply = reply_of(folder, {"CUDA_FAKE": str(code)})
    ((component,), _) = parse([reply])
    assert component.status is Status.FAILED
    (seen,) = component.instances
    assert (seen.version, seen.path) == ("580.159.04", str(folder / NAME))
    assert (seen.facts["cu_init"], seen.facts["cu_init_name"], seen.facts["code"]) == (code, name, code)
    assert seen.facts["error"] == f"cuInit: {name}"
    assert (seen.facts["driver_cuda"], seen.facts["devices"]) == (13000, ())


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("crash", "was killed by SIGSEGV"),
        ("hang", "gave no answer in 0.8 s"),
        ("exit", "ended with exit code 0 before it answered"),
    ],
)
def test_a_driver_that_takes_the_process_with_it_is_a_failure_that_says_how(folder: Path, how: str, says: str) -> None:
    reply = reply_of(folder, {"CUDA_FAKE": how}, seconds=0.8)
    assert says in (reply.failure or "")
    ((component,), (unseen,)) = parse([reply])
    assert component.status is Status.FAILED
    assert unseen.what == "libcuda"


@pytest.mark.parametrize("devices", ["0", "1", "2"])
def test_the_same_answers_come_where_the_library_is_called_from_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, devices: str
) -> None:
    monkeypatch.setenv("CUDA_FAKE_DEVICES", devices)
    told = {"libcuda.so.1": ctypes.CDLL(str(folder / NAME))}
    seen = LIBCUDA["probe"](ToldHost(libraries=told))
    assert seen["devices"] == answer_of(folder, CUDA_FAKE_DEVICES=devices)["devices"]


def test_an_old_driver_leaves_out_what_it_cannot_tell_and_says_why(compile_library: Callable[..., Path]) -> None:
    seen = answer_of(placed(compile_library("libcuda_doctor.c", "libcuda.so.418.226.00", "-DOLD", "-DMUTE")))
    assert (seen["version"], seen["cu_init"]) == ("418.226.00", 0)
    (gpu,) = seen["devices"]
    assert (gpu["uuid"], gpu["attributes"]["memory_bytes"]) == (None, None)
    why = "this libcuda has no such function"
    assert seen["unavailable"]["cuDeviceGetUuid"] == seen["unavailable"]["cuDeviceTotalMem_v2"] == why


def test_a_driver_before_mig_tells_its_uuid_by_the_older_function(compile_library: Callable[..., Path]) -> None:
    seen = answer_of(placed(compile_library("libcuda_doctor.c", "libcuda.so.450.80.02", "-DMIDDLE")))
    assert seen["devices"][0]["uuid"] == UUID
    assert "cuDeviceGetUuid_v2" not in seen["unavailable"]


def test_a_gpu_that_answers_nothing_is_listed_anyway(folder: Path) -> None:
    seen = answer_of(folder, CUDA_FAKE_DEVICES="2")
    assert [gpu.get("name") for gpu in seen["devices"]] == ["NVIDIA H200", None]
    assert seen["unavailable"]["cuDeviceGet"] == "CUDA_ERROR_INVALID_DEVICE"


def test_a_library_that_is_none_is_reported_in_the_loaders_words(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    seen = answer_of(tmp_path)
    assert seen["status"] == "failed"
    assert "libcuda.so.1" in seen["error"]
    assert [(copy["real"], copy["release"]) for copy in seen["copies"]] == [(str(tmp_path / "libcuda.so.1"), None)]


def test_a_stub_that_is_mapped_is_reported_as_a_stub(compile_library: Callable[..., Path]) -> None:
    library = compile_library("libcuda_doctor.c", "libcuda.so")
    stubs = library.parent / "stubs"
    stubs.mkdir()
    library.rename(stubs / "libcuda.so")
    (stubs / "libcuda.so.1").symlink_to("libcuda.so")
    seen = answer_of(stubs, CUDA_FAKE="34", LIBRARY_PATH=f"{stubs}:/nowhere:")
    assert (seen["path"], seen["kind"], seen["version"]) == (str(stubs / "libcuda.so"), "stub", None)
    assert seen["stub_on_path"] == {"LD_LIBRARY_PATH": [str(stubs)], "LIBRARY_PATH": [str(stubs)]}


def test_a_link_to_a_stub_from_a_folder_of_another_name_is_reported() -> None:
    host = ToldHost(
        {"/usr/local/cuda/lib64/stubs/libcuda.so": "", "/opt/x/libcuda.so": ""},
        links={"/opt/lib/libcuda.so.1": "/usr/local/cuda/lib64/stubs/libcuda.so"},
        environ={"LD_LIBRARY_PATH": "/opt/lib:/opt/x"},
        libraries={"libcuda.so.1": OSError(MISSING)},
    )
    assert LIBCUDA["probe"](host)["stub_on_path"] == {"LD_LIBRARY_PATH": ["/opt/lib"], "LIBRARY_PATH": []}


def test_stubs_on_the_compilers_path_are_reported_and_are_not_on_the_loaders(folder: Path) -> None:
    """The H200 host of 2026-11-21."""
    host = ToldHost(
        {"/usr/local/cuda-13.0/lib64/stubs/libcuda.so": "", f"/usr/local/nvidia/lib64/{NAME}": ""},
        links={"/usr/local/cuda": "/usr/local/cuda-13.0", "/usr/local/nvidia/lib64/libcuda.so.1": NAME},
        environ={
            "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/nvidia/lib",
            "LIBRARY_PATH": "/usr/local/cuda/lib64/stubs",
            "CUDA_VISIBLE_DEVICES": "0",
        },
        libraries={"libcuda.so.1": ctypes.CDLL(str(folder / NAME))},
        maps=[f"/usr/local/nvidia/lib64/{NAME}"],
    )
    seen = LIBCUDA["probe"](host)
    assert (seen["path"], seen["version"]) == (f"/usr/local/nvidia/lib64/{NAME}", "580.159.04")
    assert seen["visible"] == "0"
    assert seen["stub_on_path"] == {"LD_LIBRARY_PATH": [], "LIBRARY_PATH": ["/usr/local/cuda/lib64/stubs"]}
    assert [copy["kind"] for copy in seen["copies"]] == ["driver", "stub"]


def test_no_library_and_no_copy_is_absence() -> None:
    assert LIBCUDA["probe"](ToldHost(libraries={"libcuda.so.1": OSError(MISSING)})) is None


def test_a_copy_that_cannot_be_loaded_is_not_absence() -> None:
    host = ToldHost({"/usr/local/cuda/compat/libcuda.so.1": ""}, libraries={"libcuda.so.1": OSError(MISSING)})
    seen = LIBCUDA["probe"](host)
    assert (seen["status"], seen["error"], len(seen["copies"])) == ("failed", MISSING, 1)


def test_a_library_without_cuinit_is_a_failure() -> None:
    seen = LIBCUDA["probe"](ToldHost(libraries={"libcuda.so.1": {}}))
    assert (seen["status"], seen["cu_init"], seen["path"]) == ("failed", None, None)
    assert seen["error"] == "cuInit: no such function"
