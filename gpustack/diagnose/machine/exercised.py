"""The results of running things for real (--deep), and the machine's own messages, recognised like any pasted text.

Frameworks are in ``inventory.builds``; here is everything else that was run. A compiler for a framework (torch.compile,
Triton) may fail while the framework itself computes.
"""

from __future__ import annotations

import re
from importlib import import_module
from operator import is_
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import MESSAGE
from gpustack.diagnose.machine.inventory import FRAMEWORKS, builds, nvidia_here
from gpustack.diagnose.machine.values import HERE, flag, table, text, texts, told
from gpustack.model import record, replace
from gpustack.model.facts import Layer, once, product
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts, Instance, JsonValue, Message
    from gpustack.model.report import Finding

SILENT = "gave no answer"
SOURCE = "it was run in a process of its own"
RUN = " (run by --deep)"
# What each is built on or launches through: if that fails, so does this.
RESTS_ON: Mapping[str, tuple[str, ...]] = {
    "triton": ("pytorch",),
    "torchscript": ("pytorch",),
    "torch-compile": ("pytorch", "triton"),
    "cuda-core": ("cuda-bindings",),
    "cuda-compute": ("cuda-core", "cuda-bindings"),
    "numba-cuda": ("cuda-core", "cuda-bindings"),
    "nvmath-python": ("cuda-core", "cuda-bindings"),
    "cuda-coop": ("numba-cuda", "cuda-core", "cuda-bindings"),
}
ALWAYS = frozenset({"cuda-runtime", "tensorflow"})


@record
class Trial:
    """One library, compiler or framework without a build of its own that was run in one Python."""

    component: str
    layer: Layer
    copy: Instance
    environment: str | None

    @property
    def mark(self) -> str:
        """Its name in findings."""
        return f"{self.component}:{self.environment}" if self.environment else self.component

    @property
    def name(self) -> str:
        """Its display name."""
        return f"{product(self.component)} {self.copy.version or ''}".strip()

    @property
    def exercise(self) -> Mapping[str, JsonValue]:
        """The result of running it."""
        return table(self.copy.facts, "exercise")


@once
def trials(facts: Facts) -> tuple[Trial, ...]:
    """Return what was run besides the frameworks."""
    chosen = facts.environments[0].python if facts.environments else None
    return tuple(
        Trial(component=one.id, layer=one.layer, copy=copy, environment=copy.environment or chosen)
        for one in facts.components
        if one.id not in FRAMEWORKS
        for copy in one.instances
        if copy.status in HERE and table(copy.facts, "exercise")
    )


def failed(trial: Trial, facts: Facts) -> bool:
    """Return whether it was run and failed; without a GPU for CUDA, the driver is at fault instead."""
    exercise = trial.exercise
    if text(exercise, "error") or text(exercise, "reason"):
        return True
    if flag(exercise, "ran") is not True:
        return False
    idle = text(exercise, "device") == "cpu" and text(trial.copy.facts, "accelerator") == "cuda" and nvidia_here(facts)
    return flag(exercise, "ok") is not True or idle


def at_import(exercise: Mapping[str, JsonValue]) -> bool:
    """Return whether it failed at its import."""
    return text(exercise, "failed_at") == "import"


def weight(trial: Trial, facts: Facts) -> Severity:
    """Return the severity of its failure: that of a framework's failure if one depends on it."""
    if SILENT in (text(trial.exercise, "reason") or ""):
        return Severity.UNKNOWN
    return Severity.ERROR if needed(trial, facts) else Severity.WARNING


def needed(trial: Trial, facts: Facts) -> bool:
    """Return whether a framework in the same Python requires it; one that computes without its compiler does not."""
    if trial.component in ALWAYS:
        return True
    names = {trial.component, text(trial.copy.facts, "distribution"), trial.copy.key.partition(" in ")[0]}
    required = {
        name
        for build in builds(facts)
        if build.copy.environment == trial.environment
        for name in table(build.copy.facts, "requires")
    }
    return trial.layer is not Layer.COMPILER and bool(names & required)


