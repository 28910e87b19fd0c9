"""A snapshot of every schema ever released opens, whatever was added since; damaged ones get one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpustack import snapshots
from gpustack.errors import InputError
from gpustack.imports import load_texts
from gpustack.model.writing import render
from tests.build import MATRIX, report
from tests.faults import command

FOLDER = Path(__file__).parents[1] / "snapshots"
RELEASED = sorted(FOLDER.glob("snapshot-*.json"))


def test_every_schema_up_to_today_s_is_here() -> None:
    """When the schema becomes /2: a snapshot of /1 stays here, and ``snapshots.take`` learns to read it."""
    newest = int(snapshots.SCHEMA.rpartition("/")[2])
    assert [path.stem for path in RELEASED] == [f"snapshot-{number}" for number in range(1, newest + 1)]


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_a_released_snapshot_opens_is_judged_and_is_written_as_one_of_today(path: Path) -> None:
    facts = snapshots.read(path.read_text("utf-8"), path.name)
    assert report(facts).verdict.root_causes == ("driver-too-old-for-cuda-build",)
    again = snapshots.read(render(facts))
    assert again == facts


# Texts whose fault is in what their messages imply, and the finding of each.
BY_MESSAGES = {
    "ImportError: /x/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: "
    "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE\n"
    "(torch 2.6.0+cu124, flash-attn 2.6.3)": "extension-abi-mismatch",
    "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version "
    "(8, 9, 7).": "cudnn-shadowed-by-ld-library-path",
    "NVRM: API mismatch: the client has the version 550.54.15, but\n"
    "NVRM: this kernel module has the version 535.129.03.": "driver-library-mismatch",
}


@pytest.mark.parametrize(("text", "finding"), BY_MESSAGES.items(), ids=BY_MESSAGES.values())
def test_a_snapshot_of_0_1_0_that_holds_messages_without_their_facts_loses_no_finding(text: str, finding: str) -> None:
    facts = load_texts({"paste": text.encode()}, MATRIX)
    assert report(facts).verdict.root_causes == (finding,)
    said = json.loads(render(facts))
    said["components"] = []
    for message in said["messages"]:
        del message["strength"]
    assert report(snapshots.take(said, "x.json")).verdict.root_causes == (finding,)


def test_what_had_another_name_in_an_older_snapshot_has_that_of_the_probes() -> None:
    said = json.loads(RELEASED[0].read_text("utf-8"))
    place = {"layer": "driver", "vendor": "any", "status": "present"}
    said["components"] = [
        {**place, "id": "fabric-manager", "version": "535.183.01"},
        {**place, "id": "nvidia-driver", "facts": {"nvml_library": "570.86"}, "instances": []},
        *({**place, "id": module, "facts": {"loaded": True}, "instances": []} for module in ("i915", "xe")),
    ]
    facts = snapshots.take(said, "x.json")
    assert [one.id for one in facts.components] == ["nvidia-fabricmanager", "nvidia-driver", "i915.ko", "xe.ko"]
    assert facts.components[1].facts == {"libnvidia_ml": "570.86"}


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
@pytest.mark.parametrize("left", [1, 100, 5000])
def test_a_snapshot_that_was_cut_is_refused_in_one_line(path: Path, left: int, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(path.read_bytes()[:left])
    ran = command.run(("doctor", "--from", str(cut)), {})
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


def test_a_snapshot_of_tomorrow_is_refused_and_says_what_is_needed() -> None:
    said = {**json.loads(RELEASED[-1].read_text("utf-8")), "schema": "gpustack.snapshot/99"}
    with pytest.raises(InputError, match=r"holds gpustack\.snapshot/99, but gpustack\.snapshot/1 is required"):
        snapshots.take(said, "x.json")


def test_what_a_newer_gpustack_wrote_is_kept_and_redacted_when_a_snapshot_is_written_again(tmp_path: Path) -> None:
    said = json.loads(RELEASED[-1].read_text("utf-8"))
    token, uuid = "hf_" + "Qx7Lm2" * 6, "GPU-77aa77bb-1234-5678-9abc-def012345678"
    said["weather"] = {"sun": [1, None, {"deep": [token]}], "nothing": None}
    said["host"]["rack"] = uuid
    said["components"][0]["mood"], said["components"][0]["facts"]["uuid"] = [uuid], uuid
    newer, first, second = (tmp_path / name for name in ("newer.json", "first.json", "second.json"))
    newer.write_text(json.dumps(said))
    plain = tmp_path / "plain.json"
    for origin, output, more in ((newer, first, ()), (first, second, ()), (newer, plain, ("--no-redact",))):
        ran = command.run(("snapshot", "--from", str(origin), "-o", str(output), *more), {})
        assert (ran.code, ran.err) == (0, "")
    kept = json.loads(first.read_text())
    assert kept["weather"] == {"sun": [1, None, {"deep": ["secret-1"]}], "nothing": None}
    assert kept["host"]["rack"] == kept["components"][0]["mood"][0] == kept["components"][0]["facts"]["uuid"] != uuid
    assert first.read_text() == second.read_text()
    assert json.loads(plain.read_text())["weather"] == said["weather"]
    assert json.loads(plain.read_text())["components"][0]["mood"] == [uuid]
    assert snapshots.read(first.read_text()).find(said["components"][0]["id"]) is not None


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ('{"schema": "gpustack.snapshot/1", "components": 5}', "components is not a list"),
        ('{"schema": "gpustack.snapshot/2"}', "gpustack.snapshot/1 is required"),
        ('{"schema": "gpustack.snapshot/1", "new": ' + "[" * 400 + "]" * 400 + "}", "nested too deeply"),
        ('{"schema": "gpustack.snapshot/1", "host": {"hostname": "\\ud800"', "cut off or damaged"),
        (" ", "is empty"),
    ],
)
def test_what_is_damaged_is_not_written_again(damage: str, why: str, tmp_path: Path) -> None:
    given, output = tmp_path / "given.json", tmp_path / "out.json"
    given.write_text(damage)
    ran = command.run(("snapshot", "--from", str(given), "-o", str(output)), {})
    assert (ran.code, ran.out, ran.err.count("\n"), output.exists()) == (2, "", 1, False), ran.err
    assert why in ran.err
