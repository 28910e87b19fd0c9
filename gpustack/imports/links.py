"""Links between GPUs and to the network: ``nvidia-smi nvlink``, ``ibstat``, ``ibstatus`` and ``ibv_devinfo``."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpustack.imports import gathered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.imports.gathered import Gathered
    from gpustack.model.facts import JsonValue

# Below the line of a GPU: "Link 0: 26.562 GB/s", "Link 1: <inactive>", and with -e "Link 0: Replay Errors: 0".
OF_GPU = re.compile(
    r"^[ \t]*GPU (?P<index>\d{1,2}): [^\n]{2,90}?(?: \(UUID: (?P<uuid>[^)\n]*)\))?[ \t]*\n"
    r"(?P<links>(?:[ \t]*Link \d{1,2}: [^\n]*(?:\n|\Z)){1,200})",
    re.MULTILINE,
)
LINK = re.compile(
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
    """Read the state and the errors of links."""
    for match in islice(OF_GPU.finditer(text), MOST):
        links = _links(match["links"])
        active = [one.get("active") for one in links]
        key = gathered.uuid(match["uuid"]) or f"index {match['index']}"
        counts: dict[str, JsonValue] = {"active": active.count(True), "total": len(links)} if any(active) else {}
        into.tell("nvlink", origin, key, index=int(match["index"]), links=links, also=counts)
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
    for match in LINK.finditer(text):
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
