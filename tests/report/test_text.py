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
from gpustack.report.stack_text import elided
from gpustack.report.summary import consequences, value
from gpustack.report.text import render
from tests.report import reports
from tests.report.snapshots import compare

EXAMPLE = "examples/driver-too-old.json"
PAGES: dict[str, dict[str, Any]] = {
    "h200-80": {},
    "h200-120": {"width": 120},
    "h200-verbose": {"width": 100, "verbose": True},
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


def test_the_verdict_and_the_root_cause_come_before_the_stack_and_the_rest_after_it() -> None:
    text = render(reports.driver_too_old())
    order = [
        "BROKEN: pytorch and jax",
        "ROOT CAUSE",
        "How we know:",
        "What to type",
        "What follows from it:",
    ]
    order += ["THE STACK", "\nframework ", "\ndriver ", "\nhardware ", "WARNINGS", "NOTES"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)


def test_a_command_stands_whole_on_a_line_of_its_own_however_narrow_the_page() -> None:
    command = reports.CPU_BUILD.fix.verify if reports.CPU_BUILD.fix else ""
    assert command
    for width in (20, 40, 80):
        assert command in [line.strip() for line in render(reports.h200(), width=width).splitlines()]


def test_a_newline_in_a_command_does_not_make_a_second_command() -> None:
    finding = replace(reports.DRIVER, fix=Fix(text="", commands=(sh("cat 'a\nrm -rf b'"),)))
    text = render(replace(reports.h200(), findings=(finding,)))
    assert "cat 'a\\nrm -rf b'" in text


def test_what_a_fix_needs_is_said_in_words() -> None:
    assert "What to type (needs root and a reboot):" in render(reports.driver_too_old())


def test_a_consequence_is_one_line_under_its_cause_and_gives_no_advice() -> None:
    root = reports.DRIVER
    fixed = Fix(text="advice of a consequence", commands=(sh("never shown"),))
    chain = [
        replace(root, id="first", title="the first consequence", caused_by=root.key, fix=fixed),
        replace(root, id="second", title="what follows from the first", caused_by="first", fix=fixed),
    ]
    text = render(replace(reports.driver_too_old(), findings=(root, *chain)))
    assert text.count("the first consequence") == text.count("what follows from the first") == 1
    assert text.index("What follows from it:") < text.index("the first consequence") < text.index("THE STACK")
    assert "never shown" not in text
    assert "advice of a consequence" not in text


def test_findings_that_name_each_other_as_causes_are_still_told() -> None:
    one = replace(reports.DRIVER, id="one", title="chicken", caused_by="two")
    two = replace(reports.DRIVER, id="two", title="egg", caused_by="one")
    assert [held.id for held in consequences("one", (one, two))] == ["two"]
    text = render(replace(reports.h200(), findings=(one, two), verdict=Verdict(status=Health.BROKEN)))
    assert "chicken" in text
    assert "egg" in text


def test_a_finding_whose_cause_is_not_in_the_report_stands_for_itself() -> None:
    lost = replace(reports.DRIVER, caused_by="nobody")
    text = render(replace(reports.h200(), findings=(lost,), verdict=Verdict(status=Health.BROKEN)))
    assert "ERRORS\n✗ error: the driver 550.54.15 is too old" in text


def test_the_same_finding_on_many_instances_is_told_once_with_the_others_named() -> None:
    text = render(reports.eight())
    assert text.count("reseat the card") == 1
    assert "- the PCIe link of GPU-2 runs at width 8 of 16\n  - the PCIe link of GPU-3" in text


def test_eight_gpus_alike_are_one_line() -> None:
    lines = [line.split() for line in render(reports.eight()).splitlines() if "NVIDIA H200" in line]
    assert [" ".join(line) for line in lines] == [
        f"! at fault gpu 8 {TIMES} NVIDIA H200 sm_90, 140 GiB, PCIe 5 {TIMES}16, 700 W"
    ]


def test_the_component_at_fault_is_marked_in_the_stack_and_those_it_affects_too() -> None:
    rows = [line.split() for line in render(reports.driver_too_old()).splitlines()]
    assert ["driver", "✗", "at", "fault", "nvidia-driver", "550.54.15", "/usr/local/nvidia/lib64"] in rows
    assert any(row[:4] == ["framework", "!", "affected", "pytorch"] for row in rows)


def test_a_missing_component_that_is_at_fault_has_a_row_of_its_own() -> None:
    finding = replace(reports.DRIVER, component="nvml")
    report = replace(reports.no_gpu(), findings=(finding,), verdict=Verdict(status=Health.BROKEN))
    assert "✗ absent   nvml" in render(report)


def test_verbose_tells_sources_times_and_each_call() -> None:
    text = render(reports.h200(), width=100, verbose=True)
    assert "looked at in 21.3 ms: nvmlInit_v2" in text
    assert "call: nvmlInit_v2, 18.70 ms, ok" in text
    assert "no /lib/modules here" in text
    assert "nvmlInit_v2, 18.70" not in render(reports.h200(), width=100)


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
        (None, "not there"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (1.5, "1.5"),
        ("a", "a"),
        ((), "empty"),
        ({}, "empty"),
        (("a", None), "a, not there"),
        ({"a": (1, 2)}, "a 1, 2"),
        (tuple("abcdefghij"), "a, b, c, d, e, f, g, h and 2 more"),
    ],
)
def test_a_fact_is_told_in_words(held: JsonValue, said: str) -> None:
    assert value(held) == said


def test_a_path_is_cut_at_its_start_and_between_names() -> None:
    assert elided("/opt/a/b", 8) == "/opt/a/b"
    assert elided("/opt/abc/libcuda.so.1", 20) == "…/abc/libcuda.so.1"
    assert elided("/opt/libcuda.so.1", 9) == ""


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


@given(report=REPORTS, width=st.integers(20, 120), poor=st.booleans(), verbose=st.booleans())
def test_any_report_can_be_drawn_on_any_page_and_nothing_in_it_steers_the_terminal(
    report: Report, width: int, *, poor: bool, verbose: bool
) -> None:
    text = render(report, width=width, ascii=poor, verbose=verbose)
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert text.isascii() or not poor


def test_pythons_that_work_come_first_and_those_without_a_framework_are_counted() -> None:
    made = [
        EnvironmentVerdict(python="/chosen", kind="venv", works={"pytorch": False}),
        EnvironmentVerdict(python="/unknown", kind="conda", works={"jax": None}),
        *(EnvironmentVerdict(python=f"/empty/{number}", kind="pipx") for number in range(20)),
        EnvironmentVerdict(python="/well", kind="uv tool", works={"pytorch": True, "jax": False}),
    ]
    report = replace(reports.h200(), environments=tuple(made))
    text = render(report).partition("PYTHONS")[2]
    places = [text.index(path) for path in ("/well", "/unknown", "/chosen", "20 more with nothing that uses a GPU")]
    assert places == sorted(places)
    assert "/chosen (venv, the chosen one)" in text
    assert "/empty" not in text
    assert "/empty/19" in render(report, verbose=True)
    assert "pytorch works; jax cannot use the GPU" in " ".join(text.split())
