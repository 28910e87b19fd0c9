"""Frameworks that were run and failed, and features that a GPU lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import exercised
from gpustack.diagnose.machine.events import because_said, said
from gpustack.diagnose.machine.exercised import SILENT
from gpustack.diagnose.machine.frameworks import because_torch, capability, gpu_name, gpu_words, named_gpus, torch
from gpustack.diagnose.machine.inventory import builds, nvidia_here
from gpustack.diagnose.machine.values import because, because_of, copies, flag, text, version
from gpustack.diagnose.requirements.records import Feature, features
from gpustack.diagnose.rule import Rule, rule
from gpustack.diagnose.rules import NAMED, NO_CUDA, WRONG_LIBRARIES
from gpustack.model import record, replace
from gpustack.model.command import NOTHING, PYTHON, Command, sh
from gpustack.model.facts import Facts, JsonValue, Layer, Message
from gpustack.model.report import Because, Confidence, Finding, Severity
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix


BY_ITSELF = re.compile(
    r"\b(?:falling back|fall(?:s|ing)? ?back|fallback|using (?:fp16|float16|xformers|sdpa|eager)|"
    r"will use|switching to|disabl\w+|defaulting)\b",
    re.IGNORECASE,
)
# What Windows answers where it cannot load a library, by the number of its error.
UNLOADED = {
    "126": "The file is there: a library that it needs is missing, usually one of the Visual C++ runtime.",
    "127": "A library that it needs was found in another version, without a function: a copy of a different one, or "
    "a PyTorch of which only a part was replaced.",
    "1114": "A library that it needs did not start: usually the Visual C++ runtime is too old.",
}
AGED = re.compile(r"\b(?:amd|gfx\d+|rocm|intel|xpu|mps|cpu)\b", re.IGNORECASE)
# Source: ROCm/ROCm: docs/reference/precision-support.rst: CDNA 3 (gfx942), CDNA 4 (gfx950) and RDNA 4 (gfx12) have FP8.
OLD_AMD = re.compile(r"gfx(?:8\w\w|90[0-9a]|10\d\d|11\d\d)$")


ASK = "nvidia-smi --query-gpu=name,compute_cap --format=csv"
ANY = frozenset({"capability-needed", "quantization-capability"})  # messages about a feature that they may not name


def _asking(facts: Facts) -> tuple[Message, ...]:
    """Return the messages that ask for a feature."""
    return said(facts, *(kind for one in features().values() for kind in one.said))


@rule("gpu-feature-unsupported", Layer.SERVING, "gpu", in_one_python=True, from_messages=True)
def gpu_feature_unsupported(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The GPU is too old for a feature that a program asks for; the stack and the build are fine.

    bfloat16 and FlashAttention-2 begin with compute capability 8.0 (Ampere), FP8 with 8.9 (Ada), FlashAttention-3 with
    9.0 (Hopper), torch.compile's Triton with 7.0 (Volta). No software changes that: use float16 (half) instead of
    bfloat16, another attention implementation (SDPA, xFormers) or another quantisation, or a newer GPU.
    """
    build = torch(facts)
    if build and build.accelerator in {"cpu", "rocm", "xpu"}:
        yield from _of_amd(facts)
        return
    for message in sorted(_asking(facts), key=lambda one: ("cc" not in one.values, "needs" not in one.values)):
        feature, found = _feature(message), _found(message, facts)
        general = message.kind == "capability-needed" and (found[1] is None or AGED.search(message.line))
        if BY_ITSELF.search(message.line) or general:
            continue
        if not _young_enough(found[1], feature.needs):
            yield _finding(message, feature, found, facts)
            return


def _of_amd(facts: Facts) -> Iterator[Finding]:
    """Return the FP8 that was asked of an AMD GPU whose generation has none."""
    asked = said(facts, "fp8-unsupported")
    old = next((one for one in copies(facts, "amd-gpu") if OLD_AMD.match(text(one.facts, "gfx") or "")), None)
    if not asked or old is None:
        return
    gfx = text(old.facts, "gfx")
    yield gpu_feature_unsupported.finding(
        layer=Layer.SERVING if version(facts, "vllm") else Layer.FRAMEWORK,
        title=f"{text(old.facts, 'name') or 'The GPU'} ({gfx}) is too old for FP8, which begins with gfx942 (MI300)",
        detail="Nothing in the stack is broken, and no other build changes this.",
        because=(because_said(asked[0]), because_of(facts, "amd-gpu", old, "gfx"), *because_torch(facts)),
        fix=features()["fp8"].fix(),
    )


