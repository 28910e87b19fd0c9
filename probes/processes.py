"""Processes as /proc shows them: name, account, state, container or job, what they hold open and have mapped.

What a process may not be asked is None, and nothing of its command line but the program, its script or module, and a
subcommand that is known is given on: arguments hold secrets. Sources: proc(5), cgroups(7), and
Documentation/gpu/drm-usage-stats.rst of Linux. Standard library and Python 3.8 syntax; loaded by path through the host.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence, Tuple

    from probes.host import Facts, Host

LONGEST_NAME = 15  # what the kernel keeps of a process's name
MOST_OPEN, MOST_TASKS = 4096, 256
MOST_MAPS, MOST_WORDS = 16 << 20, 1 << 16
GONE = " (deleted)"
MAPPED = re.compile(r"^\S+ \S+ \S+ \S+ \d+ +(/[^\n]*\.so[^\n]*?)( \(deleted\))?$", re.MULTILINE)
# Where the kernel's drivers of GPUs let a task wait that cannot be ended. nv_ is NVIDIA's, nvme_ is a disk's.
WAITS = re.compile(r"_?_?(?:nvidia|nvkms|nv_|uvm_|os_acquire_|rm_|amdgpu|kfd_|dma_fence|dma_resv|drm_|ttm_|i915_|xe_)")
ENGINES = (
    ("kubernetes", re.compile(r"kubepods[^\n]{0,300}?([0-9a-f]{64})")),
    ("docker", re.compile(r"docker[-/]([0-9a-f]{64})")),
    ("podman", re.compile(r"libpod(?:-payload)?-([0-9a-f]{64})")),
    ("containerd", re.compile(r"(?:cri-containerd[-:]|/)([0-9a-f]{64})")),
    ("lxc", re.compile(r"/lxc(?:\.payload)?[./]([\w.-]{1,60})")),
)
JOB = re.compile(r"/job_(\d{1,12})(?:/|$)", re.MULTILINE)
UNIT = re.compile(r"/([\w@:.\\-]{1,80}\.service)(?:/|$)", re.MULTILINE)
KEPT = (
    *("SLURM_JOB_ID", "SLURM_PROCID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES"),
    *("NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
)
PLAIN = re.compile(r"[\w.,:+-]{1,120}", re.ASCII)
INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
TAKES_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})
# Programs that run a script of others, and those whose first word says what they do.
LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch"})
SUBCOMMANDS = frozenset({"serve", "launch", "run", "runner", "server", "worker", "bench", "chat", "lab", "notebook"})


def pids(host: "Host") -> "List[int]":
    """Return the numbers of all processes that are seen from here, in order."""
    return sorted(int(name) for name in host.list("/proc") if name.isdecimal())


def name(host: "Host", pid: int) -> "Optional[str]":
    """Return the kernel's name of a process, or None if there is no such process."""
    said = host.read("/proc/%d/comm" % pid, 64)
    return said.strip() if said else None


def hidden(host: "Host", numbers: "List[int]") -> bool:
    """Return whether processes of others are hidden here (hidepid of proc(5)): the first of all is always there."""
    return 1 not in numbers or (name(host, 1) is None and host.why("/proc/1/comm") == "denied")


def by_name(host: "Host") -> "Dict[str, List[int]]":
    """Return the numbers of the processes by name; looked up once per process of ours, and logged as one look."""
    if "processes" not in host.kept:
        found: "Dict[str, List[int]]" = {}
        numbers, known = pids(host), len(host.log)
        for pid in numbers:
            found.setdefault(name(host, pid) or "", []).append(pid)
        host.kept["hidden"] = hidden(host, numbers)
        del host.log[known:]
        outcome = "missing" if not found else "denied" if host.kept["hidden"] else "ok"
        host.log.append(("read", "/proc/*/comm", outcome))
        host.kept["processes"] = found
    held: "Dict[str, List[int]]" = host.kept["processes"]
    return held


def user(host: "Host", pid: int) -> "Optional[str]":
    """Return the name of the account that a process runs as, its number where it has no name here, or None."""
    said = host.stat("/proc/%d" % pid)
    if said is None:
        return None
    found = re.search(r"^([^:\n]+):[^:\n]*:%d:" % said["uid"], host.read("/etc/passwd") or "", re.MULTILINE)
    return found.group(1) if found else str(said["uid"])


def status(host: "Host", pid: int, task: str = "") -> "Optional[Facts]":
    """Return state, parent, group and used time (in ticks) of a process or one task of it; None if it is gone."""
    said = host.read("/proc/%d/%sstat" % (pid, "task/%s/" % task if task else ""), 4096)
    words = said.rpartition(")")[2].split() if said else []  # the name before may hold anything
    if not all(re.fullmatch("[0-9]{1,18}", word) for word in [*words[1:3], *words[11:13]]) or words[12:] == []:
        return None
    return {
        "state": words[0],
        "parent": int(words[1]),
        "group": int(words[2]),
        "ticks": int(words[11]) + int(words[12]),
    }


def waits(host: "Host", pid: int) -> "Optional[str]":
    """Return where a task of a process waits in a GPU's driver and cannot be ended, or None if none does."""
    for task in host.list("/proc/%d/task" % pid)[:MOST_TASKS]:
        if (status(host, pid, task) or {"state": ""})["state"] == "D":
            channel = (host.read("/proc/%d/task/%s/wchan" % (pid, task), 128) or "").strip()
            if WAITS.match(channel) and not channel.startswith("nvme"):
                return channel
    return None


