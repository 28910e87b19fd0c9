"""The map of the stack: every known system, in its order, each with what is known about it on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import NOT_ASKED, NOT_TOLD, chart
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.terms import systems
from gpustack.model.facts import Component, Facts, Host, Layer, Status
from tests import warm
from tests.schemas.test_schemas import SNAPSHOT, validator

if TYPE_CHECKING:
    import subprocess

REPO = Path(__file__).resolve().parents[2]
MATRIX = Matrix()
KNOWN = [system.id for system in systems(MATRIX)]
STATUSES = {status.value for status in Status}


def gpustack(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(arguments, cwd=REPO, environ=os.environ)


def test_a_recorded_machine_has_all_ninety_first_and_then_what_else_was_seen() -> None:
    drawn = chart(SNAPSHOT, MATRIX)
    assert len(KNOWN) == 90
    assert [one.id for one in drawn.components[:90]] == KNOWN == list(drawn.known)
    assert {one.id for one in drawn.components[90:]} >= {"python"}
    assert next(one for one in drawn.components if one.id == "gpu").status is Status.PRESENT
    assert any(edge.from_ == "pytorch" for edge in drawn.contracts)


@pytest.mark.parametrize(("taken", "why"), [("2026-11-21T10:02:00+00:00", NOT_ASKED), ("", NOT_TOLD)])
def test_what_was_not_mentioned_is_unknown_and_never_absent(taken: str, why: str) -> None:
    here = Component(id="vllm", layer=Layer.SERVING, vendor="any", status=Status.ABSENT, source="metadata")
    drawn = chart(Facts(taken=taken, host=Host(), components=(here,)), MATRIX)
    rest = [one for one in drawn.components if one.id != "vllm"]
    assert {(one.status, one.reason) for one in rest} == {(Status.UNKNOWN, why)}
    assert next(one for one in drawn.components if one.id == "vllm").status is Status.ABSENT


def test_the_map_of_this_machine_keeps_its_schema_and_knows_why_of_every_unknown() -> None:
    done = gpustack("stack", "--format", "json")
    said = json.loads(done.stdout)
    validator("stack").validate(said)
    assert (done.returncode, said["schema"]) == (0, "gpustack.stack/1")
    assert [one["id"] for one in said["components"][:90]] == KNOWN
    assert {one["status"] for one in said["components"]} <= STATUSES
    assert [one["id"] for one in said["components"] if one["status"] == "unknown" and not one["reason"]] == []
    assert [one["id"] for one in said["components"] if one["status"] == "absent" and not one["source"]] == []


def test_a_map_can_be_drawn_of_a_machine_that_is_elsewhere_and_of_input_that_is_none() -> None:
    drawn = gpustack("stack", "--from", "examples/driver-too-old.json")
    assert drawn.returncode == 0
    assert "pytorch 2.7.1+cu128" in drawn.stdout
    assert "broken: pytorch → nvidia-driver" in drawn.stdout
    missing = gpustack("stack", "--from", "nothing-here.json")
    assert (missing.returncode, missing.stdout, missing.stderr.count("\n")) == (2, "", 1)


def test_a_page_for_others_names_no_host_unless_told_to() -> None:
    page = gpustack("stack", "--from", "examples/driver-too-old.json", "--format", "html")
    assert page.stdout.startswith("<!doctype html>")
    host = json.loads((REPO / "examples/driver-too-old.json").read_text())["host"]["hostname"]
    assert f"{host}," not in page.stdout
    told = gpustack("stack", "--from", "examples/driver-too-old.json", "--format", "html", "--no-redact")
    assert f"{host}," in told.stdout
