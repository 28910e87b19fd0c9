"""PyTorch as it is installed: version, build, GPU architectures, pins, and which libraries it would load. No import.

``exercise`` imports it and computes on the GPU; only that says what is really loaded.
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

    from probes.host import Answer, Facts, Host, Library

TAG = re.compile(r"(cu\d+|cpu|rocm\d[\d.]*\d|xpu)(?![a-z0-9])")
BACKENDS = {"cuda": "libtorch_cuda.so", "rocm": "libtorch_hip.so", "xpu": "libtorch_xpu.so"}
ARCHS = {"cuda": (b"sm_", rb"(?:sm|compute)_\d{2,3}[af]?"), "rocm": (b"gfx", rb"gfx[0-9a-f]{3,4}")}
TEXT = 1 << 19
FIRST = "libtorch_global_deps.so"  # torch/__init__.py loads it before all else, for everybody
LATER = ("libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so")
LINKING, LINKER = ("libcusparse.so", "libcusolver.so", "libcufft.so"), "libnvJitLink.so"
SAID = {"cuda": "cuda", "hip": "hip", "xpu": "xpu", "git_version": "git"}
OWN = ("libtorch", "libc10", "libshm", "libcaffe2")


def probe(host: "Host") -> "Answer":
    """Return each copy of torch that the path leads to, the one that an import takes first."""
    installed = host.shared("installed.py")
    copies = installed["find"](host)
    places = installed["places"](host, "torch")
    if places:
        return [_copy(host, copies, place) for place in places]
    return [
        {
            "key": copy["path"],
            "version": copy["version"],
            "build": copy.get("build"),
            "path": copy["path"],
            "status": "failed",
            "error": "the distribution is installed, but no folder on the path holds the package torch",
        }
        for copy in copies
        if copy["name"] == "torch"
    ]


def _copy(host: "Host", copies: "List[Facts]", place: str) -> "Facts":
    """Return the facts of the package in one folder."""
    installed = host.shared("installed.py")
    source = host.read(place + "/version.py", TEXT)
    said = installed["literals"](source or "")
    records = [copy for copy in copies if copy["name"] == "torch"]
    beside = [copy for copy in records if os.path.dirname(copy["path"]) == os.path.dirname(place)]
    record = next(iter(beside or records), None)
    version = said.get("__version__") or (record or {}).get("version")
    folders = [place + "/lib", host.interpreter()["prefix"] + "/lib"]
    accelerator = _accelerator(host, folders, said)
    facts = {
        "version": version,
        "build": _build(str(version), accelerator, said),
        "path": place,
        **{fact: None if said.get(name) is None else str(said[name]) for name, fact in SAID.items()},
        "debug": said.get("debug"),
        "accelerator": accelerator,
        "metadata_version": (record or {}).get("version"),
        "extensions": [os.path.basename(path) for path in host.glob(place + "/_C.*.so")],
    }
    if source is None:
        facts.update(status="failed", error="version.py: " + host.why(place + "/version.py"))
    facts.update(_archs(host, folders, accelerator))
    facts.update(_pins(host, copies, record))
    facts.update(_search(host, place, said))
    return facts


def _accelerator(host: "Host", folders: "List[str]", said: "Facts") -> str:
    """Return which GPUs the build is for: by the libraries that it ships, else by what its version file says."""
    for name, library in BACKENDS.items():
        if any(host.exists(folder + "/" + library) for folder in folders):
            return name
    if any(host.exists(folder + "/libtorch_cpu.so") for folder in folders):
        return "cpu"
    return next((name for name, key in (("cuda", "cuda"), ("rocm", "hip"), ("xpu", "xpu")) if said.get(key)), "cpu")


def _build(version: str, accelerator: str, said: "Facts") -> str:
    """Return the tag of the build: that of the version where it bears one, else the one that the facts amount to."""
    match = TAG.match(version.partition("+")[2])
    if match:
        return match.group(1)
    if accelerator == "cuda":
        return "cu" + "".join(str(said.get("cuda") or "").split(".")[:2])
    if accelerator == "rocm":
        return "rocm" + ".".join(str(said.get("hip") or "").split(".")[:2])
    return accelerator


def _archs(host: "Host", folders: "List[str]", accelerator: str) -> "Facts":
    """Return the GPU architectures that the build has code for, from the text that ``get_arch_list`` would give."""
    if accelerator not in ARCHS:
        unread = "not known how to read them from a build for xpu" if accelerator == "xpu" else None
        return {"archs": [], "archs_unread": unread}
    word, one = ARCHS[accelerator]
    text = re.compile(rb"(?:%s ){0,60}%s(?=\0)" % (one, one))
    paths = [path for path in (folder + "/libtorch_python.so" for folder in folders) if host.exists(path)]
    for path in paths:
        for piece in host.pieces(path, word):
            match = text.search(piece)
            if match:
                return {"archs": match.group().decode("ascii").split(" "), "archs_unread": None}
    packed = _packed(host, folders) if accelerator == "rocm" else []
    if packed:
        return {"archs": packed, "archs_unread": None, "archs_from": "names of rocBLAS's kernels"}
    tried = paths[0] if paths else folders[0] + "/libtorch_python.so"
    looked = host.why(tried)
    why = "no list of architectures in it" if looked in ("ok", "not asked") else looked
    return {"archs": [], "archs_unread": "%s: %s" % (tried, why)}


def _packed(host: "Host", folders: "List[str]") -> "List[str]":
    """Return the targets for which a build for ROCm has rocBLAS's kernels, by the names of their files."""
    names = [name for folder in folders for name in host.list(folder + "/rocblas/library")]
    return sorted({match.group() for match in map(re.compile("gfx[0-9a-f]{3,4}").search, names) if match})


