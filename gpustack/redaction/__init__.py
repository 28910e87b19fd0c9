"""Remove from facts what identifies people and places; each secret has one placeholder, so that facts still join."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar, cast

from gpustack.model.report import Because
from gpustack.redaction.form import PLACEHOLDER, WORDS, Found, find, learn, named, visible

if TYPE_CHECKING:
    from pwd import struct_passwd

    from _typeshed import DataclassInstance

Thing = TypeVar("Thing")
Change = Callable[[str, Sequence[str]], str]
Finder = Callable[[str, Sequence[str]], Iterable[Found]]

SHARED = WORDS["SHARED"]
FACT = re.compile(r"[a-z][a-z0-9_]*")
LEAST_NAME, LEAST_SERIAL = 3, 6
DIGITS = 12  # digits of a pseudonym: two of 10 000 machines share one once in 20 000 fleets
MOST_ROUNDS = 5
MOST_LINE, ROOM = 16_384, 512  # letters of a line; a cut goes back no further than this
RUN = re.compile(r"[A-Za-z0-9]+|[^\W_A-Za-z0-9]")
BREAK = re.compile(r"[\s\"',;&|]")
WHOSE = ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "DOAS_USER", "SLURM_JOB_USER", "PBS_O_LOGNAME", "NB_USER")
WHERE = ("HOSTNAME", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST", "PBS_O_HOST")


def redact(thing: Thing, mine: Mapping[str, str] | None = None, key: bytes = b"", hosts: Iterable[str] = ()) -> Thing:
    """Return the same facts (or report) without names of people and machines, addresses, serial numbers and secrets.

    ``mine`` are words that are secret everywhere, with their kinds, as ``ourselves`` returns them. Redacting twice
    changes nothing more. Layers, versions, PCI addresses and the names of facts stay unchanged. With a ``key``,
    placeholders are pseudonyms: the same machine has the same ones everywhere, and nobody without the key can tell
    which machine it is. ``hosts`` are names of machines, however short.
    """
    texts = _texts(thing)
    ledger = Ledger(taken={match[0] for text, _ in texts for match in PLACEHOLDER.finditer(text)}, key=key)
    ours = {text for text, names in texts if tuple(names[-1:]) == ("id",)}
    for text, names in texts:
        for kind, word in learn(visible(cut(text))[0], names):
            if word not in ours:
                ledger.learn(kind, word)
    for word, kind in (mine or {}).items():
        ledger.learn(kind, word)
    ledger.known.update(dict.fromkeys(hosts, "host"))
    homes = Words({word: kind for word, kind in ledger.known.items() if kind == "home"})
    finders: tuple[Finder, ...] = (homes.find, find, Words(ledger.known).find)
    return cast("Thing", _changed(thing, (), lambda text, names: _clean(text, names, ledger, finders)))


def pseudonyms(key: bytes) -> Callable[[str], str]:
    """Return a function from a machine's name to its pseudonym, the same that ``redact`` uses with this key."""
    ledger = Ledger(taken=set(), key=key)
    return lambda name: ledger.placeholder("host", name)


def ourselves(environ: Mapping[str, str]) -> dict[str, str]:
    """Return who runs this and where, with the home folder, as words and their kinds; homes may be outside /home.

    A shared folder such as /data as a home identifies nobody.
    """
    account = _account()
    names = {environ.get(name, "") for name in WHOSE} | {account.pw_name if account else ""}
    hosts = {environ.get(name, "") for name in WHERE}
    hosts |= {host.partition(".")[0] for host in hosts}
    homes = {environ.get("HOME", "").rstrip("/"), account.pw_dir.rstrip("/") if account else ""}
    own = {home: "home" for home in homes if home.count("/") > 1 and home.rpartition("/")[2].lower() not in SHARED}
    return {**dict.fromkeys(filter(None, hosts), "host"), **dict.fromkeys(filter(None, names), "user"), **own}


def _account() -> struct_passwd | None:
    """Return the row of our account; None if there is none, as in containers, or no account database."""
    try:
        import pwd  # noqa: PLC0415 - Windows has none

        return pwd.getpwuid(os.getuid())
    except (ImportError, KeyError, OSError):
        return None


