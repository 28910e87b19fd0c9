"""What a release is: one version everywhere, metadata whose links work, and a workflow whose steps run."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.metadata import Metadata

from tests.test_packing import build, copied, git
from tools import release

REPO = Path(__file__).resolve().parents[2]
WORKFLOW = REPO / ".github/workflows/release.yml"
HOME = "https://github.com/somebody/gpustack"


def steps(job: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"][job]["steps"])


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of what is packed, under git; a test run on GitHub has GitHub's variables, the copy does not."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    copy = copied(tmp_path)
    shutil.copy(REPO / "CHANGELOG.md", copy)
    shutil.copytree(REPO / "integrations", copy / "integrations", ignore=shutil.ignore_patterns("__pycache__"))
    git(copy, "init", "-q")
    git(copy, "add", ".")
    author = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    git(copy, *author, "commit", "-qm", "x")
    return copy


def described(wheel: Path) -> tuple[Metadata, str]:
    """Return the metadata of a wheel, checked as an index does, and its text."""
    held = zipfile.ZipFile(wheel)
    (name,) = [one for one in held.namelist() if one.endswith(".dist-info/METADATA")]
    text = held.read(name).decode()
    plain = text.replace("Metadata-Version: 2.5", "Metadata-Version: 2.4")  # which is all that packaging 25 knows
    return Metadata.from_email(plain, validate=True), str(email.message_from_string(text).get_payload())


def unbuilt(checkout: Path) -> dict[str, Any]:
    """Return the metadata that a wheel of the checkout would have."""
    command = (sys.executable, "-m", "hatchling", "metadata")
    return dict(json.loads(subprocess.run(command, cwd=checkout, capture_output=True, check=True).stdout))


def test_the_metadata_leads_somewhere_where_the_address_is_known_and_nowhere_else(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = unbuilt(checkout)
    assert not plain.get("urls")
    assert "](docs/guide.md)" in plain["readme"]["text"]
    git(checkout, "remote", "add", "origin", "git@github.com:somebody/gpustack.git")
    wheel, sdist = build(checkout, tmp_path / "known")
    metadata, readme = described(wheel)
    assert metadata.project_urls == {
        "Homepage": HOME,
        "Documentation": f"{HOME}/blob/HEAD/docs/guide.md",
        "Repository": HOME,
        "Issues": f"{HOME}/issues",
        "Changelog": f"{HOME}/blob/HEAD/CHANGELOG.md",
        "Security": f"{HOME}/blob/HEAD/SECURITY.md",
    }
    assert f"]({HOME}/blob/v{release.version(REPO)}/docs/bench.svg?raw=true)" in readme
    assert re.findall(r"\]\((?!https://|#)[^)]+\)", readme) == []
    shutil.unpack_archive(sdist, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert build(unpacked, tmp_path / "again")[0].read_bytes() == wheel.read_bytes(), "without git, as the archive says"
    monkeypatch.setenv("GITHUB_REPOSITORY", "else/where")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example")
    assert unbuilt(checkout)["urls"]["Homepage"] == "https://git.example/else/where"


def test_every_python_that_is_tested_is_named() -> None:
    said = set(
        re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (REPO / "pyproject.toml").read_text("utf-8"))
    )
    tried = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["try"]["strategy"]["matrix"]["python-version"]
    assert said == {one.rstrip("t") for one in tried}


def test_a_commit_with_the_tag_of_another_release_is_not_built(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "tag", "v9.9.9")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out"))
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "this commit has the tag v9.9.9, and gpustack/__init__.py says" in done.stderr
    assert "python -m tools.release 9.9.9 sets it" in done.stderr
    git(checkout, "tag", f"v{release.version(REPO)}")
    build(checkout, tmp_path / "fine")


def test_a_release_writes_its_version_wherever_it_occurs_and_dates_the_changes(checkout: Path) -> None:
    before = release.version(checkout)
    release.release(checkout, "7.8.9", "2027-01-31")
    assert release.version(checkout) == "7.8.9"
    changed = (checkout / "CHANGELOG.md").read_text("utf-8")
    assert "## [Unreleased]\n\n## [7.8.9] - 2027-01-31\n" in changed
    assert release.notes(changed, "7.8.9") == release.notes((REPO / "CHANGELOG.md").read_text("utf-8"), "Unreleased")
    assert not release.notes(changed, "Unreleased")
    texts = [path.read_text("utf-8") for path in (checkout / "integrations").rglob("*") if path.is_file()]
    assert sum(text.count("gpustack:7.8.9") for text in texts) >= 5
    assert not any(f"gpustack:{before}" in text or f'ersion: "{before}"' in text for text in texts)
    assert sum(text.count('ersion: "7.8.9"') for text in texts) == 3


@pytest.mark.parametrize(
    ("wanted", "says"), [("0.0.1", "is not newer"), ("1.0.0-1", "plain form"), ("new", "no version")]
)
def test_what_is_not_a_release_is_refused(wanted: str, says: str, checkout: Path) -> None:
    with pytest.raises(ValueError, match=says):
        release.release(checkout, wanted, "2027-01-31")
    assert git(checkout, "status", "--porcelain") == ""


def test_the_changes_keep_their_form() -> None:
    text = (REPO / "CHANGELOG.md").read_text("utf-8")
    assert text.startswith("# Changelog\n")
    headings = re.findall(r"^##[^#\n].*$", text, re.MULTILINE)
    assert headings[0] == "## [Unreleased]"
    assert [
        one for one in headings[1:] if not re.fullmatch(r"## \[\d[\w.]*\] - (\d{4}-\d\d-\d\d|never released)", one)
    ] == []
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds


def test_the_workflow_asks_for_little_and_publishes_when_the_owner_says_so() -> None:
    held = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    assert held["permissions"] == {"contents": "read"}
    jobs = held["jobs"]
    assert {name for name, one in jobs.items() if "permissions" in one} == {"release", "publish"}
    assert jobs["publish"]["if"] == "vars.PUBLISH == 'true'"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert (jobs["try"]["needs"], jobs["release"]["needs"], jobs["publish"]["needs"]) == ("build", "try", "release")
    assert "secrets." not in WORKFLOW.read_text("utf-8")


@pytest.mark.packages
@pytest.mark.timeout(580)
def test_the_steps_of_the_workflow_run_here(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    git(REPO, "-c", "safe.directory=*", "clone", "-q", "--no-local", str(REPO), str(copy))
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "python").symlink_to(sys.executable)
    environ = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "HOME": str(tmp_path), "GITHUB_REF_TYPE": "branch"}
    for step in [one for job in ("build", "try") for one in steps(job) if "run" in one]:
        shell = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
        done = subprocess.run(shell, cwd=copy, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{step['name']}\n{done.stdout}\n{done.stderr}"
    names = {one.name for one in (copy / "dist").iterdir()}
    assert {"gpustack.pyz", "gpustack-doctor.deb", "gpustack-doctor.cdx.json", "SHA256SUMS"} < names
    assert len(names) == 6
