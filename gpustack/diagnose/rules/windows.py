"""Windows and WSL: whose libcuda is found, and what has no native GPU build."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.fixes import manager
from gpustack.diagnose.machine import amd, containers, naming
from gpustack.diagnose.machine.events import grounds, heard, said, value
from gpustack.diagnose.machine.frameworks import because_package, installed
from gpustack.diagnose.machine.inventory import DRIVER, nvidia_here, on_windows
from gpustack.diagnose.machine.values import because, copies, number, status, text, told, version
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import frameworks
from gpustack.matrix.subjects.ranges import is_version
from gpustack.model.command import PATH, sh, step
from gpustack.model.facts import Facts, Layer, Status
from gpustack.model.report import Because, Confidence, Finding, Fix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix

FOLDER, WSL_LIBCUDA = "/usr/lib/wsl/lib", "libcuda.so"
# Folders of a library path that hold a libcuda of Linux, where there is one.
OTHERS = re.compile(r"^/usr/lib(?:64)?/?$|^(?:/usr)?/lib/x86_64-linux-gnu|/compat(?:/|$)|/stubs(?:/|$)")
PACKAGE = ("linux-driver-package", "linux-driver-said")
BLOCKED = "nvml-blocked"
ELSEWHERE, SMI_FAILS = "wsl-other-libcuda-said", "smi-fails-said"
INSTEAD = re.compile(r"\b(?:instead of|rather than) (?:that of |the one in )?/usr/lib/wsl\b")
START, NO_MODULE = "cuinit-no-device", "nvml-not-loaded"
SMI, WINDOWS, CRASH = "smi-version", "windows-driver", "crash-said"
HELPS, STUB = "wsl-path-helps-said", "stub-driver"
APART = 4  # the nvidia-smi that Windows puts into WSL is of the driver's branch, whose number there is 0 to 3 more
NO_GPU = ("no-device", "no-driver-found")
FAILS = (
    *(*NO_GPU, "cuda-available-false", "insufficient-driver", "cuda-unknown-error"),
    *("init-error", "nvml-not-loaded", "nvml-no-start", "torch-init-failed", "cuda-fails-said"),
)


def _linux_driver(facts: Facts) -> bool:
    """Return whether a Linux driver was installed inside WSL, so that its files are used instead of Windows'."""
    package = heard(facts, "linux-driver-package") or text(told(facts, DRIVER), "package") is not None
    if heard(facts, BLOCKED):
        return facts.host.wsl or package or not facts.host.os
    if not facts.host.wsl:
        return False
    if _foreign_smi(facts) and heard(facts, *FAILS, CRASH):
        return True
    if heard(facts, "driver-package-failed", "nvml-mismatch", NO_MODULE):
        return True
    return heard(facts, "linux-driver-said") or (
        package and heard(facts, *FAILS, CRASH, SMI_FAILS, "module-out-said", "nvml-mismatch", "nvml-missing")
    )


def _foreign_smi(facts: Facts) -> tuple[str, str] | None:
    """Return the releases of nvidia-smi inside WSL and of Windows' driver, where they are of two branches."""
    inside = value(facts, SMI, "smi", "smi2")
    outside = value(facts, WINDOWS, "driver") or value(facts, SMI, "driver")
    if not inside or not outside or 0 <= int(outside[:3]) - int(inside[:3]) < APART:
        return None
    return inside, outside


def _elsewhere(facts: Facts) -> tuple[str, ...]:
    """Return where a libcuda was found that is not that of Windows."""
    names = ("path", "path2", "path3")
    told_ = said(facts, "ldconfig-libcuda", "libcuda-file", ELSEWHERE)
    found = (next((one.values[name] for name in names if one.values.get(name)), "") for one in told_)
    return tuple(dict.fromkeys(path for path in found if path and "/wsl/" not in path and "/stubs" not in path))


def _shadowed(facts: Facts) -> bool:
    """Return whether another libcuda than that of Windows is found: by its path, or since nvidia-smi alone works."""
    if not facts.host.wsl or _linux_driver(facts):
        return False
    if _unread(facts) or heard(facts, HELPS, STUB) or any(INSTEAD.search(one.line) for one in said(facts, ELSEWHERE)):
        return True
    if not heard(facts, *FAILS, SMI_FAILS):
        return False
    works = heard(facts, "wsl-smi-works") or number(told(facts, "nvml"), "code") == 0
    return bool(_elsewhere(facts) or _before(facts)) or (works and heard(facts, *NO_GPU)) or _starts_blind(facts)


