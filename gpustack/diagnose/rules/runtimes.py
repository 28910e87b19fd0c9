"""Runtimes beside CUDA: Level Zero, oneAPI, and the drivers that OpenCL and Vulkan list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import driver_packages, fixes
from gpustack.diagnose.machine import intel
from gpustack.diagnose.machine.events import grounds, heard, said, value
from gpustack.diagnose.machine.inventory import nvidia_here, on_bus
from gpustack.diagnose.machine.values import because, because_of, copies, flag, items, status, table, text, texts, told
from gpustack.diagnose.rule import rule
from gpustack.model.command import PATH, VARIABLE, Command, sh, step
from gpustack.model.facts import Facts, JsonValue, Layer, Status, product
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


LEVEL_ZERO_LIBRARY, LOADER = "libze_intel_gpu.so.1", "libze_loader.so.1"
MISSING, NONE, EMPTY, DEAD = "ze-library-missing", "ze-version-missing", "ze-no-gpu", "ze-uninitialized"
WEAK = ("xpu-no-devices", "ze-no-devices", "sycl-no-devices", "sycl-no-gpu-listed")
OPENCL = ("intel-opencl-icd", "intel-opencl")  # the OpenCL half of the runtime, in packages of its own
HALVES = re.compile(r"level[-_]zero|libze[-_]?intel|libze1")
INSTALL = {
    "apt": sh("sudo apt-get install libze1 libze-intel-gpu1"),
    "dnf": sh("sudo dnf install oneapi-level-zero intel-compute-runtime"),
    "zypper": sh("sudo zypper install level-zero intel-compute-runtime"),
    "pacman": sh("sudo pacman -S level-zero-loader intel-compute-runtime"),
}


@rule(
    "intel-level-zero-missing",
    Layer.DRIVER,
    "level-zero",
    explained_by=("user-not-in-render-group", "oneapi-env-not-sourced"),
)
def intel_level_zero_missing(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The GPU half of Intel's Level Zero is not installed, so SYCL and PyTorch see no Intel GPU.

    Level Zero comes in two halves: the loader (libze_loader.so.1) that programs link, and the driver for GPUs
    (libze_intel_gpu.so.1), a part of Intel's compute runtime. With the loader alone, zeInit finds nothing, while OpenCL
    may well list the GPU. Install the GPU half from your distribution or Intel's repository.
    """
    yield from _level_zero_seen(facts)
    opencl = _opencl_alone(facts)
    here = bool(copies(facts, "intel-gpu") or on_bus(facts, "intel") or opencl) or heard(facts, "sycl-opencl-gpu")
    weak = heard(facts, *WEAK) and not heard(facts, "sycl-listed") and not heard(facts, "oneapi-library")
    weak = weak and text(told(facts, "pytorch"), "accelerator") not in {"cuda", "cpu"}  # it has no code to ask with
    only_opencl = heard(facts, "sycl-opencl-gpu") and not heard(facts, "sycl-listed", "oneapi-library")
    if not heard(facts, MISSING, NONE, EMPTY, DEAD) and not ((weak and here) or only_opencl):
        return
    name = value(facts, MISSING, "soname", "package") or LEVEL_ZERO_LIBRARY
    loader = "loader" in name or name == "libze1"
    yield intel_level_zero_missing.finding(
        title=f"Intel's Level Zero {'loader' if loader else 'driver for GPUs'} ({name}) is not installed",
        detail="The loader (libze1) alone finds no GPU: the GPU half comes with Intel's compute runtime."
        + (" OpenCL lists the GPU, so the kernel's driver works." if heard(facts, "sycl-opencl-gpu") else "")
        + (f" Installed is {opencl}, the OpenCL half, and no level-zero package." if opencl else ""),
        confidence=_sure(facts),
        because=grounds(facts, MISSING, NONE, EMPTY, DEAD, *WEAK, "sycl-opencl-gpu", most=6),
        fix=_install(facts),
    )


