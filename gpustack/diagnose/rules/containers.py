"""Containers and jobs: what keeps the GPU from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.fixes import CONTAINERS
from gpustack.diagnose.machine import amd, containers, naming
from gpustack.diagnose.machine.containers import NOT_FOUND, NOT_WORKING, TOOLKIT
from gpustack.diagnose.machine.events import because_said, grounds, heard, said, value
from gpustack.diagnose.machine.inventory import for_cuda, nvidia_here, ours
from gpustack.diagnose.machine.processes import left_out, refused, withheld
from gpustack.diagnose.machine.values import because, because_of, flag, items, number, text, told
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import toolkits
from gpustack.model.command import ADDRESS, NAME, sh, step
from gpustack.model.facts import Facts, Layer, Strength
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


@rule(
    "container-no-gpus-flag",
    Layer.CONTAINER,
    "nvidia-container-toolkit",
    explained_by=("container-toolkit-missing", "docker-snap", "container-capabilities-missing"),
)
def container_no_gpus_flag(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The machine has a GPU and its driver, but this container was started without them.

    The bus and the kernel's modules show through into the container, but the device nodes are missing: the container
    runtime was not asked for GPUs. Start the container with --gpus all (podman: --device nvidia.com/gpu=all;
    Kubernetes: a request for nvidia.com/gpu), on a machine with the NVIDIA container toolkit. AMD's GPUs need no
    toolkit: give the container /dev/kfd and /dev/dri, and the group that owns them.
    """
    in_text = containers.without_gpu(facts, matrix)
    if not in_text:
        yield from _of_amd(facts)
    module = told(facts, "nvidia.ko")
    driven = flag(module, "loaded") or any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    if not in_text and not (driven and left_out(facts)):
        return
    asked, driver = containers.asked_for_gpu(facts), naming.driver_name(facts, matrix)
    seen = (("linux-kernel", "container"), ("nvidia.ko", "loaded"), ("nvidia.ko", "nodes"))
    how = ": neither --gpus nor a device reservation requests one"
    how = how if asked is False else " (no --gpus), so it has no driver"
    yield container_no_gpus_flag.finding(
        severity=Severity.ERROR if in_text or for_cuda(facts) else Severity.INFO,
        title=f"This container was started without a GPU{how}"
        if in_text
        else "This container was started without the host's GPU",
        detail="The driver's programs and libraries (nvidia-smi, libcuda) are mounted into a container from the host, "
        f"and only if a GPU is requested.{f' The machine has {driver}.' if driver else ''}" * in_text,
        confidence=Confidence.LIKELY
        if in_text and asked is not False and not heard(facts, "ngc-no-gpu")
        else Confidence.CERTAIN,
        because=grounds(facts, *containers.UNGIVEN, "docker-run", *containers.NOT_FOUND, *containers.NOT_WORKING)
        if in_text
        else tuple(because(facts, *names) for names in seen),
        fix=_flag_fix(facts),
    )


ABSENT, STATED = "No such file or directory", Strength.STATED
INSIDE = ("container-inside-said", "container-told", "docker-run")


def _of_amd(facts: Facts) -> Iterator[Finding]:
    """Yield the finding where a container has software for AMD GPUs and no /dev/kfd, and its machine drives one."""
    missing = next((one for one in said(facts, "kfd-not-opened") if ABSENT in one.line or one.strength is STATED), None)
    if missing and (facts.host.container or heard(facts, *INSIDE)):
        yield container_no_gpus_flag.finding(
            component=amd.MODULE,
            title=f"This container was started without {amd.KFD}, so ROCm finds no GPU in it",
            because=(because_said(missing), *grounds(facts, *INSIDE)),
            fix=_amd_fix(facts),
            confidence=Confidence.LIKELY,
        )
        return
    driven = [gpu for gpu in amd.gpus(facts) if gpu.driver == "amdgpu"]
    held = {text(node, "path"): flag(node, "exists") for node in items(told(facts, amd.MODULE), "nodes")}
    if not facts.host.container or not driven or not amd.wanted(facts) or held.get(amd.KFD) is not False:
        return
    yield container_no_gpus_flag.finding(
        instance="amd",
        severity=Severity.WARNING if nvidia_here(facts) else Severity.ERROR,
        component=amd.MODULE,
        title=f"This container was started without {amd.KFD}, so ROCm finds no GPU in it; the host has one",
        because=(
            because(facts, "linux-kernel", "container"),
            because_of(facts, "amd-gpu", driven[0].copy, "driver"),
            because(facts, amd.MODULE, "nodes"),
        ),
        fix=_amd_fix(facts),
    )


