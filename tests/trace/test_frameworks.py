"""A model in a framework of the target's Python: the child's lines, the chain, and the result on a broken stack."""

from __future__ import annotations

import ast
import os
import shlex
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from gpustack.errors import InputError, NothingSeenError, UsageError
from gpustack.model.facts import Layer
from gpustack.model.trace import Ground, Loaded, State, Trace
from gpustack.trace import Asked, Progress, frameworks
from gpustack.trace.failing import refused
from gpustack.trace.frameworks import chain, heard
from gpustack.trace.frameworks import chain as chains
from gpustack.trace.models import build
from tests.patience import in_time
from tests.trace.judging import judged

np = pytest.importorskip("numpy")
from gpustack.trace.ops import made, rounded  # noqa: E402 - it needs numpy

CHILDREN = Path(frameworks.__file__).parent / "children"
STAND_IN = Path(__file__).parent / "stand_in_jax.py"


def child(name: str) -> ModuleType:
    """Return a file of the children as a module."""
    module = ModuleType(name)
    module.__file__ = str(CHILDREN / f"{name}.py")
    path = [*sys.path]  # for which traced_model has an order of its own
    SourceFileLoader(name, module.__file__).exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the child's path with a stand-in JAX, on a machine that shows no GPU."""
    (tmp_path / "jax.py").write_text(STAND_IN.read_text("utf-8"), "utf-8")
    for module in (heard, frameworks):
        monkeypatch.setattr(module, "there", lambda: False)
    return tmp_path


def follow(packages: Path, *, framework: str = "jax", model: str = "mlp", **fakes: str) -> Trace:
    asked = Asked(model=model, framework=framework, pythons=(sys.executable,), timeout=60.0)
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH", ""))))
    return frameworks.follow(asked, Progress(), judged, environ={**os.environ, "PYTHONPATH": path, **fakes})


def test_without_a_gpu_the_steps_that_need_none_are_done_and_the_answer_is_checked(packages: Path) -> None:
    seen = follow(packages, model="transformer")
    status = {step.number: step.status for step in seen.steps}
    assert {number for number, one in status.items() if one is State.DONE} == {1, 5, 6}
    assert {number for number, one in status.items() if one is State.NEEDS_GPU} == {2, 3, 4, 7}
    assert seen.steps[1].why == ("Unknown backend: 'gpu' requested",)
    assert (seen.ground, seen.framework, seen.findings, seen.stop) == (Ground.FRAMEWORK, "jax 0.0.1", (), None)
    assert seen.checks[0].passed
    assert [layer.name for layer in seen.layers if not layer.seconds] == []
    assert [link.name for link in seen.chain] == ["script", "jax", "way to a GPU"]
    assert seen.chain[-1].missing == "Unknown backend: 'gpu' requested"
    assert seen.chain[1].file == str(packages / "jax.py")


def test_with_a_gpu_all_seven_steps_are_done(packages: Path) -> None:
    seen = follow(packages, FAKE_GPU="1")
    assert [step.status for step in seen.steps] == [State.DONE] * 7
    assert seen.device
    assert seen.device.name == "Stand-in"
    assert "computed in float64 and compared" in [figure.name for figure in seen.steps[6].figures]
    assert {"libcudnn", "libcublasLt", "libcudart", "libcuda", "nvidia.ko"} <= {link.name for link in seen.chain}
    assert all(link.missing for link in seen.chain if link.name == "libcudnn")
    assert "within" in seen.steps[6].why[-1]


@in_time
def test_the_steps_add_up_to_the_wall_time(packages: Path) -> None:
    seen = follow(packages, FAKE_GPU="1")
    assert seen.wall_seconds
    assert sum(step.seconds or 0.0 for step in seen.steps) == pytest.approx(seen.wall_seconds, rel=0.1, abs=0.05)


def test_a_wrong_answer_is_found(packages: Path) -> None:
    seen = follow(packages, FAKE_GPU="1", FAKE_WRONG="1")
    assert seen.steps[6].status is State.FAILED
    assert [finding.id for finding in seen.findings] == ["trace-wrong-answer"]
    assert seen.findings[0].component == "jax"


def test_on_a_machine_with_a_gpu_seeing_none_is_a_fault(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heard, "there", lambda: True)
    says = "CUDA driver version is insufficient for CUDA runtime version"
    seen = follow(packages, FAKE_SAYS=says)
    assert seen.steps[1].status is State.FAILED
    assert says in seen.steps[1].why[0]
    assert seen.stop
    assert (seen.stop.step, seen.stop.finding) == (2, "driver-too-old-for-cuda-build")
    assert seen.stop.explain == "gpustack explain driver-too-old-for-cuda-build"


