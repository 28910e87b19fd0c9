"""Any answer of a probe becomes facts; a malformed one is a failed probe, never a crash."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from gpustack.collect.catalogue import System
from gpustack.collect.probe_results import parse, plain
from gpustack.collect.workers import LATE, Reply
from gpustack.model.facts import Layer, Status

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["id", "status", "reason", "instances", "seconds", "log", "calls", "other"])


def system(name: str = "libcuda") -> System:
    return System(
        id=name,
        layer=Layer.DRIVER,
        vendor="nvidia",
        here=True,
        target=True,
        alone=True,
        deep=True,
        group="",
        seconds=5,
        data={"id": name, "probe": "driver/x.py"},
    )


def reply(answer: Mapping[str, object] | None = None, python: str | None = None, **more: object) -> Reply:
    return Reply(system=system(), environment=python, answer=answer, **more)  # type: ignore[arg-type]  # as told


def present(*instances: Mapping[str, object]) -> dict[str, object]:
    return {"id": "libcuda", "status": "present", "instances": list(instances)}


def test_what_a_probe_could_not_see_says_why() -> None:
    (component,), _ = parse([reply(present({"key": "the rest", "status": "unknown", "why": "too many files"}))])
    assert (component.status, component.reason) == (Status.UNKNOWN, "too many files")


@given(st.dictionaries(KEYS, JSON))
def test_no_answer_can_make_it_raise_and_all_of_it_is_json(answer: dict[str, object]) -> None:
    (component,), _ = parse([reply(answer)])
    json.dumps(plain(component.facts), allow_nan=False)
    assert component.status is Status.FAILED or answer["status"] == component.status.value or component.instances


@given(JSON)
def test_plain_values_are_json_without_infinities(value: object) -> None:
    json.dumps(plain(value), allow_nan=False)


def test_text_is_cut_and_numbers_that_are_none_are_none() -> None:
    assert plain([math.inf, "x" * 30_000]) == (None, "x" * 20_000)


def test_named_keys_are_the_instances_own_and_all_others_are_facts() -> None:
    (component,), _ = parse([reply(present({"version": 580.1, "path": "/lib/x", "cu_init": 0}))])
    (copy,) = component.instances
    assert (copy.key, copy.version, copy.path, copy.facts) == ("/lib/x", "580.1", "/lib/x", {"cu_init": 0})
    assert (component.version, component.status) == ("580.1", Status.PRESENT)


def test_the_copy_of_the_chosen_python_is_the_one_in_use() -> None:
    (component,), _ = parse([reply(present({"version": "2"}), "/chosen"), reply(present({"version": "1"}))])
    assert component.version == "2"
    assert [copy.environment for copy in component.instances] == ["/chosen", None]


def test_the_best_of_its_copies_is_the_status() -> None:
    (component,), _ = parse([reply(present({"status": "failed", "key": "a"}, {"version": "3", "key": "b"}))])
    assert (component.status, component.version) == (Status.PRESENT, "3")
    (component,), _ = parse([reply(present({"status": "failed", "code": 18}))])
    assert (component.status, component.version) == (Status.FAILED, None)
    assert component.instances[0].facts == {"code": 18}


def test_absence_in_one_python_does_not_hide_what_another_has() -> None:
    nothing = {"id": "libcuda", "status": "absent", "instances": []}
    (component,), _ = parse([reply(nothing, "/a"), reply(present({"version": "1"}), "/b")])
    assert component.status is Status.PRESENT


def test_a_python_that_could_not_be_asked_is_not_taken_for_one_without_a_copy() -> None:
    well = reply(present({"version": "1"}), "/b")
    (component,), _ = parse([reply({"status": "failed", "reason": "KeyError: 'x'", "instances": []}, "/a"), well])
    assert (component.status, component.version) == (Status.PRESENT, "1")
    blank = component.instances[-1]
    assert (blank.environment, blank.status) == ("/a", Status.UNKNOWN)
    assert blank.facts == {"answer": "failed", "error": "KeyError: 'x'"}
    (component,), _ = parse([reply({"status": "absent", "instances": []}, "/a"), well])
    assert len(component.instances) == 1
    (component,), _ = parse([reply(None, "/found", failure="it crashed"), well], beside={"/found"})
    assert [copy.environment for copy in component.instances] == ["/b"]


def test_what_was_denied_to_several_probes_is_reported_once() -> None:
    denied = {**present({}), "log": [["read", "/proc/x", "denied"], ["read", "/dev/kmsg", "[Errno 5] no answer"]]}
    _, unseen = parse([reply(denied, "/a"), reply(denied, "/b")])
    assert [one.what for one in unseen] == ["/proc/x", "/dev/kmsg"]


def test_a_failure_is_reported_and_what_was_denied_is_not_seen() -> None:
    denied = {**present({}), "log": [["read", "/proc/x", "denied"], ["read", "/proc/y", "ok"]]}
    (component,), unseen = parse([reply(None, failure="was killed by SIGSEGV"), reply(denied)])
    assert (component.status, component.reason) == (Status.PRESENT, None)
    assert [(one.what, one.why) for one in unseen] == [
        ("libcuda", "was killed by SIGSEGV"),
        ("/proc/x", "permission denied"),
    ]
    (component,), _ = parse([reply(None, failure="the time was up", asked=False)])
    assert (component.status, component.reason) == (Status.UNKNOWN, "the time was up")


def test_what_came_of_running_a_framework_is_in_its_pythons_copy() -> None:
    replies = [
        reply(present({"version": "2.11"}), "/a"),
        reply(present({"version": "2.10"}), "/b"),
        reply(present({"ran": True, "ok": True}), "/a", deep=True),
        reply(None, "/b", deep=True, failure="was killed by SIGSEGV"),
    ]
    (component,), _ = parse(replies)
    assert component.instances[0].facts["exercise"] == {"ran": True, "ok": True}
    assert component.instances[1].facts["exercise"] == {
        "ran": False,
        "status": "failed",
        "reason": "was killed by SIGSEGV",
    }


def test_what_there_was_no_time_to_run_has_not_failed() -> None:
    late = reply(None, "/a", deep=True, failure=LATE, asked=False)
    (component,), unseen = parse([reply(present({"version": "2.11"}), "/a"), late])
    assert "exercise" not in component.instances[0].facts
    assert [(one.what, one.why, one.enable_by) for one in unseen] == [("libcuda in /a", LATE, "a longer --timeout")]


def test_the_step_at_which_a_run_died_is_reported_and_nothing_where_there_was_nothing_to_run() -> None:
    replies = [
        reply(present({"version": "2.11"}), "/a"),
        reply(present({"version": "2.10"}), "/b"),
        reply(None, "/a", deep=True, failure="was killed by SIGSEGV", step="compile"),
        reply({"id": "libcuda", "status": "absent", "instances": []}, "/b", deep=True),
    ]
    (component,), _ = parse(replies)
    told = component.instances[0].facts["exercise"]
    assert isinstance(told, Mapping)
    assert (told["reason"], told["failed_at"]) == ("was killed by SIGSEGV", "compile")
    assert "exercise" not in component.instances[1].facts


def test_a_python_without_a_copy_of_its_own_ran_that_of_the_system() -> None:
    replies = [
        reply(present({"key": "/a"}), "/python"),
        reply(present({"key": "/b"}, {"key": "/c"}), None),
        reply(present({"ran": True}), "/python", deep=True),
        reply(present({"ran": False}), "/other", deep=True),
    ]
    (component,), _ = parse(replies)
    told = [copy.facts.get("exercise") for copy in component.instances]
    assert told == [{"ran": True}, {"ran": False}, None]


def test_one_copy_is_reported_once() -> None:
    (component,), _ = parse([reply(present({"path": "/a"}, {"path": "/a"}, {"path": "/b"}))])
    assert [copy.key for copy in component.instances] == ["/a", "/b"]


def test_vendor_calls_keep_their_latency() -> None:
    answer = {**present({}), "calls": [["cuInit", 0.18, "ok"], "garbage", ["x", math.nan, "z"]], "seconds": 0.2}
    (component,), _ = parse([reply(answer)])
    assert [(call.name, call.seconds, call.outcome) for call in component.calls] == [
        ("cuInit", 0.18, "ok"),
        ("x", 0, "z"),
    ]
    assert component.seconds == 0.2
    assert component.source == "cuInit, x"


def test_a_python_that_answers_nothing_is_reported_once() -> None:
    failed = [reply(python="/v/bin/python", failure="it could not be started"), reply({"status": "absent"})]
    other = Reply(system=system("nvml"), environment="/v/bin/python", failure="it could not be started")
    _, unseen = parse([*failed, other])
    assert [(one.what, one.why) for one in unseen] == [("all in /v/bin/python", "it could not be started")]


def test_what_failed_beside_the_chosen_python_says_nothing_of_the_machine() -> None:
    here = reply({"status": "absent", "instances": []}, "/chosen")
    broken = reply(None, "/found", failure="it crashed")
    well = reply({"status": "present", "instances": [{"version": "1"}]}, "/found")
    assert parse([here, broken])[0][0].status is Status.FAILED
    assert parse([here, broken], beside={"/found"})[0][0].status is Status.ABSENT
    assert parse([here, well], beside={"/found"})[0][0].status is Status.PRESENT
    assert parse([broken], beside={"/found"})[0][0].status is Status.FAILED
