"""A report as SARIF 2.1.0: a rule for each kind of finding with its help, and results that always have a place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from gpustack.model.check import CheckReport
from gpustack.model.report import Confidence, Severity
from gpustack.report.findings import sentences
from gpustack.report.page import clean
from gpustack.report.parts import NOTHING, Reported, Told, diagnosis, every, headline, means, unkept
from gpustack.report.places import Place, of_finding, of_row

if TYPE_CHECKING:
    from gpustack.model.report import Finding

Object: TypeAlias = "dict[str, object]"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.UNKNOWN: "note",
    Severity.INFO: "note",
}
PRECISION = {Confidence.CERTAIN: "very-high", Confidence.LIKELY: "high", Confidence.POSSIBLE: "medium"}
POLICY = "policy"
HELP = {
    POLICY: "The policy (gpustack.toml) asks for something that this machine does not have. The result names the line "
    "of the policy, what is wanted and what was found: change the machine, or the policy.",
    "bench-failed": "The benchmark crashed, or what it computed was wrong. Run it again; if it fails again, the GPU, "
    "its memory or its driver is at fault.",
    "bench-low": "The figure is clearly below what such a limit usually gives on a GPU of this kind. The result names "
    "the reasons that were seen: power, heat, link, other processes.",
    "bench-unsteady": "The figure did not settle while it was measured. It says little; measure again on a quiet "
    "machine.",
    "bench-skipped": "The benchmark was not run; the result says why, and what would bring the figure.",
}


def render(reported: Reported, told: Told = NOTHING) -> str:
    """Give the SARIF log of one run."""
    found = [*_policy(reported), *_findings(reported, told)]
    rules = list(dict.fromkeys(str(result["ruleId"]) for result in found))
    run: Object = {
        "tool": {"driver": _driver(reported, rules, told)},
        "automationDetails": {"id": f"gpustack/{_command(reported)}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True}],
        "properties": dict(zip(("verdict", "why"), map(clean, headline(reported)), strict=True)),
        "results": [{**result, "ruleIndex": rules.index(str(result["ruleId"]))} for result in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _command(reported: Reported) -> str:
    return "check" if isinstance(reported, CheckReport) else "doctor" if diagnosis(reported) else "bench"


def _driver(reported: Reported, rules: Sequence[str], told: Told) -> Object:
    tool = reported.tool
    first = {clean(one.id): one for one in reversed(every(reported))}
    return {
        "name": "gpustack",
        "version": clean(tool.version),
        "properties": {"matrix_date": clean(tool.matrix_date)},
        "rules": [_rule(name, first.get(name), told) for name in rules],
    }


def _rule(name: str, finding: Finding | None, told: Told) -> Object:
    """Give a rule: what it means in its own words where those are known, else what the first finding says."""
    text = told.texts.get(name) or HELP.get(name) or (finding.title if finding else name)
    lines = [clean(line) for line in text.strip().splitlines()]
    said = " ".join(lines[0].split()) if lines else name
    full = "\n".join(lines) or name
    tags = ["gpu", clean(finding.layer.value)] if finding else ["gpu", POLICY]
    return {
        "id": name,
        "shortDescription": {"text": said},
        "fullDescription": {"text": full},
        "help": {"text": f"{full}\n\nSee also: gpustack explain {name}" if name in told.texts else full},
        "defaultConfiguration": {"level": LEVELS[finding.severity] if finding else "error"},
        "properties": {"tags": tags, "precision": PRECISION[finding.confidence] if finding else "very-high"},
    }


def _policy(reported: Reported) -> Iterator[Object]:
    for row in unkept(reported):
        lines = (f"{row.rule}: wanted {row.wanted}; found {row.found}", means(row))
        yield _result(POLICY, "error" if row.ok is False else "note", lines, of_row(row), row.rule)


def _findings(reported: Reported, told: Told) -> Iterator[Object]:
    """Give every finding, those that follow from others too, which name their cause."""
    for one in every(reported):
        lines = (one.title, *sentences(one))
        made = _result(clean(one.id), LEVELS[one.severity], lines, of_finding(one, reported, told), one.key)
        place = {"name": clean(one.component), "fullyQualifiedName": clean(f"{one.layer.value}/{one.component}")}
        own: Mapping[str, object] = {
            "key": clean(one.key),
            "severity": one.severity.value,
            "confidence": one.confidence.value,
            **({"caused_by": clean(one.caused_by)} if one.caused_by else {}),
        }
        held = made["locations"]
        where = [{**held[0], "logicalLocations": [{**place, "kind": "module"}]}] if isinstance(held, list) else held
        yield {**made, "locations": where, "properties": own}


def _result(rule: str, level: str, lines: Sequence[str], place: Place, key: str) -> Object:
    region = {"startLine": place.line or 1}
    location: Object = {"physicalLocation": {"artifactLocation": {"uri": _uri(place.path)}, "region": region}}
    mark = sha256(f"{rule}\0{clean(key)}".encode()).hexdigest()[:32]
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": "\n".join(map(clean, filter(None, lines)))},
        "locations": [location],
        "partialFingerprints": {"primaryLocationLineHash": f"{mark}:1", "gpustackKey/v1": mark},
    }


def _uri(path: str) -> str:
    """Give a path as a URI: of a file on this machine where it is absolute, else relative to the checkout."""
    return f"file://{quote(path)}" if path.startswith("/") else quote(path.removeprefix("./"))
