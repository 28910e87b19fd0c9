"""The libnvJitLink that is found first is older than the libcusparse that needs it.

cuSPARSE and cuSOLVER call CUDA's linker by names that bear its version (__nvJitLinkComplete_12_4), and an older
libnvJitLink has no such names: importing the framework fails with "undefined symbol: __nvJitLink…, version
libnvJitLink.so.12". Mostly LD_LIBRARY_PATH names an older toolkit. Take its folder off, or install the wheel anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.foreign import asker, folders, lacking, loaded, off_path, path_grounds, place
from gpustack.diagnose.rules.libraries import LD_LIBRARY_PATH
from gpustack.diagnose.rules.reading import because_of, items, table, text, texts
from gpustack.diagnose.rules.saying import because_said, grounds, heard, holding, value
from gpustack.diagnose.rules.seen import builds
from gpustack.diagnose.rules.toolchain import toolkits
from gpustack.model.command import requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue

OLDER = "nvjitlink-older-said"
CANNOT, USERS = "jax-cannot-load", ("cuSPARSE", "cuSOLVER")
VERSION = re.compile(r"_(\d{1,3})_(\d{1,3})$", re.ASCII)


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework whose libnvJitLink lacks names that its other libraries ask of it."""
    yield from list(_seen(facts)) or list(_said(facts)) or list(_loaded(facts)) or _spoken(facts)


def _said(facts: Facts) -> Iterator[Finding]:
    """Give the symbol that the loader did not find in libnvJitLink."""
    lack = lacking(facts, "nvjitlink")
    if not lack:
        return
    wanted = _newest(tuple(one.symbol for one in lack))
    cuda = CudaVersion.parse(wanted)
    release = f"libnvJitLink of CUDA {wanted}" if cuda else "a newer libnvJitLink"
    soname = next((one.soname for one in lack if one.soname), "libnvJitLink")
    where = place(facts, "nvjitlink", cuda)
    asking = next((one.asking for one in lack if one.asking), "a library")
    yield Finding(
        id="nvjitlink-clash",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="nvjitlink",
        title=f"{asking} wants {release} and an older {soname} is loaded" + (f", that of {where}" if where else ""),
        detail=f"It has no {lack[0].symbol if cuda else 'symbols of that release'}. Mostly LD_LIBRARY_PATH names the "
        "folder of an older CUDA toolkit, which goes before the wheel's own.",
        confidence=Confidence.CERTAIN if path_grounds(facts) else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in lack[:2]),
            *path_grounds(facts),
            *(one.because for one in toolkits(facts) if cuda and one.cuda < cuda),
        ),
        fix=off_path(facts, "libnvJitLink", sh('python -c "import torch"')),
    )


def _loaded(facts: Facts) -> Iterator[Finding]:
    """Give the libnvJitLink that the loader took from outside the wheels, where what needs it could not be loaded."""
    one = next(iter(loaded(facts, "libnvJitLink")), None)
    if one is None and any(found.values["library"] in USERS for found in holding(facts, CANNOT, "library")):
        yield from _by_path(facts)
    failed = grounds(facts, CANNOT, "cannot-load-library", "undefined-symbol", most=2)
    if one is None or not failed:
        return
    soname, path = one.values["soname"], one.values["path"]
    by = asker(facts, soname)
    yield Finding(
        id="nvjitlink-clash",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="nvjitlink",
        title=f"{soname} is loaded from {path.rpartition('/')[0]}, not from the wheels that need a newer one",
        detail=f"{by.rpartition('/')[2] or 'libcusparse'} of the wheel calls that library and could not be loaded. "
        "A folder on LD_LIBRARY_PATH goes before the wheel's own.",
        confidence=Confidence.LIKELY,
        because=(
            *failed,
            because_said(one),
            *(one for one in grounds(facts, "library-needed-by", most=1) if by),
            *path_grounds(facts),
        ),
        fix=off_path(facts, "libnvJitLink", sh('python -c "import jax; print(jax.devices())"')),
    )


