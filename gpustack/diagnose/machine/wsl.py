"""WSL, where the driver is that of Windows and its libcuda lies in a folder of its own: what was said of both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import DRIVER
from gpustack.diagnose.machine.messages import heard, said, value
from gpustack.diagnose.machine.values import number, text, told

if TYPE_CHECKING:
    from gpustack.model.facts import Facts


FOLDER, PLAIN = "/usr/lib/wsl/lib", "libcuda.so"
# Folders of a library path that hold a libcuda of Linux, where there is one.
OTHERS = re.compile(r"^/usr/lib(?:64)?/?$|^(?:/usr)?/lib/x86_64-linux-gnu|/compat(?:/|$)|/stubs(?:/|$)")
PACKAGE = ("linux-driver-package", "linux-driver-said")
BLOCKED = "nvml-blocked"
ELSEWHERE, SMI_FAILS = "wsl-other-libcuda-said", "smi-fails-said"
INSTEAD = re.compile(r"\b(?:instead of|rather than) (?:that of |the one in )?/usr/lib/wsl\b")
START = "cuinit-no-device"
SMI, WINDOWS, CRASH = "smi-version", "windows-driver", "crash-said"
HELPS, STUB = "wsl-path-helps-said", "stub-driver"
APART = 4  # the nvidia-smi that Windows puts into WSL is of the driver's branch, whose number there is 0 to 3 more
NO_GPU = ("no-device", "no-driver-found")
FAILS = (
    *(*NO_GPU, "cuda-available-false", "insufficient-driver", "cuda-unknown-error"),
    *("init-error", "nvml-not-loaded", "nvml-no-start", "torch-init-failed", "cuda-fails-said"),
)


def linux_driver(facts: Facts) -> bool:
    """Tell whether a driver for Linux was installed inside WSL, so that what it brings is used instead of Windows'."""
    package = heard(facts, "linux-driver-package") or text(told(facts, DRIVER), "package") is not None
    if heard(facts, BLOCKED):
        return facts.host.wsl or package or not facts.host.os
    if not facts.host.wsl:
        return False
    if foreign_smi(facts) and heard(facts, *FAILS, CRASH):
        return True
    if heard(facts, "driver-package-failed", "nvml-mismatch"):
        return True
    return heard(facts, "linux-driver-said") or (
        package and heard(facts, *FAILS, CRASH, SMI_FAILS, "module-out-said", "nvml-mismatch", "nvml-missing")
    )


def foreign_smi(facts: Facts) -> tuple[str, str] | None:
    """Return the releases of nvidia-smi inside WSL and of Windows' driver, where they are of two branches."""
    inside = value(facts, SMI, "smi", "smi2")
    outside = value(facts, WINDOWS, "driver") or value(facts, SMI, "driver")
    if not inside or not outside or 0 <= int(outside[:3]) - int(inside[:3]) < APART:
        return None
    return inside, outside


def elsewhere(facts: Facts) -> tuple[str, ...]:
    """Return where a libcuda was found that is not that of Windows."""
    names = ("path", "path2", "path3")
    told_ = said(facts, "ldconfig-libcuda", "libcuda-file", ELSEWHERE)
    found = (next((one.values[name] for name in names if one.values.get(name)), "") for one in told_)
    return tuple(dict.fromkeys(path for path in found if path and "/wsl/" not in path and "/stubs" not in path))


def shadowed(facts: Facts) -> bool:
    """Return whether another libcuda than that of Windows is found: by its path, or since nvidia-smi alone works."""
    if not facts.host.wsl or linux_driver(facts):
        return False
    if unread(facts) or heard(facts, HELPS, STUB) or any(INSTEAD.search(one.line) for one in said(facts, ELSEWHERE)):
        return True
    if not heard(facts, *FAILS, SMI_FAILS):
        return False
    works = heard(facts, "wsl-smi-works") or number(told(facts, "nvml"), "code") == 0
    return bool(elsewhere(facts) or before(facts)) or (works and heard(facts, *NO_GPU)) or _starts_blind(facts)


def unread(facts: Facts) -> bool:
    """Return whether a program cannot open libcuda.so while that of Windows, by that very name, is said to be there."""
    sought = any(one.values.get("soname", "").lower() == PLAIN for one in said(facts, "libcuda-not-found"))
    places = (one for one in said(facts, "libcuda-place") if re.search(r"/wsl/lib/libcuda\.so(?![.\w])", one.line))
    return sought and any("symlink" not in one.line for one in places)


def _starts_blind(facts: Facts) -> bool:
    """Return whether cuInit itself says that it sees no GPU, while nvidia-smi is not said to fail."""
    return heard(facts, START) and not heard(facts, SMI_FAILS, "module-out-said", "nvml-not-loaded", "smi-no-devices")


def before(facts: Facts) -> str:
    """Return the folder on LD_LIBRARY_PATH that goes before that of Windows and mostly holds another libcuda."""
    for one in said(facts, "ld-library-path", "ld-library-path-added"):
        for folder in one.values.get("path", "").split(":"):
            if folder.rstrip("/") == FOLDER:
                break
            if OTHERS.search(folder):
                return folder
    return ""
