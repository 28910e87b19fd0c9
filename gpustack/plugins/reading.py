"""One plugin, read and validated completely before use: the same schemas as ours, under its own name."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack import matrix as tables
from gpustack.assets import toml
from gpustack.collect import catalogue
from gpustack.collect.catalogue import System
from gpustack.diagnose import rule
from gpustack.diagnose.requirements.counts import ENDS
from gpustack.diagnose.requirements.records import Record, by_id
from gpustack.diagnose.rule import Rule
from gpustack.imports.deadline import OutOfTime, within
from gpustack.matrix import Matrix
from gpustack.matrix import facts as schema
from gpustack.matrix.subjects.health import Alike, Count, Duty, Limit, State
from gpustack.matrix.subjects.known_bad import KnownBad
from gpustack.matrix.subjects.messages import STATUS, Pattern
from gpustack.model import field, record, replace
from gpustack.model.facts import Facts, JsonValue
from gpustack.model.reading import key, made
from gpustack.model.report import Finding
from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from gpustack.matrix.facts import Fact

NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)
MOST_BYTES, MOST_NAME = 1_000_000, 30
RULE_SECONDS = 2.0  # one rule of a plugin, or its rules.py being read
ROWS: Mapping[str, tuple[type[Any], str]] = {
    "states": (State, "health"),
    "limits": (Limit, "health"),
    "alike": (Alike, "health"),
    "counts": (Count, "health"),
    "combinations": (KnownBad, "known_bad"),
    "messages": (Pattern, "messages_environment"),
}  # each kind of row, and our table that it extends
LISTS = frozenset(ENDS)  # of GPUs
KEYS = ("schema", "name", "version", "summary", "systems", "facts", *ROWS, "findings")


@record
class Text(Record):
    """The text of a finding from a plugin's rows, in our form: a block of its own in ``plugin.toml``."""

    id: str
    doc: str


@record
class Plugin:
    """One valid plugin; rows are kept as written, for the matrix to read."""

    name: str
    version: str
    summary: str
    origin: str = ""
    systems: tuple[System, ...] = field(default=(), metadata=key("systems", lambda rows: tuple(map(_system, rows))))
    facts: Mapping[str, Mapping[str, Mapping[str, JsonValue]]] = field(default_factory=dict)
    states: tuple[JsonValue, ...] = ()
    limits: tuple[JsonValue, ...] = ()
    alike: tuple[JsonValue, ...] = ()
    counts: tuple[JsonValue, ...] = ()
    combinations: tuple[JsonValue, ...] = ()
    messages: tuple[JsonValue, ...] = ()
    findings: tuple[Text, ...] = ()
    rules: tuple[Rule, ...] = field(default=(), metadata=key("rules of rules.py", lambda _: ()))
    policies: Mapping[str, Path] = field(default_factory=dict, metadata=key("files of policies", lambda _: {}))

    @property
    def brings(self) -> tuple[str, ...]:
        """The number of things it adds, by kind."""
        counted = {
            ("system", "systems"): len(self.systems),
            ("row", "rows"): sum(len(getattr(self, part)) for part in ROWS) - len(self.messages),
            ("message", "messages"): len(self.messages),
            ("finding", "findings"): len(self.findings) + len(self.rules),
            ("policy", "policies"): len(self.policies),
        }
        return tuple(f"{count} {words[count != 1]}" for words, count in counted.items() if count)


def _system(row: Mapping[str, Any]) -> System:
    if row["where"] not in {"system", "target", "both"}:
        raise ValueError(f"where is system, target or both, not {row['where']!r}")
    return catalogue.system(row)


def take(folder: Path, origin: str, others: Sequence[Plugin]) -> tuple[Plugin | None, str]:
    """Return the plugin in a folder, now in use; None and why, if it is skipped."""
    try:
        plugin = read(folder, origin)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it costs the plugin, and nothing of ours
        said = " ".join(str(error).split())[:300]
        return None, said if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {said}"
    if plugin.name in {one.name for one in others}:
        return None, f"there is already a plugin {plugin.name}"
    use(plugin)
    return plugin, ""


