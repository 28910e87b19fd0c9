"""The output of ``nvidia-smi`` in its layouts since 2018: the table, ``-L``, ``--query-gpu``, ``--version``, ``-q``.

And links between GPUs and to the network: ``nvidia-smi nvlink``, ``ibstat``, ``ibstatus`` and ``ibv_devinfo``.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpustack.imports import gathered, nvidia_smi_query
from gpustack.model.facts import JsonValue, Status
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.imports.gathered import Gathered

BANNER = re.compile(
    r"NVIDIA-SMI(?: version)?[ :]+(?P<smi>\d{3}[\d.]*)(?:[ |]+(?:Driver|KMD) Version: ?(?P<driver>\d{3}[\d.]*))?"
    r"(?:[ |]+CUDA (?:UMD )?(?:Driver )?Version: ?(?P<cuda>\d+\.\d+|N/A|ERR!))?"
)
# The lines of "nvidia-smi --version".
VERSIONS = re.compile(
    r"^NVIDIA-SMI version +: (?P<smi>\d{3}[\d.]*)\n(?:[ \t]*NVML version[^\n]*\n)?[ \t]*DRIVER version +: "
    r"(?P<driver>\d{3}[\d.]*)"
    r"(?:\n[ \t]*CUDA Version +: (?P<cuda>\d+\.\d+))?",
    re.MULTILINE,
)
ROW = re.compile(
    r"^[ \t]*\| {1,4}(?P<index>\d{1,2}) {1,3}(?P<name>[A-Z][^|\n]{2,46}?) {1,40}(?:On|Off|WDDM|TCC|MCDM|N/A|ERR!)?[ ]*"
    r"\|[ ]*(?P<pci>[0-9A-Fa-f:.]{7,16})(?P<rest>[^\n]*)\n?(?P<below>(?:[ \t]*\|[^\n]*\n?){0,2})",
    re.MULTILINE,
)
USE = re.compile(r"(?P<used>\d{1,7})MiB */ *(?P<total>\d{1,7})MiB")
HEAT = re.compile(
    r"\| *(?:N/A|ERR!|\d{1,3}%) +(?P<celsius>\d{1,3})C +P(?P<state>\d{1,2})\b(?:[ |]+(?P<watts>\d{1,4})W */ *"
    r"(?P<limit>\d{1,4})W)?"
)
LISTED = re.compile(
    r"^[ \t]*GPU (?P<index>\d{1,2}): (?P<name>[^\n(]{2,80}(?:\([^U)\n][^)\n]*\))?)(?: \(UUID: "
    r"(?P<uuid>[^)\n]*)\))?[ \t]*$"
    r"(?P<below>(?:\n[ \t]*MIG [^\n]*){0,16})",
    re.MULTILINE,
)
INSTANCE = re.compile(
    r"^[ \t]*MIG (?P<profile>\S+)[ \t]+Device[ \t]+(?P<index>\d+):(?:[ \t]*\(UUID: (?P<uuid>[^)\n]*)\))?", re.MULTILINE
)
MIG_ROW = re.compile(r"^[ \t]*\| +(?P<index>\d{1,2}) +(?P<gi>\d{1,2}) +(?P<ci>\d{1,2}) +\d{1,2} +\|", re.MULTILINE)
ENABLED = re.compile(r"\|[^|\n]*\|[^|\n]*\|[^|\n]*\b(?P<mig>Enabled|Disabled)\*? +\|")
DIVIDED = re.compile(r"\| +On +\|\s*$")  # in place of the number of ECC errors: so with MIG, even where no line says it
ON_WINDOWS = re.compile(r"TCC/WDDM|\bDriver-Model\b|\bWDDM\b")  # the driver models of Windows
CSV = re.compile(
    r"^(?P<head>(?:[a-z_.]{3,40}(?: \[[\w%]+\])?, )*(?:name|gpu_name|driver_version|uuid|pci\.bus_id|compute_cap|index)"
    r"(?: \[\w+\])?(?:, [a-z_.]{3,60}(?: \[[\w%]+\])?)*)\n(?P<rows>(?:[^\n,]{1,80}(?:, [^\n,]{1,80})*\n?){1,64})",
    re.MULTILINE,
)
# The command names what each row below it has, where no header does.
ASKED = re.compile(
    r"--query-gpu[= ](?P<head>[a-z_.]{3,60}(?:,[a-z_.]{3,60})*)[^\n]{0,40}--format[= ]csv,"
    r"[a-z,]{0,20}noheader[^\n]{0,60}\n(?P<rows>(?:[^\n,]{1,80}(?:, [^\n,]{1,80})*\n?){1,64})"
)
# Below the line of a GPU: "Link 0: 26.562 GB/s", "Link 1: <inactive>", and with -e "Link 0: Replay Errors: 0".
OF_GPU = re.compile(
    r"^[ \t]*GPU (?P<index>\d{1,2}): [^\n]{2,90}?(?: \(UUID: (?P<uuid>[^)\n]*)\))?[ \t]*\n"
    r"(?P<links>(?:[ \t]*Link \d{1,2}: [^\n]*(?:\n|\Z)){1,200})",
    re.MULTILINE,
)
LINK_LINE = re.compile(
    r"Link (?P<link>\d{1,2}): (?:(?P<speed>\d{1,4}(?:\.\d+)?) GB/s|(?P<down><inactive>|inActive)"
    r"|(?P<what>Replay|Recovery|CRC) Errors: (?P<count>\d{1,15}))"
)
COUNTED = {"Replay": "replay", "Recovery": "recovery", "CRC": "crc_data"}
CARD = re.compile(
    r"^[ \t]*(?:CA '(?P<ca>\w{2,20})'|hca_id:[ \t]*(?P<hca>\w{2,20})|Infiniband device '(?P<device>\w{2,20})' port "
    r"(?P<port>\d{1,2}) status:)[ \t]*$",
    re.MULTILINE,
)
PORT = re.compile(r"^[ \t]*[Pp]ort(?:[ \t]+|:[ \t]*)(?P<port>\d{1,2}):?[ \t]*$", re.MULTILINE)
OF_PORT = {
    "state": re.compile(r"^[ \t]*[Ss]tate:[ \t]*(?:\d: |PORT_)?(?P<said>[A-Za-z]{2,12})\b", re.MULTILINE),
    "physical": re.compile(
        r"^[ \t]*(?:Physical state|phys(?:_| )state):[ \t]*(?:\d: )?(?P<said>[A-Za-z_]{2,20})", re.MULTILINE
    ),
    "rate_gbps": re.compile(r"^[ \t]*[Rr]ate:[ \t]*(?P<said>\d{1,4}(?:\.\d)?)\b", re.MULTILINE),
    "link_layer": re.compile(r"^[ \t]*[Ll]ink(?:_| )layer:[ \t]*(?P<said>\w{2,20})", re.MULTILINE),
}
FIRMWARE = re.compile(r"^[ \t]*(?:Firmware version|fw_ver):[ \t]*(?P<said>\d{1,3}(?:\.\d{1,5}){1,3})", re.MULTILINE)
STATES = {"INITIALIZING": "INIT"}
PHYSICALLY = {"LINK_UP": "LinkUp", "POLLING": "Polling", "DISABLED": "Disabled"}
MOST = 64


def read(origin: str, text: str, into: Gathered) -> None:
    """Read all nvidia-smi output in this text."""
    banner = VERSIONS.search(text) or BANNER.search(text)
    if banner:
        release = banner["driver"] or banner["smi"]
        cuda = CudaVersion.parse(banner["cuda"])
        into.tell("nvidia-driver", origin, version=release)
        packed = cuda.major * 1000 + cuda.minor * 10 if cuda else None
        into.tell("nvml", origin, version=release, code=0, cuda_version=packed)
        into.machine(os="Windows" if ON_WINDOWS.search(text) else None)
        into.machine(wsl="yes" if _differs(banner["smi"], release) else None)
    _listed(origin, text, into)
    _rows(origin, text, into)
    _csv(origin, text, into)
    nvidia_smi_query.read(origin, text, into)
    for one in LISTED.finditer(text) if "MIG " not in text else ():  # a list names all instances
        held = into.copies.get("gpu", {}).get(one["index"])
        if held and held.facts.get("mig") == {"enabled": True}:
            held.facts["mig"] = {"enabled": True, "instances": ()}


def _differs(smi: str, release: str) -> bool:
    """Return whether the driver's release differs from nvidia-smi's and is Windows', as in WSL."""
    return smi.split(".")[:2] != release.split(".")[:2] and release.count(".") == 1


