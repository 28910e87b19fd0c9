"""The policy of ``gpustack check``: found from the working folder upwards, read, and validated key by key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpustack.assets import toml
from gpustack.diagnose import rule
from gpustack.diagnose.machine.inventory import FRAMEWORKS
from gpustack.errors import InputError
from gpustack.matrix.subjects.ranges import is_specifier
from gpustack.matrix.toml_tables import Key, Table, find_lines, line_of, shown
from gpustack.model import field, record
from gpustack.model.policy import ALSO, PRESENT, Figures, Golden, Gpus, Ignored, InUse, Policy, Raised
from gpustack.model.report import Purpose, Severity

NAME, PROJECT = "gpustack.toml", "pyproject.toml"
SECTION = ("tool", "gpustack")
HEADER = re.compile(r"""^[ \t]*\[+[ \t]*["']?tool["']?[ \t]*\.[ \t]*["']?gpustack\b""", re.MULTILINE)
MOST_SHARE = 2  # of a ceiling or a baseline; anything above was meant in per cent
MOST_BYTES = 1_000_000
END = "# End of the policy."  # the last line of a policy that ENDED announces; without it, the file was truncated
ENDED = f'# This file ends with the line "{END}"; without it, it was truncated and is refused.'
PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)")
BENCHES = ("bench-failed", "bench-low", "bench-unsteady", "bench-skipped")
TO = (Severity.ERROR.value, Severity.WARNING.value)


@record
class Written:
    """A policy with its file, and the line of each of its keys: ("bench", "least", "hbm.*")."""

    policy: Policy = field(default_factory=Policy)
    path: str = ""
    lines: Mapping[Key, int] = field(default_factory=dict)
    base: tuple[str, ...] = ()

    def place(self, *key: str | int) -> str | None:
        """Return the file and line of a key, or of the nearest one around it; None without a file."""
        return f"{self.path}:{line_of((*self.base, *key), self.lines)}" if self.path else None

    def beside(self, name: str) -> Path:
        """Return the file that the policy names, relative to the policy unless the path is absolute."""
        return Path(self.path).parent / name


def find(folder: Path) -> Path | None:
    """Return the policy nearest to a folder, upwards: gpustack.toml, else a pyproject.toml with [tool.gpustack]."""
    for place in (folder, *folder.parents):
        if (place / NAME).is_file():
            return place / NAME
        project = place / PROJECT
        if project.is_file() and HEADER.search(_text(project)):
            return project
    return None


def load(path: Path) -> Written:
    """Return the policy in a file; raises InputError, with file, line and key, for an invalid or empty one."""
    written = read(_text(path), str(path), SECTION if path.name == PROJECT else ())
    depth = len(written.base)
    if not any(key[:depth] == written.base and len(key) > depth for key in written.lines):
        raise InputError(
            f"{path} requires nothing: the policy in it is empty, or only comments; remove it to check without one, "
            "or write one with: gpustack check --init --force"
        )
    return written


def read(text: str, path: str = NAME, base: tuple[str, ...] = ()) -> Written:
    """Return the policy in a text, below the table ``base``; raises InputError for an invalid one."""
    if ENDED in text and not text.rstrip().endswith(f"\n{END}"):
        raise InputError(f'{path} is truncated: its last line is not "{END}"; restore it, or remove the line about it')
    try:
        held: Any = toml(text)
    except (ValueError, RecursionError) as error:
        if type(error).__name__ == "TOMLDecodeError":
            raise _malformed(str(error), path, text) from error
        raise InputError(f"{path}:1: this TOML cannot be read: {type(error).__name__}") from error
    lines = find_lines(text)
    table = Table(held=held, path=path, lines=lines)
    for name in base:
        inside = table.table(name)
        if inside is None:
            raise InputError(f"{path}:1: there is no [{'.'.join(base)}] in it, where the policy would be")
        table = inside
    return Written(policy=_policy(table), path=path, lines=lines, base=base)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read: {why}") from error
    if len(data) > MOST_BYTES:
        raise InputError(f"{path}: more than {MOST_BYTES // 1_000_000} MB is too large for a policy")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: this is not UTF-8, the encoding of TOML") from error


def _malformed(says: str, path: str, text: str) -> InputError:
    """Return the one line for invalid TOML: the parser's own words, preceded by the line."""
    place = PLACE.search(says)
    last = text.rstrip().count("\n") + 1
    line = int(place[1]) if place and place[1] else last
    return InputError(f"{path}:{line}: this is not valid TOML: {PLACE.sub('', says)}")


def keys(kind: type) -> tuple[str, ...]:
    """Return the keys of one of the policy's types as they are written in the file."""
    return tuple(one.name.rstrip("_").replace("_", "-") for one in fields(kind))


def _policy(table: Table) -> Policy:
    table.only(keys(Policy))
    gpus, bench = table.table("gpus"), table.table("bench")
    use, golden = table.table("in-use"), table.table("golden")
    return Policy(
        for_=Purpose(table.choice("for", [one.value for one in Purpose]) or Purpose.ANY),
        components=table.each("components", _component),
        gpus=_gpus(gpus) if gpus else None,
        frameworks=_frameworks(table),
        ignore=tuple(map(_ignored, table.tables("ignore"))),
        raise_=tuple(map(_raised, table.tables("raise"))),
        bench=_figures(bench) if bench else Figures(),
        in_use=_use(use) if use else InUse(),
        golden=_golden(golden) if golden else Golden(),
    )


def _frameworks(table: Table) -> tuple[str, ...]:
    named = table.words("frameworks") or ()
    for name in named:
        if ALSO.get(name, name) not in FRAMEWORKS:
            known = ", ".join(FRAMEWORKS)
            raise table.wrong(f"whether {shown(name)} works cannot be checked; these can: {known}", "frameworks")
    return tuple(ALSO.get(name, name) for name in named)


def _component(table: Table, name: str) -> str:
    if isinstance(table.held[name], dict):
        raise table.wrong(f'text is expected; a name with a dot in it needs quotes: "{name}...."', name)
    said = table.text(name) or ""
    return said if said == PRESENT else _range(table, name, said)


def _range(table: Table, key: str, said: str) -> str:
    """Return a valid range of versions."""
    if is_specifier(said):
        return said
    meant = f'write ">={said}" or "=={said}"' if re.fullmatch(r"[\w.+-]+", said, re.ASCII) else 'such as ">=2.6,<3"'
    raise table.wrong(f"{shown(said)} is not a range of versions: {meant}", key)


def _gpus(table: Table) -> Gpus:
    table.only(keys(Gpus))
    worded = isinstance(table.held.get("count"), str)
    count = _range(table, "count", table.needed("count")) if worded else table.whole("count")
    capability = table.text("compute-capability")
    return Gpus(
        count=Gpus().count if count is None else count,
        name=table.words("name") or (),
        compute_capability=capability and _range(table, "compute-capability", capability),
        memory_gib=table.number("memory-gib"),
    )


def _ignored(table: Table) -> Ignored:
    table.only(keys(Ignored))
    until = table.day("until")
    if until is None:
        raise table.wrong("until is missing: the last day on which it is ignored, such as 2027-01-31")
    return Ignored(finding=_finding(table), reason=table.needed("reason"), until=until)


def _raised(table: Table) -> Raised:
    table.only(keys(Raised))
    to = Severity(table.choice("to", TO) or Severity.ERROR)
    return Raised(finding=_finding(table), reason=table.needed("reason"), to=to, until=table.day("until"))


def _finding(table: Table) -> str:
    """Return the id, key or pattern of findings; one that cannot match any is an error."""
    said = table.needed("finding")
    if not any(fnmatchcase(known, said.partition("@")[0]) for known in (*rule.ids(), *BENCHES)):
        raise table.wrong(f"no finding has the id {shown(said)} (docs/findings.md lists them)", "finding")
    return said


def _figures(table: Table) -> Figures:
    table.only(keys(Figures))
    baseline = table.text("baseline")
    beside = table.each("least-of-baseline", _share)
    if beside and baseline is None:
        raise table.wrong("a minimum of a baseline needs the key baseline, which names its file", "least-of-baseline")
    return Figures(least=table.each("least", _share), baseline=baseline, least_of_baseline=beside)


def _share(table: Table, name: str) -> float:
    from gpustack.bench import listed  # noqa: PLC0415 - only a policy that speaks of benchmarks needs them

    if not any(fnmatchcase(known, name) for known in listed()):
        near = get_close_matches(name, listed(), n=3) or dict.fromkeys(f"{one.partition('.')[0]}.*" for one in listed())
        said = f"no benchmark is called {shown(name)}, but {', '.join(near)}; a name needs quotes"
        raise table.wrong(said, name)
    share = table.number(name)
    if share is None:
        raise table.wrong("a number above 0 is expected", name)
    if share > MOST_SHARE:
        raise table.wrong(f"{share:g} is a fraction: {share / 100:g} is {share:g} %", name)
    return share


def _use(table: Table) -> InUse:
    table.only(keys(InUse))
    return InUse(memory_mib=table.whole("memory-mib"), processes=table.words("processes"))


def _golden(table: Table) -> Golden:
    table.only(keys(Golden))
    return Golden(snapshot=table.text("snapshot"), may_differ=table.words("may-differ") or ())
