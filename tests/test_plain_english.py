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
        *(REPO / "gpustack/explain").glob("*.py"),
        *(REPO / "gpustack/diagnose/rules").glob("*.py"),
        *(REPO / "compat-matrix").glob("messages_*.toml"),
        *(REPO / "docs/man").glob("*.1"),
        *(
            REPO / name
            for name in ("README.md", "docs/guide.md", "docs/glossary.md", "docs/findings.md", "examples/README.md")
        ),
    ]
)
STIFF = re.compile(
    r"what to type|then check with|could not be (?:seen|looked at)|may or may not work|\bmend(?:s|ed|ing)?\b|\banew\b"
    r"|\bin vain\b|stopped to answer|in the place of|shall be|\bnobody's\b|weighs otherwise|was not looked at"
    r"|\bis no fault\b|\bby word\.|\b(?:are|is) of two releases|\bof another release\b|\bRoot can\b"
    r"|\bbring \w+ up to date|\bpassed over in silence\b|\bto be had\b|\bhave the \w+ exchanged\b|tells of itself",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", READ, ids=lambda path: str(path.relative_to(REPO)))
def test_no_stiff_word_is_read_by_users(path: Path) -> None:
    text = path.read_text("utf-8")
    lines = re.findall(r'says = "([^"]*)"', text) if path.suffix == ".toml" else text.splitlines()
    assert [line for line in lines if STIFF.search(line)] == []
