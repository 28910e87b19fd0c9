"""The open kernel module cannot run this GPU.

NVIDIA's open kernel module needs the GSP processor, which came with Turing. On a Maxwell, Pascal or Volta GPU only the
proprietary module works, and its last branch is 580. Install that flavour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, because_of, text, texts, told
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.seen import arch_on_bus, listed, ours
from gpustack.diagnose.rules.told_machine import architecture, cards, device, is_open, machine, more, works
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance

SAID = ("open-module-unsupported", "open-module-needs-gsp")
FAILS = (
    *("smi-no-devices", "nvml-not-loaded", "no-device", "no-nvidia-gpu", "rminit-failed"),
    *("module-out-said", "gpu-unused-said", "cuda-fails-said", "module-no-device"),
    "card-unsupported-said",
)
DATA_CENTER = "open-module-data-center"
OPTION = "echo options nvidia NVreg_OpenRmEnableUnsupportedGpus=1 | sudo tee /etc/modprobe.d/nvidia-open.conf"
MARKS = ("not supported by open", "required GPU", "System Processor (GSP)")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that the open module refuses: the module is the open one, or the log has its refusal."""
    found = tuple(_seen(facts, matrix))
    yield from found
    if not found:
        yield from _told(facts, matrix)
        yield from _opt_in(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a text has the refusal, or names the open module and a GPU without GSP that fails."""
    refused = sorted(said(facts, *SAID), key=lambda one: "id" not in one.values)
    arch = device(refused[0], matrix)[1] if refused else None
    arch = arch or architecture(facts, matrix)
    flavour = matrix.flavour(arch) if arch else None
    impossible = flavour is not None and flavour.open == "impossible"
    suspect = impossible and is_open(facts) and bool(said(facts, *FAILS))
    if works(facts) or not (refused or suspect) or (refused and flavour and not impossible):
        return
    span = matrix.span(arch) if arch else None
    last = f" of branch {span.last}, its last" if span and span.last else ""
    one = device(refused[0], matrix)[0] if refused else ", ".join(cards(facts, matrix)) or "this GPU"
    yield Finding(
        id="open-module-unsupported-gpu",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=f"The open kernel module cannot run the {one}, which has no GSP; it needs the proprietary one",
        detail=machine(
            facts,
            matrix,
            "The open module needs the GPU's GSP processor, which came with Turing.",
            f"This is {arch}." if arch else "",
        ),
        because=(*map(because_said, refused[:3]), *grounds(facts, *FAILS, "open-module-named", most=3), *more(facts)),
        row=flavour.row if flavour else None,
        fix=fixes.rebuild(
            facts,
            f"Install the proprietary (closed) flavour of the kernel module{last}.",
            *fixes.driver(facts, matrix, span.last if span else None),
        ),
        confidence=Confidence.CERTAIN if refused else Confidence.LIKELY,
    )


def _opt_in(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the module wants to be told to run a GPU that is none of a data centre."""
    if not heard(facts, DATA_CENTER) or heard(facts, *SAID) or works(facts):
        return
    arch = architecture(facts, matrix)
    flavour = matrix.flavour(arch) if arch else None
    one = ", ".join(cards(facts, matrix)) or "this GPU"
    never, span = flavour is not None and flavour.open == "impossible", matrix.span(arch) if arch else None
    yield Finding(
        id="open-module-unsupported-gpu",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=f"The open kernel module of this release runs GPUs of data centres alone, and {one} is none",
        detail=machine(
            facts,
            matrix,
            f"{arch} has no GSP, so no open module runs it."
            if never
            else "From branch 545 on it runs all from Turing on.",
        ),
        because=(*grounds(facts, DATA_CENTER, *FAILS, most=3), *more(facts)),
        row=flavour.row if flavour else None,
        fix=fixes.rebuild(
            facts,
            "Install the proprietary (closed) flavour of the kernel module"
            + ("." if never else ", or a newer driver; or let this one run the GPU by its option."),
            *(fixes.driver(facts, matrix, span.last if span else None) if never else (OPTION, fixes.initramfs(facts))),
        ),
        confidence=Confidence.CERTAIN,
    )


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU of a machine that was looked at."""
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
            *fixes.driver(facts, matrix, span.last if span else None),
        ),
    )
