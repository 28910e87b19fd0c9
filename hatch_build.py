"""What is packed: the files that git tracks, if git is available; each table as JSON too; and a bill of materials.

If the project's address is known, the package's description has links that also work outside a checkout. A commit
whose tag names a release other than the one in its source is not built.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# A Markdown link or picture that refers to a file of the checkout; a checkout's address, as git and its hosts write it.
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?![a-z]+:|#)[^)]+)\)")
ORIGIN = re.compile(
    r"(?:https://|ssh://git@|git@)(?P<host>github\.com)[/:](?P<name>[\w.-]+/[\w.-]+?)(?:\.git)?/?", re.ASCII
)
TAG = re.compile(r"v\d[\w.]*", re.ASCII)
PTX = "nvidia-cuda-nvrtc-cu12"  # the compiler that produced microbench/*.ptx


class DescribingHook(MetadataHookInterface):
    """Add the README as description, and the project's addresses if they are known."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the text and the addresses."""
        root = Path(self.root)
        text, home = (root / "README.md").read_text("utf-8"), address(root)
        place = f"{home}/blob/v{self._version(root)}"
        told = LINK.sub(lambda found: _outside(found, place), text) if home else text
        metadata["readme"] = {"content-type": "text/markdown", "text": told}
        metadata["urls"] = {name: f"{home}{path}" for name, path in PAGES.items()} if home else {}

    def _version(self, root: Path) -> str:
        said = (root / self.config["version-file"]).read_text("utf-8")
        found = re.search(r'^__version__ = "(.+)"$', said, re.MULTILINE)
        return found[1] if found else ""


PAGES = {
    "Homepage": "",
    "Documentation": "/blob/HEAD/docs/guide.md",
    "Repository": "",
    "Issues": "/issues",
    "Changelog": "/blob/HEAD/CHANGELOG.md",
    "Security": "/blob/HEAD/SECURITY.md",
}


def _outside(link: re.Match[str], place: str) -> str:
    """Return a link to a file of the checkout as a link to the same file of the release."""
    address = f"{place}/{link['path']}"
    return f"{link['picture']}[{link['text']}]({address}{'?raw=true' if link['picture'] else ''})"


def address(root: Path) -> str | None:
    """Return the project's address from the CI runner or git, or None if unknown. An archive has its own."""
    if "GITHUB_REPOSITORY" in os.environ and "GITHUB_SERVER_URL" in os.environ:
        return f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    said = _git(root, "remote", "get-url", "origin")
    found = ORIGIN.fullmatch(said.strip())
    return f"https://{found['host']}/{found['name']}" if found else None


def released(root: Path, version: str) -> None:
    """Raise ValueError if this commit has the tag of another release: a build must name its own release."""
    tags = [one for one in _git(root, "tag", "--points-at", "HEAD").split() if TAG.fullmatch(one)]
    if tags and f"v{version}" not in tags:
        raise ValueError(
            f"this commit has the tag {tags[0]}, and gpustack/__init__.py says {version}: "
            f"python -m tools.release {tags[0][1:]} sets it, before the tag"
        )


def _git(root: Path, *arguments: str) -> str:
    """Return git's output for a checkout; nothing without a checkout or without git."""
    if not (root / ".git").exists():
        return ""
    asked = ("git", "-C", str(root), *arguments)
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


class PackingHook(BuildHookInterface[BuilderConfig]):
    """Leave out untracked files; add the tables as JSON, and the bill of materials, to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add and exclude files; an editable install reads the checkout itself, which may change."""
        if version == "editable":
            return
        root = Path(self.root)
        released(root, self.metadata.version)
        untracked = set(_untracked(root))
        # Man pages are installed beside the package, as shared data; the largest table is there as JSON alone.
        pages = ["/docs", "/compat-matrix/candidates.toml"] * (self.target_name == "wheel")
        config = self.build_config
        config.target_config["exclude"] = [*config.build_config["exclude"], *pages, *map(_pattern, sorted(untracked))]
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
        """Remove temporary files."""
        del build_data, artifact_path
        if version != "editable" and self.target_name == "wheel":
            self._made.cleanup()

    def _bill_of_materials(self) -> Mapping[str, object]:
        """Return the bill of materials in CycloneDX: gpustack's dependencies, and the compiler of its PTX."""
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
    """Return the entry of a dependency: its version if it is pinned, and its requirement as a property."""
    needs = Requirement(text)
    pinned = next((one.version for one in needs.specifier if one.operator == "=="), None)
    purl = f"pkg:pypi/{needs.name}" + (f"@{pinned}" if pinned else "")
    row: dict[str, object] = {"type": "library", "bom-ref": purl, "name": needs.name, "scope": scope, "purl": purl}
    return {**row, **({"version": pinned} if pinned else {}), "properties": [{"name": "gpustack:needs", "value": text}]}


def _untracked(root: Path) -> Iterator[str]:
    """Yield the untracked files of a checkout; none if git is not available."""
    if not (root / ".git").exists():
        return
    asked = ("git", "-C", str(root), "ls-files", "--others", "--exclude-standard", "-z")
    try:
        done = subprocess.run(asked, capture_output=True, check=False)
    except OSError:
        return
    yield from (name.decode("utf-8", "surrogateescape") for name in done.stdout.split(b"\0") if name)


def _pattern(name: str) -> str:
    """Return a path as a gitignore pattern that matches only this path."""
    return "/" + "".join(f"\\{one}" if one in "\\*?[ " else one for one in name)
