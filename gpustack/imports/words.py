"""Versions and GPUs that people tell in words: "driver 535.161.07, CUDA 12.2, torch 2.5.1, 3x RTX A6000".

What is wanted, compared with, or tried elsewhere ("needs driver 550", "built with CUDA 11.8") says nothing of this
machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.imports import gpu_words, platforms, torch_build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gpustack.imports.gathered import Gathered

# What people call a thing, and which component it is.
NAMED = (
    (
        r"(?:nvidia[ -])?(?:gpu |graphics |display )?(?:linux )?drivers?(?:'s)?|(?:显卡|nvidia ?)?驱动(?:程序)?",
        "nvidia-driver",
    ),
    (r"nvidia[ -](?:linux|kernel module|dkms|open(?:-dkms)?|utils|smi)", "nvidia-driver"),
    (r"cuda \(pytorch\)|(?:py)?torch cuda", "torch-cuda"),
    (r"(?:lib)?cudnn\d?-cuda-\d+(?:-\d+)?", "cudnn"),
    (r"cuda(?:[ _-](?:toolkit|runtime|version|sdk))?_?|nvcc(?: --version| -V)?", "cuda"),
    (r"cudnn", "cudnn"),
    (r"(?:py)?torch(?:[._](?:__)?version(?:__)?)?", "pytorch"),
    (r"torchvision", "torchvision"),
    (r"torchaudio", "torchaudio"),
    (r"tensorflow-rocm", "tensorflow-rocm"),
    (r"tensorflow-gpu", "tensorflow-gpu"),
    (r"tensorflow|\btf", "tensorflow"),
    (r"jax", "jax"),
    (r"jaxlib", "jaxlib"),
    (r"vllm", "vllm"),
    (r"sglang", "sglang"),
    (r"tensorrt", "tensorrt"),
    (r"onnxruntime-gpu|onnx ?runtime gpu", "onnxruntime-gpu"),
    (r"onnxruntime|onnx ?runtime|\bort", "onnxruntime"),
    (r"flash[-_]attn|flash[- ]attention", "flash-attn"),
    (r"xformers", "xformers"),
    (r"bitsandbytes|bnb", "bitsandbytes"),
    (r"triton", "triton"),
    (r"transformers", "transformers"),
    (r"deepspeed", "deepspeed"),
    (r"numpy", "numpy"),
    (r"cupy", "cupy"),
    (r"numba", "numba"),
    (r"nccl", "nccl"),
    (r"rocm(?:-dev|-libs|-core)?", "rocm"),
    (r"python", "python"),
    (r"glibc", "glibc"),
    (r"gcc|g\+\+", "gcc"),
    (
        r"(?:linux )?kernel(?: linux)?|(?<!alma )(?<!rocky )(?<!arch )(?<!oracle )(?<!amazon )(?<!enterprise )linux",
        "linux-kernel",
    ),
    (r"fabric ?manager|nvidia-fabricmanager(?:-\d+)?", "fabric-manager"),
    (r"libnvidia-container(?:-tools|1)?|nvidia[- ]container[- ]toolkit", "nvidia-container-toolkit"),
    (r"docker(?:-ce)?", "docker"),
)
WHEEL = re.compile(
    r"(?<![\w/.-])(?P<name>nvidia-(?:cudnn|cublas|nccl|nvjitlink|cuda-runtime|cuda-nvrtc|cufft|cusparse|cusolver)-cu1\d)"
    r"(?:==| |: | version |-| \()v?(?P<version>\d+\.\d[\d.]*\d)"
)
LINK = r"(?: versions?)?(?: is)?(?: ?版本(?:号)?)?[ :=v@('\"\uff1a]*"
CLAIM = re.compile(
    rf"(?<![\w./+\[-])(?:{'|'.join(f'(?P<n{index}>{words})' for index, (words, _) in enumerate(NAMED))})(?={LINK}\d"
    rf"|==)",
    re.IGNORECASE,
)
VALUE = re.compile(
    rf"(?:{LINK}|==)v?(?P<version>\d+(?:\.\d+){{0,3}}(?-i:[.+-]?(?:post|dev|rc|a|b|cu|rocm)[\w.+]*|\+\w+)?)(?![\w.]*[xX]\b)",
    re.IGNORECASE,
)
RELEASE = re.compile(rf"{LINK}v?(?P<version>[2-9]\.\d{{1,2}}(?:\.\d+)?[\w.+~-]*)", re.IGNORECASE)
NOT_HERE = re.compile(
    r"(?:needs?|requires?|required|wants?|at least|minimum|min\.|upgrade\w*|update\w*|install(?:ing)?|compiled"
    r"|built?|built|(?:built?|compiled|linked|compatible|made) (?:with|for|against)|for|in|supports?|supported|than"
    r"|until|since|before|(?:works?|worked|runs?|fine|tested|ok) (?:on"
    r"|with)|"
    r"works?|worked|downgrad\w*|instead of|against|expects?|expected|>=|<=|<|>|or newer|previous\w*|earlier"
    r"|compiler|compiled w\.[ .]*|older|newer|(?:un|re)installed|removed|not|no|without|if|use|using|try|tried|was"
    r"|up to|from|to|like|e\.g\.|such as)\s*(?:the |a |an )?\W*$",
    re.IGNORECASE,
)
# Words before a thing that make it one of this machine, where the words above would not.
HERE = re.compile(
    r"(?:\b(?:I|we|I'm|we're|am|are|is) (?:also |now |currently )?us(?:e|ing)|\b(?:upgraded|updated) to)\s+(?:the "
    r"|a |an )?$",
    re.IGNORECASE,
)
NOT_AFTER = re.compile(
    r"[\"')]*\s*(?:or (?:newer|later|higher|above)|\+ ?(?:is|or|needed)|and (?:above|newer|later)|and up\b|(?:is"
    r"|are) (?:needed|required)|builds?\b|wheels?\b)"
)
# Lines that a program prints, which other readers take in: tables, lists of packages, reports "name : value".
TOLD = re.compile(
    r"^linux(?:-\w+)? \d\S+-\d+(?:\.\d+)?$|^\S+ \d\S* \S*(?:py\d|h[0-9a-f]{5}|_\d+\b|cuda)\S*(?: \S+)?$"
    r"|\bcontroller(?: \[[0-9a-f]{4}\])?: |^[0-9a-f]{2}:[0-9a-f]{2}\.\d "
    r"|\||^\[(?:pip3?|conda)\]|^[\w.-]+==\S+$|used to build PyTorch|^(?:PyTorch|Python|Clang|GCC|CMake|Libc"
    r"|Nvidia driver|cuDNN) (?:version|platform) ?:"
    r"|^(?:Is (?:debug|CUDA|XNNPACK|XPU)|CUDA (?:runtime version|_MODULE)|NVRM version|Cuda compilation)"
    r"|Warning: |Error: |\bERROR\b|\bWARN|^Traceback|NVIDIA-SMI|^\s*File \"|^[#$] ?(?:conda|mamba|pip|uv|apt)\b"
    r"|^\(.{0,30}\)[ $#>]*(?:conda|mamba|pip|uv|apt)\b"
    r"|^- (?:GCC \d|C\+\+ Version|Intel\(R\)|OpenMP|LAPACK|NNPACK|CPU cap|CUDA Runtime|NVCC arch|CuDNN|Magma"
    r"|HIP Run|MIOpen|Build settings)"
)
MOST = 300
LONGEST = 600


def read(origin: str, text: str, into: Gathered, known: Iterable[str] = ()) -> None:
    """Take in what is told in words; lines that are messages of a program (``known``) are not told by a person."""
    passed = set(known)
    for line, _ in zip(_lines(text, passed), range(MOST), strict=False):
        for component, version, rest in _claims(line):
            _tell(origin, component, version, rest, into)
        if not (into.knows("gpu") or into.fact("amd-gpu", "name") or into.knows("intel-gpu")):
            gpu_words.read(origin, line, into, _here)
        _wheels(origin, line, into)
        _names(origin, line, into)


def _lines(text: str, passed: set[str]) -> Iterator[str]:
    for raw in text.split("\n"):
        line = " ".join(raw[: LONGEST * 2].replace("**", "").replace("`", "").split())
        if line and len(line) <= LONGEST and not TOLD.search(line) and not any(line in one for one in passed):
            yield line


def _claims(line: str) -> Iterator[tuple[str, str, str]]:
    """Give component, version and what follows of each thing that a line says is here."""
    for match in CLAIM.finditer(line):
        value = VALUE.match(line, match.end())
        if value is None or not _here(line[: match.start()]):
            continue
        component = NAMED[int((match.lastgroup or "n0")[1:])][1]
        if component == "linux-kernel":
            value = RELEASE.match(line, match.end()) or value
        after = line[value.end() : value.end() + 40]
        if not NOT_AFTER.match(after):
            yield component, value["version"].rstrip(".-"), after


def _here(before: str) -> bool:
    """Tell from the words before a thing whether it is said to be on this machine."""
    near = before[-40:]
    return bool(HERE.search(near)) or not NOT_HERE.search(near)


def _tell(origin: str, component: str, version: str, after: str, into: Gathered) -> None:
    said = f"{origin} (in words)"
    maker = MAKERS.get(component)
    if maker:
        maker(said, version, after, into)
    elif component in PLAIN and not into.version(component):
        into.tell(component, said, version=version)
    _distribution(said, component, version, into)


def _wheels(origin: str, line: str, into: Gathered) -> None:
    """Take in NVIDIA's wheels that a line says are here: "nvidia-cudnn-cu11 8.6.0 is installed"."""
    for match in WHEEL.finditer(line):
        if _here(line[: match.start()]):
            held = into.fact("packages", "distributions")
            into.tell("packages", f"{origin} (in words)")
            known = held if isinstance(held, dict) else {}
            into.copies["packages"][""].facts["distributions"] = {match["name"]: match["version"], **known}


