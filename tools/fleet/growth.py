"""``python -m tools.fleet.growth DIR 100 1000``: the cost of judging the first 100 and 1000 nodes of a fleet in DIR.

For each number a line of JSON: processor and wall time in seconds, the peak sum of the proportional set sizes of all
processes, the sizes of the page and the store, and the time of a query to the store.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from itertools import cycle
from pathlib import Path

EVERY = 0.5  # seconds between two memory samples
DRIFT = "select component, fact, found, count(*) from drift where run = 1 group by component, fact, found"


def part(folder: Path, count: int, into: Path) -> None:
    """Link the files of a fleet's first nodes into a folder; if there are too few, repeat them under other names."""
    missing = json.loads((folder / "missing.json").read_text("utf-8"))
    files: dict[str, list[Path]] = {name: [] for name in missing}
    for path in folder.glob("*.json.gz"):
        files.setdefault(path.name.partition(".")[0], []).append(path)
    held = {}
    for place, name in zip(range(count), cycle(sorted(files)), strict=False):
        called = name if place < len(files) else f"{name}x{place // len(files)}"
        if name in missing:
            held[called] = missing[name]
        for path in files[name]:
            os.link(path, into / path.name.replace(name, called, 1))
    (into / "missing.json").write_text(json.dumps(held), "utf-8")
    shutil.copy(folder / "labels", into / "labels")


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for one in found:  # which grows
        with suppress(OSError):
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text("utf-8").split())
    return found


def memory(pid: int) -> float:
    """Return the MiB used by a process and its children, counting shared pages once."""
    total = 0
    for one in family(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text("utf-8").splitlines()
            total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total / 1024


def measured(folder: Path, count: int) -> dict[str, float]:
    """Judge a part of a fleet, and return its cost."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        into = Path(made, "nodes")
        into.mkdir()
        part(folder, count, into)
        page = Path(made, "fleet.html")
        words = ("judge", str(into), "--labels", str(into / "labels"), "--format", "html", "-o", str(page))
        before, began, most = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0.0
        program = str(Path(sys.executable).with_name("gpustack"))
        with subprocess.Popen((program, "fleet", *words, "--workers", "2")) as child:
            while child.poll() is None:
                most = max(most, memory(child.pid))
                time.sleep(EVERY)
        clock, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        with closing(sqlite3.connect(into / "fleet.sqlite")) as store:
            began = time.process_time()
            rows = len(store.execute(DRIFT).fetchall())
            asked = time.process_time() - began
        return {
            "nodes": count,
            "processor_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
            "clock_s": round(clock, 1),
            "memory_mib": round(most),
            "page_mib": round(page.stat().st_size / 2**20, 2),
            "store_mib": round((into / "fleet.sqlite").stat().st_size / 2**20, 1),
            "drift_rows": rows,
            "drift_query_s": round(asked, 4),
        }


def main() -> None:
    """Print a line for each number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("numbers", type=int, nargs="+")
    asked = parser.parse_args()
    for count in asked.numbers:
        print(json.dumps(measured(asked.folder, count)), flush=True)


if __name__ == "__main__":
    main()
