"""The build tree of the running kernel: present, incomplete, missing, or irrelevant on this machine."""

from __future__ import annotations

import errno

import pytest

from tests.told import ToldHost, load

PROBE = load("kernel/kernel_headers.py")["probe"]
RUNNING = {"/proc/sys/kernel/osrelease": "6.8.0-50-generic\n"}
MODULES = {"/lib/modules/6.8.0-50-generic/modules.dep": ""}
TREE = "/usr/src/linux-headers-6.8.0-50-generic"


def test_a_complete_tree_is_found_through_the_kernels_own_link() -> None:
    files = {
        f"{TREE}/Makefile": "",
        f"{TREE}/Module.symvers": "",
        f"{TREE}/include/config/kernel.release": "6.8.0-50-generic\n",
    }
    seen = PROBE(ToldHost({**RUNNING, **MODULES, **files}, links={"/lib/modules/6.8.0-50-generic/build": TREE}))
    assert seen == {
        "version": "6.8.0-50-generic",
        "path": TREE,
        "makefile": True,
        "symbols": True,
        "release": "6.8.0-50-generic",
        "running": "6.8.0-50-generic",
    }


def test_a_tree_of_another_kernel_behind_the_link_is_reported_with_its_own_release() -> None:
    files = {f"{TREE}/Makefile": "", f"{TREE}/include/config/kernel.release": "6.8.0-49-generic\n"}
    seen = PROBE(ToldHost({**RUNNING, **MODULES, **files}, links={"/lib/modules/6.8.0-50-generic/build": TREE}))
    assert (seen["version"], seen["running"]) == ("6.8.0-49-generic", "6.8.0-50-generic")


def test_a_folder_without_a_makefile_is_seen_as_that() -> None:
    seen = PROBE(ToldHost({**RUNNING, **MODULES, "/usr/src/kernels/6.8.0-50-generic/.config": ""}))
    assert (seen["path"], seen["makefile"]) == ("/usr/src/kernels/6.8.0-50-generic", False)
    assert seen["version"] == "6.8.0-50-generic"


def test_headers_of_other_kernels_are_not_headers() -> None:
    other = {"/usr/src/linux-headers-6.8.0-49-generic/Makefile": ""}
    links = {"/lib/modules/6.8.0-50-generic/build": "/usr/src/linux-headers-6.8.0-50-generic"}
    assert PROBE(ToldHost({**RUNNING, **MODULES, **other}, links=links)) is None


def test_a_machine_without_module_trees_needs_none() -> None:
    assert "no /lib/modules" in PROBE(ToldHost(RUNNING))


def test_a_denied_release_is_a_failure() -> None:
    with pytest.raises(OSError, match="denied"):
        PROBE(ToldHost({"/proc/sys/kernel/osrelease": OSError(errno.EACCES, "Permission denied")}))
