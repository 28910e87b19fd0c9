"""Measure the design's budgets as ratios, in one run, with the commands taking turns: ``python benchmarks/budgets.py``.

Every figure is the median of the rounds; a ratio compares two medians of the same run, since milliseconds vary between
machines. ``--torch PYTHON`` names a Python that has torch, whose collect_env is then compared with the doctor;
``--rounds N`` sets how often each command runs; ``--json FILE`` saves every sample.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
EXAMPLE = REPO / "examples" / "driver-too-old.json"


@dataclass
class Command:
    """One command in the comparison, with the wall time of every run in seconds."""

    name: str
    argv: list[str]
    may_find: bool = False
    seconds: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Run once and record the time; a command that fails ends the benchmark."""
        begun = time.perf_counter()
        done = subprocess.run(self.argv, capture_output=True, check=False)
        self.seconds.append(time.perf_counter() - begun)
        assert done.returncode == 0 or (self.may_find and done.returncode == 1), (self.argv, done.stderr[-2000:])

    @property
    def median(self) -> float:
        """Return the median wall time in seconds."""
        return statistics.median(self.seconds)


def peak_mib() -> float:
    """Return the peak memory of the doctor's own process in MiB, as the kernel counts it when it ends."""
    program = (
        "import atexit, sys\n"
        "from gpustack.cli import main\n"
        "atexit.register(lambda: sys.stderr.write(open('/proc/self/status').read()))\n"
        "sys.argv = ['gpustack', 'doctor']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return next(int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("VmHWM:")) / 1024


def main() -> int:
    """Run all, print the table, and fail if a budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has torch")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    ours = [sys.executable, "-m", "gpustack"]
    commands = [
        Command("empty Python", [sys.executable, "-c", "pass"]),
        Command("gpustack --help", [*ours, "--help"]),
        Command("gpustack doctor --from FILE", [*ours, "doctor", "--from", str(EXAMPLE)], may_find=True),
        Command("gpustack doctor", [*ours, "doctor"], may_find=True),
    ]
    if options.torch:
        commands.append(Command("torch collect_env", [options.torch, "-m", "torch.utils.collect_env"]))
    for _ in range(options.rounds):
        for command in commands:
            command.run()
    memory = peak_mib()
    kept = show(commands, memory)
    if options.json:
        samples = {one.name: one.seconds for one in commands}
        options.json.write_text(json.dumps({"seconds": samples, "peak_mib": memory}, indent=1) + "\n")
    return 0 if kept else 1


def show(commands: list[Command], memory: float) -> bool:
    """Print the table and return whether every budget is met."""
    empty, start, judged, doctor, *torch = commands
    budgets = [
        (f"{start.name} / {empty.name}", start.median / empty.median, 6.0),
        (f"{judged.name} / {empty.name}", judged.median / empty.median, 18.0),
        ("peak memory of the doctor itself, MiB", memory, 100.0),
        *((f"{doctor.name} / {one.name}", doctor.median / one.median, 1 / 6) for one in torch),
    ]
    for one in commands:
        spread = f"{min(one.seconds) * 1e3:.1f} to {max(one.seconds) * 1e3:.1f} ms"
        print(f"{one.name:28} median {one.median * 1e3:8.1f} ms, {spread}, {len(one.seconds)} rounds")
    for name, found, most in budgets:
        print(f"{'kept' if found <= most else 'NOT KEPT':9}{name:48} {found:8.3f} (at most {most:.3f})")
    return all(found <= most for _, found, most in budgets)


if __name__ == "__main__":
    sys.exit(main())
