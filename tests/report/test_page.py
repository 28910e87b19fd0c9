"""The page: how wide it may be, and what may be printed on it at all."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.report.page import TIMES, Page, clean, document


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
