"""The NVIDIA driver: its libraries against its module, and what does not start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose import driver_packages, fixes
from gpustack.diagnose.machine import containers, naming
from gpustack.diagnose.machine.events import grounds, heard, said, value
from gpustack.diagnose.machine.inventory import (
    DRIVER,
    disk_release,
    driver_release,
    from_text,
    loaded_release,
    nvidia_here,
    ours,
    user_release,
)
from gpustack.diagnose.machine.processes import withheld
from gpustack.diagnose.machine.values import because, because_of, number, status, text, texts, told
from gpustack.diagnose.rule import rule
from gpustack.diagnose.rules import NO_CUDA, NO_GPU_FOR_NVML
from gpustack.diagnose.rules.cuda_start import of_compat
from gpustack.model.command import BRANCH, Command, sh
from gpustack.model.facts import Facts, Layer, Status
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


SHUT_DOWN = (sh("wsl.exe --shutdown"),)


@rule("libcuda-missing", Layer.DRIVER, "libcuda", explained_by=("container-capabilities-missing",))
def libcuda_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The driver works, but its CUDA library (libcuda) is missing.

    NVML and nvidia-smi come with the driver's utilities, libcuda with its compute libraries. Distributions package them
    separately, and a container gets libcuda only if NVIDIA_DRIVER_CAPABILITIES includes compute. Install the package,
    or start the container with that capability.
    """
    absent = status(facts, "libcuda") is Status.ABSENT
    if not absent or number(told(facts, "nvml"), "code") != 0 or not nvidia_here(facts):
        return
    yield libcuda_missing.finding(
        title="The driver works, but its CUDA library libcuda.so.1 is missing",
        because=(
            Because(component="libcuda", fact="status", value="absent", source="the loader"),
            because(facts, "nvml", "code"),
        ),
        fix=_libcuda_fix(facts, matrix),
    )


def _libcuda_fix(facts: Facts, matrix: Matrix) -> Fix:
    if facts.host.container:
        command = sh("docker run --rm --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ubuntu ldconfig -p")
        return fixes.advice(
            "Start the container with the driver's compute libraries: docker run -e "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility. The command starts one that lists libcuda.so.1.",
            command,
            verify=sh("gpustack doctor"),
        )
    if facts.host.wsl:
        text, commands = "Update the Windows driver, which brings libcuda, and restart WSL.", SHUT_DOWN
        return fixes.advice(text, *commands, verify=sh("gpustack doctor"))
    return _installed(facts, matrix)


def _installed(facts: Facts, matrix: Matrix) -> Fix:
    """Return how the package with libcuda is installed."""
    release = user_release(facts)
    family, number = fixes.manager(facts), release.branch if release else 580
    if family == "apt":
        branch = BRANCH(number)
        ubuntu = sh("sudo apt-get install libnvidia-compute-{branch}", branch=branch)
        commands: tuple[Command, ...] = (ubuntu if fixes.ubuntu(facts) else sh("sudo apt-get install libcuda1"),)
    elif family == "zypper":  # whose parts have other names than those of Red Hat
        commands = driver_packages.commands(number, facts, matrix)
    else:
        commands = fixes.from_nvidia(facts, "nvidia-driver-cuda", fixes.DRIVERS, arch="nvidia-utils")
    return fixes.advice(
        "Install the driver's compute libraries, in the driver's own release.",
        *commands,
        sh("sudo ldconfig"),
        verify=sh("gpustack doctor"),
    )


@rule("nvml-init-failed", Layer.DRIVER, "nvml", explained_by=NO_GPU_FOR_NVML)
def nvml_init_failed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """NVML, the driver's management library, does not start.

    nvidia-smi and everything that lists GPUs go through it. Usually this follows from a deeper fault, which is then
    named as its cause. On its own, its number says what to check; the kernel's log has the driver's own message.
    """
    code, error = number(told(facts, "nvml"), "code"), text(told(facts, "nvml"), "error")
    if code == 0 or (code is None and error is None) or not nvidia_here(facts):
        return
    if from_text(facts) and facts.host.wsl and heard(facts, "smi-version"):
        return  # a function that NVML has not in WSL
    row = matrix.nvml_codes.get(code) if code else None
    name = text(told(facts, "nvml"), "code_name") or (row.name if row else "")
    yield nvml_init_failed.finding(
        title=f"NVML does not start: {_error(code, name)}" if code else "libnvidia-ml cannot be loaded",
        detail=(row.advice or row.meaning) if row else error or "",
        because=(because(facts, "nvml", "code"), because(facts, "nvml", "error")),
        row=row.row if row else None,
        fix=fixes.advice(
            "Read what the driver said to the kernel's log.",
            sh("sudo dmesg | grep -iE 'nvrm|nvidia'"),
            verify=sh("nvidia-smi"),
        ),
    )