def _pins(host: "Host", copies: "List[Facts]", record: "Optional[Facts]") -> "Facts":
    """Return what the build requires of others, the exact ones apart, and which versions of those are installed.

    Builds for CUDA 13 require the metapackage cuda-toolkit, whose extras hold the exact versions: one step further.
    """
    required = host.shared("installed.py")["requirements"]
    by_name = {copy["name"]: copy for copy in reversed(copies)}
    requires: "Dict[str, str]" = {}
    for name, extras, versions in required(host, record) if record else ():
        requires[name] = versions
        if name == "cuda-toolkit" and name in by_name:
            inner = required(host, by_name[name], extras)
            requires.update((part, wanted) for part, _, wanted in inner)
    # the toolkit's "13.1.0.3.*" leaves open the build of a whole version: it pins that version
    matches = {name: re.match(r"==([^=,*]+?)(?:\.\*)?$", versions) for name, versions in requires.items()}
    exact = {name: match.group(1) for name, match in matches.items() if match}
    here = {name: by_name[name]["version"] for name in requires if name in by_name}
    return {"requires": requires, "pins": exact, "installed": here}


def _search(host: "Host", place: str, said: "Facts") -> "Facts":
    """Return what the build needs from others: candidates for each name, in the order of loading.

    First what libtorch_global_deps.so needs, then what torch/__init__.py itself loads by path, then the rest; and what
    those load by name themselves (the parts of cuDNN).
    """
    loader = host.shared("loader.py")["Loader"](host)
    own = [place + "/", *OWN]
    known: "Set[str]" = set()
    first, read = loader.load([place + "/lib/" + FIRST], own, known)
    roots = host.glob(place + "/_C.*.so") + [place + "/lib/" + name for name in LATER]
    rest, others = loader.load(roots, own, known)
    by_path = {os.path.basename(path): path for path in _preloaded(host, place, said, first)}
    rest = _preload(host, place, by_path, rest)
    parts = _preload(host, place, by_path, loader.parts({**first, **rest}))
    linker = loader.behind(first, LINKING, LINKER) or loader.behind(rest, LINKING, LINKER)
    if linker:
        preload = {} if linker["by"] in [copy["path"] for found in first.values() for copy in found] else by_path
        parts.update(_preload(host, place, preload, {linker["name"]: linker["found"]}))
    floors = [binary["glibc"] for binary in read + others if binary["glibc"]]
    return {
        "search": {**first, **rest, **parts},
        "linker": host.shared("nvidia.py")["linker"](host, linker["by"], parts[linker["name"]]) if linker else None,
        "glibc_needed": max(floors, key=lambda floor: [int(part) for part in floor.split(".")], default=None),
    }


def _preload(host: "Host", place: str, by_path: "Dict[str, str]", candidates: "Dict[str, Any]") -> "Dict[str, Any]":
    """Return the candidates with what torch/__init__.py loads by path in front."""
    found = dict(candidates)
    for soname in set(by_path) & set(found):
        path = by_path[soname]
        step = {"step": "preload", "folder": os.path.dirname(path), "path": path, "real": host.real(path)}
        others = [copy for copy in found[soname] if copy["real"] != step["real"]]
        found[soname] = [dict(step, by=place + "/__init__.py"), *others]
    return found


def _preloaded(host: "Host", place: str, said: "Facts", first: "Facts") -> "Iterator[str]":
    """Yield the file of each library that this version's __init__.py loads by path from the wheels it finds.

    Its text says which: a list, a condition on where cudart was found, and one folder pattern for each entry of the
    path. It stops at the first that is required and missing. Read in torch 2.11.0, ``_load_global_deps``.
    """
    text = host.read(place + "/__init__.py", TEXT) or ""
    block = text.partition("\ndef _load_global_deps")[2].partition("except OSError")[0]
    condition = re.search(r"""if ["']([^"']+)["'] not in _maps""", block)
    cudart = next((found[0]["path"] for name, found in first.items() if "cudart" in name and found), "")
    if not condition or condition.group(1) not in cudart:
        return
    if re.search(r"_preload_cuda_deps\(\)", block):
        block = text.partition("\ndef _preload_cuda_deps")[2].partition("\ndef ")[0]
    major = str(said.get("cuda") or "").split(".")[0]
    for folder, pattern, rest in re.findall(
        r"""\(\s*["'](\w+)["'],\s*["'](lib[^"']{1,80})["']([^)]{0,200})\)""", block
    ):
        found = _wheel(host, folder, pattern, major)
        if found:
            yield found
        elif "required=False" not in rest:
            return


