"""Containers: how one was started, signs that the GPU was not passed through, and what its image requires.

What an image requires (NVIDIA_REQUIRE_CUDA) is read as NVIDIA's container runtime reads it: words with a space between
are alternatives, those with a comma between hold together. Source: NVIDIA/libnvidia-container, src/cli/dsl.c (5823754),
read 2026-11-21.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import naming
from gpustack.diagnose.machine.events import heard, said, value
from gpustack.diagnose.machine.inventory import builds, capabilities, driver_release, gpus
from gpustack.diagnose.machine.values import flag, table, told
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import sh
from gpustack.model.facts import Facts, Unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.matrix import Matrix

FULLY = (
    r"--gpus\b(?![= ]+[\"']?(?:0|none)[\"']?(?: |$))|(?<!\.sif )(?<!/ )--nv(?:ccli)?(?![\w-])|--rocm\b"
    r"|--runtime[= ]+[\"']?nvidia|nvidia\.com/gpu|\bnvidia-docker\b"
)
ASKS = re.compile(rf"{FULLY}|--device[= ]+[\"']?/dev/(?:nvidia|kfd|dri)", re.IGNORECASE)
ASKS_FULLY = re.compile(FULLY, re.IGNORECASE)  # with the driver's libraries, and not for the device nodes alone
NOWHERE, LIBCUDA = "libcuda-nowhere", ("ldconfig-libcuda", "libcuda-file", "libcuda-place")
TOOLKIT = (
    *("no-gpu-driver", "unknown-runtime", "cdi-unresolvable", "runtime-not-found", "toolkit-missing-said"),
    *("container-cli-incomplete", "toolkit-package-unknown", "cdi-name-taken-for-path", "toolkit-not-validated"),
)
TRIED = re.compile(r"\bnvidia/cuda\S{0,200} nvidia-smi\b")
TOLD, UNASKED = UNGIVEN = ("gpu-not-passed-said", "no-run-args-said")
# The name of its machine that TensorFlow prints: a container's own is twelve digits, a pod's ends in two hashes.
NO_DRIVER, NAMED = "kernel-driver-not-running", re.compile(r"host \((?:[0-9a-f]{12}|[\w.-]+-[0-9a-f]{8,10}-\w{5})\)")
NOT_FOUND = (
    *("ngc-no-gpu", "container-no-smi", "smi-missing", "no-driver-found", "nvml-missing", "nodes-absent-said"),
    *("tegra-nodes-absent", "smi-not-inside-said"),
)
NOT_WORKING = (
    *("cuda-available-false", "no-device", "insufficient-driver", "libcuda-not-found", "cuda-unknown-error"),
    *("device-type-unknown", "no-gpus-discovered", "kernel-driver-not-running", "cuinit-303", "tf-gpu-empty", NOWHERE),
)
# What is said where there is no driver as well, and the major of CUDA that images have if nothing tells.
TOO_OLD, USUAL = "insufficient-driver", 12
# A word that identifies the engine in a line.
ENGINES = {
    "podman": "podman",
    "apptainer": "apptainer",
    "singularity": "apptainer",
    "--nv": "apptainer",
    "nvidia.com/gpu": "kubernetes",
}
# Starts a container that only shows whether the GPU is passed through, on the container host.
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


# How GPUs get into a container, by engine; the last is for any other.
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
    """Return the engine of this container, as far as it is known: docker, podman, kubernetes or apptainer."""
    held = facts.host.container or ""
    known = {"singularity": "apptainer", "containerd": "kubernetes", "cri-o": "kubernetes"}.get(held, held)
    return known if known in WAYS else ""


def unseen(facts: Facts) -> Unseen:
    """Return that a container only has the GPUs it was started with, and how to start it with them."""
    why = f"this is a container ({facts.host.container}): it sees only the GPUs that it was started with"
    return Unseen(what="the GPUs of the machine", why=why, enable_by=f"start it with {WAYS[kind(facts)]}")


def inside(facts: Facts) -> bool:
    """Return whether a message comes from inside a container."""
    return (
        bool(facts.host.container)
        or _named(facts)
        or heard(facts, "docker-run", "compose-output", "ngc-no-gpu", "container-no-smi", TOLD, UNASKED)
        or (heard(facts, "container-inside-said") and heard(facts, "host-smi-works", "nodes-absent-said"))
    )


def mentioned(facts: Facts) -> bool:
    """Return whether this is a container, or the text tells of one."""
    return bool(facts.host.container) or heard(facts, "container-told", "docker-run")


def asked_for_gpu(facts: Facts) -> bool | None:
    """Return whether the container was started with a GPU; None if unknown."""
    if heard(facts, TOLD, UNASKED):
        return False
    started = said(facts, "docker-run")
    if heard(facts, "container-no-smi", "smi-missing") and heard(facts, "smi-version"):
        started = tuple(one for one in started if not TRIED.search(one.line))  # another container, which has its GPU
    asks = ASKS_FULLY if heard(facts, NOWHERE) else ASKS
    if heard(facts, "docker-compose-gpu") or any(asks.search(f"{one.line} {one.values}") for one in started):
        return True
    return False if started else None


def idle(facts: Facts) -> bool:
    """Return whether no GPU is here to be passed on, or only the toolkit's former wrapper (nvidia-docker) is missed."""
    former = all("nvidia-docker:" in one.line for one in said(facts, *TOOLKIT))
    return heard(facts, "nvidia-absent-said") or (former and asked_for_gpu(facts) is True)


