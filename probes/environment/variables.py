"""Variables of this environment that change a GPU stack; the row lists their names, no others are reported."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Host

LONGEST = 512


def probe(host: "Host") -> "Answer":
    """Give those that are set; None where none of them is."""
    values = {name: host.env(name) for name in host.row["variables"]}
    seen = {name: value[:LONGEST] for name, value in values.items() if value}
    return {"variables": seen} if seen else None
