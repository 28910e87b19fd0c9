"""The oneAPI environment was not set up, so its libraries are not found.

oneAPI installs below /opt/intel/oneapi, outside the loader's way. Its script setvars.sh puts the folders of the
compiler, MKL and the other libraries on the paths of one shell, and has to be run in each. The number in a soname says
which release of oneAPI a program was built with; another release brings another number. Install that release if it is
not there, and run the script before the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import intel
from gpustack.diagnose.rules.reading import because, because_of, copies, flag, items, table, texts, told
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.model.command import PATH, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

LIBRARY, INACTIVE = "oneapi-library", "oneapi-not-active"


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a library or program of oneAPI is not found, or a program says so."""
    yield from _seen(facts)
    if not heard(facts, LIBRARY, INACTIVE):
        return
    names = ", ".join(dict.fromkeys(one.values.get("soname", "") for one in said(facts, LIBRARY)))
    absent = any("path" in one.values for one in said(facts, INACTIVE))
    yield Finding(
        id="oneapi-env-not-sourced",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="oneapi",
        title="The oneAPI environment is not set up (setvars.sh)" + (f": {names} cannot be found" if names else ""),
        detail="oneAPI itself does not seem to be installed: its setvars.sh is not there."
        if absent
        else "Its libraries lie below /opt/intel/oneapi, which only its own script puts on the library path.",
        confidence=Confidence.CERTAIN if heard(facts, INACTIVE) else Confidence.LIKELY,
        because=grounds(facts, LIBRARY, INACTIVE),
        fix=Fix(
            text="Install the oneAPI Base Toolkit of the release that the program was built with, if it is not there, "
            "and run its script in the shell that starts the program.",
            commands=(sh("source /opt/intel/oneapi/setvars.sh"),),
            verify=sh("sycl-ls"),
        ),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    """Give each framework for Intel's GPUs whose SYCL library the loader would not find, while oneAPI lies here."""
    root = next((copy.path for copy in copies(facts, "oneapi") if flag(copy.facts, "script")), None)
    for build in intel.xpu_builds(facts) if root and not texts(told(facts, "oneapi"), "on_library_path") else ():
        search = table(build.copy.facts, "search")
        lost = [name for name in search if name.startswith("libsycl.so.") and not items(search, name)]
        if lost:
            yield Finding(
                id="oneapi-env-not-sourced",
                instance=build.mark,
                severity=Severity.ERROR,
                layer=Layer.ENVIRONMENT,
                component="oneapi",
                title=f"The oneAPI environment is not set up (setvars.sh): {build.name} needs {lost[0]}, which the "
                "loader does not find",
                detail=f"oneAPI lies in {root}, outside the loader's way, and no wheel brings the library.",
                confidence=Confidence.LIKELY,
                because=(
                    because_of(facts, build.component, build.copy, "search", lost[0]),
                    because(facts, "oneapi", "variables"),
                ),
                fix=Fix(
                    text="Run oneAPI's script in the shell that starts the program; the release must be the one that "
                    "the framework was built with.",
                    commands=(sh("source {root}/setvars.sh", root=PATH(root)),),
                    verify=sh("sycl-ls"),
                ),
            )
