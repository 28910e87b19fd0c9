"""What is reported of processes on the GPU: nothing of one that merely uses it, and what to do about a stuck one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.diagnose.machine import processes
from gpustack.matrix import Matrix
from gpustack.model.report import Finding, Health, Purpose, Severity
from tests.build import driver, found, gpu, healthy, libcuda, log, module, nvml_error, report, seen

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

GONE = ({"path": "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", "release": "550.54.15"},)
ON_GPU = ({"gpu": "0000:06:00.0", "index": 2, "vendor": "nvidia", "kind": "compute", "used_mib": 5371},)
DELETED, STUCK = "process-on-deleted-driver", "gpu-process-stuck"


def process(pid: int = 70, **facts: object) -> dict[str, object]:
    """Return a training script on the GPU, as its probe reports it."""
    common = {
        "key": f"pid {pid}",
        "pid": pid,
        "found_by": ("driver", "open device"),
        "gpus": ON_GPU,
        "used_mib": 5371,
        "seen": True,
        "name": "python3",
        "command": "python3 train.py",
        "application": "training script",
        "state": "S",
        "parent": 1,
        "group": pid,
        "gone": (),
    }
    return {**common, **facts}


def machine(*processes: dict[str, object]) -> Facts:
    return healthy(seen("gpu-processes", *processes))


def stuck(how: str = "ended", where: str | None = None, heirs: tuple[int, ...] = ()) -> dict[str, object]:
    return {"how": how, "where": where, "seconds": 0.6, "heirs": heirs}


def must(facts: Facts, finding: str) -> Finding:
    one = found(facts, finding)
    assert one is not None
    return one


def commands(finding: Finding) -> tuple[str, ...]:
    assert finding.fix is not None
    return finding.fix.commands


@pytest.mark.parametrize(
    "one",
    [
        process(),
        process(state="D"),
        process(seen=False, name=None, command=None, gone=None),
        process(found_by=("open device",), gpus=(), used_mib=None),
        process(gone=None, libraries=None, denied=("maps",)),
    ],
)
def test_a_process_that_merely_uses_the_gpu_is_not_a_finding(one: dict[str, object]) -> None:
    made = report(machine(one))
    assert made.verdict.status is Health.HEALTHY
    assert not [finding for finding in made.findings if finding.component == "gpu-processes"]


def test_no_process_and_unknown_processes_are_not_a_finding() -> None:
    unknown: dict[str, object] = {"key": "others", "status": "unknown", "why": "NVML does not answer"}
    for facts in (machine(), machine(unknown), healthy(seen("gpu-processes", status="not-applicable"))):
        assert not {DELETED, STUCK} & {finding.id for finding in report(facts).findings}


def test_processes_on_a_replaced_driver_are_one_finding_with_the_releases_and_how_to_start_each_again() -> None:
    docker = {"engine": "docker", "id": "0123456789ab"}
    facts = machine(
        process(70, gone=GONE),
        process(71, gone=GONE, container=docker),
        process(72, gone=GONE, unit="vllm.service"),
        process(73, gone=GONE, slurm_job="4711"),
        process(74),
    )
    one = must(facts, DELETED)
    assert one.severity is Severity.WARNING
    assert "4 processes run on deleted files of driver 550.54.15" in one.title
    assert "python3 train.py (pid 70, training script)" in one.detail
    assert "Installed now is 580.95.05" in one.detail
    assert commands(one) == (
        "kill 70",
        "docker restart 0123456789ab",
        "sudo systemctl restart vllm.service",
        "scontrol requeue 4711",
    )
    assert report(facts).verdict.root_causes == (DELETED,)


def test_where_the_update_left_the_module_behind_that_is_the_root() -> None:
    parts = (module("550.54.15", "550.54.15"), driver("580.95.05"), nvml_error(18, "LIB_RM_VERSION_MISMATCH"))
    facts = healthy(*parts, libcuda(init=803), seen("gpu"), seen("gpu-processes", process(gone=GONE)))
    assert must(facts, DELETED).caused_by == "driver-library-mismatch"
    assert report(facts).verdict.root_causes == ("driver-library-mismatch",)


def test_one_that_has_ended_and_holds_memory_is_an_error_with_what_to_end() -> None:
    one = must(machine(process(state="Z", parent=33, stuck=stuck(heirs=(71, 72)))), STUCK)
    assert (one.severity, one.instance) == (Severity.ERROR, "70")
    assert "still holds 5371 MiB" in one.title
    assert "71, 72" in one.detail
    assert commands(one)[:2] == ("kill 71 72", "kill -CHLD 33")
    assert commands(one)[-1] == "sudo nvidia-smi --gpu-reset -i 2"


def test_one_that_has_ended_without_memory_weighs_less() -> None:
    one = must(machine(process(state="Z", used_mib=None, gpus=(), stuck=stuck())), STUCK)
    assert one.severity is Severity.WARNING
    assert not any("gpu-reset" in command or "CHLD" in command for command in commands(one))


def test_one_that_waits_in_the_driver_is_a_warning_that_names_where() -> None:
    one = must(machine(process(state="D", stuck=stuck("waits", "os_acquire_rwlock_write"))), STUCK)
    assert one.severity is Severity.WARNING
    assert "os_acquire_rwlock_write" in one.title
    assert one.fix is not None
    assert one.fix.needs_reboot
    assert "sudo cat /proc/70/stack" in commands(one)


def test_a_gpu_that_fell_off_explains_who_waits_for_it() -> None:
    facts = machine(process(state="D", stuck=stuck("waits", "uvm_va_space_destroy")))
    facts = healthy(*facts.components, log(xids=[{"pci": "0000:06:00.0", "code": 79, "text": ""}]))
    one = must(facts, STUCK)
    assert (one.caused_by or "").startswith("gpu-fell-off-bus")


def test_a_name_from_elsewhere_that_is_not_a_unit_is_left_out_of_the_command() -> None:
    one = must(machine(process(gone=GONE, unit="x.service; rm -rf /")), DELETED)
    assert commands(one) == ("sudo systemctl restart UNIT",)


def test_many_processes_are_named_up_to_a_few() -> None:
    said = processes.listed(processes.processes(machine(*(process(70 + number) for number in range(9)))))
    assert said.endswith("and 5 more")


def test_a_pod_is_deleted_not_killed() -> None:
    held = {"engine": "kubernetes", "id": "ba9876543210"}
    fix = must(machine(process(gone=GONE, container=held)), DELETED).fix
    assert fix is not None
    assert fix.commands == ()
    assert "Delete the pod that holds container ba9876543210" in fix.text


def manager(version: str, *, init: int = 802, running: bool = True) -> Facts:
    fabric = gpu(fabric={"state": "in-progress"})
    daemon = {"key": "nv-fabricmanager", "version": version, "running": running, "needed": True}
    return healthy(libcuda(init=init), seen("gpu", fabric), seen("nvidia-fabricmanager", daemon))


def test_a_fabric_manager_of_another_release_is_the_root_on_a_live_machine() -> None:
    made = judge(manager("570.86.10"), Matrix(), Purpose.ANY)
    assert made.verdict.root_causes == ("fabric-manager-version-mismatch",)
    one = next(one for one in made.findings if one.id == "fabric-manager-version-mismatch")
    assert "570.86.10" in one.title
    assert "580.95.05" in one.title


def test_one_of_the_drivers_release_that_has_not_joined_the_gpus_yet() -> None:
    made = report(manager("580.95.05"))
    assert made.verdict.root_causes == ("fabric-manager-not-running",)
    assert "runs and has not joined" in must(manager("580.95.05"), "fabric-manager-not-running").title
    off = manager("580.95.05", running=False)
    assert must(off, "fabric-manager-not-running").title.endswith("is not running")


def test_another_release_where_cuda_starts_is_a_warning_of_the_next_start() -> None:
    one = must(manager("570.86.10", init=0), "fabric-manager-version-mismatch")
    assert (one.severity, "570.86.10" in one.title) == (Severity.WARNING, True)
