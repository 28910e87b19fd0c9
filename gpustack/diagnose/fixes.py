"""Commands that fix things, for this distribution and this Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose import driver_packages, installing
from gpustack.diagnose.change_sets import ChangeSet, change_set
from gpustack.diagnose.machine.inventory import Build, on_windows
from gpustack.diagnose.machine.values import text, told, version
from gpustack.matrix.subjects import drivers, toolkits, torch
from gpustack.matrix.subjects.ranges import minor
from gpustack.model.command import (
    ADDRESS,
    DOTTED,
    KERNEL,
    NAME,
    PATH,
    PYTHON,
    REBOOT,
    Command,
    Word,
    requirement,
    sh,
    step,
)
from gpustack.model.report import Fix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


TORCH_INDEX = installing.TORCH_INDEX
TORCH_SEES = sh("python -c \"import torch; print(torch.ones(1, device='cuda'))\"")
TENSORFLOW_SEES = sh("python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\"")
TORCH_MULTIPLIES = sh('python -c "import torch; print(torch.ones(2, 2, device=0) @ torch.ones(2, 2, device=0))"')
USUAL = {"cuda": "cu126", "rocm": "rocm6.4", "xpu": "xpu"}
SHOWS = {"cuda": " (CUDA inside; nvidia-smi shows the highest CUDA that the driver runs)"}
JETSON = "https://docs.nvidia.com/deeplearning/frameworks/install-pytorch-jetson-platform"
HEADERS = {
    "apt": "sudo apt-get install linux-headers-{kernel}",
    "dnf": "sudo dnf install kernel-devel-{kernel} kernel-headers",
    "zypper": "sudo zypper install kernel-default-devel",
    "pacman": "sudo pacman -S --needed linux-headers",
    None: "# install the headers of kernel {kernel}: on Ubuntu or Debian `sudo apt-get install linux-headers-{kernel}`,"
    " on Red Hat Enterprise Linux, Rocky and Fedora `sudo dnf install kernel-devel-{kernel}`",
}
OWN = {
    "linuxmint": step("install NVIDIA's driver in the Driver Manager"),
    "pop": sh("sudo apt-get install system76-driver-nvidia"),
}
DRIVERS = driver_packages.GUIDE
TOOLKITS = "https://developer.nvidia.com/cuda-downloads"
CONTAINERS = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
INSTALL = {
    "apt": "sudo apt-get install {packages}",
    "dnf": "sudo dnf install {packages}",
    "zypper": "sudo zypper install {packages}",
    "pacman": "sudo pacman -S {packages}",
}
# GCC beside the system's own: package and program. Source: packages.ubuntu.com and packages.debian.org (gcc-N), Red
# Hat's documentation of GCC Toolset (RHEL 8 to 10, and Rocky and AlmaLinux with it), openSUSE and Arch Linux packages.
OLDER_GCC = {
    "apt": "sudo apt-get install gcc-{number} g++-{number}",
    "dnf": "sudo dnf install gcc-toolset-{number}",
    "zypper": "sudo zypper install gcc{number} gcc{number}-c++",
    "pacman": "sudo pacman -S gcc{number}",
}
OLDER_GXX = {"dnf": "/opt/rh/gcc-toolset-{number}/root/usr/bin/g++", None: "/usr/bin/g++-{number}"}
NO_SUCH_GCC = (
    "no package has GCC {number} or older any more: install a newer CUDA toolkit, or build in a container of that time"
)
OLDEST_GCC = 9  # of what a distribution has that is still supported (Ubuntu 22.04 has 9 to 12, Debian 12 has 11 and 12)
REINSTALL = {
    "apt": sh("sudo dpkg --configure -a && sudo apt-get --fix-broken install"),
    "dnf": sh("sudo dnf distro-sync '*nvidia*'"),
    "zypper": sh("sudo zypper install --force $(rpm -qa --qf '%{NAME} ' '*nvidia*')"),
    "pacman": sh("sudo pacman -Syu"),
}
INITRAMFS = {
    "apt": sh("sudo update-initramfs -u"),
    "dnf": sh("sudo dracut --force"),
    "zypper": sh("sudo dracut --force"),
    "pacman": sh("sudo mkinitcpio -P"),
}
USES_GPU = {
    "pytorch": "{python} -c \"import torch; print(torch.ones(1, device='cuda'))\"",
    "jax": '{python} -c "import jax; print(jax.devices())"',
    "onnxruntime": '{python} -c "import onnxruntime; print(onnxruntime.get_available_providers())"',
}
DOCTOR = sh("gpustack doctor")
DOCTOR_DEEP = sh("gpustack doctor --deep")


manager, ubuntu = driver_packages.manager, driver_packages.ubuntu


def advice(
    text: str, *commands: Command, verify: Command | None = None, root: bool = False, reboot: bool = False
) -> Fix:
    """Return what to do: in words, as commands, and how to see that it worked; whoever runs sudo needs root."""
    needs_root = root or any("sudo " in one for one in commands)
    return Fix(text=text, commands=commands, needs_root=needs_root, needs_reboot=reboot, verify=verify)


def kernel(facts: Facts, named: str | None = None) -> Word:
    """Return the release of the kernel that is named, else of the running one, or the command that prints it."""
    return KERNEL(named or version(facts, "linux-kernel") or facts.host.kernel)


def headers(facts: Facts) -> Command:
    """Return the command that installs the headers of the running kernel."""
    return sh(HEADERS[manager(facts)], kernel=kernel(facts))


def from_nvidia(facts: Facts, package: str, guide: str, *, arch: str = "") -> tuple[Command, ...]:
    """Return how a package is installed that NVIDIA's own repository has; ``arch`` names it where Arch Linux has it."""
    family, page = manager(facts), ADDRESS(guide)
    if family == "pacman" and arch:
        return (sh(INSTALL[family], packages=tuple(map(NAME, arch.split()))),)
    if family is None or family == "pacman":
        return (step("install {package} from NVIDIA's repository ({page})", package=NAME(package), page=page),)
    return (step("set up NVIDIA's repository first ({page})", page=page), sh(INSTALL[family], packages=NAME(package)))


