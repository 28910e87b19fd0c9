"""The examined Python and its variables are read as that Python reads them."""

from __future__ import annotations

import platform
import re
import sys
from typing import Any

import pytest

from gpustack.collect import catalogue
from gpustack.collect.probing import look
from tests.told import Host, ToldHost, load

probe = load("environment/python.py")["probe"]
PYTHON = {
    "executable": "/env/bin/python",
    "prefix": "/env",
    "base_prefix": "/usr",
    "path": ["/usr/lib/python3.12", "/env/lib/python3.12/site-packages"],
    "machine": "x86_64",
}


def told(files: dict[str, str | bytes | OSError], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as the told host takes it
    facts: dict[str, Any] = probe(ToldHost(files=files, python=PYTHON, **more))
    return facts


def test_the_python_that_runs_this() -> None:
    facts = probe(Host())
    assert facts["version"] == platform.python_version()
    assert (facts["path"], facts["prefix"], facts["base_prefix"]) == (sys.executable, sys.prefix, sys.base_prefix)
    assert facts["kind"] == ("venv" if sys.prefix != sys.base_prefix else "system")
    assert (facts["implementation"], facts["machine"]) == (sys.implementation.name, platform.machine())
    assert facts["search_path"] == [entry for entry in sys.path if entry]
    libc, version = platform.libc_ver()
    assert facts["glibc"] == (version if libc == "glibc" else None)
    if facts["libstdcxx"]:
        assert re.fullmatch(r"3\.4\.\d+", facts["libstdcxx"]["glibcxx"])


def test_the_probes_see_neither_their_own_folder_nor_gpustacks_path_in_a_target() -> None:
    rows = [system for system in catalogue.load() if system.id == "python"]
    seen = look(pythons=[sys.executable], systems=rows, timeout=20).find("python")
    assert seen is not None
    assert seen.status.value == "present"
    assert seen.instances[0].environment == sys.executable
    path = seen.facts["search_path"]
    assert isinstance(path, tuple)
    assert not any(str(entry).endswith("/probes") for entry in path)


@pytest.mark.parametrize(
    ("files", "kind", "conda", "site"),
    [
        ({"/env/pyvenv.cfg": "home = /usr/bin\nInclude-System-Site-Packages = True\n"}, "venv", False, True),
        ({"/env/pyvenv.cfg": "nonsense", "/usr/conda-meta/history": ""}, "venv", True, False),
        ({"/env/conda-meta/history": ""}, "conda", True, None),
        ({}, "system", False, None),
        ({"/env/pyvenv.cfg": PermissionError(13, "denied")}, "system", False, None),
    ],
)
def test_kinds_of_python(files: dict[str, str | bytes | OSError], kind: str, *, conda: bool, site: bool | None) -> None:
    facts = told(files)
    assert (facts["kind"], facts["conda"], facts["system_site_packages"]) == (kind, conda, site)


def test_what_surrounds_it_is_reported() -> None:
    site = "/env/lib/python3.12/site-packages"
    files: dict[str, str | bytes | OSError] = {
        f"{site}/~orch/__init__.py": "",
        f"{site}/torch/__init__.py": "",
        "/usr/lib/python3.12/EXTERNALLY-MANAGED": "",
        "/lib/ld-musl-x86_64.so.1": "",
    }
    facts = told(files, environ={"PYTHONPATH": "/src::/more", "PYTHONHOME": "/home"})
    assert facts["leftovers"] == [f"{site}/~orch"]
    assert facts["site_packages"] == [site]
    assert (facts["externally_managed"], facts["musl"]) == (True, True)
    assert (facts["pythonpath"], facts["pythonhome"]) == (["/src", "/more"], "/home")
    assert facts["libstdcxx"] is None


def test_the_cpp_library_is_the_first_that_the_loader_would_find() -> None:
    files: dict[str, str | bytes | OSError] = {"/conda/lib/libstdc++.so.6.0.29": "", "/usr/lib/libstdc++.so.6": ""}
    links = {"/conda/lib/libstdc++.so.6": "libstdc++.so.6.0.29"}
    facts = told(files, links=links, environ={"LD_LIBRARY_PATH": "/conda/lib"})
    assert facts["libstdcxx"] == {
        "path": "/conda/lib/libstdc++.so.6.0.29",
        "step": "LD_LIBRARY_PATH",
        "glibcxx": "3.4.29",
        "others": ["/usr/lib/libstdc++.so.6"],
    }
    assert told({"/usr/lib/libstdc++.so.6": ""})["libstdcxx"]["glibcxx"] is None


PROBE = load("environment/variables.py")["probe"]
ROW = {"variables": ["HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES"]}


def test_only_those_that_are_set_and_asked_about_are_reported() -> None:
    host = ToldHost(environ={"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_VISIBLE_DEVICES": "", "TOKEN": "x"}, row=ROW)
    assert PROBE(host) == {"variables": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}}
    assert PROBE(ToldHost(row=ROW)) is None


def test_what_nccl_conf_says_for_every_program_is_reported_but_for_what_is_not_nccl() -> None:
    row = {"variables": ["NCCL_IB_HCA", "NCCL_DEBUG", "LD_PRELOAD"]}
    conf = "# site\nNCCL_IB_HCA=mlx5_0,mlx5_1\n NCCL_DEBUG=WARN trailing\nLD_PRELOAD=/evil.so\nNCCL_TOKEN=x\nnonsense\n"
    host = ToldHost(files={"/etc/nccl.conf": conf}, row=row)
    assert PROBE(host) == {"nccl_conf": {"NCCL_IB_HCA": "mlx5_0,mlx5_1", "NCCL_DEBUG": "WARN"}}