def _distribution(said: str, component: str, version: str, into: Gathered) -> None:
    if component not in DISTRIBUTIONS:
        return
    held = into.fact("packages", "distributions")
    known = held if isinstance(held, dict) else {}
    into.tell("packages", said)
    into.copies["packages"][""].facts["distributions"] = {DISTRIBUTIONS[component]: version, **known}


def _driver(said: str, version: str, _after: str, into: Gathered) -> None:
    if re.fullmatch(r"[1-9]\d{2}(?:\.\d+)*", version) and not into.version("nvidia-driver"):
        branch = int(version.partition(".")[0])
        into.tell("nvidia-driver", said, version=version if "." in version else None, branch=branch)


def _cuda(said: str, version: str, after: str, into: Gathered) -> None:
    version = re.sub(r"^([1-9]\d)0(\d)0$", r"\1.\2", version)  # as cudaRuntimeGetVersion gives it: 12040
    match = re.match(r"(\d{1,2})(?:\.(\d{1,2}))?", version)
    if not match or not 7 <= int(match[1]) < 30:  # noqa: PLR2004 - CUDA 7 to 29
        return
    if not into.knows("cuda-toolkit"):
        of_driver = re.match(r"\s*\(?(?:by |from |per |in )?(?:the )?(?:driver|nvidia-smi)\)?", after, re.IGNORECASE)
        into.tell("cuda-toolkit", said, version=version, as_told=True, whose="driver" if of_driver else None)
    elif into.fact("cuda-toolkit", "as_told") and into.version("cuda-toolkit") != version:
        into.copies["cuda-toolkit"][""].facts.setdefault("also_told", version)


