"""The page: how wide it may be, and what may be printed on it at all, and the row of each process on a GPU."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.report.page import TIMES, Page, clean, document
from gpustack.report.summary import entries
from tests.build import seen


@pytest.mark.parametrize(("width", "kept"), [(0, 20), (5, 20), (80, 80), (500, 120)])
def test_a_width_is_kept_within_what_can_be_read(width: int, kept: int) -> None:
    assert Page.of(width, colour=False, ascii=False, verbose=False) == Page(width=kept)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold]text[/] 家", "plain [bold]text[/] 家"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\r\nb\tc", "a  b c"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\x9b\x7f\x00", "\\x9b\\x7f\\x00"),
        ("half \ud800", "half \\ud800"),
        ("no\u00a0break\u2028", "no break\\u2028"),
        ("a\u3164b\u2800\ufe0f", "a\\u3164b\\u2800\\ufe0f"),
    ],
)
def test_what_could_steer_a_terminal_is_written_as_an_escape(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text())
def test_any_text_becomes_printable_and_stays_so(text: str) -> None:
    assert clean(text).isprintable()
    assert clean(clean(text)) == clean(text)
    assert Page(ascii_only=True).show(text).isascii()


def test_ascii_spells_the_signs_that_our_texts_use() -> None:
    assert Page(ascii_only=True).show(f"2 {TIMES} 5 ≥ 9 → “x”… 家") == '2 x 5 >= 9 -> "x"... \\u5bb6'


def test_the_one_script_of_a_page_is_named_by_its_hash_and_everything_else_stays_forbidden() -> None:
    text = document("a", "<pre>nvidia-smi</pre>")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        f"script-src 'sha256-{known}'",
    ]
    assert "pre{" in text
    assert "white-space:pre-wrap" in text


def process(pid: int, **facts: object) -> dict[str, object]:
    rows = ({"gpu": "0000:06:00.0", "used_mib": 3072},)
    return {"key": f"pid {pid}", "pid": pid, "name": "python3", "gpus": rows, "used_mib": 3072, **facts}


def told(*processes: dict[str, object]) -> list[tuple[str, str]]:
    return [(entry.head, ", ".join(entry.notes)) for entry in entries(seen("gpu-processes", *processes))]


def test_a_process_with_what_it_runs() -> None:
    frameworks = ({"name": "pytorch", "version": "2.11.0"}, {"name": "vllm", "version": None})
    one = process(70, command="python3 vllm serve", application="LLM server", frameworks=frameworks)
    assert told(one) == [("gpu-processes python3 vllm serve", "LLM server, pytorch 2.11.0, vllm, 3.0 GiB, pid 70")]


def test_one_of_which_little_is_known() -> None:
    unseen = process(70, name=None, used_mib=None, seen=False, frameworks=None)
    assert told(unseen) == [("gpu-processes not seen from here", "pid 70")]


def test_those_that_hold_a_node_alone_are_one_row() -> None:
    others = [process(pid, gpus=(), used_mib=None, application="custom") for pid in (70, 71, 72)]
    assert told(*others) == [(f"gpu-processes 3 {TIMES} python3", "custom, holds a GPU's device node open")]


def test_garbage_in_the_place_of_facts_is_skipped() -> None:
    assert told({"key": "x", "gpus": 7, "frameworks": ("a", {"version": "1"}), "used_mib": "much"})[0][0].endswith(
        "here"
    )
