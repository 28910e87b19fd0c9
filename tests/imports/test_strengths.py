"""How facts in texts were learnt: printed, implied by a message or stated. The stronger wins; conflicts are shown."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.model.facts import Facts, Status, Strength
from gpustack.model.report import Kept, Severity
from gpustack.model.writing import plain, render
from gpustack.report.summary import reasons
from gpustack.snapshots import read as reread
from tests.build import MATRIX, driver, healthy, merged, nvml, on, report, seen, torch
from tests.imports.reading import copies, read

if TYPE_CHECKING:
    from gpustack.model.report import Because, Finding

SMI = "| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |\n"
MISMATCH = (
    "NVRM: API mismatch: the client has the version 550.54.15, but\nNVRM: this kernel module has the version 545.23.08."
)
BUILD = "torch==2.9.0+cu130\n"


def strength(facts: Facts, component: str, name: str) -> Strength | None:
    first = next(iter(copies(facts, component).values()))
    return first.strengths.get(name)


def ground(finding: Finding, component: str) -> Because:
    return next(one for one in finding.because if one.component == component)


@pytest.mark.parametrize(
    ("text", "component", "name", "how"),
    [
        (SMI, "nvidia-driver", "version", Strength.PRINTED),
        (SMI, "nvml", "cuda_version", Strength.PRINTED),
        (MISMATCH, "nvidia.ko", "version_loaded", Strength.MESSAGE),
        ("fabric manager version 535.129.03 is what we have", "nvidia-fabricmanager", "version", Strength.STATED),
        ("I have an RTX 4090 with driver 535.129.03 and it does not work", "nvidia-driver", "version", Strength.STATED),
        (BUILD, "packages", "distributions", Strength.PRINTED),
    ],
)
def test_a_fact_of_a_text_says_how_it_was_learnt(text: str, component: str, name: str, how: Strength) -> None:
    assert strength(read(text), component, name) is how


def test_what_a_tool_prints_is_taken_before_what_a_message_implies_in_whatever_order_they_come() -> None:
    for texts in ((MISMATCH, SMI), (SMI, MISMATCH)):
        facts = read(*texts)
        assert copies(facts, "nvidia-driver")["nvidia-driver"].version == "535.129.03"
        (told,) = (one for one in facts.not_seen if one.what == "nvidia-driver version")
        assert "has 550.54.15 (message)" in told.why
        assert "has 535.129.03 (printed), which is stronger evidence and is used" in told.why


def test_what_agrees_is_not_a_conflict_and_neither_is_what_people_say_of_other_drivers() -> None:
    same = MISMATCH.replace("550.54.15", "535.129.03")
    assert read(SMI, same).not_seen == ()
    assert read(SMI, "before the update I had driver 470.86 and it worked").not_seen == ()


def given(facts: Facts, **texts: str) -> Facts:
    snapshot = {"snapshot.json": render(facts).encode()}
    return load_texts({**snapshot, **{f"{name}.txt": text.encode() for name, text in texts.items()}}, MATRIX)


def test_what_was_measured_is_taken_before_what_was_pasted_and_the_conflict_is_reported() -> None:
    facts = given(on("580.95.05", 13000), smi=SMI)
    assert facts.find("nvidia-driver") == on("580.95.05", 13000).find("nvidia-driver")
    told = {one.what: one.why for one in facts.not_seen}
    assert told["nvidia-driver version"] == (
        "smi.txt has 535.129.03 (printed); the snapshot has 580.95.05 (measured), "
        "which is stronger evidence and is used"
    )
    assert [one.id for one in report(facts).findings] == [one.id for one in report(on("580.95.05", 13000)).findings]


def test_what_the_snapshot_agrees_with_or_could_not_see_is_not_a_conflict() -> None:
    assert given(on("535.129.03", 12020), smi=SMI).not_seen == ()
    blind = merged(
        healthy(), replace(nvml(), status=Status.UNKNOWN, instances=(), reason="no time"), driver("535.129.03")
    )
    facts = given(blind, smi=SMI)
    assert facts.not_seen == ()
    assert strength(facts, "nvml", "cuda_version") is Strength.PRINTED


def test_what_the_snapshot_looked_for_and_did_not_find_is_a_conflict() -> None:
    facts = given(merged(healthy(), seen("vllm")), list="vllm==0.11.0\n")
    assert "list.txt has 0.11.0 (printed); the snapshot has none (measured)" in facts.not_seen[0].why


def test_each_ground_of_a_finding_says_how_it_was_learnt() -> None:
    live = report(on("535.129.03", 12020, torch())).findings
    pasted = report(read(SMI + BUILD)).findings
    spoken = report(read("PyTorch 2.9.0+cu130 says CUDA is not available, I have driver 535.129.03")).findings
    for findings, how in ((live, Strength.MEASURED), (pasted, Strength.PRINTED), (spoken, Strength.STATED)):
        finding = next(one for one in findings if one.id == "driver-too-old-for-cuda-build")
        assert ground(finding, "pytorch").strength is how
    said = report(read(MISMATCH)).findings[0]
    assert ground(said, "message").strength is Strength.MESSAGE


def test_the_report_has_the_strength_and_a_text_shows_it_only_where_it_is_asked_for_and_weaker() -> None:
    finding = next(one for one in report(read(SMI + BUILD)).findings if one.because)
    assert json.loads(render(report(read(SMI + BUILD))))["findings"][0]["because"][0]["strength"] == "printed"
    assert all(line.endswith("(printed)") for line in list(reasons(finding, strengths=True))[: len(finding.because)])
    assert not any("(printed)" in line for line in reasons(finding))
    live = next(one for one in report(on("470.86", 11040, torch())).findings if one.because)
    assert list(reasons(live, strengths=True)) == list(reasons(live))


def test_a_snapshot_keeps_how_its_facts_were_learnt() -> None:
    facts = replace(read(SMI + MISMATCH), taken="2026-11-22T10:00:00+00:00")
    again = reread(render(facts))
    assert again == facts
    assert plain(again) == plain(facts)


CUDNN = (
    "torch==2.9.0+cu128\nRuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 10, 2)"
    " but found runtime version (8, 9, 7)\n"
)


@pytest.mark.parametrize(
    ("text", "component", "held"),
    [
        (CUDNN, "pytorch", {"cudnn": "9.10.2"}),
        (CUDNN, "cudnn", {"version": "8.9.7"}),
        ("AssertionError: Torch not compiled with CUDA enabled", "pytorch", {"accelerator": "cpu"}),
        ("AssertionError: Torch not compiled with XPU enabled", "pytorch", None),
        (
            "ImportError: /v/lib/python3.11/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E",
            "torch-extensions",
            {"path": "/v/lib/python3.11/site-packages/flash_attn_2_cuda.so", "missing": ("_ZN3c105ErrorC2E",)},
        ),
        (
            "The detected CUDA version (12.6) mismatches the version that was used to compile PyTorch (11.8).",
            "cuda-toolkit",
            {"version": "12.6", "in_use": True},
        ),
        (
            "The detected CUDA version (12.6) mismatches the version that was used to compile PyTorch (11.8).",
            "pytorch",
            {"cuda": "11.8", "accelerator": "cuda"},
        ),
        ("Failed to initialize NVML: Driver/library version mismatch", "nvml", {"code": 18}),
    ],
)
def test_a_message_is_a_fact_of_the_machine(text: str, component: str, held: dict[str, object] | None) -> None:
    found = read(text).find(component)
    if held is None:
        assert found is None
        return
    assert found is not None
    copy = found.instances[0]
    named = {"version": copy.version, "path": copy.path, **copy.facts}
    assert {name: named.get(name) for name in held} == held
    assert {copy.strengths[name] for name in held} == {Strength.MESSAGE}


def test_a_pasted_line_breaks_the_requirement_that_a_machine_breaks_and_is_its_finding() -> None:
    judged = judge(read(CUDNN), MATRIX)
    (edge,) = (one for one in judged.contracts if (one.from_, one.to) == ("pytorch", "cudnn"))
    assert (edge.needs, edge.found, edge.status) == ("cuDNN >=9.10,<10", "cuDNN 8.9.7", Kept.BROKEN)
    assert edge.finding in {one.key for one in judged.findings}
    newer = judge(read(CUDNN.replace("(8, 9, 7)", "(9, 11, 0)")), MATRIX)
    assert Kept.BROKEN not in {one.status for one in newer.contracts if one.to == "cudnn"}


def test_a_build_that_complains_of_itself_is_the_finding_of_a_build_that_was_probed() -> None:
    said = "NVIDIA GeForce RTX 4090\nTorch not compiled with CUDA enabled\n"
    (finding,) = judge(read(said, SMI), MATRIX).findings
    assert (finding.id, finding.instance, finding.severity) == ("cpu-only-build", "pytorch", Severity.ERROR)
    assert ground(finding, "message").value == "Torch not compiled with CUDA enabled"
