"""The packages of NVIDIA's driver: what each distribution calls them, by branch and by the flavour of the module."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.frameworks import JETPACK, embedded
from gpustack.diagnose.machine.inventory import arch_on_bus, gpus, on_windows, ours
from gpustack.diagnose.machine.values import items, text, told
from gpustack.matrix.subjects import drivers
from gpustack.matrix.subjects import gpus as products
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import ADDRESS, BRANCH, DOTTED, NAME, NOTHING, Command, Word, sh, step

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

FAMILIES = {
    "apt": ("ubuntu", "debian", "linuxmint", "pop", "zorin", "elementary", "neon", "kali", "raspbian", "devuan"),
    "dnf": ("fedora", "rhel", "centos", "rocky", "almalinux", "ol", "amzn", "azurelinux", "nobara"),
    "zypper": ("opensuse-leap", "opensuse-tumbleweed", "opensuse", "sles", "sled", "sle-micro"),
    "pacman": ("arch", "manjaro", "endeavouros", "cachyos", "garuda"),
}
# Distributions as people name them, and as they name themselves in /etc/os-release.
DISTRIBUTIONS = {
    **{name: name for names in FAMILIES.values() for name in names},
    "red-hat": "rhel",
    "redhat": "rhel",
    "alma": "almalinux",
    "alma-linux": "almalinux",
    "rocky-linux": "rocky",
    "suse": "sles",
    "sle": "sles",
    "mint": "linuxmint",
    "linux-mint": "linuxmint",
    "arch-linux": "arch",
    "amazon-linux": "amzn",
    "al2023": "amzn",
    "azure-linux": "azurelinux",
    "oracle-linux": "ol",
    "pop-os": "pop",
    **dict.fromkeys((JETPACK, "l4t", "jetson-linux"), JETPACK),  # by the JetPack, which is of one Ubuntu
}
# Source: NVIDIA Driver Installation Guide 580 to 620, Kernel Modules and Version locking; Ubuntu Server guide and
# packages.ubuntu.com (nvidia-driver-*-server*); RPM Fusion how-to; Arch wiki (read 2026-11-22).
GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide"
UBUNTU = ("ubuntu", "zorin", "elementary", "neon")
OWN_GCC = ("fedora", "azurelinux", "nobara", "amzn")  # one GCC, and no toolset of older ones
PLAIN_DNF = ("fedora", "azurelinux", "nobara")  # without modules of dnf: a branch is kept by a lock
SERVER = frozenset({418, 450, 470, 525, 535, 550, 570, 580})  # branches that Ubuntu has for servers too
OPEN_IS_USUAL, OPEN_ALONE = 560, 620  # from these branches on the open flavour is NVIDIA's choice, and the only one
CONVENTIONS = 570  # from this branch on NVIDIA's packages are called as below
WITHOUT_STREAMS = range(10, 20)  # the Red Hat Enterprise Linux whose drivers are no streams of a module any more
PASCAL_AND_BEFORE = step("for a GPU older than Turing, such as a GTX 1080 or a V100, install it without -open")


def manager(facts: Facts) -> str | None:
    """Return the package manager of the distribution, or None where we do not know it."""
    name = distribution(facts)
    return next((family for family, names in FAMILIES.items() if name in names), None)


def distribution(facts: Facts) -> str | None:
    """Return the distribution as it names itself in /etc/os-release; None where nobody named one."""
    return text(told(facts, "linux-kernel"), "os_id")


def ubuntu(facts: Facts) -> bool:
    """Return whether the distribution takes its packages from Ubuntu, which has NVIDIA's driver itself."""
    return distribution(facts) in UBUNTU


def archs(facts: Facts, matrix: Matrix) -> frozenset[str]:
    """Return the architectures of the NVIDIA GPUs here, by their capability, their names or their device IDs."""
    named = (gpu.capability or products.capability_of(matrix, gpu.name) for gpu in gpus(facts))
    known = {found.name for one in named if one and (found := matrix.arch(one))}
    return frozenset({*known, *(arch for copy in ours(facts) if (arch := arch_on_bus(copy, matrix)))})


