"""The kernel's own folders, which a chroot or a bare container may lack.

Standard library and Python 3.8 syntax; loaded by path through the host.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Host

FOLDERS = ("/proc", "/sys", "/dev")
BARE = "nothing is mounted there"


def bare(host: "Host", folder: str) -> bool:
    """Return whether the kernel shows nothing in one of its folders, and note it; never for an unpacked image."""
    if host.inert or host.list(folder, 1):
        return False
    if host.why(folder) in {"not asked", "missing"}:
        host.log.append(("list", folder, BARE))
    return True
