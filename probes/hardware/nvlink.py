"""NVLink as NVML reports it: each link of each GPU with its state, speed, other end and errors, and who reaches whom.

``speed_gbps`` is in gigabytes a second and one direction, as ``nvidia-smi nvlink -s`` prints it. The path between two
GPUs has the word of ``nvidia-smi topo -m``: PIX, PXB, PHB, NODE, SYS.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from probes.host import Answer, Facts, Host

MOST_GPUS, MOST_LINKS = 256, 72  # what garbage in a count may cost
LACKING = ("NVMLError_NotSupported", "NVMLError_InvalidArgument")  # reported for a link that a GPU does not have
VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
ENDS = {0: "gpu", 1: "ibm-npu", 2: "switch"}
PATHS = {0: "INTERNAL", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
PEER_WORDS = (
    *("ok", "chipset-not-supported", "gpu-not-supported", "topology-not-supported"),
    *("disabled-by-regkey", "not-supported", "unknown"),
)
PEERS = dict(enumerate(PEER_WORDS))
WAYS = {"read": 0, "nvlink": 2}  # as numbers: nvidia-ml-py's NVML_P2P_CAPS_INDEX_READ is a tuple by mistake
CRC_DATA = 3  # the one counter that is no field; the others are, since one question for several takes a quarter
FIELDS = (
    ("speed", "NVLINK_GET_SPEED"),
    # Up to the fourth generation.
    ("errors.replay", "NVLINK_ERROR_DL_REPLAY"),
    ("errors.recovery", "NVLINK_ERROR_DL_RECOVERY"),
    ("errors.crc_flit", "NVLINK_ERROR_DL_CRC"),
    # From the fifth on.
    ("errors.receive", "NVLINK_COUNT_RCV_ERRORS"),
    ("errors.malformed_packet", "NVLINK_COUNT_MALFORMED_PACKET_ERRORS"),
    ("errors.buffer_overrun", "NVLINK_COUNT_BUFFER_OVERRUN_ERRORS"),
    ("errors.integrity", "NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS"),
    ("errors.recovery_succeeded", "NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS"),
    ("errors.recovery_failed", "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS"),
    ("errors.symbol", "NVLINK_COUNT_SYMBOL_ERRORS"),
    ("errors.effective", "NVLINK_COUNT_EFFECTIVE_ERRORS"),
    ("errors.effective_ber", "NVLINK_COUNT_EFFECTIVE_BER"),
)


def named(names: "Dict[int, str]") -> "Callable[[int], str]":
    """Return what names a number; one that has no name here is named by itself."""
    return lambda number: names.get(number, str(number))


def rate(coded: int) -> float:
    """Return a bit error rate from nvml.h's code for it: bits 8 to 11 times ten to the minus bits 0 to 7."""
    return float("%de-%d" % (coded >> 8 & 15, coded & 255))


