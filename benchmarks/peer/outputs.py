"""Figures from each peer's real output, in GB/s (decimal) or TFLOP/s."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any

UNITS = {"MB": 1e-3, "GB": 1.0, "TB": 1e3, "MiB": 2**20 / 1e9, "GiB": 2**30 / 1e9, "TiB": 2**40 / 1e9}
# KiB of the sets that count: in smaller ones some blocks read the same line at the same time, which is then served only
# once and gives more than the multiprocessors can take (12.8 TB/s for 1.5 MB on an H200).
HELD = range(8 << 10, (20 << 10) + 1)
PAST = 24 << 10  # KiB: larger sets measure memory, not cache


class OutputError(Exception):
    """A peer's output lacks an expected figure."""


def nvbandwidth(text: str) -> dict[str, float]:
    """Return the GB/s of each test case that passed: for the first GPU or pair, or for a case with all GPUs their sum.

    A device's own copy counts both ways, read and written.
    """
    try:
        cases = json.loads(text[text.index("{") :])["nvbandwidth"]["testcases"]
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(f"nvbandwidth gave no test cases: {text.strip()[:200]}") from error
    figures = {case["name"]: _first(case) for case in cases if case["status"] == "Passed"}
    if "device_local_copy" in figures:
        figures["device_local_copy"] *= 2
    return _some(figures, "nvbandwidth passed no test case")


def _first(case: Mapping[str, Any]) -> float:
    """Return the first figure of a case's matrix; its sum if all GPUs run at once, or if there is no other figure."""
    cells = [str(cell) for row in case.get("bandwidth_matrix", ()) for cell in row]
    known = [float(cell) for cell in cells if re.fullmatch(r"[\d.]+", cell)]
    return float(case["sum"]) if "_all_" in f"_{case['name']}_" or len(known) < 2 else known[0]  # noqa: PLR2004


def babelstream(text: str) -> dict[str, float]:
    """Return the GB/s of each kernel: the best of its repetitions, as BabelStream reports it."""
    unit = re.search(r"^Function\s+(\w+)/s", text, re.MULTILINE)
    scale = UNITS[unit[1]] if unit and unit[1] in UNITS else None
    if scale is None:
        raise OutputError(f"BabelStream printed no table: {text.strip()[-200:]}")
    rows = re.findall(r"^(Copy|Mul|Add|Triad|Dot|Nstream)\s+([\d.]+)", text, re.MULTILINE)
    return _some({name.lower(): float(figure) * scale for name, figure in rows}, "BabelStream's table is empty")


def mamf(text: str) -> dict[str, float]:
    """Return the best median, mean and single run over all shapes, in TFLOP/s."""
    rows = re.findall(r"^(mean|median|max):\s+([\d.]+) TFLOPS @ ", text, re.MULTILINE)
    return _some({name: float(figure) for name, figure in rows}, "mamf-finder came to no end")


def l2_cache(text: str) -> dict[str, float]:
    """Return the best GB/s of the sets of 8 to 20 MiB, which fit in the second-level cache."""
    held = [rate for size, rate in l2_rows(text) if size in HELD]
    return _some({"l2": max(held)} if held else {}, "gpu-l2-cache measured no set of 8 to 20 MiB")


def l2_rows(text: str) -> list[tuple[int, float]]:
    """Return the set's KiB and the GB/s of each line."""
    rows = re.findall(r"^\s*\d+ kB\s+(\d+) kB\s+\d+ms\s+[\d.]+%\s+([\d.]+) GB/s", text, re.MULTILINE)
    return [(int(size), float(rate)) for size, rate in rows]


def gpu_burn(text: str) -> dict[str, float]:
    """Return the median of the rates that it printed while running, in TFLOP/s, without the first, which is warm-up."""
    rates = [float(rate) / 1000 for rate in re.findall(r"\((\d+) Gflop/s\)", text)]
    later = [rate for rate in rates[1:] if rate] or [rate for rate in rates if rate]
    return _some({"rate": statistics.median(later)} if later else {}, "gpu-burn told no rate")


def nccl_tests(text: str) -> dict[str, float]:
    """Return the bus bandwidth in GB/s by size, the better of out of place and in place."""
    figures = {}
    for line in text.splitlines():
        row = line.split()
        if len(row) >= 13 and row[0].isdigit() and row[2] == "float":  # noqa: PLR2004 - columns of its table
            figures[f"all_reduce {int(row[0]) >> 20} MiB"] = max(float(row[7]), float(row[11]))
    return _some(figures, "nccl-tests printed no row")


def torch(text: str) -> dict[str, float]:
    """Return what our own torch program measured: its last line is JSON."""
    try:
        figures = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise OutputError(f"the program by torch gave no figures: {text.strip()[-200:]}") from error
    return {str(name): float(figure) for name, figure in figures.items()}


def _some(figures: dict[str, float], otherwise: str) -> dict[str, float]:
    if not figures:
        raise OutputError(otherwise)
    return figures


PARSERS: Mapping[str, Callable[[str], dict[str, float]]] = {
    "nvbandwidth": nvbandwidth,
    "babelstream": babelstream,
    "gpu-l2-cache": l2_cache,
    "mamf-finder bf16": mamf,
    "mamf-finder fp8": mamf,
    "torch": torch,
    "gpu-burn": gpu_burn,
    "nccl-tests": nccl_tests,
}
