"""The DKMS tree in each state that a module can be in."""

from __future__ import annotations

import errno

from tests.told import ToldHost, load

PROBE = load("kernel/dkms.py")["probe"]
RUNNING = {"/proc/sys/kernel/osrelease": "6.8.0-50-generic\n"}
TREE = "/var/lib/dkms/nvidia"
SOURCE = {f"{TREE}/580.95.05/source": "/usr/src/nvidia-580.95.05"}
# The beginning as dkms 3.0.11 writes it, the end as make does.
LOG = (
    "DKMS make.log for nvidia-580.95.05 for kernel 6.8.0-50-generic (x86_64)\nFri Nov 21 10:00:00 UTC 2026\n"
    + "  CC [M]  nvidia/nv.o\n" * 400
    + "make[1]: *** [Makefile:1953: modules] Error 2\nmake: *** [Makefile:82: modules] Error 2\n"
)


def test_installed_for_the_running_kernel_and_built_for_another() -> None:
    files = {
        **RUNNING,
        f"{TREE}/580.95.05/6.8.0-50-generic/x86_64/module/nvidia.ko.zst": "",
        f"{TREE}/580.95.05/6.8.0-49-generic/x86_64/module/nvidia.ko.zst": "",
    }
    links = {**SOURCE, f"{TREE}/kernel-6.8.0-50-generic-x86_64": "580.95.05/6.8.0-50-generic/x86_64"}
    seen = PROBE(ToldHost(files, links=links))
    assert [(row["key"], row["state"], row["for_running_kernel"]) for row in seen] == [
        ("nvidia/580.95.05 on 6.8.0-50-generic", "installed", True),
        ("nvidia/580.95.05 on 6.8.0-49-generic", "built", False),
    ]
    assert {row["version"] for row in seen} == {"580.95.05"}
    assert {row["log_tail"] for row in seen} == {None}


def test_a_failed_build_comes_with_the_end_of_its_log() -> None:
    (row,) = PROBE(ToldHost({**RUNNING, f"{TREE}/580.95.05/build/make.log": LOG}, links=SOURCE))
    assert (row["state"], row["kernel"], row["for_running_kernel"]) == ("failed", "6.8.0-50-generic", True)
    assert row["log_tail"].endswith("make: *** [Makefile:82: modules] Error 2")
    assert len(row["log_tail"]) <= 4000


def test_the_head_of_newer_logs_is_read_as_well() -> None:
    log = "DKMS (dkms-3.2.2) make.log for nvidia/580.95.05 for kernel 6.17.0-6 (x86_64)\nERROR: gcc\n"
    (row,) = PROBE(ToldHost({**RUNNING, f"{TREE}/580.95.05/build/make.log": log}, links=SOURCE))
    assert (row["kernel"], row["for_running_kernel"]) == ("6.17.0-6", False)


def test_a_log_of_no_known_kind_is_a_failed_build_anyway() -> None:
    (row,) = PROBE(ToldHost({**RUNNING, f"{TREE}/580.95.05/build/make.log": "?"}, links=SOURCE))
    assert (row["state"], row["kernel"], row["log_tail"]) == ("failed", None, "?")


def test_added_and_never_built() -> None:
    (row,) = PROBE(ToldHost(RUNNING, links=SOURCE))
    assert (row["key"], row["state"], row["kernel"]) == ("nvidia/580.95.05", "added", None)
    assert row["for_running_kernel"] is False


def test_a_denied_log_leaves_what_the_folders_say_and_is_logged() -> None:
    log = f"{TREE}/580.95.05/build/make.log"
    host = ToldHost({**RUNNING, log: OSError(errno.EACCES, "Permission denied")}, links=SOURCE)
    assert [row["state"] for row in PROBE(host)] == ["added"]
    assert host.why(log) == "denied"


def test_no_tree_and_an_empty_tree_are_absence() -> None:
    assert PROBE(ToldHost(RUNNING)) is None
    assert PROBE(ToldHost({**RUNNING, "/var/lib/dkms/dkms_dbversion": "1.0.0"})) is None