def _level_zero_seen(facts: Facts) -> Iterator[Finding]:
    """Return the finding where half of Level Zero was not found, and a GPU here is meant for computing.

    That is a card of its own, or any Intel GPU where a framework is built for it; beside an NVIDIA GPU nobody waits
    for the GPU in the processor. Nothing says so while the GPU's nodes are shut: that is another matter.
    """
    builds = intel.xpu_builds(facts)
    gpus = intel.cards(facts) if builds and not nvidia_here(facts) else intel.discrete(facts)
    absent = status(facts, intel.LEVEL_ZERO) is Status.ABSENT
    half = not any(text(copy.facts, "kind") == "level-zero" for copy in copies(facts, intel.RUNTIME))
    looked = status(facts, intel.RUNTIME) in {Status.ABSENT, Status.PRESENT}
    if not gpus or facts.host.wsl or not looked or not (absent or half) or intel.starts(facts):
        return
    name = LEVEL_ZERO_LIBRARY if half else LOADER
    yield intel_level_zero_missing.finding(
        severity=Severity.ERROR if builds else Severity.WARNING,
        title=f"Intel's Level Zero {'driver for GPUs' if half else 'loader'} ({name}) is not installed: nothing can "
        f"compute on the {intel.name_of(gpus[0])}",
        detail="".join(f"{one.name} is built for it. " for one in builds[:1])
        + f"The kernel's driver {text(gpus[0].facts, 'driver')} works; PyTorch and SYCL also need Level Zero.",
        because=(
            because_of(facts, intel.INTEL_GPU, gpus[0], "driver"),
            _looked_for(facts, intel.RUNTIME if half else intel.LEVEL_ZERO),
            *(because_of(facts, one.component, one.copy, "build") for one in builds[:1]),
        ),
        fix=_install(facts),
    )


def _looked_for(facts: Facts, component: str) -> Because:
    seen = facts.find(component)
    return Because(
        component=component,
        fact="status",
        value=seen.status.value if seen else None,
        source=seen.source if seen else "",
    )


def _install(facts: Facts) -> Fix:
    debian = driver_packages.distribution(facts) == "debian"  # 12 and 13, by its archive of 2026-11-23
    by_hand = step("install level-zero and Intel's compute runtime")
    of_intel = step(
        "install libze1, and the GPU half from https://github.com/intel/compute-runtime/releases: Debian 12 and 13 have"
        " no libze-intel-gpu1"
    )
    return fixes.advice(
        "Install the GPU half of Level Zero.",
        of_intel if debian else INSTALL.get(fixes.manager(facts) or "") or by_hand,
        root=True,
        verify=sh("sycl-ls"),
    )


def _opencl_alone(facts: Facts) -> str | None:
    """Return the OpenCL package for Intel's GPUs if packages were listed and none is Level Zero's."""
    packages = table(told(facts, "system-packages"), "packages")
    found = next((f"{name} {packages[name]}" for name in OPENCL if name in packages), None)
    return None if any(HALVES.search(name) for name in packages) else found


def _sure(facts: Facts) -> Confidence:
    if heard(facts, MISSING):
        return Confidence.CERTAIN
    return Confidence.LIKELY if heard(facts, NONE, DEAD, "sycl-opencl-gpu") else Confidence.POSSIBLE


ONEAPI_LIBRARY, INACTIVE = "oneapi-library", "oneapi-not-active"


