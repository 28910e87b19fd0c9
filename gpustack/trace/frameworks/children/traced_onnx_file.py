"""A user's ONNX model in ONNX Runtime: its inputs are random by their declared shapes, axes without a size being 1."""

import math
import time
from typing import Any, Callable, Dict

SEED = 20261121
MOST = 1 << 31  # numbers in all inputs: what is larger is a mistake in the file, or would fill the memory
KINDS = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


def drawn(np: Any, wanted: Any) -> Any:
    """Return random inputs for these declarations, and in words what was assumed."""
    chosen, assumed, given, total = np.random.RandomState(SEED), [], {}, 0
    for one in wanted:
        if one.type not in KINDS:
            raise ValueError("input %s is a %s, which cannot be made up" % (one.name, one.type))
        shape = [size if isinstance(size, int) and size > 0 else 1 for size in one.shape]
        free = [str(size) for size in one.shape if not (isinstance(size, int) and size > 0)]
        if free:
            assumed.append("%s: %s taken as 1" % (one.name, ", ".join(free)))
        kind = np.dtype(KINDS[one.type])
        total += math.prod(shape)
        if total > MOST:
            raise ValueError("input %s is %s: too large to be made up" % (one.name, " x ".join(map(str, shape))))
        numbers = chosen.standard_normal(shape) if kind.kind == "f" else chosen.randint(0, 2, shape)
        given[one.name] = np.asarray(numbers, kind)
    return given, assumed


def follow(asked: Dict[str, Any], teller: Any, sibling: Callable[[str], Any]) -> None:
    """Go the seven steps with the file."""
    ort = sibling("traced_onnxruntime")
    teller.step(1)
    run = ort.Run(asked, teller)
    begun = time.perf_counter()
    plain = run.ort.SessionOptions()
    plain.log_severity_level = 3
    reader = run.ort.InferenceSession(asked["onnx"], plain, providers=["CPUExecutionProvider"])
    wanted = reader.get_inputs()
    outputs = [one.name for one in reader.get_outputs()]
    given, assumed = drawn(run.np, wanted)
    del reader
    teller.figure("model read, inputs made up", time.perf_counter() - begun, "s")
    teller.why.extend(assumed)
    shapes = {name: list(array.shape) for name, array in given.items()}
    teller.say("file", inputs=shapes, outputs=outputs, input_bytes=sum(array.nbytes for array in given.values()))
    teller.done()

    def take(nodes: Any, outs: Any) -> None:
        if nodes is not None:
            teller.say("nodes", rows=nodes)
        if outs is not None:
            np = run.np
            finite = all(bool(np.isfinite(one).all()) for one in outs if one.dtype.kind == "f")
            teller.say("outputs", shapes=[list(one.shape) for one in outs], finite=finite)

    ort.steps(run, asked["onnx"], given, take)
