"""What a command prints, where a probe can do without it: one that hangs or cannot be started fails nothing else.

Standard library and Python 3.8 syntax; loaded by path through the host.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from probes.host import Host


def output(host: "Host", *argv: str, seconds: "Optional[float]" = None) -> str:
    """Return a command's output, or nothing if it is missing, too slow or not a program; the log says which."""
    try:
        said = host.run(*argv, seconds=seconds)
    except OSError:  # TimeoutError is an OSError; the host has logged it
        return ""
    return said["out"] if said else ""
