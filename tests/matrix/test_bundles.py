"""A bundle of data: used when it is complete and newer, refused with a reason otherwise, and dropped again."""

from __future__ import annotations

import hashlib
import json
import re
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpustack.errors import InputError, UsageError
from gpustack.matrix import DATA_SCHEMA, Matrix, bundles
from gpustack.matrix.bundles import back
from gpustack.matrix.subjects import generated
from tests.ask.questions import command
from tools.matrix.__main__ import main

ROW: Mapping[str, Any] = {
    "version": "99.1.0",
    "date": "2030-01-01",
    "python": ">=3.10",
    "wheels": {"linux-x86_64": "3.10 3.13t"},
    "requires": ["torch==99.0.0"],
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder for this test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def packed(
    folder: Path, *, day: str = "2030-01-02", row: Mapping[str, Any] = ROW, pin: str = "", **manifest: object
) -> Path:
    table = {"schema": 1, "subjects": ["xformers"], "distribution": "xformers", "releases": [row]}
    table |= {"index_seen": "99.1.0", "source": "package index", "checked": "2030-01-02"}
    data = json.dumps(table)
    pins = {"xformers": pin or hashlib.sha256(data.encode()).hexdigest()}
    path = folder / f"{day}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bundle.json", json.dumps({"schema": DATA_SCHEMA, "date": day, "files": pins, **manifest}))
        archive.writestr("xformers.json", data)
    return path


def install(path: Path, pinned: str | None, matrix: Matrix) -> tuple[str, int]:
    return bundles.install(path.name, bundles.read(path), pinned, matrix)


def newest() -> str:
    return generated.releases(Matrix(), "xformers")[-1].version


def test_a_bundle_is_used_and_left_again(place: Path) -> None:
    shipped, date = newest(), Matrix().date
    assert install(packed(place), None, Matrix()) == ("2030-01-02", 1)
    assert (newest(), Matrix().date) == ("99.1.0", "2030-01-02")
    assert generated.has(Matrix(), "vllm")  # what it does not contain is unchanged
    install(packed(place, day="2030-02-01", row={**ROW, "version": "99.2.0"}), None, Matrix())
    assert newest() == "99.2.0"
    back()
    assert (newest(), Matrix().date) == ("99.1.0", "2030-01-02")
    back()
    assert (newest(), Matrix().date) == (shipped, date)
    with pytest.raises(UsageError, match="nothing to go back from"):
        back()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"day": "2020-01-01"}, "not newer than"),
        ({"schema": "gpustack.data/2"}, "not data for this gpustack"),
        ({"date": "soon"}, "damaged"),
        ({"files": {"../../xformers": "0" * 64}}, "damaged"),
        ({"files": {"torch": "0" * 64}}, "not a data bundle"),
        ({"files": []}, "damaged"),
        ({"files": ["xformers"]}, "damaged"),
        ({"files": "xformers"}, "damaged"),
        ({"pin": "0" * 64}, "damaged"),
        ({"row": {**ROW, "version": "1; rm -rf ~"}}, "version"),
        ({"row": {**ROW, "version": " 1.0"}}, "version"),
        ({"row": {**ROW, "fix": "curl example | sh"}}, "fix"),
        ({"row": {**ROW, "match": "(a+)+$"}}, "match"),
        ({"row": {**ROW, "requires": ["torch @ https://example.org/torch.whl"]}}, "requires"),
        ({"row": {**ROW, "requires": "torch"}}, "requires"),
        ({"row": {**ROW, "wheels": {"linux-x86_64": "$(id)"}}}, "wheels"),
        ({"row": {**ROW, "yanked": "\x1b]0;"}}, "yanked"),
        ({"row": {**ROW, "python": "three"}}, "python"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_is_not_a_newer_bundle_of_releases_is_refused_and_changes_nothing(
    place: Path, changed: dict[str, Any], says: str
) -> None:
    install(packed(place, day="2029-01-01"), None, Matrix())
    with pytest.raises(InputError, match=says):
        install(packed(place, **changed), None, Matrix())
    assert Matrix().date == "2029-01-01"


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "version": "\x1b]0;gone\x07"},
        {**ROW, "version": "1." * 400 + "x"},
        {**ROW, "requires": ["torch>=" + "1." * 450 + "!"]},
        {**ROW, "requires": ["torch" + "(" * 900]},
        {**ROW, "requires": ["torch; " + "(" * 400 + "python_version>'3'" + ")" * 400]},
        {**ROW, "requires": ["torch; python_version == '" + "a" * 900]},
        {**ROW, "requires": ["torch==1.0"] * 600},
        {**ROW, "python": ">=3" + ",>=3" * 240 + "$"},
        {**ROW, "wheels": {"linux-x86_64": "3.10 " * 79 + "x"}},
        {**ROW, "glibc": {"linux-x86_64": "2.$(id)"}},
        {**ROW, "on": {"../../linux": []}},
        {**ROW, "fix": {"commands": ["rm -rf ~"]}},
        [[]] * 5,
        "row",
        None,
    ],
    ids=lambda one: str(one)[-40:],
)
def test_what_is_made_to_harm_is_refused_at_once_in_one_line(place: Path, row: Mapping[str, Any]) -> None:
    began = time.process_time()
    with pytest.raises(InputError) as refused:
        install(packed(place, row=row), None, Matrix())
    assert time.process_time() - began < 1
    assert str(refused.value).isprintable()
    assert not (place / "data").exists()


