"""Programs that find the driver too old, by their own words: which CUDA they want, and which driver has it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes, naming, reading
from gpustack.diagnose.rules.compatibility import driver_fit
from gpustack.diagnose.rules.reading import copies, table, told
from gpustack.diagnose.rules.saying import grounds, heard, said, value
from gpustack.diagnose.rules.seen import builds, driver_release, on_windows
from gpustack.matrix.subjects import frameworks, toolkits
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Kept, Severity
from gpustack.model.versions import CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Row

# Nothing but too old a driver makes programs say this; the others are also said where no driver is found at all.
OUTRIGHT = ("torch-driver-too-old", "runtime-above-driver", "nvenc-driver", "libcuda-lacks-function")
MAYBE = ("insufficient-driver", "needs-newer-driver")
COMPLAINTS = (*OUTRIGHT, *MAYBE, "driver-older-than-needed")
NO_DRIVER_AT_ALL = ("no-driver-found", "ngc-no-gpu", "smi-missing", "nvml-missing", "nvml-not-loaded")
CONDA = ("cudatoolkit", "pytorch-cuda", "cuda-runtime", "cuda-cudart", "cuda-version")
NAMED_CUDA = re.compile(r"-cu(?:da)?(\d{2})x?$")


def finding(facts: Facts, matrix: Matrix) -> Finding | None:
    """Give what these complaints lead to where no build was seen that is too new for the driver."""
    if not complained(facts):
        return None
    wanted, loaded = wanted_cuda(facts, matrix), value(facts, "libcuda-lacks-function", "found")
    driver = naming.driver_name(facts, matrix) or (f"driver {loaded}" if loaded and "." in loaded else "the driver")
    by_name = value(facts, "nvenc-driver", "needs") or value(facts, "driver-older-than-needed", "needs")
    needs = f"driver {by_name} or newer" if by_name else naming.needed_driver(wanted, facts, matrix) if wanted else ""
    what = f"what runs here is built for CUDA {wanted}" if wanted and not by_name else "a program needs a newer one"
    what += " or newer" if wanted and not by_name and wanted not in _seen(facts) else ""
    return Finding(
        id="driver-too-old-for-cuda-build",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"The driver is too old: this is {driver}, and {what}",
        detail=_detail(needs, facts, matrix),
        confidence=_sure(facts, matrix),
        because=(*grounds(facts, *COMPLAINTS), *naming.of_driver(facts)),
        row=_row(wanted, matrix),
        fix=_fix(needs, wanted, facts, matrix),
    )


def complained(facts: Facts) -> bool:
    """Tell whether a program said that the driver is too old, or something that this mostly means."""
    well = heard(facts, *NO_DRIVER_AT_ALL, "cuda-available-true")
    return heard(facts, *OUTRIGHT) or (heard(facts, *MAYBE) and not well) or _named(facts)


def wanted_cuda(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Give the CUDA version that is too new for this driver: by what was seen, else the next that it does not run."""
    highest = naming.cuda_of_driver(facts, matrix)
    said_ = (*_seen(facts), *spoken(facts, matrix))
    broken = [cuda for cuda in said_ if driver_fit(cuda, facts, matrix).kept is Kept.BROKEN]
    beyond = [cuda for cuda in _seen(facts) if highest and cuda > highest and cuda.major > highest.major]
    found = min(broken or beyond, default=None)
    built = [build.cuda for build in builds(facts) if build.cuda]
    return found or (_next(highest, matrix) if highest else min(built or _seen(facts), default=None))


def _next(highest: CudaVersion, matrix: Matrix) -> CudaVersion | None:
    """Give the first CUDA version that a driver of this one does not run: of the next family, or the next minor."""
    family = CudaVersion(highest.major + 1)
    if toolkits.floor_of(matrix, highest):
        return family if toolkits.floor_of(matrix, family) else None
    return min((one.cuda for one in toolkits.releases(matrix) if one.cuda > highest), default=None)


def _seen(facts: Facts) -> tuple[CudaVersion, ...]:
    """Give every CUDA version that something here is of: builds, toolkits, and packages by their names."""
    held = [build.cuda for build in builds(facts)]
    held += [CudaVersion.parse(copy.version) for copy in copies(facts, "cuda-toolkit") if _is_toolkit(copy.facts)]
    for name, version in table(told(facts, "packages"), "distributions").items():
        match = NAMED_CUDA.search(name)
        if name.startswith(("nvidia-cuda-runtime", *CONDA)) and isinstance(version, str):
            held.append(CudaVersion.parse(version))
        elif match:
            held.append(CudaVersion(int(match[1])))
    return tuple(dict.fromkeys(one for one in held if one))


def spoken(facts: Facts, matrix: Matrix) -> tuple[CudaVersion, ...]:
    """Give the CUDA versions that builds are said to be of, and that of the TensorFlow that is here."""
    names = ("cuda", "needs", "of", "runtime", "image")
    held = [one.values.get(name) for one in said(facts, "cuda-build-said", "toolkit-named") for name in names]
    found = [CudaVersion.parse(one) for one in held if one]
    made = frameworks.tensorflow_of(matrix, reading.version(facts, "tensorflow") or "0")
    return tuple(dict.fromkeys(one for one in (*found, made.cuda if made else None) if one))


def _is_toolkit(held: object) -> bool:
    return not (isinstance(held, dict) and held.get("whose") == "driver")


def _named(facts: Facts) -> bool:
    """Tell whether a program names a driver release, and this one is older."""
    if any("found" in one.values for one in said(facts, "driver-older-than-needed")):
        return True
    needs, release = value(facts, "driver-older-than-needed", "needs"), driver_release(facts)
    least = DriverRelease.parse(needs if needs and "." in needs else f"{needs}.0") if needs else None
    return bool(least and release and release < least and not on_windows(facts))


def _sure(facts: Facts, matrix: Matrix) -> Confidence:
    if heard(facts, *OUTRIGHT):
        return Confidence.CERTAIN
    return Confidence.LIKELY if naming.driver_name(facts, matrix) else Confidence.POSSIBLE


def _detail(needs: str, facts: Facts, matrix: Matrix) -> str:
    highest, names = naming.cuda_of_driver(facts, matrix), naming.gpu_names(facts)
    parts = [f"It needs {needs}." if needs else ""]
    parts += [f"The driver runs what is built for CUDA {highest}." if highest else ""]
    parts += [f"GPU: {names}." if names else ""]
    if not heard(facts, *OUTRIGHT):
        parts.append("The same is said where a program finds no driver at all, as in a container without the GPU.")
    return " ".join(part for part in parts if part)


def _row(wanted: CudaVersion | None, matrix: Matrix) -> Row | None:
    if wanted is None:
        return None
    floor = toolkits.floor_of(matrix, wanted)
    native = next((one for one in toolkits.releases(matrix) if one.cuda == wanted), None)
    return floor.row if floor else native.row if native else None


def _fix(needs: str, wanted: CudaVersion | None, facts: Facts, matrix: Matrix) -> Fix:
    highest = naming.cuda_of_driver(facts, matrix)
    build = next(builds(facts), None)
    other = f" Or take a build of the same program for CUDA {highest} or older." if highest and wanted else ""
    text = f"{fixes.place(facts)}Install {needs or 'a newer driver'}.{other}"
    verify = fixes.verify(build) if build else sh("nvidia-smi")
    return Fix(text=text, commands=fixes.driver(facts, matrix), needs_root=True, needs_reboot=True, verify=verify)
