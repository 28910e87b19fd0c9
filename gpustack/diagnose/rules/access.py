"""Who may use the GPU, and what a process may: device nodes, groups, passthrough, shared and locked memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import amd, containers, intel
from gpustack.diagnose.machine.events import grounds, heard, said
from gpustack.diagnose.machine.inventory import PASSED_ON, builds, from_text, gpus, nvidia_here, on_bus, starts
from gpustack.diagnose.machine.processes import for_others, refused
from gpustack.diagnose.machine.values import because, because_of, copies, flag, items, number, table, text, texts, told
from gpustack.diagnose.rule import rule
from gpustack.model.command import NAME, PATH, sh, step
from gpustack.model.facts import Facts, JsonValue, Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpustack.matrix import Matrix


@rule("gpu-passed-through", Layer.HARDWARE, "pci-display", Severity.INFO)
def gpu_passed_through(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """An NVIDIA GPU is held for a virtual machine.

    Its PCI device is bound to vfio-pci or another driver that keeps it for guests, so this machine's own programs
    cannot use it. That is how GPU passthrough works, and is not a fault. To use the GPU here, unbind it so that
    NVIDIA's driver can take it.
    """
    for copy in on_bus(facts, "nvidia"):
        if (driver := text(copy.facts, "driver")) in PASSED_ON:
            yield gpu_passed_through.finding(
                instance=copy.key,
                title=f"The GPU at {copy.key} is held for a virtual machine by {driver}",
                because=(because_of(facts, "pci-display", copy, "driver"),),
            )


MAKERS = {"amd": "AMD", "intel": "Intel"}


@rule("gpu-stack-not-examined", Layer.HARDWARE, "pci-display", Severity.UNKNOWN)
def gpu_stack_not_examined(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """There is a GPU whose stack gpustack has not examined.

    The bus shows an AMD or Intel GPU, but nothing is known about its kernel driver, libraries and frameworks: the facts
    come from a version that did not examine them, the probe failed, or a text only mentions the bus. So neither health
    nor a fault can be reported.
    """
    for copy in on_bus(facts, *MAKERS):
        vendor = text(copy.facts, "vendor") or "amd"
        maker = MAKERS[vendor]
        if copy.key in {text(one.facts, "pci") or one.key for one in copies(facts, f"{vendor}-gpu")}:
            continue
        yield gpu_stack_not_examined.finding(
            instance=copy.key,
            severity=Severity.INFO if nvidia_here(facts) else Severity.UNKNOWN,
            title=f"Nothing is known about the {maker} GPU at {copy.key} except its place on the bus"
            if from_text(facts)
            else f"The stack of the {maker} GPU at {copy.key} is not examined by this version",
            because=(
                because_of(facts, "pci-display", copy, "vendor_id"),
                because_of(facts, "pci-display", copy, "driver"),
            ),
        )


KEPT = ("nvml-no-permission", "works-as-root", "render-group-check", "node-not-permitted")


@rule("device-nodes-not-accessible", Layer.ENVIRONMENT, "nvidia.ko", explained_by=("container-cgroup-lost-devices",))
def device_nodes_not_accessible(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """This user cannot open the GPU's device nodes.

    CUDA and NVML open /dev/nvidiactl, /dev/nvidia0 … and /dev/nvidia-uvm for reading and writing. Their permissions
    here exclude this user. Widen them where the driver sets them (NVreg_DeviceFileMode), or add the user to the group
    that owns them and log in again.
    """
    paths = [path for path, by_mode in refused(facts) if by_mode]
    fails = bool(number(told(facts, "nvml"), "code")) or starts(facts) is False
    listed = () if paths or not _outside(facts) else for_others(facts)
    if not listed and (not paths or not fails or not nvidia_here(facts)):
        return
    paths.extend(listed)
    named = tuple(map(PATH, paths))
    yield device_nodes_not_accessible.finding(
        title=f"This user cannot open {', '.join(paths)}",
        because=(
            because(facts, "nvidia.ko", "nodes"),
            because(facts, "nvidia-uvm.ko", "nodes"),
            *grounds(facts, *KEPT),
        ),
        confidence=Confidence.LIKELY if listed else Confidence.CERTAIN,
        fix=fixes.advice(
            f"{fixes.place(facts)}Join the group (GROUP) that owns the nodes and log in again; or, where all "
            "users may use the GPU, open the nodes until the next start.",
            sh("ls -l {named}", named=named),
            step("if that is a group for GPUs and not root: `sudo usermod -aG GROUP $USER`"),
            step("or until the next boot: `sudo chmod 0666 {named}`", named=named),
            verify=sh("nvidia-smi"),
        ),
    )


def _outside(facts: Facts) -> bool:
    """Return whether this user is not in the group of nodes that a listing shows: by his groups, or as is said."""
    return bool(texts(told(facts, "user"), "groups")) or heard(facts, *KEPT)


REFUSED = ("kfd-permission", "render-permission")
ADVICE, ABSENT = "render-advice", "No such file or directory"
GROUP = ("render-group-check", "device-owner")
ONLY_ROOT = ("works-as-root", "no-hip-device")
FAILS = (*ONLY_ROOT, "media-no-device", "rocm-tool-fails", "xpu-no-devices", "sycl-no-devices", "kfd-not-opened")
# What programs for AMD's and Intel's GPUs say that list none; where root's list has one, the user is kept out.
EMPTY = ("rocm-tool-fails", "sycl-no-devices", "xpu-no-devices", "media-no-device", "no-hip-device")
OWNERS = frozenset({"render", "video", "root", "kvm"})
USUAL = ("render", "video")


@rule("user-not-in-render-group", Layer.ENVIRONMENT, "user")
def user_not_in_render_group(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """This user cannot open the GPU's device nodes /dev/kfd or /dev/dri/render*.

    AMD's and Intel's compute stacks open these nodes for reading and writing. They belong to root and a group, usually
    render (video on older systems). Add the user to the group that owns them and log in again. A container needs the
    numeric id of that group on the host, since the name may map to another number inside.
    """
    yield from _seen(facts)
    yield from _seen_of_intel(facts)
    if for_others(facts) and not on_bus(facts, *MAKERS):
        return  # NVIDIA's nodes are meant
    outright = heard(facts, *REFUSED)
    strange = _strange(facts)
    there = not any(ABSENT in one.line for one in said(facts, "kfd-not-opened"))  # permissions matter only then
    fails = heard(facts, *FAILS) or (heard(facts, "device-owner") and heard(facts, "ailing-said"))
    fails = fails or (amd.alone(facts) and heard(facts, "no-device"))  # of HIP, which calls itself CUDA
    closed = any("rw-rw-rw-" not in one.line for one in said(facts, *GROUP)) and not _in_group(facts)
    only_root = (there and closed and fails) or (
        heard(facts, "works-as-root") and (heard(facts, "kfd-not-opened") or _in_neither(facts))
    )
    only_root = only_root or (heard(facts, "works-as-root") and heard(facts, *EMPTY, "rocm-named"))
    advised = heard(facts, ADVICE) and not heard(facts, "root-fails-said")
    if not (outright or advised or only_root or strange or _shut_out(facts)):
        return
    nodes = " and ".join(_nodes(facts))
    yield user_not_in_render_group.finding(
        title=f"{nodes} belongs to group {strange} here, not to render: users in the group render cannot open it"
        if strange
        else f"This user cannot open {nodes}: the GPU's nodes belong to {_called(_groups(facts))}",
        detail="A container has its own group numbers: the host's render group id is another group there, or none."
        if strange
        else "The kernel's driver is loaded; opening its nodes for reading and writing is refused.",
        confidence=Confidence.CERTAIN if outright else Confidence.LIKELY,
        because=(*grounds(facts, *REFUSED, ADVICE, *GROUP, *FAILS, most=6), *_of_user(facts)),
        fix=_fix(facts),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    """Yield the finding if this login cannot open the nodes of AMD's GPUs, as the system answers."""
    shut = amd.closed(facts)
    if shut and amd.computing(facts):
        grave = (amd.cards(facts) or amd.wanted(facts)) and not amd.ready(facts)
        held = (because(facts, amd.MODULE, "nodes"), because(facts, amd.MODULE, "login", "groups"))
        yield _closed(facts, shut, table(told(facts, amd.MODULE), "login"), held, grave=bool(grave))


