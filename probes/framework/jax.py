"""JAX as it is installed: jax, jaxlib, and the plugins that bring the GPU. No import.

``exercise`` imports it and computes on the device that it chooses.
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

PLUGIN = re.compile(r"jax-(cuda\d+|rocm\d*|metal)(?:-(?:plugin|pjrt))?$")
LOCAL = re.compile(r"(cuda|rocm)(\d+)")
GROUP = "jax_plugins"
TEXT = 1 << 16


def probe(host: "Host") -> "Answer":
    """Return what is installed of JAX; None if neither jax nor jaxlib is."""
    installed = host.shared("installed.py")
    copies = installed["find"](host)
    here = installed["versions"](copies)
    place = next(iter(installed["places"](host, "jax")), None)
    if place is None and "jax" not in here and "jaxlib" not in here:
        return None
    plugins = {name: version for name, version in here.items() if PLUGIN.match(name)}
    said = installed["literals"](host.read(place + "/version.py", TEXT) or "") if place else {}
    facts = {
        "version": said.get("_version") or here.get("jax"),
        "build": _build(here.get("jaxlib") or "", plugins),
        "path": place,
        "metadata_version": here.get("jax"),
        "jaxlib": here.get("jaxlib"),
        "plugins": plugins,
        "entry_points": dict(_entry_points(host, copies, plugins)),
        "plugin_folders": _plugin_folders(host),
        **_requires(host, copies, plugins, here),
    }
    if place is None:
        facts.update(status="failed", error="no folder on the path holds the package jax")
    return facts


def _build(jaxlib: str, plugins: "Dict[str, Optional[str]]") -> str:
    """Return what the build computes on: the newest plugin's word, else that of an old jaxlib with everything in it."""
    kinds = {match.group(1) for match in map(PLUGIN.match, plugins) if match}
    local = LOCAL.search(jaxlib.partition("+")[2])
    if kinds:
        return max(kinds, key=lambda kind: [int(part) for part in re.findall(r"\d+", kind)])
    return "".join(local.groups()) if local else "cpu"


def _entry_points(
    host: "Host", copies: "List[Facts]", plugins: "Dict[str, Optional[str]]"
) -> "Iterator[Tuple[str, str]]":
    """Yield name and module of each plugin that distributions announce to JAX."""
    for copy in copies:
        if copy["name"] in plugins and copy["kind"] == "dist-info":
            text = host.read(copy["path"] + "/entry_points.txt", TEXT) or ""
            section = text.partition("[%s]" % GROUP)[2].partition("\n[")[0]
            for line in section.splitlines():
                name, equals, module = line.partition("=")
                if equals:
                    yield name.strip(), module.strip()


def _plugin_folders(host: "Host") -> "List[str]":
    """Return the folders that JAX finds its plugins in: it looks for them by place as well as by announcement."""
    return [path for entry in host.interpreter()["path"] for path in host.glob("%s/%s/[!_]*" % (entry, GROUP))]


def _requires(
    host: "Host", copies: "List[Facts]", plugins: "Dict[str, Optional[str]]", here: "Dict[str, Optional[str]]"
) -> "Facts":
    """Return what jax and its plugins require of each other and of NVIDIA's wheels, and what is installed of that."""
    requires: "Dict[str, str]" = {}
    required = host.shared("installed.py")["requirements"]
    for copy in reversed(copies):
        if copy["name"] == "jax" or copy["name"] in plugins:
            requires.update((name, versions) for name, _, versions in required(host, copy, ["with-cuda"]))
    return {"requires": requires, "installed": {name: here[name] for name in requires if name in here}}


def exercise(host: "Host") -> "Answer":
    """Return the result of importing jax and multiplying two matrices with a known product on its default device."""
    trial = host.shared("trial.py")
    # read when the backend starts; without it JAX takes three quarters of the GPU's memory
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

    def work(facts: "Facts") -> None:
        jax = host.module("jax")
        facts["versions"] = {
            "jax": jax.value("__version__"),
            "jaxlib": host.module("jaxlib.version").value("__version__"),
        }
        trial["step"](host, facts, "launch")
        devices = jax.call("devices")
        facts["devices"] = len(devices)
        facts["device"] = "cpu" if devices[0].platform == "cpu" else str(devices[0])
        facts["device_name"] = devices[0].device_kind
        facts["versions"].update(_libraries(host))
        facts["ran"] = True
        facts["ok"] = all(_multiply(host, kind, trial["matrices"]()) for kind in ("float32", "bfloat16"))

    answer: "Facts" = trial["run"](host, work)
    return answer


def _libraries(host: "Host") -> "Facts":
    """Return the versions of the libraries that the CUDA plugin has loaded, as it reports them."""
    found: "Facts" = {}
    for major in ("13", "12"):
        try:
            told = host.module("jax_cuda%s_plugin._versions" % major)
        except ImportError:
            continue
        for name in ("cudnn_get_version", "cuda_runtime_get_version", "cublas_get_version"):
            if told.has(name):
                found[name.replace("_get_version", "")] = _version(name, told.call(name))
        break
    return found


def _version(name: str, number: int) -> str:
    """Return a library's number as a version: 13000 is CUDA 13.0, 91900 cuDNN 9.19.0, 130100 cuBLAS 13.1.0."""
    if name.startswith("cuda"):
        return "%d.%d" % (number // 1000, number % 1000 // 10)
    step = 1000 if number < 90000 else 10000  # noqa: PLR2004 - cuDNN 9 and cuBLAS 11 write the major higher up
    return "%d.%d.%d" % (number // step, number % step // 100, number % 100)


def _multiply(host: "Host", kind: str, known: "List[List[List[int]]]") -> bool:
    """Return whether the product is right when the matrices are of this kind."""
    numpy = host.module("jax.numpy")
    left, right = (numpy.call("asarray", side, numpy.value(kind)) for side in known[:2])
    product = numpy.call("matmul", left, right).block_until_ready()
    return bool(numpy.call("asarray", product, numpy.value("float32")).tolist() == known[2])
