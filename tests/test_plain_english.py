"""Words that a native engineer would not write, and that must not come back where users read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
READ = sorted(
    [
        *(REPO / "gpustack/report").glob("*.py"),
        *(REPO / "gpustack/cli").glob("*.py"),
        *(REPO / "docs/man").glob("*.1"),
        *(REPO / name for name in ("README.md", "docs/guide.md", "docs/glossary.md", "examples/README.md")),
    ]
)
STIFF = re.compile(
    r"what to type|then check with|could not be seen|may or may not work|\bmend(?:s|ed|ing)?\b|\banew\b|\bin vain\b"
    r"|stopped to answer|in the place of its own|shall be|\bnobody's\b|weighs otherwise|was not looked at",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", READ, ids=lambda path: str(path.relative_to(REPO)))
def test_no_stiff_word_is_read_by_users(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if STIFF.search(line)] == []
