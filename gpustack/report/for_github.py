"""A report as code annotations: lines for GitHub Actions, and SARIF for code scanning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import quote

from gpustack.model import record
from gpustack.model.policy import CheckReport, Held
from gpustack.model.report import Confidence, Finding, Severity
from gpustack.report.page import clean
from gpustack.report.parts import NOTHING, Reported, Told, diagnosis, every, headline, means, ordered, unkept
from gpustack.report.summary import grouped, sentences

POLICY = "gpustack.toml"  # where a reader can act on something without its own file
STANDARD_INPUT = "-"
LINE = re.compile(r"(?P<path>.+):(?P<line>[1-9][0-9]{0,8})")
PATH = re.compile(r"[~/][^\s,]*/[^\s,/]*")
COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.UNKNOWN: "notice", Severity.INFO: "notice"}
Object: TypeAlias = "dict[str, object]"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.UNKNOWN: "note", Severity.INFO: "note"}
PRECISION = {Confidence.CERTAIN: "very-high", Confidence.LIKELY: "high", Confidence.POSSIBLE: "medium"}
POLICY_RULE = "policy"
HELP = {
    POLICY_RULE: "The policy (gpustack.toml) requires something that this machine does not have. The result names the "
    "line of the policy, what is required and what was found: change the machine or the policy.",
    "bench-failed": "The benchmark crashed, or computed a wrong result. Run it again; if it fails again, the GPU, "
    "its memory or its driver is at fault.",
    "bench-low": "The figure is clearly below what this kind of GPU usually reaches of its limit. The result names "
    "the reasons that were seen: power, heat, link, other processes.",
    "bench-unsteady": "The figure did not settle during the measurement. It says little; measure again on an idle "
    "machine.",
    "bench-skipped": "The benchmark was not run; the result says why, and what is missing.",
}


@record
class Place:
    """A file, and the line in it if known."""

    path: str
    line: int | None = None


def of_row(row: Held) -> Place:
    """Return the line of the policy that states the rule."""
    found = LINE.fullmatch(clean(row.place or ""))
    return Place(path=found["path"], line=int(found["line"])) if found else Place(path=clean(row.place or POLICY))


def of_finding(finding: Finding, reported: Reported, told: Told) -> Place:
    """Return the pasted file that a finding rests on; on this machine the affected file, else the policy."""
    if told.origins:
        files = [path for origin, path in told.origins.items() if origin != STANDARD_INPUT]
        named = (source for one in finding.because for source in _pasted(one.source, told.origins))
        return Place(path=clean(next(named, files[0] if files else POLICY)))
    return Place(path=clean(next(_files(finding, reported), POLICY)))


def _pasted(source: str, origins: Mapping[str, str]) -> Iterator[str]:
    """Yield the given files that a source names: "issue.txt (in words), other.txt"."""
    for part in source.split(", "):
        path = part.removesuffix(" (in words)")
        for origin, shown in origins.items():
            if path == origin:
                yield shown
            elif path.startswith(f"{origin.rstrip('/')}/"):
                yield shown.rstrip("/") + path[len(origin.rstrip("/")) :]


def _file(source: str) -> bool:
    """Return whether a source is the path of a file with an extension."""
    return bool(PATH.fullmatch(source)) and "." in source.rpartition("/")[2][1:-1]


def _files(finding: Finding, reported: Reported) -> Iterator[str]:
    """Yield the files of a finding: those its own facts were read from, then its component's."""
    own = [one.source for one in finding.because if one.component == finding.component]
    yield from (source for source in own if _file(source) and not source.startswith(("/proc/", "/sys/")))
    report = diagnosis(reported)
    for component in report.components if report else ():
        if component.id == finding.component:
            copies = (copy.path for copy in component.instances if finding.instance in {copy.key, copy.path})
            yield from filter(None, (*copies, component.path))


def render_github(reported: Reported, told: Told = NOTHING) -> str:
    """Return the lines, the most severe first; GitHub shows ten of each kind, so similar ones are merged."""
    lines = [*_policy(reported), *_findings(reported, told)]
    word, said = headline(reported)
    return "".join(f"{line}\n" for line in lines or [_line("notice", f"gpustack: {word}", [said])])


def _policy(reported: Reported) -> Iterator[str]:
    for row in unkept(reported):
        lines = [f"wanted {row.wanted}; found {row.found}", means(row)]
        yield _line("notice" if row.ok is None else _level(row), f"policy: {row.rule}", lines, of_row(row))


def _findings(reported: Reported, told: Told) -> Iterator[str]:
    for first, others, follow in grouped(ordered(reported)):
        lines = [first.key, *sentences(first, follow), *_others(others)]
        place = of_finding(first, reported, told) if told.origins else None
        yield _line(COMMANDS[first.severity], first.title, lines, place)


def _others(others: tuple[Finding, ...]) -> Iterator[str]:
    if others:
        yield "The same holds for:"
        yield from (f"- {one.title} [{one.key}]" for one in others)


def _line(command: str, title: str, lines: list[str], place: Place | None = None) -> str:
    """Return one annotation; nothing in it can end it or begin another."""
    where = [f"file={_property(place.path)}"] if place else []
    where += [f"line={place.line}"] if place and place.line else []
    message = "%0A".join(_data(clean(line)) for line in lines if line)
    return f"::{command} {','.join([*where, f'title={_property(clean(title))}'])}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render_sarif(reported: Reported, told: Told = NOTHING) -> str:
    """Return the SARIF log of one run."""
    found = [*_sarif_policy(reported), *_sarif_findings(reported, told)]
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
    """Return a rule with its own explanation if it has one, else the first finding's text."""
    text = told.texts.get(name) or HELP.get(name) or (finding.title if finding else name)
    lines = [clean(line) for line in text.strip().splitlines()]
    said = " ".join(lines[0].split()) if lines else name
    full = "\n".join(lines) or name
    tags = ["gpu", clean(finding.layer.value)] if finding else ["gpu", POLICY_RULE]
    return {
        "id": name,
        "shortDescription": {"text": said},
        "fullDescription": {"text": full},
        "help": {"text": f"{full}\n\nSee also: gpustack explain {name}" if name in told.texts else full},
        "defaultConfiguration": {"level": LEVELS[finding.severity] if finding else "error"},
        "properties": {"tags": tags, "precision": PRECISION[finding.confidence] if finding else "very-high"},
    }


def _sarif_policy(reported: Reported) -> Iterator[Object]:
    for row in unkept(reported):
        lines = (f"{row.rule}: wanted {row.wanted}; found {row.found}", means(row))
        yield _result(POLICY_RULE, _level(row) if row.ok is False else "note", lines, of_row(row), row.rule)


def _level(row: Held) -> str:
    """Return the level of a violated rule of the policy."""
    return "warning" if row.warns else "error"


def _sarif_findings(reported: Reported, told: Told) -> Iterator[Object]:
    """Yield every finding, including consequences, which name their cause."""
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
    """Return a path as a URI: a file on this machine if it is absolute, else relative to the checkout."""
    return f"file://{quote(path)}" if path.startswith("/") else quote(path.removeprefix("./"))
