"""Containers as texts tell of them: how one was started, and what in it shows that the GPU was not passed on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import builds
from gpustack.diagnose.machine.messages import heard, said
from gpustack.diagnose.machine.values import flag
from gpustack.model.command import sh
from gpustack.model.facts import Unseen

if TYPE_CHECKING:
    from gpustack.model.facts import Facts


ASKS = re.compile(
    r"--gpus\b|--nv(?:ccli)?(?![\w-])|--rocm\b"
    r"|--runtime[= ]+[\"']?nvidia|nvidia\.com/gpu|--device[= ]+[\"']?/dev/(?:nvidia|kfd|dri)|\bnvidia-docker\b",
    re.IGNORECASE,
)
TOOLKIT = ("no-gpu-driver", "unknown-runtime", "cdi-unresolvable", "runtime-not-found", "toolkit-missing-said")
TRIED = re.compile(r"\bnvidia/cuda\S{0,200} nvidia-smi\b")
TOLD = "gpu-not-passed-said"
NOT_FOUND = ("ngc-no-gpu", "container-no-smi", "smi-missing", "no-driver-found", "nvml-missing", "nodes-absent-said")
NOT_WORKING = (
    *("cuda-available-false", "no-device", "insufficient-driver", "libcuda-not-found", "cuda-unknown-error"),
    *("device-type-unknown", "no-gpus-discovered", "kernel-driver-not-running", "cuinit-303"),
)
# A word by which a line shows which engine it is.
ENGINES = {
    "podman": "podman",
    "apptainer": "apptainer",
    "singularity": "apptainer",
    "--nv": "apptainer",
    "nvidia.com/gpu": "kubernetes",
}
# What starts a container that only shows that the GPU gets in, on the machine that runs containers.
SHOWN = "The command starts a test container, which shows whether this works on the machine."
AMD = "{engine} run --rm --device /dev/kfd --device /dev/dri --group-add video rocm/rocm-terminal rocminfo"
COMMANDS = {
    "docker": sh("docker run --rm --gpus all ubuntu nvidia-smi"),
    "podman": sh("podman run --rm --device nvidia.com/gpu=all ubuntu nvidia-smi"),
    "kubernetes": sh(
        "kubectl run gpu --rm -i --restart=Never --image=ubuntu --overrides="
        '\'{"spec":{"containers":[{"name":"gpu","image":"ubuntu","command":["nvidia-smi"],'
        '"resources":{"limits":{"nvidia.com/gpu":1}}}]}}\''
    ),
    "apptainer": sh("apptainer exec --nv docker://ubuntu nvidia-smi"),
    "lxc": sh(
        "lxc launch ubuntu:24.04 gpu-test --ephemeral -c nvidia.runtime=true"
        " && lxc config device add gpu-test gpu gpu && lxc exec gpu-test -- nvidia-smi && lxc stop gpu-test"
    ),
    "systemd-nspawn": sh(
        "sudo systemd-nspawn --directory=/ --volatile=yes --bind=/dev/nvidiactl --bind=/dev/nvidia0"
        " --bind=/dev/nvidia-uvm nvidia-smi"
    ),
}


# How GPUs get into a container, by what runs it; the last is for any other.
WAYS = {
    "docker": "docker run --gpus all (compose: deploy.resources.reservations.devices; a CI job: options: --gpus all "
    'in GitHub Actions, gpus = "all" under [runners.docker] in GitLab, each on a runner that has GPUs)',
    "podman": "podman run --device nvidia.com/gpu=all, after sudo nvidia-ctk cdi generate "
    "--output=/etc/cdi/nvidia.yaml on the machine (a CI job: the same option in the runner's configuration)",
    "kubernetes": "resources: {limits: {nvidia.com/gpu: 1}} in the pod's container, on a cluster with NVIDIA's device "
    "plugin",
    "apptainer": "apptainer exec --nv",
    "lxc": "lxc config device add, type gpu, and nvidia.runtime=true on the machine (Incus: the same with incus; "
    "Proxmox: the device nodes of /dev/nvidia* as dev0, dev1 and so on of the container, and the driver's libraries, "
    "of the machine's release and without its kernel module, installed in it)",
    "systemd-nspawn": "systemd-nspawn --bind of each of /dev/nvidia*, and the driver's libraries, of the machine's "
    "release and without its kernel module, installed in it",
    "": "the option of its runtime: docker run --gpus all, podman run --device nvidia.com/gpu=all, apptainer exec --nv",
}


def kind(facts: Facts) -> str:
    """Return what runs this container, as far as it is known: docker, podman, kubernetes or apptainer."""
    held = facts.host.container or ""
    known = {"singularity": "apptainer", "containerd": "kubernetes", "cri-o": "kubernetes"}.get(held, held)
    return known if known in WAYS else ""


def unseen(facts: Facts) -> Unseen:
    """Return that a container has the GPUs alone that it was started with, and how it is started with them."""
    why = f"this is a container ({facts.host.container}): it sees only the GPUs that it was started with"
    return Unseen(what="the GPUs of the machine", why=why, enable_by=f"start it with {WAYS[kind(facts)]}")


def inside(facts: Facts) -> bool:
    """Return whether what was said was said in a container."""
    return (
        bool(facts.host.container)
        or heard(facts, "docker-run", "compose-output", "ngc-no-gpu", "container-no-smi", TOLD)
        or (heard(facts, "container-inside-said") and heard(facts, "host-smi-works", "nodes-absent-said"))
    )


def asked_for_gpu(facts: Facts) -> bool | None:
    """Return whether the container was started with a GPU; None where nobody shows how it was started."""
    if heard(facts, TOLD):
        return False
    started = said(facts, "docker-run")
    if heard(facts, "container-no-smi") and heard(facts, "smi-version"):
        started = tuple(one for one in started if not TRIED.search(one.line))  # another container, which has its GPU
    if heard(facts, "docker-compose-gpu") or any(ASKS.search(_command(one.line, one.values)) for one in started):
        return True
    return False if started else None


def without_gpu(facts: Facts) -> bool:
    """Return whether texts show a container to which no GPU was given."""
    asked = asked_for_gpu(facts)
    if not inside(facts) or asked or heard(facts, *TOOLKIT):
        return False
    return heard(facts, *NOT_FOUND) or (asked is False and (heard(facts, *NOT_WORKING) or _answered_no(facts)))


def _answered_no(facts: Facts) -> bool:
    """Return whether a framework with code for CUDA was asked for a GPU and knows of none."""
    return any(
        build.accelerator in {None, "cuda"} and flag(build.copy.facts, "available") is False for build in builds(facts)
    )


def _command(line: str, values: object) -> str:
    return f"{line} {values}"
