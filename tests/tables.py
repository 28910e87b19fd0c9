"""The tables as the JSON that a wheel contains, made once: hundreds of children would each parse ten as TOML."""

from __future__ import annotations

import json
import os
import sys

from gpustack import assets
from gpustack.matrix import MADE, made_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def prepare() -> None:
    """Keep the JSON of each table of this checkout next to the tables, and remove outdated ones."""
    folder = assets.MATRIX
    tables = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml")]
    written = {name: (folder / f"{name}.toml").read_bytes() for name in tables}
    wanted = {made_of(folder, name, data): data for name, data in written.items()}
    (folder / MADE).mkdir(exist_ok=True)
    there = set((folder / MADE).iterdir())
    for path, data in wanted.items():
        if path not in there:
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(tomllib.loads(data.decode("utf-8"))), "utf-8")
            part.replace(path)  # atomically, for whoever reads at the same time
    for path in there - set(wanted):
        path.unlink(missing_ok=True)
