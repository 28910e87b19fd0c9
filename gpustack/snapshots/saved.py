"""A saved report of the bench, read back as our types."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpustack.errors import InputError
from gpustack.model import bounded
from gpustack.model.bench import BenchReport
from gpustack.model.reading import made

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "gpustack.bench/1"


def read(path: Path) -> BenchReport:
    """Return the report of a file of ``gpustack bench --save``; raises InputError for anything else.

    Keys that are not known are passed over, and those that an older gpustack did not write have their usual values.
    """
    try:
        said = json.loads(bounded.json_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no report of gpustack bench: it is not JSON") from error
    schema = said.get("schema") if isinstance(said, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{path} is no report of gpustack bench: its schema is {schema or 'missing'}, not {SCHEMA}")
    try:
        return made(said, BenchReport)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