def _listed(origin: str, text: str, into: Gathered) -> None:
    for match in islice(LISTED.finditer(text), MOST):
        gathered.gpu(origin, match["name"], into, match["index"], gathered.uuid(match["uuid"]))
        instances: tuple[JsonValue, ...] = tuple(
            {"name": f"MIG {one['profile']}", "uuid": gathered.uuid(one["uuid"])}
            for one in INSTANCE.finditer(match["below"])
        )
        if instances and match["index"] in into.copies.get("gpu", {}):
            into.tell("gpu", origin, match["index"], mig={"enabled": True, "instances": instances})


def _rows(origin: str, text: str, into: Gathered) -> None:
    """Read the table, with two or three lines per GPU; a name that ends in dots is cut."""
    devices = text.partition("| MIG devices:")[2] if "| MIG devices:" in text else None
    for match in islice(ROW.finditer(text), MOST):
        name, known = match["name"].strip(), into.copies.get("gpu", {})
        if name.startswith("ERR!"):
            into.tell("gpu", origin, match["index"], status=Status.FAILED, index=int(match["index"]), error="ERR!")
        elif not name.endswith("...") or match["index"] not in known:
            gathered.gpu(origin, _uncut(name), into, match["index"])
        if match["index"] in into.copies.get("gpu", {}):
            into.tell("gpu", origin, match["index"], pci=gathered.pci(match["pci"]), also=_state(match, devices))


