"""The oneAPI environment was not set up, so its libraries are not found.

oneAPI installs below /opt/intel/oneapi, outside the loader's way. Its script setvars.sh puts the folders of the
compiler, MKL and the other libraries on the paths of one shell, and has to be run in each. The number in a soname says
which release of oneAPI a program was built with; another release brings another number. Install that release if it is
not there, and run the script before the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity
from gpustack.rules.saying import grounds, heard, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

LIBRARY, INACTIVE = "oneapi-library", "oneapi-not-active"
SCRIPT = "/opt/intel/oneapi/setvars.sh"


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a library or program of oneAPI is not found, or a program says so."""
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
            commands=(f"source {SCRIPT}",),
            verify="sycl-ls",
        ),
    )
