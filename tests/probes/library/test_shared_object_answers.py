"""What CUDA's shared libraries return: how it is read, and the results of loading stand-ins and this machine's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import in_time
from tests.told import REPO, Host, load

PROBE = load("library/shared_object.py")
ROWS = {
    row["id"]: row
    for row in json.loads((REPO / "probes" / "catalogue.json").read_text("utf-8"))["systems"]
    if row["probe"] == "library/shared_object.py"
}
Compile = Callable[..., Path]


@pytest.mark.parametrize(
    ("row", "numbers", "version"),
    [
        ("cuda-runtime", [13000], "13.0"),
        ("cuda-runtime", [12090], "12.9"),
        ("cuda-runtime", [11080], "11.8"),
        ("cuda-runtime", [0], None),
        ("nvrtc", [12, 0], "12.0"),
        ("nvrtc", [13, 5], "13.5"),
        ("nvrtc", [0, 0], None),
        ("cublas", [13, 1, 0], "13.1.0"),
        ("cublas", [11, 10, 3], "11.10.3"),
        ("cublaslt", [130100], "13.1.0"),
        ("cublaslt", [131000], "13.10.0"),
        ("cublaslt", [120405], "12.4.5"),
        ("cublaslt", [111003], "11.10.3"),
        ("cublaslt", [11605], "11.6.5"),
        ("cudnn", [91900], "9.19.0"),
        ("cudnn", [90000], "9.0.0"),
        ("cudnn", [8907], "8.9.7"),
        ("cudnn", [7605], "7.6.5"),
        ("nccl", [22809], "2.28.9"),
        ("nccl", [20900], "2.9.0"),
        ("nccl", [2708], "2.7.8"),
        ("nccl", [-1], None),
        ("nccl", [2**31 - 1], None),
        ("cudnn", [], None),
    ],
)
def test_what_libraries_answer_is_read_as_they_mean_it(row: str, numbers: list[int], version: str | None) -> None:
    assert PROBE["decode"](numbers, ROWS[row].get("encodings", [])) == version


@given(row=st.sampled_from(sorted(ROWS)), numbers=st.lists(st.integers(), max_size=3))
def test_no_answer_of_a_library_breaks_the_reading(row: str, numbers: list[int]) -> None:
    version = PROBE["decode"](numbers, ROWS[row].get("encodings", []))
    assert version is None or re.fullmatch(r"\d{1,2}(\.\d{1,3}){0,2}", version)


POINTERS = {"(int*)", "(int*, int*)", "(type, int*)", "(char*, size_t)", "(size_t*, size_t*, size_t*)"}


def test_rows_say_all_that_the_probe_asks_of_them() -> None:
    for row in ROWS.values():
        assert row.get("form") in {*POINTERS, *PROBE["GIVEN"]} if "symbol" in row else "form" not in row
        assert row["soname"].endswith(".so")
        assert row["packages"]
        assert ("encodings" in row) == (row.get("form") in {"size_t ()", "(int*)"}) or row["form"] == "int ()"


@pytest.fixture
def stand_in(compile_library: Compile, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that compiles a stand-in into a folder below the test's own."""

    def build(name: str, folder: str, *flags: str) -> Path:
        place = tmp_path / folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(compile_library("shared_object.c", name, f"-Wl,-soname,{name}", *flags), place)
        return place

    return build


def here(row: str, *folders: Path, seconds: float = 4.0) -> dict[str, dict[str, Any]]:
    """Return the copies that the probe sees in these folders of this machine, by folder name."""
    host = Host(environ={"LD_LIBRARY_PATH": ":".join(map(str, folders))}, seconds=seconds)
    host.row = ROWS[row]
    seen = PROBE["probe"](host)
    assert host.calls, "no call of a library was logged"
    return {Path(copy["path"]).parent.name: copy for copy in seen if Path(copy["path"]).parent in folders}


@pytest.mark.parametrize(
    ("row", "name", "flags", "version"),
    [
        ("cuda-runtime", "libcudart.so.13", ["-DONE=13000"], "13.0"),
        ("nvrtc", "libnvrtc.so.12", ["-DONE=12", "-DTWO=9"], "12.9"),
        ("cublas", "libcublas.so.12", ["-DMAJOR=12"], "12.13.14"),
        ("cublaslt", "libcublasLt.so.13", ["-DSIZE=131000"], "13.10.0"),
        ("cudnn", "libcudnn.so.8", ["-DSIZE=8907"], "8.9.7"),
        ("nccl", "libnccl.so.2", ["-DONE=22809"], "2.28.9"),
    ],
)
def test_every_library_is_queried_in_its_own_way(
    stand_in: Callable[..., Path], row: str, name: str, flags: list[str], version: str
) -> None:
    path = stand_in(name, "mine", f"-DSYMBOL={ROWS[row]['symbol']}", *flags)
    copy = here(row, path.parent)["mine"]
    assert (copy["version"], copy["version_from"], copy["status"]) == (version, "library", "present")
    assert (copy["soname"], copy["found_by"], copy["error"]) == (name, ["LD_LIBRARY_PATH"], None)


