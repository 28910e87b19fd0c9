"""The cost of any input is bounded: memory and time are measured, in a process that the kernel limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.costs import Ran, gpustack
from gpustack import snapshots
from gpustack.errors import InputError
from gpustack.imports import own_reports
from gpustack.model import writing

REPO = Path(__file__).resolve().parent.parent
HOST = REPO / "tests/hosts/healthy-h200.json"
HEAD = '{"schema":"gpustack.snapshot/1","components":['
COMPONENT = '{"id":"c%d","layer":"library","status":"present","version":"1.0"}'
MB = 1_000_000
XID = "NVRM: Xid (PCI:0000:06:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
MOST_REFUSED = (10, 600)  # seconds of CPU time and MiB of memory; 120 MB took 3 GB, 51 MB of components 170 s
MOST_READ = (60, 900)


pytestmark = pytest.mark.timeout(400)  # on a busy machine; the limit is on CPU time


def refused(ran: Ran, says: str) -> None:
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, b"", 1), ran.err
    assert says in ran.err
    assert ran.seconds < MOST_REFUSED[0]
    assert ran.mib < MOST_REFUSED[1]


def repeated(path: Path, head: str, one: str, size: int, foot: str) -> Path:
    """Write a list of one thing until it is this long; a ``%d`` in it counts up."""
    with path.open("w") as file:
        file.write(head)
        same = f"{one}," * 10_000
        for number in count():
            if file.tell() > size:
                break
            file.write("".join(f"{one % (number * 10_000 + more)}," for more in range(10_000)) if "%" in one else same)
        file.write(one.replace("%d", "last") + foot)
    return path


@pytest.mark.parametrize(
    ("head", "one", "size", "says"),
    [
        (HEAD, "[]", 40, "more than"),
        (HEAD, "[]", 30, "more than 2 million values of JSON are too much to read"),
        ('{"a":[', "[]", 40, "more than 32 MB of JSON is too much to read"),
        (HEAD, COMPONENT, 40, "more than 32 MB of JSON is too much to read"),
        (HEAD, COMPONENT, 12, "components; no machine has more than 1000"),
        ("text\n" + HEAD, COMPONENT, 40, "more than 32 MB of JSON is too much to read"),
        ('{"version": "1", "pip_version": "25.0", "installed": [', "[]", 40, "more than"),
    ],
    ids=["list", "short list", "strange", "components", "fewer components", "in a text", "pip inspect"],
)
def test_json_without_an_end_is_refused_before_it_costs_much(
    head: str, one: str, size: int, says: str, tmp_path: Path
) -> None:
    path = repeated(tmp_path / "large.json", head, one, size * MB, "]}")
    refused(gpustack("doctor", "--from", path, at=tmp_path), says)
    path.unlink()


def test_every_command_that_reads_json_refuses_what_is_too_much(tmp_path: Path) -> None:
    path = repeated(tmp_path / "large.json", '{"schema":"gpustack.bench/1","results":[', "[]", 33 * MB, "]}")
    for command in (
        ("bench", "--compare", path),
        ("check", "--from", HOST, "--bench", path),
        ("check", "--from", HOST, "--golden", path),
        ("snapshot", "--from", path),
        ("diff", HOST, path),
        ("stack", "--from", path),
        ("trace", "--from", path),
    ):
        refused(gpustack(*command, at=tmp_path), "too much to read")
    path.unlink()


def machine(**lists: list[Any]) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(HOST.read_text("utf-8"))
    return {**said.get("facts", said), "schema": "gpustack.snapshot/1", **lists}


def crowded(count: int, *names: str) -> dict[str, Any]:
    """Return a machine with this many copies of each of these components."""
    said = machine()
    for one in said["components"]:
        if one["id"] in names:
            copy = one["instances"][0]
            one["instances"] = [{**copy, "key": f"{number}"} for number in range(count)]
    return said


def test_the_largest_machine_that_is_read_is_judged_in_a_bounded_time(tmp_path: Path) -> None:
    names = ("gpu", "pytorch", "libcuda", "python", "nvidia-driver")
    (tmp_path / "machine.json").write_text(json.dumps(crowded(1000, *names)))
    ran = gpustack("doctor", "--from", tmp_path / "machine.json", at=tmp_path)
    assert ran.code in {0, 1}, ran.err
    assert ran.seconds < MOST_READ[0]
    assert ran.mib < MOST_READ[1]


def over() -> Iterator[tuple[dict[str, Any], str]]:
    """Yield a machine with one thing too many, and the resulting message."""
    component = {"id": "a", "layer": "library", "status": "present"}
    yield machine(components=[component] * 1001), "holds 1001 components; no machine has more than 1000"
    yield machine(environments=[{"python": "p"}] * 2001), "2001 environments"
    yield machine(not_seen=[{"what": "w", "why": "y"}] * 20_001), "20001 not seen"
    yield machine(messages=[{"kind": "k"}] * 20_001), "20001 messages"
    yield crowded(1001, "gpu"), "1001 instances of one component"
    copies = [{"key": str(number)} for number in range(801)]
    yield machine(components=[{**component, "instances": copies}] * 10), "8010 instances;"


@pytest.mark.parametrize(("said", "says"), list(over()), ids=lambda one: one if isinstance(one, str) else "")
def test_more_things_than_any_machine_has_are_refused(said: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        snapshots.read(json.dumps(said))


def test_as_much_as_a_large_machine_has_is_read() -> None:
    most = {"components": 1000, "environments": 2000, "not_seen": 20_000, "messages": 20_000}
    one = {"id": "a", "layer": "library", "status": "present", "python": "p", "what": "w", "why": "y", "kind": "k"}
    facts = snapshots.read(json.dumps(machine(**{name: [one] * count for name, count in most.items()})))
    assert {name: len(getattr(facts, name)) for name in most} == most


def test_json_within_a_text_is_read_at_any_length_up_to_the_bound() -> None:
    for length in (0, 4090, 4096, 5000, 300_000):
        said = {"a": "x" * length, "b": [1]}
        text = f"before {json.dumps(said)} {{after"
        assert snapshots.first(text, 7, "origin") == (said, len(text) - len(" {after"))
        with pytest.raises(ValueError, match=r"Unterminated|delimiter|Expecting"):
            snapshots.first(text[: -len("]} {after")], 7, "origin")
    assert "torch==2.11.0" in own_reports.told(
        'x {"version": "1", "pip_version": "25", "installed": [{"metadata": {"name": "torch", "version": "2.11.0", '
        f'"summary": "{"s" * 100_000}"}}}}]}} y'
    )
    with pytest.raises(InputError, match="origin: more than 2 million values"):
        writing.measure("[" + "1," * 2_000_001 + "1]", "origin")
    writing.measure("[" + "1," * 1_999_000 + "1]", "origin")


@pytest.mark.parametrize(("size", "report"), [(100, ""), (10, '{"schema": "gpustack.report/1", "findings": []}\n')])
def test_a_log_of_100_mb_is_read_and_one_with_a_report_in_it(size: int, report: str, tmp_path: Path) -> None:
    """Logs are long and usually repetitive; the relevant parts of long ones are read, and the report says so."""
    path, line = tmp_path / "log.txt", "[1.0] usb 1-1: new high-speed USB device, number 5, of many, in this log {\n"
    with path.open("w") as file:
        file.write(line * 10_000 + report + XID)
        while file.tell() < size * MB:
            file.write(line * 10_000)
    ran = gpustack("doctor", "--from", path, "--format", "json", at=tmp_path)
    path.unlink()
    found = json.loads(ran.out)
    assert "gpu-fell-off-bus" in {one["id"] for one in found["findings"]}
    assert any("it is large" in one["why"] for one in found["not_seen"])
    assert ran.seconds < MOST_READ[0]
    assert ran.mib < MOST_READ[1]
