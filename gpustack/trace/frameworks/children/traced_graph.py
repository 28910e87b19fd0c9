"""A built-in model as an ONNX file: each layer is some nodes whose names begin with the layer's name and a bar.

Images become channels-first at the beginning, as ONNX wants them, and so do the weights of convolutions. What comes in
and goes out is float32, so that precisions that NumPy lacks can be run too: the first and the last nodes cast.

The file is written by hand, in the wire format of protocol buffers, since the onnx package need not be there. Numbers
of fields and types are those of onnx.proto (ONNX 1.13, IR version 8, operator set 17).
"""

import struct
from typing import Any, Dict, List

FLOAT, INT64, BOOL, HALF, BFLOAT = 1, 7, 9, 10, 16
TYPES = {"fp32": FLOAT, "fp16": HALF, "bf16": BFLOAT}
IR, OPSET = 8, 17
A_FLOAT, AN_INT, SOME_INTS = 1, 2, 7


def varint(number: int) -> bytes:
    """Return a number in base 128."""
    number &= (1 << 64) - 1
    out = bytearray()
    while True:
        low, number = number & 127, number >> 7
        out.append(low | (128 if number else 0))
        if not number:
            return bytes(out)


def whole(field: int, number: int) -> bytes:
    """Return a field that is a number."""
    return varint(field << 3) + varint(number)


def block(field: int, data: Any) -> bytes:
    """Return a field that is a text, bytes or a message."""
    raw = bytes(data.encode() if isinstance(data, str) else data)
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def tensor_of(name: str, kind: Any, shape: Any, data: Any) -> bytes:
    """Return a TensorProto."""
    dims = b"".join(whole(1, size) for size in shape)
    return dims + whole(2, kind) + block(8, name) + block(9, data)


def integers(name: str, numbers: Any) -> bytes:
    """Return a TensorProto of whole numbers."""
    return tensor_of(name, INT64, [len(numbers)], struct.pack("<%dq" % len(numbers), *numbers))


def value_of(name: str, kind: Any, shape: Any) -> bytes:
    """Return a ValueInfoProto."""
    dims = b"".join(block(1, whole(1, size)) for size in shape)
    return block(1, name) + block(2, block(1, whole(1, kind) + block(2, dims)))


