"""The open kernel module cannot run this GPU.

NVIDIA's open kernel module needs the GSP processor, which came with Turing. On a Maxwell, Pascal or Volta GPU only the
proprietary module works, and its last branch is 580. Install that flavour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because, because_of, text, texts, told
from gpustack.rules.seen import arch_on_bus, listed, ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance

MARKS = ("not supported by open", "required GPU", "System Processor (GSP)")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that the open module refuses: the module is the open one, or the log has its refusal."""
    log = [line for line in texts(told(facts, "kernel-log"), "nvrm") if any(mark in line for mark in MARKS)]
    is_open = text(told(facts, "nvidia.ko"), "flavour") == "open"
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        if arch and (is_open or log) and not listed(facts, copy.key):
            yield from _refused(copy, arch, log, facts, matrix)


def _refused(copy: Instance, arch: str, log: list[str], facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    flavour, span = matrix.flavour(arch), matrix.span(arch)
    if flavour is None or flavour.open != "impossible":
        return
    said = [Because(component="kernel-log", fact="nvrm", value=line, source="kernel log") for line in log[:1]]
    yield Finding(
        id="open-module-unsupported-gpu",
        instance=copy.key,
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=f"The open kernel module cannot run the {arch} GPU at {copy.key}, which has no GSP",
        because=(because(facts, "nvidia.ko", "flavour"), because_of(facts, "pci-display", copy, "device_id"), *said),
        row=flavour.row,
        fix=fixes.rebuild(
            facts,
            "Install the proprietary flavour of the kernel module.",
            *fixes.driver(facts, span.last if span else None),
        ),
    )
