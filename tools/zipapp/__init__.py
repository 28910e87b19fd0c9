"""gpustack with its dependencies as one file, for a machine without a network: ``python -m tools.zipapp WHEEL OUT``."""

from __future__ import annotations

import hashlib
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
START = Path(__file__).with_name("start.py")
LEAST = "3.10"  # for it and newer ones: wheels for any platform, and what the oldest Python needs
EPOCH = (1980, 1, 1, 0, 0, 0)  # the epoch of zip archives
# The files that installers write beside a distribution and that are kept; the others name this machine.
KEPT = re.compile(
    r"METADATA|entry_points\.txt|top_level\.txt|licen[cs]es/.*|(?:LICEN[CS]E|NOTICE|COPYING|AUTHORS).*", re.IGNORECASE
)


def build(wheel: Path, out: Path) -> None:
    """Write the archive; the same wheel and constraints always give the same bytes."""
    with tempfile.TemporaryDirectory() as made:
        site = Path(made, "site")
        install(wheel, site)
        pack(site, out)


def pack(site: Path, out: Path) -> None:
    """Write the packages installed in a folder as an archive; raises ValueError if one runs only on some machines."""
    held = {f"site/{name}": path.read_bytes() for name, path in files(site)}
    held["__main__.py"] = START.read_bytes()
    digest = hashlib.sha256()
    for name, data in sorted(held.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    held["DIGEST"] = digest.hexdigest()[:32].encode()
    with out.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in sorted(held.items()):
                about = zipfile.ZipInfo(name, EPOCH)
                about.external_attr = (stat.S_IFREG | 0o644) << 16
                about.create_system = 3  # Unix, whatever system it is built on
                archive.writestr(about, data, zipfile.ZIP_DEFLATED, 9)
    out.chmod(0o755)


def install(wheel: Path, site: Path) -> None:
    """Install the wheel and its dependencies, in the tested versions; raises if that fails."""
    asked = ("--python-version", LEAST, "--only-binary", ":all:", "--no-compile-bytecode", "--link-mode", "copy")
    command = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config", *asked)
    constraints = ("-c", str(REPO / "constraints.txt"))
    subprocess.run([*command, *constraints, "--target", str(site), str(wheel)], check=True)


def files(site: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of the archive."""
    for path in site.rglob("*"):
        name = path.relative_to(site)
        top = name.parts[0]
        if not path.is_file() or top in {"bin", "share"} or "__pycache__" in name.parts or path.name == ".lock":
            continue
        if path.suffix == ".so":
            raise ValueError(f"{name} is for one platform alone: the archive is for all")
        if not top.endswith(".dist-info") or KEPT.fullmatch("/".join(name.parts[1:])):
            yield name.as_posix(), path
