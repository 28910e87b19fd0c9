"""The driver's library is there, and the name libcuda.so by which a program looks for it is not.

The driver installs libcuda.so.<release>, and libcuda.so.1 as a name of it. Programs that compile or that load CUDA by
themselves (Triton, Numba, cuDNN, a linker with -lcuda) also want the plain name libcuda.so on the loader's way, which
drivers in containers, WSL and slim packages do not bring. Make the link, or name the folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import containers, naming, wsl
from gpustack.diagnose.rules.reading import number, told
from gpustack.diagnose.rules.saying import grounds, heard, said, value
from gpustack.model.command import PATH, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

MISSING = "libcuda-not-found"
THERE = ("ldconfig-libcuda", "libcuda-file", "libcuda-place")
PLAIN = frozenset({"libcuda.so", "-lcuda", "libcuda"})
USUAL = "/usr/lib/x86_64-linux-gnu"


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the plain name is missing, or any name of it on a machine whose driver is there."""
    names = _names(facts)
    here = heard(facts, *THERE) or number(told(facts, "nvml"), "code") == 0 or facts.host.wsl
    plain = not names.isdisjoint(PLAIN)
    if not names or containers.without_gpu(facts) or heard(facts, *containers.NOT_FOUND) or not (plain or here):
        return
    folder, driver = _folder(facts), naming.driver_name(facts, matrix)
    yield Finding(
        id="libcuda-so-symlink-missing",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="libcuda",
        title=f"{' and '.join(sorted(names))} cannot be found, though the driver's libcuda.so.1 is to be in {folder}"
        if plain
        else f"libcuda.so.1 is not on the loader's way, though the driver is there ({folder})",
        detail="The plain name libcuda.so comes with a package for developers, not with every driver."
        + (f" The machine has {driver}." if driver else ""),
        confidence=Confidence.CERTAIN if plain and here else Confidence.LIKELY,
        because=(*grounds(facts, MISSING, *THERE, most=6), *naming.of_driver(facts)),
        fix=_fix(folder, facts),
    )


def _names(facts: Facts) -> set[str]:
    """Give the names under which libcuda was looked for in vain."""
    found = (one.values.get("soname") or one.values.get("soname2") or "libcuda.so" for one in said(facts, MISSING))
    return {name.lower() for name in found if name}


def _folder(facts: Facts) -> str:
    """Give the folder of the driver's libcuda: where it was seen, else where it usually is."""
    found = (
        value(facts, THERE[0], "path")
        or value(facts, "libcuda-place", "path", "path2")
        or value(facts, THERE[1], "path")
    )
    if facts.host.wsl:
        return wsl.FOLDER
    folder = (found or "").rpartition("/libcuda")[0] or (found or "").rstrip("/")
    return folder or USUAL


def _fix(folder: str, facts: Facts) -> Fix:
    where = PATH(folder)
    link = sh("sudo ln -s libcuda.so.1 {folder}/libcuda.so", folder=where)
    path = sh("export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH", folder=where)
    ldconfig = sh("echo {folder} | sudo tee /etc/ld.so.conf.d/libcuda.conf && sudo ldconfig", folder=where)
    return Fix(
        text="Make the link and tell the loader of the folder, or put it on the library path (for the linker also "
        "LIBRARY_PATH; where no driver is, as while an image is built, -L/usr/local/cuda/lib64/stubs).",
        commands=(path, ldconfig) if facts.host.wsl else (link, ldconfig),
        needs_root=True,
        verify=sh("ldconfig -p | grep libcuda"),
    )
