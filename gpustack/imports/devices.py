"""GPUs and PyTorch builds as programs list them, and what tags of images name.

People write +cuda118 and +cu11.8 for the same.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gpustack.imports import gathered
from gpustack.matrix.subjects import toolkits

if TYPE_CHECKING:
    from gpustack.imports.gathered import Gathered

TAG = re.compile(
    r"(?:\+(?:[0-9a-f]{7,40}\.(?=nv))?)(?P<tag>(?:cu(?:da)?-?\d{2}\.?\d?|rocm[\d.]+|cpu|xpu)[\w.]*|(?<=\.)nv\d\d\.\d\d?)"
)
CUDA = re.compile(r"cu(?:da)?-?(?P<major>\d{1,2})\.?(?P<minor>\d)(?!\d)")
KINDS = {"cu": "cuda", "rocm": "rocm", "cpu": "cpu", "xpu": "xpu", "nv": "cuda"}  # nv24.6: NVIDIA's own
LAYOUTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        (  # Theano, Caffe, trtexec, Kohya's GUI: what they have chosen
            r"(?:\bUsing gpu device (?P<index>\d)|\b(?:(?:Current|GPU) device name|Selected Device|Torch detected GPU)"
            r"|\] GPU \d): (?P<name>(?:NVIDIA|GeForce|Tesla|Quadro|TITAN)\b[^\n,;(|]{1,50}?)(?= VRAM|[,;(|]| *$)"
        ),
        r"\bpciBusID: (?P<pci>[0-9a-f:.]{7,16}) name: (?P<name>[^\n]{3,60}?) computeCapability: (?P<cc>\d{1,2}\.\d)",
        (r"\b_CudaDeviceProperties\(name='(?P<name>[^'\n]{3,60})', major=(?P<major>\d{1,2}), minor=(?P<minor>\d)\b"),
        r"\bname: (?P<name>[^\n:]{3,60}) major: (?P<major>\d{1,2}) minor: (?P<minor>\d)\b",
        (
            r"\bdevice: (?P<index>\d{1,2}), name: (?P<name>[^\n,]{3,60}), pci bus id: (?P<pci>[0-9a-fA-F:.]{7,16}),"
            r" compute capability: (?P<cc>\d{1,2}\.\d)"
        ),
        r"StreamExecutor device \((?P<index>\d{1,2})\): (?P<name>[^\n,]{3,60}), Compute Capability (?P<cc>\d{1,2}\.\d)",
        r"^[^\n]{0,60}\bDevice (?P<index>\d{1,2}): (?P<name>[^\n,]{3,60}), compute capability (?P<cc>\d{1,2}\.\d)",
        r"\blibrary=(?:CUDA|cuda)\b[^\n]{0,80}\bcompute=(?P<cc>\d{1,2}\.\d)[^\n]{0,80}\bname=\"(?P<name>[^\"\n]{3,60})\"",
        (
            r"^ *id (?P<index>\d{1,2}) +b'(?P<name>[^'\n]{3,60})' +\[\w[^\n]*\n +[Cc]ompute [Cc]apability: "
            r"(?P<cc>\d{1,2}\.\d)"
        ),
        (
            r"^ *Device (?P<index>\d{1,2}): \"(?P<name>[^\"\n]{3,60})\"\n(?:[^\n]{0,200}\n){0,2}"
            r" *CUDA Capability Major/Minor version number: +(?P<cc>\d{1,2}\.\d)"
        ),
        (
            r"^ *GPU (?P<indices>\d{1,2}(?:,\d{1,2})*)(?::|  ) *(?P<name>[A-Z][^\n:(|]{2,60}?) *(?:\(arch="
            r"(?P<cc>\d{1,2}\.\d)\))?$"
        ),
    )
)
# A name in a report on PyTorch's builds (MMCV, detectron2) and the component whose version follows it.
BUILT = re.compile(r"PyTorch built with:\n(?P<rows>(?:[ \t]{0,8}- [^\n]*\n?){1,40})", re.MULTILINE)
RUNTIME = re.compile(r"- (?P<kind>CUDA|HIP) Runtime (?P<version>\d{1,2}\.\d{1,2})")
FLAGS = re.compile(r"- NVCC architecture flags: (?P<flags>[^\n]*)")
ARCH = re.compile(r"code=\[?(?P<arch>(?:sm|compute)_\d{2,3}[af]?)")
TABLE = re.compile(
    r"^(?P<name>PyTorch|Python|GCC|TorchVision|torchvision|GPU available|Driver version)  +(?P<value>\S[^\n]{0,80})$",
    re.MULTILINE,
)
LIGHTNING = re.compile(r"^[ \t]*[*-] CUDA:[ \t]*\n(?P<rows>(?:[ \t]+[*-] ?[^\n]*(?:\n|$)){1,80})", re.MULTILINE)
ROW = re.compile(r"^[ \t]+[*-] (?P<name>[^:\n]{1,60})(?::[ \t]*(?P<value>[^\n]*))?$", re.MULTILINE)
MOST = 64


class Build(NamedTuple):
    """A build's tag, its accelerator and CUDA version; None if the name does not state them."""

    tag: str | None
    accelerator: str | None
    cuda: str | None


