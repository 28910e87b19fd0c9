"""What is installed is reported as importlib.metadata, packaging and Python's own import system report it."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tests.told import Host, ToldHost, load

INSTALLED = load("installed.py")
find, literals, headers, applies = (INSTALLED[name] for name in ("find", "literals", "headers", "applies"))
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {
    "path": ["/other", SITE],
    "prefix": "/env",
    "version": "3.12.3",
    "machine": "x86_64",
    "implementation": "cpython",
}


def told(files: dict[str, str | bytes | OSError], **more: Any) -> ToldHost:  # noqa: ANN401 - as the told host takes it
    return ToldHost(files=files, python=PYTHON, **more)


def test_every_distribution_of_the_python_that_runs_this_is_found() -> None:
    host = Host()
    there = {canonicalize_name(seen.name): seen.version for seen in importlib.metadata.distributions()}
    assert INSTALLED["versions"](find(host)) == there
    assert not any(outcome == "denied" for _, _, outcome in host.log)


def test_two_copies_are_two_the_first_on_the_path_first_and_a_folder_named_twice_counts_once() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{SITE}/Torch_Vision-0.26.0.dist-info/METADATA": "",
        "/other/torch_vision-0.25.0+cu128.dist-info/METADATA": "",
        f"{SITE}/~orch-2.0.0.dist-info/METADATA": "",
        f"{SITE}/broken.dist-info/METADATA": "",
    }
    host = told(files, links={"/again": "/other"})
    host.python["path"] = ["/other", "/again", SITE]
    assert [(copy["name"], copy["version"]) for copy in find(host)] == [
        ("torch-vision", "0.25.0+cu128"),
        ("torch-vision", "0.26.0"),
    ]
    assert INSTALLED["versions"](find(host)) == {"torch-vision": "0.25.0+cu128"}


def test_old_records_and_condas_own_are_seen_too() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{SITE}/apex-0.1-py3.12.egg-info": "Name: apex\n",
        "/other/deep_ep.egg-info/PKG-INFO": "Name: deep_ep\nVersion: 1.2\n",
        "/other/blank.egg-info/SOURCES.txt": "",
        f"{SITE}/numpy-2.1.0.dist-info/METADATA": "",
        "/env/conda-meta/numpy-2.1.0-py312h_0.json": "{}",
        "/env/conda-meta/cuda-cudart-13.0.96-h3f2d84a_0.json": "{}",
        "/env/conda-meta/history": "",
    }
    seen = {copy["name"]: copy for copy in find(told(files))}
    assert {name: copy["version"] for name, copy in seen.items()} == {
        "apex": "0.1",
        "deep-ep": "1.2",
        "blank": None,
        "numpy": "2.1.0",
        "cuda-cudart": "13.0.96",
    }
    assert seen["numpy"]["kind"] == "dist-info"
    assert seen["cuda-cudart"]["build"] == "h3f2d84a_0"


@pytest.mark.parametrize(
    ("direct", "editable"),
    [
        (json.dumps({"url": "file:///src", "dir_info": {"editable": True}}), True),
        (json.dumps({"url": "file:///src", "dir_info": {}}), False),
        (json.dumps({"url": "x", "archive_info": {}}), False),
        ("[]", False),
        ("{", False),
        ("[" * 100_000, False),
        (None, False),
    ],
)
def test_who_installed_it_and_whether_it_is_a_checkout(direct: str | None, *, editable: bool) -> None:
    record = f"{SITE}/x-1.dist-info"
    files: dict[str, str | bytes | OSError] = {f"{record}/INSTALLER": "uv\n"}
    files.update({f"{record}/direct_url.json": direct} if direct else {})
    host = told(files)
    assert INSTALLED["origin"](host, find(host)[0]) == {"installer": "uv", "editable": editable}


def test_a_checkout_of_setup_py_develop_is_editable_and_condas_are_condas() -> None:
    host = told({"/other/old.egg-info/PKG-INFO": "Version: 1\n", "/env/conda-meta/c-1-0.json": ""})
    origins = [INSTALLED["origin"](host, copy) for copy in find(host)]
    assert origins == [{"installer": None, "editable": True}, {"installer": "conda", "editable": False}]


def test_a_package_is_found_on_the_path_first_and_by_setuptools_finder_last() -> None:
    finder = 'import sys\nMAPPING: dict[str, str] = {"torch": "/src/torch"}\nNAMESPACES = {}\n'
    files: dict[str, str | bytes | OSError] = {f"{SITE}/__editable___torch_2_12_finder.py": finder}
    assert INSTALLED["places"](told(files), "torch") == ["/src/torch"]
    assert INSTALLED["places"](told(files), "jax") == []
    assert INSTALLED["places"](told({f"{SITE}/__editable___a_finder.py": "MAPPING = 1"}), "torch") == []
    files |= {f"{SITE}/torch/__init__.py": "", "/other/torch/__init__.py": ""}
    assert INSTALLED["places"](told(files), "torch") == ["/other/torch", f"{SITE}/torch"]


def test_literals_are_plain_values_annotated_or_not_and_nothing_else() -> None:
    text = (
        "from typing import Optional\n"
        "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"
        "a = b = 1\nloud = print('no')\nc: int\nx.y = 3\nd = -2\nd += 1\ne = {'k': [1]}\nbad = {[]: 1}\n"
    )
    assert literals(text) == {
        "__version__": "2.11.0+cu130",
        "cuda": "13.0",
        "hip": None,
        "a": 1,
        "b": 1,
        "d": -2,
        "e": {"k": [1]},
    }
    assert literals("x = '\\d'\n") == {"x": "\\d"}
    assert literals("x = (") == literals("\0") == literals("(" * 5000) == {}


def test_headers_end_at_the_first_empty_line_and_may_be_folded() -> None:
    text = "Name: torch\nRequires-Dist: a\n  ; extra == 'b'\nnonsense\n\nVersion: 9\n"
    assert headers(text) == [("name", "torch"), ("requires-dist", "a ; extra == 'b'")]


def test_requirements_are_those_that_packaging_gives() -> None:
    host = Host()
    checked = 0
    for copy in find(host):
        if copy["kind"] != "dist-info":
            continue
        ours = list(INSTALLED["requirements"](host, copy, ["bench"]))
        theirs = []
        for text in importlib.metadata.PathDistribution(Path(copy["path"])).requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", "bench")):
                theirs.append((canonicalize_name(wanted.name), {*wanted.extras}, {*str(wanted.specifier).split(",")}))
        assert [(name, {*extras}, {*versions.split(",")}) for name, extras, versions in ours] == theirs
        checked += len(theirs)
    assert checked > 20


def test_requirements_of_other_records_are_not_known_and_a_url_is_not_a_version() -> None:
    record = f"{SITE}/x-1.dist-info/METADATA"
    text = "License: first\n  \n  second\nRequires-Dist: a @ https://example.org/a.whl\nRequires-Dist: b (>=1, <2)\n"
    text += "Requires-Dist: ???\n\nRequires-Dist: of-the-description\n"
    host = told({record: text, "/env/conda-meta/c-1-0.json": "", "/other/d-1.egg-info": ""})
    seen = {copy["name"]: list(INSTALLED["requirements"](host, copy)) for copy in find(host)}
    assert seen == {"x": [("a", [], ""), ("b", [], ">=1,<2")], "c": [], "d": []}


MARKERS = [
    "platform_system == 'Linux'",
    "platform_system == 'Windows' or sys_platform == 'linux'",
    "python_version < '3.9'",
    "python_version >= '3.9' and platform_machine not in 'riscv64 ppc64'",
    "(os_name == 'nt' or extra == 'With_CUDA') and implementation_name != 'pypy'",
    "python_full_version > '3.9.0'",
    "'linux' in sys_platform",
    "extra == 'other'",
    "sys_platform != 'win32' and 'linux' == sys_platform",
]


@pytest.mark.parametrize("marker", MARKERS)
def test_markers_hold_where_packaging_says_so(marker: str) -> None:
    here = {**INSTALLED["_markers"](Host()), "extra": "with-cuda"}
    assert applies(marker, here) is Marker(marker).evaluate({"extra": "with-cuda"})


def test_markers_are_about_this_python() -> None:
    theirs: dict[str, Any] = {**default_environment()}
    ours = INSTALLED["_markers"](Host())
    assert ours == {name: theirs[name] for name in ours}
    assert ours["python_version"] == f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize(
    "marker", ["python_version ~= '3.8'", "unheard_of == '1'", "os_name", "os_name == 1", "os_name < 'z'", "f()", "("]
)
def test_a_marker_that_is_not_understood_holds(marker: str) -> None:
    assert applies(marker, INSTALLED["_markers"](Host())) is True


@given(st.text(max_size=200))
def test_no_text_makes_a_reader_raise(text: str) -> None:
    literals(text)
    headers(text)
    applies(text, INSTALLED["_markers"](ToldHost(python=PYTHON)))
    name = text.replace("/", "").replace("\0", "") or "x"
    for ending in (".dist-info", ".egg-info", ".json"):
        list(INSTALLED["_record"](told({}), "/other", name + ending))
        list(INSTALLED["_conda"]("/env/conda-meta", name + ending))
    host = told({f"{SITE}/x-1.dist-info/METADATA": f"Requires-Dist: {text}", f"{SITE}/x-1.dist-info/INSTALLER": text})
    for copy in find(host):
        INSTALLED["origin"](host, copy)
        list(INSTALLED["requirements"](host, copy, [text]))


@given(st.sampled_from(["a", "torch-x", "A.b_c"]), st.sampled_from(["", "[x]", "[x, y]"]), st.sampled_from(MARKERS))
def test_a_requirement_is_read_as_packaging_reads_it(name: str, extras: str, marker: str) -> None:
    text = f"{name}{extras} (>=1,!=1.5) ; {marker}"
    try:
        wanted = Requirement(text)
        holds = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
    except (InvalidRequirement, InvalidMarker, UndefinedEnvironmentName):
        return
    python = Host().interpreter()
    host = ToldHost(
        files={f"{SITE}/q-1.dist-info/METADATA": f"Requires-Dist: {text}"}, python={**python, "path": [SITE]}
    )
    found = list(INSTALLED["requirements"](host, find(host)[0]))
    assert found == ([(canonicalize_name(name), sorted(wanted.extras), ">=1,!=1.5")] if holds else [])
