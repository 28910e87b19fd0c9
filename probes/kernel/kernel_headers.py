"""The headers of the running kernel, which a driver's module is built against."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from probes.host import Answer, Host


def probe(host: "Host") -> "Answer":
    """Return the build tree of the running kernel; None if there is none, even if other kernels have one."""
    running = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    if not running:
        raise OSError("/proc/sys/kernel/osrelease: " + host.why("/proc/sys/kernel/osrelease"))
    if not host.exists("/lib/modules"):
        return "this machine has no /lib/modules: its kernel's modules live elsewhere, and none is built here"
    tree = next((path for path in places(running) if host.exists(path)), None)
    if tree is None:
        return None
    release = (host.read(tree + "/include/config/kernel.release", 4096) or "").strip()
    return {
        "version": release or running,
        "path": host.real(tree),
        "makefile": host.exists(tree + "/Makefile"),
        "symbols": host.exists(tree + "/Module.symvers"),
        "release": release or None,
        "running": running,
    }


def places(release: str) -> "List[str]":
    """Return where a build tree may be: the kernel's own link, then Debian's and Red Hat's folders."""
    return ["/lib/modules/%s/build" % release, "/usr/src/linux-headers-" + release, "/usr/src/kernels/" + release]
