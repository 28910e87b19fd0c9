"""NVML in every state: working, missing, damaged, refusing, hanging, crashing, returning nonsense."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.collect import workers
from gpustack.collect.probe_results import parse
from gpustack.collect.subprocesses import Door
from gpustack.collect.workers import ask
from gpustack.model.facts import Status
from tests.fakes.nvml import CODES, PROBES, SONAME, StandIn, fresh
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = f"{SONAME}: cannot open shared object file: No such file or directory"
SHARED = load("nvml.py")


def test_a_working_library_is_seen_with_its_file_and_its_versions(nvml: StandIn) -> None:
    seen = nvml.look("nvml")["nvml"]
    assert (seen.status, seen.version, seen.path) == (Status.PRESENT, "580.159.04", str(nvml.library))
    assert seen.facts == {
        "code": 0,
        "code_name": "NVML_SUCCESS",
        "driver_version": "580.159.04",
        "cuda_version": 13000,
        "nvml_version": "13.580.159.04",
        "gpu_count": 1,
        "unavailable": {},
    }
    assert {"dlopen libnvidia-ml.so.1", "nvmlInit", "nvmlDeviceGetCount"} <= {call.name for call in seen.calls}
    assert all(0 < call.seconds < 5 for call in seen.calls)


@pytest.mark.parametrize("probe", PROBES)
def test_no_library_is_absence(probe: str) -> None:
    assert load(PROBES[probe])["probe"](ToldHost(libraries={SONAME: OSError(NOWHERE)})) is None


@pytest.mark.parametrize("probe", PROBES)
def test_a_damaged_library_is_not_absence_and_the_loader_says_what_it_is(
    tmp_path: Path, nvml: StandIn, probe: str
) -> None:
    (tmp_path / SONAME).write_text("no library at all, though long enough to look like one to the loader " * 9)
    seen = nvml.look(probe, LD_LIBRARY_PATH=str(tmp_path))[probe]
    said = seen.reason or seen.instances[0].facts["error"]
    assert seen.status is Status.FAILED
    assert "invalid ELF header" in str(said)


def test_a_library_that_needs_another_is_not_absence() -> None:
    said = "libc++.so.1: cannot open shared object file: No such file or directory"
    answer = load(PROBES["nvml"])["probe"](ToldHost(libraries={SONAME: OSError(said)}))
    assert answer == {"status": "failed", "code": None, "code_name": None, "error": said}


@pytest.mark.parametrize("probe", PROBES)
def test_a_missing_nvidia_ml_py_is_said(nvml: StandIn, probe: str) -> None:
    host = ToldHost(libraries={SONAME: nvml.loaded})
    with pytest.raises(ModuleNotFoundError, match="pynvml"):
        load(PROBES[probe])["probe"](host)


def test_every_code_that_initialisation_can_give_is_an_answer_with_its_name(nvml: StandIn) -> None:
    door = Door()
    tasks = nvml.tasks("nvml", {str(code): f"nvmlInit={code}" for code in CODES})
    replies = list(ask(tasks, door, door.now() + 60))
    assert len(replies) == len(CODES)
    for code, reply in zip(CODES, replies, strict=True):
        ((component,), unseen) = parse([reply])
        (copy,) = component.instances
        constants = {value: name for name, value in vars(nvml.module).items() if name.startswith("NVML_ERROR_")}
        assert (component.status, unseen) == (Status.FAILED, ())
        assert (copy.facts["code"], copy.facts["code_name"]) == (code, constants[code])
        assert copy.facts["error"]
        assert (copy.path, copy.facts["nvml_version"]) == (str(nvml.library), "13.580.159.04")
        assert "gpu_count" not in copy.facts


@pytest.mark.parametrize("probe", ["gpu", "nvlink"])
@pytest.mark.parametrize("code", CODES)
def test_what_stands_on_nvml_fails_with_its_refusal(
    nvml: StandIn, monkeypatch: pytest.MonkeyPatch, probe: str, code: int
) -> None:
    monkeypatch.setenv("NVML_FAKE", f"nvmlInit={code}")
    with pytest.raises(nvml.module.NVMLError) as raised:
        nvml.ask(probe)
    assert raised.value.value == code


def test_an_unknown_code_keeps_its_number(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_FAKE", "nvmlInit=77")
    answer = nvml.ask("nvml")
    assert (answer["status"], answer["code"], answer["code_name"]) == ("failed", 77, None)
    assert answer["error"] == "NVMLError: As the stand-in was told"


def test_an_error_that_cannot_be_put_into_words_keeps_its_number(
    nvml: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVML_FAKE", "nvmlInit=78;nvmlErrorString=garbage")
    host = nvml.host()
    answer = load(PROBES["nvml"])["probe"](host)
    assert answer["code"] == 78
    assert answer["error"] == "NVMLError: its text cannot be read (UnicodeDecodeError)"
    assert ("nvmlInit", answer["error"]) in [(name, outcome) for name, _, outcome in host.calls]


def test_a_version_that_is_unavailable_is_reported_and_is_not_a_failure(
    nvml: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVML_FAKE", "nvmlSystemGetDriverVersion=garbage;nvmlSystemGetCudaDriverVersion_v2=4")
    answer = nvml.ask("nvml")
    assert "status" not in answer
    assert (answer["version"], answer["cuda_version"], answer["gpu_count"]) == (None, None, 1)
    assert answer["unavailable"]["cuda_version"] == "NVMLError_NoPermission: Insufficient Permissions"
    assert "UnicodeDecodeError" in answer["unavailable"]["driver_version"]


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("hang", "gave no answer in"),
        ("segv", "was killed by SIGSEGV"),
        ("abort", "was killed by SIGABRT"),
        ("exit0", "ended with exit code 0 before it answered"),
    ],
)
@pytest.mark.parametrize(
    ("function", "hurt"),
    [
        ("nvmlSystemGetNVMLVersion", "nvml"),
        ("nvmlDeviceGetVbiosVersion", "gpu"),
        ("nvmlDeviceGetNvLinkState", "nvlink"),
    ],
)
def test_a_hang_or_a_crash_loses_one_answer_and_no_other(
    nvml: StandIn, does: str, says: str, function: str, hurt: str
) -> None:
    seen = nvml.look(seconds={hurt: 1.5}, NVML_FAKE=f"{function}={does}", NVML_FAKE_NVLINK="4")
    assert {name: component.status for name, component in seen.items()} == {
        name: Status.FAILED if name == hurt else Status.PRESENT for name in PROBES
    }
    assert says in str(seen[hurt].reason)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a busy machine the time to end what has closed its output."""
    monkeypatch.setattr(workers, "GRACE", 5.0)


