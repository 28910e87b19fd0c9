"""A file system in a folder: no path, link or name in it leads out of that folder, and no device in it is opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchanging import swapping
from tests.told import Host, load

ROOTED = load("rooted.py")
INERT = load("inert.py")
UNDER = st.lists(st.sampled_from(["a", "b", "..", ".", "", "up", "abs", "loop", "dir"]), max_size=8).map("/".join)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a root beside a secret that is outside it."""
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "shadow").mkdir()
    made = tmp_path / "root"
    for folder in ("etc", "usr/lib", "opt"):
        (made / folder).mkdir(parents=True)
    (made / "etc/shadow").write_text("inside")
    (made / "lib").symlink_to("usr/lib")
    return made


def host_at(root: Path) -> Host:
    return Host(root=str(root), environ={}, seconds=1.0)


@pytest.mark.parametrize(
    "link", ["../secret", "../../../../../../secret", "/secret", "/../secret", "etc/../../secret", "/etc/../../secret"]
)
def test_no_link_leads_out(root: Path, link: str) -> None:
    (root / "link").symlink_to(link)
    (root / "folder").symlink_to(str(Path(link).parent))
    host = host_at(root)
    for path in ("/link", "/folder/secret", "/../secret", "/usr/../../secret", "/usr/lib/../../../secret"):
        assert host.read(path) is None
        assert not host.exists(path)
    assert "secret" not in host.list("/folder")
    assert host.glob("/fold*/secr*") == []


def test_an_absolute_link_begins_at_the_root(root: Path) -> None:
    (root / "opt/link").symlink_to("/etc/shadow")
    (root / "opt/lib").symlink_to("/lib")
    (root / "usr/lib/libx.so.1").write_text("x")
    (root / "usr/lib/libx.so").symlink_to("libx.so.1")
    host = host_at(root)
    assert host.read("/opt/link") == "inside"
    assert host.real("/opt/lib/libx.so") == "/usr/lib/libx.so.1"
    assert host.glob("/opt/lib/libx.so*") == ["/opt/lib/libx.so", "/opt/lib/libx.so.1"]
    assert host.link("/opt/lib/libx.so") == "libx.so.1"
    assert host.list("/opt/lib") == ["libx.so", "libx.so.1"]


def test_loops_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("/a")
    (root / "self").symlink_to("self/deeper")
    (root / "round").symlink_to("/")
    host = host_at(root)
    for path in ("/a", "/a/x", "/self"):
        assert host.read(path) is None
        assert host.real(path) == path
        assert host.glob(path + "/*") == []
        assert host.list(path) == []
    assert host.read("/round/round/round/etc/shadow") == "inside"


def test_dangling_links_are_names_and_no_files(root: Path) -> None:
    (root / "opt/gone").symlink_to("/nowhere/at/all")
    host = host_at(root)
    assert host.glob("/opt/*") == ["/opt/gone"]
    assert not host.exists("/opt/gone")
    assert host.why("/opt/gone") == "missing"
    assert host.real("/opt/gone") == "/nowhere/at/all"