def _seen_of_intel(facts: Facts) -> Iterator[Finding]:
    """Return the same for Intel's: of a card of its own, or of any where a framework is built for it."""
    shut = intel.closed(facts)
    if shut and (intel.discrete(facts) or intel.xpu_builds(facts)):
        gpu = next(copy for copy in intel.cards(facts) if shut[0] in items(copy.facts, "nodes"))
        held = (
            because_of(facts, intel.INTEL_GPU, gpu, "nodes"),
            because_of(facts, intel.INTEL_GPU, gpu, "login", "groups"),
        )
        yield _closed(facts, shut, table(gpu.facts, "login"), held, grave=True)


def _closed(
    facts: Facts,
    shut: Sequence[Mapping[str, JsonValue]],
    login: Mapping[str, JsonValue],
    held: tuple[Because, ...],
    *,
    grave: bool,
) -> Finding:
    """Return the finding on nodes that this login may not use; what it weighs depends on who waits for the GPU."""
    paths = [name for node in shut if (name := text(node, "path"))]
    numbered = ((text(node, "group"), number(node, "gid")) for node in shut)
    owners = list(dict.fromkeys(name or f"number {gid}" for name, gid in numbered))
    again = [name for name in texts(login, "account_groups") if name in owners and name not in texts(login, "groups")]
    fix = _fix(facts)
    return user_not_in_render_group.finding(
        severity=Severity.INFO if nvidia_here(facts) else Severity.ERROR if grave else Severity.WARNING,
        title=f"This user cannot open {' and '.join(paths)}: the GPU's nodes belong to {_called(owners)}",
        detail=f"The account is in {' and '.join(again)} now, but this login session is older." if again else "",
        because=held,
        fix=replace(
            fix,
            text="Log out and in again, or start a shell with the group.",
            commands=(sh("newgrp {group}", group=NAME(again[0])),),
            needs_root=False,
        )
        if again and not facts.host.container
        else fix,
    )


