"""JAX, TensorFlow, ONNX Runtime, PaddlePaddle and others: builds for the CPU alone, by the words of programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import naming
from gpustack.diagnose.rules.builds_with_cuda import called
from gpustack.diagnose.rules.frameworks import because_package, gpu_used, installed
from gpustack.diagnose.rules.reading import table, told, version
from gpustack.diagnose.rules.saying import grounds, heard, holding, said
from gpustack.diagnose.rules.seen import gpus, nvidia_here, on_windows
from gpustack.model.command import ADDRESS, BUILD_TAG, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message

ORT_GPU = ("onnxruntime-gpu", "ort-nightly-gpu", "onnxruntime-rocm", "onnxruntime-directml")
TF_GPU = ("tensorflow-gpu", "tensorflow-rocm", "tensorflow-directml", "tensorflow-directml-plugin")
# What else than a build for the CPU leaves JAX without a GPU.
JAX_ELSE = (
    *("jax-plugin-version", "jax-pjrt-version", "jax-plugin-interface", "jaxlib-version", "jaxlib-too-old"),
    *("no-device", "init-error", "cuda-fails-said", "insufficient-driver", "cuda-unknown-error", "visible-devices"),
)
# Paddle's own index; its build for CUDA 12.6 wants a driver of 550.54.14, that for 11.8 one of 450.80.02.
# Source: Paddle's installation guide, pip on Linux.
PADDLE, PADDLE_INDEX = "paddlepaddle", "https://www.paddlepaddle.org.cn/packages/stable"
PADDLE_CUDA = CudaVersion(12, 4)  # of driver 550


def others_heard(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each framework beside PyTorch of which a program says that it is a build without GPU code."""
    yield from _jax(facts)
    yield from _tensorflow(facts)
    yield from _onnxruntime(facts)
    yield from _paddle(facts, matrix)
    yield from _others(facts)


def _jax(facts: Facts) -> Iterator[Finding]:
    plugins = table(told(facts, "jax"), "plugins")
    alone = heard(facts, "jax-cpu-listed") and not heard(facts, *JAX_ELSE)
    told_ = bool(version(facts, "jax") or installed(facts, "jaxlib") or alone)
    fell = (heard(facts, "jax-falls-back") or alone) and nvidia_here(facts) and told_
    if plugins or not (heard(facts, "jax-cpu-only") or fell):
        return
    yield _plain(
        facts,
        "jax",
        f"JAX {version(facts, 'jax') or installed(facts, 'jax') or ''}".strip(),
        ("jax-cpu-only", "jax-falls-back", "jax-cpu-listed"),
        Fix(
            text="Install JAX with its CUDA plugin.",
            commands=(sh('python -m pip install --upgrade "jax[cuda12]"'),),
            verify=sh('python -c "import jax; print(jax.devices())"'),
        ),
    )


def _tensorflow(facts: Facts) -> Iterator[Finding]:
    cpu = installed(facts, "tensorflow-cpu") and not installed(facts, "tensorflow", *TF_GPU)
    without = any(one.values.get("answer") == "False" for one in said(facts, "tf-built-with-cuda"))
    if without and not cpu and on_windows(facts) and not facts.host.wsl:
        return  # no TensorFlow after 2.10 has CUDA there
    if heard(facts, "tf-cpu-build") or without or (cpu and nvidia_here(facts)):
        release = version(facts, "tensorflow") or installed(facts, "tensorflow", "tensorflow-cpu") or ""
        yield _plain(
            facts,
            "tensorflow",
            f"TensorFlow {release}".strip(),
            ("tf-cpu-build", "tf-built-with-cuda"),
            Fix(
                text="Install the build with CUDA (on Windows only TensorFlow up to 2.10 or WSL2 has one).",
                commands=(
                    sh("python -m pip uninstall -y tensorflow-cpu"),
                    sh('python -m pip install "tensorflow[and-cuda]"'),
                ),
                verify=sh("python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\""),
            ),
        )


