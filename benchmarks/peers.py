"""Measure our benchmarks and others' on this machine, in one run, taking turns: ``python -m benchmarks.peers``.

The peers' sources or programs are in ``--folder`` (``benchmarks/peer/build.sh FOLDER`` builds them); missing ones are
reported, and the others are compared. Every figure is the median of the rounds; a ratio compares two medians of the
same run. ``--json FILE`` saves every figure of every round, ``--outputs FOLDER`` what each program printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peer import lines, outputs, programs

BURN = ["--sustain", str(programs.BURN_SECONDS)]
BURN_ROUNDS = 1  # gpu-burn heats the card, and its ratio has no minimum


@dataclass(slots=True, kw_only=True)
class Run:
    """The measurements so far: figures by name, round by round; our reports; what failed; and raw outputs."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    raw: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, figures: Mapping[str, float]) -> None:
        """Add the figures of one program in one round."""
        for what, figure in figures.items():
            self.samples.setdefault(f"{name}: {what}" if name else what, []).append(figure)


def ours(run: Run, names: list[str]) -> None:
    """Run our suite once, and add its figures and its report."""
    begun = time.perf_counter()
    report = json.loads(programs.ours(names))
    run.seconds.setdefault("gpustack bench", []).append(time.perf_counter() - begun)
    run.reports.append(report)
    run.add("", {name: row["value"] for name, row in _rows(report).items() if row["value"]})


def theirs(run: Run, peer: programs.Peer, number: int) -> None:
    """Run a peer once; an error is recorded, and the peer is left out from then on."""
    if peer.name in run.failed or (peer.name == "gpu-burn" and number >= BURN_ROUNDS):
        return
    begun = time.perf_counter()
    try:
        text = peer.run()
        run.raw.setdefault(peer.name, []).append(text)
        run.add(peer.name, outputs.PARSERS[peer.name](text))
    except (programs.FailedError, outputs.OutputError) as error:
        run.failed[peer.name] = f"round {number + 1}: {error}"
    run.seconds.setdefault(peer.name, []).append(time.perf_counter() - begun)
    if peer.name == "gpu-burn":
        report = json.loads(programs.ours(["gemm.tf32"], *BURN))
        held = [row["sustained"]["value"] for row in report["results"] if row["sustained"]]  # one for each GPU
        run.add("", {"gemm.tf32 sustained": statistics.median(held)} if held else {})


def shapes(report: Mapping[str, Any]) -> dict[str, list[list[int]]]:
    """Return the shapes that we tried for each type of product, from the names of the variants in our first report."""
    found: dict[str, list[list[int]]] = {}
    for row in report["results"]:
        if row["id"].startswith("gemm.") and row["value"]:
            tried = [*row["method"]["tried"], row["method"]["way"]]
            each = dict.fromkeys(tuple(map(int, way.split(",")[0].split(" x "))) for way in tried)
            found[row["id"].removeprefix("gemm.")] = [list(shape) for shape in each]
    return found