def attribute(name: str, given: Any) -> bytes:
    """Return an AttributeProto."""
    head = block(1, name)
    if isinstance(given, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", given) + whole(20, A_FLOAT)
    if isinstance(given, int):
        return head + whole(3, given) + whole(20, AN_INT)
    return head + b"".join(whole(8, number) for number in given) + whole(20, SOME_INTS)


def node_of(kind: Any, inputs: List[str], outputs: Any, name: str, **attributes: Any) -> bytes:
    """Return a NodeProto."""
    parts = [block(1, one) for one in inputs] + [block(2, one) for one in outputs] + [block(3, name), block(4, kind)]
    return b"".join(parts + [block(5, attribute(key, given)) for key, given in attributes.items()])


def model_of(nodes: Any, initializers: Any, inputs: List[bytes], outputs: Any) -> bytes:
    """Return a ModelProto."""
    graph = b"".join(block(1, one) for one in nodes) + block(2, "traced")
    graph += b"".join(block(5, one) for one in initializers)
    graph += b"".join(block(11, one) for one in inputs) + b"".join(block(12, one) for one in outputs)
    return whole(1, IR) + block(2, "gpustack") + block(7, graph) + block(8, block(1, "") + whole(2, OPSET))


IMAGES = 4  # axes


class Graph:
    """Nodes and initializers while they are written down."""

    def __init__(self, np: Any, model: Any) -> None:
        self.np, self.model = np, model
        self.kind = TYPES[model["precision"]]
        self.nodes: List[bytes] = []
        self.initializers: List[bytes] = []
        self.shapes = {one["name"]: one["shape"] for one in model["tensors"]}
        self.count = 0

    def add(self, layer: str, kind: Any, inputs: List[str], outputs: Any = None, **attributes: Any) -> Any:
        """Add a node; give the name of what it writes."""
        self.count += 1
        outputs = outputs or ["%s|%d" % (layer, self.count)]
        name = "%s|%s%d" % (layer, kind, self.count)
        self.nodes.append(node_of(kind, inputs, outputs, name, **attributes))
        return outputs[0]

    def numbers(self, layer: str, *values: int) -> Any:
        """Add whole numbers."""
        self.count += 1
        name = "%s|n%d" % (layer, self.count)
        self.initializers.append(integers(name, values))
        return name

    def scalar(self, layer: str, value: float) -> Any:
        """Add one number in the precision of the model."""
        self.count += 1
        name = "%s|s%d" % (layer, self.count)
        self.initializers.append(tensor_of(name, self.kind, [], self.raw(self.np.float32(value))))
        return name

    def raw(self, array: Any) -> Any:
        """Return float32 numbers as they lie in the precision of the model."""
        np, kind = self.np, self.model["precision"]
        array = np.ascontiguousarray(array, np.float32)
        if kind == "bf16":
            bits = array.view(np.uint32)
            return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
        return array.astype(np.float16 if kind == "fp16" else np.float32).tobytes()

    def weight(self, name: str, array: Any) -> None:
        """Add weights."""
        self.initializers.append(tensor_of(name, self.kind, array.shape, self.raw(array)))

    def gemm(self, op: Dict[str, Any]) -> None:
        """Multiply: x times w transposed."""
        self.add(op["name"], "Gemm", [op["source"], op["weight"]], [op["out"]], transB=1)

    def bias(self, op: Dict[str, Any]) -> None:
        """The bias, along the channels of an image or the last axis, and what is applied after it."""
        layer, bias = op["name"], op["bias"]
        if len(self.shapes[op["source"]]) == IMAGES:
            bias = self.add(layer, "Reshape", [bias, self.numbers(layer, 1, -1, 1, 1)])
        last = [op["out"]]
        if op["activation"] == "none":
            self.add(layer, "Add", [op["source"], bias], last)
            return
        out = self.add(layer, "Add", [op["source"], bias])
        if op["activation"] == "relu":
            self.add(layer, "Relu", [out], last)
            return
        square = self.add(layer, "Mul", [out, out])
        cube = self.add(layer, "Mul", [self.add(layer, "Mul", [square, out]), self.scalar(layer, 0.044715)])
        inner = self.add(layer, "Mul", [self.add(layer, "Add", [out, cube]), self.scalar(layer, 0.7978845608028654)])
        more = self.add(layer, "Add", [self.add(layer, "Tanh", [inner]), self.scalar(layer, 1.0)])
        half = self.add(layer, "Mul", [out, self.scalar(layer, 0.5)])
        self.add(layer, "Mul", [half, more], last)

    def conv2d(self, op: Dict[str, Any]) -> None:
        """A convolution; its weights were turned when they were added."""
        self.add(op["name"], "Conv", [op["source"], op["weight"]], [op["out"]], pads=[1, 1, 1, 1], kernel_shape=[3, 3])

    def pool(self, op: Dict[str, Any]) -> None:
        """The largest of 2 x 2, or the mean of a channel."""
        if op["how"] == "mean":
            out = self.add(op["name"], "GlobalAveragePool", [op["source"]])
            self.add(op["name"], "Flatten", [out], [op["out"]])
        else:
            self.add(op["name"], "MaxPool", [op["source"]], [op["out"]], kernel_shape=[2, 2], strides=[2, 2])

    def layernorm(self, op: Dict[str, Any]) -> None:
        """Each row with mean 0 and variance 1."""
        given = [op["source"], op["gamma"], op["beta"]]
        self.add(op["name"], "LayerNormalization", given, [op["out"]], axis=-1, epsilon=float(op["epsilon"]))

    def split_heads(self, op: Dict[str, Any]) -> None:
        """q, k and v by head, v transposed."""
        layer, depth = op["name"], self.shapes[op["q"]][2]
        five = self.add(
            layer, "Reshape", [op["source"], self.numbers(layer, -1, op["sequence"], 3, op["heads"], depth)]
        )
        turned = self.add(layer, "Transpose", [five], perm=[2, 0, 3, 1, 4])
        for number, name in enumerate(("q", "k", "v")):
            one = self.add(layer, "Gather", [turned, self.number(layer, number)], axis=0)
            shape = self.numbers(layer, -1, op["sequence"], depth)
            if name == "v":
                self.add(layer, "Transpose", [self.add(layer, "Reshape", [one, shape])], [op["v"]], perm=[0, 2, 1])
            else:
                self.add(layer, "Reshape", [one, shape], [op[name]])

    def number(self, layer: str, value: float) -> Any:
        """Add one whole number that is no list."""
        self.count += 1
        name = "%s|i%d" % (layer, self.count)
        self.initializers.append(tensor_of(name, INT64, [], struct.pack("<q", value)))
        return name

    def head_gemm(self, op: Dict[str, Any]) -> None:
        """The products of attention."""
        right = self.add(op["name"], "Transpose", [op["right"]], perm=[0, 2, 1])
        self.add(op["name"], "MatMul", [op["left"], right], [op["out"]])

    def softmax(self, op: Dict[str, Any]) -> None:
        """Softmax of each row, without what lies after it."""
        layer = op["name"]
        scaled = self.add(layer, "Mul", [op["source"], self.scalar(layer, op["scale"])])
        if op["causal"]:
            rows, columns = self.shapes[op["source"]][1:]
            name = layer + "|seen"
            seen = self.np.tri(rows, columns, dtype=bool)
            self.initializers.append(tensor_of(name, BOOL, [rows, columns], seen.tobytes()))
            scaled = self.add(layer, "Where", [name, scaled, self.scalar(layer, float("-inf"))])
        self.add(layer, "Softmax", [scaled], [op["out"]], axis=-1)

    def merge_heads(self, op: Dict[str, Any]) -> None:
        """The heads side by side again."""
        layer = op["name"]
        _, sequence, depth = self.shapes[op["source"]]
        four = self.add(layer, "Reshape", [op["source"], self.numbers(layer, -1, op["heads"], sequence, depth)])
        turned = self.add(layer, "Transpose", [four], perm=[0, 2, 1, 3])
        shape = self.numbers(layer, -1, op["heads"] * depth)
        self.add(layer, "Reshape", [turned, shape], [op["out"]])

    def residual(self, op: Dict[str, Any]) -> None:
        """The sum of two."""
        self.add(op["name"], "Add", [op["left"], op["right"]], [op["out"]])


def written(np: Any, model: Any, weights: Dict[str, Any]) -> Any:
    """Return the bytes of the model with these weights; its input is called x and its output y, both float32."""
    graph = Graph(np, model)
    images = {op["weight"] for op in model["ops"] if op["kind"] == "conv2d"}
    for name, array in weights.items():
        graph.weight(name, array.transpose(0, 3, 1, 2) if name in images else array)
    entry = next(one for one in model["tensors"] if one["role"] == "input")
    out = next(one for one in model["tensors"] if one["name"] == model["out"])
    source = graph.add("input", "Cast", ["x"], None if images else [entry["name"]], to=graph.kind)
    if images:
        graph.add("input", "Transpose", [source], [entry["name"]], perm=[0, 3, 1, 2])
    for op in model["ops"]:
        getattr(graph, op["kind"].replace(" ", "_"))(op)
    graph.add("output", "Cast", [model["out"]], ["y"], to=FLOAT)
    ins = [value_of("x", FLOAT, entry["shape"])]
    return model_of(graph.nodes, graph.initializers, ins, [value_of("y", FLOAT, out["shape"])])
