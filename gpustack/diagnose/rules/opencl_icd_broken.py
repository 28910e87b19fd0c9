"""A driver is registered for OpenCL whose library is not there.

Each file of /etc/OpenCL/vendors names the library of one driver, and the loader shows the devices of all that it can
load. What is not there is passed over in silence: clinfo lists fewer platforms, or none (error -1001). Mostly a driver
was removed and its file stayed, or a container was given the file without the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.registered import broken
from gpustack.model.command import sh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each registered driver that is not there."""
    yield from broken(facts, "opencl", "opencl-icd-broken", sh("clinfo -l"))
