"""The output of AMD's and Intel's tools: rocminfo, rocm-smi, amd-smi, hipconfig, sycl-ls, clinfo, xpu-smi."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpustack.imports import gathered
from gpustack.matrix.subjects.gpus import maker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.imports.gathered import Gathered
    from gpustack.model.facts import JsonValue

GFX = re.compile(r"\b(?P<gfx>gfx\d[0-9a-f]{2,4})\b(?!-generic)")
APU = re.compile(
    r"^[ \t]*(?:Marketing )?Name: +AMD [^\n]{0,60}? w/ (?P<name>Radeon (?:\w+ )?\d{3,4}\w?)\b", re.MULTILINE
)
AGENT = re.compile(r"^Agent +\d+[ \t*]*\n", re.MULTILINE)
DEVICE_TYPE = re.compile(r"^[ \t]*Device Type:[ \t]*(?P<kind>\w+)", re.MULTILINE)
# Where a tool's section about one GPU begins: amd-smi as text and JSON, rocm-smi as JSON.
BLOCK = re.compile(
    r'^[ \t]*GPU: (?P<index>\d{1,2})[ \t]*$|"gpu": ?(?P<gpu>\d{1,2}),|"card(?P<card>\d{1,2})": ?\{', re.MULTILINE
)
NAME = re.compile(
    r"\b(?:Marketing Name|Card [Ss]eries|Card [Mm]odel|Product Name|Device Name|MARKET_NAME"
    r"|market_name)\"?[ \t]*:[ \t]*\"?"
    r"(?P<name>(?!0x)[^\n\",]{2,100}[A-Za-z0-9\])])"
)
PLACE = re.compile(r"\b(?:BDF|bdf|PCI Bus)\"?: ?\"?(?P<pci>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d)")
LINE = re.compile(
    r"^GPU\[(?P<index>\d{1,2})\][ \t]*:[ \t]*(?P<said>(?:Card [Ss]eries|Product Name|GFX Version"
    r"|Device Name)[: \t][^\n]+)$",
    re.MULTILINE,
)
CSV = re.compile(r"^device,Card [Ss]eries[^\n]*\n(?P<rows>(?:card\d{1,2},[^\n]*\n?){1,64})", re.MULTILINE)
TABLE = re.compile(
    r"^\| (?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d) +(?P<name>AMD [^|\n]{3,60}?) +\|", re.MULTILINE
)
# rocm-smi --showtemp, and the row of a GPU in rocm-smi's table, whose head says where the temperature is from.
HEAT = re.compile(
    r"^GPU\[(?P<index>\d{1,2})\][ \t]*:[ \t]*Temperature \(Sensor (?P<place>edge|junction|mem)\w*\) \(C\): "
    r"(?P<celsius>\d{1,3})|^(?P<row>\d{1,2})[ \t]+(?:\d{1,2}[ \t]+0x[0-9a-f]{1,6},[ \t]*\d{1,6}[ \t]+)?"
    r"(?P<shown>\d{1,3})\.\d ?\W?[cC][ \t]+(?:\d{1,4}\.\d{1,3} ?W|N/A)\b",
    re.MULTILINE,
)
ROCM = re.compile(
    r"(?:/opt/rocm-|ROCm [Vv]ersion[: ][: ]{0,40}|^rocm[- ](?:core|dev|libs)\S{0,80} {1,80})"
    r"(?P<version>\d+\.\d+(?:\.\d+)?)",
    re.MULTILINE,
)
DRIVER = re.compile(
    r"(?:^Driver version: |\bamdgpu version: )(?P<version>\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)\b", re.MULTILINE
)
HIP = re.compile(r"^HIP version *: (?P<version>\d{1,2}\.\d{1,2}\.\d{1,6}[\w.-]*)", re.MULTILINE)
MODULE = re.compile(r"ROCk module (?P<version>version [\d.]+ )?is (?P<not>NOT )?loaded", re.IGNORECASE)
SYCL = re.compile(
    r"^\[(?P<backend>opencl|ext_oneapi_level_zero|level_zero|ext_intel_level_zero|cuda|ext_oneapi_cuda|hip|ext_oneapi_hip):(?P<kind>gpu|cpu"
    r"|acc)(?::\d{1,2})?\](?:\[\w+:\d{1,2}\])? *(?P<name>[^\n]{0,200})$",
    re.MULTILINE,
)
OPENCL = re.compile(r"^[ \t]*(?:Device Name {2,}|[`+|]-- Device #\d{1,2}: )(?P<name>[^\n]{3,100})$", re.MULTILINE)
XPU = re.compile(r"^\| *(?P<index>\d{1,2}) +\| Device Name: (?P<name>[^|\n]{3,80}?) +\|", re.MULTILINE)
PACKAGE = re.compile(
    r"^(?P<name>libze1|libze-intel-gpu1|intel-level-zero-gpu|level-zero|intel-opencl-icd"
    r"|intel-compute-runtime)[ \t]+(?P<version>\d[\w.+:~-]*)",
    re.MULTILINE,
)
CPU = re.compile(r"\b(?:CPU|Processor|Ryzen|EPYC|Xeon|Core\(TM\))(?!.{0,200}(?:Graphics|GPU))")
MOST = 64
MOST_TARGETS = 3  # more are what a build supports, not the GPUs in this machine
LONGEST = 6000


def read(origin: str, text: str, into: Gathered) -> None:
    """Read the output of AMD's and Intel's tools in this text."""
    agents = _rocminfo(origin, text, into)
    for index, said in _blocks(text):
        _amd(origin, index, said, into)
    targets = list(
        dict.fromkeys(match["gfx"] for match in islice(GFX.finditer(text), MOST) if match["gfx"] != "gfx000")
    )
    if len(targets) <= MOST_TARGETS and not agents and not into.fact("amd-gpu", "gfx"):
        for number, gfx in enumerate(targets):
            into.tell("amd-gpu", origin, str(number), gfx=gfx)
    _names(origin, text, into)
    _heat(origin, text, into)
    _versions(origin, text, into)
    _intel(origin, text, into)


def _rocminfo(origin: str, text: str, into: Gathered) -> int:
    """Read rocminfo's GPU agents, and return how many there are."""
    starts = [match.end() for match in islice(AGENT.finditer(text), MOST)]
    found = 0
    for start, end in zip(starts, [*starts[1:], starts[-1] + LONGEST] if starts else [], strict=True):
        said = text[start : min(end, start + LONGEST)]
        kind, gfx = DEVICE_TYPE.search(said), GFX.search(said[:400])
        if gfx or (kind and kind["kind"] == "GPU"):
            _amd(origin, str(found), said, into)
            found += 1
    inside = APU.search(text) if starts and not found else None
    if inside:  # the list was cut before its GPU, but the processor's own name reveals it
        _amd(origin, "0", f"Marketing Name: {inside['name']}", into)
        found = 1
    return found


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the index of each GPU in the output of amd-smi or rocm-smi, and the text about it."""
    marks = list(islice(BLOCK.finditer(text), MOST))
    for mark, after in zip(marks, [*marks[1:], None], strict=False):
        end = min(after.start() if after else len(text), mark.end() + LONGEST)
        yield next(index for index in mark.groups() if index is not None), text[mark.end() : end]
    for match in islice(LINE.finditer(text), MOST):
        yield match["index"], match["said"]
    for block in islice(CSV.finditer(text), 1):
        for row in block["rows"].splitlines():
            card, series = row.split(",")[:2]
            yield card.removeprefix("card"), f"Card Series: {series}"


def _amd(origin: str, index: str, said: str, into: Gathered) -> None:
    """Read one AMD GPU; a name of another vendor's GPU does not count."""
    name, gfx, place = NAME.search(said), GFX.search(said), PLACE.search(said)
    if name and maker(name["name"]) == "nvidia" and not gfx:
        return
    if name or gfx or place:
        pci = gathered.pci(place["pci"]) if place else None
        into.tell(
            "amd-gpu",
            origin,
            index,
            name=name["name"].strip() if name else None,
            gfx=gfx["gfx"] if gfx else None,
            pci=pci,
        )