def parted(facts: Facts, matrix: Matrix) -> str:
    """Return that no driver runs all GPUs here, by its branches or its module's flavours; nothing if one may."""
    for old, new in permutations(sorted(archs(facts, matrix)), 2):
        older, newer = matrix.span(old), matrix.span(new)
        closed, opened = matrix.flavour(old), matrix.flavour(new)
        branches = older and newer and older.last and newer.first and older.last < newer.first
        if branches or (closed and opened and (closed.open, opened.closed) == ("impossible", "impossible")):
            return (
                f"No driver runs {old} and {new} GPUs together: take those of one kind out, "
                "or give them to a virtual machine with its own driver."
            )
    return ""


def flavour(facts: Facts, matrix: Matrix, branch: int) -> str | None:
    """Return the flavour of the kernel module that this branch needs here; None where no GPU is known."""
    rows = [row for arch in archs(facts, matrix) if (row := matrix.flavour(arch))]
    loaded = text(told(facts, "nvidia.ko"), "flavour")
    if any(row.closed == "impossible" for row in rows):
        return "open"
    if any(row.open == "impossible" for row in rows):
        return "proprietary"
    if branch >= OPEN_ALONE:
        return "open"
    if loaded in {"open", "proprietary"}:
        return loaded
    return ("open" if branch >= OPEN_IS_USUAL else "proprietary") if rows else None


def supported(least: int, last: int | None, matrix: Matrix) -> int:
    """Return the oldest branch from this one on that NVIDIA still supports; this one where the GPU runs no such."""
    alive = [
        one.number
        for one in drivers.branches(matrix)
        if one.number >= least and one.last and drivers.ended(one, matrix.date) is False and one.kind in drivers.KEPT
    ]
    fitting = [one for one in sorted(alive) if last is None or one <= last]
    return fitting[0] if fitting else least


