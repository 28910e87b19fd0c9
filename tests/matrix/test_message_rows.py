"""Every known message can be looked up, and leads to a finding that exists."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from gpustack.diagnose.rule import explain
from gpustack.imports.messages import clean, find
from gpustack.matrix.facts import EACH, schema
from gpustack.matrix.subjects.messages import GROUP, STATUS, Implied, Pattern, patterns, rows
from gpustack.matrix.subjects.ranges import SPELLED
from gpustack.model.facts import JsonValue, Status
from gpustack.model.reading import made
from tests.build import MATRIX

PATTERNS = patterns(MATRIX)
MOST_EXPRESSIONS = 600
ROW = {"kind": "x", "has": "x", "match": "x", "says": "x", "source": "x", "checked": "2026-11-22"}


def components(row: Pattern, implied: Implied) -> list[str]:
    """Return the components that a fact may belong to: those that the expression lists, where a message names it."""
    named = GROUP.fullmatch(implied.component)
    listed = re.search(rf"(?:\(\?P<|\{{){named[1]}[>:]([\w|]+)[)}}]", row.wording) if named else None
    return [SPELLED[named[2]](one) for one in listed[1].split("|")] if named and listed else [implied.component]


def wrong(row: Pattern, implied: Implied) -> str | None:
    """Return what is wrong with a fact that a row implies: its name, its type, or the values to be filled in."""
    captured = {*row.names, *row.values}
    asked = {
        name
        for text in (implied.copy, implied.path, implied.value)
        for names, _ in GROUP.findall(str(text))
        for name in names.split("|")
    }
    if not asked <= captured:
        return f"{sorted(asked - captured)} is never captured"
    if implied.path == STATUS:
        return None if implied.value in {one.value for one in Status} else "no status"
    path = implied.path.replace(EACH, f".{EACH}").split(".")
    found = [schema(MATRIX).at(component, *path) for component in components(row, implied)]
    fact = found[0]
    if fact is None or None in found:
        return "no such fact in facts.toml"
    open_ = isinstance(implied.value, str) and GROUP.search(implied.value)
    return None if open_ or fact.kind.holds(implied.value) else f"no {fact.kind.value}"


def test_what_a_message_implies_is_in_the_schema_of_its_type_and_can_be_filled_in() -> None:
    assert [(row.kind, one.path, said) for row in PATTERNS for one in row.facts if (said := wrong(row, one))] == []


@pytest.mark.parametrize(
    ("facts", "match", "said"),
    [
        ({"nvidia.ko.colour": "green"}, "x", "no such fact in facts.toml"),
        ({"nvml.code": "18"}, "x", "no whole"),
        ({"nvidia.ko.version": "{driver}"}, "x(?P<release>.)", "['driver'] is never captured"),
        ({"nvml.status": "ill"}, "x", "no status"),
        ({"gpu[{pci}].name": "x"}, "x", "['pci'] is never captured"),
    ],
)
def test_a_fact_that_a_row_gets_wrong_is_seen(facts: dict[str, JsonValue], match: str, said: str) -> None:
    row = made({**ROW, "match": match, "facts": facts}, Pattern)
    assert wrong(row, row.facts[0]) == said


def test_a_row_that_names_no_component_is_refused() -> None:
    with pytest.raises(ValueError, match="'version' names no fact of a component"):
        made({**ROW, "facts": {"version": "1"}}, Pattern)


@pytest.mark.parametrize(
    ("facts", "captured", "read"),
    [
        ({"nvml.code": "{code}"}, {"code": "18"}, ("nvml", "", "code", 18)),
        ({"nvml.code": "{code}"}, {"code": "many"}, None),
        ({"nvidia.ko.version": "{one|two}"}, {"two": "580.95.05"}, ("nvidia.ko", "", "version", "580.95.05")),
        ({"nvidia.ko.version": "{one|two}"}, {}, None),
        ({"pytorch.archs[]": "{archs}"}, {"archs": "sm_80, sm_90."}, ("pytorch", "", "archs", ("sm_80", "sm_90"))),
        ({"gpu[{pci}].power.watts": "{w}"}, {"pci": "01:00", "w": "61.5"}, ("gpu", "01:00", "power.watts", 61.5)),
        ({"gpu[{pci}].index": 0}, {}, None),
        ({"limits.shm_bytes": "{size}{unit}"}, {"size": "64", "unit": "M"}, ("limits", "", "shm_bytes", 64 << 20)),
        ({"limits.shm_bytes": "{size}{unit}"}, {"size": "0.5", "unit": "g"}, ("limits", "", "shm_bytes", 1 << 29)),
        ({"limits.shm_bytes": "{size}{unit}"}, {"size": "64", "unit": "lots"}, None),
        ({"cudnn.version": "{one:cudnn}"}, {"one": "8907"}, ("cudnn", "", "version", "8.9.7")),
        ({"cudnn.version": "{one:cudnn}"}, {"one": "90100"}, ("cudnn", "", "version", "9.1.0")),
        ({"cudnn.version": "{one:cudnn}"}, {"one": "8, 7, 0"}, ("cudnn", "", "version", "8.7.0")),
        ({"cuda-runtime.version": "{one:cuda}"}, {"one": "12020"}, ("cuda-runtime", "", "version", "12.2")),
        (
            {"{name:id}.version": "{one:library}"},
            {"name": "cuBLAS", "one": "120205"},
            ("cublas", "", "version", "12.2.5"),
        ),
        ({"nvidia.ko.loaded": True}, {}, ("nvidia.ko", "", "loaded", True)),
    ],
)
def test_what_was_captured_is_read_by_the_type_of_its_fact(
    facts: dict[str, JsonValue], captured: dict[str, str], read: tuple[object, ...] | None
) -> None:
    (implied,) = made({**ROW, "facts": facts}, Pattern).facts
    assert next(implied.filled(captured, MATRIX), None) == read


PRINTED = {
    "number": "12",
    "count": "3",
    "version": "12.4",
    "release": "550.54.14",
    "hex": "0x25",
    "pci": "0000:06:00.0",
    "arch": "sm_90",
    "token": "a-b",
    "word": "word",
    "name": "6.8.0-50-generic",
    "path": "/usr/lib/x.so.1",
    "file": "bin/x.py",
    "soname": "libcudnn.so.9",
    "module": "nvidia",
}


def printed(text: str) -> str:
    """Return what a program prints, given the text of a row."""
    words = re.sub(r"\{\w*:([^{}]+)\}", lambda found: PRINTED.get(found[1]) or found[1].rpartition("|")[2], text)
    return re.sub(r"\{(?:\.\.\.|\w+)\}", "such", words)


@pytest.mark.parametrize(
    "change", [str, str.upper, lambda text: text.replace("'", '"'), lambda text: text.replace("'", "")]
)
def test_every_text_is_recognised_as_it_is_printed(change: Callable[[str], str]) -> None:
    texts = [(row.kind, printed(text)) for row in rows(MATRIX) for text in row.text]
    changed = [(kind, change(text)) for kind, text in texts if change is str or change(text) != text]
    assert changed
    assert [text for kind, text in changed if kind not in kinds(text)] == []


def kinds(text: str) -> set[str]:
    return {message.kind for message in find([("text", clean(text))], MATRIX)}


@pytest.mark.parametrize(
    ("text", "line", "captured"),
    [
        (
            "version {needs:version} of {module:module}",
            "Version  12.4\nof nvidia_uvm",
            {"needs": "12.4", "module": "nvidia_uvm"},
        ),
        ("has '{found}' should", "it has \u201cA b\u201d should", {"found": "A b"}),
        ("cannot open '{path:path}'", 'cannot open \\"/a/b.so\\"', {"path": "/a/b.so"}),
        ("not compiled with {what:CUDA|GPU}", "not compiled with gpu", {"what": "gpu"}),
        ("error: {why}", "error : all of it ", {"why": "all of it"}),
        ("a {...} b {one:count}", "a b 1", None),
        ("a {...}b {one:count}", "a b 1", {"one": "1"}),
        ("a b {one:count}", "a b 0", None),
        (["x {one:number} (by {other})", "x {one:number}"], "x 1", {"one": "1"}),
        (["x {one:number} (by {other})", "x {one:number}"], "x 2 (by y z)", {"one": "2", "other": "y z"}),
    ],
)
def test_a_text_captures_what_its_placeholders_hold(
    text: str | list[str], line: str, captured: dict[str, str] | None
) -> None:
    row = made({**ROW, "match": "", "text": text}, Pattern)
    found = row.compiled().search(line)
    assert (found and row.captured(found)) == captured


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "a {driver:releese}"}, "'releese' is no kind of placeholder: number"),
        ({"text": "a", "match": "a"}, "x: a message has a text, or has and match"),
        ({"match": "a"}, "x: a message has a text, or has and match"),
    ],
)
def test_a_row_that_says_nothing_or_too_much_is_refused(row: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        made({**ROW, "has": "", "match": "", **row}, Pattern).compiled()


def test_texts_say_what_expressions_need_not() -> None:
    """Each expression is one more thing to understand: a new message has a text."""
    assert sum(bool(row.match) for row in rows(MATRIX)) <= MOST_EXPRESSIONS


def test_a_message_can_be_looked_for() -> None:
    for pattern in PATTERNS:
        expression = pattern.compiled()
        assert pattern.has == pattern.has.lower(), pattern
        assert all(one.isascii() or one.upper() == one.lower() for one in pattern.has), pattern  # bytes lack others
        assert expression.search("") is None, pattern
        assert expression.search("\n" * 2000 + "x " * 2000) is None, pattern


def test_the_finding_that_a_message_leads_to_is_there() -> None:
    assert all(explain(one.finding) for one in PATTERNS if one.finding)


def test_kinds_are_words_and_each_leads_to_one_finding() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.kind) for one in PATTERNS)
    told = {(one.kind, one.finding) for one in PATTERNS if one.finding}
    assert len(told) == len({kind for kind, _ in told})
