"""The command line of ``gpustack matrix``: exit codes, one clear line for each error, the schema of every output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ask.questions import REPO, command, validate

HOST = REPO / "examples" / "driver-too-old.json"


@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        (("torch==2.11.0", "--driver", "550.54.15", "--gpu", "sm_90", "--python", "3.12"), 1, "incompatible"),
        (("torch==2.7.1+cu128", "--driver", "535.183.01"), 0, "limited"),
        (("torch==2.7.1+cu128", "--driver", "580.65.06", "--gpu", "9.0"), 0, "compatible"),
        (("torch==99.0", "--driver", "550.54.15"), 0, "unknown"),
        (("no-such-thing==1", "--os", "linux"), 0, "unknown"),
        (("cuda-toolkit==12.4", "--gcc", "14"), 1, "incompatible"),
    ],
)
def test_why_answers_in_json_and_by_its_exit_code(arguments: tuple[str, ...], code: int, verdict: str) -> None:
    done = command("why", *arguments, "--format", "json")
    assert (done.returncode, done.stderr) == (code, "")
    said = json.loads(done.stdout)
    validate(said, "matrix")
    assert (said["schema"], said["subject"], said["verdict"]) == ("gpustack.matrix/1", arguments[0], verdict)


def test_plan_and_show_did_their_work_and_exit_with_0(tmp_path: Path) -> None:
    done = command("plan", "torch>=2.6", "--driver", "470.256.02", "--gpu", "RTX 3060", "--format", "json")
    assert done.returncode == 0
    validate(json.loads(done.stdout), "matrix")
    target = tmp_path / "shown.json"
    done = command("show", "vllm", "--format", "json", "-o", str(target))
    assert (done.returncode, done.stdout) == (0, "")
    validate(json.loads(target.read_text("utf-8")), "matrix-show")


@pytest.mark.parametrize(
    "arguments",
    [
        ("why", "torch==2.7.1", "--driver", "banana"),
        ("why", "torch==2.7.1", "--gpu", "sm_5"),
        ("why", "torch=2.7.1", "--driver", "550.54.15"),
        ("why", "torch==2.7.1", "--os", "plan9"),
        ("why", "torch==2.7.1", "--here", "--from", "x.json"),
        ("why", "torch==2.7.1", "--from", "no-such-file.json"),
        ("why",),
        ("show", "torhc"),
        ("show", ""),
        ("update", "gcc"),
        ("frobnicate",),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("gpustack: ")


def test_a_recorded_machine_is_asked_and_what_is_given_counts_instead() -> None:
    machine = ("--from", str(HOST), "--format", "json")
    done = command("why", "torch==2.11.0", *machine)
    said = json.loads(done.stdout)
    assert (done.returncode, said["verdict"]) == (1, "incompatible")
    assert "here is driver" in said["reasons"][0]["text"]
    assert (
        json.loads(command("why", "torch==2.11.0", "--driver", "580.65.06", *machine).stdout)["verdict"]
        != "incompatible"
    )


def test_this_machine_is_probed_where_nothing_is_given() -> None:
    done = command("why", "torch==2.7.1", "--format", "json")
    said = json.loads(done.stdout)
    validate(said, "matrix")
    assert "what is on this machine" in said["given"]
    assert done.returncode == int(said["verdict"] == "incompatible")


def test_text_says_what_why_and_which_commands_at_80_columns() -> None:
    done = command("why", "torch==2.11.0", "--driver", "550.54.15", "--gpu", "sm_90", PYTHONIOENCODING="utf-8")
    lines = done.stdout.splitlines()
    assert lines[0] == "✗ torch==2.11.0 does not work with driver 550.54.15, GPU sm_90"
    assert "python -m pip install torch==2.11.0+cu126 --index-url https://download.pytorch.org/whl/cu126" in done.stdout
    typed = ("python -m pip", "uv pip", "conda install", "sudo", "export", "#")
    assert all(len(line) <= 80 for line in lines if not line.strip().startswith(typed))
    assert "\x1b" not in done.stdout