WORDS = ("RmInitAdapter", "rm_init_adapter", "failed to initialize", "cannot be used", "BAR")


@rule("gpu-not-listed", Layer.DRIVER, "nvml", Severity.INFO, explained_by=NO_GPU_FOR_NVML)
def gpu_not_listed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The driver is loaded and lists no GPU, although one is on the bus.

    The driver could not bring the GPU up: its firmware did not start, the machine's firmware gave it no room in the
    address space (Above 4G Decoding), the flavour of the module is wrong for it, or it is broken; the kernel's log says
    which (RmInitAdapter failed). Where a scheduler hides GPUs from jobs that did not request one, this is intended and
    only a note: request a GPU.
    """
    here = ours(facts)
    if not here or number(told(facts, "nvml"), "gpu_count") != 0:
        return
    if from_text(facts) and naming.newer_than_driver(facts, matrix):
        return
    if withheld(facts):
        yield _withheld(facts)
        return
    said = [line for line in texts(told(facts, "kernel-log"), "nvrm") if any(word in line for word in WORDS)]
    yield gpu_not_listed.finding(
        severity=Severity.ERROR,
        title=f"The driver is loaded but lists no GPU, although there is one at {', '.join(copy.key for copy in here)}",
        detail=said[-1] if said else "",
        because=(
            because(facts, "nvml", "gpu_count"),
            because_of(facts, "pci-display", here[0], "driver"),
            *(Because(component="kernel-log", fact="nvrm", value=line, source="kernel log") for line in said[-1:]),
        ),
        fix=fixes.advice(
            "Read why the driver could not start it. If the log mentions BAR, switch Above 4G Decoding on "
            "in the machine's firmware; otherwise switch the machine off and on.",
            sh("sudo dmesg | grep -iE 'nvrm|nvidia'"),
            verify=sh("nvidia-smi -L"),
        ),
        confidence=Confidence.CERTAIN if said else Confidence.LIKELY,
    )


def _withheld(facts: Facts) -> Finding:
    """Return that the GPUs are the machine's and not this job's."""
    return gpu_not_listed.finding(
        title="This job was given no GPU: the machine has GPUs, but the job cannot open their device nodes",
        because=(
            because(facts, "nvml", "gpu_count"),
            because(facts, "nvidia.ko", "nodes"),
            because(facts, "libcuda", "visible"),
        ),
        fix=fixes.advice(
            "Ask the scheduler for a GPU.", sh("srun --gres=gpu:1 nvidia-smi -L"), verify=sh("nvidia-smi -L")
        ),
        confidence=Confidence.LIKELY,
    )


MISMATCH = 18
SAID = (
    *("nvml-mismatch", "api-mismatch", "tf-driver-mismatch", "modules-apart", "driver-parts-differ-said"),
    *("upgrade-until-reboot-said", "libcuda-apart", "api-mismatch-cut", "unattended-driver-said"),
)
NAMES = ("driver", "driver2", "package", "told", "smi", "plain", "shown")
RELOAD = (sh("sudo modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia"), sh("sudo modprobe nvidia"))
FLATPAK, PARTS = "flatpak-gl", ("branch", "minor", "patch")


@rule("driver-library-mismatch", Layer.DRIVER, "nvidia-driver")
def driver_library_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The loaded kernel module and the driver's libraries are different releases.

    Both come with the driver and must be the same release: NVML and CUDA refuse to start otherwise (NVML error 18).
    What to do depends on which is behind. If the module on disk is as new as the libraries, only the loaded one is old:
    reload it, or restart. If the module on disk is behind, it was not built or installed with the libraries: bring the
    packages to one release first, since a restart alone would load the old one again.
    """
    yield from _flatpak(facts)
    code, complained = number(told(facts, "nvml"), "code"), heard(facts, *SAID)
    seen = nvidia_here(facts) and code != 0 and (code == MISMATCH or apart(facts))
    if facts.host.wsl or not (seen or complained) or of_compat(facts, matrix):
        return
    row = matrix.nvml_codes.get(MISMATCH)
    yield driver_library_mismatch.finding(
        title=_mismatch(facts),
        detail=" ".join(part for part in (_why(facts), _named(facts)) if part),
        because=(*grounds(facts, *SAID), *_grounds(facts)),
        row=row.row if row and code == MISMATCH else None,
        fix=_mismatch_fix(facts, matrix),
    )


