"""The output of ``nvidia-smi`` in its layouts since 2018: the table, ``-L``, ``--query-gpu``, ``--version``, ``-q``."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpustack.imports import gathered, nvidia_smi_query
from gpustack.model.facts import JsonValue, Status
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
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
    r"^(?P<head>(?:[a-z_.]{3,40}(?: \[\w+\])?, )*(?:name|gpu_name|driver_version|uuid|pci\.bus_id|compute_cap|index)"
    r"(?: \[\w+\])?(?:, [a-z_.]{3,60}(?: \[\w+\])?)*)\n(?P<rows>(?:[^\n,]{1,80}(?:, [^\n,]{1,80})*\n?){1,64})",
    re.MULTILINE,
)
LINK = {"generation": "gen.current", "max_generation": "gen.max", "width": "width.current", "max_width": "width.max"}
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
    """Read the output of ``--query-gpu=… --format=csv``."""
    for block in islice(CSV.finditer(text), MOST):
        names = [name.partition(" [")[0] for name in block["head"].split(", ")]
        rows = [row.split(", ") for row in block["rows"].splitlines()]
        for number, row in enumerate(rows):
            if (len(row) == len(names) and len(names) > 1) or (
                names == ["driver_version"] and re.match(r"\d{3}\.", row[0])
            ):
                _queried(origin, dict(zip(names, row, strict=False)), number, into)


def _link(said: dict[str, str]) -> dict[str, JsonValue]:
    """Return the PCI Express link fields of the query."""
    asked = {name: said.get(f"pcie.link.{key}", "") for name, key in LINK.items()}
    found: dict[str, JsonValue] = {name: int(value) for name, value in asked.items() if re.fullmatch(r"\d{1,2}", value)}
    return {"pcie": found} if found else {}


def _queried(origin: str, said: dict[str, str], number: int, into: Gathered) -> None:
    index = said.get("index", str(number))
    name, driver = said.get("name") or said.get("gpu_name"), said.get("driver_version", "")
    if re.fullmatch(r"\d{3}\.[\d.]+", driver):
        into.tell("nvidia-driver", origin, version=driver)
        into.tell("nvml", origin, version=driver, code=0)
    if name and index.isdecimal():
        gathered.gpu(origin, name, into, index, gathered.uuid(said.get("uuid") or said.get("gpu_uuid")))
    if index in into.copies.get("gpu", {}):
        pci, cc = said.get("pci.bus_id") or said.get("gpu_bus_id"), said.get("compute_cap", "")
        total = re.match(r"(\d{1,7}) MiB", said.get("memory.total", ""))
        memory: dict[str, JsonValue] = {"memory": {"total_mib": int(total[1])}} if total else {}
        cc_known = cc if re.fullmatch(r"\d{1,2}\.\d", cc) else None
        into.tell("gpu", origin, index, cc=cc_known, pci=gathered.pci(pci) if pci else None, also=memory | _link(said))
