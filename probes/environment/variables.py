"""Environment variables that affect a GPU stack, and the machine's settings for NCCL; the row lists all names.

NCCL reads lines NAME=VALUE from /etc/nccl.conf, unless NCCL_CONF_FILE names another: NVIDIA/nccl, src/misc/param.cc.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Host

LONGEST = 512
CONF = "/etc/nccl.conf"
LINE = re.compile(r"^[ \t]{0,40}([A-Z][A-Z0-9_]*)=(\S+)", re.MULTILINE)


def probe(host: "Host") -> "Answer":
    """Return those that are set; None if none is."""
    values = {name: host.env(name) for name in host.row["variables"]}
    seen = {name: value[:LONGEST] for name, value in values.items() if value}
    file = host.read(CONF, 65536) or ""
    conf = {name: value[:LONGEST] for name, value in LINE.findall(file) if name in values and name.startswith("NCCL_")}
    named = (("variables", seen), ("nccl_conf", conf))
    return {key: held for key, held in named if held} or None
