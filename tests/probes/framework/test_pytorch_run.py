"""PyTorch as described and PyTorch as run: a stand-in wheel whose libraries are really loaded, and may be faulty."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.probes.stand_ins import PRELOADS, PROBES, VERSION, built, compiled, distribution, python
from tests.told import Host, ToldHost, load

exercise = load("framework/pytorch.py")["exercise"]
STAND_IN = Path(__file__).resolve().parent.parent.parent / "fakes" / "torch_stand_in.py"


def wheel(folder: Path, source: str = "") -> tuple[Path, Path]:
    """Create an environment with a stand-in torch and stand-in NVIDIA libraries; return its program and torch."""
    program, site = python(folder)
    nvidia = site / "nvidia"
    cudart = compiled(nvidia / "cu13" / "lib" / "libcudart.so.13")
    cudnn = compiled(nvidia / "cudnn" / "lib" / "libcudnn.so.9")
    torch, place = site / "torch", "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cu13/lib:$ORIGIN"
    cuda = compiled(torch / "lib" / "libtorch_cuda.so", needs=[cudart, cudnn], rpath=place)
    library = compiled(torch / "lib" / "libtorch_python.so", needs=[cuda], rpath=place, text="sm_80 sm_90")
    compiled(torch / "lib" / "libtorch_global_deps.so", needs=[cudart, cudnn], rpath=place)
    compiled(torch / "_C.stand-in.so", needs=[library], rpath=f"{place}:$ORIGIN/lib")
    shutil.copy(STAND_IN, torch / "__init__.py")
    with (torch / "__init__.py").open("a") as text:
        text.write(f'"""{source}"""\n')
    (torch / "version.py").write_text(VERSION)
    distribution(site, "torch", "2.11.0", "nvidia-cudnn-cu13==9.19.0.56")
    return program, torch


def asked(program: Path, environ: dict[str, str], *, deep: bool) -> dict[str, Any]:
    row = {"id": "pytorch", "probe": "framework/pytorch.py"}
    command = [str(program), str(PROBES), json.dumps({"rows": [row], "deep": deep})]
    environ = {"PYTHONDONTWRITEBYTECODE": "1", **environ}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if not deep:
        assert done.stderr == ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(lines[1]["instances"][0]) if len(lines) > 1 else {"died": done.returncode}


@pytest.mark.parametrize("system_first", [True, False])
def test_what_is_told_to_be_loaded_is_what_is_loaded(tmp_path: Path, *, system_first: bool) -> None:
    program, torch = wheel(tmp_path / "env")
    system = compiled(tmp_path / "system" / "libcudnn.so.9")
    environ = {"LD_LIBRARY_PATH": str(system.parent)} if system_first else {}
    facts = asked(program, environ, deep=False)
    assert (facts["path"], facts["archs"]) == (str(torch), ["sm_80", "sm_90"])
    assert re.fullmatch(r"2\.\d+(\.\d+)?", facts["glibc_needed"])
    found = facts["search"]["libcudnn.so.9"]
    assert [copy["step"] for copy in found][: 1 + system_first] == ["RPATH", "LD_LIBRARY_PATH"][: 1 + system_first]
    assert list(facts["search"]) == ["libcudart.so.13", "libcudnn.so.9"]
    tried = asked(program, environ, deep=True)
    assert (tried["ran"], tried["ok"], tried["device"], tried["error"]) == (True, True, "cuda:0", None)
    assert tried["loaded"] == {
        "libcudart": [facts["search"]["libcudart.so.13"][0]["path"]],
        "libcudnn": [found[0]["path"]],
    }
    assert not list(torch.rglob("*.pyc"))


def test_parts_of_another_cudnn_are_reported_as_they_are_loaded(tmp_path: Path) -> None:
    program, torch = wheel(tmp_path / "env")
    own = torch.parent / "nvidia" / "cudnn" / "lib"
    compiled(own / "libcudnn.so.9", opens="libcudnn_graph.so.9", runpath="$ORIGIN")
    compiled(own / "libcudnn_graph.so.9")
    system = compiled(tmp_path / "system" / "libcudnn_graph.so.9")
    environ = {"LD_LIBRARY_PATH": str(system.parent)}
    found = asked(program, environ, deep=False)["search"]
    assert [copy["step"] for copy in found["libcudnn_graph.so.9"]][:2] == ["LD_LIBRARY_PATH", "RUNPATH"]
    firsts = [found[name][0]["path"] for name in ("libcudnn.so.9", "libcudnn_graph.so.9")]
    assert asked(program, environ, deep=True)["loaded"]["libcudnn"] == sorted(firsts)


def test_what_torch_loads_by_path_comes_first_unless_it_is_loaded_already(tmp_path: Path) -> None:
    program, torch = wheel(tmp_path / "env", PRELOADS)
    place = "$ORIGIN/../../nvidia/cu13/lib"
    needs = [torch.parent / "nvidia" / "cu13" / "lib" / "libcudart.so.13"]
    compiled(torch / "lib" / "libtorch_global_deps.so", needs=needs, rpath=place)
    found = asked(program, {}, deep=False)["search"]
    assert found["libcudart.so.13"][0]["step"] == "RPATH"
    assert found["libcudnn.so.9"][0]["step"] == "preload"
    assert "RPATH" not in [
        copy["step"] for copy in found["libcudnn.so.9"]
    ]  # the same file by two paths is one candidate
    assert found["libcudnn.so.9"][0]["path"] == str(torch.parent / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9")


@pytest.mark.parametrize("system_first", [True, False])
def test_which_linker_libcusparse_would_load_and_what_it_lacks(tmp_path: Path, *, system_first: bool) -> None:
    program, torch = wheel(tmp_path / "env")
    nvidia, asked_for = torch.parent / "nvidia", "__nvJitLinkComplete_12_4"
    own = compiled(nvidia / "nvjitlink" / "lib" / "libnvJitLink.so.12", flags=[f"-Wl,--defsym={asked_for}=16"])
    older = compiled(tmp_path / "system" / own.name, flags=["-Wl,--defsym=__nvJitLinkComplete_12_2=16"])
    place = "$ORIGIN/../../nvjitlink/lib"
    calls = f"void {asked_for}(void); void cusparse(void) {{ {asked_for}(); }}"
    flags = ("-Wl,--enable-new-dtags", f"-Wl,-rpath,{place}", "-xnone", str(own))
    sparse = built(nvidia / "cusparse" / "lib" / "libcusparse.so.12", calls, "-Wl,-soname,libcusparse.so.12", *flags)
    rpath = "$ORIGIN/../../nvidia/cusparse/lib"
    compiled(torch / "lib" / "libtorch_global_deps.so", needs=[sparse], rpath=rpath)
    facts = asked(program, {"LD_LIBRARY_PATH": str(older.parent)} if system_first else {}, deep=False)
    assert facts["search"]["libnvJitLink.so.12"][0]["step"] == ("LD_LIBRARY_PATH" if system_first else "RUNPATH")
    assert facts["linker"] == {
        "by": str(sparse),
        "path": str(older if system_first else own),
        "wanted": [asked_for],
        "lacking": [asked_for] if system_first else [],
        "newest": "12.2" if system_first else "12.4",
    }


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("", {"ran": True, "ok": True, "device": "cuda:0", "devices": 2, "device_name": "Stand-in GPU"}),
        ("no-gpu", {"ran": True, "ok": True, "device": "cpu", "devices": 0, "device_name": None}),
        ("old-driver", {"ok": True, "unavailable": "RuntimeError: Found no NVIDIA driver on your system."}),
        ("wrong-product", {"ran": True, "ok": False, "error": None}),
        ("wrong-convolution", {"ran": True, "ok": False, "error": None}),
    ],
)
def test_a_trial_in_this_process(wrong: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", wrong)
    stand_in = runpy.run_path(str(STAND_IN))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        facts = exercise(ToldHost(modules={"torch": stand_in}, maps=["/w/libcudnn.so.9"]))
    assert {name: facts[name] for name in expected} == expected
    versions = {"torch": "2.11.0+cu130", "cuda": "13.0", "hip": None, "cudnn": "9.19.0", "nccl": "2.28.9"}
    assert facts["versions"] == versions
    assert facts["loaded"] == {"libcudnn": ["/w/libcudnn.so.9"]}
    assert any("driver on your system is too old" in line for line in facts["said"]) == (wrong == "old-driver")


def test_another_cudnn_than_the_build_asks_for_is_reported_in_torchs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "other-cudnn")
    facts = exercise(ToldHost(modules={"torch": runpy.run_path(str(STAND_IN))}))
    assert (facts["ran"], facts["ok"], facts["device"]) == (True, False, "cuda:0")
    assert facts["error"].startswith("RuntimeError: cuDNN version incompatibility")
    assert "cudnn" not in facts["versions"]


def test_a_build_for_the_cpu_is_tried_there_and_other_gpus_are_taken_where_there_are() -> None:
    stand_in = runpy.run_path(str(STAND_IN))
    none = SimpleNamespace(is_available=lambda: False)
    plain = {
        "version": SimpleNamespace(cuda=None),
        "backends": SimpleNamespace(cudnn=SimpleNamespace(version=lambda: None)),
    }
    facts = exercise(ToldHost(modules={"torch": {**stand_in, **plain, "cuda": none, "_C": None}}))
    assert (facts["ok"], facts["device"], "unavailable" in facts) == (True, "cpu", False)
    assert facts["versions"] == {"torch": "2.11.0+cu130", "cuda": None, "hip": None, "cudnn": None, "nccl": None}
    facts = exercise(
        ToldHost(modules={"torch": {**stand_in, **plain, "cuda": none, "xpu": stand_in["cuda"], "_C": None}})
    )
    assert (facts["ok"], facts["device"]) == (True, "xpu:0")


def test_no_reason_is_given_where_torch_gives_none() -> None:
    stand_in = runpy.run_path(str(STAND_IN))
    silent = SimpleNamespace(is_available=lambda: False, init=lambda: None, nccl=stand_in["cuda"].nccl)
    assert exercise(ToldHost(modules={"torch": {**stand_in, "cuda": silent}}))["unavailable"] is None


def test_an_import_that_fails_or_kills_is_an_answer(tmp_path: Path) -> None:
    program, _ = wheel(tmp_path / "env")
    facts = asked(program, {"STAND_IN": "fails"}, deep=True)
    assert (facts["ran"], facts["ok"]) == (False, False)
    assert facts["error"].startswith("ImportError: libcudnn.so.9: cannot open shared object file")
    assert facts["loaded"]["libcudart"]
    assert asked(program, {"STAND_IN": "dies"}, deep=True) == {"died": -6}


def test_torch_that_is_not_there_is_reported_in_pythons_words() -> None:
    facts = exercise(ToldHost())
    assert (facts["ran"], facts["error"]) == (False, "ModuleNotFoundError: No module named 'torch'")


def test_the_oldest_python_that_is_promised_runs_every_probe_of_this_room(tmp_path: Path) -> None:
    named = Host().path("python3.8") or "/bin/false"
    ask = subprocess.run(
        [named, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False
    )
    found = ask.stdout.strip()  # the named program may be a script that needs a PATH to find the real one
    if ask.returncode:
        pytest.skip("there is no working python3.8 here")
    _, torch = wheel(tmp_path / "env", PRELOADS)
    for name in ("jax", "onnxruntime"):
        (torch.parent / name).mkdir()
        (torch.parent / name / "__init__.py").write_text("raise RuntimeError('a stand-in')\n")
    names = ["python", "cuda-core", "pytorch", "jax", "onnxruntime"]
    environ = {"PYTHONPATH": str(torch.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([found, str(PROBES), *names], env=environ, capture_output=True, text=True, check=False)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    states = {line["id"]: (line["status"], line.get("reason")) for line in said if "id" in line}
    assert states == {name: ("absent" if name == "cuda-core" else "present", None) for name in names}
    assert done.stderr == ""
    rows = [{"id": name, "probe": f"framework/{name}.py"} for name in ("jax", "onnxruntime", "pytorch")]
    asked_ = json.dumps({"rows": rows, "deep": True})
    done = subprocess.run([found, str(PROBES), asked_], env=environ, capture_output=True, text=True, check=False)
    tried = [json.loads(line)["instances"][0] for line in done.stdout.splitlines()[1::2]]
    assert [facts["error"] for facts in tried[:2]] == ["RuntimeError: a stand-in"] * 2
    assert tried[2]["loaded"]["libcudnn"] == [str(torch.parent / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9")]
