"""Messages of programs, and Xids of the kernel's log as events, what follows from another merged with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import from_text, on_bus
from gpustack.diagnose.machine.values import at, copies, items, number, text, told
from gpustack.model import record
from gpustack.model.report import Because

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue, Message

MESSAGE = "message"
# Words of something that does not work.
FAILURES = {
    *("error", "errors", "failed", "fails", "failure", "fault"),
    *("crash", "crashes", "segmentation", "aborted", "traceback", "cannot"),
}


def said(facts: Facts, *kinds: str) -> tuple[Message, ...]:
    """Return the messages of these kinds, in order."""
    return tuple(one for one in facts.messages if one.kind in kinds)


def holding(facts: Facts, kind: str, *names: str) -> tuple[Message, ...]:
    """Return the messages of one kind that have all these values."""
    return tuple(one for one in said(facts, kind) if all(one.values.get(name) for name in names))


def heard(facts: Facts, *kinds: str) -> bool:
    """Return whether there is a message of these kinds."""
    return any(one.kind in kinds for one in facts.messages)


def fails(words: Iterable[str]) -> bool:
    """Return whether these words tell of a failure, as the names of exceptions do."""
    return any(one in FAILURES or one.endswith(("error", "exception")) for one in words)


def value(facts: Facts, kind: str, *names: str) -> str | None:
    """Return the first value with one of these names in the messages of one kind."""
    return next((one.values[name] for one in said(facts, kind) for name in names if one.values.get(name)), None)


def because_said(message: Message) -> Because:
    """Return a message as evidence for a finding."""
    return Because(component=MESSAGE, fact=message.kind, value=message.line, source=message.origin)


def grounds(facts: Facts, *kinds: str, most: int = 4) -> tuple[Because, ...]:
    """Return the first few messages of these kinds as evidence."""
    return tuple(because_said(one) for one in said(facts, *kinds)[:most])


CLEANUP, STOPPED, LINK, SUMMARY = 45, 43, 74, 154
# What a program on the GPU does wrong by itself. Source: NVIDIA's Xid catalogue (compat-matrix/xid.toml).
APPLICATION = frozenset({13, 31, STOPPED, CLEANUP, 68})
MEMORY = frozenset({48, 63, 64, 94, 95, 140})
# An event of the first number that follows one of the others adds nothing new.
FOLLOWS = {
    CLEANUP: MEMORY | APPLICATION | {LINK, 79, 119, 120},
    STOPPED: MEMORY | {13, 31, LINK, 79, 119, 120},
    **dict.fromkeys(MEMORY, MEMORY),
}
TOGETHER = 120.0  # seconds between related events
RESTARTED = 1.0  # a larger step back than between lines of two processors: a new start
ASKED = re.compile(r"to (?:0x[0-9a-fA-F]{1,8} )?\(([^)]{1,60})\)")
# Source: NVIDIA/open-gpu-kernel-modules 595.45.04: src/nvidia/src/kernel/gpu/rc/kernel_rc.c
BEFORE = re.compile(r" caused by previous Xid (\d{1,4})\b")


@record
class Event:
    """One Xid of a GPU: the driver's own number for what went wrong, with what came of it.

    ``pci`` is None if only a person's words (``spoken``), not the kernel's log, mention it. ``count`` is how often it
    occurred since the start, ``after`` the events that follow from it, ``asked`` the recovery that the driver asked for
    last.
    """

    pci: str | None
    code: int
    words: str = ""
    spoken: tuple[Message, ...] = ()
    count: int = 1
    after: tuple[tuple[int, int], ...] = ()
    asked: str | None = None
    process: str | None = None
    links: int = 0

    @property
    def place(self) -> str:
        """The GPU, for the beginning of a title."""
        return f"The GPU at {self.pci}" if self.pci else "A GPU"

    @property
    def grounds(self) -> tuple[Because, ...]:
        """The evidence for a finding on it: the event itself, or what was written about it."""
        return tuple(because_said(one) for one in self.spoken[:4]) or (self.because,)

    @property
    def because(self) -> Because:
        """The event as evidence for a finding."""
        value = f"Xid {self.code} at {self.pci}: {self.words}".rstrip(": ")
        more = [f"{self.count} times"] if self.count > 1 else []
        more += [f"with Xid {code}" + (f" {times} times" if times > 1 else "") for code, times in self.after]
        more += [f"{self.links} SXids of switches"] if self.links else []
        more += [f"the driver asks for: {self.asked}"] if self.asked else []
        said = f"{value} ({'; '.join(more)})" if more else value
        return Because(component="kernel-log", fact="xids", value=said, source="kernel log")


@dataclass(slots=True)
class Chain:
    """Related events of one GPU, the leading one first."""

    pci: str
    lead: int
    said: list[JsonValue]

    @property
    def codes(self) -> Counter[int]:
        """How often each number occurred."""
        return Counter(code for one in self.said if (code := number(one, "code")) is not None)


def xids(facts: Facts, *codes: int) -> Iterator[Event]:
    """Return for each GPU the events with these numbers since the start, the most severe number first."""
    for pci in dict.fromkeys(chain.pci for chain in chains(facts)):
        fitting = [chain for chain in chains(facts) if chain.pci == pci and chain.codes.keys() & set(codes)]
        if fitting:
            yield _event(fitting, codes, facts)


def faults(facts: Facts, *codes: int, spoken: tuple[Message, ...] = ()) -> tuple[Event, ...]:
    """Return each GPU's last event with one of these numbers; without one in the log, what was written about it.

    ``spoken`` are messages that imply the first of these numbers without naming it.
    """
    logged = {event.pci: event for event in xids(facts, *codes)}
    named = tuple(one for one in said(facts, "xid-named") if _code(one) in codes)
    written = (*spoken, *named)
    if logged or not written:
        return tuple(logged.values())
    on_this = () if from_text(facts) else (copy.key for copy in on_bus(facts, "nvidia"))
    placed = {key for key in on_this for one in written if key.removesuffix(".0") in one.line.lower()}
    named_here = next(iter(placed)) if len(placed) == 1 else None
    pci = next((one.values["pci"] for one in written if one.values.get("pci")), named_here)
    return (Event(pci=pci, code=next((_code(one) for one in named), codes[0]), spoken=written),)


def _code(message: Message) -> int:
    said = message.values.get("code") or ""
    return int(said) if said.isdecimal() else 0


def named(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, Message]]:
    """Yield each Xid that a text names by number, with the finding that it mostly leads to."""
    for one in said(facts, "xid", "xid-named"):
        row = matrix.xids.get(_code(one))
        yield (row and row.finding) or "gpu-xid", one


def faults_of_programs(facts: Facts) -> Iterator[Event]:
    """Return for each GPU the Xids caused by programs themselves, excluding consequences of a GPU fault."""
    own = [chain for chain in chains(facts) if chain.lead in APPLICATION]
    for pci in dict.fromkeys(chain.pci for chain in own):
        mine = [chain for chain in own if chain.pci == pci]
        yield _event(mine, tuple(dict.fromkeys(chain.lead for chain in reversed(mine))), facts)


def chains(facts: Facts) -> list[Chain]:
    """Return the events since the last start, in order, each with its consequences."""
    found: list[Chain] = []
    for one in _this_start(_logged(facts)):
        pci, code = text(one, "pci"), number(one, "code")
        if pci is None or code is None or code == SUMMARY:
            continue
        cause = BEFORE.search(text(one, "text") or "")
        if cause and not any(chain.pci == pci and int(cause[1]) in chain.codes for chain in found):
            found.append(
                Chain(pci, int(cause[1]), [{"pci": pci, "code": int(cause[1]), "text": f"named by Xid {code}"}])
            )
        if cause:
            next(chain for chain in found if chain.pci == pci and int(cause[1]) in chain.codes).said.append(one)
            continue
        before = next((chain for chain in reversed(found) if chain.pci == pci and _follows(one, code, chain)), None)
        if before:
            before.said.append(one)
        else:
            found.append(Chain(pci, code, [one]))
    return found


def _logged(facts: Facts) -> tuple[JsonValue, ...]:
    """Return the Xids in the kernel's log; if it has none or was not read, those recorded for each GPU."""
    return items(told(facts, "kernel-log"), "xids") or tuple(
        one for copy in copies(facts, "gpu") for one in items(copy.facts, "xids")
    )


