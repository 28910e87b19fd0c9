"""The same model in real frameworks on the CPU: JAX and ONNX Runtime from the index, each checked in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpustack.model.trace import State
from gpustack.trace import Asked, Progress, frameworks
from tests.leaving import leave_out
from tests.trace.judging import judged

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("numpy")
pytestmark = [pytest.mark.packages, pytest.mark.timeout(400)]
SECONDS = 300
OFFLINE = ("Could not find a version", "No matching distribution", "Connection", "Temporary failure", "timed out")
ONNX = """
import onnx, numpy as np
from onnx import TensorProto as T, helper as h
w = onnx.numpy_helper.from_array(np.ones((16, 32), np.float32), "w")
nodes = [h.make_node("MatMul", ["a", "w"], ["m"], name="product"), h.make_node("Relu", ["m"], ["y"], name="relu")]
ins, outs = h.make_tensor_value_info("a", T.FLOAT, ["batch", 16]), h.make_tensor_value_info("y", T.FLOAT, ["batch", 32])
graph = h.make_graph(nodes, "g", [ins], [outs], [w])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), "model.onnx")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a Python with both frameworks."""
    folder = tmp_path_factory.mktemp("frameworks") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    program = str(folder / "bin/python")
    command = [program, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "jax", "onnxruntime", "onnx"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        leave_out(f"the package index gave no answer in {SECONDS} s")
    if done.returncode and any(word in done.stderr for word in OFFLINE):
        leave_out(f"no packages to be had here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize("model", ["mlp", "convnet", "transformer"])
@pytest.mark.parametrize("framework", ["jax", "onnxruntime"])
def test_the_answer_is_right_and_the_chain_ends_at_the_framework(python: str, framework: str, model: str) -> None:
    asked = Asked(model=model, framework=framework, precision="fp32", pythons=(python,))
    seen = frameworks.follow(asked, Progress(), judged, environ={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert [seen.steps[number - 1].status for number in (1, 5, 6)] == [State.DONE] * 3, seen.steps
    assert seen.checks[0].passed
    assert seen.chain[-1].missing
    assert any(layer.seconds for layer in seen.layers)


def test_a_model_of_the_users_is_followed_node_by_node(python: str, tmp_path: Path) -> None:
    subprocess.run([python, "-c", ONNX], cwd=tmp_path, check=True)
    asked = Asked(framework="onnxruntime", onnx=tmp_path / "model.onnx", pythons=(python,))
    seen = frameworks.follow(asked, Progress(), judged)
    assert seen.subject.name == "model.onnx"
    assert (seen.subject.input_shape, seen.subject.output_shape) == ((1, 16), (1, 32))
    assert [(layer.name, layer.op) for layer in seen.layers] == [("product", "MatMul"), ("relu", "Relu")]
    assert "a: batch taken as 1" in seen.steps[0].why
