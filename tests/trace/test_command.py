"""gpustack trace as its users meet it: exit codes, one clear line for each error, and all four output formats."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack import cli
from gpustack.cli import tracing
from gpustack.errors import NothingSeenError
from gpustack.explain import explain
from gpustack.matrix import Matrix
from gpustack.model.matrix_answer import Kind
from gpustack.report.trace_words import TERMS
from tests import warm
from tools import cases

if TYPE_CHECKING:
    from gpustack.trace import Asked

pytest.importorskip("numpy")

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = REPO / "examples" / "driver-too-old.json"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}  # so that a machine with a GPU behaves like one without


def gpustack(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    argv, environ = ["trace", *map(str, arguments)], {**os.environ, **HIDDEN, **more}
    return warm.run(argv, cwd=REPO, environ=environ, timeout=90)


def test_help_names_the_command_and_its_options() -> None:
    listed = subprocess.run([sys.executable, "-m", "gpustack", "--help"], capture_output=True, text=True, check=True)
    assert re.search(r"^  trace +Follow a small model", listed.stdout, re.MULTILINE)
    told = gpustack("--help").stdout
    for option in ("--model", "--size", "--precision", "--cpu", "--framework", "--onnx", "--from", "--timeout"):
        assert option in told
    assert "<text|json|html|perfetto>" in told


def test_without_a_gpu_it_is_one_line_and_exit_code_3() -> None:
    done = gpustack()
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpustack: ")
    assert "to fix it: " in line


def test_on_the_processor_it_runs_what_needs_no_gpu() -> None:
    done = gpustack("--cpu", "--model", "transformer", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    trace = json.loads(done.stdout)
    assert trace["schema"] == "gpustack.trace/1"
    assert [step["status"] for step in trace["steps"]] == [
        *("done", "needs-gpu", "needs-gpu", "needs-gpu", "done", "done", "needs-gpu"),
    ]
    assert trace["checks"][0]["passed"] is True
    assert any("to fix it" in why for why in trace["steps"][1]["why"])
    assert len(trace["layers"]) == 17


def hiding(folder: Path, name: str) -> str:
    """Return a folder for PYTHONPATH in which a package cannot be imported."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(f"raise ImportError('no {name} here')\n")
    return os.pathsep.join([str(folder), str(REPO)])


def test_without_cuda_core_the_command_that_brings_it_is_named(tmp_path: Path) -> None:
    hidden = hiding(tmp_path, "cuda")
    done = gpustack(PYTHONPATH=hidden)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "pip install 'cuda-core>=1.0.1,<2' 'cuda-bindings>=12.9,<14'" in done.stderr
    alone = gpustack("--cpu", "--format", "json", PYTHONPATH=hidden)
    assert alone.returncode == 0
    assert "pip install 'cuda-core>=1.0.1,<2' 'cuda-bindings>=12.9,<14'" in alone.stdout


