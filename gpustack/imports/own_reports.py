"""Our own reports and the output of pip inspect, JSON that is read back; and a snapshot merged with texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpustack import snapshots
from gpustack.errors import InputError
from gpustack.imports.messages import ESCAPES
from gpustack.model.facts import Component, Instance, JsonValue, Status, Strength, Unseen
from gpustack.snapshots import first

BEGIN = re.compile(r'\{\s*"version"\s*:\s*"1"\s*,\s*"pip_version"')
PLAIN = re.compile(r"[\w.+!-]{1,80}")
OURS = re.compile(r'\{\s*"schema"\s*:\s*"(?P<schema>gpustack\.[\w-]+/\d+)"')
GAP = r"\s+(?:>\s*)?"
# As written now, and by earlier versions.
MORE = "-v adds the stack and all evidence; --format html (?:makes a page to share|is a page to send).".replace(
    " ", GAP
)
# The last line of a report, as text and as Markdown, and its possible first words.
FOOT = re.compile(
    rf"^[ \t>]*{MORE}(?:{GAP}[^\n]{{0,200}}explain{GAP}[\w-]+{GAP}says{GAP}why\.)?|"
    r"^[ \t>]*gpustack \d[\w.+-]*,\s+(?:>\s*)?matrix\s+(?:>\s*)?of\s+(?:>\s*)?\d{4}-\d\d-\d\d\b[^\n]*"
    r"(?:\n[^\n]{0,80}(?:tells|says) [^\n]{0,80}\.(?=\n|\Z))?(?:\n[ \t>]*(?:and|times)[^\n]{0,20}\.(?=\n|\Z))?"
    r"|<sub>gpustack \d[\w.+-]*, matrix of [^\n]*",
    re.MULTILINE,
)
HEAD = re.compile(
    r"^[ \t>]*\S{1,4} (?:HEALTHY|DEGRADED|BROKEN|NO GPU|NOT KNOWN|UNKNOWN|OK|BAD [A-Z]+)\b[^\n]*"
    r"|^[ \t>]*\d+ of \d+ (?:components of the GPU stack are present|components of the GPU stack are present)"
    r"|^[ \t>]*#{1,3} \S{1,3} gpustack: ",
    re.MULTILINE,
)
# For a report without its end: the title of a finding, its place, and what follows them.
TITLE = re.compile(r"^[ \t>#]*\S{1,4} (?:error|warning|note|unknown): ", re.MULTILINE)
PLACE = re.compile(r"^[^\n]*\bin\s+the\s+[\w-]+\s+layer\s+\([\w.-]+\)", re.MULTILINE)
REASONS = re.compile(
    r"^[ \t>*-]*(?:How we know|What to type|For maintainers: |To decide: |THE STACK, TOP FIRST\b)"
    r"|^[ \t>]*Fix(?: \([a-z ]+\))?: ",
    re.MULTILINE,
)
# The other formats: each line, or the whole between two marks.
OTHERS = re.compile(
    r"^[^\n]*<title>gpustack: [\s\S]*?(?:</html>|\Z)"
    r"|(?:<\?xml[^\n]{0,80}\n)?[ \t]{0,16}<testsuites name=\"gpustack\"[\s\S]*?(?:</testsuites>|\Z)"
    r"|^::(?:error|warning|notice) [^\n]*%0AHow we know:%0A[^\n]*"
    r"|^GPUSTACK (?:OK|WARNING|CRITICAL|UNKNOWN) - [^\n]*(?:\n(?:policy|error|warning|info|unknown|note): [^\n]*)*"
    r"|^(?:# (?:HELP|TYPE) )?gpustack_\w+[ {][^\n]*",
    re.MULTILINE,
)
SARIF = re.compile(r'"driver"\s*:\s*\{\s*"name"\s*:\s*"gpustack"')


def told(text: str) -> str:
    """Return a text with each such report replaced by the list of ``pip freeze``; descriptions are ignored."""
    parts: list[str] = []
    at = 0
    while begun := BEGIN.search(text, at):
        parts.append(text[at : begun.start()])
        try:
            said, at = first(text, begun.start(), "what pip inspect printed")
        except (ValueError, RecursionError):
            return "\n".join(parts)
        parts += _lines(said)
    return "\n".join((*parts, text[at:]))


def _lines(said: Mapping[str, Any]) -> Iterator[str]:
    around = said.get("environment")
    python = around.get("python_full_version") if isinstance(around, dict) else None
    if isinstance(python, str) and PLAIN.fullmatch(python):
        yield f"Python {python}"
    held = said.get("installed")
    for one in held if isinstance(held, list) else ():
        about = one.get("metadata") if isinstance(one, dict) else None
        name, version = (about.get("name"), about.get("version")) if isinstance(about, dict) else (None, None)
        if isinstance(name, str) and isinstance(version, str) and PLAIN.fullmatch(name) and PLAIN.fullmatch(version):
            yield f"{name}=={version}"


class Parted(NamedTuple):
    """The snapshots in a text, the rest of it, and whether a report was removed."""

    recorded: tuple[Mapping[str, Any], ...]
    text: str
    less: bool


def part(origin: str, text: str) -> Parted:
    """Remove this program's own output from a text; raises InputError if a snapshot in it is cut off."""
    text = ESCAPES.sub("", text)
    recorded: list[Mapping[str, Any]] = []
    left, at = [], 0
    for start, end, said in _objects(origin, text):
        left.append(text[at:start])
        at = end
        if str(said.get("schema")).startswith("gpustack.snapshot/"):
            recorded.append(said)
    held = "".join((*left, text[at:]))
    rest = _without(held)
    return Parted(tuple(recorded), rest, len(rest) < len(held) or (bool(left) and not recorded))


