"""ONNX as installed: the newest opset in its own table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.told import ToldHost, load

ONNX = load("framework/onnx.py")
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env"}
HELPER = """VERSION_TABLE: VersionTableType = [
    # Release-version, IR version, ai.onnx version, ai.onnx.ml version
    ("1.0", 3, 1, 1),
    ("1.5", 5, 10, 1),
    ("1.20.0", 13, 25, 5, 1),
]
("9.9", 99, 99, 99)
"""
FILES: dict[str, str | bytes | OSError] = {
    f"{SITE}/onnx/__init__.py": "",
    f"{SITE}/onnx/helper.py": HELPER.partition('("9.9"')[0],
    f"{SITE}/onnx-1.20.0.dist-info/METADATA": "",
}


def test_without_it_it_is_absent() -> None:
    assert ONNX["probe"](ToldHost(python=PYTHON)) is None


def test_the_newest_opset_of_its_table_is_reported() -> None:
    (seen,) = ONNX["probe"](ToldHost(FILES, python=PYTHON))
    assert (seen["version"], seen["opset"], seen["opset_ml"], seen["ir"]) == ("1.20.0", 25, 5, 13)


def test_a_second_copy_is_reported_and_a_denied_table_leaves_the_opset_open() -> None:
    files = {
        **FILES,
        "/user/onnx-1.16.0.dist-info/METADATA": "",
        f"{SITE}/onnx/helper.py": PermissionError(13, "denied"),
    }
    seen = ONNX["probe"](ToldHost(files, python={**PYTHON, "path": [SITE, "/user"]}))
    assert [one["version"] for one in seen] == ["1.20.0", "1.16.0"]
    assert seen[0]["opset"] is None


def test_a_record_without_its_package_has_failed() -> None:
    files: dict[str, str | bytes | OSError] = {f"{SITE}/onnx-1.20.0.dist-info/METADATA": ""}
    (seen,) = ONNX["probe"](ToldHost(files, python=PYTHON))
    assert seen["status"] == "failed"


@given(st.text(max_size=300))
def test_no_text_makes_it_crash(text: str) -> None:
    assert set(ONNX["opsets"]("VERSION_TABLE" + text)) == {"opset", "opset_ml", "ir"}