def test_pipes_are_not_waited_for_and_devices_not_opened(root: Path) -> None:
    os.mkfifo(root / "etc/pipe")
    host = host_at(root)
    assert host.read("/etc/pipe") is None
    if os.geteuid() == 0:
        os.mknod(root / "etc/zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        assert host.read("/etc/zero") is None
        assert "device node" in host.why("/etc/zero")
        assert (host.stat("/etc/zero") or {})["kind"] == "char"


@given(path=UNDER, link=UNDER)
def test_every_path_stays_inside(tmp_path_factory: pytest.TempPathFactory, path: str, link: str) -> None:
    root = tmp_path_factory.getbasetemp() / "tree"
    for folder in ("a/b", "dir"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, said in (("up", "../../.."), ("abs", "/a"), ("loop", "loop"), ("a/b/drawn", link or ".")):
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(said)
    for asked in (f"/{path}", f"/a/b/drawn/{path}"):
        try:
            handle = ROOTED["opened"](str(root), asked)
        except OSError:
            continue
        try:
            truly = str(Path(f"/proc/self/fd/{handle}").readlink())
        finally:
            os.close(handle)
        assert f"{truly}/".startswith(f"{root}/")
        assert truly.rstrip("/") == f"{root}{ROOTED['real'](str(root), asked)}".rstrip("/")


OUTSIDE = "outside"


def test_a_file_or_folder_that_is_swapped_for_a_link_leads_nowhere(root: Path, tmp_path: Path) -> None:
    """The files outside have the same names, so that any access that followed a link even once would find them."""
    (tmp_path / "out").mkdir()
    for name in ("file", "only-outside"):
        (tmp_path / "out" / name).write_text(OUTSIDE)
    for name in ("first", "second"):
        (root / name).mkdir()
        (root / name / "file").write_text("inside")
    (root / "to-file").symlink_to(tmp_path / "out/file")
    (root / "to-folder").symlink_to(tmp_path / "out")
    (root / "way").symlink_to("second/../second/file")
    host, answers = host_at(root), set()
    with swapping(root / "first/file", root / "to-file"), swapping(root / "second", root / "to-folder"):
        for _ in range(1000):
            for path in ("/first/file", "/second/file", "/way"):
                answers.add(host.read(path))
                assert (host.stat(path) or {"size": 6})["size"] != len(OUTSIDE)
            assert "only-outside" not in host.list("/second")
            assert host.glob("/sec*/only*") == []
            assert not host.exists("/second/only-outside")
    assert answers == {None, "inside"}


def test_what_is_read_is_what_was_opened_and_not_what_has_the_name_now(root: Path) -> None:
    (root / "etc/file").write_text("inside")
    handle = ROOTED["opened"](str(root), "/etc/file")
    try:
        (root / "etc/file").unlink()
        (root / "etc/file").symlink_to("../../secret")
        assert os.read(handle, 100) == b"inside"
    finally:
        os.close(handle)
    way = ROOTED["Way"](str(root), "/usr/lib/x")  # the path is gone, and then the folder is a different one
    try:
        (root / "usr/lib").rename(root / "usr/moved")
        (root / "usr/lib").symlink_to(root.parent)
        (root.parent / "x").write_text(OUTSIDE)
        with pytest.raises(FileNotFoundError):
            ROOTED["_opened"](*way.within())
    finally:
        way.close()
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        ROOTED["opened"](str(root / "usr/lib"), "/x")  # a root that was swapped for a link


def test_no_descriptor_stays_open(root: Path) -> None:
    (root / "a").symlink_to("a")
    host, before = host_at(root), len(list(Path("/proc/self/fd").iterdir()))
    for path in ("/etc/shadow", "/", "/lib/../etc/x", "/a", "/etc/shadow/x", "/etc/\0", "/nowhere/at/all", "/usr/.."):
        for look in (host.read, host.stat, host.real, host.link, host.list, host.glob, host.exists):
            look(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_of_an_image_is_run_or_loaded(root: Path) -> None:
    program = root / "usr/lib/program"
    program.write_text("#!/bin/sh\necho ran >&2\n")
    program.chmod(0o755)
    made: Any = INERT["inert"](Host, {"version": "3.11.2", "path": ["/x"]})
    host = made(str(root), {"PATH": "/usr/lib"}, 1.0)
    assert host.path("program") == "/usr/lib/program"
    assert host.run("program") is None
    assert host.why("program") == "not run"
    assert (host.interpreter()["version"], host.interpreter()["prefix"]) == ("3.11.2", "/usr")
    assert host.apart_all([]) == []
    for ask, given_ in ((host.library, "libc.so.6"), (host.module, "json"), (host.apart, int)):
        with pytest.raises(Exception, match="only read") as raised:
            ask(given_)
        assert raised.value.unread is True  # type: ignore[attr-defined]  # of a class that was loaded by path
        assert not isinstance(raised.value, OSError)


def test_a_long_folder_is_read_no_further_than_asked(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    assert len(Host().list(str(tmp_path), 10)) == 10
    assert len(host_at(tmp_path).list("/", 10)) == 10
    assert len(Host().list(str(tmp_path))) == 30
    assert Host().list("/nowhere", 10) == []