def stuck(host: "Host", pid: int) -> "Optional[Tuple[str, Optional[str], int]]":
    """Return how a process is stuck, where, and the processor time that it has used; None if it is not or is gone."""
    now = status(host, pid)
    if now is None:
        return None
    if now["state"] == "Z":
        return "ended", None, now["ticks"]
    channel = waits(host, pid)
    return ("waits", channel, now["ticks"]) if channel else None


def opened(host: "Host", pid: int) -> "Optional[Dict[str, str]]":
    """Return what a process has open, by number; None without permission."""
    folder = "/proc/%d/fd" % pid
    numbers = host.list(folder)
    if not numbers and host.why(folder) == "denied":
        return None
    links = {number: host.link(folder + "/" + number) or "" for number in numbers[:MOST_OPEN]}
    return {number: held.replace(GONE, "") for number, held in links.items()}


def mapped(host: "Host", pid: int) -> "Optional[Dict[str, bool]]":
    """Return the shared libraries that a process has mapped, each with whether its file is gone; None if denied."""
    text = host.read("/proc/%d/maps" % pid, MOST_MAPS)
    return None if text is None else {path: bool(gone) for path, gone in MAPPED.findall(text)}


def place(host: "Host", pid: int) -> "Facts":
    """Return the container, job or service that a process belongs to, as its control group names it."""
    said = host.read("/proc/%d/cgroup" % pid, 1 << 16) or ""
    found = ((engine, pattern.search(said)) for engine, pattern in ENGINES)
    engine, match = next(((engine, match) for engine, match in found if match), (None, None))
    job, unit = JOB.search(said), UNIT.findall(said)
    return {
        "container": {"engine": engine, "id": match.group(1)[:12]} if match else None,
        "slurm_job": job.group(1) if job and "slurm" in said else None,
        "unit": unit[-1] if unit and not unit[-1].startswith("user@") else None,
    }


def variables(host: "Host", pid: int) -> "Optional[Dict[str, str]]":
    """Return those variables of a process that say which job and which GPUs are its own; None if denied."""
    data = host.bytes("/proc/%d/environ" % pid, 1 << 20)
    if data is None:
        return None
    pairs: "Dict[str, str]" = {}
    for one in data.split(b"\0"):
        key, equals, value = one.decode("utf-8", "replace").partition("=")
        if equals:
            pairs[key] = value
    kept = {key: pairs[key] for key in KEPT if PLAIN.fullmatch(pairs.get(key, ""))}
    return dict(kept, KUBERNETES="yes") if "KUBERNETES_SERVICE_HOST" in pairs else kept


def words(host: "Host", pid: int) -> "List[str]":
    """Return a process's command line; it may hold secrets and is never given on as it is."""
    data = host.bytes("/proc/%d/cmdline" % pid, MOST_WORDS) or b""
    return data.decode("utf-8", "replace").rstrip("\0").split("\0") if data.strip(b"\0") else []


def command(line: "Sequence[str]") -> "Optional[str]":
    """Return what of a command line may be reported: program, script or module, and a subcommand that is known."""
    if not line:
        return None
    told = [_base(line[0].split(" ")[0])]
    rest = list(line[1:])
    if INTERPRETER.fullmatch(told[0]):
        run, rest = _script(rest)
        told += run
    if rest and rest[0] in SUBCOMMANDS:
        told.append(rest[0])
    if LAUNCHERS & set(told[-2:]):
        told += [_base(word) for word in rest if word.endswith(".py")][:1]
    return " ".join(told)


def _script(line: "List[str]") -> "Tuple[List[str], List[str]]":
    """Return what an interpreter runs, and the words after that."""
    while line:
        word, line = line[0], line[1:]
        if word == "-m" and line:
            return ["-m", _base(line[0])], line[1:]
        if word == "-c":
            return ["-c", "…"], []
        if word in TAKES_VALUE:
            line = line[1:]
        elif not word.startswith("-"):
            return [_base(word)], line
    return [], []


def _base(word: str) -> str:
    """Return the last name of a path, or a sign that it is not a plain word."""
    base = re.split(r"[/\\]", word.rstrip("/\\"))[-1]
    return base if re.fullmatch(r"[\w.:+-]{1,60}", base) else "…"


def usage(text: str) -> "Optional[Facts]":
    """Return driver, PCI address, client and GPU memory in bytes of an open file of a GPU; None for other files."""
    said = dict(re.findall(r"^(drm-[\w-]{1,60}):[ \t]*(\S.{0,80}?)[ \t]*$", text, re.MULTILINE))
    if "drm-driver" not in said:
        return None
    memory: "Dict[str, int]" = {}
    for key, value in said.items():
        found = re.fullmatch(r"drm-(resident|memory|total)-(?:vram|local)\d*", key)
        amount = re.fullmatch(r"(\d{1,15})(?: ([KMG])iB)?", value)
        if found and amount:
            size = int(amount.group(1)) << {"K": 10, "M": 20, "G": 30}.get(amount.group(2), 0)
            memory[found.group(1)] = memory.get(found.group(1), 0) + size
    used = next((memory[kind] for kind in ("resident", "memory", "total") if kind in memory), None)
    return {
        "driver": said["drm-driver"],
        "pci": said.get("drm-pdev"),
        "client": said.get("drm-client-id"),
        "used": used,
    }
