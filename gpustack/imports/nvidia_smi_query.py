"""The output of ``nvidia-smi -q``, also as XML: first the machine, then each GPU, fields indented below headings."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpustack.imports import gathered
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpustack.imports.gathered import Gathered
    from gpustack.model.facts import JsonValue

    Fields = tuple[tuple[str, str, Callable[[str], JsonValue]], ...]

LOG = re.compile(r"^[ \t]*=+NVSMI LOG=+", re.MULTILINE)
ONE = re.compile(r"^[ \t]*GPU (?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)[ \t]*$", re.MULTILINE)
FIELD = re.compile(
    r"^(?P<indent>[ \t]*)(?P<name>[A-Za-z][^:\n]{0,60}?)[ \t]*(?::[ \t]*(?P<value>[^\n]*))?$", re.MULTILINE
)
ROOT = "<nvidia_smi_log>"
ELEMENT = re.compile(
    r'^(?P<indent>[ \t]*)<(?P<tag>/?[a-z_]{2,60})(?: id="(?P<pci>[^"\n]{1,40})")?>'
    r"(?:(?P<value>[^<\n]*)</\w{2,60}>)?[ \t]*$",
    re.MULTILINE,
)
OF_PARENT = re.compile(r"^clocks_(?:event|throttle)_reason_(?:gpu_)?|_(?:mig|ecc|link_gen|link_width|clock)$")
MOST_FIELDS, MOST_GPUS = 40_000, 64


def read(origin: str, text: str, into: Gathered) -> None:
    """Read the log, if the text contains one."""
    if ROOT in text:
        text = ELEMENT.sub(_field, text.replace(ROOT, ""))
    marks = list(islice(ONE.finditer(text), MOST_GPUS))
    if not marks and not LOG.search(text):
        return
    head = _fields(text[: marks[0].start() if marks else len(text)])
    driver, cuda = head.get("driver version"), CudaVersion.parse(head.get("cuda version"))
    if driver and re.match(r"\d{3}\.", driver):
        packed = cuda.major * 1000 + cuda.minor * 10 if cuda else None
        into.tell("nvidia-driver", origin, version=driver)
        into.tell("nvml", origin, version=driver, code=0, cuda_version=packed)
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for index, (mark, end) in enumerate(zip(marks, ends, strict=False)):
        _gpu(origin, mark["pci"], index, _fields(text[mark.end() : end]), into)


def _field(element: re.Match[str]) -> str:
    """Return an element of ``nvidia-smi -q -x`` as the line of ``nvidia-smi -q`` that says the same."""
    if element["pci"]:
        return f"GPU {element['pci']}"
    tag = OF_PARENT.sub("", element["tag"])
    name = TAGS.get(tag, tag.replace("_", " "))
    value = f" : {element['value']}" if (element["value"] or "").strip() else ""
    return "" if tag.startswith("/") else f"{element['indent']}{name}{value}"


def _fields(text: str) -> dict[str, str]:
    """Return every field by its path in lower case ("mig mode/current"); one without a value heads those below it."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for match in islice(FIELD.finditer(text), MOST_FIELDS):
        indent, name = len(match["indent"].expandtabs()), " ".join(match["name"].lower().split())
        above = [one for one in above if one[0] < indent]
        if (match["value"] or "").strip():
            found.setdefault("/".join([*(one[1] for one in above), name]), match["value"].strip())
        else:
            above.append((indent, name))
    return found


def queried(origin: str, said: Mapping[str, str], index: int, into: Gathered) -> None:
    """Read one row of ``--query-gpu``, whose fields are those of ``nvidia-smi -q`` under other names."""
    fields = {_path(name): value.strip() for name, value in said.items()}
    _gpu(origin, said.get("pci.bus_id") or said.get("gpu_bus_id") or "", index, fields, into)


def _path(name: str) -> str:
    start = next(one for one in BEGINNINGS if name.startswith(one))
    return QUERIED.get(name) or f"{BEGINNINGS[start]}{name.removeprefix(start).replace('_', ' ')}"


def _gpu(origin: str, pci: str, index: int, said: Mapping[str, str], into: Gathered) -> None:
    facts = {part: _nested(said, fields) for part, fields in PARTS.items()}
    facts["ecc"] = {**facts["ecc"], **_ecc(said)}
    facts["throttle"] = _throttle(said)
    state = re.match(r"P(\d{1,2})$", said.get("performance state", ""))
    into.tell(
        "gpu",
        origin,
        str(index),
        index=index,
        name=_told(said.get("product name", "")),
        pci=gathered.pci(pci) or None,
        uuid=gathered.uuid(said.get("gpu uuid")),
        architecture=_told(said.get("product architecture", "")),
        vbios=_told(said.get("vbios version", "")),
        gsp_firmware=_told(said.get("gsp firmware version", "")),
        serial=_told(said.get("serial number", "")),
        minor=_count(said.get("minor number", "")),
        persistence=_truth(said.get("persistence mode", "")),
        performance_state=int(state[1]) if state else None,
        recovery_action_name=RECOVERY.get(said.get("gpu recovery action", "").lower()),
        also={part: held for part, held in facts.items() if held},
    )