def test_a_slow_driver_costs_the_last_facts_and_not_the_answer(nvml: StandIn) -> None:
    plan = {"NVML_FAKE": "nvmlDeviceGetTotalEccErrors=slow", "NVML_FAKE_GPUS": "12"}
    seen = nvml.look("gpu", seconds={"gpu": 2.5}, **plan)["gpu"]
    assert (seen.status, len(seen.instances)) == (Status.PRESENT, 12)
    assert seen.instances[0].facts["unavailable"] == {}
    last = seen.instances[-1].facts["unavailable"]
    assert isinstance(last, dict)
    assert set(last.values()) == {"not asked: the time was up"}


class Odd:
    """An answer whose PCI address is anything at all."""

    def __init__(self, address: object) -> None:
        self.busId = address
        self.pciDeviceId = 0


@given(st.one_of(st.text(), st.binary(), st.none(), st.integers(), st.from_regex(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f:.]{7}")))
def test_no_answer_can_make_a_question_raise(address: object) -> None:
    nvml = SHARED["Nvml"](ToldHost(modules={"pynvml": {"nvmlDeviceGetPciInfo": Odd}}))
    value, why = nvml.ask("nvmlDeviceGetPciInfo", address, write=SHARED["place"])
    assert (value is None) != (why is None)
    assert json.dumps([value, why])


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("00000000:00:06.0", "0000:00:06.0"),
        (b"0000C5C5:00:00.0", "c5c5:00:00.0"),
        ("00010000:1A:00.0", "10000:1a:00.0"),
        ("0000:3B:00.0", "0000:3b:00.0"),
    ],
)
def test_a_pci_address_is_written_as_the_kernel_writes_it(said: object, meant: str) -> None:
    assert SHARED["place"](Odd(said)) == meant


def test_text_is_text_from_old_and_new_versions_of_nvidia_ml_py() -> None:
    assert [SHARED["plain"](value) for value in (b"NVIDIA H200", "NVIDIA H200", 13000, None)] == [
        "NVIDIA H200",
        "NVIDIA H200",
        13000,
        None,
    ]


def test_two_stand_ins_share_nothing(nvml: StandIn, old_nvml: StandIn) -> None:
    assert nvml.module is not old_nvml.module
    assert fresh().nvmlLib is None
