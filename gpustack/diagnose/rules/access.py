"""Who may use the GPU: device nodes, groups, GPUs that were given to a virtual machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import amd, intel
from gpustack.diagnose.machine.inventory import PASSED_ON, from_text, nvidia_here, on_bus, starts
from gpustack.diagnose.machine.messages import grounds, heard, said
from gpustack.diagnose.machine.nodes import refused
from gpustack.diagnose.machine.values import because, because_of, copies, items, number, table, text, texts, told
from gpustack.diagnose.rule import rule
from gpustack.model.command import NAME, PATH, sh, step
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue


@rule("gpu-passed-through", layer=Layer.HARDWARE, component="pci-display", severity=Severity.INFO)
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


@rule("gpu-stack-not-examined", layer=Layer.HARDWARE, component="pci-display", severity=Severity.UNKNOWN)
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


@rule(
    "device-nodes-not-accessible",
    layer=Layer.ENVIRONMENT,
    component="nvidia.ko",
    severity=Severity.ERROR,
    explained_by=("container-cgroup-lost-devices",),
)
def device_nodes_not_accessible(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """This user cannot open the GPU's device nodes.

    CUDA and NVML open /dev/nvidiactl, /dev/nvidia0 … and /dev/nvidia-uvm for reading and writing. Their permissions
    here exclude this user. Widen them where the driver sets them (NVreg_DeviceFileMode), or add the user to the group
    that owns them and log in again.
    """
    paths = [path for path, by_mode in refused(facts) if by_mode]
    fails = bool(number(told(facts, "nvml"), "code")) or starts(facts) is False
    if not paths or not fails or not nvidia_here(facts):
        return
    named = tuple(map(PATH, paths))
    yield device_nodes_not_accessible.finding(
        title=f"This user cannot open {', '.join(paths)}",
        because=(because(facts, "nvidia.ko", "nodes"), because(facts, "nvidia-uvm.ko", "nodes")),
        fix=Fix(
            text=f"{fixes.place(facts)}Join the group (GROUP) that owns the nodes and log in again; or, where all "
            "users may use the GPU, open the nodes until the next start.",
            commands=(
                sh("ls -l {named}", named=named),
                step("if that is a group for GPUs and not root: `sudo usermod -aG GROUP $USER`"),
                step("or until the next boot: `sudo chmod 0666 {named}`", named=named),
            ),
            needs_root=True,
            verify=sh("nvidia-smi"),
        ),
    )


REFUSED = ("kfd-permission", "render-permission")
ADVICE = "render-advice"
GROUP = ("render-group-check", "device-owner")
ONLY_ROOT = ("works-as-root", "no-hip-device")
FAILS = (*ONLY_ROOT, "media-no-device", "rocm-tool-fails", "xpu-no-devices", "sycl-no-devices", "kfd-not-opened")
# What programs for AMD's and Intel's GPUs say that list none; where root's list has one, the user is kept out.
EMPTY = ("rocm-tool-fails", "sycl-no-devices", "xpu-no-devices", "media-no-device", "no-hip-device")
OWNERS = frozenset({"render", "video", "root", "kvm"})
USUAL = ("render", "video")


@rule("user-not-in-render-group", layer=Layer.ENVIRONMENT, component="user", severity=Severity.ERROR)
def user_not_in_render_group(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """This user cannot open the GPU's device nodes /dev/kfd or /dev/dri/render*.

    AMD's and Intel's compute stacks open these nodes for reading and writing. They belong to root and a group, usually
    render (video on older systems). Add the user to the group that owns them and log in again. A container needs the
    numeric id of that group on the host, since the name may map to another number inside.
    """
    yield from _seen(facts)
    yield from _seen_of_intel(facts)
    outright = heard(facts, *REFUSED)
    strange = _strange(facts)
    only_root = (heard(facts, *GROUP) and heard(facts, *FAILS)) or (
        heard(facts, "works-as-root") and (heard(facts, "kfd-not-opened") or _in_neither(facts))
    )
    only_root = only_root or (heard(facts, "works-as-root") and heard(facts, *EMPTY))
    if not (outright or heard(facts, ADVICE) or only_root or strange or _shut_out(facts)):
        return
    nodes, groups = " and ".join(_nodes(facts)), " and ".join(_groups(facts))
    yield user_not_in_render_group.finding(
        title=f"{nodes} belongs to group {strange} here, not to render: users in the group render cannot open it"
        if strange
        else f"This user cannot open {nodes}: the GPU's nodes belong to group {groups}",
        detail="A container has its own group numbers: the host's render group id is another group there, or none."
        if strange
        else "The kernel's driver is loaded; opening its nodes for reading and writing is refused.",
        confidence=Confidence.CERTAIN if outright else Confidence.LIKELY,
        because=(*grounds(facts, *REFUSED, ADVICE, *GROUP, *FAILS, most=6), *_of_user(facts)),
        fix=_fix(facts),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    """Give the finding where this login may not use the nodes of AMD's GPUs: asked of the system, whatever the mode."""
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
        title=f"This user cannot open {' and '.join(paths)}: the GPU's nodes belong to group {' and '.join(owners)}",
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


def _in_neither(facts: Facts) -> bool:
    """Tell whether the user's own groups are told, a program of AMD's or Intel's fails, and no usual group is there."""
    held = texts(told(facts, "user"), "groups")
    spoken = heard(facts, "rocm-named", "rocm-tool-named", *FAILS[1:]) or bool(text(told(facts, "rocm"), "version"))
    return bool(held) and spoken and not {"root", *USUAL} & {*held}


def _strange(facts: Facts) -> str:
    """Return the group that owns a render node in a container, where that is none of a GPU's; empty otherwise."""
    if not (facts.host.container or heard(facts, "container-told", "docker-run")):
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


def _of_user(facts: Facts) -> tuple[Because, ...]:
    return (because(facts, "user", "groups"),) if texts(told(facts, "user"), "groups") else ()


def _fix(facts: Facts) -> Fix:
    if facts.host.container or heard(facts, "docker-run") or _strange(facts):
        return Fix(
            text="Start the container with both nodes and the number of the group that owns them on the machine "
            "(ls -ln /dev/kfd /dev/dri).",
            commands=(
                sh(
                    "docker run --rm --device=/dev/kfd --device=/dev/dri"
                    " --group-add $(getent group render | cut -d: -f3) rocm/rocm-terminal rocminfo"
                ),
            ),
            verify=sh("rocminfo"),
        )
    return Fix(
        text="Add the user to the groups, then log out and in again.",
        commands=(sh("sudo usermod -aG render,video $USER"), sh("ls -l /dev/kfd /dev/dri")),
        needs_root=True,
        verify=sh("id -nG"),
    )