def _told(said: str) -> str | None:
    return None if said in {"", "N/A", "Unknown", "[N/A]", "None"} else said


def _spelt(said: str) -> str | None:
    return said.lower().replace(" ", "-") if _told(said) else None


def _answer(said: str) -> int | None:
    """Return NVML's number for a result, or None if nvidia-smi's words for it are unknown here."""
    return ANSWERS.get(said.lower())


def _throttle(said: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return NVML's mask of why clocks are lowered, and the name of each reason."""
    active = [
        place
        for place, (smi, _) in enumerate(REASONS)
        if smi and any(said.get(f"clocks {word} reasons/{smi}") == "Active" for word in ("event", "throttle"))
    ]
    told = any(part.startswith(("clocks event reasons/", "clocks throttle reasons/")) for part in said)
    if not told:
        return {}
    return {"mask": sum(1 << place for place in active), "reasons": tuple(REASONS[place][1] for place in active)}


def _ecc(said: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return the uncorrectable error counts, DRAM and SRAM together, as NVML counts them."""
    found: dict[str, JsonValue] = {}
    for kind in ("volatile", "aggregate"):
        parts = [said.get(f"ecc errors/{kind}/{name}", "") for name in UNCORRECTED]
        counts = [int(part) for part in parts if re.fullmatch(r"\d{1,15}", part)]
        if counts:
            found[f"uncorrected_{kind}"] = sum(counts)
    return found


def _nested(said: Mapping[str, str], fields: Fields) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, path, make in fields:
        value = make(said[path]) if path in said else None
        if value is not None:
            found.setdefault(name, value)
    return found


def _count(said: str) -> JsonValue:
    match = re.match(r"(\d{1,15})", said)
    return int(match[1]) if match else None


def _truth(said: str) -> JsonValue:
    return {"enabled": True, "yes": True, "active": True, "disabled": False, "no": False, "not active": False}.get(
        said.lower()
    )


def _watts(said: str) -> JsonValue:
    match = re.match(r"(\d{1,6}(?:\.\d{1,3})?)(?: W|$)", said)
    return float(match[1]) if match else None


# NVML's reasons by the bit of each: the name in nvidia-smi -q, and the one that probes give.
REASONS = (
    *(
        ("idle", "gpu_idle"),
        ("applications clocks setting", "applications_clocks_setting"),
        ("sw power cap", "sw_power_cap"),
    ),
    *(("hw slowdown", "hw_slowdown"), ("sync boost", "sync_boost"), ("sw thermal slowdown", "sw_thermal_slowdown")),
    *(("hw thermal slowdown", "hw_thermal_slowdown"), ("hw power brake slowdown", "hw_power_brake_slowdown")),
    ("display clock setting", "display_clock_setting"),
)
# What nvmlErrorString says of the answers that joining a fabric can give, in lower case. Source: nvidia-ml-py 13.580,
# _errcode_to_string, and nvml.h of CUDA 13.0.
ANSWERS = dict(
    (
        *(("success", 0), ("not supported", 3), ("insufficient permissions", 4), ("not found", 6), ("timeout", 10)),
        *(("gpu is lost", 15), ("insufficient memory", 20), ("insufficient resources", 23), ("unknown error", 999)),
    )
)
RECOVERY = {
    "none": "none",
    "reset": "gpu-reset",
    "reboot": "node-reboot",
    "drain p2p": "drain-p2p",
    "drain and reset": "drain-and-reset",
}
# Elements whose names are not the field's. Source: printed by nvidia-smi 384.111 to 595, nvsmi_device_v9 to v12.dtd.
TAGS = dict(
    (
        *(("uuid", "gpu uuid"), ("serial", "serial number"), ("pci_gpu_link_info", "gpu link info")),
        *(("pcie_gen", "pcie generation"), ("link_widths", "link width")),
        *(("replay_counter", "replays since reset"), ("gpu_temp", "gpu current temp")),
        *(("gpu_temp_tlimit", "gpu t.limit temp"), ("gpu_temp_slow_threshold", "gpu slowdown temp")),
        *(("gpu_temp_max_threshold", "gpu shutdown temp"), ("memory_temp", "memory current temp")),
        *(("mem", "memory"), ("instant_power_draw", "instantaneous power draw")),
    )
)
# Where nvidia-smi -q has the fields of --query-gpu: whole names, then beginnings. Source: --help-query-gpu of 580.
QUERIED = dict(
    (
        *(("gpu_uuid", "gpu uuid"), ("uuid", "gpu uuid"), ("pstate", "performance state")),
        ("ecc.errors.uncorrected.volatile.total", "ecc errors/volatile/double bit/total"),
        ("ecc.errors.uncorrected.aggregate.total", "ecc errors/aggregate/double bit/total"),
        *(("power.draw", "power readings/power draw"), ("power.limit", "power readings/power limit")),
        ("enforced.power.limit", "power readings/enforced power limit"),
        ("power.default_limit", "power readings/default power limit"),
        *(("clocks.mem", "clocks/memory"), ("clocks.max.mem", "max clocks/memory")),
        *(
            ("temperature.gpu", "temperature/gpu current temp"),
            ("temperature.memory", "temperature/memory current temp"),
        ),
    )
)
BEGINNINGS = dict(
    (
        ("pcie.link.gen.", "pci/gpu link info/pcie generation/"),
        *(("pcie.link.width.", "pci/gpu link info/link width/"), ("memory.", "fb memory usage/")),
        *(("mig.mode.", "mig mode/"), ("ecc.mode.", "ecc mode/"), ("fabric.", "fabric/")),
        *(("clocks.max.", "max clocks/"), ("clocks.current.", "clocks/"), ("clocks.", "clocks/")),
        *(("clocks_throttle_reasons.", "clocks throttle reasons/"), ("clocks_event_reasons.", "clocks event reasons/")),
        ("", ""),
    )
)
UNCORRECTED = (
    "dram uncorrectable",
    "sram uncorrectable",
    "sram uncorrectable parity",
    "sram uncorrectable sec-ded",
    "double bit/total",
)
# The parts of a GPU's facts, each (name, path in nvidia-smi -q, reader); the first path that is there counts.
PARTS: Mapping[str, Fields] = {
    "mig": (("enabled", "mig mode/current", _truth), ("pending", "mig mode/pending", _truth)),
    "memory": (
        ("total_mib", "fb memory usage/total", _count),
        ("used_mib", "fb memory usage/used", _count),
        ("free_mib", "fb memory usage/free", _count),
        ("reserved_mib", "fb memory usage/reserved", _count),
    ),
    "pcie": (
        ("generation", "pci/gpu link info/pcie generation/current", _count),
        ("max_generation", "pci/gpu link info/pcie generation/max", _count),
        ("device_max_generation", "pci/gpu link info/pcie generation/device max", _count),
        ("width", "pci/gpu link info/link width/current", _count),
        ("max_width", "pci/gpu link info/link width/max", _count),
        ("replays", "pci/replays since reset", _count),
    ),
    "power": (
        ("watts", "gpu power readings/instantaneous power draw", _watts),
        ("watts", "gpu power readings/power draw", _watts),
        ("watts", "power readings/power draw", _watts),
        ("limit_watts", "gpu power readings/current power limit", _watts),
        ("limit_watts", "power readings/enforced power limit", _watts),
        ("limit_watts", "power readings/power limit", _watts),
        ("default_limit_watts", "gpu power readings/default power limit", _watts),
        ("default_limit_watts", "power readings/default power limit", _watts),
        ("max_limit_watts", "gpu power readings/max power limit", _watts),
        ("max_limit_watts", "power readings/max power limit", _watts),
    ),
    "clocks": (
        ("sm_mhz", "clocks/sm", _count),
        ("memory_mhz", "clocks/memory", _count),
        ("max_sm_mhz", "max clocks/sm", _count),
        ("max_memory_mhz", "max clocks/memory", _count),
    ),
    "temperature": (
        ("gpu_c", "temperature/gpu current temp", _count),
        ("slowdown_c", "temperature/gpu slowdown temp", _count),
        ("shutdown_c", "temperature/gpu shutdown temp", _count),
        ("memory_c", "temperature/memory current temp", _count),
        ("margin_c", "temperature/gpu t.limit temp", _count),
    ),
    "ecc": (("enabled", "ecc mode/current", _truth), ("pending", "ecc mode/pending", _truth)),
    "remap": (
        ("correctable", "remapped rows/correctable error", _count),
        ("uncorrectable", "remapped rows/uncorrectable error", _count),
        ("pending", "remapped rows/pending", _truth),
        ("failed", "remapped rows/remapping failure occurred", _truth),
    ),
    "retired": (
        ("single_bit", "retired pages/single bit ecc", _count),
        ("double_bit", "retired pages/double bit ecc", _count),
        ("pending", "retired pages/pending page blacklist", _truth),
    ),
    "fabric": (("state", "fabric/state", _spelt), ("status", "fabric/status", _answer)),
}