@rule("oneapi-env-not-sourced", Layer.ENVIRONMENT, "oneapi")
def oneapi_env_not_sourced(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The oneAPI environment was not set up, so its libraries are not found.

    oneAPI installs below /opt/intel/oneapi, outside the loader's search path. Its script setvars.sh puts the folders of
    the compiler, MKL and the other libraries on the paths of one shell, and has to be run in each. The number in a
    soname says which release of oneAPI a program was built with; another release brings another number. Install that
    release if it is not there, and run the script before the program.
    """
    yield from _oneapi_seen(facts)
    if not heard(facts, ONEAPI_LIBRARY, INACTIVE):
        return
    names = ", ".join(dict.fromkeys(one.values.get("soname", "") for one in said(facts, ONEAPI_LIBRARY)))
    absent = any("path" in one.values for one in said(facts, INACTIVE))
    yield oneapi_env_not_sourced.finding(
        title="The oneAPI environment is not set up (setvars.sh)" + (f": {names} cannot be found" if names else ""),
        detail="oneAPI itself does not seem to be installed: its setvars.sh is not there."
        if absent
        else "Its libraries lie below /opt/intel/oneapi, which only its own script puts on the library path.",
        confidence=Confidence.CERTAIN if heard(facts, INACTIVE) else Confidence.LIKELY,
        because=grounds(facts, ONEAPI_LIBRARY, INACTIVE),
        fix=fixes.advice(
            "Install the oneAPI Base Toolkit of the release that the program was built with, if it is not there, "
            "and run its script in the shell that starts the program.",
            sh("source /opt/intel/oneapi/setvars.sh"),
            verify=sh("sycl-ls"),
        ),
    )


def _oneapi_seen(facts: Facts) -> Iterator[Finding]:
    """Return each framework for Intel's GPUs whose SYCL library the loader would not find, while oneAPI lies here."""
    root = next((copy.path for copy in copies(facts, "oneapi") if flag(copy.facts, "script")), None)
    for build in intel.xpu_builds(facts) if root and not texts(told(facts, "oneapi"), "on_library_path") else ():
        search = table(build.copy.facts, "search")
        lost = [name for name in search if name.startswith("libsycl.so.") and not items(search, name)]
        if lost:
            yield oneapi_env_not_sourced.finding(
                instance=build.mark,
                title=f"The oneAPI environment is not set up (setvars.sh): {build.name} needs {lost[0]}, which the "
                "loader does not find",
                detail=f"oneAPI lies in {root}, outside the loader's search path, and no wheel brings the library.",
                confidence=Confidence.LIKELY,
                because=(
                    because_of(facts, build.component, build.copy, "search", lost[0]),
                    because(facts, "oneapi", "variables"),
                ),
                fix=fixes.advice(
                    "Run oneAPI's script in the shell that starts the program; the release must be the one that "
                    "the framework was built with.",
                    sh("source {root}/setvars.sh", root=PATH(root)),
                    verify=sh("sycl-ls"),
                ),
            )


OTHER = ("i386", "i486", "i586", "i686", "x86_32")  # words in the names of files for 32-bit programs
ICD_MAKERS = {"nvidia": ("nvidia",), "amd": ("amd",), "intel": ("intel", "igdrcl")}
HERE = frozenset({Status.PRESENT, Status.FAILED})


def broken(facts: Facts, component: str, finding: str, verify: Command) -> Iterator[Finding]:
    """Return each registered driver whose library is not there, where there is a loader that programs would ask."""
    if status(facts, component) not in HERE:
        return
    seen = facts.find(component)
    for icd in items(told(facts, component), "icds"):
        library, file, by = text(icd, "library"), text(icd, "file"), text(icd, "by")
        if library is None or text(icd, "path") or text(icd, "error") or _for_32_bits(icd):
            continue
        where = file or "OCL_ICD_FILENAMES"
        yield Finding(
            id=finding,
            instance=where if file else library,
            severity=Severity.WARNING if _computes(component, library, facts) else Severity.INFO,
            layer=Layer.RUNTIME,
            component=component,
            title=f"{where} registers the {product(component)} driver {library}, which does not exist",
            detail="The loader skips it: the devices of that driver are missing from every list."
            + (f" The file was named by {by}." if by and by != "folder" else ""),
            because=(Because(component=component, fact=where, value=library, source=seen.source if seen else ""),),
            fix=fixes.advice(
                "Reinstall the package of that driver, or remove it; a file that belongs to no package can be moved "
                "away.",
                sh("dpkg -S {file} || rpm -qf {file}", file=PATH(where)),
                step("if no package owns it: `sudo mv {file} {off}`", file=PATH(where), off=PATH(f"{where}.off")),
                verify=verify,
            )
            if file
            else fixes.advice(
                "Remove the library from the variable.", sh("unset {variable}", variable=VARIABLE(where)), verify=verify
            ),
        )


def _computes(component: str, library: str, facts: Facts) -> bool:
    """Return whether programs compute through it on a GPU that is here; Vulkan is for pictures."""
    makers = [maker for maker, words in ICD_MAKERS.items() if any(word in library.lower() for word in words)]
    return component == "opencl" and any(on_bus(facts, maker) or copies(facts, f"{maker}-gpu") for maker in makers)


def _for_32_bits(icd: JsonValue) -> bool:
    """Return whether it is for 32-bit programs, whose libraries are found on other paths."""
    return text(icd, "bits") == "32" or any(word in (text(icd, "file") or "") for word in OTHER)


@rule("opencl-icd-broken", Layer.RUNTIME, "opencl", Severity.INFO)
def opencl_icd_broken(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A driver is registered for OpenCL, but its library is missing.

    Each file of /etc/OpenCL/vendors names the library of one driver, and the loader shows the devices of all that it
    can load. A missing one is skipped silently: clinfo lists fewer platforms, or none (error -1001). Usually a driver
    was removed and its file stayed, or a container was given the file without the library.
    """
    yield from broken(facts, "opencl", "opencl-icd-broken", sh("clinfo -l"))


@rule("vulkan-icd-broken", Layer.RUNTIME, "vulkan", Severity.INFO)
def vulkan_icd_broken(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A driver is registered for Vulkan, but its library is missing.

    Each manifest in the loader's folders (vulkan/icd.d), or named by VK_DRIVER_FILES, names the library of one driver.
    The loader skips what it cannot load, and says so only if asked to (VK_LOADER_DEBUG=all). Usually a driver was
    removed and its manifest stayed, or a container was given the manifest without the library.
    """
    yield from broken(facts, "vulkan", "vulkan-icd-broken", sh("vulkaninfo --summary"))
