"""What words mean: a finding, a number, a message, a component, a layer or a term of the stack, explained."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpustack.model.command import Command
from gpustack.model.facts import Layer
from gpustack.model.report import Row


class Kind(str, Enum):
    """What a meaning is the meaning of. A system is one of the stack map; a term is a word of the field."""

    FINDING = "finding"
    CODE = "code"
    MESSAGE = "message"
    SYSTEM = "system"
    TERM = "term"
    LAYER = "layer"
    ARCHITECTURE = "architecture"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """A finding that something leads to: its id, what it says in a sentence, and the rest of its text."""

    id: str
    title: str
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """One thing that the words name.

    ``says`` are paragraphs; ``cause`` is what is mostly behind it and ``fix`` what to do; ``stands_on`` and ``carries``
    name what it needs and what needs it; ``holds`` is what a layer consists of; each of ``see`` is a command that shows
    it on a machine that has it, each of ``commands`` one that mends it; ``findings`` are what it leads to when
    something is wrong.
    """

    kind: Kind
    id: str
    title: str
    layer: Layer | None = None
    says: tuple[str, ...] = ()
    cause: str | None = None
    fix: str | None = None
    stands_on: tuple[str, ...] = ()
    carries: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    findings: tuple[Lead, ...] = ()
    row: Row | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All meanings of some words, the likeliest first.

    ``near`` are names that were perhaps meant, where nothing was found; ``missing`` are readings that the matrix does
    not know, such as "CUDA error 79".
    """

    words: str
    meanings: tuple[Meaning, ...] = ()
    near: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether anything is known."""
        return bool(self.meanings)
