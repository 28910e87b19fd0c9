"""What the findings of requirements say: one record each in compat-matrix/findings.toml; plugins add theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from gpustack.diagnose import rules
from gpustack.errors import BrokenError
from gpustack.matrix import Matrix
from gpustack.model import record, replace
from gpustack.model.command import GPU, PCI, Command, either
from gpustack.model.facts import Layer  # noqa: TC001 - the table is read by it
from gpustack.model.reading import made
from gpustack.model.report import Confidence, Decide, Fix, Severity

Kind = TypeVar("Kind")
TABLE = "findings"
OF_ONE = re.compile(r"\[([^\[\]]*\{(?:gpu|place)\})\]")  # what a command says of one GPU alone


@record
class Maker:
    """The commands that show a GPU of AMD or Intel, where a record has those for NVIDIA's."""

    commands: tuple[str, ...]
    verify: str


@record
class Record:
    """What a finding is: its layer, its component, its remedy, and what ``gpustack explain ID`` prints.

    ``doc`` is None if a rule with the same id has the text. ``said`` are the messages that say it outright, unless one
    of ``unless`` is there.
    """

    layer: Layer
    component: str
    remedy: str
    verify: str
    commands: tuple[str, ...] = ()
    needs_root: bool = False
    needs_reboot: bool = False
    confidence: Confidence = Confidence.CERTAIN
    doc: str | None = None
    explained_by: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()

    def fix(self, gpu: str | None, maker: Maker | None = None) -> Fix:
        """Return the remedy for the GPU at this address, or for the whole machine, with its maker's commands."""
        commands = tuple(typed(one, gpu) for one in (maker or self).commands)
        root = self.needs_root or self.needs_reboot or any("sudo " in one for one in commands)
        verify = typed((maker or self).verify, gpu)
        return Fix(text=self.remedy, commands=commands, needs_root=root, needs_reboot=self.needs_reboot, verify=verify)


def typed(written: str, gpu: str | None) -> Command:
    """Return a command from a table, for one GPU or for the whole machine."""
    known = bool(gpu) and GPU(gpu) != GPU(None)  # a log may say "PCI:...", which names none
    written = OF_ONE.sub(lambda found: found[1] if known else "", written)
    return Command(written.replace("{gpu}", GPU(gpu)).replace("{place}", PCI(gpu)))


@record
class Pair:
    """What a broken requirement of one kind is: its finding, and the findings of rules that report the same.

    whole: it concerns the machine, so it yields one finding whatever breaks it. building: it only affects builds.
    driver: a newer driver fixes it. Without commands, gpustack matrix plan is suggested.
    """

    finding: str
    layer: Layer
    remedy: str
    said_by: tuple[str, ...] = ()
    component: str | None = None
    severity: Severity = Severity.ERROR
    whole: bool = False
    building: bool = False
    driver: bool = False
    commands: tuple[str, ...] = ()
    doc: str | None = None


@record
class Program:
    """A program that has no code for GPUs, and how to install one that has; any one of the commands does."""

    name: str
    remedy: str
    commands: tuple[str, ...]
    verify: str | None = None
    also: tuple[str, ...] = ()

    def fix(self) -> Fix:
        """Return how to install it with code for GPUs."""
        commands = either(*(typed(one, None) for one in self.commands))
        return Fix(text=self.remedy, commands=commands, verify=typed(self.verify, None) if self.verify else None)


@record
class Feature:
    """What needs a newer GPU: its name, its least compute capability, the messages that ask for it, a substitute."""

    name: str
    instead: str
    commands: tuple[str, ...]
    needs: str | None = None
    said: tuple[str, ...] = ()

    def fix(self) -> Fix:
        """Return what to use instead."""
        return Fix(text=self.instead, commands=tuple(typed(one, None) for one in self.commands))


@record
class Decision:
    """What settles whether one of these findings is the cause: commands, and what they show."""

    text: str
    commands: tuple[str, ...]
    findings: tuple[str, ...]


@cache
def decisions() -> Mapping[str, Decide]:
    """Return what settles whether a finding holds, by its id."""
    return {
        finding: Decide(text=one.text, commands=tuple(typed(command, None) for command in one.commands))
        for _, one in _read("decisions", Decision)
        for finding in one.findings
    }


@cache
def programs() -> Mapping[str, Program]:
    """Return the programs by their names in messages."""
    return {name: one for key, one in _read("programs", Program) for name in (key, *one.also)}


@cache
def features() -> Mapping[str, Feature]:
    """Return what a GPU may be too old for."""
    return dict(_read("features", Feature))


@cache
def by_id() -> dict[str, Record]:
    """Return every record by the id of its finding; plugins add theirs to these."""
    return {name: replace(one, explained_by=_spelled(one.explained_by)) for name, one in _read("records", Record)}


@cache
def by_maker() -> Mapping[str, Maker]:
    """Return what other makers' GPUs are examined with, by the component."""
    return dict(_read("makers", Maker))


@cache
def pairs() -> Mapping[str, Pair]:
    """Return how a broken requirement is reported, by its kind and, if it matters, its other end."""
    held = dict(_read("pairs", Pair))
    return {**held, "driver": held["cuda"]}


@cache
def spoken() -> Mapping[str, tuple[str, str, str]]:
    """Return ends and kind of requirements that only a message states, by finding."""
    return Matrix().table(TABLE)["spoken"]  # type: ignore[no-any-return]  # as the table has it


def texts() -> Mapping[str, str]:
    """Return the explanations of findings that only pairs yield."""
    return {one.finding: one.doc for one in pairs().values() if one.doc}


def _read(part: str, kind: type[Kind]) -> list[tuple[str, Kind]]:
    try:
        return [(name, made(row, kind)) for name, row in Matrix().table(TABLE)[part].items()]
    except (KeyError, ValueError) as error:
        raise BrokenError(f"the shipped compatibility matrix is damaged: {TABLE}.{part}: {error}") from error


def _spelled(causes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the causes with each group, whose name is in capitals, replaced by its members."""
    return tuple(name for cause in causes for name in (getattr(rules, cause) if cause.isupper() else (cause,)))
