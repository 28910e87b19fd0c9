"""Replacement text is inserted literally: a backslash in it is not an escape of a regular expression."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import pytest

from gpustack.diagnose.environments import inside
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

REPO = Path(__file__).resolve().parent.parent
FILES = [path for folder in ("gpustack", "probes", "microbench") for path in sorted((REPO / folder).rglob("*.py"))]
REPLACES = ("sub", "subn")


def unsafe(source: str) -> list[int]:
    """Return the lines on which an expression replaces something by a text that is not written there.

    A replacement is a literal, a lambda or a function of the same file. An expression's method that is passed on
    without being called must be given a lambda at once: ``partial(pattern.sub, lambda match: …)``.
    """
    tree = ast.parse(source)
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    safe: set[ast.AST] = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        named, given = call.func, call.args
        if isinstance(named, ast.Name) and named.id == "partial" and given:
            named, given = given[0], given[1:]
        if isinstance(named, ast.Attribute):
            first = given[1:2] if isinstance(named.value, ast.Name) and named.value.id == "re" else given[:1]
            literal = [isinstance(one, ast.Lambda | ast.Constant) for one in first]
            known = [isinstance(one, ast.Name) and one.id in functions for one in first]
            safe |= {named} if any((*literal, *known)) else set()
    used = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return [node.lineno for node in used if node.attr in REPLACES and node not in safe]


def test_every_replacement_is_a_literal_or_a_function() -> None:
    texts = {path: path.read_text("utf-8") for path in FILES}
    named = {path: text for path, text in texts.items() if ".sub" in text}
    assert {str(path.relative_to(REPO)): lines for path, text in named.items() if (lines := unsafe(text))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import re\nre.sub('a', path, text)",
        "PATTERN.sub(f'{path}', text)",
        "PATTERN.subn(path, text)",
        "own = partial(re.compile('a').sub, quote(path))",
        "own = PATTERN.sub",
    ],
)
def test_what_the_rule_is_for_is_seen(line: str) -> None:
    assert unsafe(line)


@pytest.mark.parametrize("line", ["re.sub('a', r'\\1', text)", "A.sub(lambda match: path, text)", "'a'.replace(b, c)"])
def test_what_is_harmless_passes(line: str) -> None:
    assert unsafe(line) == []


@pytest.mark.parametrize("python", [r"/srv/a\q/bin/python", r"/srv/\1/\g/bin/python", "/srv/plain/bin/python"])
def test_a_command_for_another_python_names_it_as_it_is(python: str) -> None:
    fix = Fix(
        text="Install it.",
        commands=(sh("python -m pip install torch"), sh("nvidia-smi")),
        verify=sh("python -c 'import torch'"),
    )
    finding = Finding(
        id="cpu-only-build",
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="pytorch",
        title="PyTorch was built without CUDA",
        fix=fix,
    )
    seen = inside(finding, python).fix
    assert seen is not None
    assert seen.commands == (f"{shlex.quote(python)} -m pip install torch", "nvidia-smi")
    assert seen.verify == f"{shlex.quote(python)} -c 'import torch'"