def _uncut(name: str) -> str:
    """Return a cut name without its dots, and without a number cut with it."""
    if not name.endswith("..."):
        return name
    return re.sub(r"(?<=[GR]TX) \d{1,3}$", "", name[:-3]) if name[-4] != " " else name[:-3].strip()


def _state(match: re.Match[str], devices: str | None) -> dict[str, JsonValue]:
    """Return what is beside and below a GPU's name: memory, temperature, power, ECC errors and MIG."""
    use, heat = USE.search(match["below"]), HEAT.search(match["below"])
    errors = re.search(r"\| +(\d{1,9}) +\|\s*$", match["rest"])
    mig = ENABLED.search(match["below"])
    mode = mig["mig"] if mig else "Enabled" if DIVIDED.search(match["rest"]) else None
    said: dict[str, JsonValue] = {}
    if use:
        said["memory"] = {"total_mib": int(use["total"]), "used_mib": int(use["used"])}
    if heat:
        said["temperature"] = {"gpu_c": int(heat["celsius"])}
        said["performance_state"] = int(heat["state"])
    if heat and heat["watts"]:
        said["power"] = {"watts": float(heat["watts"]), "limit_watts": float(heat["limit"])}
    if errors:
        said["ecc"] = {"enabled": True, "uncorrected_volatile": int(errors[1])}
    if mode:
        said["mig"] = {"enabled": mode == "Enabled", **_instances(match["index"], mode, devices)}
    return said


def _instances(index: str, mode: str, devices: str | None) -> dict[str, JsonValue]:
    """Return the GPU's instances in the table of MIG devices; nothing if the text has no such table."""
    if devices is None or mode != "Enabled":
        return {}
    rows = (row for row in MIG_ROW.finditer(devices) if row["index"] == index)
    return {"instances": tuple({"gpu_instance": int(row["gi"]), "compute_instance": int(row["ci"])} for row in rows)}


