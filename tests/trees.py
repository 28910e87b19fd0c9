"""Trees of /sys and /proc recorded on real machines, copied below a host's root; each names its source.

In the repository no file name has a colon, which some systems forbid: an underscore stands for it in PCI addresses.
The link of a PCI device to its driver is made from its ``uevent``.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

TREES = Path(__file__).parent / "hosts" / "trees"
ADDRESS = re.compile(r"[0-9a-f]{4}_[0-9a-f]{2}_[0-9a-f]{2}\.[0-7]")


def plant(name: str, root: Path) -> Path:
    """Copy a recorded tree below root, with its real names and links; return root."""
    shutil.copytree(TREES / name, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("SOURCE"))
    for kept in sorted((root / "sys/bus/pci/devices").glob("*")):
        named = kept.name.replace("_", ":") if ADDRESS.fullmatch(kept.name) else kept.name
        path = kept.rename(kept.with_name(named))
        driver = re.search(r"^DRIVER=(\S+)$", (path / "uevent").read_text("utf-8"), re.MULTILINE)
        if driver and not (path / "driver").is_symlink():
            (path / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver[1]}")
    return root


def source(name: str) -> str:
    """Return the recorded source of a tree."""
    return (TREES / name / "SOURCE").read_text("utf-8")
