"""What would satisfy a requirement: the smallest change first, and each suggestion works when asked about."""

from __future__ import annotations

import pytest

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.model.matrix_answer import Change, Compatibility
from tests.ask.questions import MATRIX, plan, why, written

QUESTIONS = [
    ("torch>=2.6", {"driver": "550.54.15", "gpu": "sm_90", "python": "3.12"}),
    ("torch==2.11.0", {"driver": "535.183.01", "gpu": "H100"}),
    ("torch==2.11.0", {"gpu": "sm_61", "driver": "570.124.06"}),
    ("torch==2.7.1", {"gpu": "gfx1100"}),
    ("jax==0.9.0", {"driver": "470.256.02"}),
    ("tensorflow==2.17.0", {"os": "windows", "gpu": "RTX 4090", "driver": "551.61"}),
    ("onnxruntime-gpu==1.20.1", {"cudnn": "8"}),
    ("cuda-toolkit==12.4", {"gcc": "14"}),
    ("nvidia-driver==590.44.01", {"gpu": "sm_61"}),
    ("vllm==0.20.2", {"driver": "550.54.15", "gpu": "A100"}),
]


@pytest.mark.parametrize(("subject", "given"), QUESTIONS, ids=str)
def test_changes_come_in_their_order_and_each_has_its_commands(subject: str, given: dict[str, str]) -> None:
    answer = plan(subject, **given)
    written(answer, "matrix")
    assert answer.alternatives
    order = [list(Change).index(one.kind) for one in answer.alternatives]
    assert order == sorted(order)
    assert all(one.commands for one in answer.alternatives if one.kind is not Change.GPU)


@pytest.mark.parametrize(("subject", "given"), QUESTIONS, ids=str)
def test_what_is_offered_works_when_it_is_asked_about(subject: str, given: dict[str, str]) -> None:
    for one in plan(subject, **given).alternatives:
        itself = one.kind in {Change.NONE, Change.WHEEL, Change.VERSION} or one.subject.startswith("nvidia-driver==")
        if itself and "*" not in one.subject:
            again = why(one.subject, **given)
        elif one.kind is Change.DRIVER:
            again = why(subject, **{**given, "driver": one.subject.partition(">=")[2]})
        elif one.kind is Change.GPU:
            again = why(subject, **{**given, "gpu": one.subject})
        else:
            continue
        assert again.verdict is one.verdict, one


def test_what_works_as_it_is_needs_nothing() -> None:
    answer = plan("torch==2.11.0", driver="580.65.06", gpu="sm_90")
    assert [one.kind for one in answer.alternatives] == [Change.NONE]
    assert answer.alternatives[0].subject == "torch==2.11.0+cu130"


def test_a_range_stays_a_range() -> None:
    found = [
        one.subject for one in plan("torch>=2.6,<2.9", driver="550.54.15").alternatives if one.kind is Change.VERSION
    ]
    assert found
    assert all(subject.startswith(("torch==2.6", "torch==2.7", "torch==2.8")) for subject in found)


def test_the_nearest_release_is_offered_for_one_that_was_named() -> None:
    found = [one.subject for one in plan("cuda-toolkit==12.4", gcc="14").alternatives]
    assert found[:2] == ["gcc==13", "cuda-toolkit==12.8.0"]


def test_a_release_without_a_row_is_not_offered() -> None:
    """VLLM 0.1.7 has no row on GPUs: a lack of evidence against it does not make it a suggestion."""
    answer = plan("vllm==0.9.2", driver="550.54.15", gpu="sm_61")
    assert not [one for one in answer.alternatives if one.kind is Change.VERSION]


def test_a_native_build_of_another_release_follows_those_with_limits() -> None:
    answer = answering.why(["torch==2.11.0"], Given(driver="550.54.15", gpu="sm_90"), None, MATRIX)
    versions = [(one.subject, one.verdict) for one in answer.alternatives if one.kind is Change.VERSION]
    assert [verdict for _, verdict in versions] == [Compatibility.LIMITED, Compatibility.COMPATIBLE]
    assert versions[1][0].startswith("torch==2.6.0")
