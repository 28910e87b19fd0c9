"""What the compatibility matrix states of one subject after another: a module a subject, its rows as types.

A module holds frozen types and functions that take the matrix and give rows: ``matrix.rows("cudnn", "releases", …)``.
Each file under ``compat-matrix/`` names in its head the components (``subjects``) that it is about. A module is loaded
when it is first asked for something, since a report needs few of them and its start is counted in milliseconds.
"""

import importlib.util
import sys

LATE = (
    *("compilers", "compilers_host", "cudnn", "drivers", "gpus", "health", "intel", "jax", "known_bad", "libraries"),
    *("messages", "nccl", "numbers", "onnx", "onnxruntime", "pep440", "ranges", "rocm", "serving", "systems"),
    *("tensorflow", "tensorrt", "terms", "toolkits", "torch", "torch_rows", "training", "vllm", "wheel_tags", "xids"),
)


def _late(name: str) -> None:
    """Put a module in its place that loads itself when something is first taken from it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    globals()[name.rpartition(".")[2]] = module


for _name in LATE:
    _late(f"{__name__}.{_name}")
