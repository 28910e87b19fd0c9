"""Ask the shipped matrix questions the way tests do: subjects and flags in, the answer out."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema

from gpustack import assets
from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.matrix import Matrix
from gpustack.model.writing import render
from tests import warm

if TYPE_CHECKING:
    import subprocess

    from gpustack.ask.why import Judged
    from gpustack.model.matrix_answer import MatrixAnswer

MATRIX = Matrix()
REPO = Path(__file__).resolve().parent.parent.parent


@cache
def judged(*subjects: str, **given: str) -> Judged:
    """Return the verdict and its reasons, without the search for what would work instead."""
    return answering.search(subjects, Given(**given), None, MATRIX, versions=1).at


@cache
def why(*subjects: str, **given: str) -> MatrixAnswer:
    """Return the answer to ``matrix why``."""
    return answering.why(subjects, Given(**given), None, MATRIX)


@cache
def plan(*subjects: str, **given: str) -> MatrixAnswer:
    """Return the answer to ``matrix plan``."""
    return answering.plan(subjects, Given(**given), None, MATRIX)


def verdict(*subjects: str, **given: str) -> str:
    """Return the verdict alone."""
    return judged(*subjects, **given).verdict.value


def written(answer: object, schema: str) -> dict[str, Any]:
    """Return an answer as JSON, validated against its schema."""
    held: dict[str, Any] = json.loads(render(answer))
    validate(held, schema)
    return held


def validate(held: object, schema: str) -> None:
    """Validate JSON against the shipped schema of this name."""
    jsonschema.Draft202012Validator(json.loads((assets.SCHEMAS / f"{schema}.json").read_text("utf-8"))).validate(held)


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``gpustack matrix`` as its users do."""
    return warm.run(["matrix", *arguments], cwd=REPO, environ={**os.environ, **environ})