def read(folder: Path, origin: str) -> Plugin:
    """Return the validated plugin in a folder; raises ValueError or OSError if it is invalid."""
    held = _decoded(folder / "plugin.toml")
    unknown = [one for one in held if one not in KEYS]
    if unknown or held.get("schema") != 1:
        raise ValueError(f"plugin.toml: there is no key {unknown[0]}" if unknown else "plugin.toml: schema is not 1")
    plugin = made({**held, "origin": origin}, Plugin)
    if not NAME.fullmatch(plugin.name) or len(plugin.name) > MOST_NAME:
        raise ValueError(f"plugin.toml: name: use lower-case letters, digits and hyphens, not {plugin.name!r:.60}")
    plugin = replace(
        plugin,
        systems=tuple(_placed(one, folder) for one in plugin.systems),
        policies={f"{plugin.name}/{one.stem}": one for one in sorted(folder.glob("policies/*.toml"))},
    )
    rows = tuple(_checked(plugin))
    plugin = replace(plugin, rules=tuple(_rules(plugin, folder / "rules.py")))
    known = {*(one.id for one in plugin.findings), *(one.id for one in plugin.rules)}
    lost = [one.finding for one in rows if isinstance(one, Duty | Count) and one.finding not in known]
    if lost:
        raise ValueError(f"{lost[0]}: a row names this finding, but no [[findings]] block describes it")
    for one in plugin.policies.values():
        _decoded(one)
    return plugin


def use(plugin: Plugin) -> None:
    """Add a plugin's contents to what is probed and judged from now on."""
    catalogue.ADDED.extend(plugin.systems)
    rule.ADDED.update({one.id: one for one in plugin.rules})
    by_id().update({one.id: one for one in plugin.findings})
    for part, (_, table) in ROWS.items():
        tables.ADDED[table, part] = [*tables.ADDED.get((table, part), ()), *map(_thawed, getattr(plugin, part))]
    tables.ADDED["facts", "facts"] = {**dict(tables.ADDED.get(("facts", "facts"), {})), **plugin.facts}
    schema.schema.cache_clear()


def _thawed(value: JsonValue) -> Any:  # noqa: ANN401 - as TOML gives it
    if isinstance(value, Mapping):
        return {name: _thawed(one) for name, one in value.items()}
    return list(map(_thawed, value)) if isinstance(value, tuple) else value


def _decoded(file: Path) -> Mapping[str, Any]:
    with file.open("rb") as text:
        data = text.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{file.name}: more than 1 MB")
    try:
        return toml(data.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name}: {error}") from error


def _placed(system: System, folder: Path) -> System:
    """Return a system whose probe has its absolute path; raises ValueError if it is not in the folder."""
    probe = Path(folder, system.data["probe"]).resolve()
    if not probe.is_file() or not probe.is_relative_to(folder.resolve()):
        raise ValueError(f"{system.id}: there is no probe {system.data['probe']} in the plugin")
    return replace(system, data={**system.data, "probe": str(probe)})


def _checked(plugin: Plugin) -> Iterator[Stated | Pattern]:
    """Yield every row as its type; raises ValueError for a name outside the plugin's, or a fact without a schema."""
    rows = [_row(one, part, number) for part in ROWS for number, one in enumerate(getattr(plugin, part))]
    facts = {(one.component, one.path): one for name, held in plugin.facts.items() for one in _facts(name, held)}
    for name in (*(one.id for one in plugin.systems), *plugin.facts, *(one.id for one in plugin.findings)):
        _own(name, plugin)
    for row in rows:
        for name in _names(row):  # itself, and the finding that it yields
            _own(name, plugin)
        if isinstance(row, Duty) and not _known(row.of, row.path.text, facts):
            raise ValueError(f"{row.name}: no schema has the fact {row.of} {row.path.text}")
        if isinstance(row, Count) and (lost := {row.every, row.among} - LISTS):
            raise ValueError(f"{row.name}: there is no list {min(lost)}: {', '.join(sorted(LISTS))} are compared")
        if isinstance(row, Pattern):
            _matches(row, facts)
    yield from rows


