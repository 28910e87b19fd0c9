"""The files of recorded cases: nothing is lost on the way into a file, out of it as a folder, and back."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from gpustack.imports import load
from tests.build import MATRIX
from tests.counting import each
from tests.recorded import facts_of
from tools import cases
from tools.cases.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

CASE = cases.named("042-kfd-permission-container")
ODD = {
    "input": "\n\nbegins with lines, ends without one",
    "error": "'quoted'\\ \"\"\" and ''' \x1b[31mred\x1b[0m, DEL \x7f, NUL \0\ta tab",
    "dmesg": "lines of\r\nWindows\r and others\n",
    "log": "it ends with '",
    "pip-list": "é ² \u2028 \U0001f600 \ufeff C:\\new\\u0041\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is read for cases in place of tests/cases."""
    folder = tmp_path / "cases"
    folder.mkdir()
    monkeypatch.setattr(cases, "FOLDER", folder)
    # What was read from the real folder must not be used for this one, nor the other way round.
    for name in ("of", "every"):
        monkeypatch.setattr(cases, name, cache(getattr(cases, name).__wrapped__))
    return folder


@each("cause", cases.causes())
def test_a_file_is_as_the_tool_writes_it(cause: str) -> None:
    assert (cases.FOLDER / f"{cause}.toml").read_bytes().decode() == cases.written(cases.of(cause))


def test_any_text_comes_back_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    odd = replace(CASE, inputs=ODD)
    at = cases.write(odd, tmp_path)
    assert {path.name: path.read_bytes() for path in at.glob("*.txt")} == {
        f"{name}.txt": text.encode() for name, text in ODD.items()
    }
    cases.add(at)
    (read,) = cases.of(CASE.root_cause)
    assert read == odd
    assert list(read.inputs) == list(ODD)
    assert [path.name for path in folder.iterdir()] == [f"{CASE.root_cause}.toml"]


def test_a_case_replaces_the_one_of_its_id_whatever_the_cause_was(folder: Path, tmp_path: Path) -> None:
    others = [replace(CASE, id=name) for name in ("041-before", "043-after")]
    for number, one in enumerate((CASE, *others, replace(CASE, fix="another"))):
        cases.add(cases.write(one, tmp_path / str(number)))
    assert cases.of(CASE.root_cause) == (others[0], replace(CASE, fix="another"), others[1])
    well = replace(CASE, root_cause="none-app-config", id="043-after", false_alarms=("nouveau-loaded",))
    cases.add(cases.write(well, tmp_path))
    assert cases.every() == (others[0], replace(CASE, fix="another"), well)
    cases.add(cases.write(replace(well, root_cause="none-framework-bug"), tmp_path / "again"))
    assert sorted(path.stem for path in folder.iterdir()) == sorted([CASE.root_cause, "none-framework-bug"])


@pytest.mark.usefixtures("folder")
def test_a_broken_stack_is_not_taken_in_as_a_healthy_one(tmp_path: Path) -> None:
    at = cases.write(CASE, tmp_path)
    expected = at / cases.EXPECTED
    expected.write_text(expected.read_text("utf-8").replace("healthy = false", "healthy = true"), "utf-8")
    with pytest.raises(ValueError, match=CASE.id):
        cases.add(at)
    assert cases.causes() == []


def test_texts_are_read_as_the_files_of_a_folder_are(tmp_path: Path) -> None:
    several = [case for case in cases.every()[::40] if len(case.inputs) > 1]
    assert several
    for case in several:
        at = cases.write(case, tmp_path)
        read = load(sorted(map(str, at.glob("*.txt"))), io.BytesIO(), MATRIX)
        assert repr(read).replace(str(tmp_path), "tests/cases") == repr(replace(facts_of(case), taken=read.taken))


def test_the_command_writes_folders_and_takes_one_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", ["cases", *map(str, arguments)])
        main()
        return capsys.readouterr().out

    assert run("write", tmp_path / "all") == f"{len(cases.every())} cases in {tmp_path / 'all'}\n"
    assert {path.name for path in (tmp_path / "all").iterdir()} == {case.id for case in cases.every()}
    assert run("write", tmp_path / "one", CASE.id) == f"1 cases in {tmp_path / 'one'}\n"
    said = run("add", tmp_path / "one" / CASE.id)
    assert said == f"{CASE.id}: {cases.FOLDER}/{CASE.root_cause}.toml\n"


def test_an_id_that_no_case_has_is_named() -> None:
    with pytest.raises(LookupError, match="999999-nothing"):
        cases.named("999999-nothing")