@in_time
def test_copies_that_crash_hang_leave_or_lie_lose_only_their_own_answer(stand_in: Callable[..., Path]) -> None:
    kinds = {
        "good": ["-DONE=22809"],
        "aborts": ["-DONE=22809", "-DABORTS"],
        "exits": ["-DONE=22809", "-DEXITS"],
        "hangs": ["-DONE=22809", "-DHANGS"],
        "hangs-too": ["-DONE=22809", "-DHANGS"],
        "garbage": ["-DONE=-559038737"],
        "refuses": ["-DONE=22809", "-DSTATUS=3"],
        "mute": ["-USYMBOL"],
    }
    folders = [
        stand_in("libnccl.so.2", kind, "-DSYMBOL=ncclGetVersion", *flags).parent for kind, flags in kinds.items()
    ]
    damaged = folders[0].parent / "damaged" / "libnccl.so.2.9.9"
    damaged.parent.mkdir()
    damaged.write_text("no ELF file")
    begun = time.monotonic()
    copies = here("nccl", *folders, damaged.parent, seconds=2.5)
    assert time.monotonic() - begun < 5, "the copies were not waited for side by side"
    assert {kind: (copy["status"], copy["version"]) for kind, copy in copies.items()} == {
        "good": ("present", "2.28.9"),
        "aborts": ("failed", None),
        "exits": ("failed", None),
        "hangs": ("failed", None),
        "hangs-too": ("failed", None),
        "garbage": ("present", None),
        "refuses": ("present", None),
        "mute": ("present", None),
        "damaged": ("failed", "2.9.9"),
    }
    assert copies["aborts"]["error"] == "killed by signal 6"
    assert copies["exits"]["error"] == "ended with code 0 and no answer"
    assert copies["hangs"]["error"] == "no answer in 2.5 s"
    assert copies["garbage"]["error"] == "it answered [-559038737], which is no version"
    assert copies["garbage"]["code"] == -559038737
    assert copies["refuses"]["error"] == "ncclGetVersion answered error 3"
    assert copies["mute"]["error"] == "it has no symbol ncclGetVersion"
    assert "file too short" in copies["damaged"]["error"] or "invalid ELF header" in copies["damaged"]["error"]


def test_a_sibling_is_taken_from_the_own_folder_and_missed_where_there_is_none(stand_in: Callable[..., Path]) -> None:
    sibling = stand_in("libcublasLt.so.12", "whole", "-DSYMBOL=cublasLtGetVersion", "-DSIZE=120405")
    needs = ["-DSYMBOL=cublasGetProperty", "-DMAJOR=12", "-Wl,--no-as-needed", str(sibling)]
    whole = stand_in("libcublas.so.12", "whole", *needs)
    alone = stand_in("libcublas.so.12", "alone", *needs)
    copies = here("cublas", whole.parent, alone.parent)
    assert copies["whole"]["version"] == "12.13.14"
    assert copies["alone"]["status"] == "failed"
    assert copies["alone"]["error"].startswith("libcublasLt.so.12: cannot open shared object file")


def test_the_runner_tells_the_probe_whose_copies_to_look_for(stand_in: Callable[..., Path], tmp_path: Path) -> None:
    stand_in("libnccl.so.2", "site/nvidia/nccl/lib", "-DSYMBOL=ncclGetVersion", "-DONE=22809")
    stand_in("libnccl.so.2", "system", "-DSYMBOL=ncclGetVersion", "-DONE=22707")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "LD_LIBRARY_PATH": str(tmp_path / "system")}
    versions = {}
    for environment in (sys.executable, None):
        asked = json.dumps({"rows": [ROWS["nccl"]], "environment": environment})
        command = [sys.executable, str(REPO / "probes"), asked]
        said = subprocess.run(command, capture_output=True, check=True, env=environ).stdout.splitlines()[-1]
        mine = [copy for copy in json.loads(said)["instances"] if copy["path"].startswith(str(tmp_path))]
        versions[environment] = [(copy["version"], copy["found_by"]) for copy in mine]
    assert versions == {sys.executable: [("2.28.9", ["wheel"])], None: [("2.27.7", ["LD_LIBRARY_PATH"])]}


def test_the_cuda_runtime_of_this_machine_says_its_version() -> None:
    host = Host()
    host.row = ROWS["cuda-runtime"]
    real = [copy for copy in PROBE["probe"](host) or [] if not copy["stub"]]
    if not real:
        pytest.skip("no CUDA runtime library is installed on this machine")
    for copy in real:
        assert copy["status"] == "present", copy
        assert re.fullmatch(r"\d+\.\d+(\.\d+)*", copy["version"]), copy
