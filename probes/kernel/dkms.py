"""Modules that DKMS builds: for which kernels each is built or installed, and where a build failed, the end of its log.

The tree is read itself: ``dkms status`` needs the command, takes a shell for every module, and says nothing of a build
that failed. Layout of the tree (dkms.in of dkms 2.8.1 to 3.2.2, read 2026-11-21): MODULE/VERSION/source is a module
that was added; MODULE/VERSION/KERNEL/ARCH/module holds what was built; the link MODULE/kernel-KERNEL-ARCH names what is
installed; MODULE/VERSION/build/make.log is there while a build runs and stays when it fails.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from probes.host import Answer, Facts, Host

TREE = "/var/lib/dkms"
TAIL = 4000
KERNEL = re.compile(r"make\.log for .{1,200}? for kernel (\S+)")


def probe(host: "Host") -> "Answer":
    """Return every module, version and kernel in the tree; None if DKMS has none."""
    running = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    seen: "List[Facts]" = []
    for source in host.glob(TREE + "/*/*/source"):
        module, version = source.split("/")[-3:-1]
        here = [*built(host, module, version), *failed(host, module, version)]
        seen += here or [row(module, version, None, "added")]
    for one in seen:
        one["for_running_kernel"] = one["kernel"] == running
    return sorted(seen, key=lambda one: not one["for_running_kernel"]) or None


def built(host: "Host", module: str, version: str) -> "List[Facts]":
    """Return the kernels that this version was built for, and whether it is installed there."""
    rows = []
    for folder in host.glob("%s/%s/%s/*/*/module" % (TREE, module, version)):
        kernel, machine = folder.split("/")[-3:-1]
        link = host.link("%s/%s/kernel-%s-%s" % (TREE, module, kernel, machine)) or ""
        installed = link.rstrip("/").endswith("%s/%s/%s" % (version, kernel, machine))
        rows.append(row(module, version, kernel, "installed" if installed else "built"))
    return rows


def failed(host: "Host", module: str, version: str) -> "List[Facts]":
    """Return the build that left its log behind, with the end of that log: a build that goes well moves it away."""
    log = "%s/%s/%s/build/make.log" % (TREE, module, version)
    head = host.read(log, 1000)
    if head is None:
        return []
    found = KERNEL.search(head)
    size = (host.stat(log) or {}).get("size", 0)
    end = (host.bytes(log, TAIL, max(0, size - TAIL)) or b"").decode("utf-8", "replace")
    return [row(module, version, found.group(1) if found else None, "failed", end.strip())]


def row(module: str, version: str, kernel: "Optional[str]", state: str, log_tail: "Optional[str]" = None) -> "Facts":
    """Return one instance."""
    name = "%s/%s" % (module, version)
    return {
        "key": name + (" on " + kernel if kernel else ""),
        "version": version,
        "module": module,
        "module_version": version,
        "kernel": kernel,
        "state": state,
        "log_tail": log_tail,
    }
