"""What the outputs of several commands tell together names the cause, and no such machine is called well."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.model.report import Health
from tests.schema import MATRIX

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OUTPUTS = tomllib.loads(Path(__file__).with_name("outputs.toml").read_text("utf-8"))["output"]


@pytest.mark.parametrize(("cause", "text"), [(one["cause"], one["text"]) for one in OUTPUTS])
def test_what_outputs_tell_together_names_the_cause(cause: str, text: str) -> None:
    report = judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX)
    named = [*report.verdict.root_causes, *(one.id for one in report.candidates)]
    assert named[:1] == [cause]
    assert report.verdict.status is not Health.HEALTHY


def test_a_build_runs_on_a_newer_gpu_of_the_same_generation() -> None:
    said = "RTX 4090, torch 1.13.1+cu117: a run on the GPU takes 1023 ms, the CPU 35 ms ???"
    report = judge(load_texts({"a paste": said.encode()}, MATRIX), MATRIX)
    assert "arch-not-in-build" not in report.verdict.root_causes


@pytest.mark.parametrize(
    ("state", "blamed"), [("Not Active", []), ("Active", ["gpu-overheat"])], ids=["cool", "slowed by heat"]
)
def test_a_column_of_a_query_is_no_fault_by_its_name(state: str, blamed: list[str]) -> None:
    said = f"index, name, clocks_throttle_reasons.hw_thermal_slowdown\n0, NVIDIA H100 80GB HBM3, {state}\n"
    report = judge(load_texts({"a paste": said.encode()}, MATRIX), MATRIX)
    assert [*report.verdict.root_causes] == blamed


def test_a_service_for_nvswitch_that_fails_beside_a_geforce_is_not_a_likely_cause() -> None:
    said = b"2x GeForce RTX 4090\nnv-fabricmanager failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
    report = judge(load_texts({"a paste": said}, MATRIX), MATRIX)
    assert not [one.id for one in report.candidates if one.id.startswith("fabric-")]
    assert report.verdict.root_causes == ()
