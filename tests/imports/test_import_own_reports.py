"""This program's own output, pasted back: a report is not read as prose, a snapshot in a text is a snapshot."""

from __future__ import annotations

import io
import json
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack import snapshots
from gpustack.diagnose.engine import judge
from gpustack.errors import InputError
from gpustack.imports import load
from gpustack.model import writing
from gpustack.report import for_github, monitoring, report_html, report_junit, report_markdown, text
from tests.counting import each
from tests.imports.reading import MATRIX, given, version
from tests.wide import sample, wide

if TYPE_CHECKING:
    from gpustack.model.report import Report

ROOT = Path(__file__).parents[2]
RECORDED = sorted([*(ROOT / "tests" / "hosts").glob("*.json"), *(ROOT / "examples").glob("*.json")])
NAMED = {f"{path.parent.name}/{path.name}": path for path in RECORDED}  # a few names are in both folders
FORMS = {
    "text": lambda report: text.render(report, width=80),
    "narrow text": lambda report: text.render(report, width=44, verbose=True),
    "wide text": lambda report: text.render(report, width=200, verbose=True),
    "plain text": lambda report: text.render(report, width=80, ascii=True),
    "coloured text": lambda report: text.render(report, width=80, colour=True),
    "json": writing.render,
    "markdown": report_markdown.render,
    "html": report_html.render,
    "sarif": for_github.render_sarif,
    "junit": report_junit.render,
    "github": for_github.render_github,
    "nagios": monitoring.render_nagios,
    "prometheus": monitoring.render_prometheus,
}


@cache
def recorded(path: Path) -> str:
    said = json.loads(path.read_text())
    return json.dumps(said.get("facts", said), indent=1)


@cache
def judged(said: str) -> Report:
    return judge(given(said.encode()), MATRIX)


def blamed(pasted: str) -> tuple[tuple[str, ...], str]:
    """Return the first root cause of a pasted text, and why it was refused."""
    try:
        return judge(given(pasted.encode()), MATRIX).verdict.root_causes[:1], ""
    except InputError as error:
        return (), str(error)


def fenced(said: str) -> str:
    return f"This is what it says:\n```\n{said}\n```\nthanks\n"


@wide
@each(("name", "form"), sample(product(NAMED, FORMS), 3))
def test_a_report_pasted_back_blames_nobody_whom_it_did_not_blame(name: str, form: str) -> None:
    """In CI a third of the reports in each form; all with ``GPUSTACK_WIDE=1``."""
    first = judged(recorded(NAMED[name]))
    said = FORMS[form](first)
    for pasted in (said, fenced(said), said[: len(said) * 3 // 4]):
        roots, refused = blamed(pasted)
        assert roots in ((), first.verdict.root_causes[:1])
        assert "\n" not in refused


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_snapshot_in_a_text_is_that_snapshot(path: Path) -> None:
    held = recorded(path)
    first = judged(held)
    for pasted in (fenced(held), f"{held}\nthanks\n"):
        again = judged(pasted)
        assert again.verdict.root_causes == first.verdict.root_causes
        assert again.components == first.components


def test_what_is_next_to_a_report_is_read() -> None:
    report = text.render(judged(recorded(ROOT / "examples" / "module-mismatch.json")), width=80)
    facts = given(f"{report}\nand in the container torch 2.5.1+cu124\n".encode())
    assert version(facts, "pytorch") == "2.5.1+cu124"
    assert version(facts, "nvidia-driver") is None
    assert any("gpustack report" in one.why for one in facts.not_seen)


def test_a_report_beside_its_snapshot_is_skipped(tmp_path: Path) -> None:
    held = recorded(ROOT / "examples" / "module-mismatch.json")
    (tmp_path / "snapshot.json").write_text(held)
    (tmp_path / "report.txt").write_text(text.render(judged(held), width=80))
    facts = load([str(tmp_path)], io.BytesIO(), MATRIX)
    assert facts.components == snapshots.read(held).components
    assert [one.what for one in facts.not_seen][-1].endswith("report.txt")


def test_a_report_alone_is_refused_with_what_to_give_instead() -> None:
    report = text.render(judged(recorded(ROOT / "examples" / "module-mismatch.json")), width=80)
    with pytest.raises(InputError, match=r"gpustack report.*give the output of gpustack snapshot"):
        given(report.encode())


def test_a_snapshot_that_is_cut_off_is_refused() -> None:
    held = recorded(ROOT / "examples" / "module-mismatch.json")
    with pytest.raises(InputError, match="cut off or damaged"):
        given(f"```\n{held[:2000]}\n```\n".encode())


def test_two_snapshots_in_one_text_are_two_machines() -> None:
    held = recorded(ROOT / "examples" / "module-mismatch.json")
    with pytest.raises(InputError, match="two machines"):
        given(f"{fenced(held)}\n{fenced(held)}".encode())


INSPECTED = {
    "version": "1",
    "pip_version": "25.0",
    "installed": [
        {
            "metadata": {
                "name": "torch",
                "version": "2.5.1",
                "description": "Runs on Windows, WSL and Jetson; Python 3.8 or newer; needs CUDA 11.8",
                "classifier": ["Operating System :: Microsoft :: Windows", "Programming Language :: Python :: 3.8"],
                "requires_python": ">=3.8",
            }
        },
        {"metadata": {"name": "nvidia-cudnn-cu12", "version": "9.1.0.70"}},
        {"metadata": {"name": ["odd"]}},
    ],
    "environment": {"python_full_version": "3.12.3", "platform_release": "6.8.0-45-generic"},
}


@pytest.mark.parametrize("around", ["{}", "$ pip inspect\n{}\n", "{}\nthat is all"])
def test_pip_inspect_tells_packages_and_its_python_alone(around: str) -> None:
    facts = given(around.replace("{}", json.dumps(INSPECTED, indent=2)).encode())
    assert version(facts, "python") == "3.12.3"
    assert version(facts, "pytorch") == "2.5.1"
    assert version(facts, "cuda-toolkit") is None
    assert (facts.host.os, facts.host.wsl) == (None, False)


def test_pip_inspect_that_is_cut_off_tells_nothing_wrong() -> None:
    said = f"torch 2.5.1\n{json.dumps(INSPECTED, indent=2)[:-40]}"
    facts = given(said.encode())
    assert version(facts, "python") is None
    assert facts.host.os is None