def _torch(said: str, version: str, after: str, into: Gathered) -> None:
    if into.version("pytorch"):
        return
    beside = re.match(r"\s*[(\[+]?(?:torch-[\d.]+\+)?(?P<tag>cu\d{2,3}|rocm[\d.]+\d|cpu)\b", after)
    build = torch_build.named(version)
    if build.tag is None and beside:
        build = torch_build.tagged(beside["tag"])
    into.tell("pytorch", said, version=version, build=build.tag, accelerator=build.accelerator, cuda=build.cuda)


def _torch_cuda(said: str, version: str, _after: str, into: Gathered) -> None:
    into.tell("pytorch", said, cuda=version, accelerator="cuda")


def _tensorflow_rocm(said: str, version: str, _after: str, into: Gathered) -> None:
    into.tell("tensorflow", said, version=version, accelerator="rocm")


def _tensorflow_gpu(said: str, version: str, _after: str, into: Gathered) -> None:
    into.tell("tensorflow", said, version=version)


def _glibc(said: str, version: str, _after: str, into: Gathered) -> None:
    into.tell("python", said, glibc=version)


def _python(said: str, version: str, _after: str, into: Gathered) -> None:
    if not into.version("python") and re.match(r"[23]\.\d", version):
        into.tell("python", said, version=version)


