"""Ports of InfiniBand and RoCE cards as Linux shows them: state, rate, firmware, errors, and where the card is.

All of it is sysfs, world-readable: /sys/class/infiniband, Documentation/ABI/stable/sysfs-class-infiniband. Both kinds
of card are listed there; ``link_layer`` says which a port is. Addresses (GUIDs) are not recorded.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Optional

    from probes.host import Answer, Facts, Host

CARDS = "/sys/class/infiniband"
MOST_CARDS, MOST_PORTS = 64, 8
# "4: ACTIVE", "5: LinkUp", "400 Gb/sec (4X NDR)": the format strings in Linux, drivers/infiniband/core/sysfs.c.
STATE = re.compile(r"\d{1,2}: ?(\w[\w ]{0,40})")
RATE = re.compile(r"(\d{1,5}(?:\.\d)?) Gb/sec \((\d{1,2})X ?(\w{0,8})\)")
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
COUNTERS = (
    *("link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors"),
    *("local_link_integrity_errors", "excessive_buffer_overrun_errors"),
)


def probe(host: "Host") -> "Answer":
    """Return every port of every card; None if there is none."""
    cards = [name for name in host.list(CARDS) if re.fullmatch(r"[\w.-]{1,60}", name)][:MOST_CARDS]
    return [port for card in cards for port in ports(host, card)] or None


def ports(host: "Host", card: str) -> "Iterator[Facts]":
    """Yield each port of a card."""
    folder = "%s/%s" % (CARDS, card)
    real = [part for part in host.real(folder + "/device").split("/") if ADDRESS.fullmatch(part)]
    numa = number(word(host, folder + "/device/numa_node"))
    shared = {
        "card": card,
        "firmware": word(host, folder + "/fw_ver"),
        "board": word(host, folder + "/board_id"),
        "model": word(host, folder + "/hca_type"),
        "pci": real[-1] if real else None,
        "bridges": real[-2::-1],
        "numa_node": numa if numa is not None and numa >= 0 else None,
        "lanes": number(word(host, folder + "/device/current_link_width")),
        "max_lanes": number(word(host, folder + "/device/max_link_width")),
    }
    for name in [one for one in host.list(folder + "/ports") if re.fullmatch(r"\d{1,3}", one)][:MOST_PORTS]:
        yield dict(shared, key="%s/%s" % (card, name), port=int(name), **port(host, "%s/ports/%s" % (folder, name)))


def port(host: "Host", folder: str) -> "Facts":
    """Return one port: its states in the words of Linux, its rate in gigabits a second, and its errors."""
    rate = RATE.match(word(host, folder + "/rate") or "")
    states = [STATE.match(word(host, "%s/%s" % (folder, name)) or "") for name in ("state", "phys_state")]
    return {
        "link_layer": word(host, folder + "/link_layer"),
        "state": states[0].group(1) if states[0] else None,
        "physical": states[1].group(1) if states[1] else None,
        "rate_gbps": float(rate.group(1)) if rate else None,
        "width": int(rate.group(2)) if rate else None,
        "speed": rate.group(3) or None if rate else None,
        "errors": {name: number(word(host, "%s/counters/%s" % (folder, name))) for name in COUNTERS},
    }


def word(host: "Host", path: str) -> "Optional[str]":
    """Return what is in a file of one line, or None."""
    return (host.read(path, 256) or "").strip() or None


def number(text: "Optional[str]") -> "Optional[int]":
    """Return a whole number, or None if the text is not one."""
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,18}", text) else None
