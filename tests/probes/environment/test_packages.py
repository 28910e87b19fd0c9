"""What is installed for a Python, and files that two wheels claim: in fake sites, and in a real one with real files."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from gpustack.collect import catalogue
from gpustack.collect.probing import look
from gpustack.diagnose.machine.values import items, text
from tests.probes.stand_ins import python
from tests.told import ToldHost, load

PACKAGES = load("environment/packages.py")
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": ["/user", SITE], "prefix": "/env", "executable": "/env/bin/python"}
NCCL = "nvidia/nccl/lib/libnccl.so.2"
VLLM = """Name: vllm
Requires-Dist: torch==2.8.0
Requires-Dist: numpy<2 ; python_version < '3.9'
Requires-Dist: xformers==0.0.32; extra == 'fast'
Requires-Dist: requests>=2.26.0
Requires-Dist: triton
"""
OLD, NEW = "nvidia-nccl-cu11", "nvidia-nccl-cu12"


def summed(content: str) -> str:
    """Return a file's hash as a RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).decode().rstrip("=")


def wheel(name: str, version: str, files: dict[str, str], *, size: bool = True) -> dict[str, str | bytes | OSError]:
    """Return the RECORD of a wheel that brings these files."""
    lines = [f"{path},sha256={summed(held)},{len(held) if size else ''}\n" for path, held in files.items()]
    return {f"{SITE}/{name.replace('-', '_')}-{version}.dist-info/RECORD": "".join(lines)}


def told(*records: dict[str, str | bytes | OSError], **files: str) -> dict[str, Any]:
    """Return the probe's result for a Python with these wheels, and these files on the disk."""
    held = {name: content for record in records for name, content in record.items()}
    host = ToldHost({**held, **{f"{SITE}/{path}": content for path, content in files.items()}}, python=PYTHON)
    found: dict[str, Any] = PACKAGES["probe"](host)
    return found


def test_everything_installed_is_reported_and_what_is_there_twice() -> None:
    host = ToldHost(
        {
            "/user/Torch_Vision-0.25.0.dist-info/METADATA": "",
            f"{SITE}/torch_vision-0.26.0.dist-info/METADATA": "",
            f"{SITE}/numpy-2.4.6.dist-info/METADATA": "",
        },
        python=PYTHON,
    )
    assert PACKAGES["probe"](host) == {
        "key": "/env/bin/python",
        "distributions": {"torch-vision": "0.25.0", "numpy": "2.4.6"},
        "duplicates": {"torch-vision": ["0.25.0", "0.26.0"]},
        "overwritten": [],
        "pins": {},
    }


@pytest.mark.parametrize(
    ("there", "fits", "checked"),
    [("newer one", NEW, "size"), ("old", OLD, "size"), ("patched since", None, "size"), (None, None, "size")],
)
def test_of_two_wheels_the_one_whose_size_fits_has_written_last(there: str | None, fits: str, checked: str) -> None:
    records = wheel(OLD, "2.14.3", {NCCL: "old"}), wheel(NEW, "2.27.3", {NCCL: "newer one"})
    (found,) = told(*records, **({} if there is None else {NCCL: there}))["overwritten"]
    assert found == {
        "path": f"{SITE}/{NCCL}",
        "owners": [{"name": OLD, "version": "2.14.3"}, {"name": NEW, "version": "2.27.3"}],
        "fits": fits,
        "checked": checked,
        "there": there is not None,
    }


@pytest.mark.parametrize("size", [True, False])
def test_files_of_one_size_are_told_apart_by_their_sums(size: bool) -> None:  # noqa: FBT001 - a row
    records = (
        wheel(OLD, "2.14.3", {NCCL: "first"}, size=size),
        wheel(NEW, "2.27.3", {NCCL: "other"}, size=size),
    )
    (found,) = told(*records, **{NCCL: "other"})["overwritten"]
    assert (found["fits"], found["checked"]) == (NEW, "sha256")
    (found,) = told(*records, **{NCCL: "third"})["overwritten"]
    assert found["fits"] is None


def test_a_large_file_is_not_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "MOST_BYTES", 3)
    records = wheel(OLD, "2.14.3", {NCCL: "first"}), wheel(NEW, "2.27.3", {NCCL: "other"})
    (found,) = told(*records, **{NCCL: "other"})["overwritten"]
    assert (found["fits"], found["checked"]) == (None, "not")


def test_wheels_that_agree_or_share_no_folder_have_overwritten_nothing() -> None:
    same = wheel(OLD, "2.14.3", {NCCL: "x"}), wheel(NEW, "2.14.3", {NCCL: "x"})
    assert told(*same, **{NCCL: "x"})["overwritten"] == []
    apart = wheel(OLD, "1", {NCCL: "x"}), wheel(NEW, "2", {"nvidia/cu13/lib/libnccl.so.2": "y"})
    assert told(*apart, **{NCCL: "x"})["overwritten"] == []
    headers = (
        wheel(OLD, "1", {"nvidia/nccl/include/nccl.h": "x"}),
        wheel(NEW, "2", {"nvidia/nccl/include/nccl.h": "y"}),
    )
    assert told(*headers)["overwritten"] == []
    strangers = wheel("alpha", "1", {"lib/liba.so": "x"}), wheel("beta", "1", {"lib/liba.so": "y"})
    assert told(*strangers)["overwritten"] == []


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("nvidia-cudnn-cu13", "nvidia-cudnn"),
        ("nvidia-cublas", None),
        ("onnxruntime-openvino", "onnxruntime"),
        ("onnxruntime-extensions", None),
        ("cupy-cuda12x", "cupy"),
        ("cupy-xarray", None),
        ("tensorflow-cpu", "tensorflow"),
        ("tensorflow-datasets", None),
    ],
)
def test_distributions_of_one_kind_share_folders(name: str, family: str | None) -> None:
    assert PACKAGES["family"](name) == family


def test_in_a_real_python_with_real_files(tmp_path: Path) -> None:
    program, site = python(tmp_path / "env")
    library = site / NCCL
    library.parent.mkdir(parents=True)
    library.write_text("first")
    for name, held in ((OLD, "first"), (NEW, "other")):
        folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "RECORD").write_text(f"{NCCL},sha256={summed(held)},5\n")
    rows = [system for system in catalogue.load() if system.id == "packages"]
    seen = look(pythons=[str(program)], systems=rows, timeout=20).find("packages")
    assert seen is not None
    (found,) = items(seen.facts, "overwritten")
    assert text(found, "fits") == OLD
    assert seen.instances[0].environment == str(program)


def test_what_packages_of_the_stack_require_of_each_other_is_reported_and_nothing_else() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{SITE}/vllm-0.11.0.dist-info/METADATA": VLLM,
        f"{SITE}/torch-2.9.0.dist-info/METADATA": "",
        f"{SITE}/requests-2.0.dist-info/METADATA": "",
        f"{SITE}/triton-3.5.0.dist-info/METADATA": PermissionError(13, "denied"),
        f"{SITE}/numpy-2.4.6.dist-info/METADATA": "",
    }
    row = next(dict(one.data) for one in catalogue.load() if one.id == "packages")
    assert PACKAGES["probe"](ToldHost(files, python=PYTHON, row=row))["pins"] == {"vllm": {"torch": "==2.8.0"}}