def _names(row: Duty | Count | KnownBad | Pattern) -> tuple[str, ...]:
    if isinstance(row, Duty | Count):
        return row.name, row.finding
    return (row.id if isinstance(row, KnownBad) else row.kind,)


def _matches(pattern: Pattern, facts: Mapping[tuple[str, str], Fact]) -> None:
    """Raise ValueError for an invalid expression or text, and for an unknown fact."""
    try:
        pattern.compiled()
    except re.error as error:
        raise ValueError(f"{pattern.kind}: match: {error}") from error
    for fact in pattern.facts:
        if fact.path != STATUS and "{" not in fact.component and not _known(fact.component, fact.path, facts):
            raise ValueError(f"{pattern.kind}: no schema has the fact {fact.component} {fact.path}")


def _own(name: str, plugin: Plugin) -> None:
    """Raise ValueError for a name outside the plugin's own prefix."""
    own, _, rest = name.partition("/")
    if own != plugin.name or not NAME.fullmatch(re.sub(r"[._]", "-", rest)):
        raise ValueError(f"{name}: everything in a plugin is called {plugin.name}/…, in lower case")


def _facts(component: str, rows: Mapping[str, Mapping[str, Any]]) -> tuple[Fact, ...]:
    try:
        return tuple(schema.facts_of(component, rows))
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"facts of {component}: {error}") from error


def _row(row: JsonValue, part: str, number: int) -> Any:  # noqa: ANN401 - what its part holds
    try:
        return made({"origin": part, **_thawed(row)}, ROWS[part][0])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{part}[{number}]{'' if str(error).startswith('.') else ': '}{error}") from error


def _known(component: str, path: str, own: Mapping[tuple[str, str], Fact]) -> bool:
    """Return whether a fact is in the plugin's schema or in ours, where a part in braces matches any name."""
    names = re.sub(r"\{[^{}]*\}", "*", path).replace("[]", ".[]").split(".")
    return (component, path) in own or schema.schema(Matrix()).at(component, *names) is not None


def _rules(plugin: Plugin, file: Path) -> Iterator[Rule]:
    """Yield the rules in rules.py, each guarded; raises ValueError for a foreign name or a missing text."""
    if not file.is_file():
        return
    names: dict[str, Any] = {"__name__": f"gpustack_plugin_{plugin.name.replace('-', '_')}", "__file__": str(file)}
    _guarded(lambda: exec(compile(file.read_text("utf-8"), str(file), "exec"), names), "rules.py")  # noqa: S102 - whoever installed the plugin trusts it
    for one in [held for held in names.values() if isinstance(held, Rule)]:
        _own(one.id, plugin)
        if not one.explanation:
            raise ValueError(f"rules.py: {one.id}: its predicate needs a docstring, which explain prints")
        yield replace(one, predicate=_held_to(one))


def _held_to(rule: Rule) -> Callable[[Facts, Matrix], tuple[Finding, ...]]:
    """Return the predicate of a rule, limited in time and to findings with its own id."""

    def predicate(facts: Facts, matrix: Matrix) -> tuple[Finding, ...]:
        found = tuple(_guarded(lambda: tuple(rule.predicate(facts, matrix)), rule.id))
        for one in found:
            if not isinstance(one, Finding) or one.id != rule.id:
                raise TypeError(f"it yields {one!r:.60}, which is not a finding {rule.id}")
        return found

    predicate.__doc__ = rule.predicate.__doc__
    return predicate


def _guarded(call: Callable[[], Any], name: str) -> Any:  # noqa: ANN401 - what is called
    """Return the result of a call; raises RuntimeError if it would end the program, TimeoutError if it is too slow."""
    try:
        with within(time.monotonic() + RULE_SECONDS):
            return call()
    except SystemExit as error:
        raise RuntimeError(f"{name} would have ended the program") from error
    except OutOfTime as error:
        raise TimeoutError(f"{name} took longer than {RULE_SECONDS:g} s") from error