def test_without_numpy_the_command_that_brings_it_is_named(tmp_path: Path) -> None:
    done = gpustack("--cpu", PYTHONPATH=hiding(tmp_path, "numpy"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "pip install numpy" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "gpt"), "'gpt' is not one of"),
        (("--size", "huge"), "'huge' is not one of"),
        (("--precision", "fp4"), "'fp4' is not one of"),
        (("--framework", "tensorflow"), "'tensorflow' is not one of"),
        (("--gpu", "-1"), "-1"),
        (("--timeout", "0"), "0"),
        (("--format", "junit"), "'junit' is not one of"),
        (("--onnx", "/nowhere.onnx"), "/nowhere.onnx does not exist"),
        (("--onnx", "/tmp"), "/tmp does not exist, or is not a file"),  # noqa: S108 - a folder that is on every machine
        (("--onnx", EXAMPLE, "--framework", "torch"), "--onnx runs in onnxruntime, not in torch"),
        (("--onnx", EXAMPLE, "--size", "small"), "--onnx brings its own model: --size cannot be combined with it"),
        (("--gpu", "1", "--framework", "torch"), "--gpu is for gpustack's own run"),
        (("--cpu", "--framework", "jax"), "--cpu and --framework cannot be combined"),
        (("--cpu", "--onnx", EXAMPLE), "--cpu and --onnx cannot be combined"),
        (("--from", EXAMPLE, "--cpu"), "--from and --cpu cannot be combined"),
        (("--from", EXAMPLE, "--framework", "torch"), "--from and --framework cannot be combined"),
        (("--from", EXAMPLE, "--python", "/usr/bin/python3"), "--from and --python cannot be combined"),
        (("--from", "/nowhere.json"), "/nowhere.json"),
        (("--cpu", "--format", "html", "--format", "json"), "both go to standard output"),
        (("--cpu", "-o", "/nowhere/trace.txt"), "/nowhere/trace.txt cannot be written"),
    ],
)
def test_wrong_use_is_one_clear_line_and_exit_code_2(arguments: tuple[str | Path, ...], says: str) -> None:
    done = gpustack(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpustack: ")
    assert says in line


def test_all_forms_at_once_each_where_it_was_asked_for(tmp_path: Path) -> None:
    files = {form: tmp_path / f"trace.{form}" for form in ("json", "html", "perfetto")}
    given = [part for form, file in files.items() for part in ("--format", form, "-o", str(file))]
    done = gpustack("--cpu", "--format", "text", *given)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("✓ DONE: ")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout
    assert json.loads(files["json"].read_text("utf-8"))["schema"] == "gpustack.trace/1"
    assert files["html"].read_text("utf-8").startswith("<!doctype html>")
    assert "traceEvents" in json.loads(files["perfetto"].read_text("utf-8"))


def test_what_cannot_be_written_affects_no_other_form(tmp_path: Path) -> None:
    good = tmp_path / "trace.json"
    done = gpustack("--cpu", "--format", "html", "-o", "/nowhere/x.html", "--format", "json", "-o", good)
    assert done.returncode == 2
    assert "/nowhere/x.html cannot be written" in done.stderr
    assert json.loads(good.read_text("utf-8"))["failed"] is None


def test_a_recorded_broken_machine_names_its_step_and_fails() -> None:
    done = gpustack("--from", EXAMPLE)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("✗ FAILED: it would fail at step 2, copied to the device: ")
    assert "gpustack explain driver-too-old-for-cuda-build" in done.stdout
    explained = subprocess.run(
        [sys.executable, "-m", "gpustack", "explain", "driver-too-old-for-cuda-build"], check=False, capture_output=True
    )
    assert explained.returncode == 0


def test_a_recorded_machine_without_faults_fails_at_no_step(tmp_path: Path) -> None:
    case = cases.write(cases.named("1051-ok-vllm-toolcall-4090"), tmp_path)
    done = gpustack("--from", case, "--format", "json")
    trace = json.loads(done.stdout)
    assert (done.returncode, trace["failed"], trace["stop"]) == (0, None, None)
    assert trace["says"] == "none of the seven steps is known to fail"


def test_names_are_taken_out_of_what_others_read(tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    said.write_text(
        "ImportError: /home/alicesmith/venv/lib/python3.10/site-packages/"
        "flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi\n"
    )
    shown = {
        form: gpustack("--from", said, "--format", form, *more).stdout
        for form, more in {"json": (), "html": (), "perfetto": ("--redact",)}.items()
    }
    assert "alicesmith" in shown["json"]
    assert "alicesmith" not in shown["html"] + shown["perfetto"]
    assert "alicesmith" not in gpustack("--from", said, "--redact").stdout
    assert "alicesmith" in gpustack("--from", said, "--format", "html", "--no-redact").stdout


@pytest.mark.parametrize("term", [*TERMS, "graph", "arithmetic intensity", "pinned", "shared memory", "register"])
def test_every_word_that_a_trace_shows_is_explained(term: str) -> None:
    (meant, *_) = explain([term], Matrix()).meanings
    assert meant.kind is Kind.TERM
    assert any("gpustack trace" in command for command in meant.see)


def test_the_gpu_alone_is_not_compared_with_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []

    def seen(one: Asked, _progress: object) -> None:
        asked.append(one)
        raise NothingSeenError("no GPU here")

    monkeypatch.setattr(tracing, "_on_gpu", seen)
    monkeypatch.setattr(tracing, "_beside", lambda *_: pytest.fail("it was compared"))
    monkeypatch.setattr(sys, "argv", ["gpustack", "trace"])
    with pytest.raises(SystemExit):
        cli.main()
    assert [one.batches for one in asked] == [()]