def driver(facts: Facts, matrix: Matrix, last: int | None = None, *, branch: int | None = None) -> tuple[Command, ...]:
    """Return the commands that install a driver: of this branch, else of the last for the GPUs, else the newest."""
    number, before = branch or last or last_branch(facts, matrix), driver_packages.without_runfile(facts)
    if number is not None:
        return (*before, *driver_packages.commands(number, facts, matrix))
    if on_windows(facts):
        return driver_packages.by_windows(facts)
    if ubuntu(facts):
        return *before, sh("sudo apt-get update"), sh("sudo ubuntu-drivers install")
    name = driver_packages.distribution(facts) or ""
    if name in OWN:
        return (*before, OWN[name])
    if manager(facts) is None:
        newest = max(one.number for one in drivers.branches(matrix) if one.kind in drivers.KEPT)
        return (*before, *driver_packages.commands(newest, facts, matrix))
    return *before, *from_nvidia(facts, "nvidia-open", DRIVERS, arch="nvidia-open nvidia-utils")


def last_branch(facts: Facts, matrix: Matrix) -> int | None:
    """Return the last branch of the driver that runs every NVIDIA GPU here, or None where the newest does."""
    spans = map(matrix.span, driver_packages.archs(facts, matrix))
    return min((span.last for span in spans if span and span.last), default=None)


def older_gxx(facts: Facts, matrix: Matrix, newest: int) -> Command:
    """Return the path of the C++ compiler that ``older_gcc`` installs."""
    family = "dnf" if manager(facts) == "dnf" else None
    return sh(OLDER_GXX[family], number=DOTTED(str(_packaged(facts, matrix, newest) or newest)))


def _packaged(facts: Facts, matrix: Matrix, newest: int) -> int | None:
    system = told(facts, "linux-kernel")
    found = toolkits.packaged_gcc(matrix, text(system, "os_id"), text(system, "os_version"), newest)
    return found if found and found >= OLDEST_GCC else None


def older_gcc(facts: Facts, matrix: Matrix, newest: int) -> tuple[Command, ...]:
    """Return how a GCC that a toolkit accepts is installed beside the system's own, and named to nvcc."""
    packaged, family = _packaged(facts, matrix, newest), manager(facts)
    number = DOTTED(str(packaged or newest))
    if packaged is None:
        return (step(NO_SUCH_GCC, number=number),)
    if driver_packages.distribution(facts) in driver_packages.OWN_GCC:
        return (step("install GCC {number} from conda-forge (gxx), or build in a container", number=number),)
    elsewhere = step(
        "this is for Ubuntu and Debian; on Red Hat Enterprise Linux, Rocky and AlmaLinux"
        " `sudo dnf install gcc-toolset-{number}`, and the compiler is /opt/rh/gcc-toolset-{number}/root/usr/bin/g++",
        number=number,
    )
    return (
        sh(OLDER_GCC[family or "apt"], number=number),
        sh("export NVCC_CCBIN={it} CUDAHOSTCXX={it} CXX={it}", it=older_gxx(facts, matrix, newest)),
        *(() if family else (elsewhere,)),
    )


def reinstall(facts: Facts) -> Command:
    """Return the command that brings half-installed driver packages to one release."""
    return REINSTALL.get(manager(facts) or "") or step("install all packages of NVIDIA's driver from one release")


def initramfs(facts: Facts) -> Command:
    """Return the command that rebuilds the initramfs."""
    return INITRAMFS.get(manager(facts) or "") or step("rebuild the initramfs as your distribution says")


def place(facts: Facts) -> str:
    """Return where a change of the kernel or the driver must be made: inside a container it cannot be."""
    return "On the machine that runs this container: " if facts.host.container else ""