def _wheel(host: "Host", folder: str, pattern: str, major: str) -> "Optional[str]":
    """Return the matching file in the first entry of the path that has one."""
    for entry in host.interpreter()["path"]:
        for inside in ("nvidia/" + folder, "nvidia/cu" + major, folder):
            found = host.glob("%s/%s/lib/%s" % (entry, inside, pattern))
            if found:
                return found[0]
    return None


def exercise(host: "Host") -> "Answer":
    """Return the result of importing torch and computing with it: matrix products and a convolution, all known."""
    trial = host.shared("trial.py")

    def work(facts: "Facts") -> None:
        torch = host.module("torch")
        facts["versions"] = _versions(torch)
        name, gpu = _gpu(torch)
        if gpu is None and (facts["versions"]["cuda"] or facts["versions"]["hip"]):
            facts["unavailable"] = _reason(torch)
        facts["devices"] = gpu.device_count() if gpu else 0
        facts["device"] = name + ":0" if gpu else "cpu"
        facts["device_name"] = gpu.get_device_name(0) if gpu else None
        facts["ran"] = True
        trial["step"](host, facts, "launch")
        right = _multiply(torch, facts["device"], trial["matrices"]())
        cudnn = torch.value("backends").cudnn.version()  # raises if another cuDNN was found than it was built with
        facts["versions"]["cudnn"] = None if cudnn is None else _decode(cudnn)
        facts["ok"] = right and _convolve(torch, facts["device"])
        if gpu:
            gpu.synchronize()

    answer: "Facts" = trial["run"](host, work)
    return answer


def _gpu(torch: "Library") -> "Tuple[str, Any]":
    """Return name and module of the first kind of GPU that torch can use; None for the module where there is none."""
    for name in ("cuda", "xpu"):
        module = torch.value(name)
        if module is not None and module.is_available():
            return name, module
    return "cpu", None


def _versions(torch: "Library") -> "Dict[str, Optional[str]]":
    """Return the versions that torch itself reports."""
    said = torch.value("version")
    nccl = torch.value("cuda").nccl.version() if hasattr(torch.value("_C"), "_nccl_version") else None
    return {
        "torch": str(torch.value("__version__")),
        "cuda": said.cuda,
        "hip": getattr(said, "hip", None),
        "nccl": None if nccl is None else ".".join(map(str, nccl)),
    }


def _decode(number: int) -> str:
    """Return cuDNN's number as a version: 91900 is 9.19.0, 8902 is 8.9.2."""
    step = 10000 if number >= 90000 else 1000  # noqa: PLR2004 - cuDNN 9 changed its encoding
    return "%d.%d.%d" % (number // step, number % step // 100, number % 100)


def _reason(torch: "Library") -> "Optional[str]":
    """Return why a GPU build sees no GPU, in its own words."""
    try:
        torch.value("cuda").init()
    except Exception as error:  # noqa: BLE001 - the words are the fact
        return "%s: %s" % (type(error).__name__, error)
    return None


def _multiply(torch: "Library", device: str, known: "Tuple[object, object, List[List[int]]]") -> bool:
    """Return whether the product is right in float32, and on a GPU in float16 (every GPU has it, not every CPU)."""
    left, right = (torch.call("tensor", side) for side in known[:2])
    for kind in [torch.value("float32")] + ([torch.value("float16")] if device != "cpu" else []):
        product = torch.call("matmul", left.to(device, kind), right.to(device, kind))
        if product.to("cpu", torch.value("int64")).tolist() != known[2]:
            return False
    return True


def _convolve(torch: "Library", device: str) -> bool:
    """Return whether a convolution is right; with a stride of two no algorithm is taken that rounds (Winograd, FFT)."""
    image = torch.call("arange", 81).to(device, torch.value("float32")).reshape(1, 1, 9, 9)
    kernel = torch.call("ones", 1, 1, 3, 3).to(device, torch.value("float32"))
    answer = torch.call("conv2d", image, kernel, None, 2)
    known = [[9 * (9 * (2 * row + 1) + 2 * column + 1) for column in range(4)] for row in range(4)]
    return bool(answer.to("cpu", torch.value("int64")).reshape(4, 4).tolist() == known)
