"""Generated tables: made identically from the same index, their coverage, and spot checks of what they say."""

from __future__ import annotations

import json
import re
import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpustack import assets
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import generated
from tools.matrix import spot
from tools.matrix.__main__ import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MATRIX = Matrix()
pytestmark = [  # pip's own: it leaves files open, and older ones use deprecated Python features
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
LINUX = "platform_system == 'Linux' and platform_machine == 'x86_64'"
WHEELS = {
    "demo-1.0.0-cp310-cp310-manylinux2014_x86_64.whl": ("torch==2.0.0", f"nvidia-cudnn-cu12==9.1.0.70; {LINUX}"),
    "demo-1.0.0-cp310-cp310-manylinux2014_aarch64.whl": ("torch==2.0.1",),
    "demo-1.1.0-cp38-abi3-manylinux_2_28_x86_64.whl": ("torch==2.1.0", "requests"),
    "demo-1.1.0-cp314-cp314t-win_amd64.whl": ("torch==2.1.0",),
    "demo-1.2.0rc1-py3-none-any.whl": ("torch",),
    "demo-2.0.0-py3-none-any.whl": (
        "numpy<2; python_version < '3.12'",
        "numpy>=2; python_version >= '3.12'",
        "Torch>=2",
        "cupy; extra == 'gpu'",
    ),
}
OLD = tuple(f"0.{number}.0" for number in range(1, 10))
SOURCES = (*(f"demo-{one}.tar.gz" for one in OLD), "demo-1.0.0.tar.gz")


def indexed(folder: Path) -> Path:
    """Return a folder that pip treats as an index: one distribution, whose page says which file was withdrawn."""
    page = folder / "demo"
    page.mkdir(parents=True)
    links = []
    for name, requires in WHEELS.items():
        version = name.split("-")[1]
        lines = [
            "Metadata-Version: 2.1",
            "Name: demo",
            f"Version: {version}",
            *(f"Requires-Dist: {one}" for one in requires),
        ]
        with zipfile.ZipFile(page / name, "w") as wheel:
            wheel.writestr(f"demo-{version}.dist-info/METADATA", "\n".join(lines) + "\n")
        yanked = ' data-yanked="broken"' if version == "1.1.0" else ""
        links.append(f'<a href="{name}" data-requires-python="&gt;=3.8"{yanked}>{name}</a>')
    for name in SOURCES:
        (page / name).write_bytes(b"")
        links.append(f'<a href="{name}">{name}</a>')
    (page / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>", "utf-8")
    return folder


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a table made from a recorded index, through pip's own settings."""
    monkeypatch.setenv("PIP_INDEX_URL", indexed(tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    known = 'since = "2022-01-01"\nunread = "too many"\nelsewhere = [{ name = "apex", why = "built" }]\n'
    known += 'distributions = [{ name = "demo", metadata = "later" }, { name = "torch" }]\n'
    (tmp_path / "known.toml").write_text(known, "utf-8")
    assert run(tmp_path, "demo") == 0
    return tmp_path


def run(folder: Path, *tables: str) -> int:
    places = ("--folder", folder / "generated", "--distributions", folder / "known.toml", "--cache", folder / "cache")
    return main(["--date", "2026-11-22", *map(str, places), *tables])


def test_a_table_has_every_final_release_and_what_its_wheels_require(made: Path) -> None:
    rows = {
        row["version"]: row for row in tomllib.loads((made / "generated" / "demo.toml").read_text("utf-8"))["releases"]
    }
    assert list(rows) == [*OLD, "1.0.0", "1.1.0", "2.0.0"]
    assert rows["0.9.0"] == {"version": "0.9.0", "wheels": {}}
    assert rows["1.0.0"]["wheels"] == {"linux-x86_64": "3.10", "linux-aarch64": "3.10"}
    assert rows["1.0.0"]["glibc"] == {"linux-x86_64": "2.17", "linux-aarch64": "2.17"}
    assert [one.split(";")[0] for one in rows["1.0.0"]["requires"]] == ["nvidia-cudnn-cu12==9.1.0.70", "torch==2.0.0"]
    assert rows["1.0.0"]["on"] == {"linux-aarch64": ["torch==2.0.1"]}
    assert rows["1.1.0"]["wheels"] == {"linux-x86_64": "3.8+", "windows": "3.14t"}
    assert rows["1.1.0"]["requires"] == ["torch==2.1.0"]  # nothing in the matrix is about requests
    assert rows["1.1.0"]["yanked"] == "broken"
    assert rows["2.0.0"]["wheels"] == {"any": "any"}


def test_the_day_of_the_matrix_follows_its_tables(made: Path) -> None:
    (made / "meta.toml").write_text('schema = 1\ndate = "2026-11-21"\n')
    assert run(made, "demo") == 0
    assert (made / "meta.toml").read_text() == 'schema = 1\ndate = "2026-11-22"\n'


def test_ten_rows_that_were_deleted_come_back_byte_for_byte(made: Path) -> None:
    path = made / "generated" / "demo.toml"
    whole = path.read_text("utf-8")
    lines = whole.splitlines(keepends=True)
    rows = [one for one in lines if one.startswith("  { version")]
    lost = rows[1:11]
    assert len(lost) == 10
    path.write_text("".join(one for one in lines if one not in lost), "utf-8")
    assert run(made, "coverage") == 1
    assert run(made, "demo") == 0
    assert path.read_text("utf-8") == whole
    assert run(made) == 0
    assert path.read_text("utf-8") == whole


def requires(folder: Path) -> dict[str, object]:
    rows = tomllib.loads((folder / "generated" / "demo.toml").read_text("utf-8"))["releases"]
    return {row["version"]: row.get("requires") for row in rows if row["wheels"]}


def test_a_run_asks_no_more_than_it_may_and_the_next_goes_on(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (made / "generated" / "demo.toml").read_text("utf-8")
    shutil.rmtree(made / "cache")
    assert run(made, "demo", "--again", "--most", "1") == 0
    assert [version for version, held in requires(made).items() if held] == ["2.0.0"]  # the newest first
    assert "2 whose METADATA was not read" in capsys.readouterr().out
    assert run(made, "coverage") == 0
    assert "METADATA of 2 not read: later" in capsys.readouterr().out
    shutil.rmtree(made / "cache")
    assert run(made, "demo", "--most", "4") == 0  # what an older table has is not requested again
    assert (made / "generated" / "demo.toml").read_text("utf-8") == whole


def test_one_row_in_twenty_is_read_again_each_day_so_that_a_wrong_one_comes_out(made: Path) -> None:
    path, again = made / "generated" / "demo.toml", 0
    wrong = re.sub(r"(?i)torch(==|>=)2", r"torch\g<1>9", path.read_text("utf-8"))
    for day in range(1, 25):
        path.write_text(wrong, "utf-8")
        assert run(made, "demo", "--date", f"2027-01-{day:02}") == 0
        again += len(re.findall(r"torch[=>]=2", path.read_text("utf-8")))
    assert 0 < again < 24


def test_what_cannot_be_read_of_one_wheel_leaves_the_rest(made: Path) -> None:
    shutil.rmtree(made / "cache")
    (made / "index" / "demo" / "demo-1.1.0-cp38-abi3-manylinux_2_28_x86_64.whl").write_bytes(b"no archive")
    assert run(made, "demo", "--again") == 0
    assert [version for version, held in requires(made).items() if held is None] == ["1.1.0"]


def test_coverage_names_what_is_missing_and_what_was_never_read(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(made, "coverage") == 0
    said = capsys.readouterr().out
    assert re.search(r"demo +12 rows of +12 releases, 100.0%, up to 2.0.0; pre-releases: 1, not asked\n", said)
    assert re.search(r"torch +not read: too many\n", said)
    assert re.search(r"apex +not on the index: built\n", said)
    path = made / "generated" / "demo.toml"
    path.write_text(re.sub(r'  \{ version = "1.1.0".*\n', "", path.read_text("utf-8")), "utf-8")
    assert run(made, "coverage") == 1
    assert "91.7%, up to 2.0.0; pre-releases: 1, not asked; missing: 1.1.0" in capsys.readouterr().out


def test_coverage_counts_what_is_asked_and_names_what_is_older(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        f"demo-{version}.tar.gz": (f"{day}T00:00:00Z", yanked)
        for version, day, yanked in (
            ("0.9.1", "2021-12-31", False),
            ("0.9.2", "2022-01-01", False),
            ("1.0", "2026-01-01", True),
            ("2.0b1", "2026-02-01", False),
        )
    }
    listed(made, files)
    assert run(made, "demo", "--kept") == 0
    assert run(made, "coverage", "demo", "--kept", "--record", str(made / "covered.csv")) == 0
    assert re.search(
        r"demo +2 rows of +2 releases, 100.0%, up to 1.0; before 2022-01-01: 1 releases, not asked; "
        r"pre-releases: 1, not asked\n",
        capsys.readouterr().out,
    )
    assert (made / "covered.csv").read_text("utf-8").splitlines()[1:] == ["demo,2026-11-22,2,1,1"]
    rows = tomllib.loads((made / "generated" / "demo.toml").read_text("utf-8"))["releases"]
    assert [(row["version"], row.get("yanked")) for row in rows] == [("0.9.2", None), ("1.0", "without a reason")]


def test_pre_releases_count_where_there_is_nothing_else_to_install(made: Path) -> None:
    listed(
        made,
        {"demo-0.0.1.tar.gz": ("2026-01-01T00:00:00Z", True), "demo-4.0b1.tar.gz": ("2026-02-01T00:00:00Z", False)},
    )
    assert run(made, "demo", "--kept") == 0
    rows = tomllib.loads((made / "generated" / "demo.toml").read_text("utf-8"))["releases"]
    assert [row["version"] for row in rows] == ["0.0.1", "4.0b1"]


def listed(folder: Path, files: Mapping[str, tuple[str, bool]]) -> None:
    """Store a list of files as an index returns it, with their upload times and which were withdrawn."""
    said = [
        {"filename": name, "url": name, "hashes": {}, "upload-time": time, "yanked": yanked}
        for name, (time, yanked) in files.items()
    ]
    page = {"content": json.dumps({"files": said}), "content_type": "application/vnd.pypi.simple.v1+json"}
    (folder / "cache" / "demo.files").write_text(
        json.dumps({**page, "encoding": None, "url": "https://index.test/demo/"})
    )


def test_without_a_list_that_was_kept_nothing_is_compared_and_that_is_said(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(made / "cache")
    assert run(made, "coverage", "demo", "--kept") == 1
    assert (
        "demo                             12 rows; no earlier run has kept the list of its files"
        in capsys.readouterr().out
    )


def test_a_distribution_that_the_index_does_not_have_is_one_line(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(made, "torch") == 1
    assert capsys.readouterr().err.startswith("torch: ")
    assert not (made / "generated" / "torch.toml").exists()


def test_markers_decide_what_a_release_requires_on_a_python_and_a_platform(made: Path) -> None:
    matrix = Matrix(made)
    two, one = generated.release_of(matrix, "demo", "2.0.0"), generated.release_of(matrix, "demo", "1.0.0")
    assert one
    assert two
    assert str(two.pin("numpy", python="3.11")) == "<2"
    assert str(two.pin("numpy", python="3.13t")) == ">=2"
    assert two.pin("numpy") is None  # it depends on the Python
    assert str(two.pin("torch")) == ">=2"
    assert two.pin("cupy") is None
    assert str(two.pin("cupy", extra="gpu")) == "any version"
    assert str(one.pin("torch", "linux-aarch64")) == "==2.0.1"
    assert one.pin("nvidia-cudnn-cu12", "linux-aarch64") is None
    assert str(one.pin("nvidia-cudnn-cu12")) == "==9.1.0.70"
    assert generated.release_of(matrix, "demo", "0.9.0").pin("torch") is None  # type: ignore[union-attr]


def test_a_spot_check_finds_what_a_table_says_wrongly(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for one in assets.MATRIX.glob("*.toml"):
        (made / one.name).symlink_to(one)
    assert run(made, "spot", "demo", "--count", "200", "--record", str(made / "spots.csv")) == 0
    there = {one for one in spot.read(made / "spots.csv") if not one.beside}
    assert {one.holds for one in there} == {True, False}
    path = made / "generated" / "demo.toml"
    path.write_text(path.read_text("utf-8").replace('"3.10"', '"3.12"'), "utf-8")
    capsys.readouterr()
    assert run(made, "spot", "demo", "--count", "200") == 1
    assert "compatible: Claim(asked='demo==1.0.0', platform='linux-" in capsys.readouterr().out