def named(version: str) -> Build:
    """Return the build that a version such as 2.11.0+cu130 names."""
    match = TAG.search(version)
    return tagged(match["tag"] or match["own"] if match else None)


def tagged(tag: str | None) -> Build:
    """Return the build that a tag such as cu130 names."""
    kind = re.match("cu|rocm|cpu|xpu|nv", tag or "")
    if not kind:
        return Build(None, None, None)
    cuda = CUDA.match(tag or "")
    spelled = f"cu{cuda['major']}{cuda['minor']}{(tag or '')[cuda.end() :]}" if cuda else tag
    return Build(spelled, KINDS[kind[0]], f"{cuda['major']}.{cuda['minor']}" if cuda else None)


def read(origin: str, text: str, into: Gathered) -> None:
    """Read the GPUs and, from the output of MMCV and detectron2, also PyTorch's build."""
    for layout in LAYOUTS:
        for place, match in enumerate(islice(layout.finditer(text), MOST)):
            _device(origin, match.groupdict(), place, into)
    built = BUILT.search(text)
    if built:
        _built(origin, built["rows"], into)
    block = LIGHTNING.search(text)
    if block:
        _lightning(origin, block["rows"], into)
    if "sys.platform" in text:
        for match in islice(TABLE.finditer(text), MOST):
            _table(origin, match["name"], match["value"], into)


def _lightning(origin: str, rows: str, into: Gathered) -> None:
    """Read the block "CUDA" of Lightning's report: GPUs by name, and the CUDA version of PyTorch's build."""
    names = []
    for match in ROW.finditer(rows):
        name, value = match["name"].strip(), (match["value"] or "").strip()
        if name == "available" and value in {"True", "False"}:
            into.tell("pytorch", origin, available=value == "True")
        elif name == "version" and re.fullmatch(r"\d{1,2}\.\d{1,2}", value):
            into.tell("pytorch", origin, cuda=value, accelerator="cuda")
        elif match["value"] is None and name != "GPU":
            names.append(name)
    for number, name in enumerate(names):
        gathered.gpu(origin, name, into, str(number))


def _device(origin: str, said: dict[str, str | None], place: int, into: Gathered) -> None:
    cc = said.get("cc") or (f"{said['major']}.{said['minor']}" if said.get("major") else None)
    pci = said.get("pci")
    keys = (said.get("indices") or said.get("index") or _at(pci, into) or str(place)).split(",")
    for key in keys:
        gathered.gpu(origin, said["name"] or "", into, key)
        if key in into.copies.get("gpu", {}):
            into.tell("gpu", origin, key, cc=cc, pci=pci.lower() if pci else None)


def _at(pci: str | None, into: Gathered) -> str | None:
    """Return the key of the GPU at this address, if it is known."""
    held = into.copies.get("gpu", {})
    return next((key for key, told in held.items() if pci and told.facts.get("pci") == pci.lower()), None)


def _built(origin: str, rows: str, into: Gathered) -> None:
    runtime, flags = RUNTIME.search(rows), FLAGS.search(rows)
    if runtime and runtime["kind"] == "CUDA":
        into.tell("pytorch", origin, cuda=runtime["version"], accelerator="cuda")
    elif runtime:
        into.tell("pytorch", origin, hip=runtime["version"], accelerator="rocm")
    archs = tuple(dict.fromkeys(match["arch"] for match in ARCH.finditer(flags["flags"]))) if flags else ()
    if archs:
        into.tell("pytorch", origin, archs=archs)


def _table(origin: str, name: str, value: str, into: Gathered) -> None:
    """Read a row of detectron2's table, whose columns are separated by spaces."""
    version = re.match(r"(?:gcc[^\d\n(]{0,40}\([^)\n]{0,200}\) )?v?(\d+\.\d[\w.+]*)", value)
    build = named(version[1] if version and name == "PyTorch" else "")
    component = {"PyTorch": "pytorch", "Python": "python", "GCC": "gcc", "Driver version": "nvidia-driver"}.get(name)
    if component and version:
        into.tell(component, origin, version=version[1], build=build.tag)
    if name == "GPU available" and value.split(maxsplit=1)[0] in {"Yes", "True", "No", "False"}:
        into.tell("pytorch", origin, available=value.split(maxsplit=1)[0] in {"Yes", "True"})


