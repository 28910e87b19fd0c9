"""Findings of a policy: which are ignored, and whose fault a failing check is.

The layer decides, but for findings that lie in one layer and are fixed in another. Each row says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpustack.diagnose import engine
from gpustack.model.facts import Facts, Layer
from gpustack.model.policy import HealthClass
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from datetime import date

    from gpustack.model.policy import Ignored, Policy, Raised
    from gpustack.model.report import Finding, Report, Verdict

HOST, OURS = HealthClass.BAD_HOST, HealthClass.BAD_ENVIRONMENT
BY_LAYER: Mapping[Layer, tuple[HealthClass, str]] = {
    Layer.HARDWARE: (HOST, "the hardware is the host's: another host has other hardware"),
    Layer.KERNEL: (HOST, "the kernel is the host's, containers too run on it"),
    Layer.KERNEL_MODULE: (HOST, "the GPU's kernel module is the host's, containers too run on it"),
    Layer.DRIVER: (HOST, "the driver is the host's: another host may have the one that is needed"),
    Layer.CONTAINER: (HOST, "the container runtime is the host's"),
    Layer.RUNTIME: (OURS, "the CUDA runtime comes with the environment or its image"),
    Layer.LIBRARY: (OURS, "the libraries come with the environment or its image"),
    Layer.COMPILER: (OURS, "the compiler comes with the environment or its image"),
    Layer.FRAMEWORK: (OURS, "the framework and its build are what the environment pins"),
    Layer.SERVING: (OURS, "the server is what the environment pins"),
    Layer.APPLICATION: (OURS, "the program is the work itself"),
    Layer.ENVIRONMENT: (OURS, "Python, paths and variables are the environment's"),
}
BY_FINDING: Mapping[str, tuple[HealthClass, str]] = {
    # In the layers of the host, and fixed in the environment:
    "compat-libs-803": (OURS, "the compat libraries came with the image, and its library path finds them first"),
    "forward-compat-804": (OURS, "the compat libraries came with the image, and its library path finds them first"),
    "stub-on-loader-path": (OURS, "the library path is the environment's"),
    "container-no-gpus-flag": (OURS, "the flag is missing in the command that starts the job, wherever it runs"),
    "container-shm-too-small": (OURS, "the size is given by the command that starts the job, wherever it runs"),
    # In the layers of the environment, and fixed on the host:
    "device-nodes-not-accessible": (HOST, "the modes of the device nodes are set on the host"),
    "user-not-in-render-group": (HOST, "the groups of the account are set on the host"),
    "mig-enabled-no-instance": (HOST, "how the GPU is divided is set on the host"),
    "memlock-too-small": (HOST, "the limit is set on the host"),
    "libcuda-so-symlink-missing": (HOST, "the driver's files are the host's"),
    "wsl-linux-driver-installed": (HOST, "the driver's files are the host's"),
    "wsl-libcuda-shadowed": (HOST, "the driver's files are the host's"),
    "gpu-process-stuck": (HOST, "the process is not the work's own: it was there before"),
    "process-on-deleted-driver": (HOST, "the process is not the work's own: it was there before"),
}
SEVERITIES = tuple(Severity)


def whose(finding: Finding) -> HealthClass:
    """Return the class of a finding that is a root and an error."""
    return _row(finding)[0]


def because(finding: Finding) -> str:
    """Say why it is of this class."""
    return _row(finding)[1]


def of_layer(layer: Layer) -> HealthClass:
    """Return the class of what is wrong in a layer and has no finding."""
    return BY_LAYER[layer][0]


def _row(finding: Finding) -> tuple[HealthClass, str]:
    return BY_FINDING.get(finding.id) or BY_LAYER[finding.layer]


def weighed(report: Report, policy: Policy, today: date) -> Report:
    """Return the report with its findings as the policy weighs them; the same where it has nothing to say of them."""
    findings = weigh(report.findings, policy, today)
    if findings == report.findings:
        return report
    return replace(report, findings=findings, verdict=_verdict(report, findings))


def weigh(findings: Sequence[Finding], policy: Policy, today: date) -> tuple[Finding, ...]:
    """Return the findings, each with the weight that the policy gives it, the gravest first.

    What follows from an ignored one is ignored with it. A consequence is not raised: its cause counts.
    """
    by_key = {one.key: one for one in findings}
    made = []
    for finding in findings:
        if ignored := _ignored(finding, by_key, policy.ignore, today):
            said = f"Ignored until {ignored.until}: {ignored.reason}"
            finding = _as(finding, Severity.INFO, said)  # noqa: PLW2901
        elif finding.caused_by is None and (raised := _raised(finding, policy.raise_, today)):
            finding = _as(finding, raised.to, f"Raised by the policy: {raised.reason}")  # noqa: PLW2901
        made.append(finding)
    return tuple(sorted(made, key=lambda one: SEVERITIES.index(one.severity)))


def fits(finding: Finding, named: str) -> bool:
    """Tell whether a finding is meant by an id, a key, or a pattern of either."""
    return named in {finding.id, finding.key} or fnmatchcase(finding.key, named) or fnmatchcase(finding.id, named)


def in_force(until: date | None, today: date) -> bool:
    """Tell whether a day is not yet over; where none is named, none ends."""
    return until is None or today <= until


def _ignored(finding: Finding, by_key: dict[str, Finding], rows: Iterable[Ignored], today: date) -> Ignored | None:
    """Return what ignores a finding, or one of those that it follows from."""
    valid = [one for one in rows if in_force(one.until, today)]
    seen: set[str] = set()
    while finding.key not in seen:
        seen.add(finding.key)
        found = next((one for one in valid if fits(finding, one.finding)), None)
        if found:
            return found
        finding = by_key.get(finding.caused_by or "", finding)
    return None


def _raised(finding: Finding, rows: Iterable[Raised], today: date) -> Raised | None:
    return next((one for one in rows if in_force(one.until, today) and fits(finding, one.finding)), None)


def _as(finding: Finding, severity: Severity, said: str) -> Finding:
    return replace(finding, severity=severity, detail=f"{said}\n{finding.detail}".strip())


def _verdict(report: Report, findings: Sequence[Finding]) -> Verdict:
    facts = Facts(taken=report.taken, host=report.host, components=report.components)
    return engine.verdict(findings, facts, report.verdict.works, blind=engine.blind(report.not_seen))
