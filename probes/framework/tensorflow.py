"""TensorFlow as it is installed: which of its distributions, and what it was built with. No import.

``exercise`` imports it and computes on the GPU, if it lists one; why it lists none it prints below Python.

All its distributions bring the same package. Its ``build_info.py`` holds one call with a list of pairs; CUDA and cuDNN
are no longer told there from 2.22 on, and then the names of what it was linked to tell the majors.
"""

import ast
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

NAMES = re.compile(r"(?:intel-)?(?:tensorflow|tf-nightly)(?:-(?:cpu|gpu|rocm|intel|cpu-aws|directml|macos))?")
PLACE = "/python/platform/build_info.py"
TEXT = 1 << 16


def probe(host: "Host") -> "Answer":
    """Return the package that an import would find, with all distributions that claim it; None if there is none."""
    installed = host.shared("installed.py")
    copies = [copy for copy in installed["find"](host) if NAMES.fullmatch(copy["name"])]
    place = next(iter(installed["places"](host, "tensorflow")), None)
    distributions = installed["versions"](copies)
    if not copies and (place is None or not host.exists(place + PLACE)):
        return None
    version = next(iter(distributions.values()), None)
    facts: "Facts" = {
        "version": version,
        "path": place,
        "distributions": distributions,
        "key": place or copies[0]["path"],
    }
    if place is None:
        error = "the distribution is installed, but no folder on the path holds the package tensorflow"
        return dict(facts, path=copies[0]["path"], status="failed", error=error)
    said = pairs(host.read(place + PLACE, TEXT) or "")
    return dict(facts, **built(said, distributions), plugins=plugins(host, place), info_read=bool(said))


def built(said: "Facts", distributions: "Facts") -> "Facts":
    """Return build, CUDA, cuDNN and GPU code as the build's own words have them."""
    cuda, cudnn = _text(said.get("cuda_version")), _text(said.get("cudnn_version"))
    kinds = [kind for kind in ("cuda", "rocm") if said.get("is_%s_build" % kind) is True]
    accelerator = kinds[0] if kinds else "cpu" if said else None
    archs = said.get("cuda_compute_capabilities")
    build = accelerator or ("cpu" if any(name.endswith("-cpu") for name in distributions) else None)
    major = (cuda or "").partition(".")[0]
    return {
        "build": "cuda" + major if build == "cuda" else build,
        "accelerator": accelerator,
        "cuda": cuda,
        "cudnn": cudnn,
        "archs": [arch for arch in archs if isinstance(arch, str)] if isinstance(archs, list) else [],
        "tensorrt": said.get("is_tensorrt_build"),
        "compiler": _text(said.get("cpu_compiler")),
    }


def pairs(text: str) -> "Facts":
    """Return the content of the call assigned to ``build_info``; nothing is run, and only literals are kept."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    for node in body:
        named = isinstance(node, ast.Assign) and [getattr(target, "id", None) for target in node.targets]
        if named == ["build_info"] and isinstance(node, ast.Assign):
            value = node.value.args[0] if isinstance(node.value, ast.Call) and node.value.args else node.value
            try:
                held = dict(ast.literal_eval(value))
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                return {}
            return {key: found for key, found in held.items() if isinstance(key, str)}
    return {}


def plugins(host: "Host", place: str) -> "List[str]":
    """Return the pluggable devices that lie beside the package (DirectML, Metal, Intel)."""
    return host.list(place[: -len("/tensorflow")] + "/tensorflow-plugins")


def _text(held: object) -> "Optional[str]":
    return held if isinstance(held, str) and held else None


def exercise(host: "Host") -> "Answer":
    """Return the result of importing TensorFlow and multiplying two matrices with a known product on its first GPU."""
    trial = host.shared("trial.py")
    trial["variables"](TF_FORCE_GPU_ALLOW_GROWTH="true")  # without it TensorFlow takes nearly all of the GPU's memory

    def start() -> "Tuple[Any, Any]":
        module = host.module("tensorflow")
        return module, module.value("config").list_physical_devices("GPU")

    def work(facts: "Facts") -> None:
        facts["printed"] = []
        tensorflow, gpus = host.shared("hearing.py")["heard"](start, facts["printed"])
        facts["versions"] = {"tensorflow": str(tensorflow.value("__version__"))}
        facts["devices"], facts["device"] = len(gpus), "gpu:0" if gpus else "cpu"
        trial["step"](host, facts, "launch")
        facts["ran"] = True
        left, right, known = trial["matrices"]()
        with tensorflow.value("device")("/" + facts["device"].upper() + ("" if gpus else ":0")):
            sides = (tensorflow.call("constant", side, "float32") for side in (left, right))
            facts["ok"] = tensorflow.call("matmul", *sides).numpy().tolist() == known

    answer: "Facts" = trial["run"](host, work)
    return answer
