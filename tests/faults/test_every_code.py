"""Every error number of NVML and CUDA at every stage, returned by a real library to the real probe.

The libraries are the compiled stand-ins; the dynamic loader, ctypes and nvidia-ml-py are the real ones. Stages that do
not hide one another each return a code of their own in one run, and the next run shifts the codes by one: so every
stage meets every code in as many runs as there are codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pynvml
import pytest

from gpustack.matrix.subjects.codes import FAMILIES, numbers
from gpustack.model.facts import Status
from gpustack.model.report import Health
from tests.fakes.nvml import CODES
from tests.faults import machine
from tests.faults.files import files
from tests.faults.looks import MATRIX, Look, look
from tests.faults.programs import programs
from tests.faults.rows import libraries
from tests.faults.table import PAGE, page
from tests.told import load

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.machine import Shop

# Two GPUs, linked, each with one MIG instance, so that every query is made; all of them are healthy.
WIDE = {"NVML_FAKE_GPUS": "2", "NVML_FAKE_MIG": "1"}
FAMILY = next(one for one in FAMILIES if one.id == "cuda")
NAMES = {one.number: (*one.also, one.name)[0] for one in numbers(MATRIX, FAMILY)}
CUDA = {number: name for number, name in NAMES.items() if name.startswith("CUDA_ERROR_")}
NVML = ("nvml", "gpu", "nvlink")
ENDS = ("nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex")  # without these nothing else is queried
SYSTEM = ("nvmlSystemGetNVMLVersion", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
MIG = "nvmlDeviceGetMigMode"
# The answers of these decide what else is queried. Those of one group do not hide one another.
GATES = (
    (
        MIG,
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetName",
    ),  # nothing is reported about a GPU without a name
    ("nvmlDeviceGetMaxMigDeviceCount",),
    ("nvmlDeviceGetMigDeviceHandleByIndex",),
)
SPEED = "NVML_FI_DEV_NVLINK_SPEED_MBPS_L"
# Called where the first has no answer; here they return the same.
OLDER = {
    "nvmlDeviceGetTemperatureV": ("nvmlDeviceGetTemperature",),
    "nvmlDeviceGetCurrentClocksEventReasons": ("nvmlDeviceGetCurrentClocksThrottleReasons",),
    "field164": tuple(f"field{number}" for name, number in vars(pynvml).items() if name.startswith(SPEED)),
}
LINKS = "nvmlDeviceGetNvLinkState"
NO_LINK = {2, 3}  # about a link or a counter that a GPU does not have
NO_INSTANCE = {6}
CORRUPTED = ("nvmlDeviceValidateInforom", 14)  # which is what was asked
FAULTY = {8, 10, 11, 14}  # faults of the GPU itself: not enough power, no answer in time, no interrupt, its InfoROM
LOST = {15, 16}  # whatever was called, these concern the whole GPU
# These are not failures of the GPU: permissions, memory, the NVML version, a reset in progress.
UNASKED = {1, 2, 3, 4, 5, 7, 9, 12, 13, 17, 18, 19, 20, 22, 23, 24, 25, 26, 27, 30}
CUDA_ASKED = (
    "cuDriverGetVersion",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDeviceGetPCIBusId",
    "cuDeviceTotalMem_v2",
)


class Machine:
    """The machine whose libraries answer as a plan says."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self.folder = folder
        self.environ = {**machine.planted(shop, folder, ()), **WIDE}
        named = shop.folder / "names.h"
        named.write_text("".join(f'{{{number}, "{name}"}},\n' for number, name in CUDA.items()), "utf-8")
        (folder / "one" / machine.CUDA).write_bytes(shop.make("sick.c", f'-DNAMES="{named}"').read_bytes())
        self.well = machine.look(self.environ)

    def looks(self, ids: Sequence[str], plans: Sequence[Mapping[str, int]]) -> list[Look]:
        """Return a result for each plan: which code each function returns, the rest being healthy."""
        each = [
            [(one, code) for first, code in plan.items() for one in (first, *OLDER.get(first, ()))] for plan in plans
        ]
        told = [";".join([*(f"{function}={code}" for function, code in plan), machine.WELL]) for plan in each]
        return look(self.folder, self.environ, ids, [{"NVML_FAKE": plan, "NV_SICK": plan} for plan in told])