def main() -> int:
    """Run all, print the tables, and fail if a requirement is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the peers' checkouts and bin/ lie")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bench", action="append", default=[], metavar="ID", help="these of ours (default: the suite)")
    parser.add_argument("--peer", action="append", default=[], choices=sorted(programs.MAKERS), help="these alone")
    parser.add_argument("--mamf-warm", type=int, metavar="SECONDS", help="mamf-finder's warm-up (its own: 30)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--outputs", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    run = Run()
    try:
        ours(run, options.bench)
    except programs.FailedError as error:
        print(f"gpustack bench: {error}", file=sys.stderr)
        return 3
    where = programs.Where(
        folder=options.folder.resolve(),
        python=options.python,
        gpus=_gpus(),
        shapes=shapes(run.reports[0]),
        mamf_warm=options.mamf_warm,
    )
    ready, missing = programs.peers(where, options.peer or list(programs.MAKERS))
    number = 0
    try:
        for number in range(options.rounds):
            if number:
                ours(run, options.bench)
            for peer in ready:
                print(f"round {number + 1} of {options.rounds}: {peer.name}", file=sys.stderr, flush=True)
                theirs(run, peer, number)
    except programs.FailedError as error:
        run.failed["gpustack bench"] = f"round {number + 1}: {error}"
    except KeyboardInterrupt:
        print("ended by Ctrl-C: these are the rounds until then", file=sys.stderr)
    return finish(run, ready, missing, options.json, options.outputs)


def finish(
    run: Run, ready: list[programs.Peer], missing: dict[str, str], kept: Path | None, folder: Path | None
) -> int:
    """Print the tables and save the requested files; return 1 if a requirement is not met."""
    found, agreed = lines.outcomes(run.samples), lines.agreement([_rows(report) for report in run.reports])
    limits = {name: _limit(run, name) for name in lines.LIMITS if name in run.samples}
    show(run, found, agreed, limits)
    for name, why in {**missing, **run.failed}.items():
        print(f"not compared: {name}: {why}")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        for name, texts in run.raw.items():
            (folder / f"{name.replace(' ', '-')}.txt").write_text(texts[0], "utf-8")
    if kept:
        kept.write_text(json.dumps(_told(run, ready, missing, found), indent=1) + "\n", "utf-8")
    held = all(one.kept is not False for one in found) and all(one.kept for one in agreed)
    return 0 if held and all(one >= lines.LIMITS[name][1] for name, one in limits.items()) else 1


def show(run: Run, found: list[lines.Outcome], agreed: list[lines.Agreement], limits: Mapping[str, float]) -> None:
    """Print the comparisons, our own limits, and how well our runs agree."""
    print(f"{'':11}{'ours':22}{'median (lowest to highest)':32}{'ratio':>7}{'asked':>8}  peer")
    for one in found:
        least = f"{one.line.least:.3f}" if one.line.least else "-"
        peer = f"{one.peer}: {_three(one.theirs)}, {one.rounds} rounds"
        print(f"{_word(one.kept):11}{one.line.ours:22}{_three(one.ours):32}{one.ratio:7.3f}{least:>8}  {peer}")
    for name, part in limits.items():
        which, bound = lines.LIMITS[name]
        mine = _three(lines.spread(run.samples[name]))
        limit = "its limit" if which == "ratio" else "its limit at the clock held"
        print(f"{_word(part >= bound):11}{name:22}{mine:32}{part:7.3f}{bound:8.3f}  {limit}")
    print(f"\n{'':11}{'runs of the suite':22}{'called steady':16}{'next runs apart':>17}{'all runs apart':>17}")
    for agreement in agreed:
        steady = f"{agreement.steady} of {agreement.runs}"
        print(
            f"{_word(agreement.kept):11}{agreement.id:22}{steady:16}{agreement.next_apart:17.2%}{agreement.apart:17.2%}"
        )
    for name, taken in run.seconds.items():
        print(f"{name}: {_three(lines.spread(taken))} s a round")


def _told(run: Run, ready: list[programs.Peer], missing: dict[str, str], found: list[lines.Outcome]) -> dict[str, Any]:
    first = run.reports[0]
    return {
        "schema": "gpustack.peers/1",
        "devices": [{key: value for key, value in row.items() if key != "uuid"} for row in first["devices"]],
        "tool": first["tool"],
        "taken": first["taken"],
        "peers": {peer.name: peer.command for peer in ready},
        "missing": {**missing, **run.failed},
        "ratios": [
            {
                "ours": one.line.ours,
                "peer": one.peer,
                "median": one.ours[1],
                "peer_median": one.theirs[1],
                "ratio": one.ratio,
                "asked": one.line.least,
                "kept": one.kept,
                "rounds": one.rounds,
            }
            for one in found
        ],
        "samples": run.samples,
        "steady": {
            name: [_rows(report).get(name, {}).get("steady") for report in run.reports] for name in _rows(first)
        },
        "ways": {
            name: [_rows(report).get(name, {}).get("method", {}).get("way") for report in run.reports]
            for name in _rows(first)
        },
        "ratio_held": {
            name: [_rows(report).get(name, {}).get("ratio_held") for report in run.reports] for name in _rows(first)
        },
        "seconds": run.seconds,
    }


def _rows(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return lines.by_name(report["results"])


def _limit(run: Run, name: str) -> float:
    parts = [_rows(report)[name][lines.LIMITS[name][0]] for report in run.reports if _rows(report)[name]["value"]]
    return statistics.median(float(part) for part in parts if part)


def _gpus() -> int:
    """Return the number of GPUs, as listed by the driver's own program."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)  # noqa: S607 - from PATH
    except FileNotFoundError:
        return 1
    return max(1, sum(line.startswith("GPU ") for line in done.stdout.splitlines()))


def _three(three: tuple[float, float, float]) -> str:
    low, middle, high = three
    return f"{middle:.5g} ({low:.5g} to {high:.5g})"


def _word(kept: bool | None) -> str:  # noqa: FBT001 - a private formatter
    return {True: "kept", False: "NOT KEPT", None: ""}[kept]


if __name__ == "__main__":
    sys.exit(main())