def asked_for(facts: Facts, pci: str) -> str | None:
    """Return the last recovery that the driver requested in the log (Xid 154), or None."""
    said = _this_start(_logged(facts))
    last = [text(one, "text") or "" for one in said if (text(one, "pci"), number(one, "code")) == (pci, SUMMARY)]
    match = ASKED.search(last[-1]) if last else None
    return match[1] if match and match[1].lower() != "none" else None


def _event(found: list[Chain], codes: tuple[int, ...], facts: Facts) -> Event:
    counts = sum((chain.codes for chain in found), Counter[int]())
    code = next(code for code in codes if counts[code])
    last = [one for chain in found for one in chain.said if number(one, "code") == code][-1]
    switches = items(told(facts, "kernel-log"), "sxids") if code == LINK else ()
    return Event(
        pci=found[0].pci,
        code=code,
        words=text(last, "text") or "",
        count=counts[code],
        after=tuple(sorted((other, times) for other, times in counts.items() if other != code)),
        asked=asked_for(facts, found[0].pci),
        process=text(last, "process"),
        links=len(switches),
    )


def _follows(one: JsonValue, code: int, chain: Chain) -> bool:
    """Return whether an event belongs to a chain: a recent event in it explains it."""
    explains = bool(chain.codes.keys() & FOLLOWS.get(code, frozenset())) and code != chain.lead
    then, now = _seconds(chain.said[-1]), _seconds(one)
    return explains and (then is None or now is None or now - then <= TOGETHER)


def _this_start(said: tuple[JsonValue, ...]) -> tuple[JsonValue, ...]:
    """Return the events since the machine's last start: where the log's clock steps back, an older start ends."""
    begins, before = 0, 0.0
    for place, one in enumerate(said):
        now = _seconds(one)
        if now is not None:
            begins = place if now < before - RESTARTED else begins
            before = now
    return said[begins:]


def _seconds(one: JsonValue) -> float | None:
    value = at(one, "seconds")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
