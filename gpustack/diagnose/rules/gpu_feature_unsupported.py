"""The GPU is too old for a feature that a program asks for; stack and build are well.

bfloat16 and FlashAttention-2 begin with compute capability 8.0 (Ampere), FP8 with 8.9 (Ada), FlashAttention-3 with 9.0
(Hopper), torch.compile's Triton with 7.0 (Volta). Nothing that is installed changes that: ask for float16 (half) in the
place of bfloat16, for another attention (SDPA, xFormers), for another quantisation; or take a newer GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.frameworks import because_torch, capability, gpu_name, gpu_words, named_gpus, torch
from gpustack.diagnose.rules.reading import because, because_of, copies, text, version
from gpustack.diagnose.rules.saying import because_said, said
from gpustack.model.command import Command, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message
    from gpustack.model.report import Because

ID = "gpu-feature-unsupported"
BY_ITSELF = re.compile(
    r"\b(?:falling back|fall(?:s|ing)? ?back|fallback|using (?:fp16|float16|xformers|sdpa|eager)|"
    r"will use|switching to|disabl\w+|defaulting)\b",
    re.IGNORECASE,
)
AGED = re.compile(r"\b(?:amd|gfx\d+|rocm|intel|xpu|mps|cpu)\b", re.IGNORECASE)


# Source: ROCm/ROCm: docs/reference/precision-support.rst: CDNA 3 (gfx942), CDNA 4 (gfx950) and RDNA 4 (gfx12) have FP8.
OLD_AMD = re.compile(r"gfx(?:8\w\w|90[0-9a]|10\d\d|11\d\d)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What was asked for: its name, the compute capability that it begins with, and what to ask for instead."""

    name: str
    needs: str | None
    instead: str
    commands: tuple[Command, ...]


ASK = sh("nvidia-smi --query-gpu=name,compute_cap --format=csv")
BF16 = Feature(
    name="bf16 (bfloat16)",
    needs="8.0",
    instead="Ask for fp16 (float16, half) in the place of bf16.",
    commands=(sh("# transformers: --fp16 in the place of --bf16"), sh("# vLLM: --dtype half")),
)
FLASH = Feature(
    name="FlashAttention-2",
    needs="8.0",
    instead="Use another attention: SDPA of PyTorch, or xFormers.",
    commands=(sh('# transformers: attn_implementation="sdpa"'), sh("# vLLM: export VLLM_ATTENTION_BACKEND=XFORMERS")),
)
HOPPER = Feature(
    name="FlashAttention-3",
    needs="9.0",
    instead="Use FlashAttention-2 or SDPA of PyTorch.",
    commands=(sh('# transformers: attn_implementation="sdpa"'),),
)
FP8 = Feature(
    name="FP8",
    needs="8.9",
    instead="Take the model in fp16 or bf16, or with a quantisation for older GPUs (AWQ, GPTQ, INT8).",
    commands=(sh("# vLLM: leave out --quantization fp8 and --kv-cache-dtype fp8"),),
)
COMPILE = Feature(
    name="torch.compile (Triton)",
    needs="7.0",
    instead="Run without torch.compile (eager).",
    commands=(sh("export TORCHDYNAMO_DISABLE=1"),),
)
TENSOR = Feature(
    name="this kernel of llama.cpp",
    needs=None,
    instead="Run without what asks for it: --flash-attn needs tensor cores in most builds.",
    commands=(sh("# llama.cpp: leave out --flash-attn (-fa)"),),
)
KINDS = {
    "ggml-kernel-needs": TENSOR,
    "bf16-unsupported": BF16,
    "bf16-not-supported": BF16,
    "flash-attention-gpu": FLASH,
    "triton-gpu-too-old": COMPILE,
    "fp8-unsupported": FP8,
    "quantization-capability": FP8,
    "capability-needed": FP8,
}


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the first feature that a program asked for in vain on a GPU that is too old for it."""
    build = torch(facts)
    if build and build.accelerator in {"cpu", "rocm", "xpu"}:
        yield from _of_amd(facts)
        return
    for message in sorted(said(facts, *KINDS), key=lambda one: ("cc" not in one.values, "needs" not in one.values)):
        feature, found = _feature(message), _found(message, facts)
        general = message.kind == "capability-needed" and (found[1] is None or AGED.search(message.line))
        if BY_ITSELF.search(message.line) or general:
            continue
        if not _young_enough(found[1], feature.needs):
            yield _finding(message, feature, found, facts)
            return


def _of_amd(facts: Facts) -> Iterator[Finding]:
    """Give the FP8 that was asked of an AMD GPU whose generation has none."""
    asked = said(facts, "fp8-unsupported")
    old = next((one for one in copies(facts, "amd-gpu") if OLD_AMD.match(text(one.facts, "gfx") or "")), None)
    if not asked or old is None:
        return
    gfx = text(old.facts, "gfx")
    yield Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.SERVING if version(facts, "vllm") else Layer.FRAMEWORK,
        component="gpu",
        title=f"{text(old.facts, 'name') or 'The GPU'} ({gfx}) is too old for FP8, which begins with gfx942 (MI300)",
        detail="Nothing in the stack is broken, and no other build changes this.",
        because=(because_said(asked[0]), because_of(facts, "amd-gpu", old, "gfx"), *because_torch(facts)),
        fix=Fix(text=FP8.instead, commands=FP8.commands),
    )


def _feature(message: Message) -> Feature:
    """Give what the message is about, with the capability that it names itself."""
    line = message.line.lower()
    base = KINDS[message.kind]
    if message.kind in {"capability-needed", "quantization-capability"}:
        base = BF16 if "bf16" in line or "bfloat16" in line else FLASH if "flash" in line else base
    if "flash" in line and ("hopper" in line or "flashattention-3" in line or "flash attention 3" in line):
        base = HOPPER
    needs = capability(message.values.get("needs")) or base.needs
    plain = message.kind in {"capability-needed", "quantization-capability"} and base is FP8 and "fp8" not in line
    if plain:
        what = (message.values.get("what") or "A feature").strip().removeprefix("The ").removeprefix("the ")
        other = "Take another method or format that this GPU has, such as fp16."
        return Feature(name=what, needs=needs, instead=other, commands=(ASK,))
    return Feature(name=base.name, needs=needs, instead=base.instead, commands=base.commands)


def _found(message: Message, facts: Facts) -> tuple[str | None, str | None]:
    """Give name and compute capability of the GPU: as the message names it, else the oldest that is told of."""
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
    return Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.SERVING if version(facts, "vllm") or message.kind == "bf16-unsupported" else Layer.FRAMEWORK,
        component="gpu",
        title=f"{gpu_words(name, digits)} is too old for {feature.name}, which begins with {least}",
        detail="Nothing in the stack is broken, and no other build changes this.",
        because=(because_said(message), *_others(message, facts), *_gpu(facts), *because_torch(facts)),
        confidence=Confidence.CERTAIN if digits else Confidence.LIKELY,
        fix=Fix(text=feature.instead, commands=feature.commands),
    )


def _others(message: Message, facts: Facts) -> Iterator[Because]:
    """Give what other lines ask of the GPU, which may be more or less."""
    lines = {message.line}
    for one in said(facts, *KINDS):
        if one.values.get("needs") and one.line not in lines:
            lines.add(one.line)
            yield because_said(one)


def _gpu(facts: Facts) -> Iterator[Because]:
    if named_gpus(facts):
        yield because(facts, "gpu", "name")
        yield because(facts, "gpu", "cc")
