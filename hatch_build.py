"""What a wheel has and a checkout has not: each table of the matrix as JSON too, which is read ten times faster."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class TablesHook(BuildHookInterface[BuilderConfig]):
    """Write the tables of ``compat-matrix`` into the wheel as JSON, beside the TOML that they come from."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files; an editable install reads the checkout's TOML, which may change."""
        if version == "editable":
            return
        self._made = tempfile.TemporaryDirectory()
        for table in sorted(Path(self.root, "compat-matrix").glob("*.toml")):
            made = Path(self._made.name, f"{table.stem}.json")
            made.write_text(json.dumps(tomllib.loads(table.read_text("utf-8"))), "utf-8")
            build_data["force_include"][str(made)] = f"gpustack/_shipped/compat-matrix/{made.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        del build_data, artifact_path
        if version != "editable":
            self._made.cleanup()