def _names(origin: str, text: str, into: Gathered) -> None:
    """Read the GPUs that a text names without numbers."""
    for number, match in enumerate(islice(TABLE.finditer(text), MOST)):
        into.tell("amd-gpu", origin, str(number), name=match["name"].strip(), pci=match["pci"])
    if not into.fact("amd-gpu", "name"):
        names = (match["name"].strip() for match in islice(NAME.finditer(text), MOST))
        ours = (name for name in names if maker(name) == "amd" and not CPU.search(name))
        for number, name in enumerate(ours):
            into.tell("amd-gpu", origin, str(number), name=name)


def _heat(origin: str, text: str, into: Gathered) -> None:
    """Read the temperatures that rocm-smi prints."""
    found: dict[str, dict[str, JsonValue]] = {}
    shown = "junction" if "(Junction)" in text else "edge"
    for match in islice(HEAT.finditer(text), MOST * 3):
        place = {"mem": "memory", None: shown}.get(match["place"], match["place"])
        found.setdefault(match["index"] or match["row"], {})[f"{place}_c"] = float(match["celsius"] or match["shown"])
    for index, said in found.items():
        into.tell("amd-gpu", origin, index, also={"temperature": said})


def _versions(origin: str, text: str, into: Gathered) -> None:
    rocm, module, hip, driver = ROCM.search(text), MODULE.search(text), HIP.search(text), DRIVER.search(text)
    if rocm:
        into.tell("rocm", origin, version=rocm["version"])
    if hip:
        into.tell("hip", origin, version=hip["version"])
    if driver:
        into.tell("amdgpu.ko", origin, version=driver["version"])
    if module:
        into.tell("amdgpu.ko", origin, loaded=not module["not"])


