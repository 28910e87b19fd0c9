"""Infinity Fabric between AMD GPUs (xGMI): which GPUs are linked, how fast, and which form a hive."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

    from probes.host import Answer, Host

MOST_LINKS = 1024  # reads in total: eight MI300X in eight partitions each have 4032 links


def probe(host: "Host") -> "Answer":
    """Return the links between GPUs; None if there is no AMD GPU or no such link."""
    amd = host.shared("amd.py")
    nodes = amd["nodes"](host)
    names = {node["node"]: node["pci"] or "node %d" % node["node"] for node in nodes}
    each = max(1, MOST_LINKS // max(1, len(nodes)))
    links = [
        {
            "from": names[node["node"]],
            "to": names[said["node_to"]],
            "weight": said.get("weight"),
            "min_mbs": said.get("min_bandwidth") or None,
            "max_mbs": said.get("max_bandwidth") or None,
        }
        for node in nodes
        for said in amd["links"](host, node["node"], each)
        if said.get("type") == amd["XGMI"] and said.get("node_to") in names
    ]
    if not links:
        return None
    hives: "Dict[int, List[str]]" = {}
    for node in nodes:
        if node.get("hive_id"):
            hives.setdefault(node["hive_id"], []).append(names[node["node"]])
    return {
        "gpus": len(nodes),
        "links": links,
        "hives": list(hives.values()),
        "cut": any(node.get("io_links_count", 0) > each for node in nodes),
    }
