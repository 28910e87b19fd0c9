"""The processes on each GPU: process, account, container or job, memory held, and what it has really mapped.

A process is found in three ways: by the driver's own list (NVML, KFD), by the device nodes that it holds open, and, if
these name none, by a mapped libcuda: a container to which NVML reports no process still sees its own. The row has the
names of libraries, of frameworks (a part of a mapped path, and the distribution that has its version) and of kinds of
applications (the words that identify them). Our own processes are left out.
"""

import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

    Held = Dict[int, List[Facts]]  # by process, what it has on each GPU

MOST_GPUS, MOST_LISTED, MOST_TOLD = 256, 512, 128
SECONDS = 1.5  # for reading what all processes hold open
NODES = re.compile(r"nvidia\d{1,3}|nvidiactl|kfd|dxg")
ON_GPU = re.compile(r"/dev/(?:nvidia\d{1,3}|kfd|dxg|dri/(?:renderD|card)\d{1,3})")
DRM = "/dev/dri/"
KFD = "/sys/class/kfd/kfd/proc"
LISTS = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}
PASSES_ON = frozenset({"systemd-logind", "seatd", "elogind", "logind"})  # hold a display's node for another process
DRIVER_FILE = re.compile(
    r"lib(?:cuda|nv|nvidia|EGL_nvidia|GLX_nvidia|GLES)[\w-]*\.so\.(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)"
)
PACKAGES = re.compile(r"(.*/(?:site|dist)-packages)/")
LOOKS, PAUSE = 4, 0.15
ANCESTORS = 6


def probe(host: "Host") -> "Answer":
    """Return every process on a GPU, the largest first; None if there is none, a text if there can be no GPU."""
    if not any(map(NODES.fullmatch, host.list("/dev"))) and not host.list("/dev/dri"):
        return "no GPU's device node is here, so no process can be on a GPU"
    held, blind = by_driver(host)
    ways = {pid: ["driver"] for pid in held}
    nodes, closed = by_nodes(host)
    for pid in nodes:
        ways.setdefault(pid, []).append("open device")
    if not ways:
        ways = {pid: ["mapped libcuda"] for pid in by_library(host)}
    own = ours(host, ways)
    seen = [describe(host, pid, how, held.get(pid, []), nodes.get(pid)) for pid, how in ways.items() if pid not in own]
    told = sorted((one for one in seen if one), key=lambda one: (-(one["used_mib"] or 0), one["pid"]))[:MOST_TOLD]
    look_again(host, told)
    if closed and (blind or host.list("/dev/dri") or any(one["found_by"] != ["driver"] for one in told)):
        host.log.append(("list", "/proc/*/fd of " + closed, "denied"))
    if not told and blind and closed:
        return {"key": "others", "status": "unknown", "why": "%s; %s may not be asked" % (blind, closed)}
    return told or None


# Who.


def by_driver(host: "Host") -> "Tuple[Held, Optional[str]]":
    """Return the processes that the drivers report on their GPUs, and why NVIDIA's reports nothing if it should."""
    held: "Held" = {}
    blind = None
    if any(name.startswith("nvidia") for name in host.list("/dev")):
        try:
            for pid, row in nvidia(host):
                held.setdefault(pid, []).append(row)
        except Exception as error:  # noqa: BLE001 - however NVML fails, the processes that are there can still be found
            blind = "NVML does not answer (%s)" % type(error).__name__
    for name in host.list(KFD) if host.exists(KFD) else ():
        if name.isdecimal():
            held.setdefault(int(name), []).extend(amd(host, name))
    return held, blind


def nvidia(host: "Host") -> "Iterator[Tuple[int, Facts]]":
    """Yield each process on each of NVIDIA's GPUs; raises NVML's error if it does not start."""
    shared = host.shared("nvml.py")
    nvml = shared["opened"](host)
    if nvml is None:
        raise FileNotFoundError(shared["SONAME"])
    for index in range(min(nvml.library.call("nvmlDeviceGetCount"), MOST_GPUS)):
        handle, _ = nvml.ask("nvmlDeviceGetHandleByIndex", index)
        pci = nvml.ask("nvmlDeviceGetPciInfo", handle, write=shared["place"])[0] if handle is not None else None
        for kind, word in LISTS.items() if handle is not None else ():
            listed, _ = nvml.ask("nvmlDeviceGet%sRunningProcesses" % word, handle)
            for one in (listed or [])[:MOST_LISTED]:
                used = None if one.usedGpuMemory is None else one.usedGpuMemory >> 20
                yield one.pid, {"gpu": pci, "index": index, "vendor": "nvidia", "kind": kind, "used_mib": used}