def _feature(message: Message) -> Feature:
    """Return what the message is about, with the capability that it names itself."""
    line, known = message.line.lower(), features()
    base = next(one for one in known.values() if message.kind in one.said)
    if message.kind in ANY:
        named = "bf16" if "bf16" in line or "bfloat16" in line else "flash" if "flash" in line else None
        base = known[named] if named else base
    if "flash" in line and ("hopper" in line or "flashattention-3" in line or "flash attention 3" in line):
        base = known["flash-3"]
    needs = capability(message.values.get("needs")) or base.needs
    if message.kind in ANY and base is known["fp8"] and "fp8" not in line:
        what = (message.values.get("what") or "A feature").strip().removeprefix("The ").removeprefix("the ")
        other = "Use another method or format that this GPU supports, such as fp16."
        return Feature(name=what, needs=needs, instead=other, commands=(ASK,))
    return replace(base, needs=needs)


def _found(message: Message, facts: Facts) -> tuple[str | None, str | None]:
    """Return name and compute capability of the GPU: as the message names it, else the oldest that is mentioned."""
    digits = capability(message.values.get("cc"))
    name = message.values.get("gpu")
    if digits:
        return name, digits
    gpus = sorted(named_gpus(facts), key=lambda gpu: gpu.capability or ComputeCapability(0, 0))
    if gpus:
        return gpus[0].name, str(gpus[0].capability)
    return name or gpu_name(facts), None


def _young_enough(digits: str | None, needs: str | None) -> bool:
    here, least = ComputeCapability.parse(digits), ComputeCapability.parse(needs)
    return bool(here and least and here >= least)


def _finding(message: Message, feature: Feature, found: tuple[str | None, str | None], facts: Facts) -> Finding:
    name, digits = found
    begins = {"8.0": " (Ampere)", "8.9": " (Ada)", "9.0": " (Hopper)", "7.0": " (Volta)", "7.5": " (Turing)"}
    least = (
        f"compute capability {feature.needs}{begins.get(feature.needs or '', '')}" if feature.needs else "a newer GPU"
    )
    return gpu_feature_unsupported.finding(
        layer=Layer.SERVING if version(facts, "vllm") or message.kind == "bf16-unsupported" else Layer.FRAMEWORK,
        title=f"{gpu_words(name, digits)} is too old for {feature.name}, which begins with {least}",
        detail="Nothing in the stack is broken, and no other build changes this.",
        because=(because_said(message), *_others(message, facts), *_gpu(facts), *because_torch(facts)),
        confidence=Confidence.CERTAIN if digits else Confidence.LIKELY,
        fix=feature.fix(),
    )


def _others(message: Message, facts: Facts) -> Iterator[Because]:
    """Return what other lines ask of the GPU, which may be more or less."""
    lines = {message.line}
    for one in _asking(facts):
        if one.values.get("needs") and one.line not in lines:
            lines.add(one.line)
            yield because_said(one)


def _gpu(facts: Facts) -> Iterator[Because]:
    if named_gpus(facts):
        yield because(facts, "gpu", "name")
        yield because(facts, "gpu", "cc")


WENT_WRONG = {"import": "cannot be imported", "compile": "cannot compile for {device}"}


@record
class Run:
    """What came of running a framework, or what is beside it; here: it is for a GPU that is here."""

    mark: str
    component: str
    layer: Layer
    name: str
    exercise: Mapping[str, JsonValue]
    severity: Severity
    again: Command
    here: bool
    at_import: bool

    @property
    def late(self) -> bool:
        """Whether it did not finish in time."""
        return SILENT in (text(self.exercise, "reason") or "")

    @property
    def because(self) -> tuple[Because, ...]:
        """What its failing rests on: what was raised and where, else what came out."""
        raised = tuple(name for name in ("error", "reason") if text(self.exercise, name))
        names = (*raised, "failed_at") if raised else ("ok", "device")
        return tuple(
            Because(component=self.component, fact=f"exercise.{name}", value=held, source=exercised.SOURCE)
            for name in names
            if (held := self.exercise.get(name)) is not None
        )

    @property
    def words(self) -> str:
        """Its own words."""
        words = (text(self.exercise, name) for name in ("error", "unavailable", "reason"))
        return next((word for word in words if word), "")

    @property
    def outcome(self) -> str:
        """What became of running it."""
        device = text(self.exercise, "device")
        if self.late:
            return "did not finish in time"
        if not flag(self.exercise, "ran"):
            known = WENT_WRONG.get(text(self.exercise, "failed_at") or "", "could not be run")
            return known.format(device=device or "the GPU") if self.here else "cannot be imported"
        if text(self.exercise, "error"):
            return f"failed on {device or 'the GPU'}"
        return "computed on the CPU, not on the GPU" if device == "cpu" else f"gave a wrong answer on {device}"


