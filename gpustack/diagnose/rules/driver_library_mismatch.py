"""The kernel module in memory and the driver's libraries are of different releases.

Both come in one package and must be of one release: NVML and CUDA refuse to start otherwise (NVML error 18). Which of
the three is behind says what to do. Where the module on disk is as new as the libraries, only the one in memory is old:
load it again, or restart. Where the module on disk is behind, it was not built or not installed with the libraries:
bring the packages to one release first, since a restart alone would load the old one again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes, naming
from gpustack.diagnose.rules.compat_said import of_compat
from gpustack.diagnose.rules.reading import because, number, text, told
from gpustack.diagnose.rules.saying import grounds, heard, said, value
from gpustack.diagnose.rules.seen import DRIVER, disk_release, from_text, loaded_release, nvidia_here, user_release
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because

MISMATCH = 18
SAID = ("nvml-mismatch", "api-mismatch", "tf-driver-mismatch")
NAMES = ("driver", "driver2", "package", "told", "smi", "plain", "shown")
RELOAD = (sh("sudo modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia"), sh("sudo modprobe nvidia"))


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where NVML says so, or where the releases differ and NVML does not show that all is well."""
    code, complained = number(told(facts, "nvml"), "code"), heard(facts, *SAID)
    seen = nvidia_here(facts) and code != 0 and (code == MISMATCH or apart(facts))
    if facts.host.wsl or not (seen or complained) or of_compat(facts):
        return
    row = matrix.nvml_codes.get(MISMATCH)
    yield Finding(
        id="driver-library-mismatch",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"The kernel module in memory is {_name(_loaded(facts))}, the libraries are {_libraries(facts)}",
        detail=" ".join(part for part in (_why(facts), _named(facts)) if part),
        because=(*grounds(facts, *SAID), *_grounds(facts)),
        row=row.row if row and code == MISMATCH else None,
        fix=_fix(facts),
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
    """Tell whether the releases of module and libraries, or of the libraries themselves, are known to differ."""
    loaded = loaded_release(facts)
    return loaded is not None and any(one != loaded for one in _users(facts))


def _users(facts: Facts) -> tuple[DriverRelease, ...]:
    """Give the releases of the libraries, each once."""
    driver = told(facts, DRIVER)
    files = () if from_text(facts) else ("libnvidia_ml", "libcuda")  # a text names a library's release cut short
    named = [DriverRelease.parse(text(driver, name)) for name in files]
    seen = [one for one in [*named, user_release(facts)] if one]
    if not seen and from_text(facts):
        told_ = [text(driver, "package_version"), value(facts, "runfile", "driver"), _whole(facts)]
        seen = [one for one in map(DriverRelease.parse, told_) if one][:1]
    return tuple(dict.fromkeys(seen))


def _whole(facts: Facts) -> str | None:
    """Give the release of NVML's library, which it names without the last part, as a package beside it names it."""
    short = text(told(facts, DRIVER), "libnvidia_ml")
    named = (one.values.get(name) for one in said(facts, "release-named", "driver-told") for name in NAMES)
    return next((one for one in named if one and short and one.startswith(f"{short}.")), short)


def _loaded(facts: Facts) -> DriverRelease | None:
    """Give the release of the module in memory; in text also that of a module's source that was just built."""
    return loaded_release(facts) or DriverRelease.parse(value(facts, "module-source", "driver"))


def _named(facts: Facts) -> str:
    """Give the releases that are named beside those of module and libraries, where one of these is not known."""
    if _loaded(facts) and _users(facts):
        return ""
    held = (one.values.get(name) for one in said(facts, "release-named", "driver-told") for name in NAMES)
    known = {str(one) for one in (_loaded(facts), *_users(facts)) if one}
    found = [one for one in dict.fromkeys(held) if one and one not in known]
    return f"Named beside it: {', '.join(found[:3])}." if found else ""


def _libraries(facts: Facts) -> str:
    return " and ".join(str(one) for one in _users(facts)) or "of another release"


def _why(facts: Facts) -> str:
    loaded, disk, users = loaded_release(facts), disk_release(facts), _users(facts)
    if len(users) > 1:
        return "The libraries themselves are of two releases: two installations of the driver are mixed."
    if facts.host.container and disk is None:
        return "The container brings driver libraries of its own; they must be those of the machine that runs it."
    if disk and disk == loaded:
        return f"The module on disk is {disk} as well: the libraries were changed and the module was not."
    if disk and disk in users:
        return f"The module on disk is {disk} already: the driver was updated and the old module is still in memory."
    return f"The module on disk is {disk}: no two parts are of one release." if disk else ""


def _fix(facts: Facts) -> Fix:
    source = DriverRelease.parse(value(facts, "module-source", "driver"))
    loaded, disk, users = loaded_release(facts), disk_release(facts) or source, _users(facts)
    if facts.host.container and disk is None:
        return Fix(
            text="Take the driver packages (libcuda, libnvidia-ml) out of the image and start the container again: "
            "the container toolkit mounts those of the machine.",
            commands=(sh("docker run --gpus all …"),),
            verify=sh("nvidia-smi"),
        )
    if len(users) > 1 or (disk and (disk == loaded or disk not in users)):
        return fixes.rebuild(
            facts,
            "Bring all parts of the driver to one release, build the module, and restart.",
            fixes.reinstall(facts),
            sh("sudo dkms autoinstall"),
            fixes.initramfs(facts),
        )
    return Fix(
        text=f"{fixes.place(facts)}Stop all programs on the GPU and load the module again, or restart.",
        commands=RELOAD,
        needs_root=True,
        needs_reboot=False,
        verify=sh("nvidia-smi"),
    )


def _name(release: DriverRelease | None) -> str:
    return str(release) if release else "of another release"
