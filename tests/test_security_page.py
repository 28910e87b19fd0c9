"""What SECURITY.md promises: each promise names tests that exist, and what no other test checks is checked here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
PAGE = (REPO / "SECURITY.md").read_text("utf-8")
PROMISES = re.findall(r"^- (.*?)(?=\n- |\n\n|\Z)", PAGE, re.DOTALL | re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
SHIPPED = [path for folder in ("gpustack", "probes", "microbench") for path in sorted((REPO / folder).rglob("*.py"))]
CONNECTING = {"socket", "ssl", "http.client", "http.server", "urllib.request", "ftplib", "smtplib", "socketserver"}
CONNECTING |= {"requests", "urllib3", "httpx", "aiohttp", "xmlrpc.client"}
IMPORTERS = ("import_module", "__import__")
SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "create_subprocess_shell"}


def held_by(path: Path) -> set[str]:
    """Return the names of the tests of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")}


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text.split("**")[1].lower().replace(" ", "-")[:40])
def test_every_promise_names_tests_that_exist(promise: str) -> None:
    named = TEST.findall(promise.partition("Held by:")[2])
    assert named, "a promise that no test holds"
    for file, test in named:
        names = held_by(REPO / file)
        assert names, file
        assert not test or test in names, f"{file}::{test}"


def test_the_page_has_its_promises_and_names_no_file_that_is_gone() -> None:
    assert len(PROMISES) >= 13
    paths = re.findall(r"`((?:docs|benchmarks|gpustack|tests)/[\w/.-]+|constraints\.txt)(?:::\w+)?`", PAGE)
    assert paths
    assert [path for path in paths if not (REPO / path).exists()] == []


def name_of(node: ast.expr) -> str:
    """Return the name of what is called, with its module."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Call) and name_of(node.func).endswith(IMPORTERS):
            yield from (str(one.value) for one in node.args if isinstance(one, ast.Constant))


def shells(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = name_of(node.func)
            if name in SHELLS or name.rpartition(".")[2] in SHELLS:
                yield name
            yield from (name for one in node.keywords if one.arg == "shell" and ast.unparse(one.value) != "False")


def test_nothing_else_of_ours_opens_a_connection() -> None:
    """One module fetches the file that `matrix update --from https://...` names."""
    found = {(path.name, one) for path in SHIPPED for one in imported(ast.parse(path.read_text("utf-8")))}
    assert len(found) > 500
    assert {path for path, one in found if one in CONNECTING} == {"fetching.py"}


def test_nothing_is_started_through_a_shell() -> None:
    found = {(path.name, one) for path in SHIPPED for one in shells(ast.parse(path.read_text("utf-8")))}
    assert found == set()


@pytest.mark.parametrize(
    "line", ["import socket", "from urllib import request", "import urllib.request", "import_module('http.client')"]
)
def test_a_connection_would_be_seen(line: str) -> None:
    assert CONNECTING & set(imported(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["os.system('true')", "subprocess.run(x, shell=True)", "run(x, shell=y)", "subprocess.getoutput('true')"]
)
def test_a_shell_would_be_seen(line: str) -> None:
    assert list(shells(ast.parse(line)))
