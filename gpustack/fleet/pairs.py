"""Which nodes, and which uplinks of groups, make pairs slow or hang, by random matchings.

Every round pairs each node with another at random, and all pairs of a round run at the same time. A slow node makes all
its pairs slow, whatever the other node; an uplink makes all pairs slow that cross the border of its group. Three rounds
find nearly all, and a fourth, in which each suspect meets a good node, confirms them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gpustack import __version__
from gpustack.errors import InputError
from gpustack.fleet import nodes
from gpustack.fleet.drift import CONSISTENT, DEVIATIONS, FLOOR
from gpustack.model.fleet import Decoded, Group
from gpustack.model.report import Tool

CONFIRM = "confirm"
ROUNDS = 3
SHARE = 0.8  # of a group's crossing pairs that are slow: more than its slow nodes alone explain
LEAST_CROSSING = 4
LEAST_PAIRS = 2  # of a node, all of them slow
BUS = re.compile(r"^# Avg bus bandwidth\s*:\s*([0-9.]+)", re.MULTILINE)  # nccl-tests, src/common.cu
FILE = re.compile(r"(?:(?P<round>[a-z0-9]+)\.)?(?P<one>[^+]+)\+(?P<other>[^+]+?)(?:\.(?:txt|log|out|json))?")
OURS = "nccl.all_reduce"
Value = Any  # of JSON, as it was decoded


@dataclass(frozen=True, slots=True)
class Pair:
    """One measurement of two nodes; with ``value`` None it hung or failed."""

    one: str
    other: str
    value: float | None
    round: str = ""


def plan(names: Sequence[str], rounds: int = ROUNDS, seed: int = 0) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return matchings: in each round every node meets a new one; with an odd number, one pauses.

    Raises InputError for fewer than four nodes, where a node cannot be told apart from its partner.
    """
    if len(set(names)) < 4:  # noqa: PLR2004 - of two or three nodes nobody tells who is slow
        raise InputError(f"{len(set(names))} nodes are too few to tell which is slow: name four or more")
    draw = random.Random(seed)  # noqa: S311 - to be made again from its seed
    met: set[frozenset[str]] = set()
    rested: set[str] = set()
    made = []
    for _ in range(rounds):
        order = list(dict.fromkeys(names))
        draw.shuffle(order)
        if len(order) % 2:
            order.sort(key=lambda one: one not in rested)  # the one that paused goes first, the last one pauses
            rested.add(order.pop())
            draw.shuffle(order)
        made.append(_matched(order, met))
        met.update(map(frozenset, made[-1]))
    return tuple(made)


def _matched(order: list[str], met: set[frozenset[str]]) -> tuple[tuple[str, str], ...]:
    """Return neighbours as pairs; two that have already met swap with the next pair."""
    pairs = [(order[place], order[place + 1]) for place in range(0, len(order), 2)]
    for place, (one, other) in enumerate(pairs):
        if frozenset((one, other)) in met and len(pairs) > 1:
            next_ = (place + 1) % len(pairs)
            third, fourth = pairs[next_]
            pairs[place], pairs[next_] = (one, third), (other, fourth)
    return tuple(pairs)


def read(path: Path) -> tuple[Pair, ...]:
    """Return the measurements of a file, or of a folder with one file for each pair.

    A file holds a JSON list of ``{"a", "b", "value", "round"}``, or lines ``A B VALUE``; VALUE may be ``hang``. In a
    folder ``A+B.txt`` (or ``ROUND.A+B.txt``) holds what nccl-tests or ``gpustack bench`` printed; an empty one hung.
    """
    if path.is_dir():
        found = [_of_file(one) for one in sorted(path.iterdir()) if "+" in one.name]
    else:
        found = list(_rows(nodes.text(path), path))
    if not found:
        raise InputError(f"{path} has no pairs: lines A B VALUE, a JSON list, or a folder of files A+B.txt")
    return tuple(found)


def _of_file(path: Path) -> Pair:
    named = FILE.fullmatch(path.name)
    if not named:
        raise InputError(f"{path.name} names no pair, as A+B.txt does")
    said = nodes.text(path)
    found = BUS.search(said)
    value = float(found[1]) if found else _ours(said)
    return Pair(_name(named["one"]), _name(named["other"]), value, named["round"] or "")


def _ours(said: str) -> float | None:
    try:
        results = json.loads(said).get("results", ())
    except (ValueError, AttributeError):
        return None
    return next((one.get("value") for one in results if one.get("id") == OURS), None)


def _rows(said: str, path: Path) -> Iterator[Pair]:
    if said.lstrip().startswith("["):
        try:
            for one in json.loads(said):
                yield Pair(_name(str(one["a"])), _name(str(one["b"])), _value(one["value"]), str(one.get("round", "")))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f'{path} is not a list of {{"a", "b", "value"}}: {error}') from error
        return
    for number, line in enumerate(said.splitlines(), 1):
        words = line.replace(",", " ").split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in {3, 4}:
            raise InputError(f"{path}:{number} is not a pair: A B VALUE, and the round if there are several")
        try:
            yield Pair(_name(words[0]), _name(words[1]), _value(words[2]), words[3] if words[3:] else "")
        except ValueError as error:
            raise InputError(f"{path}:{number}: {words[2]!r} is neither a number nor 'hang'") from error


