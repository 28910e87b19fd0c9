"""Questions as people type them: words without punctuation, whole sentences, and misspelt names."""

from __future__ import annotations

import pytest

from gpustack.ask.words import Asked, understood
from gpustack.model.matrix_answer import Compatibility
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
        (("torch=2.6",), ("torch=2.6",)),
        (("torch==2.9", "RTX 5090"), ("torch==2.9", "RTX 5090")),
        (("jax[cuda12]==0.5.0",), ("jax[cuda12]==0.5.0",)),
    ],
)
def test_words_are_read_as_people_mean_them(typed: tuple[str, ...], subjects: tuple[str, ...]) -> None:
    assert understood(typed, MATRIX).subjects == subjects


@pytest.mark.parametrize(
    ("typed", "subjects"),
    [
        ("pytorch with mi300x", ("pytorch", "mi300x")),
        ("Arc A770 pytorch 2.7", ("pytorch==2.7", "Arc A770")),
        ("torch on an intel arc b580", ("torch", "arc b580")),
        ("RTX 4090 laptop torch 2.5 driver 535", ("torch==2.5", "driver==535", "RTX 4090")),
        ("gfx1031 torch 2.9", ("torch==2.9", "gfx1031")),
        ("torch for rx 6700 xt", ("torch", "rx 6700 xt")),
        ("radeon 7900 xtx rocm 6.3", ("rocm==6.3", "radeon 7900 xtx")),
        ("python 3.13 torch 2.4", ("torch==2.4", "python==3.13")),
        ("flash attention on a v100", ("flash-attention", "v100")),
        ("transformer engine h100 torch 2.7", ("transformer-engine", "torch==2.7", "h100")),
        ("tensor rt 10.3 on gtx 1080", ("tensorrt==10.3", "gtx 1080")),
        ("is gcc 14 ok for cuda 12.4?", ("cuda==12.4", "gcc==14")),
        ("rtx5090 torch2.6", ("torch==2.6", "rtx5090")),
        ("5090 pytorch 2.6", ("pytorch==2.6", "5090")),
        ("pytorch/2.9 driver 550", ("pytorch==2.9", "driver==550")),
        ("torch 2.6+ with driver 550", ("torch>=2.6", "driver==550")),
        ("torch >= 2.6 for driver 550", ("torch>=2.6", "driver==550")),
        ("8x h100 80gb vllm 0.11", ("vllm==0.11", "h100")),
        ("nvidia driver 570 kernel 6.14", ("nvidia-driver==570", "kernel==6.14")),
        ("nvidia 570 on linux 6.14.0-29-generic", ("driver==570", "kernel==6.14.0")),
        ("mi250x torch 2.9.0+rocm6.4", ("torch==2.9.0+rocm6.4", "mi250x")),
        ("strix halo pytorch", ("pytorch", "strix halo")),
        ("can gtx 1650 run driver 580", ("driver==580", "gtx 1650")),
        ("vllm on a 4090 with driver 535", ("vllm", "driver==535", "4090")),
        ("torch cuda 12.2", ("torch", "cuda==12.2")),
        ("torch cu118 rtx 5090", ("torch==2.7.1+cu118", "rtx 5090")),
        ("torch 2.9 cu128 driver 535", ("torch==2.9+cu128", "driver==535")),
        ("pytorch rocm6.4 rx 7900 xtx", ("torch==2.9.1+rocm6.4", "rx 7900 xtx")),
        ("jax cuda12 driver 510", ("jax[cuda12]", "driver==510")),
        ("cu124 gcc 14", ("cuda==12.4", "gcc==14")),
        ("sglang h200 595.45.04", ("sglang", "driver==595.45.04", "h200")),
    ],
)
def test_a_question_in_any_order_names_what_is_asked_about_first(typed: str, subjects: tuple[str, ...]) -> None:
    """A GPU's name swallowed the words after it, and naming the Python or the GPU first got a plan for that alone."""
    assert understood((typed,), MATRIX) == Asked(subjects=subjects)
    assert understood(tuple(typed.split()), MATRIX).subjects == subjects


@pytest.mark.parametrize(
    ("typed", "system", "machine"),
    [
        ("tensorflow gpu windows", "windows", None),
        ("torch 2.9 in wsl2", "wsl", None),
        ("torch 2.13 driver 535 on ubuntu 22.04", "ubuntu-22.04", None),
        ("torch 2.13 driver 535 amazon linux 2023 a100", "amazon-linux-2023", None),
        ("torch 2.9 on arm64", None, "aarch64"),
    ],
)
def test_a_system_or_a_processor_among_the_words_is_given(typed: str, system: str | None, machine: str | None) -> None:
    asked = understood((typed,), MATRIX)
    assert (asked.os, asked.machine, asked.strange) == (system, machine, ())


@pytest.mark.parametrize(
    ("typed", "strange", "known"),
    [
        ("can I run llama 70b on an H100", "llama 70b", "H100"),
        ("stable diffusion torch", "stable diffusion", "torch"),
        ("a100 mig vllm", "mig", "vllm"),
    ],
)
def test_what_is_not_known_is_said_once_and_never_called_fine(typed: str, strange: str, known: str) -> None:
    answer = why(typed)
    assert answer.subject == known
    assert answer.verdict is Compatibility.UNKNOWN
    assert answer.reasons[0].text.startswith(f"Nothing is known about {strange!r}")


def test_a_named_distribution_has_its_own_commands_alone() -> None:
    done = command("why", "torch 2.9 driver 550 rtx 5090 on rocky 9")
    assert "sudo dnf module enable nvidia-driver:580-open" in done.stdout
    assert "apt-get" not in done.stdout
    assert command("why", "torch==2.9", "--driver", "550", "--os", "ubunto").returncode == 2


def test_an_intel_gpu_gets_the_build_for_xpu() -> None:
    answer = why("torch==2.7.0", gpu="Arc A770")
    assert answer.verdict is Compatibility.INCOMPATIBLE
    assert answer.alternatives[0].subject == "torch==2.7.0+xpu"
    assert why("torch==2.7.0+xpu", gpu="Arc A770").verdict is Compatibility.COMPATIBLE


def test_a_rocm_is_judged_with_a_gpu_that_is_named() -> None:
    assert why("radeon 7900 xtx rocm 6.3").verdict is Compatibility.COMPATIBLE
    assert why("mi50 rocm 7.2").verdict is Compatibility.UNKNOWN


def test_a_question_about_my_driver_is_answered_for_this_machine() -> None:
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


def test_unknown_words_are_refused() -> None:
    assert command("why", "a b c", "--driver", "550.54.15").returncode == 2
