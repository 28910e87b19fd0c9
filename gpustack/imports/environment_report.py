"""The output of collect_env, and what people enter in issue forms.

PyTorch's and vLLM's collect_env of every age, and those of transformers, accelerate, Lightning and DeepSpeed.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpustack.imports import gathered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.imports.gathered import Gathered
    from gpustack.model.facts import JsonValue

UNAME = re.compile(
    r"uname_result\(system='Linux',[^)\n]{0,200}?release='(?P<release>[^']{3,80})'[^)\n]{0,300}?machine='(?P<machine>\w+)'"
)
PAIR = re.compile(
    r"^[^\d\n]{0,12}(?P<cuda>\d{1,2}(?:\.\d{1,3}){0,2})(?:_?r\d{1,2}\.\d)?(?:[^\d\n]{0,20}(?:/|,|;|&|\band\b|cudnn)"
    r"[^\d\n]{0,12}(?P<cudnn>\d{1,2}(?:\.\d{1,3}){0,3}))?",
    re.IGNORECASE,
)
XPU = re.compile(
    r"^\* (?:\[\d+\] _XpuDeviceProperties\(name=')?(?P<name>Intel[^'\n]{3,80}?)'?(?:,[^\n]*)?$", re.MULTILINE
)
LINE = re.compile(
    r"^[ \t]*(?:[-*] )?[^\x00-\x7f]{0,3} ?`?(?P<name>[A-Za-z][\w /?`'-]{1,48}?(?: ?\([^)\n]{1,80}\))?)`?[ \t]{0,80}(?::"
    r"|\.{3,})[ \t]*(?P<value>\S[^\n]{0,400})?$",
    re.MULTILINE,
)
HEADING = re.compile(
    r"^(?:#{1,4} +(?P<name>[A-Za-z][\w /?'-]{1,60}?)|(?P<form>Tensor[Ff]low [Vv]ersion|Python version"
    r"|CUDA/cuDNN version|OS [Pp]latform and [Dd]istribution|GPU model and memory))"
    r"[ \t]*\n\s{0,8}(?P<value>[^#\s][^\n]{0,400})$",
    re.MULTILINE,
)
UNKNOWN = re.compile(r"(?:could not collect|n/?a|none|not (?:installed|available|found)|unknown)\b|^$", re.IGNORECASE)
BUILD = re.compile(r"\+(?P<tag>(?:cu|rocm|cpu|xpu)[\w.]*)")
CUDNN = re.compile(
    r"(?P<folder>(?:/[^\s/]{1,80}){0,12}/)libcudnn(?P<part>_\w+)?\.so\.(?P<version>\d+\.\d+\.\d+(?:\.\d+)?)"
)
GPU = re.compile(r"^(?:GPU[ #]?)?(?P<index>\d{1,4})[ :]+(?P<name>[^\s:].*)$")
WITH_BRACKETS = frozenset({"pytorch version (gpu?)", "tensorflow version (gpu?)"})
MOST = 4000
MOST_BELOW = 32


def read_forms(origin: str, text: str, known: Mapping[str, str], into: Gathered) -> None:
    """Read the forms; ``known`` are the values of the lines "name: value" in this text."""
    _versions(origin, known, into)
    _cuda(origin, known, into)
    for number, match in enumerate(XPU.finditer(known.get("intel gpu models onboard", ""))):
        into.tell("intel-gpu", origin, str(number), name=match["name"].strip())
    if known.get("os", "").startswith("Linux") and re.match(r"[2-9]\.\d+\.\d+", known.get("release", "")):
        gathered.kernel(origin, known["release"], into)
    uname = UNAME.search(text) if "uname_result" in text else None
    if uname:
        gathered.kernel(origin, uname["release"], into)
        into.machine(machine=uname["machine"])


def _versions(origin: str, known: Mapping[str, str], into: Gathered) -> None:
    for component, names in NAMES.items():
        found = (re.search(r"(?<![\w.])v?(\d+\.\d[\w.]*)", known.get(name, "")) for name in names)
        version = next((match[1] for match in found if match), None)
        if version:
            into.tell(component, origin, version=version)
    if "jax" in known and re.match(r"\d", known.get("jaxlib", "")):
        into.tell("jax", origin, jaxlib=known["jaxlib"])


# The component, and the names that forms give to its version.
NAMES: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("tensorflow version", "tensorflow version (gpu?)"),
    "onnxruntime": ("onnx runtime version", "onnx runtime version or commit id"),
    "jax": ("jax",),
    "deepspeed": ("deepspeed info",),
}


def _cuda(origin: str, known: Mapping[str, str], into: Gathered) -> None:
    """Read "CUDA/cuDNN version: 10.1/7.6", which does not say whose CUDA it is."""
    pair = PAIR.match(known.get("cuda/cudnn version") or known.get("cuda/cudnn") or "")
    if pair and not into.knows("cuda-toolkit"):
        into.tell("cuda-toolkit", origin, version=pair["cuda"], as_told=True)
    if pair and pair["cudnn"] and not into.knows("cudnn"):
        into.tell("cudnn", origin, version=pair["cudnn"])


def read(origin: str, text: str, into: Gathered) -> None:
    """Read such a report; a value that could not be collected says nothing."""
    said: dict[str, str] = {}
    for match in (*islice(LINE.finditer(text), MOST), *islice(HEADING.finditer(text), MOST)):
        name = " ".join((match["name"] or match["form"]).replace("`", "").split()).lower()
        name = name.partition("(")[0].rstrip() if name.endswith(")") and name not in WITH_BRACKETS else name
        value = (match["value"] or "").strip()
        if name not in said:
            said[name] = f"{value}\n{_below(text, match.end())}" if not value or value.endswith(":") else value
    said = {name: value.strip() for name, value in said.items()}
    known = {name: value for name, value in said.items() if not UNKNOWN.match(value)}
    _torch(origin, said, known, into)
    _machine(origin, known, into)
    _gpus(origin, known, into)
    _others(origin, known, into)
    read_forms(origin, text, known, into)


def _below(text: str, at: int) -> str:
    """Return the lines that belong to a name without a value of its own."""
    lines: list[str] = []
    for line in text[at : at + 4000].lstrip("\n").split("\n"):
        if not line.strip() or (lines and re.match(r"[A-Z][\w ]+:", line)) or len(lines) >= MOST_BELOW:
            break
        if not lines and re.match(r"[A-Za-z][\w ]+:\s", line) and not line.startswith("GPU"):
            break
        lines.append(line.strip())
    return "\n".join(lines)


def _torch(origin: str, said: Mapping[str, str], known: Mapping[str, str], into: Gathered) -> None:
    named = known.get("pytorch version") or known.get("pytorch version (gpu?)") or known.get("torch version")
    number = re.match(r"v?(\d[\w.+]*)(?: (\S+))?", named or known.get("pytorch") or "")
    version, rest = (number[1], number[2] or "") if number else ("", "")
    tag = BUILD.search(version)
    cuda = _number(known.get("cuda used to build pytorch") or known.get("torch cuda version"))
    hip = _number(known.get("rocm used to build pytorch") or known.get("torch hip version"))
    xpu = re.match(r"\d", known.get("xpu used to build pytorch", ""))
    available = _truth(said.get("is xpu available" if xpu and not cuda else "is cuda available") or rest.strip("()"))
    if not version and available is None and not cuda:
        return
    no_cuda = re.match("none|could not|n/?a", said.get("cuda used to build pytorch", ""), re.IGNORECASE) and not hip
    into.tell(
        "pytorch",
        origin,
        version=version or None,
        imported=version if version and named else None,
        build=tag["tag"] if tag else None,
        cuda=cuda,
        hip=hip,
        accelerator="cuda" if cuda else "rocm" if hip else "xpu" if xpu else "cpu" if no_cuda and version else None,
        cuda_used=said.get("cuda used to build pytorch"),
        available=available,
        debug=_truth(said.get("is debug build")),
    )


def _machine(origin: str, known: Mapping[str, str], into: Gathered) -> None:
    python = re.match(r"\d+\.\d+(?:\.\d\w*)?", known.get("python version", known.get("python", "")))
    if python:
        into.tell("python", origin, version=python[0])
    gathered.libc(origin, known.get("libc version", ""), into)
    system = known.get("os") or known.get("os platform and distribution") or known.get("os version") or ""
    gathered.system(origin, system if gathered.named(system) else "", into)
    gathered.platform(origin, known.get("python platform") or known.get("platform") or "", into)
    for name in ("gcc", "clang"):
        said = re.sub(r"^gcc version .*", "", known.get(f"{name} version", ""))  # that of the kernel module
        found = re.search(r"(?<!\d)(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)\)?$", said.rstrip())
        if found:
            into.tell(name, origin, version=found[1])


def _gpus(origin: str, known: Mapping[str, str], into: Gathered) -> None:
    listed = known.get("gpu models and configuration") or known.get("gpu models") or ""
    one = known.get("gpu type") or known.get("gpu model and memory") or known.get("accelerator") or ""
    if not listed and re.search(r"^[^A-Za-z\n]*[A-Za-z].*\d", one, re.MULTILINE):
        gathered.gpu(origin, re.split(r", |;|\n", one)[0], into, key="0")
    found = [match for line in listed.split("\n") if (match := GPU.match(line.strip()))]
    for match in found:
        gathered.gpu(origin, match["name"], into, key=match["index"])
    driver = _number(known.get("nvidia driver version") or known.get("driver version"))
    if driver and re.match(r"\d{3}\.", driver):
        into.tell("nvidia-driver", origin, version=driver)
    toolkit = _number(known.get("cuda runtime version") or known.get("nvcc version"))
    if toolkit:
        into.tell("cuda-toolkit", origin, version=toolkit, in_use=True)


def _others(origin: str, known: Mapping[str, str], into: Gathered) -> None:
    files = _cudnn(origin, known.get("cudnn version", ""), into)
    plain = re.match(r"(\d)(\d)(\d{2})$|(\d+\.\d[\d.]*)", known.get("cudnn version", ""))
    if plain and not files:
        into.tell("cudnn", origin, version=plain[4] or f"{plain[1]}.{plain[2]}.{int(plain[3])}")
    vllm = re.match(r"\d+\.\d[\w.+]*", known.get("vllm version", ""))
    if vllm:
        into.tell("vllm", origin, version=vllm[0])
    hip = _number(known.get("hip runtime version"))
    if hip:
        into.tell("hip", origin, version=hip)


def _cudnn(origin: str, listed: str, into: Gathered) -> bool:
    """Read the cuDNN libraries that a report lists by path, those of one folder as one copy."""
    folders: dict[str, dict[str, str]] = {}
    for match in CUDNN.finditer(listed):
        folders.setdefault(match["folder"], {})[f"libcudnn{match['part'] or ''}"] = match["version"]
    for folder, parts in folders.items():
        version = parts.get("libcudnn") or next(iter(parts.values()))
        path = f"{folder}libcudnn.so.{version}"
        rest: dict[str, JsonValue] = {name: held for name, held in parts.items() if name != "libcudnn"}
        mixed = len(set(parts.values())) > 1
        into.tell("cudnn", origin, path, version=version, path=path, file_version=version, parts=rest, mixed=mixed)
    return bool(folders)


def _number(said: str | None) -> str | None:
    match = re.match(r"v?(\d+\.\d[\w.-]*)", said or "")
    return match[1] if match else None


def _truth(said: str | None) -> bool | None:
    return {"true": True, "yes": True, "false": False, "no": False}.get((said or "").strip().lower())
