"""Every broken requirement has its finding and every finding of a requirement its edge, on any machine.

test_cases.py checks the same for the report on each case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.diagnose.requirements import versions
from gpustack.diagnose.requirements.records import by_id, pairs, spoken, texts
from gpustack.diagnose.rule import ids
from gpustack.model.report import Contract, Finding, Kept, Purpose, Report, Severity
from tests import drawn
from tests.build import (
    MATRIX,
    PYTHON,
    gpu,
    healthy,
    jax,
    machine,
    merged,
    module,
    on,
    onnxruntime,
    pci,
    python,
    report,
    seen,
    torch,
)
from tests.build import ids as ids_of
from tests.counting import each
from tests.recorded import facts_of
from tests.wide import WIDE, wide
from tools import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts

GRAVE = {Severity.ERROR, Severity.WARNING}
OF_REQUIREMENTS = {*by_id(), *spoken(), *texts()}
BLACKWELL = {"cc": "12.0", "name": "NVIDIA GeForce RTX 5090"}


def refused(release: str = "550.54.15", cuda: int = 12040) -> Facts:
    """Return a machine with a Blackwell GPU on the bus that the driver does not list."""
    return merged(on(release, cuda), seen("pci-display", pci(device="0x2b85")), drop=["gpu"])


def unpaired(made: Report) -> Iterator[Contract | Finding]:
    """Yield each broken requirement without a serious finding, and each serious finding of a requirement without it."""
    grave = {one.key for one in made.findings if one.severity in GRAVE}
    edges = [one for one in made.contracts if one.status is Kept.BROKEN]
    yield from (one for one in edges if one.finding not in grave)
    named = {one.finding for one in edges}
    yield from (one for one in made.findings if one.key in grave and one.id in OF_REQUIREMENTS and one.key not in named)


@each("facts", drawn.known())
def test_no_recorded_machine_has_a_broken_requirement_without_its_finding_or_a_finding_without_it(facts: Facts) -> None:
    assert list(unpaired(report(facts))) == []


@wide
@pytest.mark.parametrize("seed", range(20 if WIDE else 1))
def test_no_drawn_machine_has_a_broken_requirement_without_its_finding_or_a_finding_without_it(seed: int) -> None:
    """On one random draw in CI, on twenty with GPUSTACK_WIDE=1."""
    assert [one for facts in drawn.machines(6, seed) for one in unpaired(report(facts))] == []


def test_without_its_guards_the_property_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = refused()
    assert list(unpaired(report(sick))) == []
    with monkeypatch.context() as patch:
        patch.setattr(versions, "findings", lambda *_: ())
        assert [one.kind for one in unpaired(report(sick)) if isinstance(one, Contract)] == ["branch"]
    said = next(case for case in cases.every() if case.root_cause == "glibc-too-old")
    monkeypatch.setattr(versions, "spoken", lambda *_: ())
    assert [one.id for one in unpaired(report(facts_of(said))) if isinstance(one, Finding)] == ["glibc-too-old"]


def test_a_driver_that_is_older_than_the_gpu_is_an_error_with_the_commands_for_a_newer_one() -> None:
    made = report(refused())
    assert made.verdict.root_causes == ("driver-too-old-for-gpu",)
    (finding,) = (one for one in made.findings if one.id == "driver-too-old-for-gpu")
    assert finding.severity is Severity.ERROR
    assert finding.title == "The GPU requires a driver branch from 570; this machine has branch 550"
    assert finding.row is not None
    assert finding.fix is not None
    assert any("ubuntu-drivers install" in str(one) for one in finding.fix.commands)
    assert "driver-too-old-for-gpu" not in ids_of(refused("580.95.05", 13000))
    assert "driver-too-old-for-gpu" not in ids_of(on("550.54.15", 12040, **BLACKWELL)), (
        "the driver runs it all the same"
    )


@pytest.mark.parametrize(
    ("facts", "finding"),
    [
        (healthy(jax(), python(glibc="2.17")), f"glibc-too-old@jax:{PYTHON}"),
        (
            machine(
                torch("2.8.0", "rocm6.4", None, hip="6.4.43482", accelerator="rocm", archs=["gfx90a"]),
                seen("hip", {"version": "7.0.1", "path": "/x", "environment": PYTHON}),
            ),
            f"requirement-not-met@pytorch:{PYTHON}",
        ),
        (healthy(module(vermagic="6.5.0-9-generic")), None),
        (healthy(seen("dkms", {}), seen("kernel-headers", {"version": "6.5.0"})), None),
    ],
)
def test_a_requirement_that_no_rule_mentions_is_reported_unless_it_does_no_harm(
    facts: Facts, finding: str | None
) -> None:
    made = report(facts)
    grave = [one for one in made.findings if one.severity in GRAVE and one.id in {*spoken(), *texts()}]
    assert [one.key for one in grave] == ([finding] if finding else [])
    assert list(unpaired(made)) == []


@pytest.mark.parametrize(
    ("to", "needs", "found", "title"),
    [
        (
            "gpu",
            "code for sm_61",
            "code for sm_70",
            "has no code for the Tesla P4 (sm_61): it has code for sm_70",
        ),
        ("gpu", "code for sm_35", "code for sm_70", "has no code for the GPU (sm_35): it has code for sm_70"),
        ("nccl", "no nccl 2.27", "nccl 2.27.3: it hangs", "does not work with nccl 2.27.3: it hangs"),
        ("cudnn", "cuDNN 9", "cuDNN 8.9.7", "requires cuDNN 9; this machine has cuDNN 8.9.7"),
    ],
)
def test_a_title_names_what_is_wrong_in_plain_words(to: str, needs: str, found: str, title: str) -> None:
    facts = healthy(seen("onnxruntime", {"version": "1.20.0", "distributions": {"onnxruntime-gpu": "1.20.0"}}))
    facts = merged(facts, seen("gpu", gpu("Tesla P4", "6.1")))
    contract = Contract(from_="onnxruntime", to=to, kind="x", needs=needs, found=found, status=Kept.BROKEN)
    (made,) = versions.findings((contract,), (), facts, MATRIX, Purpose.ANY)
    assert made.title == f"onnxruntime-gpu 1.20.0 {title}"


def test_a_toolkit_that_cannot_compile_for_the_gpu_is_a_warning_only_for_users_who_build() -> None:
    toolkit = seen("cuda-toolkit", {"key": "/usr/local/cuda", "version": "12.4", "in_use": True})
    facts = on("580.95.05", 13000, toolkit, **BLACKWELL)
    assert report(facts).verdict.root_causes == ()
    built = judge(facts, MATRIX, Purpose.BUILD)
    assert built.verdict.root_causes == ("toolkit-too-old-for-arch",)
    assert list(unpaired(built)) == []


def test_what_a_rule_says_already_is_said_once() -> None:
    old = on("470.256.02", 11040, torch(), onnxruntime("cuda"), jax())
    made = report(old)
    keys = [one.key for one in made.findings]
    assert len(set(keys)) == len(keys)
    assert {one.finding for one in made.contracts if one.kind == "cuda" and one.status is Kept.BROKEN} <= set(keys)


def test_every_record_is_of_a_finding_that_is_known() -> None:
    assert {how.finding for how in pairs().values()} | set(spoken()) <= set(ids())
