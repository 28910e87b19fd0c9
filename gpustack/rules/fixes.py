"""What to type to mend things, for the distribution and the Python at hand."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from gpustack.model.report import Fix, Kept
from gpustack.rules.compatibility import newest_torch, usable_tags
from gpustack.rules.reading import text, told, version
from gpustack.rules.seen import arch_on_bus, gpus, on_windows, ours
from gpustack.subjects import gpus as products
from gpustack.subjects import torch
from gpustack.subjects.spans import minor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.rules.seen import Build

TORCH_INDEX = "https://download.pytorch.org/whl"
TORCH_SEES = "python -c \"import torch; print(torch.ones(1, device='cuda'))\""
USUAL = {"cuda": "cu126", "rocm": "rocm6.4", "xpu": "xpu"}
SHOWS = {"cuda": " (CUDA inside; nvidia-smi shows the highest CUDA that the driver runs)"}
JETSON = "https://docs.nvidia.com/deeplearning/frameworks/install-pytorch-jetson-platform"
FAMILIES = {
    "apt": ("ubuntu", "debian", "linuxmint", "pop", "zorin", "elementary", "neon", "kali", "raspbian", "devuan"),
    "dnf": ("fedora", "rhel", "centos", "rocky", "almalinux", "ol", "amzn", "azurelinux", "nobara"),
    "zypper": ("opensuse-leap", "opensuse-tumbleweed", "opensuse", "sles", "sled", "sle-micro"),
    "pacman": ("arch", "manjaro", "endeavouros", "cachyos", "garuda"),
}
HEADERS = {
    "apt": "sudo apt-get install linux-headers-{kernel}",
    "dnf": "sudo dnf install kernel-devel-{kernel} kernel-headers",
    "zypper": "sudo zypper install kernel-default-devel",
    "pacman": "sudo pacman -S --needed linux-headers",
}
# Source: NVIDIA Driver Installation Guide; Ubuntu Server guide; RPM Fusion how-to; Arch wiki (read 2026-11-21).
UBUNTU = ("ubuntu", "zorin", "elementary", "neon")
OWN = {
    "linuxmint": "# install NVIDIA's driver in the Driver Manager",
    "pop": "sudo apt-get install system76-driver-nvidia",
}
DRIVERS = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide"
TOOLKITS = "https://developer.nvidia.com/cuda-downloads"
CONTAINERS = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
INSTALL = {
    "apt": "sudo apt-get install {}",
    "dnf": "sudo dnf install {}",
    "zypper": "sudo zypper install {}",
    "pacman": "sudo pacman -S {}",
}
REINSTALL = {
    "apt": "sudo dpkg --configure -a && sudo apt-get --fix-broken install",
    "dnf": "sudo dnf distro-sync '*nvidia*'",
    "zypper": "sudo zypper install --force $(rpm -qa --qf '%{NAME} ' '*nvidia*')",
    "pacman": "sudo pacman -Syu",
}
INITRAMFS = {
    "apt": "sudo update-initramfs -u",
    "dnf": "sudo dracut --force",
    "zypper": "sudo dracut --force",
    "pacman": "sudo mkinitcpio -P",
}
REBOOT = "sudo reboot"
DOCTOR = "gpustack doctor"


def manager(facts: Facts) -> str | None:
    """Give the package manager of the distribution, or None where we do not know it."""
    name = text(told(facts, "linux-kernel"), "os_id")
    return next((family for family, names in FAMILIES.items() if name in names), None)


def kernel(facts: Facts, named: str | None = None) -> str:
    """Give the release of the kernel that is named, else of the running one, or the command that prints it."""
    release = named or version(facts, "linux-kernel") or facts.host.kernel or ""
    return release if re.fullmatch(r"[\w.+~-]+", release) else "$(uname -r)"


def headers(facts: Facts) -> str:
    """Give the command that installs the headers of the running kernel."""
    known = HEADERS.get(manager(facts) or "")
    return known.format(kernel=kernel(facts)) if known else f"# install the headers of kernel {kernel(facts)}"


def either(*commands: str) -> tuple[str, ...]:
    """Give commands of which one is enough: the first to be typed, the others marked as what may stand for it."""
    return (*commands[:1], *(f"# or: {one}" for one in commands[1:]))


def ubuntu(facts: Facts) -> bool:
    """Tell whether the distribution takes its packages from Ubuntu, which has NVIDIA's driver itself."""
    return text(told(facts, "linux-kernel"), "os_id") in UBUNTU


