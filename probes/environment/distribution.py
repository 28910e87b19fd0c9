"""Installed distributions of one name, in the order in which an import would see them: the names stand in the row."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Host


def probe(host: "Host") -> "Answer":
    """Give each copy: version, where its metadata lies, who installed it, whether it is a checkout used in place."""
    installed = host.shared("installed.py")
    wanted = {installed["normal"](name) for name in host.row["distributions"]}
    copies = [copy for copy in installed["find"](host) if copy["name"] in wanted]
    first = {copy["name"]: copy["path"] for copy in reversed(copies)}
    return [
        {
            "key": copy["name"] if first[copy["name"]] == copy["path"] else "%s in %s" % (copy["name"], copy["path"]),
            "version": copy["version"],
            "build": copy.get("build"),
            "path": copy["path"],
            "kind": copy["kind"],
            "shadowed_by": None if first[copy["name"]] == copy["path"] else first[copy["name"]],
            **installed["origin"](host, copy),
        }
        for copy in copies
    ]