def spoken(facts: Facts) -> Iterator[tuple[str, str]]:
    """Return the messages of each failed trial, with their origins."""
    here = nvidia_here(facts)
    for build in builds(facts):
        if flag(build.exercise, "ok") is False or (build.accelerator == "cuda" and here and build.ran_on_gpu is False):
            yield from _words(build.mark, build.exercise, printed=here)
    for trial in trials(facts):
        if failed(trial, facts):
            yield from _words(trial.mark, trial.exercise, printed=here)


def origin(mark: str) -> str:
    """Return the origin of a message printed during a run."""
    return mark + RUN


def light(facts: Facts) -> AbstractSet[str]:
    """Return the origins of messages by trials that no framework depends on."""
    return {origin(trial.mark) for trial in trials(facts) if not needed(trial, facts)}


def eased(finding: Finding, lighter: AbstractSet[str]) -> Severity:
    """Return a finding's severity, reduced if only trials that no framework depends on complained."""
    heard = {one.source for one in finding.because if one.component == MESSAGE}
    return Severity.WARNING if finding.severity is Severity.ERROR and heard and heard <= lighter else finding.severity


def _words(mark: str, exercise: Mapping[str, JsonValue], *, printed: bool) -> Iterator[tuple[str, str]]:
    names = ("words" if text(exercise, "words") else "error", "reason", *(("unavailable",) if printed else ()))
    said = [words for words in (text(exercise, name) for name in names) if words]
    said += (*texts(exercise, "printed"), *texts(exercise, "said")) if printed else ()
    if said:
        yield origin(mark), "\n".join(said)


LOG = ("nvrm", "module_errors", "hardware_errors", "amdgpu")
KERNEL_LOG = "kernel log"
# Words in lines about a problem: a log without any is not compared with a thousand messages.
TROUBLE = re.compile(
    r"(?i)fail(?!ed: signature)|error|\b(?:not|cannot|lost|off|unable|invalid|unsigned|magic|heartbeat|timed)\b"
    r"|time-?out|reject|refus|unsupported|mismatch|ownership|ignore|legacy|uncorrect|fatal|wpr2|\bkey\b(?! missing)"
)


def recognised(facts: Facts, matrix: Matrix) -> Facts:
    """Return the facts with the recognised messages of failed runs; unchanged if there are none."""
    said = (*spoken(facts), *_logged(facts))
    if not said:
        return facts
    messages = import_module("gpustack.imports.messages")  # most machines have none
    found: tuple[Message, ...] = messages.find([(who, messages.clean(words)) for who, words in said], matrix)
    return replace(facts, messages=(*facts.messages, *found)) if found else facts


def _logged(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the lines of a log that a probe has read; those in a text are recognised when it is read."""
    log = told(facts, "kernel-log") if facts.taken else {}
    lines = [line for name in LOG for line in texts(log, name)]
    if any(map(TROUBLE.search, lines)):
        yield KERNEL_LOG, "\n".join(lines)


def implied(facts: Facts, matrix: Matrix) -> Facts:
    """Return the facts with the implications of their messages that nothing else states.

    Readers do the same with each text; a snapshot of an older version contains only the messages.
    """
    if not facts.messages:
        return facts
    reader = import_module("gpustack.imports.from_messages")
    more: dict[str, Component] = {one.id: one for one in reader.implied(facts, matrix).components}
    known = tuple(_filled(one, more.pop(one.id, None)) for one in facts.components)
    components = (*known, *more.values())
    same = len(components) == len(known) and all(map(is_, components, facts.components))
    return facts if same else replace(facts, components=components)


def _filled(known: Component, more: Component | None) -> Component:
    """Return a component with messages' facts added to its copies; that it failed, only to failed ones."""
    copies = {(copy.key, copy.status): copy for copy in more.instances} if more else {}
    filled = tuple(_joined(copy, copies.get((copy.key, copy.status))) for copy in known.instances)
    return known if all(map(is_, filled, known.instances)) else replace(known, instances=filled)


def _joined(copy: Instance, more: Instance | None) -> Instance:
    if more is None:
        return copy
    new = {name: value for name, value in more.facts.items() if name not in copy.facts}
    version = copy.version or more.version
    if not new and version == copy.version:
        return copy
    strengths = {**more.strengths, **copy.strengths}
    return replace(copy, version=version, facts={**copy.facts, **new}, strengths=strengths)
