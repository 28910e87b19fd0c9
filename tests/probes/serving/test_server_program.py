"""Servers that ship as a program: their folder, their version by file or by their own output, their wheels."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack.collect import catalogue
from tests.told import ToldHost, load

PROBE = load("serving/server_program.py")["probe"]
ROWS = {one.id: dict(one.data) for one in catalogue.load()}
TRITON, TGI = ROWS["triton-inference-server"], ROWS["tgi"]
ROOT = "/opt/tritonserver"
LAUNCHER = "text-generation-launcher"


def test_neither_program_nor_folder_is_absent() -> None:
    assert PROBE(ToldHost(row=TRITON)) is None
    assert PROBE(ToldHost(row=TGI)) is None


def test_an_image_of_triton_tells_version_release_and_backends() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{ROOT}/TRITON_VERSION": "2.61.0\n",
        f"{ROOT}/bin/tritonserver": b"",
        f"{ROOT}/lib/libtritonserver.so": b"",
        f"{ROOT}/backends/vllm/model.py": "",
        f"{ROOT}/backends/onnxruntime/x.so": b"",
    }
    seen = PROBE(ToldHost(files, row=TRITON, environ={"NVIDIA_TRITON_SERVER_VERSION": "25.09"}))
    assert (seen["version"], seen["version_from"], seen["container_release"]) == ("2.61.0", "TRITON_VERSION", "25.09")
    assert seen["path"] == f"{ROOT}/bin/tritonserver"
    assert seen["backends"] == ["onnxruntime", "vllm"]


def test_a_version_file_that_may_not_be_read_leaves_the_version_open() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{ROOT}/TRITON_VERSION": PermissionError(13, "denied"),
        f"{ROOT}/bin/tritonserver": b"",
    }
    host = ToldHost(files, row=TRITON)
    assert PROBE(host)["version"] is None
    assert ("read", f"{ROOT}/TRITON_VERSION", "denied") in host.log


@pytest.mark.parametrize(
    ("said", "version", "error"),
    [
        ("text-generation-launcher 3.3.7\n", "3.3.7", None),
        ("text-generation-launcher 2.0.5-dev0\n", "2.0.5-dev0", None),
        ("usage: none\n", None, "does not tell"),
        (TimeoutError("text-generation-launcher gave no answer in 1.5 s"), None, "no answer"),
    ],
)
def test_a_launcher_is_asked_for_its_version(said: Any, version: str | None, error: str | None) -> None:  # noqa: ANN401
    commands = {f"/usr/bin/{LAUNCHER} --version": said}
    seen = PROBE(ToldHost(row=TGI, commands=commands))
    assert seen["version"] == version
    assert seen.get("status") == ("failed" if error else None)
    assert error is None or error in seen["error"]


def test_in_a_python_its_wheels_are_reported() -> None:
    site = "/env/lib/python3.12/site-packages"
    files: dict[str, str | bytes | OSError] = {f"{site}/tritonclient-2.61.0.dist-info/METADATA": ""}
    host = ToldHost(files, row=TRITON, python={"path": [site], "prefix": "/env"})
    host.environment = "/env/bin/python"
    (seen,) = PROBE(host)
    assert (seen["key"], seen["version"]) == ("tritonclient", "2.61.0")