@pytest.fixture(scope="module")
def sick(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(shop, tmp_path_factory.mktemp("every"))


def kind(code: int) -> str:
    """Return the class that nvidia-ml-py raises for a code, by which every report names it."""
    return type(pynvml.NVMLError(code)).__name__


def moved(functions: Sequence[str], codes: Sequence[int]) -> list[dict[str, int]]:
    """Return as many plans as there are codes, in which each function meets each of them."""
    return [
        {function: codes[(number + place) % len(codes)] for place, function in enumerate(functions)}
        for number in range(len(codes))
    ]


def functions(seen: Look, component: str) -> list[str]:
    """Return the GPU functions that a component's probe called, each once, except those that decide on others."""
    deciding = {*ENDS, LINKS, *sum(OLDER.values(), ()), *(function for group in GATES for function in group)}
    called = dict.fromkeys(call.name for call in seen.components[component].calls)
    return [name for name in called if name.startswith("nvmlDevice") and name not in deciding]


def fields() -> list[str]:
    """Return the stand-in's names of all field values that are queried."""
    asked = [field for file in ("gpu", "nvlink") for _, field in load(f"hardware/{file}.py")["FIELDS"]]
    return [f"field{number}" for number in sorted({getattr(pynvml, f"NVML_FI_DEV_{field}") for field in asked})]


def test_the_wide_machine_is_healthy_and_all_codes_are_known(sick: Machine) -> None:
    (well,) = sick.looks(NVML, [{}])
    (cuda,) = sick.looks(["libcuda"], [{}])
    assert [seen.judged(sick.well)[0] for seen in (well, cuda)] == [Health.HEALTHY] * 2
    assert cuda.why("libcuda") == {}
    heard = " ".join(call.outcome for one in NVML for call in well.components[one].calls)
    named = {kind(code) for code in CODES if kind(code) in heard}
    assert named <= {kind(pynvml.NVML_ERROR_NOT_SUPPORTED), kind(pynvml.NVML_ERROR_NOT_FOUND)}, "of all else, the plans"
    assert {*CODES} <= {*MATRIX.nvml_codes}
    assert len(CODES) >= 29
    assert len(CUDA) >= 105
    assert len({*functions(well, "gpu"), *functions(well, "nvlink")}) >= 50


@pytest.mark.parametrize("stage", ENDS)
def test_every_code_of_nvml_where_it_ends_the_look(sick: Machine, stage: str) -> None:
    for code, seen in zip(CODES, sick.looks(NVML, [{stage: code} for code in CODES]), strict=True):
        verdict, said = seen.judged(sick.well)
        assert verdict in {Health.BROKEN, Health.UNKNOWN}
        assert kind(code) in said or MATRIX.nvml_codes[code].name in said or code in LOST
        assert [seen.components[one].status for one in ("gpu", "nvlink")] == [Status.FAILED] * 2
        nvml = seen.components["nvml"].instances[0]
        if stage == "nvmlInit":
            assert (nvml.status, nvml.facts["code"]) == (Status.FAILED, code)
            assert nvml.facts["code_name"] == MATRIX.nvml_codes[code].name
        concerned = NVML if stage != ENDS[-1] else NVML[1:]
        assert all(kind(code) in told(seen, one, stage) for one in concerned)


def told(seen: Look, component: str, stage: str) -> str:
    """Return everything that is reported about a component that failed, or about the one fact that it lacks."""
    one = seen.components[component]
    errors = [str(copy.facts.get("error")) for copy in one.instances]
    return " ".join([str(one.reason), *errors, *seen.why(component).values(), seen.heard(component, stage)])


def test_every_code_of_nvml_at_each_question_loses_only_its_own_facts(sick: Machine) -> None:
    (well,) = sick.looks(NVML, [{}])
    stages = questions(well)
    facts = [lost(alone, well) for alone in sick.looks(NVML, [{stage: 24} for stage in stages])]
    assert all(facts)
    plans = moved(stages, [code for code in CODES if code not in LOST])
    for plan, seen in zip(plans, sick.looks(NVML, plans), strict=True):
        assert [seen.components[one].status for one in NVML] == [Status.PRESENT] * 3
        assert seen.judged(sick.well)[0] is not Health.BROKEN
        for (stage, code), own in zip(plan.items(), facts, strict=True):
            assert stage.startswith("field") or any(named(stage, code, seen.heard(one, stage)) for one in NVML)
            missing = [one for one, fact in own if not named(stage, code, seen.why(one).get(fact, ""))]
            answered = (stage, code) == CORRUPTED
            assert not missing or answered or (code in NO_LINK and {*missing} == {"nvlink"})


def named(stage: str, code: int, said: str) -> bool:
    """Return whether the report names the code; for lists of processes nvidia-ml-py has a word of its own for one."""
    odd = code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND and stage.endswith("RunningProcesses")
    return kind(code) in said or (odd and "NVMLLibraryMismatchError" in said)


def questions(well: Look) -> list[str]:
    """Return every function and field that does not decide on others."""
    return list(dict.fromkeys([*functions(well, "gpu"), *functions(well, "nvlink"), *fields(), *SYSTEM]))


def lost(sick: Look, well: Look) -> set[tuple[str, str]]:
    """Return the facts, each after its component, that are unknown here and were known, or for a different reason."""
    unknown = {(one, fact): why for one in NVML for fact, why in sick.why(one).items()}
    return {(one, fact) for (one, fact), why in unknown.items() if well.why(one).get(fact) != why}


@pytest.mark.parametrize("group", GATES, ids=" ".join)
def test_every_code_of_nvml_at_what_decides_about_others(sick: Machine, group: Sequence[str]) -> None:
    plans = moved(group, [code for code in CODES if code not in LOST])
    for plan, seen in zip(plans, sick.looks(NVML, plans), strict=True):
        assert [seen.components[one].status for one in NVML] == [Status.PRESENT] * 3
        status, said = seen.judged(sick.well)
        if plan.get(MIG) == pynvml.NVML_ERROR_NOT_SUPPORTED:  # then CUDA should list both GPUs, and lists one
            assert (status, "NVML lists it, but CUDA does not" in said) == (Health.BROKEN, True)
            continue
        if FAULTY & {*plan.values()}:
            assert status is Health.DEGRADED
            assert "the driver cannot tell" in said or "its InfoROM is corrupted" in said
        else:
            well = (status, "divided into no instance" in said) == (Health.HEALTHY, False)
            assert well or {*plan.values()} == NO_INSTANCE
        for function, code in plan.items():
            assert kind(code) in seen.heard("gpu", function)
            assert kind(code) in " ".join(seen.why("gpu").values()) or {code} == NO_INSTANCE


def test_every_code_of_nvml_at_the_state_of_links_leaves_several_gpus_unknown(sick: Machine) -> None:
    for code, seen in zip(CODES, sick.looks(["nvlink"], [{LINKS: code} for code in CODES]), strict=True):
        status, said = seen.judged(sick.well)
        here = seen.components["nvlink"].status
        if code in NO_LINK:
            assert (here, status) == (Status.NOT_APPLICABLE, Health.HEALTHY)
        else:
            assert (here, status) == (Status.FAILED, Health.UNKNOWN)
            assert f"nvlink could not be examined: {kind(code)}" in said


@pytest.mark.parametrize("code", sorted(LOST))
def test_what_concerns_the_whole_gpu_does_so_at_every_question(sick: Machine, code: int) -> None:
    (well,) = sick.looks(["gpu"], [{}])
    stages = [*functions(well, "gpu"), *(gate for group in GATES for gate in group)]
    for seen in sick.looks(["gpu"], [{stage: code} for stage in stages]):
        assert seen.judged(sick.well)[0] is Health.BROKEN
        for copy in seen.components["gpu"].instances:
            assert (copy.status, copy.facts["code"]) == (Status.FAILED, code)
            assert kind(code) in str(copy.facts["error"])


def test_a_gpu_that_answers_every_question_with_an_error_is_never_healthy(sick: Machine) -> None:
    (well,) = sick.looks(NVML, [{}])
    stages = [*questions(well), *(gate for group in GATES for gate in group), LINKS]
    plans: list[dict[str, int]] = [dict.fromkeys(stages, code) for code in CODES]
    for code, seen in zip(CODES, sick.looks(["gpu"], plans), strict=True):
        status, said = seen.judged(sick.well)
        assert seen.components["gpu"].status is Status.FAILED
        assert status is (Health.UNKNOWN if code in UNASKED else Health.BROKEN)
        assert kind(code) in said or code in LOST


@pytest.mark.parametrize("stage", ["cuInit", "cuDeviceGetCount", "cuDeviceGet"])
def test_every_code_of_cuda_where_it_ends_the_look(sick: Machine, stage: str) -> None:
    for code, seen in zip(CUDA, sick.looks(["libcuda"], [{stage: code} for code in CUDA]), strict=True):
        (copy,) = seen.components["libcuda"].instances
        status, said = seen.judged(sick.well)
        assert (copy.status, copy.facts["error"]) == (Status.FAILED, f"{stage}: {CUDA[code]}")
        assert copy.facts["cu_init"] == (code if stage == "cuInit" else 0)
        assert status is Health.BROKEN
        assert CUDA[code] in said


def test_a_libcuda_that_cannot_name_its_errors_is_handled(sick: Machine) -> None:
    named = {**load("driver/libcuda.py")["ERRORS"], 700: "CUDA_ERROR_700"}
    del named[0]
    looks = sick.looks(["libcuda"], [{"cuInit": code, "cuGetErrorName": 1} for code in named])
    assert [seen.components["libcuda"].instances[0].facts["error"] for seen in looks] == [
        f"cuInit: {name}" for name in named.values()
    ]


def test_every_code_of_cuda_at_each_question_loses_only_its_own_facts(sick: Machine) -> None:
    plans = moved(CUDA_ASKED, tuple(CUDA))
    for plan, seen in zip(plans, sick.looks(["libcuda"], plans), strict=True):
        assert seen.components["libcuda"].status is Status.PRESENT
        assert seen.why("libcuda") == {stage: CUDA[code] for stage, code in plan.items()}


def test_a_gpu_that_answers_cuda_nothing_is_never_healthy(sick: Machine) -> None:
    asked = [*CUDA_ASKED, "cuDeviceGetAttribute"]
    for code, seen in zip(CUDA, sick.looks(["libcuda"], [dict.fromkeys(asked, code) for code in CUDA]), strict=True):
        status, said = seen.judged(sick.well)
        assert seen.why("libcuda") == dict.fromkeys(asked, CUDA[code])
        assert (seen.components["libcuda"].status, status) == (Status.FAILED, Health.BROKEN)
        assert f"cuDeviceGetPCIBusId: {CUDA[code]}" in said


def test_the_page_is_in_step_with_the_tests() -> None:
    """When this fails: ``python -m tests.faults.table``."""
    assert PAGE.read_text("utf-8") == page()


def test_no_combination_occurs_twice_and_there_are_enough_of_them() -> None:
    rows = [(row.words, row.place, row.component) for row in libraries()]
    rows += [(row.words, row.path, row.component) for row in files()]
    rows += [(row.words, row.command, row.component) for row in programs()]
    assert len(rows) == len(set(rows)) >= 150
    assert len({fault for fault, _, _ in rows}) >= 20
    assert len({place for _, place, _ in rows}) >= 12
