"""Take out of facts what tells who and where; one secret has one placeholder, so that facts still join."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar, cast

from gpustack.model.report import Because
from gpustack.secret_shapes import PLACEHOLDER, find, learn, named

if TYPE_CHECKING:
    from pwd import struct_passwd

    from _typeshed import DataclassInstance

Thing = TypeVar("Thing")
Change = Callable[[str, Sequence[str]], str]

# Names of accounts and machines that many share: they tell nobody, and are words of the stack besides.
_SHARED = """root ubuntu debian fedora centos rocky alpine user users admin test guest nvidia cuda gpu gpus cpu vm
localhost docker container runner jovyan vagrant ec2-user azureuser conda mamba app dev work worker node server host
linux python torch pytorch jax default build builder jenkins ray spark dask vllm triton ollama linuxbrew shared public
home data opt usr lib bin src model models kernel systemd mac email serial secret uuid"""
SHARED = frozenset(_SHARED.split())
FACT = re.compile(r"[a-z][a-z0-9_]*")
LEAST_NAME, LEAST_SERIAL = 3, 6
MOST_ROUNDS = 5


def redact(thing: Thing, mine: Mapping[str, str] | None = None) -> Thing:
    """Give the same facts (or report) without names of people and machines, addresses, serial numbers and secrets.

    ``mine`` are words that are secret wherever they stand, with their kinds, such as ``ourselves`` gives. Redacting
    what is redacted changes nothing. Layers, versions, PCI addresses and the names of facts stay as they are.
    """
    texts = list(_texts(thing, ()))
    ledger = Ledger(taken={match[0] for text, _ in texts for match in PLACEHOLDER.finditer(text)})
    ours = {text for text, names in texts if names[-1:] == ("id",)}
    for text, names in texts:
        for kind, word in learn(text, names):
            if word not in ours:
                ledger.learn(kind, word)
    for word, kind in (mine or {}).items():
        ledger.learn(kind, word)
    words = ledger.words()
    return cast("Thing", _changed(thing, (), lambda text, names: _clean(text, names, ledger, words)))


def ourselves(environ: Mapping[str, str]) -> dict[str, str]:
    """Give who runs this, and his home folder, as words and their kinds: not every home lies below /home.

    A folder that many share, such as /data, is no home that tells anything.
    """
    account = _account()
    names = {environ.get(name, "") for name in ("USER", "LOGNAME")} | {account.pw_name if account else ""}
    homes = {environ.get("HOME", "").rstrip("/"), account.pw_dir.rstrip("/") if account else ""}
    own = {home: "home" for home in homes if home.count("/") > 1 and home.rpartition("/")[2].lower() not in SHARED}
    return {**dict.fromkeys(filter(None, names), "user"), **own}


def _account() -> struct_passwd | None:
    """Give the row of our account; None where there is none, as in containers, or no such table."""
    try:
        import pwd  # noqa: PLC0415 - Windows has none

        return pwd.getpwuid(os.getuid())
    except (ImportError, KeyError, OSError):
        return None


@dataclass(slots=True)
class Ledger:
    """Which placeholder stands for which secret; ``taken`` are those that the facts had before."""

    taken: set[str]
    given: dict[tuple[str, str], str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def placeholder(self, kind: str, secret: str) -> str:
        """Give the placeholder for this secret, the next of its kind when it is new."""
        if (kind, secret) not in self.given:
            self.given[kind, secret] = self._home(secret) if kind == "home" else self._next(kind)
        return self.given[kind, secret]

    def learn(self, kind: str, word: str) -> None:
        """Keep a word that is to be found wherever it stands."""
        tells = word.lower() not in SHARED and not PLACEHOLDER.fullmatch(word)
        if tells and len(word) >= (LEAST_SERIAL if kind == "serial" or word.isdecimal() else LEAST_NAME):
            self.known.setdefault(word, kind)

    def words(self) -> re.Pattern[str] | None:
        """Give a pattern that finds the words that were learnt, the longest first."""
        if not self.known:
            return None
        ordered = sorted(self.known, key=lambda word: (-len(word), word))
        return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, ordered))})(?![A-Za-z0-9])")

    def _next(self, kind: str) -> str:
        number = 1
        while f"{kind}-{number}" in self.taken:
            number += 1
        self.taken.add(f"{kind}-{number}")
        return f"{kind}-{number}"

    def _home(self, folder: str) -> str:
        """Give ``~`` for the first home folder, and what a shell would write for another's."""
        if all(kind != "home" for kind, _ in self.given):
            return "~"
        return "~root" if folder == "/root" else f"~{self.placeholder('user', folder.rpartition('/')[2])}"


def _clean(text: str, names: Sequence[str], ledger: Ledger, words: re.Pattern[str] | None) -> str:
    """Give the text without secrets; once more where taking one out laid another bare."""
    for _ in range(MOST_ROUNDS):
        before, text = text, _once(text, names, ledger, words)
        if text == before:
            break
    return text


def _once(text: str, names: Sequence[str], ledger: Ledger, words: re.Pattern[str] | None) -> str:
    parts, end = [], 0
    for found in find(text, names):
        parts += [text[end : found.start], ledger.placeholder(found.kind, found.secret)]
        end = found.end
    shaped = "".join([*parts, text[end:]])
    return words.sub(lambda match: ledger.placeholder(ledger.known[match[0]], match[0]), shaped) if words else shaped


def _texts(thing: object, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give every text in a thing with the names that it stands under."""
    if isinstance(thing, Enum):
        return
    if isinstance(thing, str) or _is_serial(thing, names):
        yield str(thing), names
    elif is_dataclass(thing) and not isinstance(thing, type):
        for called, held in _fields(thing).values():
            yield from _texts(held, (*names, called))
    elif isinstance(thing, Mapping):
        for name, held in thing.items():
            yield name, ()
            yield from _texts(held, (*names, name))
    elif isinstance(thing, tuple):
        for held in thing:
            yield from _texts(held, names)


def _changed(thing: object, names: tuple[str, ...], change: Change) -> object:
    """Give the thing with every text in it changed, and the names of facts that are no plain words."""
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
    """Give the fields of one of our types, each with what its value is called: that of a reason by its fact."""
    called = {"value": thing.fact.rpartition(".")[2]} if isinstance(thing, Because) else {}
    return {one.name: (called.get(one.name, one.name), getattr(thing, one.name)) for one in fields(thing)}


def _is_serial(thing: object, names: Sequence[str]) -> bool:
    """Tell whether a number is a serial number; no other number is a secret."""
    return (
        isinstance(thing, int)
        and not isinstance(thing, bool)
        and bool(names)
        and named(str(thing), names[-1]) == "serial"
    )


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Give the name, or one like it that is free."""
    while name in taken:
        name += "'"
    return name