class Gpu:
    """One GPU, its links, and why it has none."""

    def __init__(self, shared: "Facts", nvml: "Any", index: int) -> None:
        """Ask this GPU for everything but its peers."""
        self.shared, self.nvml, self.index = shared, nvml, index
        self.links: "List[Facts]" = []
        self.refused: "List[str]" = []
        self.unavailable: "Dict[str, str]" = {}
        self.topology: "Facts" = {}
        self.handle, self.lost = nvml.ask("nvmlDeviceGetHandleByIndex", index)
        self.reading = shared["Reading"](nvml, self.handle)
        if not self.lost:
            self.reading.ask("uuid", "UUID")
            self.reading.ask("pci", "PciInfo", write=shared["place"])
            self.reading.fields([("count", "NVLINK_LINK_COUNT")])
            self._ask_links()

    def _ask_links(self) -> None:
        count = self.reading.said["count"]
        most = self.nvml.library.value("NVML_NVLINK_MAX_LINKS", 18) if count is None else count
        for number in range(min(most, MOST_LINKS)):
            link = self.shared["Reading"](self.nvml, self.handle)
            link.put("link", number)
            link.ask("active", "NvLinkState", number, write=bool)
            if link.unavailable:
                self.refused.append(link.unavailable["active"])
            else:
                self.links.append(details(link, number, self.shared["place"]))
                for fact, why in link.unavailable.items():
                    if not (fact.startswith("errors.") and why.startswith(LACKING)):
                        self.unavailable.setdefault(fact, "link %d: %s" % (number, why))

    def reach(self, other: "Gpu") -> None:
        """Ask how this GPU reaches the other, and note it at both."""
        pair = self.shared["Reading"](self.nvml, self.handle)
        pair.ask("path", "TopologyCommonAncestor", other.handle, write=named(PATHS))
        for way, number in WAYS.items():
            pair.ask(way, "P2PStatus", other.handle, number, write=named(PEERS))
        its = other.reading.said["pci"]
        straight = sum(1 for link in self.active() if its and link["remote"]["pci"] == its)
        pair.put("nvlinks", straight or min(self.to_switches(), other.to_switches()))
        key = "%d-%d" % (self.index, other.index)
        self.topology[key] = other.topology[key] = pair.said
        self.unavailable.update(("topology.%s.%s" % (key, fact), why) for fact, why in pair.unavailable.items())

    def active(self) -> "List[Facts]":
        """Return the links that are up."""
        return [link for link in self.links if link["active"]]

    def to_switches(self) -> int:
        """Return how many links that are up lead to a switch."""
        return sum(1 for link in self.active() if link["remote"]["type"] == "switch")

    def without(self) -> "Optional[str]":
        """Return why this GPU has no links, or None if it has, or if that is unknown."""
        if self.links or self.wrong():
            return None
        return "GPU %d: %s" % (self.index, (self.refused or ["NVML counts no links"])[0])

    def wrong(self) -> "Optional[str]":
        """Return what keeps the links from being seen."""
        odd = [why for why in self.refused if not why.startswith(LACKING)]
        return self.lost or (odd[0] if odd and not self.links else None)

    def facts(self) -> "Facts":
        """Return everything that was seen of it."""
        facts: "Facts" = {"key": self.reading.said.get("uuid") or "index %d" % self.index, "index": self.index}
        facts.update(links=self.links, active=len(self.active()), total=len(self.links), topology=self.topology)
        facts["unavailable"] = self.unavailable
        if self.wrong():
            facts.update(status="failed", error=self.wrong())
        elif self.without():
            facts.update(status="not-applicable", why=self.without())
        return facts


def details(link: "Any", number: int, place: "Callable[[Any], str]") -> "Facts":
    """Return one link; of its errors those alone that its generation counts."""
    link.ask("version", "NvLinkVersion", number, write=named(VERSIONS))
    link.ask("remote.type", "NvLinkRemoteDeviceType", number, write=named(ENDS))
    link.ask("remote.pci", "NvLinkRemotePciInfo", number, write=place)
    link.ask("errors.crc_data", "NvLinkErrorCounter", number, CRC_DATA)
    link.fields(FIELDS, number)
    if link.said["speed"] is None:  # older drivers have one field for each link
        link.fields([("speed", "NVLINK_SPEED_MBPS_L%d" % number)])
    facts: "Facts" = link.facts()
    del facts["unavailable"]
    speed = facts.pop("speed")
    facts["speed_gbps"] = None if speed is None else speed / 1000.0
    facts["errors"] = {name: count for name, count in facts["errors"].items() if count is not None}
    if "effective_ber" in facts["errors"]:
        facts["errors"]["effective_ber"] = rate(facts["errors"]["effective_ber"])
    return facts


def probe(host: "Host") -> "Answer":
    shared = host.shared("nvml.py")
    nvml = shared["opened"](host)
    if nvml is None:
        return None
    gpus = [Gpu(shared, nvml, index) for index in range(min(nvml.library.call("nvmlDeviceGetCount"), MOST_GPUS))]
    there = [gpu for gpu in gpus if not gpu.lost]
    for number, gpu in enumerate(there):
        for other in there[number + 1 :]:
            gpu.reach(other)
    why = gpus[0].without() if len(gpus) == 1 else None
    if why:
        off = "NvLinkDisable: 1" in (host.read("/proc/driver/nvidia/params") or "")
        return why + (" (the module's parameter NvLinkDisable is 1)" if off else "")
    return [gpu.facts() for gpu in gpus]
