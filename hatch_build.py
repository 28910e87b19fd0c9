"""What is packed: files that git knows, where git is asked; each table as JSON too; and what all of it is made of."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PTX = "nvidia-cuda-nvrtc-cu12"  # the compiler whose output microbench/*.ptx is


class PackingHook(BuildHookInterface[BuilderConfig]):
    """Leave out what git does not know; write the tables as JSON, and the bill of materials, into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add and leave out; an editable install reads the checkout itself, which may change."""
        if version == "editable":
            return
        root = Path(self.root)
        untracked = set(_untracked(root))
        if untracked:
            config = self.build_config
            config.target_config["exclude"] = [*config.build_config["exclude"], *map(_pattern, sorted(untracked))]
        if self.target_name != "wheel":
            return
        self._made = tempfile.TemporaryDirectory()
        for table in sorted(root.glob("compat-matrix/**/*.toml")):
            if not table.name.startswith(".") and str(table.relative_to(root)) not in untracked:
                name = table.relative_to(root).with_suffix(".json")
                made = Path(self._made.name, name)
                made.parent.mkdir(parents=True, exist_ok=True)
                made.write_text(json.dumps(tomllib.loads(table.read_text("utf-8"))), "utf-8")
                build_data["force_include"][str(made)] = f"gpustack/_shipped/{name}"
        bill = Path(self._made.name, "gpustack-doctor.cdx.json")
        bill.write_text(json.dumps(self._bill_of_materials(), indent=1), "utf-8")
        build_data["sbom_files"].append(str(bill))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        del build_data, artifact_path
        if version != "editable" and self.target_name == "wheel":
            self._made.cleanup()

    def _bill_of_materials(self) -> Mapping[str, object]:
        """Return the bill of materials in CycloneDX: what gpustack needs, and what made the PTX that it ships."""
        core = self.metadata.core
        ours = f"pkg:pypi/{core.name}@{self.metadata.version}"
        parts = [_component(one, "required") for one in core.dependencies]
        parts += [_component(one, "optional") for one in core.optional_dependencies["bench"]]
        needed = [one["bom-ref"] for one in parts]
        parts += [_component(one, "excluded") for one in core.optional_dependencies["dev"] if one.startswith(PTX)]
        return {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "application",
                    "bom-ref": ours,
                    "name": core.name,
                    "version": self.metadata.version,
                    "description": core.description,
                    "licenses": [{"license": {"id": core.license_expression}}],
                    "purl": ours,
                }
            },
            "components": parts,
            "dependencies": [{"ref": ours, "dependsOn": needed}, *({"ref": one} for one in needed)],
        }


def _component(text: str, scope: str) -> dict[str, object]:
    """Return the row of a dependency: a range has no version, and says what it is as a property."""
    needs = Requirement(text)
    pinned = next((one.version for one in needs.specifier if one.operator == "=="), None)
    purl = f"pkg:pypi/{needs.name}" + (f"@{pinned}" if pinned else "")
    row: dict[str, object] = {"type": "library", "bom-ref": purl, "name": needs.name, "scope": scope, "purl": purl}
    return {**row, **({"version": pinned} if pinned else {}), "properties": [{"name": "gpustack:needs", "value": text}]}


def _untracked(root: Path) -> Iterator[str]:
    """Yield the files of a checkout that git does not know; none where there is no git to ask."""
    if not (root / ".git").exists():
        return
    asked = ("git", "-C", str(root), "ls-files", "--others", "--exclude-standard", "-z")
    try:
        done = subprocess.run(asked, capture_output=True, check=False)
    except OSError:
        return
    yield from (name.decode("utf-8", "surrogateescape") for name in done.stdout.split(b"\0") if name)


def _pattern(name: str) -> str:
    """Return a path as a pattern of gitignore that matches it alone."""
    return "/" + "".join(f"\\{one}" if one in "\\*?[ " else one for one in name)
