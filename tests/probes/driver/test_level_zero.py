"""The Level Zero probe, in a child that really loads a loader: a stand-in compiled here, healthy and faulty."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack import assets
from gpustack.collect import catalogue
from gpustack.collect.subprocesses import Door
from gpustack.collect.workers import Reply, Task, ask
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROBE = load("driver/level_zero.py")
SYSTEM = next(system for system in catalogue.load() if system.id == "level-zero")
NAME = "libze_loader.so.1"


@pytest.fixture(scope="session")
def folder(compile_library: Callable[..., Path]) -> Path:
    """Return the folder of a stand-in loader."""
    library = compile_library("libze_doctor.c", f"{NAME}.28.2")
    (library.parent / NAME).symlink_to(library.name)
    return library.parent


def reply_of(folder: Path, **environ: str) -> Reply:
    """Return the result of a child whose loader searches the folder first."""
    task = Task(
        argv=(sys.executable, "-I", "-S", str(assets.PROBES)),
        environ={"LD_LIBRARY_PATH": str(folder), **environ},
        systems=(SYSTEM,),
    )
    door = Door()
    (reply,) = ask([task], door, door.now() + 8)
    return reply


def seen(folder: Path, **environ: str) -> dict[str, Any]:
    reply = reply_of(folder, **environ)
    assert reply.answer is not None, reply.failure
    (instance,) = reply.answer["instances"]
    return dict(instance)


def test_a_gpu_behind_the_loader_is_named_with_its_cores_memory_and_place(folder: Path) -> None:
    told = seen(folder)
    assert told["version"] == "1.28.2"
    assert told["path"] == str(folder / f"{NAME}.28.2")
    assert (told["ze_init"], told["ze_init_name"]) == (0, "ZE_RESULT_SUCCESS")
    assert told["drivers"] == [
        {
            "number": 0x01030000 + 37833,
            "build": "37833",
            "api": "1.15",
            "devices": [
                {
                    "name": "Intel(R) Arc(TM) A770 Graphics",
                    "kind": "gpu",
                    "vendor_id": "0x8086",
                    "device_id": "0x56a0",
                    "integrated": False,
                    "clock_mhz": 2400,
                    "xe_cores": 32,
                    "pci": "0000:03:00.0",
                    "memory_bytes": 16225243136,
                }
            ],
        }
    ]


def test_the_same_in_this_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = ctypes.CDLL(str(folder / NAME))
    host = ToldHost(libraries={NAME: library}, maps=[str(folder / f"{NAME}.28.2")])
    (driver,) = PROBE["probe"](host)["drivers"]
    assert driver["devices"][0]["memory_bytes"] == 16225243136
    old = ToldHost(libraries={NAME: {name: library[name] for name in OLD}}, maps=["/l/libze_loader.so.1.0.2"])
    (driver,) = PROBE["probe"](old)["drivers"]
    assert (driver["devices"][0]["pci"], driver["devices"][0]["xe_cores"]) == (None, 32)
    monkeypatch.setenv("GPUSTACK_ZE", "silent")
    assert PROBE["probe"](host)["drivers"][0]["devices"][0]["memory_bytes"] is None
    monkeypatch.setenv("GPUSTACK_ZE", "lost")
    assert PROBE["probe"](host)["code"] == 0x70000001


OLD = (  # a loader of the first release, which could not report a GPU's PCI address
    *("zeInit", "zeDriverGet", "zeDeviceGet", "zeDriverGetApiVersion", "zeDriverGetProperties"),
    *("zeDeviceGetProperties", "zeDeviceGetMemoryProperties"),
)


def test_a_loader_without_a_driver_is_there_and_says_so(folder: Path) -> None:
    told = seen(folder, GPUSTACK_ZE="none", ZE_AFFINITY_MASK="0")
    assert "status" not in told
    assert told["ze_init_name"] == "ZE_RESULT_ERROR_UNINITIALIZED"
    assert told["drivers"] == []
    assert told["mask"] == "0"


def test_a_driver_that_fails_or_dies_is_a_failed_probe(folder: Path) -> None:
    told = seen(folder, GPUSTACK_ZE="lost")
    assert (told["status"], told["error"]) == ("failed", "zeInit: ZE_RESULT_ERROR_DEVICE_LOST")
    assert reply_of(folder, GPUSTACK_ZE="crash").failure == "was killed by SIGABRT"


def test_a_driver_that_tells_nothing_of_its_gpu(folder: Path) -> None:
    (driver,) = seen(folder, GPUSTACK_ZE="silent")["drivers"]
    assert driver["number"] is None
    assert driver["build"] is None
    assert set(driver["devices"][0].values()) == {None}


def test_a_file_that_is_not_a_library_fails_and_nothing_at_all_is_absent(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("no library")
    told = seen(tmp_path)
    assert told["status"] == "failed"
    assert "invalid ELF header" in told["error"] or "too short" in told["error"]
    assert PROBE["probe"](ToldHost()) is None


def test_structures_are_as_large_as_in_the_header() -> None:
    # measured with a C compiler on ze_api.h of level-zero 1.32
    sizes = [ctypes.sizeof(PROBE[name]) for name in ("Driver", "Device", "Memory", "Place")]
    assert sizes == [40, 368, 296, 48]
    assert PROBE["Device"].name.offset == 112
    assert PROBE["Memory"].size.offset == 32


@given(number=st.integers(0, 0xFFFFFFFF))
def test_only_a_number_of_intels_own_is_a_build(number: int) -> None:
    def properties(_handle: object, room: Any) -> int:  # noqa: ANN401 - ctypes' pointers have no public type
        room._obj.version = number  # noqa: SLF001 - what a C function would write to
        return 0

    functions = {
        "zeInit": lambda _flags: 0,
        "zeDriverGetProperties": properties,
        "zeDriverGetApiVersion": lambda _handle, _version: 1,
        "zeDriverGet": count_one,
        "zeDeviceGet": lambda _handle, _count, _room: 1,
    }
    host = ToldHost(libraries={NAME: functions}, maps=["/l/libze_loader.so.1.20.2"])
    (driver,) = PROBE["probe"](host)["drivers"]
    assert (driver["build"] is not None) == (0x01030000 < number < 0x01030000 + (1 << 20))
    assert driver["devices"] == []


def count_one(count: Any, room: Any) -> int:  # noqa: ANN401 - ctypes' pointers have no public type
    """Return one handle, as the loader does."""
    count._obj.value = 1  # noqa: SLF001 - what a C function would write to
    if room is not None:
        room[0] = 4096
    return 0
