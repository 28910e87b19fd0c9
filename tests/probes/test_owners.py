"""Which package a file belongs to, according to the lists of pip, conda, dpkg and rpm."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import ToldHost, load

OWNERS = load("owners.py")
SITE = "/env/lib/python3.12/site-packages"
NCCL = "nvidia/nccl/lib/libnccl.so.2"
PACKAGES = ("libnccl", "nvidia-nccl", "nccl")


def in_site(files: Mapping[str, str | OSError], path: str = NCCL) -> list[dict[str, Any]]:
    """Return what claims the path in a site folder with these files."""
    told = ToldHost(files={f"{SITE}/{name}": held for name, held in files.items()})
    return list(OWNERS["of_prefix"](told, f"{SITE}/{path}", SITE, PACKAGES))


def test_of_two_wheels_that_claim_a_file_the_fitting_one_comes_first() -> None:
    files = {
        NCCL: "12345",
        "nvidia_nccl_cu12-2.18.3.dist-info/RECORD": f"a,,\n{NCCL},sha256=x,99\n",
        "nvidia_nccl_cu13-2.28.9.dist-info/RECORD": f"{NCCL},sha256=x,5\n",
    }
    assert in_site(files) == [
        {"kind": "wheel", "name": "nvidia-nccl-cu13", "version": "2.28.9", "fits": True},
        {"kind": "wheel", "name": "nvidia-nccl-cu12", "version": "2.18.3", "fits": False},
    ]


@pytest.mark.parametrize(
    ("path", "record", "name"),
    [
        ("torch/lib/libnccl.so.2", "torch-2.0.1+cu117", "torch"),
        ("faiss_gpu.libs/libnccl-1b2c3d4e.so.2", "faiss_gpu-1.7.2", "faiss-gpu"),
    ],
)
def test_a_bundled_copy_belongs_to_what_bundles_it(path: str, record: str, name: str) -> None:
    (owner,) = in_site({path: "1", f"{record}.dist-info/RECORD": f"{path},,\n"}, path)
    assert (owner["name"], owner["fits"]) == (name, False)


@pytest.mark.parametrize("record", ["", f"x/{NCCL},,\n", f"{NCCL}.9,,\n", OSError(errno.EACCES, "Permission denied")])
def test_a_wheel_that_does_not_list_the_file_is_not_an_owner(record: str | OSError) -> None:
    assert in_site({NCCL: "1", "nvidia_nccl_cu12-2.18.3.dist-info/RECORD": record}) == []


@given(record=st.text())
def test_no_record_breaks_the_reading(record: str) -> None:
    assert in_site({NCCL: "1", "nvidia_nccl_cu12-2.18.3.dist-info/RECORD": f"{NCCL}{record}"}) is not None


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"files": null}', '{"files": ["lib/libnccl.so.2.28.3"]}', "[" * 5000]
)
def test_conda_packages_that_list_the_file_own_it_and_damaged_records_nothing(damage: str) -> None:
    meta = {"name": "nccl", "version": "2.28.3", "files": ["lib/libnccl.so.2.28.3"]}
    host = ToldHost(
        files={
            "/env/lib/libnccl.so.2.28.3": "",
            "/env/conda-meta/nccl-2.28.3-h1.json": json.dumps(meta),
            "/env/conda-meta/nccl-dev-2.28.3-h1.json": damage,
            "/env/conda-meta/zlib-1.json": json.dumps(meta),
        },
        links={"/env/lib/libnccl.so.2": "libnccl.so.2.28.3"},
    )
    expected = [{"kind": "conda", "name": "nccl", "version": "2.28.3", "fits": None}]
    assert OWNERS["of_prefix"](host, "/env/lib/libnccl.so.2", "/env", PACKAGES) == expected


@pytest.mark.parametrize(
    ("listed", "status", "version"),
    [
        (
            "/usr/lib/x/libnccl.so.2.28.3",
            "Package: libnccl2\nArchitecture: amd64\nVersion: 2.28.3-1+cuda13.0\n",
            "2.28.3-1+cuda13.0",
        ),
        ("/lib/x/libnccl.so.2.28.3", "Package: a\nVersion: 1\n\nPackage: libnccl2\nVersion: 2.8-1\n\n", "2.8-1"),
        ("/lib/x/libnccl.so.2.28.3", "Package: libnccl2-doc\nVersion: 1\n\n", None),
    ],
)
def test_a_debian_package_is_known_by_its_list(listed: str, status: str, version: str | None) -> None:
    host = ToldHost(
        files={
            "/var/lib/dpkg/info/libnccl2:amd64.list": f"/.\n{listed}\n",
            "/var/lib/dpkg/info/libnccl-dev.list": "/.\n/usr/lib/x/libnccl.so\n",
            "/var/lib/dpkg/status": status,
        }
    )
    expected = [{"kind": "deb", "name": "libnccl2", "version": version, "fits": None}]
    assert OWNERS["of_system"](host, "/usr/lib/x/libnccl.so.2.28.3", PACKAGES) == expected


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("libnccl 2.28.3-1+cuda13.0\n", "2.28.3-1+cuda13.0"),
        ((1, "file /usr/lib64/libnccl.so.2.28.3 is not owned by any package\n"), None),
        ("\n", None),
        (TimeoutError("rpm gave no answer"), None),
    ],
)
def test_an_rpm_owns_a_file_where_there_is_no_dpkg(
    said: str | tuple[int, str] | Exception, version: str | None
) -> None:
    path = "/usr/lib64/libnccl.so.2.28.3"
    host = ToldHost(files={path: ""}, commands={f"rpm -qf --qf %{{NAME}} %{{VERSION}}-%{{RELEASE}}\\n {path}": said})
    owners = OWNERS["of_system"](host, path, PACKAGES)
    assert owners == ([{"kind": "rpm", "name": "libnccl", "version": version, "fits": None}] if version else [])


def test_a_machine_without_packages_owns_nothing() -> None:
    assert (
        OWNERS["of_system"](ToldHost(files={"/usr/lib64/libnccl.so.2": ""}), "/usr/lib64/libnccl.so.2", PACKAGES) == []
    )
