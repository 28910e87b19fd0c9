"""What is mounted at /scratch: one line of /proc/mounts."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Host


def probe(host: "Host") -> "Answer":
    lines = (host.read("/proc/mounts") or "").splitlines()
    kinds = [parts[2] for parts in map(str.split, lines) if parts[1:2] == ["/scratch"]]
    return {"mounted": bool(kinds), "kind": kinds[-1] if kinds else None}
