"""An ONNX file written by hand: the wire format of protocol buffers, and the few messages that our models need.

Numbers of fields and types are those of onnx.proto (ONNX 1.13, IR version 8, operator set 17). The onnx package need
not be there.
"""

import struct
from typing import Any, List

FLOAT, INT64, BOOL, HALF, BFLOAT = 1, 7, 9, 10, 16
TYPES = {"fp32": FLOAT, "fp16": HALF, "bf16": BFLOAT}
IR, OPSET = 8, 17
A_FLOAT, AN_INT, SOME_INTS, A_TEXT = 1, 2, 7, 3


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


def tensor(name: str, kind: Any, shape: Any, data: Any) -> bytes:
    """Return a TensorProto."""
    dims = b"".join(whole(1, size) for size in shape)
    return dims + whole(2, kind) + block(8, name) + block(9, data)


def integers(name: str, numbers: Any) -> bytes:
    """Return a TensorProto of whole numbers."""
    return tensor(name, INT64, [len(numbers)], struct.pack("<%dq" % len(numbers), *numbers))


def value(name: str, kind: Any, shape: Any) -> bytes:
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


def node(kind: Any, inputs: List[str], outputs: Any, name: str, **attributes: Any) -> bytes:
    """Return a NodeProto."""
    parts = [block(1, one) for one in inputs] + [block(2, one) for one in outputs] + [block(3, name), block(4, kind)]
    return b"".join(parts + [block(5, attribute(key, given)) for key, given in attributes.items()])


def model(nodes: Any, initializers: Any, inputs: List[str], outputs: Any) -> bytes:
    """Return a ModelProto."""
    graph = b"".join(block(1, one) for one in nodes) + block(2, "traced")
    graph += b"".join(block(5, one) for one in initializers)
    graph += b"".join(block(11, one) for one in inputs) + b"".join(block(12, one) for one in outputs)
    return whole(1, IR) + block(2, "gpustack") + block(7, graph) + block(8, block(1, "") + whole(2, OPSET))
