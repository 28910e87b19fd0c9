"""Drivers that are registered for OpenCL's or Vulkan's loader, and are not there: one judge for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import copies, items, status, text, told
from gpustack.diagnose.rules.seen import on_bus
from gpustack.model.command import PATH, VARIABLE, Command, sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts, JsonValue

OTHER = ("i386", "i486", "i586", "i686", "x86_32")  # words in the names of files for 32-bit programs
MAKERS = {"nvidia": ("nvidia",), "amd": ("amd",), "intel": ("intel", "igdrcl")}
HERE = frozenset({Status.PRESENT, Status.FAILED})


def broken(facts: Facts, component: str, finding: str, verify: Command) -> Iterator[Finding]:
    """Give each registered driver whose library is not there, where there is a loader that programs would ask."""
    if status(facts, component) not in HERE:
        return
    seen = facts.find(component)
    for icd in items(told(facts, component), "icds"):
        library, file, by = text(icd, "library"), text(icd, "file"), text(icd, "by")
        if library is None or text(icd, "path") or text(icd, "error") or _for_32_bits(icd):
            continue
        where = file or "OCL_ICD_FILENAMES"
        yield Finding(
            id=finding,
            instance=where if file else library,
            severity=Severity.WARNING if _computes(component, library, facts) else Severity.INFO,
            layer=Layer.RUNTIME,
            component=component,
            title=f"{where} registers the {NAMES[component]} driver {library}, which is not there",
            detail="The loader passes over it: the devices of that driver are missing from every list."
            + (f" The file was named by {by}." if by and by != "folder" else ""),
            because=(Because(component=component, fact=where, value=library, source=seen.source if seen else ""),),
            fix=Fix(
                text="Install the package of that driver anew, or remove it; a file of no package can be put aside.",
                commands=(
                    sh("dpkg -S {file} || rpm -qf {file}", file=PATH(where)),
                    sh("# sudo mv {file} {off}, where no package has it", file=PATH(where), off=PATH(f"{where}.off")),
                ),
                needs_root=True,
                verify=verify,
            )
            if file
            else Fix(
                text="Take the library out of the variable.",
                commands=(sh("unset {variable}", variable=VARIABLE(where)),),
                verify=verify,
            ),
        )


NAMES = {"opencl": "OpenCL", "vulkan": "Vulkan"}


def _computes(component: str, library: str, facts: Facts) -> bool:
    """Tell whether programs compute through it on a GPU that is here; Vulkan is for pictures."""
    makers = [maker for maker, words in MAKERS.items() if any(word in library.lower() for word in words)]
    return component == "opencl" and any(on_bus(facts, maker) or copies(facts, f"{maker}-gpu") for maker in makers)


def _for_32_bits(icd: JsonValue) -> bool:
    """Tell whether it is for 32-bit programs, whose libraries are found on other paths."""
    return text(icd, "bits") == "32" or any(word in (text(icd, "file") or "") for word in OTHER)
