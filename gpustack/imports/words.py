"""Versions and GPUs that people mention: "driver 535.161.07, CUDA 12.2, torch 2.5.1, 3x RTX A6000".

What is wanted, compared with, or tried elsewhere ("needs driver 550", "built with CUDA 11.8") says nothing about this
machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.imports import devices, file_names, gathered, gpu_words
from gpustack.imports.file_names import NOT_AFTER, here, smooth
from gpustack.imports.gpu_words import ABROAD, NAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gpustack.imports.gathered import Gathered

MADE_WITH = re.compile(
    r"[\s,(]*(?:(?:was |is )?(?:built|compiled|build)? ?(?:with|for|against)|w/|\+|built on) ?CUDA ?"
    r"(?P<cuda>\d{1,2}\.\d)\b",
    re.IGNORECASE,
)
UPDATED = re.compile(
    r"\b(?:updat|upgrad|mov|switch|bump|went)\w*\b[^.;]{0,40}\b(?:(?:nvidia|driver)s?\b|(?:lib)?nvidia-[a-z][\w-]*)"
    r"[^;]{0,40}?\bto (?:version |driver |the )*(?P<driver>[2-9]\d{2}(?:\.\d{2,3}(?:\.\d{2})?)?)\b(?!%)"
    r"|\bdrivers?\b(?: (?:version|was|were|has|have|had|been|got|is|now))* (?:updated|upgraded|moved|bumped)"
    r"(?: from [\d.]+)? to (?:version |the )*(?P<driver2>[2-9]\d{2}(?:\.\d{2,3}(?:\.\d{2})?)?)\b(?!%)",
    re.IGNORECASE,
)
OF_DRIVER = re.compile(
    r"(?:nvidia-smi`?(?: on (?:the |my )?(?:host|machine))?|\bdriver)(?: [2-9]\d\d[\d.]*)?"
    r"(?: (?:shows?|says?|reports?|with|prints?|lists?|gives?|has|supports?|is))?[ :=(]*"
    r"(?:that )?(?:the )?(?:up to )?$",
    re.IGNORECASE,
)
OF_TOOLKIT = re.compile(r"(?: is| was|,)? (?:the |an? |my |our )?(?:only |installed )?toolkit\b", re.IGNORECASE)
CHANGED = re.compile(r" (?:was|were|is|has been|got) (?:up|down)(?:dated|graded)\b", re.IGNORECASE)
OF_IMAGE = re.compile(r"-cuda\d")  # as in the tag of an image: 1.9.1-cuda11.1
LINK = (
    rf"{ABROAD}(?: (?:of|on|in) (?:the|this|my|our) (?:PC|host|node|machine|system|server|laptop|computer|box)\b)?"
    r"(?: (?:was|were|is|has been|got) (?:updated|upgraded|downgraded)(?: from [\d.]+)? to| that (?:is|was) installed"
    r"| \((?:NuGet )?package(?= \d)| (?:is|are|was)(?= version| release)| (?:is|are) (?:now )?at)?"
    r"(?: versions?| ver\b\.?| release)?(?: (?:is|are))?(?: ?版本(?:号)?)?[ :=v@('\"\uff1a]{0,24}"
    r"(?:NVIDIA-Linux-(?:x86_64|aarch64)-)?"  # the installer's name
)
CLAIM = re.compile(
    rf"(?<![\w./+\[-])(?:{'|'.join(f'(?P<n{index}>{words})' for index, (words, _) in enumerate(NAMED))})(?={LINK}\d"
    rf"|==)",
    re.IGNORECASE | re.ASCII,  # a word may follow one of another script
)
VALUE = re.compile(
    rf"(?:{LINK}|==)v?(?P<version>\d+(?:\.\d+){{0,3}}(?-i:[.+-]?(?:post|dev|rc|a|b|cu|rocm)[\w.+]*|\+\w+)?)(?![\w.]*[xX]\b)",
    re.IGNORECASE,
)
RELEASE = re.compile(rf"{LINK}v?(?P<version>[2-9]\.\d{{1,2}}(?:\.\d+)?[\w.+~-]*)", re.IGNORECASE)
# Program output that other readers handle: tables, lists of packages, reports "name : value".
TOLD = re.compile(
    r"^linux(?:-\w+)? \d\S+-\d+(?:\.\d+)?$|^\S+ \d[^\s,;]* \S*(?:py\d|h[0-9a-f]{5}|_\d+\b|cuda)\S*(?: \S+)?$"
    r"|\bcontroller(?: \[[0-9a-f]{4}\])?: |^[0-9a-f]{2}:[0-9a-f]{2}\.\d "
    r"|^[ \t]*\||\|[ \t]*$|\|[^|]*\|"
    r"|^\[(?:pip3?|conda)\]|^[\w.-]+==\S+$|used to build PyTorch|^(?:PyTorch|Python|Clang|GCC|CMake|Libc"
    r"|Nvidia driver|cuDNN) (?:version|platform) ?:"
    r"|^(?:ii|rc|un|pn|hi|iU|iF|iH) [a-z0-9]\S+ "
    r"|^(?:Is (?:debug|CUDA|XNNPACK|XPU)|CUDA (?:runtime version|_MODULE)|NVRM version|Cuda compilation)"
    r"|Warning: |Error: |\bERROR\b|\bWARN|^Traceback|NVIDIA-SMI|^\s*File \"|^[#$] ?(?:conda|mamba|pip|uv|apt)\b"
    r"|^\(.{0,30}\)[ $#>]*(?:conda|mamba|pip|uv|apt)\b"
    r"|^- (?:GCC \d|C\+\+ Version|Intel\(R\)|OpenMP|LAPACK|NNPACK|CPU cap|CUDA Runtime|NVCC arch|CuDNN|Magma"
    r"|HIP Run|MIOpen|Build settings)"
)
NOTHING = re.compile(r'^"[^"]{1,60}" ?: ?(?:false|null|0|""|\[ ?\]|\{ ?\}) ?,?$')  # an empty field of JSON
# What someone wrote before a program's words, in one line: "torch 2.1.0+cu121; RuntimeError: …".
BESIDE = re.compile(r"^(?P<own>[^\"']{8,300}?)[;,.:] (?=[A-Z]\w*(?:Error|Exception|Warning): )")
# A row of a table that someone wrote: "| torch | 2.4.1 |".
ROW = re.compile(
    r"^\|[ \t]*(?P<name>[A-Za-z](?:[\w.+/()-]| (?! )){1,30}?)[ \t]*\|"
    r"[ \t]*(?P<value>(?:[^|\s]| (?! )){1,100}?)[ \t]*\|[ \t]*$",
    re.MULTILINE,
)
MOST, LONGEST, DENIED = 300, 1500, re.compile(r"\b[A-Za-z]\w{1,20} \d[\w.]{0,12}\? no(?:pe)?\b")


def read(origin: str, text: str, into: Gathered, known: Iterable[str] = ()) -> None:
    """Read people's own words; lines that are messages of a program (``known``) are not a person's."""
    passed = set(known)
    for line, _ in zip(_lines(text, passed), range(MOST), strict=False):
        for component, version, rest in _claims(DENIED.sub("", line)):
            if not devices.monthly(f"{origin} (in words)", component, version, into):
                _tell(origin, component, version, rest, into)
        if not (into.knows("gpu") or into.fact("amd-gpu", "name") or into.knows("intel-gpu")):
            gpu_words.read_gpus(origin, line, into, here)
        file_names.named(origin, line, into)
        updated = UPDATED.search(line)
        if updated and not into.knows("nvidia-driver"):
            _driver(f"{origin} (in words)", updated["driver"] or updated["driver2"], "", into)
        gpu_words.read_systems(origin, line, into, here)


def _lines(text: str, passed: set[str]) -> Iterator[str]:
    for raw in ROW.sub(r"\g<name>: \g<value>", text).split("\n"):
        line = smooth(raw[: LONGEST * 2])
        beside = BESIDE.match(line)
        line = beside["own"] if beside else line
        printed = NOTHING.match(line) or TOLD.search(line) or any(line in one for one in passed)
        if line and len(line) <= LONGEST and not printed:
            yield line


def _claims(line: str) -> Iterator[tuple[str, str, str]]:
    """Yield the component, version and following text of each thing that a line says is here, latest change first."""
    for match in sorted(CLAIM.finditer(line), key=lambda one: not CHANGED.match(line, one.end())):
        value = VALUE.match(line, match.end())
        if value is None or not here(line[: match.start()]):
            continue
        component = NAMED[int((match.lastgroup or "n0")[1:])][1]
        if component == "cuda" and OF_DRIVER.search(line[: match.start()]):
            component = "driver-cuda"
        if component == "cuda" and OF_TOOLKIT.match(line[value.end() :]):
            component = "cuda-toolkit"
        if component == "linux-kernel":
            value = RELEASE.match(line, match.end()) or value
        after = line[value.end() : value.end() + 40]
        if not NOT_AFTER.match(after):
            yield component, value["version"].rstrip(".-"), after


def _tell(origin: str, component: str, version: str, after: str, into: Gathered) -> None:
    said = f"{origin} (in words)"
    maker = MAKERS.get(component)
    if maker:
        maker(said, version, after, into)
    elif component in PLAIN and not into.version(component):
        into.tell(component, said, version=_dotted(version) if component == "cudnn" else version)
    _distribution(said, component, version, into)
    if component == "jaxlib":
        into.tell("jax", said, jaxlib=version)
    elif component.startswith("jax-"):
        into.tell("jax", said)
        held = into.fact("jax", "plugins")
        into.copies["jax"][""].facts["plugins"] = {component: version, **(held if isinstance(held, dict) else {})}


def _dotted(version: str) -> str:
    """Return a version of cuDNN as people write it: 8907 is 8.9.7, 90100 is 9.1.0."""
    match = re.fullmatch(r"([5-8])(\d)(\d{2})|(9|1\d)(\d{2})(\d{2})", version)
    return ".".join(str(int(part)) for part in match.groups() if part) if match else version


def _distribution(said: str, component: str, version: str, into: Gathered) -> None:
    compared = component == "pytorch" and into.fact("pytorch", "imported")  # a report has the one that is here
    if component not in DISTRIBUTIONS or OF_IMAGE.search(version) or compared:
        return
    held = into.fact("packages", "distributions")
    known = held if isinstance(held, dict) else {}
    into.tell("packages", said)
    into.copies["packages"][""].facts["distributions"] = {DISTRIBUTIONS[component]: version, **known}


def _driver(said: str, version: str, _after: str, into: Gathered) -> None:
    if re.fullmatch(r"[1-9]\d{2}(?:\.\d+)*", version) and not into.version("nvidia-driver"):
        branch = int(version.partition(".")[0])
        into.tell("nvidia-driver", said, version=version if "." in version else None, branch=branch)


def _module(said: str, version: str, _after: str, into: Gathered) -> None:
    if re.fullmatch(r"[1-9]\d{2}\.\d+(?:\.\d+)?", version) and not into.version("nvidia.ko"):
        version = _whole(version, into.fact("nvidia-driver", "libnvidia_ml"))
        into.tell("nvidia.ko", said, version=version, version_loaded=version, loaded=True)


def _libraries(said: str, version: str, _after: str, into: Gathered) -> None:
    if re.fullmatch(r"[1-9]\d{2}\.\d+(?:\.\d+)?", version):
        into.tell("nvidia-driver", said, libnvidia_ml=_whole(version, into.version("nvidia.ko")))


def _whole(version: str, other: object) -> str:
    """Return the other release if it is this one, in full or cut short: 550.90 beside 550.90.07."""
    alike = isinstance(other, str) and (f"{other}.".startswith(f"{version}.") or f"{version}.".startswith(f"{other}."))
    return str(other) if alike else version


def _package(said: str, version: str, after: str, into: Gathered) -> None:
    """Read a driver package: its libraries are of this release, the module may be of another."""
    _libraries(said, version, after, into) if into.knows("nvidia.ko") else _driver(said, version, after, into)


def _cuda(said: str, version: str, after: str, into: Gathered) -> None:
    version = re.sub(
        r"^([1-9]\d)0?(\d)0?$", r"\1.\2", version
    )  # 12040 of cudaRuntimeGetVersion, 1204, and 124 of a tag
    match = re.match(r"(\d{1,2})(?:\.(\d{1,2}))?", version)
    if not match or not 7 <= int(match[1]) < 30:  # noqa: PLR2004 - CUDA 7 to 29
        return
    if not into.knows("cuda-toolkit"):
        of_driver = re.match(r"\s*\(?(?:by |from |per |in )?(?:the )?(?:driver|nvidia-smi)\)?", after, re.IGNORECASE)
        into.tell("cuda-toolkit", said, version=version, as_told=True, whose="driver" if of_driver else None)
    elif into.fact("cuda-toolkit", "as_told") and not f"{into.version('cuda-toolkit')}.".startswith(f"{version}."):
        next(iter(into.copies["cuda-toolkit"].values())).facts.setdefault("also_told", version)


def _toolkit(said: str, version: str, after: str, into: Gathered) -> None:
    """Read a CUDA version that someone states for the toolkit itself, rather than for anything else of CUDA."""
    first = not into.knows("cuda-toolkit")
    _cuda(said, version, after, into)
    if first and into.knows("cuda-toolkit"):
        next(iter(into.copies["cuda-toolkit"].values())).facts["by_name"] = True


def _driver_cuda(said: str, version: str, _after: str, into: Gathered) -> None:
    if not into.knows("cuda-toolkit"):
        into.tell("cuda-toolkit", said, version=version, as_told=True, whose="driver")


def _torch(said: str, version: str, after: str, into: Gathered) -> None:
    if into.version("pytorch"):
        return
    beside = re.match(
        r"\s*[(\[+=]?(?:torch-[\d.]+\+)?(?P<tag>cu\d{2,3}|rocm[\d.]+\d|cpu)(?:\b|_(?:mkl|py|generic)\S*)"
        r"|[ =(]*py\d[\d.]*_(?:cuda(?P<cuda>\d+\.\d+)|cpu)\S*",
        after,
    )
    build = devices.named(version)
    made = MADE_WITH.match(after) if build.tag is None else None
    if made:
        into.tell("pytorch", said, version=version, cuda=made["cuda"], accelerator="cuda")
    if build.tag is None and beside:
        cuda = beside["cuda"]
        build = devices.tagged(beside["tag"] or (f"cu{cuda.replace('.', '')}" if cuda else "cpu"))
    into.tell("pytorch", said, version=version, build=build.tag, accelerator=build.accelerator, cuda=build.cuda)


def _torch_cuda(said: str, version: str, _after: str, into: Gathered) -> None:
    into.tell("pytorch", said, cuda=re.sub(r"^(1\d)(\d)$", r"\1.\2", version), accelerator="cuda")  # 121 of a tag


def _tensorflow_rocm(said: str, version: str, _after: str, into: Gathered) -> None:
    into.tell("tensorflow", said, version=version, accelerator="rocm")


def _python(said: str, version: str, _after: str, into: Gathered) -> None:
    if not into.version("python") and re.match(r"[23]\.\d", version):
        into.tell("python", said, version=version)


def _kernel(said: str, version: str, after: str, into: Gathered) -> None:
    lasts = re.match(r" ?(?:[mun\u00b5]?s|x|%|[GM]?FLOP)", after)  # a kernel of a program, and how long it took
    if not into.version("linux-kernel") and re.match(r"[2-9]\.\d", version) and not lasts:
        gathered.kernel(said, version, into)


def _onnxruntime(said: str, version: str, _after: str, into: Gathered) -> None:
    if not into.version("onnxruntime"):
        into.tell("onnxruntime", said, version=version)


def _onnxruntime_gpu(said: str, version: str, _after: str, into: Gathered) -> None:
    if not into.version("onnxruntime"):
        into.tell("onnxruntime", said, version=version, distributions={"onnxruntime-gpu": version}, accelerator="cuda")


# Components for which a version alone is enough.
PLAIN = frozenset(
    (
        *("cudnn", "nccl", "rocm", "tensorflow", "vllm", "sglang", "tensorrt", "jax", "triton", "gcc", "docker"),
        *("nvidia-fabricmanager", "nvidia-container-toolkit", "deepspeed"),
    )
)
MAKERS: dict[str, Callable[[str, str, str, Gathered], None]] = {
    "nvidia-driver": _driver,
    "nvidia.ko": _module,
    "libraries": _libraries,
    "driver-package": _package,
    "cuda": _cuda,
    "cuda-toolkit": _toolkit,
    "driver-cuda": _driver_cuda,
    "pytorch": _torch,
    "torch-cuda": _torch_cuda,
    "tensorflow-rocm": _tensorflow_rocm,
    "tensorflow-gpu": lambda said, version, _after, into: into.tell("tensorflow", said, version=version),
    "glibc": lambda said, version, _after, into: into.tell("python", said, glibc=version),
    "python": _python,
    "linux-kernel": _kernel,
    "onnxruntime": _onnxruntime,
    "onnxruntime-gpu": _onnxruntime_gpu,
}
DISTRIBUTIONS = {
    name: name
    for name in (
        *("torchvision", "torchaudio", "flash-attn", "xformers", "bitsandbytes", "transformers", "cupy", "numba"),
        *("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
        *("jaxlib", "vllm", "sglang", "triton", "deepspeed", "numpy", "onnxruntime", "onnxruntime-gpu"),
        *("ctranslate2", "faster-whisper"),
        *("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-rocm", "cudatoolkit"),
    )
} | {"pytorch": "torch"}
