"""Questions as people type them: words without signs, whole sentences, and names that are misspelt."""

from __future__ import annotations

import pytest

from gpustack.ask.words import understood
from tests.ask.questions import MATRIX, command, why


@pytest.mark.parametrize(
    ("typed", "subjects"),
    [
        (("torch", "2.9", "driver", "550"), ("torch==2.9", "driver==550")),
        (("torch", "2.9", "driver", "550", "rtx", "5090"), ("torch==2.9", "driver==550", "rtx 5090")),
        (("does torch 2.9 work with an rtx 3090?",), ("torch==2.9", "rtx 3090")),
        (("torch 2.9", "RTX 4070 Ti SUPER"), ("torch==2.9", "RTX 4070 Ti SUPER")),
        (("cuda", "12.4", "gcc", "14"), ("cuda==12.4", "gcc==14")),
        (("torch >= 2.6",), ("torch >= 2.6",)),
        (("torch==2.9", "RTX 5090"), ("torch==2.9", "RTX 5090")),
        (("jax[cuda12]==0.5.0",), ("jax[cuda12]==0.5.0",)),
    ],
)
def test_words_are_read_as_people_mean_them(typed: tuple[str, ...], subjects: tuple[str, ...]) -> None:
    assert understood(typed, MATRIX).subjects == subjects


def test_a_question_about_my_driver_is_asked_of_this_machine() -> None:
    asked = understood(("vllm for my driver",), MATRIX)
    assert (asked.subjects, asked.here) == (("vllm",), True)
    assert not understood(("torch 2.9 driver 550",), MATRIX).here


def test_words_and_signs_have_one_answer() -> None:
    assert why("torch", "2.9", "driver", "550", "rtx", "5090") == why("torch==2.9", "driver==550", "rtx 5090")


@pytest.mark.parametrize(("typed", "meant"), [("vlm", "vllm"), ("torsh==2.9", "torch"), ("tensrflow", "tensorflow")])
def test_a_misspelt_name_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    done = command("plan", typed, "--driver", "550.54.15")
    assert f"Did you mean {meant}?" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("typed", "subjects", "meant"),
    [
        (("torhc", "2.9", "driver", "550"), ("torhc==2.9", "driver==550"), "torch"),
        (("torch", "2.9", "drivr", "550"), ("torch==2.9", "drivr==550"), "driver"),
        (("does vlm 0.11 run on an h100",), ("vlm==0.11", "h100"), "vllm"),
    ],
)
def test_the_version_behind_a_misspelt_name_is_its_own(
    typed: tuple[str, ...], subjects: tuple[str, ...], meant: str
) -> None:
    """It was taken for a GPU: torhc 2.9 became a GPU of compute capability 2.9."""
    assert understood(typed, MATRIX).subjects == subjects
    assert f"Did you mean {meant}?" in " ".join(one.text for one in why(*typed).reasons)


def test_words_of_which_none_is_known_are_refused() -> None:
    assert command("why", "a b c", "--driver", "550.54.15").returncode == 2
