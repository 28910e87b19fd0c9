"""What no row can say: which releases of the driver the site has approved, by their branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rule import rule
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

APPROVED = {"570": "570.148.08", "580": "580.95.05"}


@rule("example/driver-not-approved", Layer.DRIVER, "nvidia-driver", Severity.WARNING)
def driver_not_approved(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The release of the driver is not the one that the site has approved of its branch.

    Nodes with different releases give different figures, and the vendor's support asks for the approved one first.
    Install the approved release.
    """
    driver = facts.find("nvidia-driver")
    release = driver.version if driver else None
    branch = (release or "").partition(".")[0]
    if driver and release and APPROVED.get(branch) != release:
        approved = APPROVED.get(branch, "of another branch")
        yield driver_not_approved.finding(
            title=f"Driver {release} is not approved on this site; the approved release is {approved}",
            because=(Because(component="nvidia-driver", fact="version", value=release, source=driver.source),),
        )