def _failed(facts: Facts) -> Iterator[Run]:
    """Yield what was run and failed: the frameworks, then what is beside them."""
    nvidia = nvidia_here(facts)
    for build in builds(facts):
        here = build.accelerator == "cuda" and nvidia
        if build.ran_on_gpu is False if here else flag(build.exercise, "ran") is False:
            late = SILENT in (text(build.exercise, "reason") or "")
            yield Run(
                mark=build.mark,
                component=build.component,
                layer=Layer.FRAMEWORK,
                name=build.name,
                exercise=build.exercise,
                severity=Severity.UNKNOWN if late else Severity.ERROR,
                again=fixes.verify(build),
                here=here,
                at_import=not here,
            )
    for trial in exercised.trials(facts):
        at_import = exercised.at_import(trial.exercise)
        if exercised.failed(trial, facts) and (at_import or nvidia):
            python = sh("--python {python}", python=PYTHON(trial.environment)) if trial.environment else NOTHING
            yield Run(
                mark=trial.mark,
                component=trial.component,
                layer=trial.layer,
                name=trial.name,
                exercise=trial.exercise,
                severity=exercised.weight(trial, facts),
                again=sh("gpustack doctor --deep {python}", python=python),
                here=not at_import,
                at_import=at_import,
            )


def _said(one: Run, rule_: Rule, advice: str) -> Finding:
    return rule_.finding(
        instance=one.mark,
        severity=one.severity,
        layer=one.layer,
        component=one.component,
        title=f"{one.name} {one.outcome}",
        detail=one.words,
        because=one.because,
        fix=fixes.advice(advice, one.again),
    )


@rule(
    "framework-fails-on-gpu",
    Layer.FRAMEWORK,
    "pytorch",
    explained_by=(
        *NO_CUDA,
        "cuda-init-failed",
        "gpu-ecc-error",
        "driver-too-old-for-cuda-build",
        "ptx-newer-than-driver",
        "arch-not-in-build",
        "jax-plugin-mismatch",
        "ort-cpu-and-gpu-installed",
        "cudnn-shadowed-by-ld-library-path",
        "cudnn-two-copies",
        "cudnn-too-old",
        *WRONG_LIBRARIES,
        *NAMED,
    ),
)
def framework_fails_on_gpu(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A framework or a library that is built for the GPU was run and did not compute on it, or not correctly.

    gpustack --deep imports each framework, and each library and compiler for the GPU, in a process of its own and lets
    it compute something with a known answer. This one raised an error, fell back to the CPU, or gave a wrong answer.
    Usually that follows from a deeper fault, which is then named as its cause; its own message is below. If no
    framework depends on it, it is a warning: the frameworks work without it.
    """
    for one in _failed(facts):
        if not one.at_import:
            yield _said(one, framework_fails_on_gpu, "Its own message says why; run it again when that is fixed.")


@rule(
    "framework-import-fails",
    Layer.FRAMEWORK,
    "pytorch",
    explained_by=(
        *("cudnn-two-copies", "cudnn-too-old", "cudnn-shadowed-by-ld-library-path", *WRONG_LIBRARIES, *NAMED),
        "oneapi-env-not-sourced",
    ),
)
def framework_import_fails(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A framework or a library for the GPU cannot be imported at all, with or without a GPU.

    gpustack --deep imports each in a process of its own. This import failed, which no GPU and no driver can fix: a
    library that it needs is missing or the wrong one, or the installation is damaged. Its own message is below. If
    there is a GPU and the framework's build is for it, framework-fails-on-gpu is reported instead, with its cause. If
    no framework depends on it, it is a warning.
    """
    for one in _failed(facts):
        if one.at_import:
            yield _said(one, framework_import_fails, "Fix what it says, then run it again.")
    for message in said(facts, "torch-dll-not-loaded")[:1]:
        library, code = message.values.get("library", "a library"), message.values.get("code", "126")
        yield framework_import_fails.finding(
            title=f"PyTorch cannot be imported: Windows cannot load {library}, or a library that it needs",
            detail=UNLOADED.get(code, UNLOADED["126"]),
            confidence=Confidence.LIKELY,
            because=(because_said(message), *because_torch(facts)),
            fix=fixes.advice(
                "Install the current Visual C++ Redistributable (x64), then PyTorch again in a new environment.",
                sh("winget install Microsoft.VCRedist.2015+.x64"),
                verify=sh('python -c "import torch"'),
            ),
        )