def amd(host: "Host", pid: str) -> "Iterator[Facts]":
    """Yield the memory that KFD reports for a process on each AMD GPU; Linux: amdkfd/kfd_process.c (vram_GPU)."""
    places = {}
    for node in host.shared("amd.py")["nodes"](host):
        said = (host.read("/sys/class/kfd/kfd/topology/nodes/%d/gpu_id" % node["node"], 64) or "").strip()
        places[said] = node["pci"]
    for name in host.list(KFD + "/" + pid):
        said = (host.read("%s/%s/%s" % (KFD, pid, name), 64) or "").strip() if name.startswith("vram_") else ""
        if said.isdecimal():
            gpu = name.partition("_")[2]
            used = int(said) >> 20
            yield {"gpu": places.get(gpu), "index": None, "vendor": "amd", "kind": "compute", "used_mib": used}


def by_nodes(host: "Host") -> "Tuple[Dict[int, Dict[str, str]], str]":
    """Return the processes that hold a GPU's node open, with these nodes, and in words those that are not readable."""
    processes, numbers, known = host.shared("processes.py"), host.shared("processes.py")["pids"](host), len(host.log)
    found: "Dict[int, Dict[str, str]]" = {}
    until, closed, late = time.monotonic() + min(SECONDS, host.seconds / 2), 0, 0
    for pid in numbers:
        if time.monotonic() > until:
            late += 1
            continue
        held = on_gpu(processes["opened"](host, pid))
        closed += held is None
        if held and processes["name"](host, pid) not in PASSES_ON:
            found[pid] = held
        del host.log[known:]  # thousands of reads of everybody's open files count as one
    host.log.append(("list", "/proc/*/fd", "not asked of %d: the time was up" % late if late else "ok"))
    others = "those of others" if processes["hidden"](host, numbers) else ""
    return found, others or ("%d processes" % closed if closed else "")


def on_gpu(held: "Optional[Dict[str, str]]") -> "Optional[Dict[str, str]]":
    """Return the GPU nodes among a process's open files."""
    return held if held is None else {number: path for number, path in held.items() if ON_GPU.fullmatch(path)}


def by_library(host: "Host") -> "List[int]":
    """Return the processes that have mapped the library that every CUDA program loads."""
    processes, found = host.shared("processes.py"), []
    until, known = time.monotonic() + min(SECONDS, host.seconds / 4), len(host.log)
    for pid in processes["pids"](host):
        libraries = processes["mapped"](host, pid) if time.monotonic() < until else None
        if any(os.path.basename(path).startswith("libcuda.so") for path in libraries or ()):
            found.append(pid)
        del host.log[known:]
    return found


def ours(host: "Host", pids: "Dict[int, List[str]]") -> "List[int]":
    """Return which of the processes are gpustack's own: those with the same origin as this one."""
    processes, me, parent = host.shared("processes.py"), os.getpid(), os.getppid()
    started = processes["command"](processes["words"](host, parent)) or ""
    roots = {me, parent} if "gpustack" in started.split() else {me}
    found = []
    for pid in pids:
        at: "Optional[int]" = pid
        for _ in range(ANCESTORS):
            if at in roots:
                found.append(pid)
                break
            at = (processes["status"](host, at) or {"parent": None})["parent"] if at else None
    return found


# What of each.


def describe(
    host: "Host", pid: int, ways: "List[str]", gpus: "List[Facts]", nodes: "Optional[Dict[str, str]]"
) -> "Optional[Facts]":
    """Return one process; None if it has ended meanwhile, and little for one that is not visible from here."""
    processes = host.shared("processes.py")
    state = processes["status"](host, pid)
    memory = [row["used_mib"] for row in gpus if row["used_mib"] is not None]
    told = {"key": "pid %d" % pid, "pid": pid, "found_by": ways, "gpus": gpus}
    told["used_mib"] = sum(memory) if memory else None
    # A container sees the host's numbers in NVML's list, where another process may have that number here.
    nodes = on_gpu(processes["opened"](host, pid)) if nodes is None else nodes
    stranger = gpus and nodes == {} and (state or {}).get("state") != "Z"
    if state is None or stranger:
        return dict(told, name=None, seen=False) if gpus else None
    line = processes["words"](host, pid)
    told.update(seen=True, name=processes["name"](host, pid), command=processes["command"](line), **state)
    told.update(user=processes["user"](host, pid), **processes["place"](host, pid))
    program = host.link("/proc/%d/exe" % pid)
    told.update(
        path=program.replace(" (deleted)", "") if program else None, variables=processes["variables"](host, pid)
    )
    told.update(devices=sorted(set((nodes or {}).values())), **in_use(host, pid))
    if not memory and nodes:
        told.update(rendering(host, pid, nodes))
    told["denied"] = [what for what in ("maps", "environ") if host.why("/proc/%d/%s" % (pid, what)) == "denied"]
    told["application"] = kind(host, told, line)
    return told


def in_use(host: "Host", pid: int) -> "Facts":
    """Return the libraries and frameworks that a process has mapped, and the driver's whose files are gone."""
    mapped = host.shared("processes.py")["mapped"](host, pid)
    if mapped is None:
        return {"libraries": None, "frameworks": None, "gone": None}
    apart = host.link("/proc/%d/ns/mnt" % pid) != host.link("/proc/self/ns/mnt")
    root = "/proc/%d/root" % pid if apart else ""  # a container's process names files of its own file system
    gone = [path for path, deleted in mapped.items() if deleted and DRIVER_FILE.fullmatch(os.path.basename(path))]
    return {
        "libraries": libraries(host, mapped, root),
        "frameworks": frameworks(host, mapped, root),
        "gone": [{"path": path, "release": releases(path)} for path in sorted(gone)],
    }