IMAGE = re.compile(
    r"(?<![\w./-])(?:docker\.io/)?(?P<image>pytorch/pytorch|tensorflow/tensorflow|vllm/vllm-openai|lmsysorg/sglang|ollama/ollama"
    r"|rocm/(?:pytorch|vllm|tensorflow)|(?:ghcr\.io/)?huggingface/text-generation-inference"
    r"|intel/(?:intel-extension-for-pytorch|vllm)):v?(?P<tag>[\w][\w.+-]{1,80})"
)
# What NVIDIA has monthly images of: a month beside one of them is that of an image, never a release.
OF_NGC = {name: name for name in ("pytorch", "tensorflow", "tensorrt", "jax")} | {"triton": "tritonserver"}
# What an image of NVIDIA's prints when it starts.
BANNER = re.compile(
    rf"^== (?P<kind>PyTorch|TensorFlow|TensorRT) ==\s[\s=]{{0,80}}NVIDIA Release (?P<month>{toolkits.MONTH})(?![\w.])",
    re.MULTILINE,
)
# Words around an image that is advised, worked, or was used at another time; its line is no statement about now.
ADVISED = re.compile(
    r"\b(?:try|tried|should|could|would|might|recommend\w*|suggest\w*|instead of|e\.g\.|such as|for example|previously"
    r"|used to|not|never|without|unlike|newer|older|latest"
    r"|(?:works?|worked|fine|ok|solved|fixed)(?: \w+){0,2} (?:with|on|in|by)"
    r"|(?:switch|mov|chang|updat|upgrad)(?:e|ing|es)? to)\b[^.;\n]{0,80}$",
    re.IGNORECASE,
)
WORKED = re.compile(
    r"^\W{0,3}(?:(?:instead|requires?|needs?)\b"
    r"|(?:(?:it|image|container|is|are) )*(?:works?\b|worked|runs? fine|recommended|fine\b|ok\b))",
    re.IGNORECASE,
)
TORCH = re.compile(r"^(?P<torch>\d+\.\d+\.\d+)-cuda(?P<cuda>\d+\.\d+)(?:-cudnn(?P<cudnn>\d+))?")
ROCM = re.compile(r"rocm(?P<rocm>\d\.\d(?:\.\d)?)(?:[\w.]{0,80}?pytorch_(?:release[_-])?(?P<torch>\d\.\d(?:\.\d)?))?")
OF_IMAGE = {
    "tensorflow": "tensorflow",
    "vllm-openai": "vllm",
    "sglang": "sglang",
    "text-generation-inference": "tgi",
}
PLAIN = re.compile(r"^(?P<version>\d+\.\d+\.\d+(?:\.post\d+)?)(?=$|-)")


def images(origin: str, text: str, into: Gathered) -> None:
    """Read the tags of images that are in use."""
    for match in islice(IMAGE.finditer(text), MOST):
        _image(origin, match["image"], match["tag"], into)
    held = {match[0]: match for match in islice(toolkits.NGC.finditer(text), MOST) if _used(text, match)}
    banner = BANNER.search(text)
    if banner and monthly(origin, banner["kind"].lower(), banner["month"], into):
        return
    if len(held) == 1:  # of several, nothing says which is in use
        one = next(iter(held.values()))
        _monthly(origin, one["name"].rpartition("/")[2], one["month"], one["build"], into)


def monthly(origin: str, component: str, version: str, into: Gathered) -> bool:
    """Store the image of a month that someone names beside a framework, and return whether the version is a month."""
    if component not in OF_NGC or not re.fullmatch(toolkits.MONTH, version):
        return False
    _monthly(origin, OF_NGC[component], version, None, into)
    return True


def _monthly(origin: str, kind: str, month: str, build: str | None, into: Gathered) -> None:
    """Store which of NVIDIA's monthly images is in use; the matrix knows what it was made for."""
    into.machine(container="docker")
    into.tell("image", origin, version=month, build=build, name=f"nvcr.io/nvidia/{kind}")


def _used(text: str, image: re.Match[str]) -> bool:
    """Return whether an image is used here, rather than advised, compared with, or said to work."""
    before = text[max(0, image.start() - 160) : image.start()].rpartition("\n")[2]
    return not ADVISED.search(before) and not WORKED.match(text[image.end() : image.end() + 40])


def _image(origin: str, image: str, tag: str, into: Gathered) -> None:
    """Read what an image's tag says about its contents."""
    into.machine(container="docker")
    if image == "pytorch/pytorch" and (match := TORCH.match(tag)):
        if not into.version("pytorch"):
            build = f"cu{match['cuda'].replace('.', '')}"
            into.tell("pytorch", origin, version=match["torch"], build=build, accelerator="cuda", cuda=match["cuda"])
        return
    if image.startswith("rocm/") and (match := ROCM.search(tag)):
        into.tell("rocm", origin, version=match["rocm"])
        if match["torch"] and not into.version("pytorch"):
            into.tell("pytorch", origin, version=match["torch"], accelerator="rocm", hip=match["rocm"])
        return
    if image.startswith("intel/"):
        into.tell("pytorch", origin, accelerator="xpu" if "xpu" in tag else None)
        return
    component = OF_IMAGE.get(image.rpartition("/")[2])
    plain = PLAIN.match(tag) if component != "tgi" or PLAIN.fullmatch(tag) else None
    if component and plain and not into.version(component):
        into.tell(component, origin, version=plain["version"])
