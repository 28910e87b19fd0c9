"""Gathers, for each rule, the smallest facts in the tests on which it fires, for ``gpustack selftest``.

A pytest plugin: ``python -m pytest -p tests.proofs tests/diagnose -n0`` writes ``gpustack/selftest.json``; a run of a
few tests adds what it proves, or smaller proofs; remove the line of a proof that no longer holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpustack import assets
from gpustack.diagnose import engine, environments, rule
from gpustack.model.writing import plain
from gpustack.selftest import PROOFS
from tests.told import REPO

if TYPE_CHECKING:
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

PLACES = re.compile(r'/[^" ]*/pytest-of-[^" ]*/')
LATE = "2099-01-01T00:00:00+00:00"  # a date at which any matrix is old
SMALLEST: dict[str, str] = {}
_TRUE, _AMONG = engine._found, environments.among  # noqa: SLF001 - for one run of the tests


def slim(held: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON without what is empty, which reads the same; facts are unchanged."""
    if isinstance(held, dict):
        return {
            name: one if name in {"facts", "values"} else slim(one)
            for name, one in held.items()
            if one not in (None, "", [], {}, 0.0)
        }
    return [slim(one) for one in held] if isinstance(held, list) else held


def _found(facts: Facts, judging: engine.Judging) -> Sequence[Finding]:
    findings = _TRUE(facts, judging)
    for finding in findings:
        _keep(finding.id, facts)
    return findings


def _among(facts: Facts, works: Any) -> Finding | None:  # noqa: ANN401 - passed on
    finding = _AMONG(facts, works)
    if finding:
        _keep(finding.id, facts)
    return finding


def _keep(name: str, facts: Facts) -> None:
    text = PLACES.sub("", json.dumps(plain(facts)).replace(f"{REPO}/", ""))
    if len(text) < len(SMALLEST.get(name, text + "!")):
        SMALLEST[name] = text


def pytest_configure() -> None:
    engine._found = _found  # type: ignore[assignment] # noqa: SLF001 - for one run of the tests
    environments.among = _among


def pytest_sessionfinish() -> None:
    path = assets.SCHEMAS.parent / PROOFS
    old = {name: held for name, held in json.loads(path.read_text("utf-8")).items() if name in rule.ids()}
    new = {name: kept(json.loads(text)) for name, text in SMALLEST.items()}
    rows = {
        name: min((one for one in (new.get(name), old.get(name)) if one), key=size) for name in sorted({*old, *new})
    }
    rows.get("matrix-old", {})["taken"] = LATE
    lines = [f"{json.dumps(name)}: {json.dumps(facts, separators=(',', ':'))}" for name, facts in rows.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def size(facts: dict[str, Any]) -> int:
    """Return the length of the facts as text."""
    return len(json.dumps(facts))


def kept(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the reduced facts of one rule."""
    made: dict[str, Any] = slim(facts)
    return made