def _amd_fix(facts: Facts) -> Fix:
    return fixes.advice(
        "Start the container with /dev/kfd, /dev/dri and the group that owns them (often render beside video).",
        sh(containers.AMD, engine=NAME("podman" if facts.host.container == "podman" else "docker")),
        verify=sh("rocminfo"),
    )


def _flag_fix(facts: Facts) -> Fix:
    lines = " ".join(one.line.lower() for one in said(facts, "docker-run", containers.TOLD))
    named = next((kind for word, kind in containers.ENGINES.items() if word in lines), "")
    kind = named or containers.kind(facts) or "docker"
    return fixes.advice(
        f"Start the container with the GPU: {containers.WAYS[kind]}. {containers.SHOWN}",
        containers.COMMANDS[kind],
        verify=sh("nvidia-smi"),
    )


BLAMED, UNKNOWN, LOST, RELOAD = "reload-blamed-said", "nvml-unknown", "container-lost-said", "daemon-reload"
WITH = ("node-not-permitted", "restart-helps-said", *NOT_WORKING)
LATER, UPDATED, LESS = "later-without-gpu-said", "docker-update-said", ("cgroup-devices", "node-not-permitted")


@rule(
    "container-cgroup-lost-devices",
    Layer.CONTAINER,
    "nvidia-container-toolkit",
    explained_by=("gpu-fell-off-bus", "gsp-timeout", "driver-library-mismatch"),
)
def container_cgroup_lost_devices(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The container's device rules have lost the GPU.

    The nodes are there and may be opened by their modes, yet opening is refused: the container's cgroup no longer lists
    them. That happens to running containers when systemd reloads its units (systemctl daemon-reload), and NVML then
    says "Unknown Error". Start the container again; to keep that from coming back, pass the devices by CDI or --device.
    """
    reloaded = heard(facts, BLAMED) and heard(facts, *WITH) and not heard(facts, *TOOLKIT)
    reloaded = reloaded or (heard(facts, "node-not-permitted") and heard(facts, "restart-helps-said", RELOAD))
    off = flag(told(facts, "nvidia-container-toolkit"), "no_cgroups") and heard(facts, UNKNOWN, "nvml-blocked")
    inside = containers.mentioned(facts)
    unknown = heard(facts, UNKNOWN) and (inside or not facts.host.wsl)
    updated = heard(facts, UPDATED) and heard(facts, "no-device", "gpu-vanishes", "cgroup-devices")
    in_text = off or unknown or reloaded or (inside and (updated or heard(facts, LOST, LATER)))
    lost = [path for path, by_mode in refused(facts) if not by_mode]
    if not in_text and (not facts.host.container or not lost or withheld(facts)):
        return
    sure = not in_text or heard(facts, RELOAD, "cgroup-devices")
    nvml = " (Failed to initialize NVML: Unknown Error)" * heard(facts, UNKNOWN)
    yield container_cgroup_lost_devices.finding(
        title="The container toolkit writes no device rules for the GPU (no-cgroups), so the container cannot open it"
        if off
        else f"The container's cgroup has lost the GPU's device nodes{nvml}"
        if in_text
        else f"The container's device rules refuse {', '.join(lost)}, although its permissions allow it",
        detail="The container worked until systemd rewrote its device rules (systemctl daemon-reload, or an update "
        "that does the same): nodes that systemd does not know are refused since then. The machine itself is fine."
        * (in_text and not off),
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY if inside else Confidence.POSSIBLE,
        because=grounds(facts, "toolkit-no-cgroups", UNKNOWN, LOST, LATER, UPDATED, RELOAD, *LESS, "host-smi-works")
        if in_text
        else (because(facts, "nvidia.ko", "nodes"), because(facts, "nvml", "error")),
        fix=fixes.advice(
            "Only rootless containers need that setting. Set it to false, and restart Docker.",
            sh("sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups=false --in-place"),
            sh("sudo systemctl restart docker"),
            verify=RUNS,
        )
        if off
        else fixes.advice(
            "Restart the container, with its devices passed by CDI: --device nvidia.com/gpu=all in place of --gpus. "
            f"{containers.SHOWN} Or name each node (--device /dev/nvidia0 and so on), make links in /dev/char "
            "(nvidia-ctk system create-dev-char-symlinks --create-all), or let Docker use cgroupfs.",
            sh("docker run --rm --device nvidia.com/gpu=all ubuntu nvidia-smi"),
            verify=sh("nvidia-smi"),
        ),
    )


RUNS, NO_LIBRARY = sh("docker run --rm --gpus all ubuntu nvidia-smi"), "toolkit-needs-nvml"
OF_DRIVER = ("libdxcore", "libnvidia", "libcuda.so", "libnvoptix")
SNAP_FAILS = (
    *(NO_LIBRARY, *TOOLKIT, "toolkit-driver-not-loaded", "no-device", "cuda-available-false"),
    *(*NOT_FOUND, "gpu-unused-said", "module-out-said", "cuda-fails-said", "gpu-complaint"),
)


@rule("docker-snap", Layer.CONTAINER, "docker", from_messages=True)
def docker_snap(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Docker comes from a snap, which cannot see the machine's driver.

    A snap is confined: it sees neither the libraries of the host's driver nor Docker's configuration in /etc/docker, so
    the NVIDIA container toolkit finds no libnvidia-ml.so.1, or Docker knows no GPU at all. Remove the snap and install
    Docker from Docker's own packages, then the toolkit.
    """
    named = heard(facts, "docker-snap") and (heard(facts, *SNAP_FAILS) or _no_driver_library(facts))
    if not named and not _unseen_driver(facts):
        return
    yield docker_snap.finding(
        title="Docker is a snap, and a snap cannot see the machine's driver"
        if named
        else "Docker does not see the machine's working driver (libnvidia-ml.so.1), as when Docker is a snap",
        detail="The container toolkit looks for the driver's libraries where the snap cannot see them."
        if named
        else "Check with `snap list docker` whether Docker is a snap. Docker Desktop and rootless Docker can cause "
        "the same.",
        confidence=Confidence.LIKELY if named else Confidence.POSSIBLE,
        because=grounds(facts, "docker-snap", *SNAP_FAILS, "host-smi-works"),
        fix=_snap_fix(named=named),
    )


def _snap_fix(*, named: bool) -> Fix:
    """Return how to remove the snap, which deletes all that Docker holds; only a check if it may not be a snap."""
    if not named:
        return fixes.advice(
            "Check whether Docker is a snap; if so, replace it with Docker's own packages.",
            sh("snap list docker"),
            verify=RUNS,
        )
    return fixes.advice(
        "Save what you need: removing the snap deletes its images, containers and volumes. Then remove it, and install"
        " Docker from Docker's own packages and nvidia-container-toolkit.",
        sh("sudo snap save docker"),
        step("when images and volumes are saved or not needed: `sudo snap remove docker`"),
        step("install docker-ce from Docker itself, and nvidia-container-toolkit ({page})", page=ADDRESS(CONTAINERS)),
        sh("sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"),
        verify=RUNS,
    )


def _no_driver_library(facts: Facts) -> bool:
    """Return whether a library was not found that is the driver's own, on Linux or that of Windows in WSL."""
    return any(one.values.get("soname", "").startswith(OF_DRIVER) for one in said(facts, "missing-library"))


def _unseen_driver(facts: Facts) -> bool:
    works = heard(facts, "host-smi-works") or number(told(facts, "nvml"), "code") == 0
    return heard(facts, NO_LIBRARY) and works and not facts.host.wsl and not heard(facts, "docker-desktop")


WHAT = {
    "no-gpu-driver": "it has no device driver with the capability gpu",
    "unknown-runtime": "it knows no runtime called nvidia",
    "cdi-unresolvable": "it has no description (CDI) of the GPUs",
    "runtime-not-found": "a program of the toolkit is not there",
    "toolkit-missing-said": "it is reported missing",
}


@rule(
    "container-toolkit-missing",
    Layer.CONTAINER,
    "nvidia-container-toolkit",
    from_messages=True,
    explained_by=("docker-snap",),
)
def container_toolkit_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The container engine cannot pass GPUs on: the NVIDIA container toolkit is not installed or not configured.

    Docker, Podman and containerd pass a GPU on only with the help of the NVIDIA container toolkit. Without it they do
    not know a runtime called nvidia, a device driver with the capability gpu, or the names of CDI devices. Install
    nvidia-container-toolkit, let nvidia-ctk write the engine's configuration, and restart the engine.
    """
    kinds = dict.fromkeys(one.kind for one in said(facts, *TOOLKIT))
    if not kinds or (list(kinds) == ["cdi-unresolvable"] and heard(facts, "cdi-spec-there")) or containers.idle(facts):
        return  # it names other GPUs than those that are here
    driver = naming.driver_name(facts, matrix)
    yield container_toolkit_missing.finding(
        title=f"nvidia-container-toolkit is not installed or not configured for {_engine(facts)}: "
        + ", ".join(dict.fromkeys(WHAT.get(kind, "a part of it is missing or off") for kind in kinds)),
        detail=f"The driver itself is there: {driver}." if driver else "",
        confidence=Confidence.CERTAIN,
        because=grounds(facts, *TOOLKIT, "runtimes-listed", "docker-run"),
        fix=_toolkit_fix(facts),
    )


def _engine(facts: Facts) -> str:
    lines = " ".join(one.line.lower() for one in said(facts, *TOOLKIT, "docker-run"))
    if "podman" in lines:
        return "podman"
    return "containerd" if "is configured" in lines or "runtimehandler" in lines else "docker"


def _toolkit_fix(facts: Facts) -> Fix:
    engine = _engine(facts)
    configure = sh("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
    if engine != "podman":
        configure = sh("sudo nvidia-ctk runtime configure --runtime={engine}", engine=NAME(engine))
    install = fixes.from_nvidia(facts, "nvidia-container-toolkit", fixes.CONTAINERS, arch="nvidia-container-toolkit")
    restart = () if engine == "podman" else (sh("sudo systemctl restart {engine}", engine=NAME(engine)),)
    return fixes.advice(
        "Install the NVIDIA container toolkit on the machine, have it write the engine's configuration, and "
        "restart the engine.",
        *install,
        configure,
        *restart,
        root=True,
        verify=sh("docker run --rm --gpus all ubuntu nvidia-smi"),
    )


REQUIRES_SAID = ("cuda-requirement", "image-wants-driver")
ENVIRONMENT, TOLD, REQUIRES_FAILS = "cuda-requirement-env", "image-requires-said", "container-fails-said"


@rule(
    "container-requires-newer-driver",
    Layer.DRIVER,
    "nvidia-driver",
    explained_by=("forward-compat-804", "compat-libs-803"),
)
def container_requires_newer_driver(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The image requires a driver for a newer CUDA version than the machine's driver supports.

    NVIDIA's images name what they need in NVIDIA_REQUIRE_CUDA, such as cuda>=12.8. The container toolkit compares that
    with the CUDA version of the machine's driver (nvidia-smi shows it) and does not start the container. The driver
    belongs to the machine, not to the image. Update it there, or use an image for an older CUDA version.
    """
    yield from _of_jetson(facts)
    own = containers.refused_by_image(facts, matrix)
    said_so = heard(facts, *REQUIRES_SAID)
    if not (own or said_so or _refused(facts, matrix)):
        return
    cuda = CudaVersion.parse(containers.cuda_of_image(own) if own else _cuda(facts))
    asked = (
        f"a driver for CUDA {cuda} or newer (cuda>={cuda})" if cuda else f"another driver or GPU ({(own or '')[:60]})"
    )
    wanted = asked if own else _wanted(facts)
    needs = naming.native_driver(cuda, facts, matrix) if cuda else wanted
    names, variable = naming.gpu_names(facts), containers.REQUIRES
    image = Because(component="image", fact=f"variables.{variable}", value=own, source="--container-env")
    driver = naming.driver_name(facts, matrix) or "an older driver"
    yield container_requires_newer_driver.finding(
        title=f"The image requires {wanted}; this machine has {driver}",
        detail=(f"{variable}: none of its alternatives is met here." if own else f"It needs {needs}.")
        + (f" GPU: {names}." if names else ""),
        because=(
            *((image,) if own else grounds(facts, *REQUIRES_SAID, ENVIRONMENT, TOLD)),
            *naming.of_driver(facts),
            *(() if own else naming.known(facts, ("cuda-toolkit", "version"))),
        ),
        row=next((one.row for one in toolkits.releases(matrix) if one.cuda == cuda), None),
        fix=_requires_fix(needs if cuda or said_so else "the driver that the image asks for", facts, matrix),
    )


def _of_jetson(facts: Facts) -> Iterator[Finding]:
    for image, own in containers.newer_jetson(facts):
        yield container_requires_newer_driver.finding(
            title=f"The image is for Jetson Linux {image}; this Jetson has {own}",
            detail="An image for a Jetson needs the driver of its own Jetson Linux, or of a newer one of that JetPack.",
            because=grounds(facts, *containers.JETSON, *NOT_WORKING, most=3),
            fix=fixes.advice(
                f"Use the image for r{own}, or install a newer JetPack on the Jetson.", sh("cat /etc/nv_tegra_release")
            ),
            confidence=Confidence.LIKELY,
        )


def _refused(facts: Facts, matrix: Matrix) -> bool:
    """Return whether an image is said to ask for a newer CUDA than the driver has, and its container not to start."""
    told_, image = (CudaVersion.parse(value(facts, *one)) for one in ((TOLD, "needs"), ("toolkit-named", "image")))
    highest = naming.cuda_of_driver(facts, matrix)
    newer = highest and image and image.major > highest.major and heard(facts, "docker-run")
    return bool(newer or (told_ and highest and told_ > highest and heard(facts, REQUIRES_FAILS)))


def _cuda(facts: Facts) -> str | None:
    """Return the CUDA version that the image asks for: what was refused, else what stands beside it."""
    beside = value(facts, ENVIRONMENT, "needs") or value(facts, TOLD, "needs")
    return value(facts, REQUIRES_SAID[0], "needs", "image") or beside


def _wanted(facts: Facts) -> str:
    """Return what the image asks for, as it says it."""
    cuda, driver = _cuda(facts), value(facts, REQUIRES_SAID[0], "driver") or value(facts, REQUIRES_SAID[1], "needs")
    if cuda:
        below = value(facts, REQUIRES_SAID[0], "below")
        return f"a driver for CUDA {cuda} or newer (cuda>={cuda}){f', or one below {below}' if below else ''}"
    return (
        f"driver {driver} or newer" if driver else f"another driver or GPU ({value(facts, REQUIRES_SAID[0], 'other')})"
    )


def _requires_fix(needs: str, facts: Facts, matrix: Matrix) -> Fix:
    highest = naming.cuda_of_driver(facts, matrix)
    older = f"an image for CUDA {highest} or older" if highest else "an image for an older CUDA"
    return fixes.advice(
        f"On the machine itself, install {needs}. Or use {older}. Within a CUDA major version an older driver "
        "often works: NVIDIA_DISABLE_REQUIRE=1 starts the container anyway.",
        *fixes.driver(facts, matrix),
        root=True,
        reboot=True,
        verify=sh("nvidia-smi"),
    )
