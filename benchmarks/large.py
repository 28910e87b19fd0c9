"""Judge the snapshot of a very large machine: ``python benchmarks/large.py``.

64 GPUs, 10 000 packages and a kernel log of 100 MB, which the probe reads up to its own limit. Each step runs in its
own process, whose wall time and peak memory are reported; one snapshot is judged ``--times`` (1000) times, and every
report must be identical byte for byte. ``--gpus``, ``--packages`` and ``--log`` (MB) make it smaller, ``--json FILE``
saves the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from benchmarks import costs  # noqa: E402 - of this checkout
from gpustack import snapshots  # noqa: E402 - of this checkout
from gpustack.diagnose.engine import judge  # noqa: E402
from gpustack.matrix import Matrix  # noqa: E402
from gpustack.model import writing  # noqa: E402

MOST_SECONDS, MOST_MIB = 5.0, 500
XID = "NVRM: Xid (PCI:0000:{:02x}:00): {}, pid=1234, name=python, Ch 00000008\n"


def machine(gpus: int) -> dict[str, Any]:
    """Return the snapshot of one recorded H200, with this many copies of its GPU."""
    said: dict[str, Any] = json.loads((REPO / "tests/hosts/recorded-h200.json").read_text("utf-8"))["facts"]
    for one in said["components"]:
        if one["id"] in {"gpu", "pci-display", "nvlink"} and one["instances"]:
            one["instances"] = [_moved(one["instances"][0], number) for number in range(gpus)]
    return {"schema": "gpustack.snapshot/1", **said}


def listed(packages: int) -> str:
    """Return a list of packages as pip prints it."""
    rows = [f"package-{number:<12d} {number % 40}.{number % 7}.1" for number in range(packages)]
    return "\n".join(["Package              Version", "-------------------- -------", *rows, "torch 2.11.0", ""])


def _moved(copy: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a copy of a GPU at another address."""
    place, uuid = f"0000:{number + 1:02x}:00.0", f"GPU-{number:08x}-0000-0000-0000-000000000000"
    key = uuid if str(copy["key"]).startswith("GPU-") else place
    return {**copy, "key": key, "facts": {**copy["facts"], "pci": place, "uuid": uuid, "index": number}}


def log(path: Path, megabytes: int) -> None:
    """Write a kernel log as dmesg prints it."""
    plain = "".join(f"[{at:12.6f}] usb 1-{at}: new high-speed USB device number {at}\n" for at in range(20_000))
    events = "".join(f"[{at:12.6f}] {XID.format(at % 64 + 1, 31 if at % 2 else 43)}" for at in range(200))
    with path.open("w") as file:
        while file.tell() < megabytes << 20:
            file.write(plain)
            file.write(events)


def timed(name: str, *origins: Path) -> dict[str, Any]:
    """Run the doctor on these and return its cost; exit if it fails."""
    sources = [word for origin in origins for word in ("--from", origin)]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        ran = costs.gpustack("doctor", "--format", "json", *sources, at=Path(folder), gib=64)
        seconds = time.perf_counter() - begun
    assert ran.code in {0, 1}, ran.err[-2000:]
    verdict = json.loads(ran.out)["verdict"]["status"]
    return {"name": name, "seconds": round(seconds, 2), "mib": round(ran.mib), "verdict": verdict}


def run(gpus: int, packages: int, megabytes: int) -> list[dict[str, Any]]:
    """Return the figures of the snapshot alone, and of the snapshot with the log."""
    with tempfile.TemporaryDirectory() as folder:
        snapshot, pip, dmesg = (Path(folder) / name for name in ("snapshot.json", "pip-list.txt", "dmesg.txt"))
        snapshot.write_text(json.dumps(machine(gpus)))
        pip.write_text(listed(packages))
        log(dmesg, megabytes)
        return [
            timed("snapshot", snapshot),
            timed("and packages", snapshot, pip),
            timed("and log", snapshot, pip, dmesg),
        ]


def same(times: int) -> int:
    """Judge one snapshot this many times; return how many different reports result, byte for byte."""
    facts = snapshots.read(json.dumps(machine(8)))
    matrix = Matrix()
    return len({writing.render(judge(facts, matrix)) for _ in range(times)})


def main() -> int:
    """Print the cost; return 1 if it exceeds the limits."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--gpus", type=int, default=64)
    reader.add_argument("--packages", type=int, default=10_000)
    reader.add_argument("--log", type=int, default=100)
    reader.add_argument("--times", type=int, default=1000)
    reader.add_argument("--json", type=Path)
    asked = reader.parse_args()
    reports = same(asked.times)
    print(f"judged {asked.times} times: {reports} report{'s' if reports > 1 else ''}, byte by byte")
    rows = run(asked.gpus, asked.packages, asked.log)
    for row in rows:
        print("{name:18s} {seconds:6.2f} s {mib:5d} MiB  {verdict}".format(**row))
    if asked.json:
        told = {"gpus": asked.gpus, "packages": asked.packages, "log_megabytes": asked.log, "rows": rows}
        told |= {"judged_times": asked.times, "different_reports": reports}
        asked.json.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    return int(reports > 1 or any(row["seconds"] > MOST_SECONDS or row["mib"] > MOST_MIB for row in rows))


if __name__ == "__main__":
    sys.exit(main())