def _unread(facts: Facts) -> bool:
    """Return whether a program cannot open libcuda.so while that of Windows, by that very name, is said to be there."""
    sought = any(one.values.get("soname", "").lower() == WSL_LIBCUDA for one in said(facts, *MISSING))
    places = (one for one in said(facts, "libcuda-place") if re.search(r"/wsl/lib/libcuda\.so(?![.\w])", one.line))
    return sought and any("symlink" not in one.line for one in places)


def _starts_blind(facts: Facts) -> bool:
    """Return whether cuInit itself says that it sees no GPU, while nvidia-smi is not said to fail."""
    return heard(facts, START) and not heard(facts, SMI_FAILS, "module-out-said", "nvml-not-loaded", "smi-no-devices")


def _before(facts: Facts) -> str:
    """Return the folder on LD_LIBRARY_PATH that comes before the one of Windows and usually holds another libcuda."""
    for one in said(facts, "ld-library-path", "ld-library-path-added"):
        for folder in one.values.get("path", "").split(":"):
            if folder.rstrip("/") == FOLDER:
                break
            if OTHERS.search(folder):
                return folder
    return ""


# What packages of the driver are called, and none of the container toolkit (libnvidia-container1) or a CUDA toolkit.
PURGE = sh(
    "sudo apt-get purge $(dpkg-query -Wf '${Package}\\n' | grep -E "
    "'^(nvidia-(driver|utils|dkms|kernel|compute|firmware|smi)|cuda-drivers|libcuda1$|"
    "libnvidia-(cfg|common|compute|decode|encode|extra|fbc|gl|ml))')"
)