def _csv(origin: str, text: str, into: Gathered) -> None:
    """Read the output of ``--query-gpu=… --format=csv``, with or without its header."""
    for block in islice((*CSV.finditer(text), *ASKED.finditer(text)), MOST):
        names = [name.partition(" [")[0] for name in re.split(", ?", block["head"])]
        rows = [row.split(", ") for row in block["rows"].splitlines()]
        for number, row in enumerate(rows):
            if (len(row) == len(names) and len(names) > 1) or (
                names == ["driver_version"] and re.match(r"\d{3}\.", row[0])
            ):
                _queried(origin, dict(zip(names, row, strict=False)), number, into)


def _queried(origin: str, said: dict[str, str], number: int, into: Gathered) -> None:
    index = said.get("index", str(number))
    name, driver = said.get("name") or said.get("gpu_name"), said.get("driver_version", "")
    if re.fullmatch(r"\d{3}\.[\d.]+", driver):
        into.tell("nvidia-driver", origin, version=driver)
        into.tell("nvml", origin, version=driver, code=0)
    if name and index.isdecimal():
        gathered.gpu(origin, name, into, index, gathered.uuid(said.get("uuid") or said.get("gpu_uuid")))
    cc = said.get("compute_cap", "")
    if index in into.copies.get("gpu", {}) or (index.isdecimal() and ("index" in said or not into.knows("gpu"))):
        nvidia_smi_query.queried(origin, said, int(index), into)
        into.tell("gpu", origin, index, cc=cc if re.fullmatch(r"\d{1,2}\.\d", cc) else None)


def links(origin: str, text: str, into: Gathered) -> None:
    """Read the state and the errors of links."""
    for match in islice(OF_GPU.finditer(text), MOST):
        held = _links(match["links"])
        active = [one.get("active") for one in held]
        key = gathered.uuid(match["uuid"]) or f"index {match['index']}"
        counts: dict[str, JsonValue] = {"active": active.count(True), "total": len(held)} if any(active) else {}
        into.tell("nvlink", origin, key, index=int(match["index"]), links=held, also=counts)
    for card, block in _blocks(CARD, text):
        name = card["ca"] or card["hca"] or card["device"]
        firmware = FIRMWARE.search(block)
        for port, said in [(card, block)] if card["port"] else _blocks(PORT, block):
            facts = {fact: found["said"] for fact, one in OF_PORT.items() if (found := one.search(said))}
            into.tell(
                "infiniband",
                origin,
                f"{name}/{port['port']}",
                card=name,
                port=int(port["port"]),
                firmware=firmware["said"] if firmware else None,
                also=_port(facts),
            )


def _blocks(mark: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield every mark with the text below it."""
    marks = list(islice(mark.finditer(text), MOST))
    ends = [one.start() for one in marks[1:]] + [len(text)]
    yield from ((one, text[one.end() : end]) for one, end in zip(marks, ends, strict=False))


def _links(text: str) -> tuple[dict[str, JsonValue], ...]:
    """Return the links of one GPU, each with what is said about it."""
    found: dict[int, dict[str, JsonValue]] = {}
    for match in LINK_LINE.finditer(text):
        link = found.setdefault(int(match["link"]), {"link": int(match["link"])})
        if match["what"]:
            errors = link.setdefault("errors", {})
            if isinstance(errors, dict):
                errors[COUNTED[match["what"]]] = int(match["count"])
        else:
            link["active"] = match["down"] is None
            if match["speed"]:
                link["speed_gbps"] = float(match["speed"])
    return tuple(found.values())


def _port(said: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return a port's facts as the kernel names them."""
    facts: dict[str, JsonValue] = {**said}
    if "state" in said:
        facts["state"] = STATES.get(said["state"].upper(), said["state"].upper())
    if "physical" in said:
        facts["physical"] = PHYSICALLY.get(said["physical"], said["physical"])
    if "rate_gbps" in said:
        facts["rate_gbps"] = float(said["rate_gbps"])
    return facts
