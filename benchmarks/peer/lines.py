"""What is compared with what, and the results: ratios of medians of one run, each with the spread of its rounds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One of our figures compared with the best of some peers' figures; ``least`` is the ratio required.

    A peer's figure that is a sum has its parts joined by " + ". ``least`` None: shown, but not required.
    """

    ours: str
    peers: tuple[str, ...]
    least: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a line: both medians with their lowest and highest round, and the ratio."""

    line: Line
    peer: str
    ours: tuple[float, float, float]
    theirs: tuple[float, float, float]
    ratio: float
    rounds: int

    @property
    def kept(self) -> bool | None:
        """Whether the ratio reaches the minimum; None if there is none."""
        return None if self.line.least is None else self.ratio >= self.line.least


BOTH = "nvbandwidth: host_to_device_bidirectional_memcpy_ce + nvbandwidth: device_to_host_bidirectional_memcpy_ce"
LINES = (
    Line(ours="pcie.h2d.pinned", peers=("nvbandwidth: host_to_device_memcpy_ce",), least=0.995),
    Line(ours="pcie.d2h.pinned", peers=("nvbandwidth: device_to_host_memcpy_ce",), least=0.995),
    Line(ours="pcie.bidir.pinned", peers=(BOTH,), least=0.995),
    Line(ours="hbm.read", peers=("babelstream: dot",)),
    Line(ours="hbm.write", peers=("torch: fill",), least=0.995),
    Line(ours="hbm.copy", peers=("torch: copy", "nvbandwidth: device_local_copy", "babelstream: copy"), least=0.995),
    Line(ours="hbm.triad", peers=("babelstream: triad",), least=0.995),
    Line(ours="l2.read", peers=("gpu-l2-cache: l2",), least=0.995),
    Line(ours="gemm.bf16", peers=("mamf-finder bf16: median",), least=1.03),
    Line(ours="gemm.fp8", peers=("mamf-finder fp8: median",), least=0.995),
    *(
        Line(ours=f"gemm.{dtype}", peers=(f"torch: {dtype}",), least=0.995)
        for dtype in ("fp64", "fp32", "tf32", "fp16")
    ),
    *(Line(ours=f"gemm.{dtype}", peers=(f"torch: {dtype}",)) for dtype in ("bf16", "fp8", "int8")),
    Line(ours="gemm.tf32 sustained", peers=("gpu-burn: rate",)),
    Line(ours="pcie.h2d.all", peers=("nvbandwidth: host_to_all_memcpy_ce",)),
    Line(ours="pcie.d2h.all", peers=("nvbandwidth: all_to_host_memcpy_ce",)),
    Line(
        ours="p2p.bandwidth",
        peers=("nvbandwidth: device_to_device_memcpy_read_ce", "nvbandwidth: device_to_device_memcpy_write_ce"),
        least=0.995,
    ),
    Line(
        ours="nccl.all_reduce", peers=("nccl-tests: all_reduce 1024 MiB", "nccl-tests: all_reduce 4096 MiB"), least=0.99
    ),
)
LIMITS = {"hbm.read": ("ratio", 0.95), "smem.read": ("ratio_held", 0.90)}
STEADY = (
    *("pcie.h2d.pinned", "pcie.d2h.pinned", "pcie.bidir.pinned"),
    *("hbm.read", "hbm.write", "hbm.copy", "hbm.triad", "l2.read", "smem.read"),
    *("gemm.fp32", "gemm.tf32", "gemm.bf16", "gemm.fp8"),
)
AGREE = 0.01


def outcomes(samples: Samples, lines: Sequence[Line] = LINES) -> list[Outcome]:
    """Return the result of every line with both sides measured."""
    return [outcome for line in lines if (outcome := _outcome(line, samples))]


def _outcome(line: Line, samples: Samples) -> Outcome | None:
    mine = samples.get(line.ours)
    theirs = {name: some for name in line.peers if (some := summed(name, samples))}
    if not mine or not theirs:
        return None
    best = max(theirs, key=lambda name: statistics.median(theirs[name]))
    return Outcome(
        line=line,
        peer=best,
        ours=spread(mine),
        theirs=spread(theirs[best]),
        ratio=statistics.median(mine) / statistics.median(theirs[best]),
        rounds=min(len(mine), len(theirs[best])),
    )


def summed(name: str, samples: Samples) -> list[float]:
    """Return a peer's figure round by round: a single one, or the sum of those joined by " + "."""
    return [sum(some) for some in zip(*(samples.get(part, ()) for part in name.split(" + ")), strict=False)]


def spread(some: Sequence[float]) -> tuple[float, float, float]:
    """Return the lowest, the median and the highest."""
    return min(some), statistics.median(some), max(some)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How well runs of the suite agree on one figure: how many found it steady, and the widest of two such runs."""

    id: str
    steady: int
    runs: int
    apart: float
    next_apart: float

    @property
    def kept(self) -> bool:
        """Whether steady figures agree, and figures that must be steady are."""
        return self.next_apart <= AGREE and (self.id not in STEADY or self.steady == self.runs)


def by_name(results: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the results by id; with several pairs of GPUs, all but the first have their GPUs appended."""
    rows: dict[str, Mapping[str, Any]] = {}
    for row in results:
        further = row["id"] in rows
        rows[" ".join([row["id"], *map(str, row.get("gpus") or [row["device"]])]) if further else row["id"]] = row
    return rows


def agreement(reports: Sequence[Mapping[str, Mapping[str, object]]]) -> list[Agreement]:
    """Return the agreement of several runs of the suite, each the rows of its results by id."""
    found = []
    for name in dict.fromkeys(name for rows in reports for name in rows):
        rows = [report[name] for report in reports if name in report and report[name].get("value")]
        held = [float(str(row["value"])) for row in rows if row.get("steady")]
        pairs = [abs(one / other - 1) for one, other in pairwise(held)]
        if rows:
            found.append(
                Agreement(
                    id=name,
                    steady=len(held),
                    runs=len(rows),
                    apart=max(held) / min(held) - 1 if held else 0.0,
                    next_apart=max(pairs, default=0.0),
                )
            )
    return found
