"""The file for Perfetto, checked against the Trace Event Format by a strict reader of its public description.

The format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, read in its
parts JSON Object Format, Complete Events and Metadata Events. Perfetto says of complete events that those of one
thread must nest (perfetto.dev/docs/getting-started/other-formats).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpustack.model.trace import Moment
from gpustack.report.trace_charts import perfetto
from tests.report import traces

OBJECT = {"traceEvents", "displayTimeUnit", "otherData"}
METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}
COMPLETE = {"name": str, "cat": str, "ph": str, "ts": float, "dur": float, "pid": int, "tid": int, "args": dict}


def read(text: str) -> list[dict[str, Any]]:
    """Read the file with nothing forgiven; return its complete events."""
    held = json.loads(text, parse_constant=lambda one: pytest.fail(f"{one} is not JSON"))
    assert set(held) == OBJECT
    assert held["displayTimeUnit"] in {"ms", "ns"}
    assert all(isinstance(value, str) for value in held["otherData"].values())
    events = held["traceEvents"]
    named: dict[int, str] = {}
    for one in (event for event in events if event["ph"] == "M"):
        assert set(one) == {"name", "ph", "pid", "tid", "args"}
        assert set(one["args"]) == {METADATA[one["name"]]}
        assert isinstance(one["args"].get("sort_index", 0), int)
        if one["name"] == "thread_name":
            assert one["tid"] not in named
            named[one["tid"]] = one["args"]["name"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) + sum(event["ph"] == "M" for event in events) == len(events)
    assert len({event["pid"] for event in events}) == 1
    for one in complete:
        assert set(one) == set(COMPLETE)
        for key, kind in COMPLETE.items():
            assert isinstance(one[key], kind) or (kind is float and isinstance(one[key], int)), (key, one)
        assert one["ts"] >= 0
        assert one["dur"] > 0
        assert one["tid"] in named
        one["thread"] = named[one["tid"]]
    for thread in named:
        nest([one for one in complete if one["tid"] == thread])
    assert len(set(named.values())) == len(named)
    return complete


def nest(events: list[dict[str, Any]]) -> None:
    """Assert that the events of one thread are disjoint or nested."""
    open_: list[float] = []
    for one in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while open_ and one["ts"] >= open_[-1] - 5e-4:
            open_.pop()
        end = one["ts"] + one["dur"]
        assert not open_ or end <= open_[-1] + 5e-4, one
        open_.append(end)


@pytest.mark.parametrize("name", traces.ALL)
def test_every_trace_is_a_file_that_perfetto_reads(name: str) -> None:
    text = perfetto(traces.ALL[name]())
    assert text.isascii()
    read(text)


def test_steps_and_moments_are_where_they_were() -> None:
    events = read(perfetto(traces.gpu()))
    steps = [one for one in events if one["thread"] == "the seven steps"]
    assert [one["name"][0] for one in steps] == list("1234567")
    assert (steps[0]["ts"], steps[0]["dur"]) == (0, 52000)
    assert steps[1]["ts"] == 52100  # where the copy begins according to the timeline
    assert {one["thread"] for one in events} == {"the seven steps", "host", "link", "stream 1"}
    first = next(one for one in events if one["thread"] == "stream 1")
    assert (first["name"], first["ts"], first["cat"]) == ("norm1", 393400, "step 5")
    assert "54.9 GB/s" in steps[1]["args"]["detail"]


def test_what_overlaps_gets_a_thread_of_its_own() -> None:
    moments = (
        Moment(track="stream 1", name="a", begin=0.0, seconds=2.0),
        Moment(track="stream 1", name="b", begin=1.0, seconds=2.0),
        Moment(track="stream 1", name="within b", begin=1.5, seconds=1.0),
        Moment(track="stream 1", name="after a", begin=2.0, seconds=5.0),
    )
    events = read(perfetto(replace(traces.broken(), timeline=moments)))
    assert {one["name"]: one["thread"] for one in events} == {
        "a": "stream 1",
        "b": "stream 1 (2)",
        "within b": "stream 1 (2)",
        "after a": "stream 1",
    }
    assert {one["cat"] for one in events} == {"outside the steps"}


def test_moments_of_no_length_and_before_the_beginning_can_still_be_seen() -> None:
    moments = (Moment(track="host", name="flash", begin=-3.0, seconds=0.0),)
    (one,) = read(perfetto(replace(traces.broken(), timeline=moments)))
    assert (one["ts"], one["dur"]) == (0, 0.001)


def test_the_reader_would_notice() -> None:
    good = json.loads(perfetto(traces.gpu()))
    spoilt: list[dict[str, Any]] = []
    for change in ({"dur": -1}, {"ts": "1"}, {"name": None}, {"tid": 99}, {"ph": "Q"}, {"extra": 1}):
        last = {**good["traceEvents"][-1], **change}
        spoilt.append({**good, "traceEvents": [*good["traceEvents"][:-1], last]})
    first, *rest = [one for one in good["traceEvents"] if one["ph"] == "X"]
    across = {**first, "ts": first["ts"] + 1, "dur": first["dur"]}
    spoilt += [{**good, "traceEvents": [*good["traceEvents"], across]}, {**good, "displayTimeUnit": "s"}, {"x": rest}]
    for one in spoilt:
        with pytest.raises((AssertionError, KeyError)):
            read(json.dumps(one))