@dataclass(slots=True)
class Ledger:
    """The placeholder for each secret; ``taken`` are those that the facts had before.

    With a ``key`` they are pseudonyms (twelve digits of HMAC-SHA256), except for secrets that identify nobody.
    """

    taken: set[str]
    key: bytes = b""
    given: dict[tuple[str, str], str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    homes: int = 0

    def placeholder(self, kind: str, secret: str) -> str:
        """Return the placeholder for this secret, the next of its kind for a new one."""
        if (kind, secret) not in self.given:
            self.given[kind, secret] = self._home(secret) if kind == "home" else self._named(kind, secret)
        return self.given[kind, secret]

    def learn(self, kind: str, word: str) -> None:
        """Remember a word that is to be found everywhere."""
        tells = word.lower() not in SHARED and not PLACEHOLDER.fullmatch(word)
        if tells and len(word) >= (LEAST_SERIAL if kind == "serial" or word.isdecimal() else LEAST_NAME):
            self.known.setdefault(word, kind)

    def _named(self, kind: str, secret: str) -> str:
        if not self.key or kind == "secret":
            return self._next(kind)
        number = int.from_bytes(hmac.digest(self.key, f"{kind}:{secret}".encode(), "sha256")[:8], "big")
        return f"{kind}-{number % 10**DIGITS:0{DIGITS}d}"

    def _next(self, kind: str) -> str:
        while True:
            self.numbers[kind] = self.numbers.get(kind, 0) + 1
            if (name := f"{kind}-{self.numbers[kind]}") not in self.taken:
                return name

    def _home(self, folder: str) -> str:
        """Return ``~`` for the first home folder, and what a shell would write for another user's."""
        self.homes += 1
        if self.homes == 1:
            return "~"
        return "~root" if folder == "/root" else f"~{self.placeholder('user', folder.rpartition('/')[2])}"


class Words:
    """The learnt words, found everywhere: not within a longer word, the longest first.

    They are looked up by their first run of letters, so that many words take no more time than few.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self.known = known
        lengths: dict[str, set[tuple[int, int]]] = {}
        for word in known:
            if first := RUN.search(word):
                lengths.setdefault(first[0], set()).add((first.start(), len(word)))
        self.lengths = {run: sorted(held, key=lambda one: -one[1]) for run, held in lengths.items()}

    def find(self, text: str, _: Sequence[str]) -> Iterator[Found]:
        """Yield the words in this text."""
        end = 0
        for run in RUN.finditer(text) if self.lengths else ():
            for before, length in self.lengths.get(run[0], ()):
                start = run.start() - before
                word = text[start : start + length] if start >= end else ""
                if len(word) == length and word in self.known and not _joined(text, start, length):
                    end = start + length
                    yield Found(start, end, self.known[word], word)
                    break


def _joined(text: str, start: int, length: int) -> bool:
    """Return whether letters or digits touch the match."""
    sides = text[max(0, start - 1) : start], text[start + length : start + length + 1]
    return any(side.isascii() and side.isalnum() for side in sides)


def cut(text: str) -> str:
    """Return the text with each line limited in length: the rest of a line longer than any useful one is dropped."""
    return text if len(text) <= MOST_LINE else "".join(_bounded(line) for line in text.splitlines(keepends=True))


def _bounded(line: str) -> str:
    if len(line) <= MOST_LINE:
        return line
    breaks = [match.start() for match in BREAK.finditer(line, MOST_LINE - 2 * ROOM, MOST_LINE - ROOM)]
    end = breaks[-1] if breaks else MOST_LINE - ROOM
    ending = line[len(line.rstrip("\r\n")) :]
    return f"{line[:end]} [{len(line) - end} more letters were left out]{ending}"


def _clean(text: str, names: Sequence[str], ledger: Ledger, finders: Sequence[Finder]) -> str:
    """Return the text without secrets; repeated if removing one exposed another."""
    text = cut(text)
    for _ in range(MOST_ROUNDS):
        before = text
        for finder in finders:
            text = _replaced(text, names, finder, ledger)
        if text == before:
            break
    return text


def _replaced(text: str, names: Sequence[str], finder: Finder, ledger: Ledger) -> str:
    """Return the text with placeholders for its matches, including invisible letters within a secret."""
    shown, places = visible(text)
    parts, end = [], 0
    for found in finder(shown, names):
        parts += [text[end : places[found.start]], ledger.placeholder(found.kind, found.secret)]
        end = places[found.end - 1] + 1
    return "".join([*parts, text[end:]]) if parts else text


def _texts(thing: object) -> list[tuple[str, Sequence[str]]]:
    """Return every text in a thing with the names that contain it."""
    found: list[tuple[str, Sequence[str]]] = []

    def see(text: str, names: Sequence[str]) -> str:
        found.append((text, names))
        return text

    _changed(thing, (), see)
    return found


def _changed(thing: object, names: tuple[str, ...], change: Change) -> object:
    """Return the thing with every text in it changed, as well as fact names that are not plain words."""
    if isinstance(thing, Enum):
        return thing
    if isinstance(thing, str) or _is_serial(thing, names):
        return change(str(thing), names)
    if is_dataclass(thing) and not isinstance(thing, type):
        held = _fields(thing).items()
        return type(thing)(**{name: _changed(one, (*names, called), change) for name, (called, one) in held})
    if isinstance(thing, Mapping):
        made: dict[str, object] = {}
        for name, one in thing.items():
            made[_free(change(name, ()) if not FACT.fullmatch(name) else name, made)] = _changed(
                one, (*names, name), change
            )
        return made
    return tuple(_changed(one, names, change) for one in thing) if isinstance(thing, tuple) else thing


def _fields(thing: DataclassInstance) -> dict[str, tuple[str, object]]:
    """Return the fields of one of our types, each with the name of its value: for a reason, that of its fact."""
    called = {"value": thing.fact.rpartition(".")[2]} if isinstance(thing, Because) else {}
    return {one.name: (called.get(one.name, one.name), getattr(thing, one.name)) for one in fields(thing)}


def _is_serial(thing: object, names: Sequence[str]) -> bool:
    """Return whether a number is a serial number; no other number is secret."""
    return (
        isinstance(thing, int)
        and not isinstance(thing, bool)
        and bool(names)
        and named(str(thing), names[-1]) == "serial"
    )


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Return the name, or a similar unused one."""
    while name in taken:
        name += "'"
    return name