def _shut_out(facts: Facts) -> bool:
    """Return whether modes, owner and the user's own groups together keep the user out."""
    held = texts(told(facts, "user"), "groups")
    return (
        bool(held)
        and "root" not in held
        and any(
            one.values.get("others") == "---" and one.values.get("group") not in held
            for one in said(facts, "device-owner")
            if "others" in one.values
        )
    )


def _in_group(facts: Facts) -> bool:
    return "render" in texts(told(facts, "user"), "groups")


def _in_neither(facts: Facts) -> bool:
    """Return whether the user's groups are known and include no usual one, and an AMD or Intel program fails."""
    held = texts(told(facts, "user"), "groups")
    spoken = heard(facts, "rocm-named", "rocm-tool-named", *FAILS[1:]) or bool(text(told(facts, "rocm"), "version"))
    return bool(held) and spoken and not {"root", *USUAL} & {*held}


def _strange(facts: Facts) -> str:
    """Return the group that owns a render node in a container, where that is none of a GPU's; empty otherwise."""
    if not containers.mentioned(facts):
        return ""
    for one in said(facts, "device-owner"):
        path = one.values.get("path") or one.values.get("path2") or ""
        group = (one.values.get("group") or one.values.get("group2") or "").rpartition(":")[2]
        if group and group not in OWNERS and ("render" in path or "kfd" in path):
            return group
    return ""


def _nodes(facts: Facts) -> list[str]:
    named = [
        one.values.get("path") or one.values.get("path2") for one in said(facts, "render-permission", "device-owner")
    ]
    kfd = ["/dev/kfd"] if heard(facts, "kfd-permission", ADVICE) or not any(named) else []
    whole = (one if one.startswith("/") else f"/dev/{'' if one == 'kfd' else 'dri/'}{one}" for one in named if one)
    return list(dict.fromkeys([*kfd, *(one.rstrip(":,") for one in whole)]))


def _groups(facts: Facts) -> list[str]:
    """Return the groups that would do: those that messages name, render first."""
    names = ("group", "group2", "group3")
    named = [next((one.values[name] for name in names if one.values.get(name)), "") for one in said(facts, *GROUP)]
    found = [name for name in dict.fromkeys(named) if name and name not in {"root", "nogroup"}]
    held = texts(told(facts, "user"), "groups")
    return [name for name in found or USUAL if name not in held] or list(USUAL)


def _called(groups: Sequence[str]) -> str:
    return f"the group{'s' if len(groups) > 1 else ''} {' and '.join(groups)}"


def _of_user(facts: Facts) -> tuple[Because, ...]:
    return (because(facts, "user", "groups"),) if texts(told(facts, "user"), "groups") else ()


def _fix(facts: Facts) -> Fix:
    if facts.host.container or heard(facts, "docker-run") or _strange(facts):
        return fixes.advice(
            "Start the container with both nodes and the number of the group that owns them on the machine "
            "(ls -ln /dev/kfd /dev/dri).",
            sh(
                "docker run --rm --device=/dev/kfd --device=/dev/dri"
                " --group-add $(getent group render | cut -d: -f3) rocm/rocm-terminal rocminfo"
            ),
            verify=sh("rocminfo"),
        )
    return fixes.advice(
        "Add the user to the groups, then log out and in again.",
        sh("sudo usermod -aG render,video $USER"),
        sh("ls -l /dev/kfd /dev/dri"),
        verify=sh("id -nG"),
    )