def _intel(origin: str, text: str, into: Gathered) -> None:
    seen: dict[str, int] = {}
    for match in islice(SYCL.finditer(text), MOST):
        into.tell("sycl", origin, f"{match['backend']}:{match['kind']}", device=match["name"].strip())
        if match["kind"] == "gpu" and "Intel" in match["name"]:
            _sycl(origin, match["name"].strip(), str(seen.get(match["backend"], 0)), into)
            seen[match["backend"]] = seen.get(match["backend"], 0) + 1
    for match in islice(XPU.finditer(text), MOST):
        into.tell("intel-gpu", origin, match["index"], name=match["name"])
    for match in islice(PACKAGE.finditer(text), MOST):
        into.tell("level-zero", origin, match["name"], version=match["version"])
    for number, match in enumerate(islice(OPENCL.finditer(text), MOST)):
        name = match["name"].strip()
        made = f"{maker(name)}-gpu"
        if made in {"intel-gpu", "amd-gpu"} and not CPU.search(name) and not into.knows(made):
            into.tell(made, origin, str(number), name=name)


def _sycl(origin: str, said: str, key: str, into: Gathered) -> None:
    """Read an Intel GPU as sycl-ls lists it: the platform, its name and, in brackets, its driver."""
    driver = re.search(r"\[(\d[\d.]+)\]$", said)
    name = re.sub(
        r" {1,4}(?:OpenCL [\d.]{1,9} ?)?(?:NEO {0,4})?(?:\d{1,4}\.\d[\d.]{0,20})? {0,4}(?:\[[^\[\]]{0,200}\])?$",
        "",
        said.partition(", ")[2] or said,
    )
    into.tell("intel-gpu", origin, key, name=name, driver_version=driver[1] if driver else None)