def _spoken(facts: Facts) -> Iterator[Finding]:
    """Give what somebody says of an older libnvJitLink, in words."""
    if not heard(facts, OLDER):
        return
    wanted = value(facts, OLDER, "wanted")
    yield Finding(
        id="nvjitlink-clash",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="nvjitlink",
        title=f"An older libnvJitLink is loaded than libcusparse wants{f' (CUDA {wanted})' if wanted else ''}",
        detail="libcusparse and libnvJitLink must be of one release. Mostly LD_LIBRARY_PATH names an older toolkit.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, OLDER, most=2), *path_grounds(facts)),
        fix=off_path(facts, "libnvJitLink", sh('python -c "import torch"')),
    )


def _by_path(facts: Facts) -> Iterator[Finding]:
    """Give the folder on LD_LIBRARY_PATH that comes before the wheels whose cuSPARSE JAX cannot load."""
    held = folders(facts)
    if not held:
        return
    yield Finding(
        id="nvjitlink-clash",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="nvjitlink",
        title=f"JAX cannot load its library of CUDA: LD_LIBRARY_PATH puts {held[0]} before the wheels",
        detail="The libnvJitLink of that folder is taken in the place of the wheel's, and an older one lacks what "
        "libcusparse calls.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, CANNOT, most=2), *path_grounds(facts)),
        fix=off_path(facts, "libnvJitLink", sh('python -c "import jax; print(jax.devices())"')),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    for build in builds(facts):
        linker = table(build.copy.facts, "linker")
        lacking, path = texts(linker, "lacking"), text(linker, "path")
        if not lacking or not path:
            continue
        asking = (text(linker, "by") or "a library").rpartition("/")[2]
        yield Finding(
            id="nvjitlink-clash",
            instance=build.mark,
            severity=Severity.WARNING if build.ran_on_gpu else Severity.ERROR,
            layer=Layer.LIBRARY,
            component="nvjitlink",
            title=f"{build.name} will load libnvJitLink {text(linker, 'newest') or ''}".rstrip()
            + f" from {path.rpartition('/')[0]}, and {asking} wants {_newest(lacking)}",
            detail=f"It has no {lacking[0]}.",
            confidence=Confidence.LIKELY,
            because=(
                because_of(facts, build.component, build.copy, "linker", "lacking"),
                Because(component=build.component, fact="linker.path", value=path, source=_step(build, path)),
            ),
            fix=_fix(build, path),
        )


def _newest(names: tuple[str, ...]) -> str:
    """Give the highest version among names."""
    found = [(int(match[1]), int(match[2])) for match in map(VERSION.search, names) if match]
    return ".".join(map(str, max(found))) if found else "a newer one"


def _candidates(build: Build) -> list[JsonValue]:
    search = table(build.copy.facts, "search")
    return [one for name in sorted(search) if name.startswith("libnvJitLink.so") for one in items(search, name)]


def _step(build: Build, path: str) -> str:
    return next((text(one, "step") or "" for one in _candidates(build) if text(one, "path") == path), "")


def _fix(build: Build, path: str) -> Fix:
    verify, folder = fixes.verify_loaded(build), path.rpartition("/")[0]
    if _step(build, path) == LD_LIBRARY_PATH:
        spelled = [text(one, "folder") for one in _candidates(build) if text(one, "path") == path]
        return fixes.off_path([spelled[0] or folder], folder, verify)
    pins = table(build.copy.facts, "pins")
    wheel = next((name for name in sorted(pins) if name.startswith("nvidia-nvjitlink")), None)
    wanted = requirement(wheel, f"=={text(pins, wheel)}") if wheel else sh("--upgrade nvidia-nvjitlink-cu12")
    return Fix(
        text="Install the libnvJitLink that goes with the others.",
        commands=(
            sh("{python} -m pip install --force-reinstall --no-deps {wanted}", python=build.python, wanted=wanted),
        ),
        verify=verify,
    )
