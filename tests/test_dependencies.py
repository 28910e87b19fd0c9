"""What is installed and run with us: bounded above, held to tested versions, and no tag that others may move."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.counting import each

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPO = Path(__file__).resolve().parent.parent
WHOLE = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))
EXTRAS = WHOLE["project"]["optional-dependencies"]
SHIPPED = (*WHOLE["project"]["dependencies"], *EXTRAS["bench"], *EXTRAS["mcp"], *WHOLE["build-system"]["requires"])
CONSTRAINTS = (REPO / "constraints.txt").read_text("utf-8").splitlines()
PINS = [Requirement(line) for line in CONSTRAINTS if not line.startswith("#")]
ACTIONS = [
    path
    for folder in (".github", "action.yml", "integrations", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md")
    for path in (sorted((REPO / folder).rglob("*")) if (REPO / folder).is_dir() else [REPO / folder])
    if path.suffix in {".yml", ".yaml", ".md"}
]


@pytest.mark.parametrize("text", SHIPPED)
def test_every_dependency_has_an_upper_bound(text: str) -> None:
    operators = {one.operator for one in Requirement(text).specifier}
    assert operators & {"<", "<=", "==", "~="}, text
    assert operators & {">=", "==", "~="}, text


def test_the_decision_says_each_bound() -> None:
    told = (REPO / "docs/decisions/0003-dependencies.md").read_text("utf-8")
    for text in (*WHOLE["project"]["dependencies"], *EXTRAS["bench"], *EXTRAS["mcp"]):
        needs = Requirement(text)
        lower, upper = (next(one.version for one in needs.specifier if one.operator == sign) for sign in (">=", "<"))
        assert f"{needs.name} ≥ {lower}, < {upper}" in told, text


def test_the_constraints_are_names_and_versions_alone() -> None:
    version = r"[\w.!+-]+"
    row = re.compile(rf"[a-z0-9-]+=={version}( ; [\w.<>=!'* ()]+)?")
    assert len(PINS) > 50
    assert [line for line in CONSTRAINTS if not (line.startswith("#") or row.fullmatch(line))] == []
    assert not any(re.search(r"://|@|--", line) for line in CONSTRAINTS)


def test_the_constraints_cover_what_is_asked_for_and_keep_to_it() -> None:
    pinned = defaultdict(list)
    for pin in PINS:
        (one,) = pin.specifier
        pinned[pin.name].append(one.version)
    for text in (*WHOLE["project"]["dependencies"], *(one for extra in EXTRAS.values() for one in extra)):
        needs = Requirement(text)
        versions = pinned[canonicalize_name(needs.name)]
        assert versions, f"{needs.name} is not in constraints.txt: nox -s constraints writes it"
        assert all(needs.specifier.contains(one) for one in versions), f"{text} against {versions}"


def test_ci_installs_what_was_tested() -> None:
    for path in (".ci/run", ".github/workflows/ci.yml", "README.md"):
        installs = [line for line in (REPO / path).read_text("utf-8").splitlines() if "pip install -" in line]
        developers = [line for line in installs if "dev]" in line]
        assert developers, path
        assert all("-c constraints.txt" in line for line in developers), path


@each("path", ACTIONS, ids=lambda path: str(path.relative_to(REPO)))
def test_actions_of_others_are_named_by_their_hash(path: Path) -> None:
    for action in re.findall(r"^\s*(?:- )?uses: *(\S+.*)$", path.read_text("utf-8"), re.MULTILINE):
        ours = action.startswith(("./", "OWNER/REPOSITORY@"))
        assert ours or re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_an_action_is_asked_for() -> None:
    assert "uses: actions/" in (REPO / ".github/workflows/ci.yml").read_text("utf-8")