def from_nvidia(facts: Facts, package: str, guide: str, *, arch: str = "") -> tuple[str, ...]:
    """Give how a package is installed that NVIDIA's own repository has; ``arch`` names it where Arch Linux has it."""
    family = manager(facts)
    if family == "pacman" and arch:
        return (INSTALL[family].format(arch),)
    if family is None or family == "pacman":
        return (f"# install {package} from NVIDIA's repository: {guide}",)
    return (f"# NVIDIA's repository must be set up: {guide}", INSTALL[family].format(package))


def driver(facts: Facts, matrix: Matrix, last: int | None = None, *, branch: int | None = None) -> tuple[str, ...]:
    """Give the commands that install a driver: of this branch, else of the last that runs the GPUs, else the newest."""
    last = last or last_branch(facts, matrix)
    wanted = branch or last
    ends = wanted is not None and wanted == last
    what = f"branch {wanted} of NVIDIA's driver{', the last for this GPU' if ends else ''}"
    if on_windows(facts):
        return (f"# on Windows, install {what if wanted else 'the newest driver'} from nvidia.com",)
    if ubuntu(facts):
        which = "the last branch for this GPU" if ends else "where Ubuntu has that branch"
        named = f"sudo apt-get install nvidia-driver-{wanted}  # {which}"
        return ("sudo apt-get update", named if wanted else "sudo ubuntu-drivers install")
    if wanted:
        return (f"# install {what}: {DRIVERS}",)
    if text(told(facts, "linux-kernel"), "os_id") in OWN:
        return (OWN[text(told(facts, "linux-kernel"), "os_id") or ""],)
    if manager(facts) is None:
        return ("# install NVIDIA's driver as your distribution says",)
    return from_nvidia(facts, "nvidia-open", DRIVERS, arch="nvidia-open nvidia-utils")


def last_branch(facts: Facts, matrix: Matrix) -> int | None:
    """Give the last branch of the driver that runs every NVIDIA GPU here, or None where the newest does."""
    named = (gpu.capability or products.capability_of(matrix, gpu.name) for gpu in gpus(facts))
    known = (found.name for one in named if one and (found := matrix.arch(one)))
    archs = {*known, *(arch for copy in ours(facts) if (arch := arch_on_bus(copy, matrix)))}
    return min((span.last for span in map(matrix.span, archs) if span and span.last), default=None)


def reinstall(facts: Facts) -> str:
    """Give the command that brings half-installed driver packages to one release."""
    return REINSTALL.get(manager(facts) or "", "# install all packages of NVIDIA's driver in one release")


def initramfs(facts: Facts) -> str:
    """Give the command that builds the initial file system of the kernel anew."""
    return INITRAMFS.get(manager(facts) or "", "# build the initramfs anew")


def place(facts: Facts) -> str:
    """Give where a change of the kernel or the driver must be made: inside a container it cannot be."""
    return "On the machine that runs this container: " if facts.host.container else ""


def torch_wheel(build: Build, facts: Facts, matrix: Matrix) -> tuple[str, tuple[str, ...]] | None:
    """Give in words and as commands the PyTorch that works here: this release if it can be, else the newest."""
    series = minor(build.copy.version)
    tags = [tag for tag in usable_tags(series, facts, matrix, Kept.OK, Kept.LIMITED) if tag != build.copy.build]
    if tags:
        release, tag = (build.copy.version or "").partition("+")[0], tags[0]
        wanted = f"torch=={release}"
    else:
        newest = newest_torch(facts, matrix, minor(_python(build, facts)) or None)
        if newest is None:
            return None
        release, tag = newest
        wanted = f'"torch=={release}.*"'
    command = f"{build.python} -m pip install --force-reinstall {wanted} --index-url {TORCH_INDEX}/{tag}"
    words = f"Install PyTorch {release}, build {tag} (with torchvision and torchaudio in the same command if used)."
    return words, (command,)


