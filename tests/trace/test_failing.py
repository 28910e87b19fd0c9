"""At which step a broken stack would stop: recorded machines, and every existing finding."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.explain import topics
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.terms import places
from gpustack.model.facts import Facts, Host, Layer
from gpustack.model.report import Finding, Health, Severity
from gpustack.model.trace import State
from gpustack.trace import NAMES, failing
from gpustack.trace.counting import subject
from gpustack.trace.models import build
from tests.recorded import judged
from tests.wide import sample, wide
from tools import cases

if TYPE_CHECKING:
    from gpustack.model.report import Report

MATRIX = Matrix()
SUBJECT = subject(build("mlp", "small", "bf16"))
STOPS = {
    "1009-fa263-torch24-on-251": 1,  # a compiled extension cannot be loaded
    "1012-pyglib-glibc233-focal": 1,
    "1031-cudart110-tbminer": 1,  # libcudart is not found when the program is loaded
    "1039-nccl-commregister-219": 1,
    "1045-shm-docker-video-speedrun": 1,  # workers that load the input die of a too small /dev/shm
    "1149-nvjitlink-129-cusparse-pip": 1,
    "001-cpu-only-win-rtx4080": 2,
    "011-drv410-cu101-t4": 2,
    "042-kfd-permission-container": 2,
    "051-mismatch-520-vs-525-apt": 2,
    "060-secureboot-key-535": 2,
    "065-nouveau-v100-no-adapter": 2,
    "070-open-module-1070ti": 2,
    "075-uvm-suspend-debian": 2,
    "083-fm-802-torch-2020": 2,
    "086-fc804-gtx1650": 2,
    "092-no-gpus-flag-anomalib": 2,
    "103-cvd-out-of-range": 2,
    "1028-xid79-pop-discord": 2,
    "1133-jax-0435-newer-plugin-py313": 2,
    "1037-tf24rc1-cusolver10-3090": 2,
    "022-ptx-470-triton": 3,
    "027-sm120-cu126-5090d": 3,
    "038-gfx1151-nightly": 3,
    "1040-nvcc117-torch124-dered": 3,
    "1042-compute89-fastllm-4090": 3,
    "1048-triton-no-lcuda": 3,
    "1131-cudnn-860-vs-870-audiocraft": 4,
    "1036-cudnn750-jetson-nano": 4,
    "446-overheat-titanv-95c": 4,
    "1030-ecc-k40c-torch7": 5,
    "1127-acs-plx-gdr-crash": 5,
}
LIMITED = {"1147-pcie-gen2-3090-powerinfer": 2, "1029-overheat-hashcat-z840": 4, "108-ort-both-1201": 2}


@pytest.mark.parametrize("name", STOPS)
def test_a_broken_machine_stops_at_its_step_and_no_later_one_is_reached(name: str) -> None:
    trace = failing.recorded(judged(cases.named(name)), SUBJECT)
    assert trace.stop is not None
    assert (trace.failed, trace.stop.step, trace.stop.fails) == (STOPS[name], STOPS[name], True)
    assert trace.stop.name == NAMES[STOPS[name]]
    assert trace.stop.explain == f"gpustack explain {trace.findings[0].id}"
    assert trace.findings[0].fix is not None or trace.findings[0].severity is not Severity.ERROR
    words = [step.why for step in trace.steps]
    assert words[STOPS[name] :] == [("not reached",)] * (7 - STOPS[name])
    assert words[: STOPS[name] - 1] == [("nothing is known against it",)] * (STOPS[name] - 1)
    assert trace.says is not None
    assert trace.says.startswith(f"it would fail at step {STOPS[name]}, ")
    assert trace.findings[0].title in trace.says


@pytest.mark.parametrize("name", LIMITED)
def test_a_machine_with_limits_fails_at_no_step(name: str) -> None:
    trace = failing.recorded(judged(cases.named(name)), SUBJECT)
    assert trace.stop is not None
    assert (trace.failed, trace.stop.step, trace.stop.fails) == (None, LIMITED[name], False)
    assert trace.says is not None
    assert trace.says.startswith("none of the seven steps is known to fail; step")
    assert all("not reached" not in step.why for step in trace.steps)


@wide
@pytest.mark.parametrize("cause", cases.causes(healthy=True))
def test_nothing_is_said_against_a_healthy_machine(cause: str) -> None:
    """In CI of the first case of each cause and one in sixty-four of the others; of all with ``GPUSTACK_WIDE=1``."""
    first, *others = cases.of(cause)
    assert [case.id for case in (first, *sample(others, 64)) if not silent(judged(case))] == []


def silent(report: Report) -> bool:
    """Return whether no step is reported to fail, and where the machine is healthy, that none is known to."""
    trace = failing.recorded(report, SUBJECT)
    if report.verdict.status is not Health.HEALTHY:
        return trace.failed is None
    return (trace.failed, trace.stop, trace.says) == (None, None, "none of the seven steps is known to fail") and {
        step.status for step in trace.steps
    } == {State.SKIPPED}


def empty(status: Health) -> Report:
    facts = Facts(taken="", host=Host())
    report = judge(facts, MATRIX)
    return type(report)(
        **{
            **{one.name: getattr(report, one.name) for one in fields(report)},
            "findings": (),
            "verdict": type(report.verdict)(status=status),
        }
    )


def test_without_a_gpu_the_steps_that_need_one_are_named() -> None:
    trace = failing.recorded(empty(Health.NO_GPU), SUBJECT)
    assert [step.number for step in trace.steps if step.status is State.NEEDS_GPU] == [2, 3, 4, 7]
    assert trace.says is not None
    assert "gpustack trace --cpu" in trace.says
    assert trace.failed is None


def test_where_too_little_was_seen_no_step_is_named() -> None:
    trace = failing.recorded(empty(Health.UNKNOWN), SUBJECT)
    assert trace.says == "too little is known to name a step"
    assert {step.why for step in trace.steps} == {(failing.UNTOLD,)}


def finding(id_: str, layer: Layer) -> Finding:
    return Finding(id=id_, severity=Severity.ERROR, layer=layer, component="gpu", title="It is so.")


@pytest.mark.parametrize("layer", Layer)
def test_every_layer_has_its_step_and_its_reason(layer: Layer) -> None:
    one = finding("new-finding", layer)
    assert failing.step_of(one) in range(1, 6)
    assert failing.why_of(one) == failing.WHY[failing.step_of(one)]


def test_only_findings_that_there_are_have_a_step_of_their_own() -> None:
    assert set(failing.BY_FINDING) <= set(topics.ids())
    assert set(failing.WHY_FINDING) <= set(topics.ids())


@pytest.mark.parametrize("id_", failing.BY_FINDING)
def test_a_finding_with_its_own_step_is_there_for_a_reason(id_: str) -> None:
    """Where the layer says the same, the row is not needed, unless the reason is another."""
    place = next((one.layer for one in places(MATRIX) if one.finding == id_), None)
    if place is not None and id_ not in failing.WHY_FINDING and failing.BY_LAYER[place] == failing.BY_FINDING[id_]:
        pytest.fail(f"{id_}: its layer, {place.value}, leads to step {failing.BY_FINDING[id_]} by itself")
