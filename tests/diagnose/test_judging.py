"""The judge: one verdict, causes before consequences, and the same result for the same facts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from gpustack.diagnose import engine
from gpustack.diagnose.evidence import cause_of
from gpustack.diagnose.rule import rules
from gpustack.matrix import Matrix
from gpustack.model.facts import Environment, Facts, Unseen, once
from gpustack.model.report import Finding, Health, Kept, Severity
from tests.build import (
    PYTHON,
    driver,
    healthy,
    ids,
    jax,
    kernel,
    libcuda,
    log,
    machine,
    merged,
    module,
    nvml_error,
    on,
    onnxruntime,
    pci,
    python,
    report,
    roots,
    seen,
    torch,
    uvm,
)
from tests.policy.checked import LOW

FAILED = engine.failed  # which otherwise fails tests (conftest.py)
RAN = {"ran": True, "ok": True, "device": "cuda:0"}


def test_a_machine_where_all_is_well_is_healthy() -> None:
    made = report(healthy(torch(), jax(), onnxruntime()))
    assert made.verdict.status is Health.HEALTHY
    assert made.verdict.root_causes == ()
    assert made.verdict.works == {"pytorch": True, "jax": True, "onnxruntime": False}
    assert {contract.status for contract in made.contracts} == {Kept.OK}
    assert made.tool.name == "gpustack"
    assert made.tool.matrix_date == Matrix().date


def test_a_rule_that_fails_costs_what_it_alone_would_have_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(_facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
        yield from ()
        raise KeyError("no such row")

    failing = replace(rules()["nccl-version-clash"], predicate=judge)
    monkeypatch.setattr(engine, "failed", FAILED)
    monkeypatch.setitem(rules(), failing.id, failing)
    made = report(healthy(torch()))
    (unseen,) = made.not_seen
    assert (unseen.what, unseen.why) == ("nccl-version-clash", "its rule failed: KeyError: 'no such row'")
    assert made.verdict.status is Health.UNKNOWN, "nobody looked, so nobody says that all is well"
    broken = report(merged(healthy(torch()), module("570.133.07"), nvml_error(18, "MISMATCH"), libcuda(init=803)))
    assert broken.verdict.status is Health.BROKEN, "the others still speak"
    assert broken.verdict.root_causes == ("driver-library-mismatch",)


def test_what_weighs_on_a_verdict() -> None:
    assert report(healthy(torch("2.11.0", "cpu", None))).verdict.status is Health.DEGRADED
    assert report(healthy(torch(), libcuda(init=802))).verdict.status is Health.BROKEN
    assert report(healthy(seen("nvml", reason="gave no answer", status="failed"))).verdict.status is Health.UNKNOWN
    assert report(machine(seen("pci-display"))).verdict.status is Health.NO_GPU
    assert report(machine()).verdict.status is Health.UNKNOWN


def test_a_fault_is_a_fault_even_where_something_else_was_not_seen() -> None:
    facts = healthy(torch(), libcuda(init=802), seen("pci-display", reason="x", status="failed"))
    assert report(facts).verdict.status is Health.BROKEN


def test_what_was_not_seen_for_a_known_reason_leaves_the_verdict_to_that_reason() -> None:
    facts, hot = healthy(), replace(LOW, id="gpu-overheat")
    blank = replace(LOW, id="component-not-seen", severity=Severity.UNKNOWN)
    for follows, status in ((blank, Health.UNKNOWN), (replace(blank, caused_by=hot.key), Health.DEGRADED)):
        assert engine.verdict([hot, follows], facts, {}, blind=False).status is status


def test_what_was_not_seen_is_reported_beside_what_was() -> None:
    denied = Unseen(what="/dev/kmsg", why="permission denied", enable_by="run gpustack as root")
    assert report(merged(healthy(), unseen=[denied])).not_seen == (denied,)


def test_nothing_that_shows_the_driver_at_work_is_not_health() -> None:
    assert report(machine(seen("pci-display", pci()), module(), driver())).verdict.status is Health.UNKNOWN
    assert report(machine(seen("pci-display", pci()), libcuda())).verdict.status is Health.UNKNOWN
    assert report(machine(seen("pci-display", pci()), seen("nvml"), libcuda())).verdict.status is Health.HEALTHY
    ran = machine(seen("pci-display", pci()), module(), driver(), seen("nvml"), torch(exercise=RAN))
    assert report(ran).verdict.status is Health.HEALTHY


def test_gpus_that_are_all_held_for_virtual_machines_are_as_they_should_be() -> None:
    held = machine(kernel(), seen("pci-display", pci("vfio-pci")), module(None, None), driver(None), seen("nvml"))
    assert report(held).verdict.status is Health.HEALTHY
    assert ids(held) == {"gpu-passed-through"}


def test_no_gpu_is_not_a_fault_and_needs_a_look_at_the_bus() -> None:
    bare = (kernel(), module(None, None), driver(None), seen("nvml"), seen("libcuda"), python(), torch())
    assert report(machine(seen("pci-display"), *bare)).verdict.status is Health.NO_GPU
    assert ids(machine(seen("pci-display"), *bare)) == set()
    blind = machine(seen("pci-display", reason="sysfs is not mounted", status="failed"), *bare)
    assert report(blind).verdict.status is Health.UNKNOWN
    assert report(machine(*bare)).verdict.status is Health.UNKNOWN
    windows = merged(machine(seen("pci-display"), *bare, wsl=True), kernel(dxg=True))
    assert report(windows).verdict.status is Health.UNKNOWN


def test_roots_are_ordered_by_weight_then_by_layer() -> None:
    throttled = {"reasons": ["hw_thermal_slowdown"]}
    hot = seen("gpu", {**_gpu_facts(), "throttle": throttled})
    facts = healthy(hot, torch(archs=["sm_75"]), libcuda(visible="0,7"))
    assert roots(facts) == ("arch-not-in-build", "gpu-overheat", "cuda-visible-devices-invalid")


def test_a_second_gpu_without_code_takes_nothing_from_the_first() -> None:
    def two(*ccs: str) -> Facts:
        devices = [{"ordinal": number, "cc": cc} for number, cc in enumerate(ccs)]
        return healthy(torch(archs=["sm_75", "sm_86", "sm_90"]), libcuda(devices=devices))

    mixed = report(two("8.9", "6.1"))
    assert (mixed.verdict.status, mixed.verdict.works) == (Health.DEGRADED, {"pytorch": True})
    finding = next(one for one in mixed.findings if one.id == "arch-not-in-build")
    assert finding.fix is not None
    assert finding.fix.commands == ("export CUDA_VISIBLE_DEVICES=0",)
    assert report(two("6.1", "8.9")).verdict.works == {"pytorch": False}
    assert report(two("6.1")).verdict.status is Health.BROKEN


def test_what_is_wrong_in_a_second_python_is_reported_for_that_one() -> None:
    other = "/b b/bin/python"
    first, second = torch().instances[0], torch("2.6.0", "cu124", "12.4", environment=other).instances[0]
    well = {"environment": PYTHON, "distributions": {"torch": "2.11.0+cu130"}}
    wrong = {"environment": other, "distributions": {"torch": "2.6.0+cu124", "torchvision": "0.20.0+cu124"}}
    both = replace(torch(), instances=(first, second))
    facts = healthy(both, seen("packages", {"key": "a", **well}, {"key": "b", **wrong}))
    pythons = tuple(Environment(python=one, kind="venv") for one in (PYTHON, other))
    (finding,) = report(replace(facts, environments=pythons)).findings
    assert (finding.id, finding.instance) == ("torch-torchvision-mismatch", f"torchvision:{other}")
    assert "torch 2.6.0+cu124 and torchvision 0.20.0+cu124" in finding.title
    assert other in finding.title
    assert finding.fix is not None
    assert all(one.startswith('"/b b/bin/python" -m pip ') for one in finding.fix.commands)
    found_by_looking = (pythons[0], replace(pythons[1], found=True))
    assert report(replace(facts, environments=found_by_looking)).findings == (finding,)


def test_a_known_bad_library_of_the_machine_is_not_laid_to_every_python() -> None:
    other = "/b/bin/python"
    wheel = {"key": "w", "path": "/v/libcudnn.so.9", "version": "9.20.0", "environment": PYTHON}
    system = {"key": "s", "path": "/usr/lib/libcudnn.so.9", "version": "9.1.0"}
    pythons = tuple(Environment(python=one, kind="venv") for one in (PYTHON, other))
    bad = {"key": "b", "path": "/b/libcudnn.so.9", "version": "9.1.0", "environment": other}
    for copies, where in (((wheel, system), set()), ((wheel, bad), {other})):
        facts = replace(healthy(torch(), seen("cudnn", *copies)), environments=pythons)
        told = [one for one in report(facts).findings if one.instance and one.instance.startswith("cudnn-thd-9-1")]
        assert {(one.instance or "").partition(":")[2] for one in told} == where


def test_two_pythons_with_two_releases_of_torch_are_not_a_doubled_torch() -> None:
    other = "/b/bin/python"
    copies = (torch().instances[0], torch("2.6.0", "cu124", "12.4", environment=other).instances[0])
    packages = seen(
        "packages",
        {"key": "a", "environment": PYTHON, "distributions": {"torch": "2.11.0+cu130", "torch-nightly": "2.11.0"}},
        {"key": "b", "environment": other, "distributions": {"torch": "2.6.0+cu124"}},
    )
    pythons = tuple(Environment(python=one, kind="venv") for one in (PYTHON, other))
    facts = replace(healthy(replace(torch(), instances=copies), packages), environments=pythons)
    assert "duplicate-torch-install" not in ids(facts)


def _gpu_facts() -> dict[str, object]:
    copy = next(one for one in healthy().components if one.id == "gpu").instances[0]
    return {**copy.facts, "key": copy.key}


def test_a_consequence_has_a_cause_and_no_advice() -> None:
    made = report(
        healthy(torch(), module("570.133.07", "580.95.05"), nvml_error(18, "MISMATCH"), libcuda(init=803), seen("gpu"))
    )
    by_key = {finding.key: finding for finding in made.findings}
    for finding in made.findings:
        if finding.caused_by:
            assert finding.caused_by in by_key
            assert finding.fix is None
            assert finding.key not in made.verdict.root_keys
    assert made.verdict.root_keys == ("driver-library-mismatch",)


def test_of_two_causes_that_of_the_same_gpu_explains() -> None:
    gpus = ("0000:01:00.0", "0000:02:00.0")
    causes = [replace(LOW, id="gpu-ecc-error", instance=at, severity=Severity.ERROR) for at in gpus]
    for cause in causes:
        assert cause_of(replace(cause, id="gpu-recovery-needed"), causes) == cause.key


def test_each_root_is_named_once_and_each_key_too() -> None:
    two = seen("pci-display", pci("nouveau", "0x1db6"), pci("nouveau", "0x1db6", "0000:02:00.0"))
    missing = healthy(two, module(None, None), driver(None), seen("nvml"), seen("libcuda"), seen("gpu"), uvm(None))
    verdict = report(missing).verdict
    assert verdict.root_causes == ("nvidia-driver-missing",)
    lost = log(xids=[{"pci": f"0000:0{n}:00.0", "code": 79, "text": ""} for n in (1, 2)])
    verdict = report(merged(healthy(lost), seen("gpu"))).verdict
    assert verdict.root_causes == ("gpu-fell-off-bus",)
    assert len(verdict.root_keys) == 2


def test_what_works_is_reported_for_each_python_and_the_chosen_one() -> None:
    other = "/opt/other/bin/python"
    facts = healthy(
        seen(
            "pytorch",
            {
                "version": "2.11.0+cu130",
                "build": "cu130",
                "environment": PYTHON,
                "cuda": "13.0",
                "accelerator": "cuda",
                "archs": ["sm_90"],
            },
            {"version": "2.11.0+cpu", "build": "cpu", "environment": other, "accelerator": "cpu"},
        )
    )
    both = replace(
        facts, environments=(Environment(python=PYTHON, kind="venv"), Environment(python=other, kind="venv"))
    )
    made = report(both)
    assert [one.works for one in made.environments] == [{"pytorch": True}, {"pytorch": False}]
    assert made.verdict.works == {"pytorch": True}
    assert report(replace(facts, environments=())).verdict.works == {"pytorch": False}


@pytest.mark.parametrize(
    ("facts", "works"),
    [
        (healthy(torch(exercise=RAN)), True),
        (healthy(torch(exercise={"ran": True, "ok": False, "device": "cuda:0"})), False),
        (healthy(torch(exercise=RAN), libcuda(init=802)), True),
        (healthy(torch(), libcuda(init=802)), False),
        (healthy(torch(archs=["sm_75"])), False),
        (healthy(torch(archs=[])), None),
        (healthy(torch(), seen("libcuda", reason="hung", status="failed")), None),
        (healthy(torch(status="failed")), False),
        (machine(seen("pci-display"), torch()), None),
        (machine(seen("pci-display"), torch(exercise={"ran": True, "ok": True, "device": "cpu"})), True),
        (machine(seen("pci-display"), torch(exercise={"ran": True, "ok": False, "device": "cpu"})), None),
        (machine(torch()), None),
    ],
)
def test_a_framework_works_when_it_is_proven_or_all_it_needs_is_there(facts: Facts, works: bool | None) -> None:  # noqa: FBT001 - a row
    assert report(facts).verdict.works == {"pytorch": works}


OTHER = "/home/u/other/bin/python"
TORCH = {
    "version": "2.11.0+cu130",
    "build": "cu130",
    "cuda": "13.0",
    "accelerator": "cuda",
    "archs": ["sm_86", "sm_90"],
}
CPU = {"version": "2.11.0+cpu", "build": "cpu", "accelerator": "cpu"}


def two(facts: Facts, mine: Mapping[str, object], other: Mapping[str, object], kind: str = "venv") -> Facts:
    """Return the machine with the selected Python and one that was discovered, each with its own PyTorch."""
    copies = [{**copy, "environment": python} for copy, python in ((mine, PYTHON), (other, OTHER)) if copy]
    found = Environment(python=OTHER, kind=kind, prefix="/home/u/other", found=True)
    environments = (Environment(python=PYTHON, kind="venv"), found)
    return replace(merged(facts, seen("pytorch", *copies)), environments=environments)


def test_a_broken_python_that_was_found_does_not_break_the_machine() -> None:
    old = {**TORCH, "version": "2.7.0+cu126", "build": "cu126", "cuda": "12.6"}
    made = report(two(on("560.35.03", 12060), old, TORCH))
    assert made.verdict.status is Health.DEGRADED
    (told,) = [one for one in made.findings if one.id == "driver-too-old-for-cuda-build"]
    assert (told.severity, told.instance) == (Severity.WARNING, f"pytorch:{OTHER}")
    assert [one.works for one in made.environments] == [{"pytorch": True}, {"pytorch": False}]
    assert made.verdict.works == {"pytorch": True}


def test_the_chosen_python_is_judged_as_if_it_were_alone() -> None:
    facts = two(on("560.35.03", 12060), TORCH, CPU)
    alone = replace(facts, environments=facts.environments[:1])
    alone = merged(alone, seen("pytorch", {**TORCH, "environment": PYTHON}))
    made, single = report(facts), report(alone)
    assert made.verdict.root_keys[: len(single.verdict.root_keys)] == single.verdict.root_keys
    assert made.verdict.status is single.verdict.status is Health.BROKEN
    by_key = {one.key: one for one in made.findings}
    assert all(by_key[one.key] == one for one in single.findings)


def test_what_a_found_python_leaves_open_leaves_the_machine_well() -> None:
    assert report(two(healthy(), TORCH, {})).verdict.status is Health.HEALTHY
    assert report(two(healthy(), {}, {**TORCH, "status": "failed", "error": "x"})).verdict.status is not Health.BROKEN
    late = {"ran": False, "status": "failed", "reason": "gave no answer in 8.0 s"}
    assert report(two(healthy(), TORCH, {**TORCH, "exercise": late})).verdict.status is Health.HEALTHY
    assert report(two(healthy(), {**TORCH, "exercise": late}, TORCH)).verdict.status is Health.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("venv", ". /home/u/other/bin/activate"),
        ("conda", "conda activate /home/u/other"),
        ("jupyter kernel x", f"{OTHER} PROGRAM.py"),
    ],
)
@pytest.mark.parametrize("mine", [CPU, {}])
def test_a_python_that_works_where_the_chosen_one_does_not_is_named(
    mine: Mapping[str, object], kind: str, command: str
) -> None:
    made = report(two(healthy(), mine, TORCH, kind))
    told = next(one for one in made.findings if one.id == "another-environment-works")
    assert told.severity is Severity.INFO
    assert OTHER in told.title
    assert told.fix
    assert told.fix.commands == (command,)
    assert "another-environment-works" not in made.verdict.root_causes


def test_nothing_is_said_of_another_python_where_the_chosen_one_works_or_neither_does() -> None:
    for facts in (two(healthy(), TORCH, TORCH), two(healthy(), TORCH, CPU), two(healthy(), CPU, CPU), healthy()):
        assert "another-environment-works" not in {one.id for one in report(facts).findings}


def test_facts_that_were_copied_or_sent_by_another_process_are_judged_the_same() -> None:
    facts = healthy(torch())
    sent, copied = pickle.loads(pickle.dumps(facts)), copy.deepcopy(facts)  # noqa: S301 - our own
    assert engine.judge(sent, Matrix()) == engine.judge(copied, Matrix()) == engine.judge(facts, Matrix())
    assert sent == facts


def test_a_question_is_worked_out_once_for_the_same_facts_and_words_and_again_for_others() -> None:
    worked: list[str] = []

    @once
    def question(facts: Facts, word: str) -> str:
        worked.append(word)
        return f"{facts.taken} {word}"

    facts = healthy(torch())
    other = replace(facts, taken="2026-01-01T00:00:00Z")
    assert [question(facts, "a"), question(facts, "a"), question(facts, "b")] == [f"{facts.taken} {w}" for w in "aab"]
    assert question(other, "a") == "2026-01-01T00:00:00Z a"
    assert worked == ["a", "b", "a"]
