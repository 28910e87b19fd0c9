"""The loader's search order as we compute it is the order in which this machine's loader really searches."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.stand_ins import compiled
from tests.told import Host, ToldHost, load

LOADER = load("loader.py")
Loader, cached = LOADER["Loader"], LOADER["cached"]
LOADS = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
lines = open("/proc/self/maps").read().splitlines()
print(next(line.split()[-1] for line in lines if line.endswith("libneeded_stand_in.so.9")))
"""


def really_loaded(root: Path, environ: dict[str, str]) -> str:
    command = [sys.executable, "-c", LOADS, str(root)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("tag", "variable", "steps"),
    [
        ("rpath", True, ["RPATH", "LD_LIBRARY_PATH"]),
        ("rpath", False, ["RPATH"]),
        ("runpath", True, ["LD_LIBRARY_PATH", "RUNPATH"]),
        ("runpath", False, ["RUNPATH"]),
    ],
)
def test_the_first_candidate_is_what_the_loader_of_this_machine_takes(
    tmp_path: Path, tag: str, *, variable: bool, steps: list[str]
) -> None:
    wheel = compiled(tmp_path / "wheel" / "libneeded_stand_in.so.9")
    system = compiled(tmp_path / "system" / "libneeded_stand_in.so.9")
    root = compiled(tmp_path / "lib" / "libroot.so", needs=[wheel], **{tag: "$ORIGIN/../nowhere:$ORIGIN/../wheel"})
    environ = {"LD_LIBRARY_PATH": str(system.parent)} if variable else {}
    outside, read = Loader(Host(environ=environ)).load([str(root)], [str(root.parent) + "/"], set())
    found = outside["libneeded_stand_in.so.9"]
    assert found[0]["path"] == really_loaded(root, environ)
    assert [copy["step"] for copy in found] == steps
    assert read[0]["path"] == str(root)


def test_an_rpath_reaches_what_is_loaded_through_it_and_a_runpath_does_not(tmp_path: Path) -> None:
    needed = compiled(tmp_path / "wheel" / "libneeded_stand_in.so.9")
    middle = compiled(tmp_path / "lib" / "libmiddle.so", needs=[needed])
    for tag in ("rpath", "runpath"):
        root = compiled(tmp_path / "lib" / f"lib{tag}.so", needs=[middle], **{tag: "$ORIGIN:$ORIGIN/../wheel"})
        outside, read = Loader(Host(environ={})).load([str(root)], [str(root.parent) + "/"], set())
        assert [Path(binary["path"]).name for binary in read] == [root.name, "libmiddle.so"]
        found = outside["libneeded_stand_in.so.9"]
        if tag == "rpath":
            assert found[0]["path"] == really_loaded(root, {})
            assert (found[0]["step"], found[0]["by"]) == ("RPATH", str(root))
        else:
            assert found == []
            with pytest.raises(subprocess.CalledProcessError):
                really_loaded(root, {})


