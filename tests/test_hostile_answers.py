"""A child that returns everything that JSON can express: the rest is unaffected, and so is every report format."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.collect import catalogue
from gpustack.collect.probe_results import parse
from gpustack.collect.subprocesses import Door
from gpustack.collect.workers import Reply, Task, ask
from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.model.facts import Status
from gpustack.report import renderer
from gpustack.snapshots import read
from tests.report.readers import READERS

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Unseen

HOST = Path(__file__).parent / "hosts" / "healthy-h200.json"
SYSTEMS = {system.id: system for system in catalogue.load()}
PROGRAM = "import json, sys\nfor line in json.loads(open(sys.argv[1]).read()):\n    print(line, flush=True)\n"
ODD = r"\ud800\u001b[31m\u202e\u0000 x"  # a surrogate, an escape, a change of direction, and what ends a string in C
FORMS = ("text", *READERS)


def heard(folder: Path, *lines: str) -> tuple[dict[str, Component], tuple[Unseen, ...]]:
    """Return the results of a child that prints these lines, each the answer to a question of its own."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "lines").write_text(json.dumps(lines))
    asked = tuple(SYSTEMS[one] for one in ("libcuda", "nvml", "gpu", "cudnn")[: len(lines)])
    argv = (sys.executable, "-I", "-S", str(folder / "program.py"), str(folder / "lines"))
    door = Door()
    components, unseen = parse(tuple(ask([Task(argv=argv, environ={}, systems=asked)], door, door.now() + 8)))
    return {one.id: one for one in components}, unseen


def facts(folder: Path, said: str) -> Mapping[str, object]:
    """Return the facts of the only copy that a child reports in this JSON."""
    components, _ = heard(folder, f'{{"id": "libcuda", "status": "present", "instances": [{said}]}}')
    assert components["libcuda"].status is Status.PRESENT
    return components["libcuda"].instances[0].facts


@pytest.mark.parametrize("digits", [41, 4301, 5_000_000])
def test_a_number_that_counts_nothing_is_null_and_affects_nothing_else(tmp_path: Path, digits: int) -> None:
    assert facts(tmp_path, f'{{"a": {"9" * digits}, "b": -{"9" * digits}, "c": 3}}') == {"a": None, "b": None, "c": 3}


def test_numbers_that_are_none_are_null(tmp_path: Path) -> None:
    said = '{"a": NaN, "b": -Infinity, "c": 1e999, "d": [Infinity], "e": 1.5}'
    assert facts(tmp_path, said) == {"a": None, "b": None, "c": None, "d": (None,), "e": 1.5}


def test_a_key_of_any_length_is_cut(tmp_path: Path) -> None:
    (key,) = facts(tmp_path, json.dumps({"k" * 1_000_000: 1}))
    assert key == "k" * 20_000


@pytest.mark.parametrize("depth", [101, 900, 100_000])
def test_what_is_nested_too_deeply_is_malformed(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    components, _ = heard(tmp_path, f'{{"id": "libcuda", "status": "present", "instances": [{{"a": {deep}}}]}}')
    assert components["libcuda"].status is Status.FAILED
    assert components["libcuda"].reason


@pytest.mark.parametrize("name", ["reason", "log", "calls", "instances"])
def test_depth_that_only_words_can_reach_raises_nowhere(name: str) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    said = {
        "reason": deep,
        "log": [["read", deep, "denied"]],
        "calls": [[deep, 1, deep]],
        "instances": [{"path": deep}],
    }
    answer = {"id": "libcuda", "status": "present", "instances": [], name: said[name]}
    ((component,), unseen) = parse([Reply(system=SYSTEMS["libcuda"], environment=None, answer=answer)])
    words = [str(component.reason), *(one.what for one in unseen), *(one.name for one in component.calls)]
    assert any("nested too deeply" in one or "recursion depth" in one for one in words)


@pytest.mark.timeout(20)
def test_the_log_of_accesses_is_cut_before_it_is_stored() -> None:
    """A word of a megabyte took minutes to read: the pattern tries every quotation mark."""
    endless = "[Errno 5] " + "a: '" * 250_000 + "\n"
    log = [["read", "x" * 1_000_000, "denied"], *([["read", f"y{n}", endless] for n in range(1000)])]
    answer = {"id": "libcuda", "status": "s" * 1_000_000, "instances": [], "log": [*log[1:], log[0]], "calls": log}
    ((component,), unseen) = parse([Reply(system=SYSTEMS["libcuda"], environment=None, answer=answer)])
    assert len(str(component.reason)) <= 500
    assert len(component.calls) == len(unseen) == 400
    assert max(len(one.what) for one in unseen) == 4096


def test_more_copies_than_any_machine_has_are_not_an_answer() -> None:
    answer = {"id": "libcuda", "status": "present", "instances": [{}] * 10_001}
    ((component,), _) = parse([Reply(system=SYSTEMS["libcuda"], environment=None, answer=answer)])
    assert (component.status, "10001 copies" in str(component.reason)) == (Status.FAILED, True)


def test_odd_letters_everywhere_do_no_harm_to_any_form(tmp_path: Path) -> None:
    names = ("version", "path", "build", "key", "error", "cu_init_name", "name", "uuid", "pci", ODD)
    copy = "{" + ", ".join(f'"{name}": "{ODD}"' for name in names) + ', "status": "failed", "cu_init": 999}'
    log = f'[["read", "/{ODD}", "denied"], ["read", "/x{ODD}", "[Errno 5] {ODD}"]]'
    more = f'"reason": "{ODD}", "log": {log}, "calls": [["{ODD}", 1, "{ODD}"]]'
    lines = [
        f'{{"id": "{one}", "status": "failed", "instances": [{"" if one == "nvml" else copy}], {more}}}'
        for one in ("libcuda", "nvml", "gpu", "cudnn")
    ]
    components, unseen = heard(tmp_path, *lines)
    assert [one.status for one in components.values()] == [Status.FAILED] * 4
    well = read(json.dumps(json.loads(HOST.read_text("utf-8"))["facts"]), HOST.name)
    mixed = tuple(components.get(one.id, one) for one in well.components)
    report = judge(replace(well, components=mixed, not_seen=unseen), Matrix())
    for form in FORMS:
        text = renderer(form)(report)
        assert text.encode("utf-8")
        assert not {"\x1b", "\x00", "\u202e"} & {*text}
    json.loads(renderer("json")(report))