def test_what_jax_warns_of_names_a_build_without_a_gpu(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heard, "there", lambda: True)
    warns = (
        "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu."
    )
    seen = follow(packages, FAKE_WARNS=warns)
    assert seen.steps[1].why == (f"Unknown backend: 'gpu' requested; {warns}",)
    assert seen.stop
    assert (seen.stop.step, seen.stop.finding) == (2, "cpu-only-build@jax")


def test_the_words_of_a_broken_import_lead_to_their_finding(packages: Path) -> None:
    says = "libcudnn.so.9: cannot open shared object file: No such file or directory"
    seen = follow(packages, FAKE_AT="import", FAKE_SAYS=says)
    assert [step.status for step in seen.steps] == [State.FAILED, *[State.SKIPPED] * 6]
    assert seen.stop
    assert seen.stop.step == 1
    assert seen.stop.finding != "trace-step-failed"
    assert says in seen.stop.why
    assert seen.findings


def test_a_framework_that_dies_fails_its_step(packages: Path) -> None:
    seen = follow(packages, FAKE_GPU="1", FAKE_AT="copy")
    assert [step.status for step in seen.steps[:3]] == [State.DONE, State.FAILED, State.SKIPPED]
    assert "was killed by SIGSEGV" in seen.steps[1].why[0]


def test_a_framework_that_is_not_there_is_reported_in_one_line(packages: Path) -> None:
    (packages / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    with pytest.raises(NothingSeenError, match=r"torch is not in .*; choose another Python with --python"):
        follow(packages, framework="torch")


def test_at_ctrl_c_what_is_known_is_reported(packages: Path) -> None:
    class Impatient(Progress):
        def step(self, number: int, name: str) -> None:
            if number == 5:
                raise KeyboardInterrupt(name)

    environ = {**os.environ, "PYTHONPATH": str(packages), "FAKE_GPU": "1"}
    asked = Asked(framework="jax", pythons=(sys.executable,))
    seen = frameworks.follow(asked, Impatient(), judged, environ=environ)
    assert seen.interrupted == "Ctrl-C"
    assert [step.status for step in seen.steps] == [*[State.DONE] * 4, *[State.SKIPPED] * 3]


def test_onnx_has_no_bf16_for_these_layers() -> None:
    with pytest.raises(UsageError, match="--precision fp16 or fp32"):
        frameworks.precision(Asked(framework="onnxruntime", precision="bf16"))
    assert frameworks.precision(Asked(framework="onnxruntime")) == "fp32"


def test_a_file_that_is_not_a_model_is_bad_input(packages: Path) -> None:
    (packages / "onnxruntime.py").write_text(
        "__version__ = '1'\nget_available_providers = lambda: ['CPUExecutionProvider']\n"
        "class SessionOptions: pass\ndef InferenceSession(*given, **more): raise ValueError('Protobuf parsing failed.')"
    )
    (packages / "no.onnx").write_text("no")
    asked = Asked(framework="onnxruntime", onnx=packages / "no.onnx", pythons=(sys.executable,))
    with pytest.raises(InputError, match=r"no\.onnx is not a model .* Protobuf parsing failed"):
        frameworks.follow(asked, Progress(), judged, environ={**os.environ, "PYTHONPATH": str(packages)})


def test_words_that_no_rule_knows_are_reported_as_they_are() -> None:
    words = 'it said "ouch $(reboot)"'
    stop, findings = refused(4, words, "torch", judged)
    assert (stop.step, stop.says, stop.finding) == (4, words, "trace-step-failed")
    assert shlex.split(stop.explain) == ["gpustack", "explain", words]
    assert stop.explain.endswith("'")  # between single quotes a shell runs nothing
    assert findings[0].component == "torch"


def test_a_framework_that_hangs_is_ended_on_time(packages: Path) -> None:
    (packages / "jax.py").write_text("import time\ntime.sleep(60)")
    asked = Asked(framework="jax", pythons=(sys.executable,), timeout=2.0)
    seen = frameworks.follow(asked, Progress(), judged, environ={**os.environ, "PYTHONPATH": str(packages)})
    assert [step.status for step in seen.steps] == [State.FAILED, *[State.SKIPPED] * 6]
    assert "printed nothing for" in seen.steps[0].why[0]


def test_the_children_make_the_same_numbers() -> None:
    model, draws = build("transformer", "small", "bf16"), child("traced_model")
    for tensor in (*model.weights, model.input):
        told = {name: getattr(tensor, name) for name in ("shape", "first", "spread", "centre")}
        theirs = draws.with_numpy(told, model.seed, np)
        assert (rounded(theirs, "bf16") == made(model, tensor)).all(), tensor.name


@pytest.mark.parametrize("path", sorted(CHILDREN.glob("*.py")), ids=lambda path: path.name)
def test_children_are_written_for_python_3_8_and_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 8))
    seen = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    seen |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in seen} <= set(sys.stdlib_module_names)


