"""The benchmarks of microbench/, read by path, and the GPUs that can be measured.

Some parts have half the rate of their architecture, or less, and no attribute says so. The probe's result in operations
per clock and multiprocessor does not depend on clock, power or library: if it is far from the row, the part differs
from the row's, and the probe is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from gpustack import assets
from gpustack.errors import BrokenError, UsageError
from gpustack.model import record, replace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gpustack.bench.lab import Job, Lab
    from gpustack.model.rows import Architecture

FAMILIES = ("pcie", "hbm", "cache", "gemm", "launch", "alloc", "p2p", "nccl")
SEVERAL = frozenset({"pair", "all"})
SLOWER, FASTER = 0.75, 1.25  # of the rate in the row: parts are cut by half or more, and no probe errs that much
ALL = {"wgmma"}  # instructions that reach the full rate: measured on an H200, 2026-11-21, 4078 of 4096 (bf16)


@record
class Bench:
    """One benchmark as its file declares it. ``limit`` names its ceiling: pcie.h2d, hbm, compute.bf16 ...

    ``train``, ``rest`` and ``budget`` are seconds if they differ from the default; ``quick`` puts it in the short
    suite. ``scope`` is how many GPUs it takes: several that are "abreast" do the same concurrently, each in its own
    child; "all" are served by the child of the first. ``company`` are those besides the first, also passed to
    ``prepare`` if it takes a pair or all. One that is ``alone`` has the host to itself: no other GPU works meanwhile.
    """

    id: str
    title: str
    unit: str
    limit: str
    prepare: Callable[..., AbstractContextManager[list[Job]]]
    train: float | None = None
    rest: float = 0.0
    budget: float | None = None
    quick: bool = True
    scope: Literal["one", "abreast", "pair", "all"] = "one"
    alone: bool = False
    company: tuple[int, ...] = ()

    def jobs(self, lab: Lab) -> AbstractContextManager[list[Job]]:
        """Return the ways to do its work, one of which is measured."""
        return self.prepare(lab, self.company) if self.scope in SEVERAL else self.prepare(lab)


@cache
def listed() -> tuple[Bench, ...]:
    """Return every benchmark in execution order; raises BrokenError if a file is damaged."""
    return tuple(bench for family in FAMILIES for bench in _family(family))


def chosen(names: Sequence[str]) -> tuple[Bench, ...]:
    """Return the benchmarks of these ids and patterns, all if there are none; raises UsageError for an unknown one."""
    for name in names:
        if not any(fnmatchcase(bench.id, name) for bench in listed()):
            known = [bench.id for bench in listed()]
            near = get_close_matches(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"there is no benchmark {name}; {hint}")
    return tuple(bench for bench in listed() if not names or any(fnmatchcase(bench.id, name) for name in names))


def picked(names: Sequence[str], company: Sequence[Sequence[int]]) -> tuple[Bench, ...]:
    """Return exactly these benchmarks, each with the GPUs besides the first."""
    known = {bench.id: bench for bench in listed()}
    return tuple(replace(known[name], company=tuple(gpus)) for name, gpus in zip(names, company, strict=True))


def rounds(gpus: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return all pairs of these GPUs in as few rounds as possible, with each GPU in at most one pair per round."""
    ring: list[int | None] = [*gpus, *([None] if len(gpus) % 2 else [])]
    found = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        found.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def tasks(benches: Sequence[Bench], gpus: Sequence[int]) -> dict[int, list[Bench]]:
    """Return the work of each GPU's child, in order.

    First its own, then concurrent work, exclusive work, the pairs round by round, and what the first child does for
    all.
    """
    ones = [bench for bench in benches if bench.scope == "one"]
    own = [bench for bench in ones if not bench.alone] + [bench for bench in benches if bench.scope == "abreast"]
    own += [bench for bench in ones if bench.alone]
    works = {gpu: [replace(bench, company=()) for bench in own] for gpu in gpus}
    for bench in benches:
        if bench.scope == "pair":
            for one, other in (pair for each in rounds(gpus) for pair in each):
                works[one].append(replace(bench, company=(other,)))
                works[other].append(replace(bench, company=(one,)))
    works[gpus[0]] += [replace(bench, company=tuple(gpus[1:])) for bench in benches if bench.scope == "all"]
    return {gpu: work for gpu, work in works.items() if work}


def loaded(name: str) -> ModuleType:
    """Return a file of ``microbench/`` as its own module; raises BrokenError if it is damaged."""
    path = assets.MICROBENCH / f"{name}.py"
    module = ModuleType(f"_microbench_{name}")
    try:
        SourceFileLoader(module.__name__, str(path)).exec_module(module)
    except (OSError, ImportError, SyntaxError, AttributeError, TypeError) as error:
        raise BrokenError(f"the shipped benchmark {path.name} is damaged: {error}") from error
    return module


def _family(name: str) -> list[Bench]:
    module = loaded(name)
    try:
        return [Bench(id=identity, **row) for identity, row in module.BENCHES.items()]
    except (AttributeError, TypeError) as error:
        raise BrokenError(f"the shipped benchmark {name}.py is damaged: {error}") from error


@record
class Part:
    """The rate of the part at hand, and its source in words; ``doubt`` says where it differs from the row."""

    rate: float
    source: str
    doubt: str | None = None


@cache
def rates(lab: Lab) -> Mapping[str, Mapping[str, object]]:
    """Return the probe's measurements on this card by data type; nothing if it cannot run."""
    try:
        found: Mapping[str, Mapping[str, object]] = loaded("probe").rates(lab)
    except BrokenError:
        raise
    except Exception:  # noqa: BLE001 - whatever CUDA raises, the benchmark that asked goes on without
        return {}
    return found


def part(dtype: str, product: str, said: Mapping[str, Any], architecture: Architecture | None) -> Part | None:
    """Return the rate of this part in one data type; None if no row states one, or the probe's result."""
    row = architecture.rates_of(product).get(dtype) if architecture else None
    probed = said.get(dtype)
    if not architecture or not row or not probed:
        return None
    rate, instruction = float(probed["rate"]), str(probed["instruction"])
    share = 1.0 if instruction in ALL else architecture.mma.get(dtype)
    if not share:
        return None
    reached = rate / (row * share)
    how = f"{rate:.0f} {dtype} operations per clock and multiprocessor by {instruction} in the probe"
    if SLOWER <= reached <= FASTER:
        return Part(rate=row, source=how)
    kind = "half-rate or fused part" if reached < 1 else "faster part than its row says"
    return Part(rate=rate / share, source=how, doubt=f"{kind}: {how}, {row * share:g} is what its row predicts")
