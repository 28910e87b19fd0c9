"""Third-party readers for each report format: each returns all the text that its users would see."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import html5lib
import jsonschema
from junitparser import JUnitXml
from markdown_it import MarkdownIt
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gpustack import report

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-schema-2.1.0.json").read_text("utf-8"))
SARIF = jsonschema.Draft4Validator(SCHEMA)
# https://nagios-plugins.org/doc/guidelines.html, "Performance data": 'label'=value[UOM];[warn];[crit];[min];[max]
PERFORMANCE = r"(?:'(?:[^'=|]|'')+'|[^\s'=|]+)=-?[0-9]+(?:\.[0-9]+)?(?:s|us|ms|%|B|KB|MB|TB|c)?(?:;-?[0-9.]*){0,4}"
NAGIOS = re.compile(rf"GPUSTACK (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+ \| {PERFORMANCE}(?: {PERFORMANCE})*")
METRIC = re.compile(r"gpustack_[a-z][a-z_]*[a-z]")
URI = re.compile(r"(?:file://)?[A-Za-z0-9._~/%-]+")
PRINTED = 2  # letters of the mark before and after a command


def markdown(text: str) -> str:
    """Read it as CommonMark with tables, then the result as a page."""
    return page(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text), whole=False, within="<a>")


def page(text: str, *, whole: bool = True, within: str = "") -> str:
    """Read HTML by the rules of its standard, with no error forgiven; nothing in it may run or load.

    Only tags ``within`` may link to an address, which must be on the web.
    """
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree = parser.parse(text) if whole else parser.parseFragment(text)
    ours = (Path(report.__file__ or "").parent / "styles/copy.js").read_text("utf-8") if whole else None
    scripts = [one for one in tree.iter() if one.tag == "script"]
    assert [one.text for one in scripts] == [ours] * whole
    for one in (other for other in tree.iter() if other not in scripts):
        assert one.tag not in {"script", "iframe", "object", "embed", "link", "img", "form"}, one.tag
        assert not [name for name in one.attrib if str(name).startswith("on") or name == "src"]
        assert "href" not in one.attrib or (f"<{one.tag}>" in within and str(one.attrib["href"]).startswith("https://"))
    texts = (part for one in tree.iter() if one.tag not in {"style", "script"} for part in (one.text, one.tail))
    return " ".join(filter(None, texts))


def junit(text: str) -> str:
    """Read it as CI servers do; the suites' totals must match their cases."""
    root = JUnitXml.fromstring(text.encode())
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    seen: list[str] = []
    told = (root.tests, root.failures, root.skipped, root.errors)
    root.update_statistics()  # type: ignore[no-untyped-call] # its own counting
    assert told == (root.tests, root.failures, root.skipped, root.errors)
    for suite in root:
        names = [(case.classname, case.name) for case in suite]
        assert len(names) == len(set(names))
        for case in suite:
            seen += [case.name or "", case.system_out or ""]
            seen += [part for result in case.result for part in (result.message, result.text) if part]
    return " ".join(seen)


def sarif(text: str) -> str:
    """Read it by its committee's schema, and by GitHub's additional requirements."""
    log = json.loads(text)
    SARIF.validate(log)
    (run,) = log["runs"]
    rules, marks, seen = run["tool"]["driver"]["rules"], [], []
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
        assert result["message"]["text"].strip()
        (location,) = result["locations"]
        assert URI.fullmatch(location["physicalLocation"]["artifactLocation"]["uri"])
        marks.append(result["partialFingerprints"]["primaryLocationLineHash"])
        seen += [result["message"]["text"], result.get("properties", {}).get("key", "")]
    return " ".join(seen)


def github(text: str) -> str:
    """Read each line as the runner does; every one must be an annotation."""
    return " ".join(f"{title} {message}" for _, title, message in noted(text))


def noted(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield command, title and message of each line, as github.com/actions/runner does in its ActionCommand.cs."""
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        assert "\r" not in line
        assert line.startswith("::")
        end = line.index("::", PRINTED)
        name, _, properties = line[PRINTED:end].partition(" ")
        pairs = dict(pair.split("=", 1) for pair in properties.split(","))
        assert name in {"error", "warning", "notice"}
        assert set(pairs) <= {"title", "file", "line"}
        yield name, _unescaped(pairs["title"], property_=True), _unescaped(line[end + PRINTED :])


def _unescaped(text: str, *, property_: bool = False) -> str:
    more = (("%3A", ":"), ("%2C", ",")) if property_ else ()
    for code, letter in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
        text = text.replace(code, letter)
    return text


def prometheus(text: str) -> str:
    """Read it in both existing formats; each family has help and type, and no sample occurs twice."""
    seen = []
    for parse in (text_string_to_metric_families, openmetrics.text_string_to_metric_families):
        samples = []
        for family in parse(text):
            assert METRIC.fullmatch(family.name)
            assert family.documentation
            assert family.type == "gauge"
            samples += [(one.name, tuple(sorted(one.labels.items()))) for one in family.samples]
        assert len(samples) == len(set(samples))
        seen = [value for _, labels in samples for _, value in labels]
    return " ".join(seen)


def nagios(text: str) -> str:
    """Read the first line by the guidelines for plugins; performance data is nowhere else."""
    first, *rest = text.splitlines()
    assert NAGIOS.fullmatch(first), first
    assert not [line for line in rest if "|" in line]
    return text


READERS: dict[str, Callable[[str], str]] = {
    "markdown": markdown,
    "html": page,
    "junit": junit,
    "sarif": sarif,
    "github": github,
    "prometheus": prometheus,
    "nagios": nagios,
}
