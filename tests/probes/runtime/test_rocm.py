"""ROCm on fake machines: releases before and after the Core SDK, variables, wheels, and unrelated folders."""

from __future__ import annotations

import errno
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.told import ToldHost, load

ROCM = load("runtime/rocm.py")
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env", "base_prefix": "/usr"}


def look(files: dict[str, Any], *, environment: str | None = None, **more: Any) -> Any:  # noqa: ANN401 - as ToldHost takes it
    host = ToldHost(files, python=PYTHON, **more)
    host.environment = environment
    return ROCM["probe"](host)


def test_nothing_installed_is_absent() -> None:
    assert look({}) is None
    assert look({}, environment="/env/bin/python") is None
    assert look({"/opt/rocm/readme": "x"}) is None


def test_the_active_release_comes_first_and_each_root_once() -> None:
    files = {"/opt/rocm-6.3.3/.info/version": "6.3.3-74\n", "/opt/rocm-6.2.4/.info/version": "6.2.4-139\n"}
    found = look(files, links={"/opt/rocm": "/etc/alternatives/rocm", "/etc/alternatives/rocm": "/opt/rocm-6.3.3"})
    assert [(one["path"], one["version"], one["stream"]) for one in found] == [
        ("/opt/rocm-6.3.3", "6.3.3", "legacy"),
        ("/opt/rocm-6.2.4", "6.2.4", "legacy"),
    ]
    assert found[0]["found_by"] == ["/opt/rocm", "/opt/rocm-6.3.3"]


def test_a_core_sdk_and_a_variable_that_names_another_root() -> None:
    files = {"/opt/rocm/core-7.14/.info/version": "7.14.0\n", "/own/include/rocm-core/rocm_version.h": HEADER}
    found = look(files, environ={"ROCM_PATH": "/own/"})
    assert [(one["version"], one["stream"]) for one in found] == [("7.2.1", "legacy"), ("7.14.0", "core")]


HEADER = "#define ROCM_VERSION_MAJOR   7\n#define ROCM_VERSION_MINOR   2\n#define ROCM_VERSION_PATCH   1\n"


def test_a_root_whose_file_is_denied_is_named_by_its_folder_where_that_holds_libraries() -> None:
    denied = OSError(errno.EACCES, "denied")
    files = {"/opt/rocm-6.4.1/.info/version": denied, "/opt/rocm-6.4.1/lib/librocblas.so.4": ""}
    assert look(files)[0]["version"] == "6.4.1"
    assert look({"/opt/rocm-6.4.1/.info/version": denied}) is None


def test_a_tool_on_the_path_leads_to_its_root() -> None:
    files = {"/usr/.info/version": "5.2.3\n"}
    assert look(files, commands={"rocminfo": ""})[0]["found_by"] == ["PATH"]


def test_rocm_of_a_python_is_recognised_by_its_wheels_and_a_placeholder_as_one() -> None:
    files = {
        f"{SITE}/rocm_sdk_core-7.14.0.dist-info/METADATA": "Name: rocm-sdk-core\nVersion: 7.14.0\n",
        f"{SITE}/rocm_sdk_libraries_gfx94x_dcgpu-7.14.0.dist-info/METADATA": "Name: rocm-sdk-libraries-gfx94X-dcgpu\n"
        "Version: 7.14.0\n",
        f"{SITE}/rocm-7.14.0.dist-info/METADATA": "Name: rocm\nVersion: 7.14.0\n",
    }
    (one,) = look(files, environment="/env/bin/python")
    assert (one["version"], one["placeholder"], len(one["distributions"])) == ("7.14.0", False, 3)
    stub = {f"{SITE}/rocm-0.1.0.dist-info/METADATA": "Name: rocm\nVersion: 0.1.0\n"}
    assert look(stub, environment="/env/bin/python")[0]["placeholder"] is True


@given(st.text(max_size=200))
def test_no_version_file_makes_it_raise(text: str) -> None:
    look({"/opt/rocm/.info/version": text, "/opt/rocm/include/rocm-core/rocm_version.h": text})
