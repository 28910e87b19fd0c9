"""The management library's file: which libnvidia-ml the loader picks, and the other copies; nothing in it is called.

Runs in its own process, since loading runs the library's own code. The probe ``nvml`` calls it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Host

NAME = "libnvidia-ml.so"


def probe(host: "Host") -> "Answer":
    """Return the file that was mapped, with its release; None if there is no such library at all."""
    nvidia = host.shared("nvidia.py")
    found = nvidia["copies"](host, NAME)
    facts = nvidia["load"](host, NAME, found)
    if facts.pop("loaded") is None and "error" not in facts:
        return None
    return dict(facts, copies=found)