def _flatpak(facts: Facts) -> Iterator[Finding]:
    """Return the finding where Flatpak has the driver's libraries of other releases only: it needs the very same."""
    driver = driver_release(facts)
    there = said(facts, FLATPAK)
    found = [DriverRelease.parse(".".join(filter(None, map(one.values.get, PARTS)))) for one in there]
    if not (driver and there) or any(
        one is None or one == driver or (not driver.patch and (one.branch, one.minor) == (driver.branch, driver.minor))
        for one in found
    ):
        return
    releases = list(dict.fromkeys(map(str, found)))
    yield driver_library_mismatch.finding(
        title=f"Flatpak has the libraries of the driver {' and '.join(releases[-2:])}, and the driver is {driver}",
        because=grounds(facts, FLATPAK),
        confidence=Confidence.LIKELY,
        fix=fixes.advice(
            f"Update Flatpak's runtimes, so that the one of {driver} is among them. Where it is not published yet, use "
            "the driver that one is published for.",
            sh("flatpak update"),
            verify=sh("flatpak list --runtime"),
        ),
    )


def _grounds(facts: Facts) -> tuple[Because, ...]:
    if from_text(facts):
        return naming.known(
            facts,
            ("nvidia.ko", "version_loaded"),
            ("nvidia.ko", "version_on_disk"),
            *((DRIVER, name) for name in ("version", "libnvidia_ml", "package")),
        )
    return (
        because(facts, "nvidia.ko", "version_loaded"),
        because(facts, "nvidia.ko", "version_on_disk"),
        because(facts, "nvidia-driver", "libcuda"),
        because(facts, "nvidia-driver", "libnvidia_ml"),
        because(facts, "nvml", "code"),
    )


def apart(facts: Facts) -> bool:
    """Return whether the releases of module and libraries, or of the libraries themselves, are known to differ."""
    loaded = loaded_release(facts)
    return loaded is not None and any(one != loaded for one in _users(facts))


def _users(facts: Facts) -> tuple[DriverRelease, ...]:
    """Return the releases of the libraries, each once."""
    driver = told(facts, DRIVER)
    files = () if from_text(facts) else ("libnvidia_ml", "libcuda")  # a text names a library's release cut short
    named = [DriverRelease.parse(text(driver, name)) for name in files]
    seen = [one for one in [*named, user_release(facts)] if one]
    if not seen and from_text(facts):
        told_ = [text(driver, "package_version"), value(facts, "runfile", "driver"), _whole(facts)]
        seen = [one for one in map(DriverRelease.parse, told_) if one][:1]
    return tuple(dict.fromkeys(seen))


def _whole(facts: Facts) -> str | None:
    """Return the release of NVML's library, which it names without the last part, as a package beside it names it."""
    short = text(told(facts, DRIVER), "libnvidia_ml")
    named = (one.values.get(name) for one in said(facts, "release-named", "driver-told") for name in NAMES)
    return next((one for one in named if one and short and one.startswith(f"{short}.")), short)


def _loaded(facts: Facts) -> DriverRelease | None:
    """Return the release of the module in memory; in text also that of a module's source that was just built."""
    return loaded_release(facts) or DriverRelease.parse(value(facts, "module-source", "driver"))


