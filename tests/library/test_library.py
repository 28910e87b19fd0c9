"""gpustack as a library: what a notebook or a test suite calls, with types, examples that run, and a light import."""

from __future__ import annotations

import doctest
import html
import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import gpustack
from gpustack import library, snapshots
from gpustack.errors import InputError, UsageError
from gpustack.model.writing import plain

REPO = Path(__file__).resolve().parents[2]
OLD = REPO / "examples/driver-too-old.json"
PUBLIC = [getattr(gpustack, name) for name in gpustack.__all__]


def command(*arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, "-m", "gpustack", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["gpustack.library"])
def test_every_example_of_the_library_runs(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPO)
    ran = doctest.testmod(import_module(module))
    assert ran.failed == 0
    assert ran.attempted >= 6


@pytest.mark.parametrize("public", [*PUBLIC, library.Shown.text, library.Shown.json, library.Shown.html])
def test_every_public_name_is_documented_with_an_example(public: object) -> None:
    said = inspect.getdoc(public) or ""
    assert ">>> import gpustack" in said
    if inspect.isfunction(public) and public in PUBLIC:
        assert "Raises " in said
        assert "in seconds" in said or "in\nseconds" in said
        hints = inspect.signature(public).parameters
        assert [name for name in hints if f"``{name}``" not in said and name != "purpose"] == []


def test_the_import_takes_nothing_with_it() -> None:
    program = "import sys; before = set(sys.modules); import gpustack; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPO)
    assert done.stdout.strip() == "['gpustack']"
    assert set(gpustack.__all__) <= set(dir(gpustack))
    with pytest.raises(AttributeError, match="no attribute 'doctr'"):
        gpustack.doctr  # noqa: B018 - to ask is the test


def test_the_library_says_what_the_commands_say() -> None:
    assert json.loads(gpustack.judge(OLD).json()) == json.loads(command("doctor", "--from", OLD, "--format", "json"))
    policy = REPO / "integrations/gpustack.toml"
    ours, theirs = (
        gpustack.check(policy, snapshot=OLD).json(),
        command("check", "--policy", policy, "--from", OLD, "--format", "json"),
    )
    assert json.loads(ours) == json.loads(theirs)


def test_a_recorded_machine_may_be_given_in_any_form(tmp_path: Path) -> None:
    said = json.loads(OLD.read_text("utf-8"))
    pasted = tmp_path / "issue.txt"
    pasted.write_text("RuntimeError: CUDA error: no kernel image is available for execution on the device\n", "utf-8")
    as_path = gpustack.judge(str(OLD))
    assert as_path == gpustack.judge(said) == gpustack.judge(snapshots.take(said, "here"))
    assert gpustack.judge([pasted]).verdict.root_causes == ("arch-not-in-build",)


def test_a_machine_is_examined_with_the_python_that_asks() -> None:
    report = gpustack.doctor()
    assert report.environments[0].python == sys.executable
    assert {one.id: one.status.value for one in report.components}["linux-kernel"] == "present"


def test_a_check_of_this_machine_holds_it_against_the_number_of_gpus() -> None:
    done = gpustack.check(REPO / "integrations/gpustack.toml", gpus=0, bench=False)
    (rule,) = [one for one in done.policy if one.rule.startswith("gpus")]
    assert rule.wanted.startswith("0")
    assert done.bench is None


def test_a_notebook_shows_the_page_redacted_and_in_a_frame_of_its_own() -> None:
    serial = "1650922013579"
    said = json.loads(OLD.read_text("utf-8"))
    gpu = next(one for one in said["components"] if one["id"] == "gpu")
    gpu["instances"][0]["facts"]["serial"] = serial
    said["host"]["hostname"] = "secrethost17"
    report = gpustack.judge(said)
    shown = report._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    inside = html.unescape(shown.partition('srcdoc="')[2])
    assert inside.startswith("<!doctype html>")
    assert "driver is too old" in inside
    assert "secrethost17" in report.json()
    assert not {word for word in (serial, "secrethost17") if word in inside}


def test_a_result_prints_as_the_command_does_and_stays_short_where_it_is_named() -> None:
    report = gpustack.judge(OLD)
    assert str(report).startswith("✗ BROKEN: The driver is too old for PyTorch 2.7.1+cu128")
    assert repr(report) == "<Report broken: driver-too-old-for-cuda-build@pytorch:/opt/venv/bin/python>"
    assert repr(gpustack.check(snapshot=OLD)).startswith("<CheckReport bad-host: The driver is too old")
    assert plain(report) == json.loads(report.json())


def test_what_cannot_be_done_is_one_of_our_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.json"):
        gpustack.judge(tmp_path / "missing.json")
    with pytest.raises(InputError, match="the snapshot holds JSON without a schema"):
        gpustack.judge({})
    with pytest.raises(UsageError, match="purpose is train, infer, build, any, not 'games'"):
        gpustack.judge(OLD, purpose="games")  # type: ignore[arg-type]  # a slip of the pen
    with pytest.raises(UsageError, match="/nowhere/python"):
        gpustack.doctor(python="/nowhere/python")
    with pytest.raises(UsageError, match="snapshot cannot be combined with python or deep"):
        gpustack.check(snapshot=OLD, deep=True)


def test_the_page_about_the_library_runs_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPO)
    blocks = re.findall(
        r"^```python\n(.*?)^```", (REPO / "docs/library.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) == 3
    for block in blocks:
        names: dict[str, object] = {}
        exec(compile(block, "docs/library.md", "exec"), names)  # noqa: S102 - our own page
        for name, held in names.items():
            if name.startswith("test_"):
                held()  # type: ignore[operator]  # a function of the page