def _kernel(said: str, version: str, _after: str, into: Gathered) -> None:
    if not into.version("linux-kernel") and re.match(r"[2-9]\.\d", version):
        platforms.kernel(said, version, into)


def _onnxruntime(said: str, version: str, _after: str, into: Gathered) -> None:
    if not into.version("onnxruntime"):
        into.tell("onnxruntime", said, version=version)


def _onnxruntime_gpu(said: str, version: str, _after: str, into: Gathered) -> None:
    if not into.version("onnxruntime"):
        into.tell("onnxruntime", said, version=version, distributions={"onnxruntime-gpu": version}, accelerator="cuda")


# What needs nothing but its version told.
PLAIN = frozenset(
    (
        *("cudnn", "nccl", "rocm", "tensorflow", "vllm", "sglang", "tensorrt", "jax", "triton", "gcc", "docker"),
        *("fabric-manager", "nvidia-container-toolkit", "deepspeed"),
    )
)
MAKERS: dict[str, Callable[[str, str, str, Gathered], None]] = {
    "nvidia-driver": _driver,
    "cuda": _cuda,
    "pytorch": _torch,
    "torch-cuda": _torch_cuda,
    "tensorflow-rocm": _tensorflow_rocm,
    "tensorflow-gpu": _tensorflow_gpu,
    "glibc": _glibc,
    "python": _python,
    "linux-kernel": _kernel,
    "onnxruntime": _onnxruntime,
    "onnxruntime-gpu": _onnxruntime_gpu,
}
DISTRIBUTIONS = {
    name: name
    for name in (
        *("torchvision", "torchaudio", "flash-attn", "xformers", "bitsandbytes", "transformers", "cupy", "numba"),
        *("jaxlib", "vllm", "sglang", "triton", "deepspeed", "numpy", "onnxruntime", "onnxruntime-gpu"),
        *("tensorflow", "tensorflow-gpu", "tensorflow-rocm"),
    )
} | {"pytorch": "torch"}
SYSTEM = re.compile(
    r"(?<![\w./-])(?:Microsoft )?(?P<name>Ubuntu|Debian|CentOS(?: Linux| Stream)?|RHEL|Red Hat Enterprise Linux|Fedora"
    r"|Rocky(?: Linux)?|Alma ?Linux|Oracle Linux|Amazon Linux|Arch Linux|Manjaro|EndeavourOS|CachyOS|Gentoo|NixOS"
    r"|openSUSE(?: Leap| Tumbleweed)?|SLES|Pop!?[_ ]?OS!?|Linux Mint|Kali(?: Linux)?|Proxmox(?: VE)?|TrueNAS(?: SCALE)?"
    r"|Unraid|Windows|[Ww]in ?(?=(?:7|8|10|11)\b)|macOS)(?:\b|(?<=[Ww]in))(?: GNU/Linux| Linux| Server| Desktop"
    r"| Workstation)?(?: release| version)?[: ]*"
    r"(?P<version>\d+(?:\.\d+)*)?"
)
COMPILER = re.compile(r"#\d+ |\b(?:gcc|g\+\+|GCC|clang|ldd|GLIBC)\b")


def _names(origin: str, line: str, into: Gathered) -> None:
    """Take in the names of systems that stand in a line."""
    wsl = re.search(r"\bWSL ?2?\b", line)
    found = [one for one in SYSTEM.finditer(line) if not COMPILER.search(line) and _here(line[: one.start()])]
    inside = [one for one in found if not one["name"].lower().startswith("win")] if wsl else []
    for one in (inside or found)[:1]:
        said = f"{one['name']} {one['version'] or ''}".strip()
        platforms.system(f"{origin} (in words)", said, into)
    if wsl:
        into.machine(wsl="yes")
    if re.search(r"\b(?:Jetson|tegra|nvgpu|JetPack|L4T)\b", line, re.IGNORECASE):
        into.tell("gpu", f"{origin} (in words)", "0", embedded=True)
    if re.match(r"\(container\)|root@[0-9a-f]{12}\b|\$ docker exec", line):
        into.machine(container="docker")
