"""What changed between two machines: versions, copies, GPUs, variables; and the finding that results."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given

from gpustack.compare import changes, compare
from gpustack.model.difference import Changed, Difference, Turn
from gpustack.model.facts import Layer
from gpustack.model.report import Health, Severity
from gpustack.model.writing import render
from gpustack.redaction import redact
from gpustack.snapshots import read
from tests.build import PYTHON, driver, gpu, healthy, libcuda, log, merged, module, nvml, report, seen, torch
from tests.diagnose.test_any_facts import MACHINES
from tests.policy.checked import LOW

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts


def between(before: Facts, after: Facts) -> Difference:
    return compare(report(before), report(after), ("a.json", "b.json"))


def only(found: Difference, component: str, what: str = "version") -> Changed:
    """Return the only change of this kind."""
    (one,) = [one for one in found.changes if (one.component, one.what) == (component, what)]
    return one


def packages(**distributions: str) -> Component:
    return seen("packages", {"environment": PYTHON, "key": PYTHON, "distributions": distributions})


def test_the_same_machine_has_not_changed() -> None:
    facts = healthy(torch(), packages(torch="2.11.0"))
    found = between(facts, facts)
    assert (found.changes, found.findings) == ((), ())
    assert found.same == len(facts.components)
    assert (found.before.status, found.after.path) == (Health.HEALTHY, "b.json")


def test_a_new_driver_that_breaks_a_build_is_named_as_what_is_behind_the_finding() -> None:
    old = "470.256.02"
    parts = (module(old, old), driver(old), nvml(old, 11040), libcuda(11040, old))
    found = between(healthy(torch()), merged(healthy(torch()), *parts))
    assert (found.before.status, found.after.status) == (Health.HEALTHY, Health.BROKEN)
    (new,) = [one for one in found.findings if one.after is Severity.ERROR and one.caused_by is None]
    assert (new.id, new.turn, new.before) == ("driver-too-old-for-cuda-build", Turn.NEW, None)
    assert "nvidia-driver" in new.because_of
    assert "pytorch" not in new.because_of
    change = only(found, "nvidia-driver")
    assert (change.before, change.after, change.turn) == ("580.95.05", old, Turn.CHANGED)
    assert new.key in change.matters
    assert found.changes[0].matters
    back = between(merged(healthy(torch()), *parts), healthy(torch()))
    assert next(one for one in back.findings if one.id == new.id).turn is Turn.GONE


def test_packages_and_variables_that_came_went_or_changed_are_named() -> None:
    before = healthy(packages(torch="2.10.0", numpy="2.1", old="1"), seen("environment", {"variables": {"A": "1"}}))
    after = healthy(packages(torch="2.11.0", numpy="2.1", new="3"), seen("environment"))
    found = between(before, after)
    told = {(one.component, one.what, one.turn, one.before, one.after) for one in found.changes}
    assert told == {
        ("torch", "distribution", Turn.CHANGED, "2.10.0", "2.11.0"),
        ("old", "distribution", Turn.GONE, "1", None),
        ("new", "distribution", Turn.NEW, None, "3"),
        ("environment", "variables.A", Turn.GONE, "1", None),
    }


def test_gpus_that_came_went_or_are_set_otherwise_are_named_by_their_address() -> None:
    first, second = gpu(persistence=True), gpu(at="0000:02:00.0")
    before, after = healthy(seen("gpu", first, second)), healthy(seen("gpu", {**first, "persistence": False}))
    found = between(before, after)
    lost = only(found, "gpu", "copy")
    assert (lost.turn, lost.before, lost.where) == (Turn.GONE, "NVIDIA H200", "0000:02:00.0")
    changed = only(found, "gpu", "persistence")
    assert (changed.before, changed.after, changed.where) == ("yes", "no", "0000:01:00.0")


def test_the_gpus_of_another_host_are_compared_though_they_have_other_addresses() -> None:
    found = between(healthy(seen("gpu", gpu())), healthy(seen("gpu", gpu("NVIDIA H100", at="0000:41:00.0"))))
    assert only(found, "gpu", "name").after == "NVIDIA H100"


def test_another_copy_of_a_library_and_another_in_use_are_two_changes() -> None:
    own = {"path": f"{PYTHON}/../cudnn/libcudnn.so.9", "version": "9.19.0", "environment": PYTHON}
    other = {"path": "/usr/lib/libcudnn.so.9.1.0", "version": "9.1.0"}
    beside = between(healthy(seen("cudnn", own)), healthy(seen("cudnn", own, other)))
    assert [(one.what, one.after) for one in beside.changes if one.component == "cudnn"] == [("copy", "9.1.0")]
    shadowed = between(healthy(seen("cudnn", own, other)), healthy(seen("cudnn", other, own)))
    assert {one.what for one in shadowed.changes if one.component == "cudnn"} == {"version", "path"}


def test_the_folder_of_the_chosen_python_is_not_a_change() -> None:
    elsewhere = "/home/user/.venv/bin/python"
    facts = healthy(torch(), packages(torch="2.11.0"))
    moved = json.loads(render(facts).replace(PYTHON, elsewhere).replace("/opt/venv/", "/home/user/.venv/"))
    found = between(facts, read(json.dumps(moved)))
    assert found.changes == ()
    assert found.findings == ()


def test_what_one_side_did_not_check_is_not_compared() -> None:
    before = merged(healthy(torch()), drop=["gpu", "libcuda"])
    after = merged(healthy(torch()), seen("libcuda", status="unknown", reason="it hung"))
    assert {one.component for one in between(before, after).changes} == set()
    hung = only(between(healthy(), after), "libcuda", "status")
    assert (hung.before, hung.after) == ("present", "unknown: it hung")
    gone = only(between(healthy(torch()), healthy(seen("pytorch"))), "pytorch")
    assert (gone.turn, gone.after) == (Turn.GONE, None)


def test_what_is_never_twice_the_same_is_not_a_change() -> None:
    before = healthy(seen("gpu-processes", {"key": "pid 7", "pid": 7, "version": "1"}), log("NVRM: loading"))
    after = healthy(seen("gpu-processes", {"key": "pid 9", "pid": 9, "version": "2"}), log("NVRM: a", "NVRM: b"))
    assert between(before, after).changes == ()


def test_what_was_reported_only_once_has_not_changed() -> None:
    known, less = gpu(persistence=True, vbios="96.00"), gpu()
    copy = {"path": "/usr/lib/libcudnn.so.9", "version": "9.19.0", "build": "cuda13"}
    told = healthy(seen("gpu", known), seen("cudnn", copy))
    silent = healthy(seen("gpu", less), seen("cudnn", {"path": copy["path"]}))
    assert between(told, silent).changes == between(silent, told).changes == ()


def test_of_findings_as_grave_those_that_are_new_go_before_those_that_are_gone() -> None:
    sick = report(healthy(torch()))
    gone, new = replace(LOW, id="gpu-ecc-error"), replace(LOW, id="gpu-overheat", layer=Layer.APPLICATION)
    found = compare(replace(sick, findings=(gone,)), replace(sick, findings=(new,)))
    assert [(one.id, one.turn) for one in found.findings] == [
        ("gpu-overheat", Turn.NEW),
        ("gpu-ecc-error", Turn.GONE),
    ]


def test_another_image_or_system_is_a_change_of_the_host() -> None:
    before, after = healthy(), replace(healthy(), host=replace(healthy().host, os="Debian 12", container="docker"))
    told = {(one.what, one.turn) for one in between(before, after).changes if one.component == "host"}
    assert told == {("os", Turn.CHANGED), ("container", Turn.NEW)}
    pasted = replace(after, taken="", host=replace(after.host, container=None))
    assert [one.what for one in between(after, pasted).changes if one.component == "host"] == []


@given(MACHINES, MACHINES)
def test_any_two_machines_can_be_compared_and_a_machine_is_like_itself(before: Facts, after: Facts) -> None:
    found = between(before, after)
    keys = {one.key for one in found.findings}
    assert all(set(one.matters) <= keys for one in found.changes)
    assert all(one.before != one.after for one in found.changes)
    assert {one.turn for one in found.findings if one.before is None} <= {Turn.NEW}
    assert changes(report(before), report(before)) == ()
    assert json.loads(render(found))["schema"] == "gpustack.diff/1"


@given(MACHINES)
def test_a_redacted_snapshot_of_the_same_machine_shows_no_drift(facts: Facts) -> None:
    once = redact(facts)
    assert changes(report(once), report(redact(once))) == ()