def without_gpu(facts: Facts, matrix: Matrix) -> bool:
    """Return whether texts show a container without a GPU."""
    asked = asked_for_gpu(facts)
    if asked or heard(facts, *TOOLKIT, "hosted-runner-said"):
        return False
    if not facts.taken and mentioned(facts) and heard(facts, TOO_OLD) and _new_enough(facts, matrix):
        return True
    if not inside(facts):
        return False
    if heard(facts, *NOT_FOUND) or _named(facts):
        return True
    if heard(facts, NOWHERE) and not heard(facts, "smi-version", *LIBCUDA):
        return True
    return asked is False and (heard(facts, *NOT_WORKING) or heard(facts, UNASKED) or _answered_no(facts))


def _new_enough(facts: Facts, matrix: Matrix) -> bool:
    """Return whether the driver runs the newest CUDA that is named, or no driver is named and no CUDA after 12.

    Without a GPU a container has no libcuda, and the runtime calls that an insufficient driver. A GPU whose last driver
    runs no such CUDA has none that is new enough.
    """
    wanted = max((build.cuda.major for build in builds(facts) if build.cuda), default=USUAL)
    arch = naming.architecture(facts, matrix)
    span = matrix.span(arch) if arch else None
    last = matrix.branches.get(span.last) if span and span.last else None
    if last and last.cuda.major < wanted:
        return False
    highest = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix)
    return highest.major >= wanted if highest else wanted <= USUAL


def _named(facts: Facts) -> bool:
    """Return whether TensorFlow finds no driver on a machine whose name only a container has."""
    return any(NAMED.search(one.line) for one in said(facts, NO_DRIVER))


JETSON = ("jetson-image", "jetson-linux")


def newer_jetson(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the Jetson Linux of an image and of the machine, where the image's is newer and CUDA does not work."""
    image, own = (value(facts, kind, "l4t") for kind in JETSON)
    if image and own and numbers(image)[:2] > numbers(own)[:2] and heard(facts, "init-error", *NOT_WORKING):
        yield image, own


def _answered_no(facts: Facts) -> bool:
    """Return whether a framework with CUDA code was asked for a GPU and found none."""
    return any(
        build.accelerator in {None, "cuda"} and flag(build.copy.facts, "available") is False for build in builds(facts)
    )


REQUIRES = "NVIDIA_REQUIRE_CUDA"
TERM = re.compile(r"(?P<what>[a-z]+)(?P<how>!=|<=|>=|=|<|>)(?P<value>.+)")
HOW: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]  # of two tuples of numbers
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}
BRANDS = (("geforce", re.compile("GeForce")), ("titan", re.compile("TITAN", re.IGNORECASE)))


def refused_by_image(facts: Facts, matrix: Matrix) -> str | None:
    """Return the image's requirement that this machine does not meet; None if it may meet it, or there is none."""
    held = table(told(facts, "image"), "variables")
    given = {name: value for name, value in held.items() if isinstance(value, str)}
    wanted = given.get(REQUIRES, "")
    if not wanted.strip() or given.get("NVIDIA_DISABLE_REQUIRE", "").lower() in {"1", "true", "yes"}:
        return None
    met = [_all(words.split(","), facts, matrix) for words in wanted.split()]
    return wanted if all(one is False for one in met) else None


def cuda_of_image(wanted: str) -> str | None:
    """Return the minimum CUDA version in a requirement."""
    found = re.search(r"(?:^|[\s,])cuda>=(\d+\.\d+)", wanted)
    return found[1] if found else None


def _all(words: list[str], facts: Facts, matrix: Matrix) -> bool | None:
    met = [_met(word, facts, matrix) for word in words if word]
    return False if False in met else None if None in met else True


def _met(word: str, facts: Facts, matrix: Matrix) -> bool | None:
    """Return whether one term is met; None if the machine's value is unknown."""
    term = TERM.fullmatch(word.lower())
    if term is None:
        return None
    if term["what"] == "brand":
        brand = _brand(facts)
        return None if brand is None else HOW[term["how"]](brand, term["value"])
    here = _here(term["what"], facts, matrix)
    wanted = numbers(term["value"])
    return HOW[term["how"]](_short(here), _short(wanted)) if here and wanted else None


def _here(what: str, facts: Facts, matrix: Matrix) -> tuple[int, ...]:
    highest = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix)
    release, capability = driver_release(facts), next(iter(capabilities(facts)), None)
    known = {"cuda": highest, "driver": release, "arch": capability}
    return numbers(str(known[what])) if known.get(what) else ()


def _short(parts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers without trailing zeros: 12.0 and 12 are one version."""
    while parts and parts[-1] == 0:
        parts = parts[:-1]
    return parts


def _brand(facts: Facts) -> str | None:
    """Return the first GPU's brand as far as its name shows; that of a data-centre card differs by generation."""
    name = next((gpu.name for gpu in gpus(facts)), "")
    return next((brand for brand, words in BRANDS if words.search(name)), None)
