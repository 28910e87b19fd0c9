"""Texts as they were agreed on, under ``tests/report/expected``.

To renew them after a change that is meant, run ``GPUSTACK_RENEW=1 pytest tests/report`` and read the difference in git
like a change of code. Without the variable a text that differs, or that nobody agreed on, fails its test.
"""

from __future__ import annotations

import os
from pathlib import Path

EXPECTED = Path(__file__).parent / "expected"


def compare(name: str, text: str) -> None:
    """Hold the text against the one agreed on, byte by byte."""
    path = EXPECTED / name
    if os.environ.get("GPUSTACK_RENEW"):
        path.write_bytes(text.encode())
    assert path.exists(), f"{path.name} was never agreed on: see the docstring of {__name__}"
    assert text == path.read_bytes().decode()
