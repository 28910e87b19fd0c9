"""What the children in the target's Python print and draw, called one by one without a framework."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from gpustack.trace import frameworks
from gpustack.trace.failing import refused
from tests.trace.judging import judged

np = pytest.importorskip("numpy")
CHILDREN = Path(frameworks.__file__).parent / "children"


def child(name: str) -> ModuleType:
    """Return a file of the children as a module."""
    module = ModuleType(name)
    SourceFileLoader(name, str(CHILDREN / f"{name}.py")).exec_module(module)
    return module


class Refusing:
    """A torch that is built without CUDA: its messages are those of torch 2.11.0+cpu."""

    def zeros(self, _count: int) -> Refusing:
        return self

    def cuda(self) -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")


def test_a_build_without_a_gpu_is_named_as_what_it_is() -> None:
    torch, ort = child("traced_torch").Run, child("traced_onnxruntime").Run
    built = torch.__new__(torch), ort.__new__(ort)
    built[0].torch = Refusing()
    built[1].provider, built[1].available = None, ["AzureExecutionProvider", "CPUExecutionProvider"]
    for words, component in ((built[0].refused(), "pytorch"), (built[1].why_no_gpu(), "onnxruntime")):
        stop, _ = refused(2, words, component, judged)
        assert stop.finding == f"cpu-only-build@{component}", words
        assert stop.explain == "gpustack explain cpu-only-build"


def test_inputs_of_a_users_model_are_made_up_within_bounds() -> None:
    drawn = child("traced_onnxruntime").drawn
    given, assumed = drawn(np, [SimpleNamespace(name="a", type="tensor(float)", shape=["batch", 16])])
    assert (given["a"].shape, assumed) == ((1, 16), ["a: batch taken as 1"])
    for kind, shape, says in (
        ("tensor(float)", [1 << 20, 1 << 20], "too large to be generated"),
        ("tensor(string)", [1], "cannot be generated"),
    ):
        with pytest.raises(ValueError, match=says):
            drawn(np, [SimpleNamespace(name="a", type=kind, shape=shape)])
