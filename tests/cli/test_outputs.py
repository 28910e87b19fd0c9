"""Several formats from one run: each goes where its -o says, at most one to standard output, each independently."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import fields
from itertools import permutations
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gpustack.cli import app
from gpustack.cli.options import Outputs, Shape, Shapes
from gpustack.cli.results import How, Place, deliver, places, summarise
from gpustack.cli.terminal import Command
from gpustack.errors import OutputError, UsageError
from tests import warm
from tests.report import checks, measurements, reports
from tests.report.readers import READERS, noted

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = REPO / "examples" / "driver-too-old.json"
FINDING = "driver-too-old-for-cuda-build"


def gpustack(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return warm.run([*map(str, arguments)], cwd=folder, environ=os.environ)


def asked(*typed: str) -> list[tuple[str, str | None]]:
    """Return how these arguments are understood: each format with its file."""
    found: list[Place] = []
    own = typer.Typer()

    @own.command(cls=Command)
    def command(context: typer.Context, *, written: Shapes = None, outputs: Outputs = None, v: bool = False) -> None:
        assert v in {True, False}
        found.extend(places(context, written, outputs))

    done = CliRunner().invoke(own, list(typed), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [(one.written, str(one.output) if one.output else None) for one in found]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", [("text", None)]),
        ("-o a", [("text", "a")]),
        ("--format json", [("json", None)]),
        ("--format json -o a", [("json", "a")]),
        ("-o a --format json", [("json", "a")]),
        ("--output=a --v --format=json", [("json", "a")]),
        ("--format json -oa --format html --v -o b", [("json", "a"), ("html", "b")]),
        ("--format json --format html -o b", [("json", None), ("html", "b")]),
        ("--format html -o b --format json", [("html", "b"), ("json", None)]),
        ("-o a --format json --format html -o b", [("json", "a"), ("html", "b")]),
        ("--format json -o a --format json -o b", [("json", "a"), ("json", "b")]),
        ("--format html -o a --format json -o -", [("html", "a"), ("json", None)]),
    ],
)
def test_an_o_belongs_to_the_format_before_it(typed: str, found: list[tuple[str, str | None]]) -> None:
    assert asked(*typed.split()) == found


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("--format json --format html", "--format json and --format html both go to standard output"),
        ("--format json --format html -o -", "both go to standard output"),
        ("--format json -o a --format html -o a", "both go to a"),
        ("--format json -o a -o b", "a and b are for the same result"),
        ("-o a -o b --format json", "a and b are for the same result"),
        ("-o a --format json -o b", "a and b are for the same result"),
    ],
)
def test_two_results_never_go_to_one_place(typed: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        asked(*typed.split())


def test_the_order_of_the_forms_does_not_matter() -> None:
    wanted = {("junit", "a"), ("sarif", "b"), ("html", "c")}
    for order in permutations(wanted):
        typed = [word for form, file in order for word in ("--format", form, "-o", file)]
        assert set(asked(*typed)) == wanted


def test_one_run_writes_every_form_and_the_exit_code_stays(tmp_path: Path) -> None:
    forms = [shape.value for shape in Shape]
    typed = [word for form in forms for word in ("--format", form, "-o", form)]
    done = gpustack("doctor", "--from", EXAMPLE, *typed, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    for form in forms:
        text = (tmp_path / form).read_text("utf-8")
        assert FINDING in READERS.get(form, str)(text), form
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(forms)
    rules = json.loads((tmp_path / "sarif").read_text("utf-8"))["runs"][0]["tool"]["driver"]["rules"]
    assert "gpustack explain" in rules[0]["help"]["text"]


def test_usage_errors_are_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    for typed in (("--format", "json", "--format", "text"), ("--format", "yaml", "-o", "a"), ("--format",)):
        done = gpustack("doctor", "--from", EXAMPLE, *typed, folder=tmp_path)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_affects_nothing_else(tmp_path: Path) -> None:
    typed = ("--format", "json", "-o", "no/where", "--format", "prometheus", "-o", "no/metrics", "--format", "nagios")
    done = gpustack("doctor", "--from", EXAMPLE, *typed, folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout.startswith("GPUSTACK CRITICAL - ")
    assert done.stderr.count("\n") == 1
    assert "no/where" in done.stderr
    assert "no/metrics" in done.stderr


def test_metrics_take_the_place_of_the_old_ones_in_one_move(tmp_path: Path) -> None:
    file, link = tmp_path / "metrics.prom", tmp_path / "link.prom"
    file.write_text("old")
    link.symlink_to(file)
    before = file.stat().st_ino
    with file.open() as reading:
        deliver([Place(written="prometheus", output=link)], lambda _: measurements.good(), How())
        assert reading.read() == "old"
    assert link.is_symlink()
    assert file.stat().st_ino != before
    assert file.read_text().endswith("# EOF\n")
    assert stat.S_IMODE(file.stat().st_mode) & 0o444 == 0o444 & ~_mask()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.prom", "metrics.prom"]


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_summary_of_a_step_is_appended_and_never_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    deliver([Place(written="github")], lambda _: checks.bad_host(), How())
    assert [name for name, _, _ in noted(capsys.readouterr().out)][:1] == ["error"]
    text = summary.read_text("utf-8")
    assert text.startswith("# Before\n## ")
    assert "bad-host" in text
    deliver([Place(written="json")], lambda _: checks.bad_host(), How())
    assert summary.read_text("utf-8") == text
    many = reports.driver_too_old()
    long = type(many)(
        **{
            **{one.name: getattr(many, one.name) for one in fields(many)},
            "not_seen": reports.h200().not_seen * 20_000,
        }
    )
    summarise(long, summary)
    assert summary.stat().st_size < 1_000_000 + 20_000
    with pytest.raises(OutputError):
        summarise(long, tmp_path)


def test_what_is_made_for_others_is_redacted_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    facts = json.loads(EXAMPLE.read_text("utf-8"))
    facts["host"]["hostname"] = "secret-node-17"
    (tmp_path / "machine.json").write_text(json.dumps(facts), "utf-8")
    forms = [shape.value for shape in Shape]
    typed = [word for form in forms for word in ("--format", form, "-o", form)]

    def telling(*more: str) -> set[str]:
        gpustack("doctor", "--from", "machine.json", *typed, *more, folder=tmp_path)
        return {form for form in forms if "secret-node-17" in (tmp_path / form).read_text("utf-8")}

    shown = {"text", "json"}  # neither Prometheus' labels nor Nagios' line name the host: their servers know it
    assert telling() == shown
    assert telling("--redact") == set()
    assert telling("--no-redact") >= {*shown, "html", "markdown", "junit"}


def test_a_pasted_file_is_the_place_of_what_was_found_in_it(tmp_path: Path) -> None:
    (tmp_path / "issue.txt").write_text(
        "torch==2.7.1+cu128\nNVIDIA-SMI 470.256.02   Driver Version: 470.256.02   CUDA Version: 11.4\n"
    )
    for named in ("issue.txt", str(tmp_path / "issue.txt")):
        done = gpustack("doctor", "--from", named, "--format", "sarif", folder=tmp_path)
        results = json.loads(done.stdout)["runs"][0]["results"]
        uris = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in results}
        assert uris == {"issue.txt"}
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    done = gpustack("doctor", "--from", str(tmp_path / "issue.txt"), "--format", "github", folder=outside)
    assert "::error file=issue.txt,title=" in done.stdout  # the parent folders may contain a user name


def test_forms_that_say_utf_8_are_utf_8_whatever_the_locale_says(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "gpustack", "doctor", "--from", str(EXAMPLE), "--format", "html"]
    env = {**os.environ, "PYTHONPATH": str(REPO), "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(arguments, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert "→" in done.stdout.decode("utf-8")


def test_every_command_that_judges_or_measures_takes_all_forms() -> None:
    for command in ("doctor", "bench", "check"):
        help_ = CliRunner().invoke(app, [command, "--help"]).output.replace("\n", "").replace(" ", "")
        assert "<text|json|markdown|html|junit|sarif|github|prometheus|nagios>" in help_