@rule(
    "wsl-linux-driver-installed",
    Layer.ENVIRONMENT,
    "nvidia-driver",
    from_messages=True,
    explained_by=("container-cgroup-lost-devices",),
)
def wsl_linux_driver_installed(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A Linux driver was installed inside WSL, which uses the Windows driver.

    In WSL the GPU is reached through Windows: its driver puts libcuda and nvidia-smi into /usr/lib/wsl/lib, and the
    Linux kernel has no NVIDIA module. Packages such as nvidia-driver, nvidia-utils, libnvidia-compute or cuda-drivers
    bring files of the same names that cannot work there. Remove them, install toolkits without a driver (cuda-toolkit),
    restart WSL.
    """
    if not _linux_driver(facts):
        return
    package = value(facts, "linux-driver-package", "package", "listed")
    package = package or text(told(facts, DRIVER), "package") or value(facts, "driver-package-failed", "package")
    smi = _foreign_smi(facts)
    what = package or (f"of nvidia-smi {smi[0]}" if smi else "such as nvidia-utils")
    yield wsl_linux_driver_installed.finding(
        title=f"A Linux driver ({what}) inside WSL hides the Windows driver in {FOLDER}",
        detail="In WSL only the Windows driver works; a package of the Linux driver (nvidia-driver, nvidia-utils, "
        "libnvidia-compute) puts a libcuda, libnvidia-ml and nvidia-smi in front of it that cannot reach the GPU."
        + (f" Here nvidia-smi is {smi[0]}, the driver of Windows {smi[1]}." if smi else ""),
        confidence=Confidence.LIKELY if package or smi or heard(facts, *PACKAGE) else Confidence.POSSIBLE,
        because=(
            *grounds(facts, *PACKAGE, "driver-package-failed", SMI, WINDOWS, BLOCKED, *FAILS, CRASH, most=6),
            *naming.known(facts, (DRIVER, "package"), ("gpu", "name")),
        ),
        fix=fixes.advice(
            "Remove every package of the Linux driver inside WSL, and restart WSL; keep the driver on Windows.",
            PURGE
            if manager(facts) in {"apt", None}
            else step("remove the packages of NVIDIA's Linux driver, and no other NVIDIA packages"),
            sh("sudo ldconfig"),
            sh("wsl.exe --shutdown"),
            verify=sh("/usr/lib/wsl/lib/nvidia-smi"),
        ),
    )


@rule(
    "wsl-libcuda-shadowed",
    Layer.ENVIRONMENT,
    "libcuda",
    from_messages=True,
    explained_by=("wsl-linux-driver-installed", "cuda-visible-devices-invalid", "container-no-gpus-flag"),
)
def wsl_libcuda_shadowed(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """In WSL, programs load a libcuda other than the Windows driver's in /usr/lib/wsl/lib.

    The driver of Windows puts its libcuda into /usr/lib/wsl/lib, and only that one reaches the GPU. A libcuda from a
    Linux package, a toolkit's compat folder or a conda environment that the loader finds first sees no GPU, while
    nvidia-smi, which has its own way there, works. Put /usr/lib/wsl/lib first, and remove the other.
    """
    if not _shadowed(facts):
        return
    others = _elsewhere(facts)
    before = _before(facts)
    named = ", ".join(others) or (f"the one in {before} (LD_LIBRARY_PATH)" if before else "")
    found = f"{named} is found first" if named else "CUDA sees no GPU, so another copy is found first"
    yield wsl_libcuda_shadowed.finding(
        title=f"In WSL, libcuda must come from {FOLDER}: {found}",
        detail="nvidia-smi usually works, since it has its own way to the Windows driver. ldconfig -p and "
        "LD_LIBRARY_PATH show which libcuda.so.1 programs load.",
        confidence=Confidence.LIKELY if named else Confidence.POSSIBLE,
        because=(
            *grounds(
                facts,
                *(HELPS, STUB, *FAILS, SMI_FAILS, ELSEWHERE, "ldconfig-libcuda", "libcuda-file", "wsl-smi-works"),
                *("ld-library-path", "ld-library-path-added"),
                most=6,
            ),
            *naming.known(facts, ("nvml", "version"), ("nvml", "cuda_version"), ("gpu", "name")),
        ),
        fix=fixes.advice(
            f"Put {FOLDER} first on the library path (Numba: NUMBA_CUDA_DRIVER) and remove the other libcuda.",
            sh("export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"),
            sh("export NUMBA_CUDA_DRIVER=/usr/lib/wsl/lib/libcuda.so.1"),
            sh("ldconfig -p | grep libcuda"),
            verify=sh("gpustack doctor"),
        ),
    )


MISSING = ("libcuda-not-found", "libcuda-nowhere")
THERE = containers.LIBCUDA
PLAIN = frozenset({"libcuda.so", "-lcuda", "libcuda"})
USUAL = "/usr/lib/x86_64-linux-gnu"


@rule(
    "libcuda-so-symlink-missing",
    Layer.ENVIRONMENT,
    "libcuda",
    from_messages=True,
    explained_by=(
        "wsl-libcuda-shadowed",
        "wsl-linux-driver-installed",
        "container-no-gpus-flag",
        "container-toolkit-missing",
    ),
)
def libcuda_so_symlink_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The driver's library is installed, but the name libcuda.so, by which a program looks for it, is missing.

    The driver installs libcuda.so.<release>, and libcuda.so.1 as a name of it. Programs that compile or that load CUDA
    by themselves (Triton, Numba, cuDNN, a linker with -lcuda) also want the plain name libcuda.so on the loader's
    search path, which drivers in containers, WSL and slim packages do not provide. Create the link, or name the folder.
    """
    names = _names(facts)
    here = heard(facts, *THERE, "nix-program") or number(told(facts, "nvml"), "code") == 0 or facts.host.wsl
    plain = not names.isdisjoint(PLAIN)
    if (
        not names
        or amd.foreign(facts)
        or containers.without_gpu(facts, matrix)
        or heard(facts, *containers.NOT_FOUND)
        or not (plain or here)
    ):
        return
    if (on_windows(facts) and not facts.host.wsl) or status(facts, "libcuda") is Status.ABSENT:
        return  # the driver's library is nvcuda.dll there: the program was written for Linux; or it is nowhere
    folder, driver = _folder(facts), naming.driver_name(facts, matrix)
    yield libcuda_so_symlink_missing.finding(
        title=f"{' and '.join(sorted(names))} cannot be found, though the driver's libcuda.so.1 should be in {folder}"
        if plain
        else f"libcuda.so.1 is not on the loader's search path, though the driver is installed ({folder})",
        detail="The plain name libcuda.so comes with a developer package, not with every driver."
        + (f" The machine has {driver}." if driver else ""),
        confidence=Confidence.CERTAIN if plain and here else Confidence.LIKELY,
        because=(*grounds(facts, *MISSING, *THERE, most=6), *naming.of_driver(facts)),
        fix=_fix(folder, facts),
    )


def _names(facts: Facts) -> set[str]:
    """Return the names under which libcuda was not found."""
    found = (one.values.get("soname") or one.values.get("soname2") or "libcuda.so" for one in said(facts, *MISSING))
    return {name.lower() for name in found if name}


def _folder(facts: Facts) -> str:
    """Return the folder of the driver's libcuda: where it was seen, else where it usually is."""
    found = (
        value(facts, THERE[0], "path")
        or value(facts, "libcuda-place", "path", "path2")
        or value(facts, THERE[1], "path")
    )
    if facts.host.wsl:
        return FOLDER
    folder = (found or "").rpartition("/libcuda")[0] or (found or "").rstrip("/")
    return folder or USUAL


def _fix(folder: str, facts: Facts) -> Fix:
    where = PATH(folder)
    link = sh("sudo ln -s libcuda.so.1 {folder}/libcuda.so", folder=where)
    path = sh("export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH", folder=where)
    ldconfig = sh("echo {folder} | sudo tee /etc/ld.so.conf.d/libcuda.conf && sudo ldconfig", folder=where)
    return fixes.advice(
        "Create the link and add the folder to the loader's configuration, or put it on the library path (for "
        "the linker also LIBRARY_PATH; without a driver, as while an image is built, -L/usr/local/cuda/lib64/stubs).",
        *((path, ldconfig) if facts.host.wsl else (link, ldconfig)),
        root=True,
        verify=sh("ldconfig -p | grep libcuda"),
    )


LAST = "2.10"
NAMES = ("tensorflow", "tensorflow-intel", "tensorflow-gpu")
SAYS, LISTS, EMPTY = "tf-windows", "tf-cpu-listed", "tf-gpu-empty"
SOUGHT = (LISTS, EMPTY, "tf-built-with-cuda", "tf-no-cuda-drivers", "gpu-unused-said", "cuda-available-true")


@rule("tf-no-native-windows-gpu", Layer.FRAMEWORK, "tensorflow")
def tf_no_native_windows_gpu(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """TensorFlow after 2.10 does not use the GPU on Windows itself.

    2.10 was the last release with GPU support on native Windows; newer ones have no CUDA support there, whatever else
    is installed, and list only the CPU. Run it in WSL2, or use TensorFlow 2.10 with CUDA 11.2 and cuDNN 8.1.
    """
    release = version(facts, "tensorflow") or installed(facts, *NAMES)
    windows = "windows" in (facts.host.os or "").lower() or bool(installed(facts, "tensorflow-intel"))
    here = (
        windows
        and not facts.host.wsl
        and not heard(facts, "tf-gpu-listed")
        and not bool(installed(facts, "tensorflow-directml-plugin", "tensorflow-directml"))
    )
    without = is_version(release or "") and frameworks.tensorflow_gpu_on(matrix, release or "", "windows") is False
    without = without or (release is None and _without_cuda(facts))
    sought = nvidia_here(facts) or bool(copies(facts, "gpu")) or status(facts, "cuda-toolkit") or heard(facts, *SOUGHT)
    if heard(facts, SAYS) or (here and without and sought):
        yield _finding(facts, release)


def _without_cuda(facts: Facts) -> bool:
    """Return whether TensorFlow itself says that it has no CUDA, and is no build for the processor by its name."""
    answers = [one.values.get("answer") for one in said(facts, "tf-built-with-cuda")]
    return "False" in answers and not installed(facts, "tensorflow-cpu")


def _finding(facts: Facts, release: str | None) -> Finding:
    said = heard(facts, SAYS)
    return tf_no_native_windows_gpu.finding(
        title=f"TensorFlow {release or 'here'} does not use the GPU on native Windows: {LAST} is the last that does",
        detail="Installing CUDA and cuDNN changes nothing; driver and GPU are not at fault.",
        because=(*grounds(facts, SAYS, LISTS, EMPTY, "tf-built-with-cuda"), *_ground(facts)),
        confidence=Confidence.CERTAIN if said or release else Confidence.LIKELY,
        fix=fixes.advice(
            f"Run TensorFlow in WSL2, which uses the GPU through the Windows driver; or use TensorFlow {LAST}.",
            sh("wsl --install"),
            sh('wsl.exe -- python3 -m pip install "tensorflow[and-cuda]"'),
            step('on Windows itself, with Python 3.7 to 3.10: `python -m pip install "tensorflow<2.11"`'),
            verify=sh("python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\""),
        ),
    )


def _ground(facts: Facts) -> Iterator[Because]:
    if version(facts, "tensorflow"):
        yield because(facts, "tensorflow", "version")
    else:
        yield from (one for name in NAMES for one in because_package(facts, name))
    if facts.host.os:
        yield Because(component="host", fact="os", value=facts.host.os)
