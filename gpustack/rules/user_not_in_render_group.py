"""This user may not open the GPU's device nodes /dev/kfd or /dev/dri/render*.

AMD's and Intel's compute stacks open these nodes for reading and writing. They belong to root and a group, mostly
render, with older systems video. Put the user into the group that owns them and log in again. A container needs the
number of that group as it is on the machine, since the name may mean another number inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.rules.reading import because, texts, told
from gpustack.rules.saying import grounds, heard, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

REFUSED = ("kfd-permission", "render-permission")
ADVICE = "render-advice"
GROUP = ("render-group-check", "device-owner")
ONLY_ROOT = ("works-as-root", "user-fails", "no-hip-device")
FAILS = (*ONLY_ROOT, "media-no-device", "rocm-tool-fails", "xpu-no-devices", "sycl-no-devices")
OWNERS = frozenset({"render", "video", "root", "kvm"})
USUAL = ("render", "video")


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a program was refused a node, or where only root may and the group is spoken of."""
    outright = heard(facts, *REFUSED)
    strange = _strange(facts)
    only_root = heard(facts, *GROUP) and heard(facts, *FAILS)
    if not (outright or heard(facts, ADVICE) or only_root or strange or _shut_out(facts)):
        return
    nodes, groups = " and ".join(_nodes(facts)), " and ".join(_groups(facts))
    yield Finding(
        id="user-not-in-render-group",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="user",
        title=f"{nodes} belongs to group {strange} here, not to render: users of the group render may not open it"
        if strange
        else f"This user may not open {nodes}: it must be in group {groups}, which owns the GPU's nodes",
        detail="A container numbers its groups by itself: the number of the machine's group render is another group in "
        "it, or none."
        if strange
        else "The kernel's driver is loaded; what is refused is opening its nodes for reading and writing.",
        confidence=Confidence.CERTAIN if outright else Confidence.LIKELY,
        because=(*grounds(facts, *REFUSED, ADVICE, *GROUP, *FAILS, most=6), *_of_user(facts)),
        fix=_fix(facts),
    )


def _shut_out(facts: Facts) -> bool:
    """Tell whether modes, owner and the user's own groups together keep the user out."""
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


def _strange(facts: Facts) -> str:
    """Give the group that owns a render node in a container, where that is none of a GPU's; empty otherwise."""
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
    """Give the groups that would do: those that messages name, render first."""
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
                "docker run --device=/dev/kfd --device=/dev/dri --group-add $(getent group render | cut -d: -f3) …",
            ),
            verify="rocminfo",
        )
    return Fix(
        text="Put the user into the groups, then log out and in again.",
        commands=("sudo usermod -aG render,video $USER", "ls -l /dev/kfd /dev/dri"),
        needs_root=True,
        verify="id -nG",
    )
