"""Approved texts, under ``tests/report/expected``.

To renew them after an intended change, run ``GPUSTACK_RENEW=1 pytest tests/report`` and review the difference in git
like a code change. Without the variable a text that differs, or that was never approved, fails its test.
"""

from __future__ import annotations

import os
from pathlib import Path

EXPECTED = Path(__file__).parent / "expected"


def compare(name: str, text: str) -> None:
    """Compare the text with the approved one, byte by byte."""
    path = EXPECTED / name
    if os.environ.get("GPUSTACK_RENEW"):
        path.write_bytes(text.encode())
    assert path.exists(), f"{path.name} was never agreed on: see the docstring of {__name__}"
    assert text == path.read_bytes().decode()
