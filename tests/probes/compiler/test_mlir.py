"""MLIR: libraries from LLVM's packages on the system, bindings in a Python."""

from __future__ import annotations

from tests.told import ToldHost, load

PROBE = load("compiler/mlir.py")["probe"]
SITE = "/env/lib/python3.12/site-packages"
ROW = {"id": "mlir", "distributions": ["mlir-python-bindings"]}


def test_nothing_is_there() -> None:
    assert PROBE(ToldHost(row=ROW)) is None
    inside = ToldHost(row=ROW, python={"path": [SITE], "prefix": "/env"})
    inside.environment = "/env/bin/python"
    assert PROBE(inside) == []


def test_a_library_of_debians_is_one_copy_with_all_its_names() -> None:
    host = ToldHost(
        {"/usr/lib/x86_64-linux-gnu/libMLIR.so.19.1": b"", "/usr/lib/x86_64-linux-gnu/libMLIRfoo.a": b""},
        links={"/usr/lib/llvm-19/lib/libMLIR.so": "../../x86_64-linux-gnu/libMLIR.so.19.1"},
        row=ROW,
    )
    (seen,) = PROBE(host)
    assert (seen["version"], seen["path"]) == ("19.1", "/usr/lib/x86_64-linux-gnu/libMLIR.so.19.1")
    assert len(seen["names"]) == 2


def test_bindings_are_those_of_the_python_that_is_asked_about() -> None:
    files: dict[str, str | bytes | OSError] = {f"{SITE}/mlir_python_bindings-20.0.0.dist-info/INSTALLER": "pip"}
    host = ToldHost(files, row=ROW, python={"path": [SITE], "prefix": "/env"})
    host.environment = "/env/bin/python"
    (seen,) = PROBE(host)
    assert (seen["key"], seen["version"], seen["installer"]) == ("mlir-python-bindings", "20.0.0", "pip")
