"""Words that a native engineer would not write, and that must not reappear where users read."""

from __future__ import annotations

import re
from pathlib import Path

from tests.counting import each

REPO = Path(__file__).resolve().parents[1]
ROOMS = ("ask", "cli", "diagnose/rules", "explain", "fleet", "library", "plugins", "policy", "report")
PAGES = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "action.yml", "compat-matrix/README.md", "examples/README.md"),
    *("examples/plugin/README.md", "integrations/README.md"),
)
SHOWN = re.compile(r'\b(?:says|role|what|when|advice|meaning) = "([^"]*)"')
READ = sorted(
    [
        *(path for room in ROOMS for path in (REPO / "gpustack" / room).rglob("*.py")),
        *(REPO / "compat-matrix").glob("*.toml"),
        *(REPO / "docs/man").glob("*.1"),
        *(path for path in REPO.glob("docs/*.md") if path.name != "faults.md"),
        *(REPO / "docs/decisions").glob("*.md"),
        *(REPO / "docs/evidence").rglob("README.md"),
        *(REPO / name for name in PAGES),
    ]
)
STIFF = re.compile(
    r"what to type|then check with|could not be (?:seen|looked at)|may or may not work|\bmend(?:s|ed|ing)?\b|\banew\b"
    r"|\bin vain\b|stopped to answer|in the place of|shall be|\bnobody's\b|weighs otherwise|was not looked at"
    r"|\bis no fault\b|\bby word\.|\b(?:are|is) of two releases|\bof another release\b|\bRoot can\b"
    r"|\bbring \w+ up to date|\bpassed over in silence\b|\bto be had\b|\bhave the \w+ exchanged\b|tells of itself"
    r"|\bfor ever\b|\bsomebody\b|\bmostly\b|\bdo(?:es)? not go (?:together|with)\b|\b(?:is|are) wanted\b|\bis told\b"
    r"|(?<!there )\bis no (?:\w+ )?(?:list|number|text|folder|object|report|snapshot|policy|subject|version)\b"
    r"|\bqueue\w*(?: the job)? again\b|\bthe CPU alone\b|\bdecides? it\b|\bdriver of CUDA\b"
    r"|\bin an environment of its own\b|\bwants (?:glibc|cuDNN|lib\w)|\basks for torch\b"
    r"|\bmay not open\b|\bleaves? the GPU alone\b"
    r"|\bbelong together\b|\bis sick\b|\bmade ready\b|\bcut off\b(?! at)|\bheld against\b"
    r"|\banswered (?:healthy|unknown)\b|\ball the same\b|\*\*Stands\.|\bbelongs? into\b|\bnot had\b|\btaken out by\b"
    r"|\bdo(?:es)? not answer any more\b|\bcalled (?:un)?steady\b|\bpassed over:|\bPyTorch here\b|\bA wheel here\b",
    re.IGNORECASE,
)

TWICE = re.compile(r"\b((?!had\b|that\b)[a-z]{2,}(?: [a-z]+){0,3}) \1 ")  # "install the install the"


@each("path", READ, ids=lambda path: str(path.relative_to(REPO)))
def test_no_stiff_word_is_read_by_users(path: Path) -> None:
    text = path.read_text("utf-8")
    lines = SHOWN.findall(text) if path.suffix == ".toml" else text.splitlines()
    assert [line for line in lines if STIFF.search(line)] == []


@each("path", [one for one in READ if one.suffix == ".md"], ids=lambda path: path.name)
def test_nothing_is_written_twice_in_a_row(path: Path) -> None:
    assert [found[0] for found in TWICE.finditer(path.read_text("utf-8"))] == []
