"""JAX: recognised by the names of its distributions, and tried with a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.stand_ins import PROBES, distribution, python
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from pathlib import Path

NAMES = load("framework/jax.py")
probe, exercise = NAMES["probe"], NAMES["exercise"]
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env", "machine": "x86_64", "version": "3.12.3", "implementation": "cpython"}


def told(names: dict[str, str], **files: str) -> Any:  # noqa: ANN401 - what the probe gives
    there: dict[str, str | bytes | OSError] = {
        f"{SITE}/{name}-{version}.dist-info/METADATA": "" for name, version in names.items()
    }
    return probe(ToldHost(files={**there, **{f"{SITE}/{path}": text for path, text in files.items()}}, python=PYTHON))


def test_nothing_installed_is_absent_and_a_plugin_alone_is_not_jax() -> None:
    assert told({}) is None
    assert told({"jax_cuda13_plugin": "0.12.0"}) is None


def test_a_record_without_a_package_has_failed() -> None:
    facts = told({"jaxlib": "0.12.0"})
    assert (facts["status"], facts["version"], facts["jaxlib"]) == ("failed", None, "0.12.0")
    assert told({"jax": "0.12.0"})["error"] == "no folder on the path holds the package jax"


@pytest.mark.parametrize(
    ("names", "build"),
    [
        ({"jaxlib": "0.12.0.1"}, "cpu"),
        ({"jaxlib": "0.12.0.1", "jax_cuda13_plugin": "0.12.0.1", "jax_cuda13_pjrt": "0.12.0.1"}, "cuda13"),
        ({"jaxlib": "0.6.0", "jax_cuda12_plugin": "0.6.0", "jax_cuda13_plugin": "0.8.0"}, "cuda13"),
        ({"jaxlib": "0.9.0", "jax_rocm7_plugin": "0.9.0", "jax_rocm7_pjrt": "0.9.0"}, "rocm7"),
        ({"jaxlib": "0.4.14+cuda12.cudnn89"}, "cuda12"),
        ({"jaxlib": "0.4.34", "jax_metal": "0.1.1"}, "metal"),
    ],
)
def test_builds(names: dict[str, str], build: str) -> None:
    facts = told({"jax": "0.12.0.1", **names}, **{"jax/__init__.py": ""})
    assert facts["build"] == build
    assert facts["jaxlib"] == names["jaxlib"]
    assert sorted(facts["plugins"]) == sorted(name.replace("_", "-") for name in names if name != "jaxlib")


def test_plugins_are_recognised_by_announcement_by_place_and_with_what_they_require() -> None:
    record = "jax_cuda13_plugin-0.11.2.dist-info"
    facts = told(
        {"jax": "0.11.2", "jaxlib": "0.11.2", "jax_cuda13_pjrt": "0.11.2", "nvidia_cudnn_cu13": "9.19.0.56"},
        **{
            "jax/__init__.py": "",
            "jax/version.py": "_version = '0.11.2'\n_release_version: str | None = None\n",
            "jax_plugins/xla_cuda13/__init__.py": "",
            "jax_plugins/__pycache__/x.pyc": "",
            f"{record}/METADATA": "Requires-Dist: nvidia-cudnn-cu13>=9.8,<10; extra == 'with-cuda'\n",
            f"{record}/entry_points.txt": "[a]\nb = c\n[jax_plugins]\nxla_cuda13 = jax_plugins.xla_cuda13\n\n[d]\ne = ",
        },
    )
    assert (facts["version"], facts["path"]) == ("0.11.2", f"{SITE}/jax")
    assert facts["entry_points"] == {"xla_cuda13": "jax_plugins.xla_cuda13"}
    assert facts["plugin_folders"] == [f"{SITE}/jax_plugins/xla_cuda13"]
    assert facts["requires"] == {"nvidia-cudnn-cu13": ">=9.8,<10"}
    assert facts["installed"] == {"nvidia-cudnn-cu13": "9.19.0.56"}


@given(st.text(max_size=100))
def test_no_text_makes_it_raise(text: str) -> None:
    files = {
        "jax/__init__.py": "",
        "jax/version.py": text,
        "jax_cuda12_plugin-1.dist-info/entry_points.txt": f"[jax_plugins]{text}",
    }
    assert told({"jaxlib": "1"}, **files)["build"] == "cuda12"


def test_in_a_real_python_that_is_not_ours(tmp_path: Path) -> None:
    program, site = python(tmp_path / "env")
    (site / "jax").mkdir()
    (site / "jax" / "__init__.py").write_text("raise RuntimeError('a stand-in: nobody is to import this')\n")
    distribution(site, "jax", "0.12.0.1", "jaxlib>=0.12")
    row = {"id": "jax", "probe": "framework/jax.py"}
    command = [str(program), str(PROBES), json.dumps({"rows": [row]})]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    (seen,) = json.loads(done.stdout.splitlines()[1])["instances"]
    assert (seen["version"], seen["requires"]) == ("0.12.0.1", {"jaxlib": ">=0.12"})


class Array:
    """A matrix of the stand-in."""

    def __init__(self, rows: list[list[int]]) -> None:
        """Store rows."""
        self.rows = rows

    def block_until_ready(self) -> Array:
        """Return itself: nothing runs in the background here."""
        return self

    def tolist(self) -> list[list[int]]:
        """Return the rows."""
        return self.rows


def stand_in(platform: str, *, wrong: str = "") -> dict[str, Any]:
    """Return modules that look like JAX on one device; ``wrong`` names the kind of number it multiplies wrongly."""
    kinds: list[str] = []

    def asarray(rows: list[list[int]] | Array, kind: str) -> Array:
        kinds.append(kind)
        return rows if isinstance(rows, Array) else Array(rows)

    def matmul(left: Array, right: Array) -> Array:
        columns = list(zip(*right.rows, strict=True))
        product = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left.rows]
        product[-1][-1] += kinds[-1] == wrong
        return Array(product)

    class Device(SimpleNamespace):
        def __str__(self) -> str:
            return "cuda:0"

    return {
        "jax": {"__version__": "0.11.2", "devices": lambda: [Device(platform=platform, device_kind="Stand-in")]},
        "jaxlib.version": {"__version__": "0.11.2"},
        "jax.numpy": {"asarray": asarray, "matmul": matmul, "float32": "float32", "bfloat16": "bfloat16"},
    }


def test_a_trial_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    modules = stand_in("gpu") | {"jax_cuda12_plugin._versions": {"cudnn_get_version": lambda: 91900}}
    facts = exercise(ToldHost(modules=modules, maps=["/w/libcudnn.so.9"]))
    assert (facts["ran"], facts["ok"], facts["error"]) == (True, True, None)
    assert (facts["device"], facts["devices"], facts["device_name"]) == ("cuda:0", 1, "Stand-in")
    assert facts["versions"] == {"jax": "0.11.2", "jaxlib": "0.11.2", "cudnn": "9.19.0"}
    assert facts["loaded"] == {"libcudnn": ["/w/libcudnn.so.9"]}
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


@pytest.mark.parametrize("wrong", ["", "float32", "bfloat16"])
def test_a_trial_on_the_cpu_and_wrong_answers(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    facts = exercise(ToldHost(modules=stand_in("cpu", wrong=wrong)))
    assert (facts["ran"], facts["ok"], facts["device"]) == (True, wrong == "", "cpu")
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"


def test_what_jax_raises_is_reported_in_its_words() -> None:
    def devices() -> None:
        raise RuntimeError("Unable to initialize backend 'cuda': no supported devices found")

    modules = stand_in("gpu")
    modules["jax"]["devices"] = devices
    facts = exercise(ToldHost(modules=modules))
    assert (facts["ran"], facts["ok"]) == (False, False)
    assert "Unable to initialize backend 'cuda'" in facts["error"]
    assert exercise(ToldHost())["error"] == "ModuleNotFoundError: No module named 'jax'"