SHM_WORDS_SAID = (
    *("shm-full", "nccl-shm", "shm-bus-error", "shm-too-small-said", "ray-shm-small"),
    "worker-bus-error",
)
# What it can look like where the size of the shared memory is given as well.
MAYBE = ("bus-error-plain", "nccl-system-error")
SHM_MIB = 1 << 20
# Below this DeepSpeed's ds_report warns. NCCL was seen to die in ncclShmOpen with Docker's 64 MiB: pytorch/tutorials,
# commit 0ba3e39. Both read 2026-11-21.
LEAST = 512 * SHM_MIB
SMALL = 256 * SHM_MIB  # Docker gives 64 MiB, and NCCL alone wants some tens for each pair of GPUs
AMPLE = 1 << 35
SEVERAL = 2


@rule("container-shm-too-small", Layer.CONTAINER, "limits")
def container_shm_too_small(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The shared memory of this container (/dev/shm) is too small for several GPUs.

    Docker gives a container 64 MB of it by default. NCCL passes data between the processes of several GPUs through it,
    and PyTorch's data loaders pass batches through it: both die with "No space left on device" or a bus error. Start
    the container with more of it, or with the host's.
    """
    held, many = number(told(facts, "limits"), "shm_bytes"), len(gpus(facts))
    in_text = heard(facts, *SHM_WORDS_SAID) or (held is not None and held <= SMALL and heard(facts, *MAYBE))
    in_text = in_text or (heard(facts, MAYBE[0]) and (containers.mentioned(facts) or heard(facts, "gpus-talk")))
    in_text = in_text and not (held is not None and held >= AMPLE and from_text(facts))
    several, used = many >= SEVERAL, bool(facts.host.container and many)
    if not in_text and not (held is not None and held < LEAST and used and (several or any(builds(facts)))):
        return
    who = f"NCCL on {many} GPUs" if several else "data loaders with many workers"
    yield container_shm_too_small.finding(
        severity=Severity.ERROR if in_text else Severity.WARNING if several else Severity.INFO,
        title="Shared memory (/dev/shm) is too small: NCCL or a data loader found no room in it"
        if in_text
        else f"Shared memory in this container (/dev/shm) has {(held or 0) // SHM_MIB} MiB, too little for {who}",
        detail=(f"It has {held // SHM_MIB} MiB. " if held else "")
        + "A container gets 64 MiB of it by default; each GPU's process needs some, and so do data loaders.",
        confidence=Confidence.CERTAIN
        if heard(facts, "shm-full")
        else Confidence.LIKELY
        if in_text or several
        else Confidence.POSSIBLE,
        because=grounds(facts, *SHM_WORDS_SAID, "shm-size", *MAYBE, "docker-run")
        if in_text
        else (because(facts, "limits", "shm_bytes"),),
        fix=fixes.advice(
            "Start the container with more shared memory (docker run --shm-size=8g), or with the host's "
            f"(--ipc=host); in Kubernetes mount an emptyDir of medium Memory on /dev/shm. {containers.SHOWN}",
            sh("docker run --rm --shm-size=8g ubuntu df -h /dev/shm"),
            verify=sh("df -h /dev/shm"),
        ),
    )


GIB = 1 << 30


@rule("memlock-too-small", Layer.ENVIRONMENT, "limits", Severity.INFO)
def memlock_too_small(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The locked-memory limit is low, and RDMA network cards need locked memory.

    InfiniBand and RoCE cards read and write memory directly, so NCCL locks what they use. With a small limit it fails
    once a second machine takes part (ibv_reg_mr: Cannot allocate memory). On one machine it does not matter. Raise the
    limit where the jobs are started: in limits.conf, in the unit of the service, or for the container.
    """
    limits, starved = told(facts, "limits"), said(facts, "rdma-no-memory")
    memlock = number(limits, "memlock_bytes")
    low = memlock is not None and memlock < GIB and flag(limits, "may_lock") is False and bool(texts(limits, "rdma"))
    if not (starved or (low and gpus(facts))):
        return
    container = bool(facts.host.container)
    title = "Programs may not lock as much memory as RDMA between machines needs"
    if low and memlock is not None:
        title = f"Programs may lock {memlock >> 10} KiB of memory, which is too little for RDMA between machines"
    yield memlock_too_small.finding(
        layer=Layer.CONTAINER if container else Layer.ENVIRONMENT,
        severity=Severity.ERROR if starved else Severity.INFO,
        confidence=Confidence.LIKELY if starved else Confidence.CERTAIN,
        title=title,
        because=grounds(facts, "rdma-no-memory")
        if starved
        else (because(facts, "limits", "memlock_bytes"), because(facts, "limits", "rdma")),
        fix=fixes.advice(
            "Raise the limit where the jobs are started"
            + (f" (docker run --ulimit memlock=-1). {containers.SHOWN}" if container else "."),
            sh("docker run --rm --ulimit memlock=-1 ubuntu bash -c 'ulimit -l'")
            if container
            else sh("ulimit -l unlimited"),
            verify=sh("ulimit -l"),
        ),
    )
