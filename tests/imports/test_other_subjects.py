"""Texts about other software, other hardware and the world: no GPU is blamed in them, and none is called healthy.

``other_subjects.txt`` has some two hundred, divided by lines of ``---``. They were written to deceive, with drivers,
modules, cards, heat and memory of other things; nothing learnt from them, and no row was written for one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.model.report import Health, Report
from tests.schema import MATRIX

TEXTS = Path(__file__).with_name("other_subjects.txt").read_text("utf-8").strip().split("\n---\n")
# What any machine may have: a fault that a program printed, whatever it was about.
OF_ANY_MACHINE = {
    "glibc-too-old",
    "libstdcxx-too-old",
    "numpy-abi-mismatch",
    "dkms-headers-missing",
    "dkms-build-failed",
}
LEAST_SILENT = 0.8  # of them; measured: 167 of 199


@cache
def told(text: str) -> Report:
    return judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX)


def test_no_gpu_is_blamed_or_called_healthy() -> None:
    reports = {text: told(text) for text in TEXTS}
    assert len(reports) == len(TEXTS) > 190
    assert [text for text, report in reports.items() if report.verdict.status in {Health.HEALTHY, Health.NO_GPU}] == []
    blamed = {text: {*report.verdict.root_causes} - OF_ANY_MACHINE for text, report in reports.items()}
    assert {text: causes for text, causes in blamed.items() if causes} == {}


def test_most_get_no_likely_cause_either() -> None:
    assert sum(told(text).candidates == () for text in TEXTS) >= LEAST_SILENT * len(TEXTS)


@pytest.mark.parametrize(
    "text",
    [
        "my sd card disappears from the raspberry pi whenever it is warm in the room",
        "car scanner shows P0217 Engine Over Temperature Condition, coolant is full. Drive on?",
        "CPU3: Core temperature above threshold, cpu clock throttled (total events = 2211)",
        "VBoxManage: error: The vboxdrv kernel module is not loaded.",
        "I think my PSU is dying, machine shuts off whenever I start the vacuum cleaner on the same outlet",
        "teams uses 3 GB of memory for a chat",
        "java.lang.OutOfMemoryError: Java heap space",
        "ERROR:  out of shared memory\nHINT:  You might need to increase max_locks_per_transaction.",
        "pacman -Syu\npython-idna: /usr/lib/python3.11/site-packages/idna exists in filesystem",
    ],
)
def test_what_was_once_taken_for_a_fault_of_a_gpu_or_for_a_gpu_at_work_is_neither(text: str) -> None:
    report = told(text)
    assert report.verdict.root_causes == ()
    assert report.verdict.status is Health.UNKNOWN


def test_the_same_words_beside_a_gpu_are_of_it() -> None:
    said = "I think my PSU is dying, machine shuts off whenever I start the vacuum cleaner on the same outlet"
    texts = {"a": said.encode(), "b": b"GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)"}
    assert judge(load_texts(texts, MATRIX), MATRIX).verdict.root_causes == ("host-hardware-fault",)