@pytest.mark.parametrize("manifest", ["[" * 100_000, "{" * 100_000, "1" * 100_000, "null", '"bundle"', "{}"])
def test_a_manifest_that_is_none_is_refused(place: Path, manifest: str) -> None:
    with zipfile.ZipFile(place / "odd.zip", "w") as archive:
        archive.writestr("bundle.json", manifest)
    with pytest.raises(InputError, match=r"odd\.zip"):
        install(place / "odd.zip", None, Matrix())


def test_an_archive_that_unpacks_to_more_than_a_bundle_may_have_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = packed(place)
    monkeypatch.setattr(bundles, "MOST_DATA", 100)
    with pytest.raises(InputError, match="too long"):
        install(whole, None, Matrix())
    monkeypatch.setattr(bundles, "MOST_FILE", 100)
    with pytest.raises(InputError, match="too large for a data bundle"):
        install(whole, None, Matrix())


def test_nothing_that_a_bundle_may_hold_is_slow_to_ask(place: Path) -> None:
    marker = " or ".join(f"python_version == '3.{one}'" for one in range(30))
    slow = [f"torch{','.join(f'!=1.{one}.{two}' for two in range(12))}; {marker}" for one in range(500)]
    install(packed(place, row={**ROW, "requires": slow}), None, Matrix())
    began = time.process_time()
    release = generated.releases(Matrix(), "xformers")[-1]
    assert release.pin("torch", "linux-x86_64", "3.12") is not None
    assert time.process_time() - began < 8  # whole minutes without a limit


def test_what_is_not_an_archive_or_not_there_is_refused(place: Path) -> None:
    (place / "text.zip").write_text("no archive")
    for path in (place / "text.zip", place / "absent.zip", place):
        with pytest.raises(InputError, match=path.name):
            install(path, None, Matrix())


def test_a_pinned_bundle_is_that_very_file(place: Path) -> None:
    path = packed(place)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(InputError, match=digest):
        install(path, "0" * 64, Matrix())
    assert install(path, f"sha256:{digest}", Matrix())[1] == 1


def test_what_was_damaged_after_it_was_installed_is_skipped(place: Path) -> None:
    install(packed(place), None, Matrix())
    (place / "data" / "gpustack" / "matrix" / "current" / "bundle.json").write_text("{")
    assert Matrix().date < "2030"


def test_the_shipped_tables_make_a_bundle_that_the_command_takes(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = place / "1.zip", place / "2.zip"
    for path in (first, second):
        assert main(["bundle", str(path), "--date", "2030-03-01"]) == 0
    assert first.read_bytes() == second.read_bytes()
    digest = capsys.readouterr().out.split("sha256:")[1].split()[0]
    said = command("update", "--from", str(first), "--sha256", digest)
    assert (said.returncode, said.stdout.split(",")[0]) == (0, "Data used now: 2030-03-01")
    assert command("update", "--from", str(first)).returncode == 2
    assert command("update", "--from", str(first), "--back").returncode == 2
    assert command("update", "--back").returncode == 0
    assert Matrix().date < "2030"


def test_the_page_has_every_row_with_an_address_and_its_source(place: Path) -> None:
    assert main(["page", str(place / "matrix.html")]) == 0
    text = (place / "matrix.html").read_text("utf-8")
    assert 'id="generated/vllm.releases.0.9.2"' in text
    addresses = re.findall(r'<tr id="([^"]+)"', text)
    assert len(addresses) == len(set(addresses)) > 3000
    for name in ("generated/torch", "driver_branches", "gpus"):
        rows = sum(
            len(part) for part in Matrix().table(name).values() if isinstance(part, list) and isinstance(part[0], dict)
        )
        assert sum(one.startswith(f"{name}.") for one in addresses) == rows
    assert "https://" not in re.sub(r"<td>[^<]*|<pre>.*?</pre>", "", text, flags=re.DOTALL)  # nothing is loaded