def test_the_chain_goes_from_the_script_to_the_kernel(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.12/site-packages"
    (site / "nvidia/cudnn/lib").mkdir(parents=True)
    (site / "nvidia_cudnn_cu12-9.10.2.21.dist-info").mkdir()
    (site / "nvidia_cudnn_cu12-9.10.2.21.dist-info/RECORD").write_text("a,,\nnvidia/cudnn/lib/libcudnn.so.9,sha,1\n")
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    said = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    (tmp_path / "proc/driver/nvidia/version").write_text(said)
    cudnn, torch = str(site / "nvidia/cudnn/lib/libcudnn.so.9"), "/env/torch/lib/libtorch_cuda.so"
    (tmp_path / "libcuda.so.580.159.04").touch()
    (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.580.159.04")
    paths = [
        str(tmp_path / "libcuda.so.1"),
        "/lib/libc.so.6",
        cudnn,
        torch,
        "/w/libcublasLt.so.13",
        "/w/libcudart.so.13",
    ]
    versions = {"/w/libcudart.so.13": "CUDA 13.0", str(tmp_path / "libcuda.so.1"): "CUDA 13.0"}
    framework = Loaded(layer=Layer.FRAMEWORK, name="torch", file="/env/torch/__init__.py", version="2.11.0")
    links = chains.chain("/s.py", framework, paths, versions, why_not=None, root=str(tmp_path))
    names = [
        "script",
        "torch",
        "libtorch_cuda",
        "libcudnn",
        "libcublasLt",
        "libcudart",
        "libcuda",
        "nvidia.ko",
        "Linux",
    ]
    assert [link.name for link in links] == names
    told = {link.name: link.version for link in links}
    assert (told["libcudnn"], told["libcudart"]) == ("9.10.2.21", "CUDA 13.0")
    assert told["libcuda"] == "580.159.04 (CUDA 13.0)"
    assert told["nvidia.ko"] == "580.159.04"
    assert all(link.file for link in links)
    ended = chains.chain("/s.py", framework, [torch], {}, why_not="no driver", root=str(tmp_path))
    assert (ended[-1].name, ended[-1].missing) == ("libcuda", "no driver")


def test_versions_are_written_as_people_write_them() -> None:
    written = child("traced_model").written
    assert written("cudart", 12080) == "CUDA 12.8"
    assert written("cudnn", 91002) == "9.10.2"
    assert written("cudnn", 8907) == "8.9.7"
    assert written("nccl", 22809) == "2.28.9"
    assert written("nccl", 2708) == "2.7.8"
    assert written("cublasLt", 130100) == "13.1.0"


def test_kernels_of_a_profile_belong_to_the_layer_they_ran_in() -> None:
    kernel = {"cat": "kernel", "name": "gemm", "ts": 10, "dur": 5, "args": {"grid": [1, 2, 3], "block": [128, 1, 1]}}
    marks = [{"cat": "gpu_user_annotation", "name": "layer:a", "ts": 9, "dur": 10}]
    late = {
        "cat": "kernel",
        "name": "other",
        "ts": 90,
        "dur": 1,
        "args": {"est. achieved occupancy %": 50, "shared memory": 48},
    }
    rows = child("traced_torch").rows_of([late, kernel, *marks, {"cat": "cpu_op", "ts": 1}])
    assert [(row["name"], row["layer"], row["occupancy"]) for row in rows] == [("gemm", "a", None), ("other", "?", 0.5)]
    assert (rows[0]["grid"], rows[0]["seconds"]) == ([1, 2, 3], 5e-6)
    assert [(row["shared_static"], row["shared_dynamic"]) for row in rows] == [(None, None), (0, 48)]
    unknown = {"cat": "kernel", "name": "big", "ts": 1, "dur": 1, "args": {"est. achieved occupancy %": 0}}
    assert child("traced_torch").rows_of([unknown])[0]["occupancy"] is None


def test_what_is_mapped_is_told_top_first() -> None:
    paths = ["/usr/lib/libcuda.so.1", "/w/libcudart.so.12 (deleted)", "/usr/lib/libcurl.so.4", "/p/xla_cuda_plugin.so"]
    seen = chain.mapped(paths, {"cudart": "CUDA 12.8"})
    assert [one.name for one in seen] == ["xla_cuda_plugin", "libcudart", "libcuda"]
    assert [one.version for one in seen] == [None, "CUDA 12.8", "1"]