def new_torch(facts: Facts, matrix: Matrix) -> tuple[str, tuple[str, ...]] | None:
    """Give in words and as commands the newest PyTorch that works here; None where none is known."""
    newest = newest_torch(facts, matrix, minor(version(facts, "python")) or None)
    if newest is None:
        return None
    release, tag = newest
    command = f'python -m pip install --force-reinstall "torch=={release}.*" --index-url {TORCH_INDEX}/{tag}'
    return f"Install PyTorch {release}, build {tag} (with torchvision and torchaudio if used).", (command,)


def any_torch(build: Build | None, matrix: Matrix, accelerator: str = "cuda") -> Fix:
    """Give how to install a GPU build of PyTorch where the driver is not known well enough to choose it."""
    release = (build.copy.version or "").partition("+")[0] if build else ""
    builds = torch.builds_of(matrix, release) if release else ()
    offered = [one.tag for one in builds if one.accelerator == accelerator]
    wanted, tag = (f"torch=={release}", offered[0]) if offered else ("torch", USUAL[accelerator])
    python = build.python if build else "python"
    return Fix(
        text=f"Install a build for this GPU, such as {tag}{SHOWS.get(accelerator, '')}.",
        commands=(f"{python} -m pip install --force-reinstall {wanted} --index-url {TORCH_INDEX}/{tag}",),
        verify=TORCH_SEES,
    )


def jetson(build: Build) -> Fix:
    """Give how a PyTorch for a Jetson is installed."""
    return Fix(
        text=f"Install the PyTorch that NVIDIA builds for this JetPack ({JETSON}), in the place of the generic wheel.",
        commands=(
            "cat /etc/nv_tegra_release  # the JetPack that the wheel must be for",
            f"{build.python} -m pip uninstall -y torch torchvision torchaudio  # then install that wheel",
        ),
        verify=verify(build),
    )


def off_path(folders: Iterable[str], what: str, verify: str) -> Fix:
    """Give how to take folders off LD_LIBRARY_PATH, their names quoted as a shell wants them."""
    dropped = " ".join(f"-e {shlex.quote(folder)}" for folder in folders)
    return Fix(
        text=f"Take {what} off LD_LIBRARY_PATH, here and where your shell, module or image sets it.",
        commands=(
            f"export LD_LIBRARY_PATH=$(echo \"$LD_LIBRARY_PATH\" | tr : '\\n' | grep -vxF {dropped} | paste -sd:)",
        ),
        verify=verify,
    )


def verify(build: Build) -> str:
    """Give the command that shows that a framework uses the GPU."""
    question = {
        "pytorch": "import torch; print(torch.ones(1, device='cuda'))",
        "jax": "import jax; print(jax.devices())",
        "onnxruntime": "import onnxruntime; print(onnxruntime.get_available_providers())",
    }
    return f'{build.python} -c "{question[build.component]}"'


def verify_loaded(build: Build) -> str:
    """Give the command that shows which libraries a framework loads: creating a tensor alone would load no cuDNN."""
    return f"gpustack doctor --deep --python {build.python}"


def rebuild(facts: Facts, text_: str, *commands: str) -> Fix:
    """Give a fix of the kernel's side: as root, with a restart at the end."""
    return Fix(
        text=place(facts) + text_, commands=(*commands, REBOOT), needs_root=True, needs_reboot=True, verify="nvidia-smi"
    )


def _python(build: Build, facts: Facts) -> str | None:
    """Give the version of the Python that a build is in."""
    python = facts.find("python")
    told_ = {copy.environment: copy.version for copy in python.instances} if python else {}
    named = {one.python: one.version for one in facts.environments}
    return told_.get(build.copy.environment) or named.get(build.copy.environment or "")
