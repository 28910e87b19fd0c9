"""The doctor's text: how it looks, what comes first, and that nothing in it can do harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpustack.model.command import sh
from gpustack.model.facts import Component, Host, Instance, JsonValue, Layer, Unseen
from gpustack.model.report import (
    Because,
    Confidence,
    Contract,
    EnvironmentVerdict,
    Finding,
    Fix,
    Health,
    Report,
    Row,
    Severity,
    Verdict,
)
from gpustack.report.page import TIMES
from gpustack.report.summary import consequences, value
from gpustack.report.text import PASTE, render
from tests.report import reports
from tests.report.snapshots import compare

EXAMPLE = "examples/driver-too-old.json"
WORKS = {"pytorch": True, "onnxruntime": False}
PAGES: dict[str, dict[str, Any]] = {
    "h200-80": {},
    "h200-120": {"width": 120},
    "h200-verbose": {"width": 100, "verbose": 1},
    "driver-too-old-everything": {"width": 100, "verbose": 2},
    "healthy-80": {},
    "driver-too-old-80": {},
    "driver-too-old-colour": {"colour": True},
    "driver-too-old-40-ascii": {"width": 40, "ascii": True},
    "driver-too-old-20": {"width": 20},
    "eight-80": {},
    "no-gpu-80": {},
    "hostile-80": {},
}


def report_of(name: str) -> Report:
    return next(make() for known, make in reports.ALL.items() if name.startswith(known))


@pytest.mark.parametrize("name", PAGES)
def test_the_text_is_the_one_agreed_on(name: str) -> None:
    compare(f"{name}.txt", render(report_of(name), **PAGES[name], example=EXAMPLE))


def test_the_fix_comes_at_once_and_all_else_is_a_line_each() -> None:
    text = render(reports.driver_too_old())
    order = ["BROKEN: the driver 550.54.15 is too old", "PyTorch and JAX cannot use the GPU", "- pytorch build: cu130"]
    order += [
        "Fix (needs root and a reboot):",
        "sudo apt-get",
        "Check:",
        "Leads to:",
        "! warning:",
        "· note:",
        "-v adds",
    ]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert "THE STACK" not in text
    assert "How we know" not in text


def test_verbose_shows_the_stack_by_layer_what_is_not_ok_and_all_evidence_with_its_paths() -> None:
    text = render(reports.driver_too_old(), verbose=1)
    order = ["BROKEN: the driver", "ROOT CAUSE", "How we know:", "Fix", "What follows from it:", "THE STACK, TOP FIRST"]
    order += ["\nframework ", "\ndriver ", "\nhardware ", "WARNINGS", "NOTES", "-vv adds"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert f"pytorch build: cu130, from {reports.SITE}" in " ".join(text.split())
    stack = text[text.index("THE STACK") : text.index("WARNINGS")]
    assert "✗ broken" in stack
    assert "✓ ok" not in stack
    assert "3 absent" in stack
    assert "nvidia-modeset.ko" not in stack
    assert "✓ ok" in render(reports.driver_too_old(), verbose=2)


def test_quiet_is_the_verdict_alone_on_one_line() -> None:
    text = render(reports.driver_too_old(), quiet=True, width=20)
    assert text == "✗ BROKEN: the driver 550.54.15 is too old for PyTorch 2.11.0+cu130.\n"


def test_a_build_for_the_cpu_that_is_only_a_note_is_not_counted_among_what_does_not_work() -> None:
    note = replace(reports.CPU_BUILD, severity=Severity.INFO)
    well = replace(reports.h200(), findings=(note,), verdict=Verdict(status=Health.HEALTHY, works=WORKS))
    assert render(well).startswith("✓ HEALTHY: PyTorch can use the GPU.\n")
    assert "ONNX Runtime cannot use the GPU" not in render(well)
    assert "ONNX Runtime cannot use the GPU" in render(replace(well, findings=(reports.CPU_BUILD,)))


def test_a_cause_that_is_not_certain_is_called_likely() -> None:
    likely = replace(reports.DRIVER, confidence=Confidence.LIKELY)
    text = render(replace(reports.driver_too_old(), findings=(likely,)))
    assert text.startswith("✗ BROKEN, likely cause: the driver")


def test_of_many_root_causes_three_are_shown_and_the_others_are_a_line_each() -> None:
    many = tuple(replace(reports.DRIVER, id=f"cause-{one}", title=f"cause {one}") for one in "abcde")
    verdict = Verdict(status=Health.BROKEN, root_keys=tuple(one.key for one in many))
    text = render(replace(reports.h200(), findings=many, verdict=verdict))
    assert text.startswith("✗ BROKEN: cause a (and 4 more root causes).\n")
    assert text.count("Fix (needs root and a reboot):") == 3
    assert "\n✗ error: cause d\n✗ error: cause e\n" in text
    begins = reports.DRIVER.fix.text.split(".")[0] if reports.DRIVER.fix else ""
    assert " ".join(text.split()).count(begins) == 1  # the others' commands stand below "As above:"
    assert text.count("As above:") == 2


def test_the_longest_part_of_an_advice_waits_for_verbose_and_its_commands_do_not() -> None:
    long = replace(reports.DRIVER, fix=Fix(text="Do this. " * 40 + "At last, that.", commands=(sh("fix it"),)))
    report = replace(reports.driver_too_old(), findings=(long,))
    assert "At last, that." not in " ".join(render(report).split())
    assert "      fix it\n" in render(report)
    assert "At last, that." in " ".join(render(report, verbose=1).split())


def test_where_nothing_is_known_it_says_what_to_give() -> None:
    empty = Unseen(what="issue.txt", why="nothing in it was recognised", enable_by="a snapshot")
    report = replace(reports.no_gpu(), verdict=Verdict(status=Health.UNKNOWN), not_seen=(empty,))
    text = render(report)
    assert "Nothing was recognised in issue.txt." in text
    assert "\n    nvidia-smi\n" in text
    assert "whole error message" in text
    assert "nvidia-smi" not in render(replace(report, findings=(reports.STUBS,)))


def test_hints_call_gpustack_as_the_user_does_and_other_commands_are_left_alone() -> None:
    finding = replace(reports.DRIVER, fix=Fix(text="", commands=(sh("gpustack doctor --deep"), sh("nvidia-smi"))))
    text = render(replace(reports.driver_too_old(), findings=(finding,)), program="uv run gpustack")
    assert "\n      uv run gpustack doctor --deep\n      nvidia-smi\n" in text
    assert "uv run gpustack explain driver-too-old" in text


def test_a_command_is_whole_on_a_line_of_its_own_however_narrow_the_page() -> None:
    command = reports.CPU_BUILD.fix.verify if reports.CPU_BUILD.fix else ""
    assert command
    for width in (20, 40, 80):
        assert command in [line.strip() for line in render(reports.h200(), width=width).splitlines()]


def test_a_newline_in_a_command_does_not_make_a_second_command() -> None:
    finding = replace(reports.DRIVER, fix=Fix(text="", commands=(sh("cat 'a\nrm -rf b'"),)))
    text = render(replace(reports.h200(), findings=(finding,)), verbose=1)
    assert "cat 'a\\nrm -rf b'" in text


def test_what_a_fix_needs_is_said_in_words() -> None:
    assert "Fix (needs root and a reboot):" in render(reports.driver_too_old())


def test_a_consequence_is_one_line_under_its_cause_and_gives_no_advice() -> None:
    root = reports.DRIVER
    fixed = Fix(text="advice of a consequence", commands=(sh("never shown"),))
    chain = [
        replace(root, id="first", title="the first consequence", caused_by=root.key, fix=fixed),
        replace(root, id="second", title="what follows from the first", caused_by="first", fix=fixed),
    ]
    text = render(replace(reports.driver_too_old(), findings=(root, *chain)), verbose=1)
    assert text.count("the first consequence") == text.count("what follows from the first") == 1
    assert text.index("What follows from it:") < text.index("the first consequence") < text.index("THE STACK")
    assert "never shown" not in text
    assert "advice of a consequence" not in text


def test_findings_that_name_each_other_as_causes_are_still_told() -> None:
    one = replace(reports.DRIVER, id="one", title="chicken", caused_by="two")
    two = replace(reports.DRIVER, id="two", title="egg", caused_by="one")
    assert [held.id for held in consequences("one", (one, two))] == ["two"]
    text = render(replace(reports.h200(), findings=(one, two), verdict=Verdict(status=Health.BROKEN)), verbose=1)
    assert "chicken" in text
    assert "egg" in text


def test_a_finding_whose_cause_is_not_in_the_report_is_shown_on_its_own() -> None:
    lost = replace(reports.DRIVER, caused_by="nobody")
    text = render(replace(reports.h200(), findings=(lost,), verdict=Verdict(status=Health.BROKEN)))
    assert "\n✗ error: the driver 550.54.15 is too old" in text


def test_the_same_finding_on_many_instances_is_reported_once_with_the_others_named() -> None:
    text = render(reports.eight(), verbose=1)
    assert text.count("reseat the card") == render(reports.eight()).count("reseat the card") == 1
    assert "- the PCIe link of GPU-2 runs at width 8 of 16\n  - the PCIe link of GPU-3" in text


def test_eight_gpus_alike_are_one_line() -> None:
    text = render(reports.eight(), verbose=2)
    lines = [line.split() for line in text.splitlines() if "NVIDIA H200" in line]
    assert [" ".join(line) for line in lines] == [
        f"! at fault gpu 8 {TIMES} NVIDIA H200 sm_90, 140 GiB, PCIe 5 {TIMES}16, 700 W"
    ]


def test_the_component_at_fault_is_marked_in_the_stack_and_those_it_affects_too() -> None:
    brief, full = (" ".join(render(reports.driver_too_old(), verbose=often).split()) for often in (1, 2))
    assert "driver ✗ nvidia-driver 550.54.15 (at fault), " in brief
    assert "! pytorch 2.11.0+cu130 (affected)" in brief
    assert "driver ✗ at fault nvidia-driver 550.54.15" in full
    assert "framework ! affected pytorch" in full


def test_a_missing_component_that_is_at_fault_is_named() -> None:
    finding = replace(reports.DRIVER, component="nvml")
    report = replace(reports.no_gpu(), findings=(finding,), verdict=Verdict(status=Health.BROKEN))
    assert "✗ absent   nvml" in render(report, verbose=2)
    assert "✗ nvml (absent), 1 absent" in render(report, verbose=1)


def test_twice_verbose_shows_every_component_source_time_and_call() -> None:
    text = render(reports.h200(), width=100, verbose=2)
    assert "probed in 21.3 ms: nvmlInit_v2" in text
    assert "call: nvmlInit_v2, 18.70 ms, ok" in text
    assert "no /lib/modules here" in text
    assert "nvmlInit_v2, 18.70" not in render(reports.h200(), width=100, verbose=1)


def test_a_machine_without_a_gpu_is_offered_a_recorded_one() -> None:
    assert f"\n    gpustack doctor --from {EXAMPLE}\n" in render(reports.no_gpu(), example=EXAMPLE)
    assert "--from" not in render(reports.no_gpu())
    assert "--from" not in render(reports.healthy(), example=EXAMPLE)


def test_nothing_but_colour_differs_between_a_terminal_and_a_pipe() -> None:
    coloured = render(reports.driver_too_old(), colour=True)
    bare = "".join(part.partition("m")[2] if number else part for number, part in enumerate(coloured.split("\x1b[")))
    assert "\x1b[" in coloured
    assert bare == render(reports.driver_too_old())


def test_the_environment_does_not_change_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    before = render(reports.h200())
    for name, held in {"FORCE_COLOR": "1", "COLUMNS": "30", "TERM": "dumb", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, held)
    assert render(reports.h200()) == before
    assert "\x1b[" in render(reports.h200(), colour=True)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (None, "not found"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (1.5, "1.5"),
        ("a", "a"),
        ((), "empty"),
        ({}, "empty"),
        (("a", None), "a, not found"),
        ({"a": (1, 2)}, "a 1, 2"),
        (tuple("abcdefghij"), "a, b, c, d, e, f, g, h and 2 more"),
    ],
)
def test_a_fact_is_reported_in_words(held: JsonValue, said: str) -> None:
    assert value(held) == said


TEXT = st.text(max_size=60) | st.sampled_from(["[bold]", "\x1b[31m", "\u202e", "\ud800", "家" * 30, "a" * 90, "\r\n"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda held: st.lists(held, max_size=3).map(tuple) | st.dictionaries(TEXT, held, max_size=3),
    max_leaves=6,
)
FACTS = st.dictionaries(
    st.sampled_from(["name", "cc", "pcie", "memory", "power", "mig", "driver"]) | TEXT, JSON, max_size=4
)
IDS = (
    st.sampled_from(["gpu", "pci-display", "nvlink", "libcuda", "nvidia.ko", "linux-kernel", "python", "cudnn"]) | TEXT
)
COPIES = st.lists(st.builds(Instance, version=st.none() | TEXT, facts=FACTS), max_size=3).map(tuple)
SEEN = st.builds(
    Component, id=IDS, layer=st.sampled_from(Layer), facts=FACTS, instances=COPIES, reason=st.none() | TEXT
)
ROW = st.builds(Row)
FOUND = st.builds(
    Finding,
    id=st.sampled_from(["a", "b", "c"]),
    instance=st.none() | TEXT,
    severity=st.sampled_from(Severity),
    caused_by=st.none() | st.sampled_from(["a", "b", "c"]),
    because=st.lists(st.builds(Because, value=JSON), max_size=2).map(tuple),
    row=st.none() | ROW,
    fix=st.none() | st.builds(Fix, commands=st.just(()), verify=st.none()),
    title=TEXT,
    detail=TEXT,
)
REPORTS = st.builds(
    Report,
    host=st.builds(Host, hostname=st.none() | TEXT, os=st.none() | TEXT),
    components=st.lists(SEEN, max_size=4).map(tuple),
    contracts=st.lists(st.builds(Contract, from_=IDS, to=IDS, needs=TEXT, found=TEXT), max_size=3).map(tuple),
    findings=st.lists(FOUND, max_size=4).map(tuple),
    not_seen=st.lists(st.builds(Unseen, what=TEXT, why=TEXT, enable_by=st.none() | TEXT), max_size=2).map(tuple),
    environments=st.lists(st.builds(EnvironmentVerdict, python=TEXT, kind=TEXT), max_size=3).map(tuple),
    verdict=st.builds(Verdict, root_keys=st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple)),
)


@given(report=REPORTS, width=st.integers(20, 120), poor=st.booleans(), verbose=st.integers(0, 2))
def test_any_report_can_be_drawn_on_any_page_and_nothing_in_it_steers_the_terminal(
    report: Report, width: int, *, poor: bool, verbose: int
) -> None:
    text = render(report, width=width, ascii=poor, verbose=verbose)
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    assert all(cell_len(line) <= width for line in text.splitlines() if line.strip() not in PASTE)  # to be copied whole
    assert text.isascii() or not poor


def test_pythons_that_work_come_first_and_those_without_a_framework_are_counted() -> None:
    made = [
        EnvironmentVerdict(python="/chosen", kind="venv", works={"pytorch": False}),
        EnvironmentVerdict(python="/unknown", kind="conda", works={"jax": None}),
        *(EnvironmentVerdict(python=f"/empty/{number}", kind="pipx") for number in range(20)),
        EnvironmentVerdict(python="/well", kind="uv tool", works={"pytorch": True, "jax": False}),
    ]
    report = replace(reports.h200(), environments=tuple(made))
    text = render(report, verbose=1).partition("PYTHONS")[2]
    places = [text.index(path) for path in ("/well", "/unknown", "/chosen", "20 more with nothing that uses a GPU")]
    assert places == sorted(places)
    assert "/chosen, venv, the chosen one: PyTorch cannot use the GPU" in text
    assert "/empty" not in text
    assert "/empty/19" in render(report, verbose=2)
    assert "PyTorch can use the GPU; JAX cannot use the GPU" in " ".join(text.split())
