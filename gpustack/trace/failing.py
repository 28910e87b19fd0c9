"""From a verdict to a step: at which of the seven a stack that is at fault would stop, and why there.

The layer of the finding decides, since a program meets the layers in this order; a finding is named here only where
its layer does not decide.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Health, Severity
from gpustack.model.trace import Ground, State, Step, Stop, Trace
from gpustack.trace.steps import NAMES, needing

if TYPE_CHECKING:
    from gpustack.model.report import Finding, Report
    from gpustack.model.trace import Subject

BY_LAYER = {
    **dict.fromkeys((Layer.HARDWARE, Layer.KERNEL, Layer.KERNEL_MODULE, Layer.DRIVER), 2),
    **dict.fromkeys((Layer.RUNTIME, Layer.ENVIRONMENT, Layer.CONTAINER), 2),
    **dict.fromkeys((Layer.LIBRARY, Layer.APPLICATION), 4),
    Layer.COMPILER: 3,
    **dict.fromkeys((Layer.FRAMEWORK, Layer.SERVING), 1),
}
AT_IMPORT = (
    *("glibc-too-old", "libstdcxx-too-old", "python-version-no-wheel", "oneapi-env-not-sourced"),
    *("another-environment-works", "cuda-runtime-missing", "cuda-core-bindings-mismatch", "multiple-cupy"),
    *("extension-abi-mismatch", "nccl-version-clash", "nvjitlink-clash", "cuda-lib-shadowed", "cuda-major-mixed"),
    *("wheel-files-overwritten", "bnb-binary-missing-for-cuda"),
)
INTO_THE_DRIVER = (
    *("cpu-only-build", "jax-plugin-mismatch", "tf-no-native-windows-gpu", "tf-cannot-dlopen"),
    *("ort-cpu-and-gpu-installed", "ort-cudnn-major-mismatch", "gpu-process-stuck", "process-on-deleted-driver"),
)
NO_CODE = (
    *("arch-not-in-build", "arch-by-ptx-only", "rocm-gfx-unsupported", "ptx-newer-than-driver"),
    *("gpu-feature-unsupported", "cuda-toolkit-missing", "libcuda-so-symlink-missing"),
)
WHILE_RUNNING = ("framework-fails-on-gpu", "gpu-overheat", "gpu-hw-slowdown", "bench-failed", "bench-low")
IN_MEMORY = ("gpu-ecc-error",)
BETWEEN_GPUS = ("nvlink-error", "iommu-acs-p2p")
LOADERS = ("container-shm-too-small",)
BY_FINDING = {
    **dict.fromkeys((*AT_IMPORT, *LOADERS), 1),
    **dict.fromkeys(INTO_THE_DRIVER, 2),
    **dict.fromkeys(NO_CODE, 3),
    **dict.fromkeys(WHILE_RUNNING, 4),
    **dict.fromkeys((*IN_MEMORY, *BETWEEN_GPUS), 5),
}
WHY = {
    1: "the program ends at its imports, before there is a weight in memory",
    2: "the first copy is the first call into the driver, and from here on the program needs a GPU that answers",
    3: "before a kernel can start, code for this GPU must be found or compiled and loaded",
    4: "the kernels of the libraries start here",
    5: "the tensors between the layers lie in the GPU's memory",
}
WHY_FINDING = {
    "python-version-no-wheel": "the framework cannot be installed for this Python, so there is nothing to import",
    **dict.fromkeys(LOADERS, "what loads the input shares it between processes through /dev/shm"),
    **dict.fromkeys(INTO_THE_DRIVER, "the first copy is where the program asks for a GPU and is told that it has none"),
    **dict.fromkeys(BETWEEN_GPUS, "tensors that go to another GPU go over this link"),
    **dict.fromkeys(WHILE_RUNNING, "it shows while kernels are running"),
}
WITHOUT = "there is no GPU in these facts"
UNTOLD = "too little could be seen to say whether this step would fail"


def step_of(finding: Finding) -> int:
    """Give the number of the step at which what this finding tells of is met."""
    return BY_FINDING.get(finding.id, BY_LAYER[finding.layer])


def why_of(finding: Finding) -> str:
    """Give why it is this step."""
    return WHY_FINDING.get(finding.id, WHY[step_of(finding)])


def stop(report: Report) -> Stop | None:
    """Give the step at which the stack of a report fails, from its first root cause; None where it has none."""
    root = next((one for key in report.verdict.root_keys for one in report.findings if one.key == key), None)
    if root is None:
        return None
    number = step_of(root)
    return Stop(
        step=number,
        name=NAMES[number],
        finding=root.key,
        says=root.title,
        why=why_of(root),
        explain=f"gpustack explain {root.id}",
        fails=root.severity is Severity.ERROR,
    )


def recorded(report: Report, subject: Subject) -> Trace:
    """Give what would become of the seven steps on the machine of this report."""
    where = stop(report)
    roots = tuple(one for key in report.verdict.root_keys for one in report.findings if one.key == key)
    return Trace(
        tool=report.tool,
        ground=Ground.RECORDED,
        subject=subject,
        steps=tuple(_step(number, where, report.verdict.status) for number in NAMES),
        findings=roots,
        stop=where,
        says=_summary(where, report.verdict.status),
        taken=report.taken or datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=report.seconds,
    )


def _summary(where: Stop | None, health: Health) -> str:
    """Give in a sentence what would become of the seven steps."""
    if where is not None and where.fails:
        return f"it would fail at step {where.step}, {where.name}: {where.says}"
    if where is not None:
        return f"none of the seven steps is known to fail; step {where.step}, {where.name}, has limits: {where.says}"
    return {
        Health.NO_GPU: f"{WITHOUT}: steps 1, 5 and 6 run on a CPU, with gpustack trace --cpu",
        Health.UNKNOWN: "too little could be seen to name a step",
    }.get(health, "none of the seven steps is known to fail")


def _step(number: int, where: Stop | None, health: Health) -> Step:
    if where is None and health is Health.NO_GPU:
        return needing(number) if number not in {1, 5, 6} else _left(number, WITHOUT)
    if where is None:
        return _left(number, UNTOLD if health is Health.UNKNOWN else "nothing is known against it")
    if number == where.step:
        status = State.FAILED if where.fails else State.SKIPPED
        return Step(number=number, name=NAMES[number], status=status, why=(where.says, where.why))
    late = where.fails and number > where.step
    return _left(number, "not reached" if late else "nothing is known against it")


def _left(number: int, why: str) -> Step:
    return Step(number=number, name=NAMES[number], status=State.SKIPPED, why=(why,))
