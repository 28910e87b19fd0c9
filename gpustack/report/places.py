"""Where a finding is located, for readers that want a file: a line of the policy, or a file that it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.report.page import clean
from gpustack.report.parts import diagnosis

if TYPE_CHECKING:
    from gpustack.model.check import Held
    from gpustack.model.report import Finding
    from gpustack.report.parts import Reported, Told

POLICY = "gpustack.toml"  # where a reader can do something about what has no file of its own
STANDARD_INPUT = "-"
LINE = re.compile(r"(?P<path>.+):(?P<line>[1-9][0-9]{0,8})")
PATH = re.compile(r"[~/][^\s,]*/[^\s,/]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file, and the line of it where that is known."""

    path: str
    line: int | None = None


def of_row(row: Held) -> Place:
    """Give the line of the policy that asks for it."""
    found = LINE.fullmatch(clean(row.place or ""))
    return Place(path=found["path"], line=int(found["line"])) if found else Place(path=clean(row.place or POLICY))


def of_finding(finding: Finding, reported: Reported, told: Told) -> Place:
    """Give the pasted file that a finding rests on; on this machine the file that it is about, else the policy."""
    if told.origins:
        files = [path for origin, path in told.origins.items() if origin != STANDARD_INPUT]
        named = (source for one in finding.because for source in _pasted(one.source, told.origins))
        return Place(path=clean(next(named, files[0] if files else POLICY)))
    return Place(path=clean(next(_files(finding, reported), POLICY)))


def _pasted(source: str, origins: Mapping[str, str]) -> Iterator[str]:
    """Give the files among those given that a source names: "issue.txt (in words), other.txt"."""
    for part in source.split(", "):
        path = part.removesuffix(" (in words)")
        for origin, shown in origins.items():
            if path == origin:
                yield shown
            elif path.startswith(f"{origin.rstrip('/')}/"):
                yield shown.rstrip("/") + path[len(origin.rstrip("/")) :]


def _file(source: str) -> bool:
    """Return whether a source is the path of a file, whose name has an ending."""
    return bool(PATH.fullmatch(source)) and "." in source.rpartition("/")[2][1:-1]


def _files(finding: Finding, reported: Reported) -> Iterator[str]:
    """Give the files that a finding is about: those its own facts were read from, then where its component lies."""
    own = [one.source for one in finding.because if one.component == finding.component]
    yield from (source for source in own if _file(source) and not source.startswith(("/proc/", "/sys/")))
    report = diagnosis(reported)
    for component in report.components if report else ():
        if component.id == finding.component:
            copies = (copy.path for copy in component.instances if finding.instance in {copy.key, copy.path})
            yield from filter(None, (*copies, component.path))