def releases(path: str) -> "Optional[str]":
    """Return the driver release in a file's name."""
    found = DRIVER_FILE.fullmatch(os.path.basename(path))
    return found.group(1) if found else None


def libraries(host: "Host", mapped: "Dict[str, bool]", root: str) -> "Facts":
    """Return each mapped library of the row: its version, from its file's name or its package, and its path."""
    found: "Facts" = {}
    for path in sorted(mapped):
        stem = os.path.basename(path).partition(".so")[0]
        row = host.row["libraries"].get(stem)
        if row is not None and row["id"] not in found:
            found[row["id"]] = {"version": version(host, path, root, row["packages"]), "path": path}
    return found


def version(host: "Host", path: str, root: str, packages: "List[str]") -> "Optional[str]":
    """Return a library's version, from its file's name or the package record in its site folder."""
    named: "Optional[str]" = host.shared("naming.py")["plain"](path)
    release, site = releases(path), PACKAGES.match(path)
    if named or release or not site:
        return named or release
    owners = host.shared("owners.py")["of_prefix"](host, root + path, root + site.group(1), packages)
    return str(owners[0]["version"]) if owners else None


def frameworks(host: "Host", mapped: "Dict[str, bool]", root: str) -> "List[Facts]":
    """Return the frameworks that are mapped, each with the version that its distribution has in that folder."""
    found: "List[Facts]" = []
    for name, fragment, package in host.row["frameworks"]:
        path = next((path for path in sorted(mapped) if fragment in path), None)
        if path is not None and name not in [one["name"] for one in found]:
            folder = path[: path.index(fragment)]
            wanted = re.compile(re.escape(package) + r"-(\d[^-]*)\.dist-info", re.IGNORECASE)
            known = [match.group(1) for match in map(wanted.fullmatch, host.list(root + folder)) if match]
            found.append({"name": name, "version": known[0] if known else None, "folder": folder})
    return found


def rendering(host: "Host", pid: int, nodes: "Dict[str, str]") -> "Facts":
    """Return the kernel's counters for a process's open GPU files, each client of a GPU once."""
    clients: "Dict[Tuple[Optional[str], Optional[str]], Facts]" = {}
    for number, path in nodes.items():
        text = host.read("/proc/%d/fdinfo/%s" % (pid, number), 1 << 14) if path.startswith(DRM) else None
        said = host.shared("processes.py")["usage"](text) if text else None
        if said and said["used"] is not None:
            clients[said["pci"], said["client"]] = said
    rows: "Dict[Optional[str], Facts]" = {}
    for (pci, _), said in clients.items():
        row = rows.setdefault(pci, {"gpu": pci, "vendor": said["driver"], "kind": "render", "used_mib": 0})
        row["used_mib"] += said["used"] >> 20
    return {"gpus": list(rows.values()), "used_mib": sum(row["used_mib"] for row in rows.values())} if rows else {}


def kind(host: "Host", told: "Facts", line: "List[str]") -> str:
    """Return the kind of application in plain words: by name, program, script and folder, else by its libraries."""
    words = [word for word in line[:6] if not word.startswith("--")]
    folder = os.path.basename(host.link("/proc/%d/cwd" % told["pid"]) or "")
    said = "\n".join([told["name"] or "", told["command"] or "", *words, folder])
    for name, pattern in host.row["kinds"]:
        if re.search(pattern, said, re.IGNORECASE):
            return str(name)
    if told["frameworks"]:
        return "program with " + " and ".join(one["name"] for one in told["frameworks"][:2])
    return (
        "graphics" if told["gpus"] and all(row["kind"] in {"graphics", "render"} for row in told["gpus"]) else "custom"
    )


def look_again(host: "Host", told: "List[Facts]") -> None:
    """Say of each process that has ended or waits in the driver whether it still does after some looks.

    One that has ended may have left its memory to ``heirs``: processes of its group that hold a GPU's node open.
    """
    stuck = host.shared("processes.py")["stuck"]
    first = {one["pid"]: stuck(host, one["pid"]) for one in told if one["seen"]}
    seen = {pid: how for pid, how in first.items() if how}
    for _ in range(LOOKS if seen else 0):
        time.sleep(PAUSE)
        seen = {pid: how for pid, how in seen.items() if stuck(host, pid) == how}
    for one in told:
        how, where, _ = seen.get(one["pid"], (None, None, 0))
        if how:
            others = [
                other["pid"] for other in told if other["seen"] and other["group"] == one["group"] and other != one
            ]
            one["stuck"] = {"how": how, "where": where, "seconds": LOOKS * PAUSE, "heirs": others}