def _name(name: str) -> str:
    if not nodes.NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a node name")
    return name


def _value(said: Value) -> float | None:
    if said is None or str(said).lower() in {"hang", "failed", "null", "none"}:
        return None
    value = float(said)
    if not value - value == 0:
        raise ValueError(said)
    return value


def decode(found: Sequence[Pair], groups: Mapping[str, str] | None = None, matrix_date: str = "") -> Decoded:
    """Return what makes pairs slow: uplinks of groups first, then nodes, each with its likelihood.

    ``groups`` maps each node to its rack or switch. With pairs of the round ``confirm``, only nodes also slow there
    remain. Raises InputError if no pair has a value.
    """
    values = [one.value for one in found if one.value is not None]
    if not values:
        raise InputError("no pair has a value: all of them hung or failed")
    middle = median(values)
    deviation = median(abs(one - middle) for one in values) / CONSISTENT
    floor = middle - max(FLOOR * middle, DEVIATIONS * deviation)
    slow = [one.value is None or one.value < floor for one in found]
    first = [(one, low) for one, low in zip(found, slow, strict=True) if one.round != CONFIRM]
    again = [(one, low) for one, low in zip(found, slow, strict=True) if one.round == CONFIRM]
    groups = groups or {}
    uplinks = tuple(_uplinks(first, groups, middle))
    suspects = (*uplinks, *_nodes(first, groups, {one.name: one.median_ratio for one in uplinks}, middle, floor))
    if again:
        suspects = tuple(one for one in suspects if _again(one, again, groups))
    confirm = () if again else tuple(_confirming(suspects, first, groups))
    return Decoded(
        tool=Tool(name="gpustack", version=__version__, matrix_date=matrix_date),
        pairs=len(found),
        median=middle,
        suspects=tuple(sorted(suspects, key=lambda one: (-one.weight, one.what, one.name))),
        confirmed=bool(again),
        confirm=confirm,
    )


def _crosses(one: Pair, groups: Mapping[str, str]) -> tuple[str, ...]:
    """Return the groups whose border a pair crosses."""
    sides = groups.get(one.one, ""), groups.get(one.other, "")
    return tuple(filter(None, sides)) if sides[0] != sides[1] else ()


def _uplinks(first: Sequence[tuple[Pair, bool]], groups: Mapping[str, str], middle: float) -> Iterator[Group]:
    crossing: dict[str, list[tuple[Pair, bool]]] = {}
    for one, low in first:
        for group in _crosses(one, groups):
            crossing.setdefault(group, []).append((one, low))
    for name, held in sorted(crossing.items()):
        share = sum(low for _, low in held) / len(held)
        if len(held) >= LEAST_CROSSING and share >= SHARE:
            yield _group("uplink", name, [one for one, low in held if low], share, middle)


def _nodes(
    first: Sequence[tuple[Pair, bool]],
    groups: Mapping[str, str],
    uplinks: Mapping[str, float],
    middle: float,
    floor: float,
) -> Iterator[Group]:
    """Yield nodes that are slow with every partner: slower than an uplink between the two explains."""
    held: dict[str, list[tuple[Pair, bool]]] = {}
    for one, low in first:
        explained = min((uplinks[group] for group in _crosses(one, groups) if group in uplinks), default=None)
        if explained is not None:
            if not explained:
                continue  # nothing passes that uplink, so it says nothing about the nodes
            low = one.value is None or one.value / explained < floor  # noqa: PLW2901 - but for the uplink
        for name in (one.one, one.other):
            held.setdefault(name, []).append((one, low))
    for name, pairs in sorted(held.items()):
        if len(pairs) >= LEAST_PAIRS and all(low for _, low in pairs):
            yield _group("node", name, [one for one, _ in pairs], 1 - 0.5 ** len(pairs), middle)


def _group(what: str, name: str, pairs: Sequence[Pair], weight: float, middle: float) -> Group:
    return Group(
        what=what,
        name=name,
        weight=round(weight, 3),
        pairs=len(pairs),
        median_ratio=round(median((one.value or 0.0) / middle for one in pairs), 4),
    )


def _again(one: Group, again: Iterable[tuple[Pair, bool]], groups: Mapping[str, str]) -> bool:
    """Return whether a suspect was slow in the confirming round; one that did not take part stays suspect."""
    own = [
        low
        for pair, low in again
        if (one.name in {pair.one, pair.other} if one.what == "node" else one.name in _crosses(pair, groups))
    ]
    return not own or all(own)


def _confirming(
    suspects: Sequence[Group], first: Sequence[tuple[Pair, bool]], groups: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield each suspect with a good node: one whose pairs were all fast, or all but those with suspects."""
    blamed = {one.name for one in suspects}
    lows = {name for pair, low in first if low for name in (pair.one, pair.other)}
    well = iter(
        name
        for name in dict.fromkeys(name for pair, _ in first for name in (pair.one, pair.other))
        if name not in lows and name not in blamed and groups.get(name, "") not in blamed
    )
    for one in suspects:
        member = one.name if one.what == "node" else next((name for name in groups if groups[name] == one.name), None)
        partner = next(well, None)
        if member and partner:
            yield member, partner