def commands(branch: int, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return how a branch of the driver is installed on this machine, in the flavour that its GPUs need."""
    wanted, family = BRANCH(branch), manager(facts)
    kind, none = flavour(facts, matrix, branch), parted(facts, matrix)
    if on_windows(facts):
        return by_windows(facts, wanted)
    if none or embedded(facts):
        return (
            step(
                none or "the driver of a Jetson is part of its JetPack: install a newer one with NVIDIA's SDK Manager"
            ),
        )
    if ubuntu(facts):
        return (sh("sudo apt-get update"), *_apt(branch, kind, facts, matrix))
    if family is None and distribution(facts) is None:
        return _anywhere(branch, kind, facts, matrix)
    if family is None or branch < CONVENTIONS:
        where = ADDRESS(GUIDE)
        return (step("install branch {wanted} of NVIDIA's driver as described in {page}", wanted=wanted, page=where),)
    return _from_nvidia(branch, kind or "open", facts)


def without_runfile(facts: Facts) -> tuple[Command, ...]:
    """Return how a driver that NVIDIA's .run installer put here is removed: packages over it would mix two."""
    kinds = {text(one, "kind") for one in items(told(facts, "nvidia-driver"), "packages")}
    if "runfile" not in kinds:
        return ()
    why = step("the driver that is here came from NVIDIA's .run installer, which no package manager removes or updates")
    return sh("sudo nvidia-uninstall"), why


def by_windows(facts: Facts, branch: Word = NOTHING) -> tuple[Command, ...]:
    """Return what has to be done on Windows, which has the driver: in WSL none is installed."""
    which = sh("branch {branch} of NVIDIA's driver", branch=branch) if branch else sh("NVIDIA's newest driver")
    install = step("on Windows, install {which} from https://www.nvidia.com/drivers, as an administrator", which=which)
    restart = step("then type `wsl.exe --shutdown` in PowerShell on Windows, and open WSL again")
    return (install, restart) if facts.host.wsl else (install,)


def _apt(branch: int, kind: str | None, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the package of Ubuntu: for GPUs of data centres that of servers, -open where the GPU needs or takes it."""
    names = [gpu.name for gpu in gpus(facts) if gpu.name]
    central = bool(names) and all(products.class_of(matrix, name) == "datacenter" for name in names)
    is_open = kind == "open" or (kind is None and branch >= OPEN_IS_USUAL)
    package = f"nvidia-driver-{branch}{'-server' * (central and branch in SERVER)}{'-open' * is_open}"
    hint = (PASCAL_AND_BEFORE,) if kind is None and is_open else ()
    return (sh("sudo apt-get install {package}", package=NAME(package)), *hint)


def _anywhere(branch: int, kind: str | None, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands of the two likeliest distributions, each said to be of it, where nobody named one."""
    module = _stream(branch, kind or ("open" if branch >= OPEN_IS_USUAL else "proprietary"))
    package = NAME("nvidia-open" if module.endswith("-open") else "cuda-drivers")
    typed, *hints = _apt(branch, kind, facts, matrix)
    red_hat = step(
        "on Red Hat Enterprise Linux, Rocky or AlmaLinux with NVIDIA's repository:"
        " `sudo dnf module enable nvidia-driver:{module} && sudo dnf install {package}`",
        module=NAME(module),
        package=package,
    )
    return (
        sh("sudo apt-get update"),
        typed,
        *hints,
        step("these commands are for Ubuntu releases that package this branch"),
        *((red_hat,) if branch >= CONVENTIONS else ()),
        step("elsewhere as described in {page}", page=ADDRESS(GUIDE)),
    )


def _stream(branch: int, kind: str) -> str:
    return f"{branch}-open" if kind == "open" else f"{branch}-dkms"


def _from_nvidia(branch: int, kind: str, facts: Facts) -> tuple[Command, ...]:
    """Return how a branch is installed from NVIDIA's repository; Arch Linux has the newest driver and no other."""
    family, wanted = manager(facts), BRANCH(branch)
    package = NAME("nvidia-open" if kind == "open" else "cuda-drivers")
    first = step("set up NVIDIA's repository first ({page})", page=ADDRESS(GUIDE))
    if family == "apt":
        lock: tuple[Command, ...] = (sh("sudo apt-get install nvidia-driver-pinning-{wanted}", wanted=wanted),)
        return (first, sh("sudo apt-get update"), *lock, sh("sudo apt-get install {package}", package=package))
    if family == "dnf":
        if distribution(facts) in PLAIN_DNF or _major(facts) in WITHOUT_STREAMS:
            add = NOTHING if distribution(facts) not in PLAIN_DNF else sh("add")
            lock = (sh(r"sudo dnf versionlock {add} \*nvidia\*{wanted}\*", add=add, wanted=wanted),)
        else:
            lock = (sh("sudo dnf module enable nvidia-driver:{stream}", stream=NAME(_stream(branch, kind))),)
        return (first, *lock, sh("sudo dnf install {package}", package=package))
    if family == "zypper":
        return (first, sh("sudo zypper install {package}-{wanted}", package=package, wanted=wanted))
    if kind == "open":
        return (sh("sudo pacman -Syu nvidia-open nvidia-utils"),)
    return (step("build nvidia-{wanted}xx-dkms of the AUR, which is for older GPUs", wanted=wanted),)


def _major(facts: Facts) -> int:
    """Return the major version of the distribution; zero where it is not known, and Amazon's year."""
    said = text(told(facts, "linux-kernel"), "os_version") or facts.host.os or ""
    word = next((one for one in said.split() if one[:1].isdigit()), "")
    found = numbers(word.strip("()")) if DOTTED.holds(word.strip("()")) else ()
    return found[0] if found and distribution(facts) != "amzn" else 0
