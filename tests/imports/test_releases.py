"""Releases of a part of the stack, and what each does: that an older one works is heard, whatever the words are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts, releases
from gpustack.matrix import Matrix
from gpustack.model.report import Confidence, Health

MATRIX = Matrix()


@pytest.mark.parametrize(
    "text",
    [
        "5.15.117 fine, 5.15.118: Xorg never comes up",
        "RX 460: 4.9.0 ok, 4.10.11 and 4.10.12 black screen",
        "kernel 6.8.0-76060800daily -> llvmpipe. boot 6.5.6 and the radeon is back",
        "RTX 2060: the game runs with 466.77. 471.11, 471.41: VK_ERROR_DEVICE_LOST",
        "rocm broken since linux-firmware-amdgpu 20251125, 20251111 still worked",
        "OpenCL fails on 26.6.1. on adrenalin 26.3.1 no crash",
        "resume fails, and with the previous kernel everything works",
        "black screen, worked on the kernel before",
        "insider 20241, with 20176 it worked",
        "since nvidia 465.89 hashcat stops",
        "glitches came with the 545 nvidia drivers",
        "24.6.1 -> the slicer shows nothing\n24.5.1 -> no issue. RX 6600",
        "455.23.04: shaders take twenty minutes. Back to 440.100, usual speed again. driver of nvidia",
        "Arc A770: quits with 5762. With 5534 it starts",
        "31.0.101.5592 crashes at the start, 31.0.101.5084 was the last that ran it",
        "artifacts on linux 6.12, none on 6.6",
        "Citra closes. since AMD 22.7.1",
        "anything past Adrenalin 24.5.1 fails",
        "драйвер 535.54 работает, 550.90 чёрный экран nvidia",
    ],
)
def test_an_older_release_that_works_is_heard(text: str) -> None:
    assert releases.older(text, MATRIX)


@pytest.mark.parametrize(
    "text",
    [
        "kernel 6.5 works, 6.8 works as well",
        "driver 535 crashes, 550.54 is fine",  # the newer one works
        "blender 4.2.1 is fine, 4.3.0 crashes on kernel 6.8",
        "torch 2.4.1 ok, 2.5.0 fails",
        "driver 550.54, 120 fps are fine, 450 W",
        "RTX 3090, CUDA 12.4, kernel 6.8",
        "seems good until I install CUDA 7.5 with driver 352",
        "AMD single GPU passthrough: the VM boots and shuts down now",
        "it hangs with driver 535, older drivers neither",
        "RTX 4090 and 5080 work, the 6900 XT does not",
        "3.2 GB fine, 5.1 GB is not",
        "",
    ],
)
def test_what_tells_of_no_older_release_is_not_heard(text: str) -> None:
    assert releases.older(text, MATRIX) == ""


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert releases.older(text, MATRIX).strip() in text


def test_a_bad_combination_is_the_likeliest_cause_then_and_no_certain_one() -> None:
    said = "580.119.02 + picom = the display blinks. RTX 3060 Ti, debian, nvidia 580.105.08 is fine"
    report = judge(load_texts({"a paste": said.encode()}, MATRIX), MATRIX)
    assert report.candidates[0].id == "known-bad-combination"
    assert report.verdict.status is Health.UNKNOWN
    assert all(one.confidence is not Confidence.CERTAIN for one in report.findings)
