"""The contents of a wheel and a source distribution: what is intended, and nothing else that is in a checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Built = tuple[Path, Path, Path]  # a checkout, its wheel and its source distribution
REPO = Path(__file__).resolve().parent.parent
FOLDERS = ("gpustack", "probes", "microbench", "compat-matrix", "examples")
AS_JSON = {"compat-matrix/candidates.toml"}  # so large that the wheel has it once
OTHERS = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
# What may be in a checkout, of kinds that are never packed.
PLANTED = (
    ".env",
    ".env.local",
    ".DS_Store",
    ".netrc",
    ".module.py.swp",
    ".#module.py",
    "module.py~",
    "module.py.orig",
    "module.swp",
    "credentials",
    "credentials.csv",
    "id_ed25519",
    "key.pem",
    "core.1234",
    "weights.bin",
    "libthing.so",
    "data.sqlite",
    "notes.txt",
    "__pycache__/module.cpython-312.pyc",
    "__pycache__/module.py",
    ".git/config",
    ".git/hooks/hook.py",
    ".venv/lib/module.py",
    ".idea/workspace.xml",
)
# What is of a kind that is packed, and that only git can tell from ours.
UNTRACKED = (
    "gpustack/secrets.py",
    "gpustack/with space[1].py",
    "gpustack/schemas/credentials.json",
    "probes/driver/mine.py",
    "microbench/mine.cu",
    "compat-matrix/credentials.toml",
    "examples/mine.json",
)


def git(folder: Path, *arguments: str) -> str:
    """Run git without the configuration of the user who runs the tests."""
    program = shutil.which("git")
    if program is None:
        pytest.skip("git is not installed here")
    plain = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([program, *arguments], cwd=folder, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def copied(folder: Path) -> Path:
    """Return a copy of what is packed, laid out as in a checkout."""
    copy = folder / "checkout"
    copy.mkdir()
    for name in OTHERS:
        shutil.copy(REPO / name, copy)
    for name in FOLDERS:
        shutil.copytree(REPO / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    return copy


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return such a copy for a test that adds to it."""
    return copied(tmp_path)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return such a copy, unmodified, with its wheel and its source distribution."""
    folder = tmp_path_factory.mktemp("clean")
    checkout = copied(folder)
    return checkout, *build(checkout, folder / "out")


def plant(checkout: Path, names: Iterable[str]) -> None:
    for name in names:
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("planted = 1\n" if path.suffix == ".toml" else '"planted"\n', "utf-8")


def build(checkout: Path, out: Path) -> tuple[Path, Path]:
    """Return the wheel and the source distribution, both built from the checkout itself."""
    command = (sys.executable, "-m", "hatchling", "build", "--directory", str(out))
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def packed(wheel: Path, sdist: Path) -> tuple[set[str], set[str]]:
    """Return the names in both, as paths of the checkout."""
    with tarfile.open(sdist) as held:
        whole = {name.partition("/")[2] for name in held.getnames()}
    names = (name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name)
    return {name.removeprefix("gpustack/_shipped/") for name in names}, whole


def made(checkout: Path) -> set[str]:
    """Return the names of the tables as JSON, which the build adds to the wheel."""
    return {str(path.relative_to(checkout).with_suffix(".json")) for path in checkout.glob("compat-matrix/**/*.toml")}


def files(checkout: Path, folders: Iterable[str]) -> set[str]:
    return {
        str(path.relative_to(checkout)) for name in folders for path in (checkout / name).rglob("*") if path.is_file()
    }


def test_stray_files_are_not_packed(checkout: Path, tmp_path: Path) -> None:
    meant, tables = files(checkout, FOLDERS), made(checkout)
    plant(checkout, PLANTED)
    for folder in (*FOLDERS, "gpustack/schemas", "probes/driver", "tests", "mine"):
        plant(checkout / folder, PLANTED)
    (checkout / "gpustack/large.bin").write_bytes(bytes(3_000_000))
    in_wheel, in_sdist = packed(*build(checkout, tmp_path / "out"))
    assert in_wheel == (meant - AS_JSON) | tables
    assert in_sdist == {*meant, *OTHERS, "PKG-INFO"}


def test_of_what_could_be_ours_only_what_git_tracks_is_packed(checkout: Path, tmp_path: Path) -> None:
    meant, tables = files(checkout, FOLDERS), made(checkout)
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    plant(checkout, UNTRACKED)
    in_wheel, in_sdist = packed(*build(checkout, tmp_path / "out"))
    assert in_wheel == (meant - AS_JSON) | tables
    assert in_sdist == {*meant, *OTHERS, "PKG-INFO"}


def test_what_git_tracks_of_these_folders_is_packed(clean: Built) -> None:
    if not (REPO / ".git").exists():
        pytest.skip("this is no checkout")
    tracked = set(git(REPO, "-c", "safe.directory=*", "ls-files", "-z", "--", *FOLDERS).split("\0")) - {""}
    in_wheel, in_sdist = packed(*clean[1:])
    assert tracked - AS_JSON <= in_wheel
    assert tracked <= in_sdist


def test_without_git_a_source_distribution_builds_the_same_wheel(clean: Built, tmp_path: Path) -> None:
    _, wheel, sdist = clean
    with tarfile.open(sdist) as held:
        held.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again, sdist_again = build(unpacked, tmp_path / "second")
    assert again.read_bytes() == wheel.read_bytes()
    assert packed(wheel, sdist) == packed(again, sdist_again)


def test_two_builds_of_one_tree_are_the_same_bytes(clean: Built, tmp_path: Path) -> None:
    checkout, *first = clean
    second = build(checkout, tmp_path / "second")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_the_wheel_says_what_it_is_made_of(clean: Built) -> None:
    wheel = clean[1]
    held = zipfile.ZipFile(wheel)
    (name,) = [name for name in held.namelist() if "/sboms/" in name]
    text = held.read(name).decode()
    assert name.endswith(".dist-info/sboms/gpustack-doctor.cdx.json")
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert wrong is None, wrong
    bill = json.loads(text)
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {
        **dict.fromkeys(project["dependencies"], "required"),
        **dict.fromkeys(project["optional-dependencies"]["bench"], "optional"),
    }
    told = {one["properties"][0]["value"]: one["scope"] for one in bill["components"]}
    rows = {str(Requirement(text)): scope for text, scope in wanted.items()}
    assert {str(Requirement(text)): scope for text, scope in told.items() if scope != "excluded"} == rows
    assert bill["metadata"]["component"]["version"] == wheel.name.split("-")[1]
    (compiler,) = [one["version"] for one in bill["components"] if one["scope"] == "excluded"]
    for ptx in (REPO / "microbench").glob("*.ptx"):
        assert f"V{compiler}\n" in ptx.read_text("utf-8"), ptx.name
