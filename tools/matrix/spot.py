"""Spot checks: claims drawn at random from the index's own answers, compared with the matrix.

The truth is derived by ``packaging`` from file names and METADATA, not by the programs that generate the tables.
"""

from __future__ import annotations

import csv
import email.parser
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.ask.why import VERDICTS, WORST
from gpustack.diagnose.requirements.python import UNFIT
from gpustack.matrix.subjects.generated import MACHINES
from gpustack.model.matrix_answer import Compatibility
from tools.matrix.index import NotReadError, listing

if TYPE_CHECKING:
    from packaging.version import Version
    from pip._internal.models.link import Link

    from gpustack.matrix import Matrix
    from tools.matrix.index import Index
    from tools.matrix.releases import Distribution

PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t")
GIVEN: Mapping[str, Mapping[str, str]] = {
    "linux-x86_64": {"machine": "x86_64"},
    "linux-aarch64": {"machine": "aarch64"},
    "windows": {"os": "windows"},
}
LINUX = ("manylinux1", "manylinux2010", "manylinux2014", *(f"manylinux_2_{minor}" for minor in range(5, 60)))
# What a distribution without code of its own is useless without: the same release of the one with its code.
WITH = {"jax": "jaxlib", "jax-cuda12-pjrt": "jax-cuda12-plugin", "jax-cuda13-pjrt": "jax-cuda13-plugin"}
BESIDE = frozenset({"torch", "numpy", "triton", "numba", "xformers", "nvidia-ml-py", "ml-dtypes", "keras", "protobuf"})
OTHERS = ("1.26.4", "2.1.0", "2.2.6", "2.6.0", "2.7.1", "2.8.0", "3.4.0", "0.61.2", "0.0.31")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement of the index: a release works with a Python on a platform or with another release, or does not."""

    asked: str
    platform: str
    python: str
    beside: str
    holds: bool


def drawn(one: Distribution, index: Index, count: int, seed: int) -> tuple[Claim, ...]:
    """Return claims about random releases of a distribution; METADATA is read as far as the run's limit allows.

    A Python without a wheel is no claim about what pip compiles from a source archive instead.
    """
    chance = random.Random(f"{one.name} {seed}")  # noqa: S311 - a sample, no secret
    wheels, code = _wheels(one.name, one, index), _wheels(WITH.get(one.name, one.name), one, index)
    there = {version: (wheels[version], code.get(version, ())) for version in sorted(wheels) if wheels[version]}
    rounds = range(count if there else 0)
    claims = dict.fromkeys(claim for _ in rounds for claim in _of(one.name, there, index, chance))
    return tuple(claim for claim in claims if claim.holds or claim.beside or one.component not in UNFIT)


def _wheels(name: str, one: Distribution, index: Index) -> Mapping[Version, Sequence[Link]]:
    """Return the wheels of each release that counts."""
    found = listing(index.files(name), one.since).releases
    return {version: [file for file in held if file.is_wheel] for version, held in found.items()}


def _of(
    name: str, files: Mapping[Version, tuple[Sequence[Link], Sequence[Link]]], index: Index, chance: random.Random
) -> Iterator[Claim]:
    version, platform, python = chance.choice(list(files)), chance.choice(list(GIVEN)), chance.choice(PYTHONS)
    wheels, code = files[version]
    asked = f"{name}=={version}"
    coded = any(_fits(one, platform, python) for one in code)
    wheel = next((one for one in wheels if coded and _fits(one, platform, python)), None)
    yield Claim(asked=asked, platform=platform, python=python, beside="", holds=wheel is not None)
    if wheel is None:
        return
    try:
        metadata = email.parser.HeaderParser().parsestr(index.metadata(wheel))
    except NotReadError:
        return
    environment = {**MACHINES[platform], "python_version": python.rstrip("t"), "extra": ""}
    needs: dict[str, list[Requirement]] = defaultdict(list)
    for one in map(Requirement, metadata.get_all("Requires-Dist") or ()):
        stated = one.specifier or one.name != "torch"  # "any torch" does not say which one a wheel was compiled with
        if one.name in BESIDE and stated and (one.marker is None or one.marker.evaluate(environment)):
            needs[one.name].append(one)
    for other, found in sorted(needs.items()):
        pinned = [part.version for one in found for part in one.specifier if part.operator in {"==", "<=", ">="}]
        beside = chance.choice([*OTHERS, *pinned * 3]).partition("*")[0].rstrip(".")
        holds = all(one.specifier.contains(beside) for one in found)
        yield Claim(asked=asked, platform=platform, python=python, beside=f"{other}=={beside}", holds=holds)


def _fits(file: Link, platform: str, python: str) -> bool:
    """Return whether pip would install a file for a Python on a platform."""
    if file.requires_python and not _inside(file.requires_python, python.rstrip("t")):
        return False
    return bool(parse_wheel_filename(file.filename)[3] & _tags(platform, python))


def _inside(span: str, python: str) -> bool:
    return Requirement(f"python{span}").specifier.contains(f"{python}.99")


def _tags(platform: str, python: str) -> frozenset[Tag]:
    machine = platform.partition("-")[2]
    platforms = [f"{one}_{machine}" for one in (*LINUX, "linux")] if machine else ["win_amd64"]
    major, minor = map(int, python.rstrip("t").split("."))
    abis = [f"cp{major}{minor}{python[-1] if python.endswith('t') else ''}"]
    return frozenset(
        [
            *cpython_tags((major, minor), abis, platforms),
            *compatible_tags((major, minor), f"cp{major}{minor}", platforms),
        ]
    )


def answered(claim: Claim, matrix: Matrix) -> Compatibility:
    """Return the matrix's answer to a claim.

    If the claim says that both work, only the contract between them counts (something else may still prevent it);
    otherwise the whole answer does.
    """
    texts = [claim.asked, *([claim.beside] if claim.beside else [])]
    given = Given(python=claim.python, **GIVEN[claim.platform])
    asked = answering.search(texts, given, None, matrix, versions=1)
    if not claim.holds:
        return asked.at.verdict
    mine, theirs = asked.subject.component, {one.component for one in asked.others} or {"python", "machine"}
    between = [one for one in asked.at.contracts if mine in {one.from_, one.to} and theirs & {one.from_, one.to}]
    own = f"generated/{claim.asked.partition('==')[0]}"  # what jax requires is no claim about jaxlib, its part
    between = [
        one for one in between if not one.row or one.row.table in {own, one.row.table.removeprefix("generated/")}
    ]
    return min((VERDICTS[one.status] for one in between), key=WORST.index, default=Compatibility.UNKNOWN)


def wrong(claim: Claim, verdict: Compatibility) -> bool:
    """Return whether an answer contradicts the index; "unknown" contradicts nothing."""
    works = {Compatibility.COMPATIBLE, Compatibility.LIMITED}
    return verdict is Compatibility.INCOMPATIBLE if claim.holds else verdict in works


def saved(claims: Iterable[Claim], path: Path) -> None:
    """Write claims to a file for the tests."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(Claim)], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**asdict(one), "holds": int(one.holds)} for one in claims)


def read(path: Path) -> tuple[Claim, ...]:
    """Return the claims in a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            Claim(asked=asked, platform=platform, python=python, beside=beside, holds=holds == "1")
            for asked, platform, python, beside, holds in islice(csv.reader(file), 1, None)
        )