@pytest.mark.parametrize("variable", [True, False])
def test_a_library_that_opens_its_parts_by_name_may_get_those_of_another(tmp_path: Path, *, variable: bool) -> None:
    ours, theirs = tmp_path / "wheel", tmp_path / "system"
    whole = compiled(ours / "libcudnn.so.9", opens="libcudnn_graph.so.9", runpath="$ORIGIN")
    for folder in (ours, theirs):
        compiled(folder / "libcudnn_graph.so.9")
        compiled(folder / "libcudnn_graph.so.9.14.0")
    environ = {"LD_LIBRARY_PATH": str(theirs)} if variable else {}
    loader = Loader(Host(environ=environ))
    found = loader.parts({whole.name: [{"path": str(whole), "folder": str(ours)}], "libcuda.so.1": []})
    assert list(found) == ["libcudnn_graph.so.9"]
    first = found["libcudnn_graph.so.9"][0]
    program = LOADS.replace("libneeded_stand_in.so.9", "libcudnn_graph.so.9")
    command = [sys.executable, "-c", program, str(whole)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert first["path"] == done.stdout.strip()
    assert first["step"] == ("LD_LIBRARY_PATH" if variable else "RUNPATH")


def test_what_is_already_loaded_is_not_searched_for_again(tmp_path: Path) -> None:
    needed = compiled(tmp_path / "libneeded_stand_in.so.9")
    root = compiled(tmp_path / "lib" / "libroot.so", needs=[needed])
    assert Loader(Host()).load([str(root), str(root), "/no/such"], [str(root.parent) + "/"], {needed.name})[0] == {}


def test_one_file_by_two_names_is_one_candidate_and_a_dangling_link_is_none() -> None:
    host = ToldHost(
        files={"/usr/lib64/libcudnn.so.9.14.0": ""},
        links={
            "/usr/lib64/libcudnn.so.9": "libcudnn.so.9.14.0",
            "/lib64": "/usr/lib64",
            "/usr/lib/libcudnn.so.9": "gone",
        },
        environ={"LD_LIBRARY_PATH": "/usr/lib64:::relative"},
        python={"machine": "x86_64", "executable": "/usr/bin/python3"},
    )
    found = Loader(host).search("libcudnn.so.9", [])
    assert [(copy["step"], copy["real"]) for copy in found] == [("LD_LIBRARY_PATH", "/usr/lib64/libcudnn.so.9.14.0")]


class ClosedFolder(ToldHost):
    """A host with a folder that may be traversed but not listed."""

    def list(self, folder: str, most: int | None = None) -> list[str]:  # noqa: ARG002 - there are none
        """Deny the listing."""
        self._note("list", folder, PermissionError(13, "Permission denied"))
        return []


def test_a_folder_that_cannot_be_listed_is_asked_for_the_name() -> None:
    host = ClosedFolder(files={"/closed/libnccl.so.2": ""}, environ={"LD_LIBRARY_PATH": "/closed"})
    assert [copy["path"] for copy in Loader(host).search("libnccl.so.2", [])] == ["/closed/libnccl.so.2"]


def test_the_cache_reads_as_ldconfig_prints_it() -> None:
    tool = Host().path("ldconfig")
    data = Host().bytes("/etc/ld.so.cache", 1 << 23)
    if tool is None or not data:
        pytest.skip("no ldconfig or no cache here to compare with")
    said = subprocess.run([tool, "-p"], capture_output=True, text=True, check=True).stdout
    machine = os.uname().machine
    word = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(machine, "libc6")
    listed = [line.split() for line in said.splitlines() if "=>" in line and word in line.split("=>")[0]]
    plain = [(row[0], row[-1]) for row in listed]
    found = cached(data, machine)
    assert len(plain) == sum(map(len, found.values()))
    assert all(path in found[name] for name, path in plain)


def cache(*rows: tuple[int, bytes, bytes]) -> bytes:
    """Return a cache file as glibc writes it: an old table in front, then a header, entries, and strings."""
    start = 48 + 24 * len(rows)
    texts, entries = b"", b""
    for flags, name, path in rows:
        places = (start + len(texts), start + len(texts) + len(name) + 1)
        texts += name + b"\0" + path + b"\0"
        entries += struct.pack("=iIIIQ", flags, *places, 0, 0)
    return (
        b"ld.so-1.7.0"
        + bytes(9)
        + b"glibc-ld.so.cache1.1"
        + struct.pack("=II", len(rows), len(texts))
        + bytes(20)
        + entries
        + texts
    )


def test_the_cache_gives_paths_in_order_and_for_this_machine_alone() -> None:
    data = cache(
        (0x303, b"libx.so", b"/a/libx.so"), (0x3, b"libx.so", b"/32/libx.so"), (0x303, b"libx.so", b"/b/libx.so")
    )
    assert cached(data, "x86_64") == {"libx.so": ["/a/libx.so", "/b/libx.so"]}
    assert cached(data, "riscv64") == {"libx.so": ["/a/libx.so", "/32/libx.so", "/b/libx.so"]}
    assert cached(data[:-3], "x86_64")["libx.so"] == ["/a/libx.so", ""]
    assert cached(b"ld.so-1.7.0", "x86_64") == {}


@given(st.binary(max_size=200))
def test_no_cache_makes_it_raise(data: bytes) -> None:
    cached(data, "x86_64")
    cached(b"glibc-ld.so.cache1.1" + data, "x86_64")


def test_the_libraries_of_the_python_that_runs_this_are_found() -> None:
    if shutil.which("ldd") is None:
        pytest.skip("no ldd here to compare with")
    program = os.path.realpath(sys.executable)
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout  # noqa: S607 - the one on PATH
    rows = [line.split() for line in said.splitlines() if "=>" in line]
    loader = Loader(Host())
    for soname, _, path, *_ in rows:
        assert os.path.realpath(loader.search(soname, loader.program)[0]["path"]) == os.path.realpath(path)