def _objects(origin: str, text: str) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Yield the start, end and content of each of our JSON objects in a text, quoted or not."""
    at = 0
    while found := OURS.search(text, at):
        start = found.start()
        said, at = _object(origin, text, start, found["schema"])
        yield start, at, said


def _object(origin: str, text: str, start: int, schema: str) -> tuple[Mapping[str, Any], int]:
    try:
        said, at = snapshots.first(text, start, origin)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin} holds {schema}, and it is cut off or damaged: {snapshots.why(error)}") from error
    return said, at


def _without(text: str) -> str:
    """Return a text without its reports."""
    if SARIF.search(text):
        return ""
    text = OTHERS.sub("", _above_and_below(text))
    parts = [found for one in (HEAD, TITLE, PLACE) if (found := one.search(text))]
    reasons = REASONS.search(text)
    return text[: min(one.start() for one in (*parts, reasons))] if parts and reasons else text


def _above_and_below(text: str) -> str:
    """Return a text without the reports that end with our last line, and without a headless report's body."""
    kept: list[str] = []
    at = 0
    for foot in FOOT.finditer(text):
        head = HEAD.search(text, at, foot.start())
        kept = kept if head else []
        kept += [text[at : head.start() if head else at], "\n"]
        at = foot.end()
    return "".join((*kept, text[at:].removesuffix("</sub>") if at else text))


# Facts with one value per machine that do not change while it runs.
SETTLED = frozenset({"version", "version_loaded", "version_on_disk", "flavour", "cuda_version", "driver_cuda"})


class Learnt(NamedTuple):
    """A fact's value, how it was obtained, and where."""

    value: JsonValue
    strength: Strength
    source: str

    def differs(self, other: Learnt) -> bool:
        """Return whether two values are incompatible; one may be the other cut short (580 and 580.95.05)."""
        one, two = str(self.value), str(other.value)
        return not (one.startswith(two) or two.startswith(one))


def conflict(component: str, name: str, used: Learnt, other: Learnt) -> Unseen:
    """Return that two sources disagree on a fact, and which of them is used."""
    why = f"{other.source} has {other.value} ({other.strength.value})"
    why += f"; {used.source} has {used.value} ({used.strength.value}), which is stronger evidence and is used"
    return Unseen(what=f"{component} {name}", why=why)


MEASURED = "the snapshot"


def join(
    measured: tuple[Component, ...], told: tuple[Component, ...]
) -> tuple[tuple[Component, ...], tuple[Unseen, ...]]:
    """Return the components of both, each once, and their disagreements."""
    texts = {one.id: one for one in told}
    kept = tuple(texts.get(one.id, one) if one.status is Status.UNKNOWN else one for one in measured)
    known = {one.id for one in kept}
    conflicts = tuple(found for one in kept if one.id in texts for found in _conflicts(one, texts[one.id]))
    return (*kept, *(one for one in told if one.id not in known)), conflicts


def _conflicts(measured: Component, told: Component) -> Iterator[Unseen]:
    """Yield each definite fact of a text that no copy in the snapshot agrees with."""
    copies = [_settled(copy, MEASURED) for copy in measured.instances]
    none = [Learnt("none", Strength.MEASURED, MEASURED)] if measured.status is Status.ABSENT else []
    for copy in told.instances:
        for name, said in _settled(copy, told.source).items():
            known = [held[name] for held in copies if name in held] if measured.instances else none
            if known and all(one.differs(said) and one.strength.beats(said.strength) for one in known):
                yield conflict(measured.id, name, known[0], said)


def _settled(copy: Instance, source: str) -> dict[str, Learnt]:
    held = {"version": copy.version, **copy.facts}
    return {
        name: Learnt(value, copy.strengths.get(name, Strength.MEASURED), source)
        for name, value in held.items()
        if name in SETTLED and value is not None
    }