def install_torch(python: Word, release: str, tag: str) -> Command:
    """Return the command that installs this release of PyTorch in this build, whatever build of it is there now."""
    torch_ = requirement("torch", f"=={release}+{tag}")
    return sh("{python} -m pip install {torch} {index}", python=python, torch=torch_, index=installing.index(tag))


def newest_with(tag: str, facts: Facts, matrix: Matrix) -> str | None:
    """Return the newest release of PyTorch that is offered in this build, for the Python that is here."""
    python = minor(version(facts, "python")) or None
    known = [one for one in torch.releases(matrix) if python is None or python in one.pythons]
    return next((one.version for one in reversed(known) if torch.build_of(matrix, one.version, tag)), None)


def torch_wheel(build: Build, facts: Facts, matrix: Matrix) -> tuple[str, tuple[Command, ...]] | None:
    """Return in words and as commands the PyTorch that works here instead, with all that is bound to it."""
    now = ((build.copy.version or "").partition("+")[0], build.copy.build or "")
    change = change_set(facts, matrix, build.copy.environment, besides=now)
    return told_as(change, facts, build.copy.environment) if change else None


def new_torch(facts: Facts, matrix: Matrix) -> tuple[str, tuple[Command, ...]] | None:
    """Return in words and as commands the newest PyTorch that works here; None where none is known."""
    change = change_set(facts, matrix, besides=("", ""))
    return told_as(change, facts, None) if change else None


def told_as(change: ChangeSet, facts: Facts, environment: str | None) -> tuple[str, tuple[Command, ...]]:
    """Return a set of changes in words and as commands."""
    others = installing.listed([f"{name} {version}" for name, version in change.pins.items() if name != "torch"])
    beside = f" with the matching {others}" if others else " (with torchvision and torchaudio if used)"
    text = f"Install PyTorch {change.torch}, build {change.tag}{beside}."
    return text, installing.commands(change, facts, environment)


def any_torch(build: Build | None, facts: Facts, matrix: Matrix, accelerator: str = "cuda") -> Fix:
    """Return how to install a GPU build of PyTorch where the driver is not known well enough to choose it."""
    release = (build.copy.version or "").partition("+")[0] if build else ""
    offered = [one.tag for one in torch.builds_of(matrix, release) if one.accelerator == accelerator]
    tag = offered[0] if offered else USUAL[accelerator]
    wanted = release if offered else newest_with(tag, facts, matrix)
    python = build.python if build else PYTHON(None)
    return Fix(
        text=f"Install a build for this GPU, such as {tag}{SHOWS.get(accelerator, '')}.",
        commands=(install_torch(python, wanted, tag),) if wanted else (),
        verify=TORCH_SEES,
    )


def jetson(build: Build, facts: Facts, matrix: Matrix) -> Fix:
    """Return how a PyTorch for a Jetson is installed."""
    release = (build.copy.version or "").partition("+")[0]
    typed = installing.jetson(facts, matrix, build.copy.environment, release)[1]
    removed = sh("{python} -m pip uninstall -y torch torchvision torchaudio", python=build.python)
    last = step("then install the wheel for the JetPack that the first command shows")
    return Fix(
        text=f"Install the PyTorch that NVIDIA builds for this JetPack ({JETSON}), instead of the generic wheel.",
        commands=typed or (sh("cat /etc/nv_tegra_release"), removed, last),
        verify=verify(build),
    )


def off_path(folders: Iterable[str], what: str, verify: Command) -> Fix:
    """Return how to take folders off LD_LIBRARY_PATH; where none is known, those of CUDA's stubs."""
    dropped = [sh("-e {folder}", folder=PATH(folder)) for folder in folders] or [sh("-e /usr/local/cuda/lib64/stubs")]
    return Fix(
        text=f"Remove {what} from LD_LIBRARY_PATH, here and wherever your shell, module or image sets it.",
        commands=(
            sh(
                "export LD_LIBRARY_PATH=$(echo \"$LD_LIBRARY_PATH\" | tr : '\\n' | grep -vxF {dropped} | paste -sd:)",
                dropped=dropped,
            ),
        ),
        verify=verify,
    )


def verify(build: Build) -> Command:
    """Return the command that shows that a framework uses the GPU."""
    return sh(USES_GPU[build.component], python=build.python)


def verify_loaded(build: Build) -> Command:
    """Return the command that shows which libraries a framework loads: creating a tensor alone would load no cuDNN."""
    return sh("gpustack doctor --deep --python {python}", python=build.python)


def rebuild(facts: Facts, text_: str, *commands: Command) -> Fix:
    """Return a fix of the kernel's side: as root, with a restart at the end."""
    return advice(place(facts) + text_, *commands, REBOOT, verify=sh("nvidia-smi"), root=True, reboot=True)


def change_driver(facts: Facts, matrix: Matrix, text_: str, last: int | None = None) -> Fix:
    """Return how the driver that these GPUs need is installed, or that no driver runs all of them."""
    if none := driver_packages.parted(facts, matrix):
        return advice(place(facts) + none, verify=sh("gpustack doctor"))
    return rebuild(facts, text_, *driver(facts, matrix, last))
