"""ONNX Runtime as it is installed: which of its distributions, for which GPU, with which providers. No import.

All its distributions bring the same package, so the last one installed is imported. ``exercise``
makes a session for a tiny model, since only a session says which providers are really used.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from probes.host import Answer, Facts, Host

FLAVOUR = re.compile(r"(onnxruntime(-(?!extensions|genai|tools)[a-z0-9-]+)?|ort-nightly(-[a-z0-9-]+)?)$")
PROVIDER = re.compile(r"libonnxruntime_providers_(\w{1,60})\.so$")
TEXT = 1 << 16
BUILDS = ("migraphx", "rocm", "openvino", "qnn", "cann", "vitisai")
BEST = ("CUDA", "ROCM", "MIGraphX", "Dml", "OpenVINO", "CPU")  # TensorRT builds an engine first, for minutes


def probe(host: "Host") -> "Answer":
    """Return the package that an import would find and every distribution that claims it; None if there is none."""
    installed = host.shared("installed.py")
    copies = installed["find"](host)
    distributions = {name: version for name, version in installed["versions"](copies).items() if FLAVOUR.match(name)}
    place = next(iter(installed["places"](host, "onnxruntime")), None)
    if place is None and not distributions:
        return None
    if place is None:
        path = next(copy["path"] for copy in copies if copy["name"] in distributions)
        error = "the distribution is installed, but no folder on the path holds the package onnxruntime"
        return {"path": path, "distributions": distributions, "status": "failed", "error": error}
    said = installed["literals"](host.read(place + "/capi/build_and_package_info.py", TEXT) or "")
    older = {} if said else installed["literals"](host.read(place + "/__init__.py", TEXT) or "")
    files = [PROVIDER.search(path) for path in host.glob(place + "/capi/libonnxruntime_providers_*.so")]
    providers = [match.group(1) for match in files if match and match.group(1) != "shared"]
    needed = _needed(host, place, providers)
    cuda = str(said.get("cuda_version") or needed["cuda"] or "") or None
    return {
        "version": said.get("__version__") or older.get("__version__") or next(iter(distributions.values()), None),
        "build": "cuda" + cuda.split(".")[0] if cuda else next((name for name in BUILDS if name in providers), "cpu"),
        "path": place,
        "distributions": distributions,
        "package": said.get("package_name"),
        "providers": providers,
        **needed,
        "cuda": cuda,
    }


def _needed(host: "Host", place: str, providers: "List[str]") -> "Facts":
    """Return the majors of CUDA and cuDNN that the CUDA providers are linked to, and where those would be found."""
    loader = host.shared("loader.py")["Loader"](host)
    file = place + "/capi/libonnxruntime_providers_%s.so"
    roots = [file % name for name in ("cuda", "tensorrt") if name in providers]
    search, read = loader.load(roots, [place + "/"], set())
    names = [name for binary in read for name in binary["needed"]]
    majors = {}
    for key, library in (("cuda", "libcudart"), ("cublas", "libcublas"), ("cudnn", "libcudnn")):
        matches = (re.match(re.escape(library) + r"\.so\.(\d+)", name) for name in names)
        majors[key] = next((match.group(1) for match in matches if match), None)
    # cuBLAS has had CUDA's own major since 10, and a provider may have its cudart within
    return {
        "cuda": majors["cuda"] or majors["cublas"],
        "cudnn": majors["cudnn"],
        "search": {**search, **loader.parts(search)},
    }


def exercise(host: "Host") -> "Answer":
    """Return the result of a session on the best provider: 2x3 times 3x2, and the providers that took part."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        runtime = host.module("onnxruntime")
        numpy = host.module("numpy")
        facts["versions"] = {"onnxruntime": runtime.value("__version__")}
        available = runtime.call("get_available_providers")
        facts["providers_available"] = available
        wanted = [name + "ExecutionProvider" for name in BEST if name + "ExecutionProvider" in available]
        facts["printed"] = []
        trial["step"](host, facts, "launch")
        session = host.shared("hearing.py")["heard"](
            lambda: runtime.value("InferenceSession")(model(), providers=wanted), facts["printed"]
        )
        facts["providers_used"] = session.get_providers()
        facts["device"] = facts["providers_used"][0].replace("ExecutionProvider", "").lower()
        facts["ran"] = True
        left = numpy.call("asarray", [[1, 2, 3], [4, 5, 6]], "float32")
        right = numpy.call("asarray", [[7, 8], [9, 10], [11, 12]], "float32")
        (product,) = session.run(None, {"a": left, "b": right})
        facts["ok"] = product.tolist() == [[58, 64], [139, 154]]

    answer: "Facts" = trial["run"](host, work)
    return answer


def model() -> bytes:
    """Return an ONNX model that multiplies a (2x3) by b (3x2), as the bytes that protobuf would make of it.

    Field numbers from onnx/onnx.proto: ModelProto, GraphProto, NodeProto, ValueInfoProto, TensorProto.
    """
    node = _field(1, b"a") + _field(1, b"b") + _field(2, b"c") + _field(4, b"MatMul")
    inputs = _field(11, _tensor(b"a", 2, 3)) + _field(11, _tensor(b"b", 3, 2))
    graph = _field(1, node) + _field(2, b"product") + inputs + _field(12, _tensor(b"c", 2, 2))
    operators = _field(1, b"") + _number(2, 13)
    return _number(1, 7) + _field(7, graph) + _field(8, operators)  # version 7 of the format, operators of set 13


def _tensor(name: bytes, rows: int, columns: int) -> bytes:
    """Return the description of a matrix of float32 (kind 1)."""
    shape = b"".join(_field(1, _number(1, size)) for size in (rows, columns))
    return _field(1, name) + _field(2, _field(1, _number(1, 1) + _field(2, shape)))


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, *_varint(len(data))]) + data


def _number(number: int, value: int) -> bytes:
    return bytes([number << 3, *_varint(value)])


def _varint(value: int) -> "List[int]":
    """Return a number in groups of seven bits, lowest first, each but the last marked."""
    return [value] if value < 1 << 7 else [value & 0x7F | 0x80, *_varint(value >> 7)]