def _onnxruntime(facts: Facts) -> Iterator[Finding]:
    missing = [one for one in said(facts, "ort-provider-unavailable") if "CUDA" in one.values.get("provider", "")]
    taken = {one.values["package"] for one in holding(facts, "ort-installed", "package")}
    plain = taken == {"onnxruntime"} or (not taken and bool(installed(facts, "onnxruntime")))
    lacking = plain and (heard(facts, "ort-cuda-absent-said") or (bool(gpus(facts)) and _offers_no_gpu(facts)))
    if installed(facts, *ORT_GPU) or told(facts, "onnxruntime").get("accelerator") == "cuda":
        return
    if not (missing or lacking):
        return
    yield _plain(
        facts,
        "onnxruntime",
        f"onnxruntime {version(facts, 'onnxruntime') or ''}".strip(),
        ("ort-provider-unavailable", "ort-cuda-absent-said", "ort-installed"),
        Fix(
            text="Install onnxruntime-gpu in the place of onnxruntime.",
            commands=(sh("python -m pip uninstall -y onnxruntime"), sh("python -m pip install onnxruntime-gpu")),
            verify=sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
        ),
    )


def _offers_no_gpu(facts: Facts) -> bool:
    """Tell whether ONNX Runtime lists its providers without CUDA's, and somebody wants that one."""
    listed = holding(facts, "ort-providers", "providers")
    wanted = [one for one in listed if "CUDA" in one.line.replace(one.values["providers"], "")]
    return bool(wanted) and not any(re.search("CUDA|Tensorrt|Dml", one.values["providers"]) for one in listed)


def _paddle(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give PaddlePaddle's package for the processor beside a GPU that is said not to be used."""
    release = installed(facts, PADDLE)
    if (
        not release
        or installed(facts, f"{PADDLE}-gpu")
        or not nvidia_here(facts)
        or not heard(facts, "gpu-unused-said")
    ):
        return
    highest = naming.cuda_of_driver(facts, matrix)
    tag = "cu118" if highest and highest < PADDLE_CUDA else "cu126"
    yield _plain(
        facts,
        PADDLE,
        f"PaddlePaddle {release} ({PADDLE}, not {PADDLE}-gpu)",
        ("gpu-unused-said",),
        Fix(
            text="Install the build with CUDA from Paddle's own index; its installation guide has one for each CUDA.",
            commands=(
                sh("python -m pip uninstall -y paddlepaddle"),
                sh(
                    "python -m pip install paddlepaddle-gpu -i {index}/{tag}/",
                    index=ADDRESS(PADDLE_INDEX),
                    tag=BUILD_TAG(tag),
                ),
            ),
            verify=sh('python -c "import paddle; paddle.utils.run_check()"'),
        ),
    )


def _others(facts: Facts) -> Iterator[Finding]:
    for one in said(facts, "not-built-for-gpu")[:1]:
        program = called(one.values.get("program", ""))
        yield _plain(facts, program.name.lower(), program.name, ("not-built-for-gpu",), program.fix())


def _plain(facts: Facts, component: str, name: str, kinds: tuple[str, ...], fix: Fix) -> Finding:
    because_ = (*grounds(facts, *kinds), *because_package(facts, component))
    likely = Confidence.LIKELY if gpu_used(facts) else Confidence.CERTAIN
    return Finding(
        id="cpu-only-build",
        instance=component,
        severity=Severity.ERROR if _complaint(facts, kinds) else Severity.WARNING,
        layer=Layer.FRAMEWORK,
        component=component,
        title=f"{name} is a CPU-only build: it has no CUDA inside and does not use the GPU",
        because=because_,
        confidence=likely,
        fix=fix,
    )


def _complaint(facts: Facts, kinds: tuple[str, ...]) -> Message | None:
    return next(iter(said(facts, *kinds)), None)