def _named(facts: Facts) -> str:
    """Return the releases that are named beside those of module and libraries, where one of these is not known."""
    if _loaded(facts) and _users(facts):
        return ""
    held = (one.values.get(name) for one in said(facts, "release-named", "driver-told") for name in NAMES)
    known = {str(one) for one in (_loaded(facts), *_users(facts)) if one}
    found = [one for one in dict.fromkeys(held) if one and one not in known]
    return f"Also mentioned: {', '.join(found[:3])}." if found else ""


def _mismatch(facts: Facts) -> str:
    """Return which releases meet, as far as they are known."""
    module, libraries = _loaded(facts), " and ".join(str(one) for one in _users(facts))
    if not module and not libraries:
        return "The loaded kernel module and the driver libraries are different releases"
    if not module:
        return f"The driver libraries are {libraries}, but the loaded kernel module is a different release"
    return f"The loaded kernel module is {module}, but the driver libraries are {libraries or 'a different release'}"


def _why(facts: Facts) -> str:
    loaded, disk, users = loaded_release(facts), disk_release(facts), _users(facts)
    if len(users) > 1:
        return "The libraries themselves are from two releases: two installations of the driver are mixed."
    if facts.host.container and disk is None:
        return "The container brings its own driver libraries; they must be those of the host that runs it."
    if disk and disk == loaded:
        return f"The module on disk is {disk} as well: the libraries were changed, the module was not."
    if disk and disk in users:
        return f"The module on disk is {disk} already: the driver was updated and the old module is still in memory."
    return f"The module on disk is {disk}: no two parts are from the same release." if disk else ""


def _mismatch_fix(facts: Facts, matrix: Matrix) -> Fix:
    source = DriverRelease.parse(value(facts, "module-source", "driver"))
    loaded, disk, users = loaded_release(facts), disk_release(facts) or source, _users(facts)
    if facts.host.container and disk is None:
        return fixes.advice(
            "Take the driver packages (libcuda, libnvidia-ml) out of the image and restart the container: the "
            f"container toolkit mounts the host's. {containers.SHOWN}",
            containers.COMMANDS["docker"],
            verify=sh("nvidia-smi"),
        )
    before = driver_packages.without_runfile(facts)
    if len(users) > 1 or (disk and (disk == loaded or disk not in users)):
        return fixes.rebuild(
            facts,
            "Install all parts of the driver at one release, build the module, and restart.",
            *(fixes.driver(facts, matrix) if before else (fixes.reinstall(facts),)),
            sh("sudo dkms autoinstall"),
            fixes.initramfs(facts),
        )
    return fixes.advice(
        f"{fixes.place(facts)}Stop all programs on the GPU and reload the module, or restart.",
        *RELOAD,
        root=True,
        verify=sh("nvidia-smi"),
    )


def _error(code: int, name: str | None) -> str:
    return f"error {code}{f' ({name})' if name else ''}"


@rule("cuda-init-failed", Layer.DRIVER, "libcuda", explained_by=(*NO_CUDA, "nvml-init-failed"))
def cuda_init_failed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA does not start: cuInit, the first call of every CUDA program, returns an error.

    No CUDA program works until it succeeds. Usually this follows from a deeper fault, which is then named as its cause.
    On its own, its number says what to check.
    """
    libcuda = told(facts, "libcuda")
    code, error = number(libcuda, "cu_init"), text(libcuda, "error")
    if not nvidia_here(facts) or (error is None and not code):
        return
    row = matrix.cuda_codes.get(code) if code else None
    name = text(libcuda, "cu_init_name") or (row.name if row else None)
    said = _error(code, name) if code else "libcuda cannot be loaded"
    said = error or said if code == 0 else said  # it starts, and what comes next fails
    yield cuda_init_failed.finding(
        title=f"CUDA does not start: {said}",
        detail=row.meaning if row else error or "",
        because=(
            because(facts, "libcuda", "cu_init"),
            because(facts, "libcuda", "path"),
            because(facts, "libcuda", "error"),
        ),
        row=row.row if row else None,
        fix=fixes.advice(
            "Read what the driver said to the kernel's log.",
            sh("sudo dmesg | grep -iE 'nvrm|nvidia'"),
            verify=sh("gpustack doctor"),
        ),
    )
