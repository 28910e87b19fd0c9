"""What to type to have a release: with pip, uv and conda where it is a wheel, else with the system's own manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.ask.given import where
from gpustack.diagnose import driver_packages, fixes, installing
from gpustack.diagnose.change_sets import place, with_torch
from gpustack.matrix.subjects import frameworks
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import (
    ADDRESS,
    BRANCH,
    BUILD_TAG,
    DOTTED,
    NAME,
    NOTHING,
    PYTHON,
    REBOOT,
    VERSION,
    Command,
    Word,
    either,
    requirement,
    sh,
    step,
)
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from gpustack.ask.subjects import Subject
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

# The distribution to install.
DISTRIBUTIONS = {
    "pytorch": "torch",
    "tensorflow": "tensorflow[and-cuda]",
    "onnxruntime": "onnxruntime-gpu",
    "jax": "jax",
    "vllm": "vllm",
    "sglang": "sglang",
    "xformers": "xformers",
    "flash-attention": "flash-attn",
    "bitsandbytes": "bitsandbytes",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "transformer-engine": "transformer-engine",
    "tensorrt-llm": "tensorrt-llm",
    "tensorrt": "tensorrt",
    "cudnn": "nvidia-cudnn-cu12",
    "nccl": "nvidia-nccl-cu12",
}

AND_CUDA = (2, 14)  # the first TensorFlow with the extra


def named(subject: Subject, spec: str) -> str:
    """Return a subject as it is typed, with its build."""
    if subject.component == "jax":
        return f"jax[{subject.tag}]{spec}" if subject.tag else f"jax{spec}"
    local = f"+{subject.tag}" if subject.component == "pytorch" and subject.tag and spec.startswith("==") else ""
    return f"{subject.name}{spec}{local}"


def install(subject: Subject, spec: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands that install a release of a subject; ``spec`` names it, such as ==2.11.0 or ==2.16.*."""
    if subject.component == "nvidia-driver":
        branch = spec.removeprefix("==").partition(".")[0]
        return fixes.driver(facts, matrix, branch=int(branch)) if BRANCH.holds(branch) else ()
    if subject.component == "cuda-toolkit":
        return _toolkit(spec.removeprefix("=="))
    if subject.component not in DISTRIBUTIONS:
        return ()
    name = DISTRIBUTIONS[subject.component]
    beside = _beside(subject, spec, facts, matrix)
    if beside:
        return beside
    if subject.component == "onnxruntime":
        name = subject.name if subject.name in {"onnxruntime", "onnxruntime-gpu"} else name
    if subject.component in {"cudnn", "nccl"} and subject.tag:
        name = f"nvidia-{subject.component}-{subject.tag}"
    if subject.component == "tensorflow" and numbers(subject.version) < AND_CUDA:
        name = "tensorflow"
    if subject.component == "jax" and subject.tag:
        name = f"jax[{subject.tag}]"
    index: Word | Command = NOTHING
    if subject.component == "pytorch" and subject.tag:
        index = installing.index(subject.tag)
        spec = f"{spec}+{subject.tag}" if spec.startswith("==") and BUILD_TAG.holds(subject.tag) else spec
    wanted = requirement(name, spec)
    first, other = ("uv pip", "python -m pip") if _by_uv(facts) else ("python -m pip", "uv pip")
    typed = (sh(PIP[one], python=PYTHON(where(facts)), wanted=wanted, index=index) for one in (first, other))
    built = name in installing.FROM_SOURCE
    return either(
        *(sh("{install} --no-build-isolation", install=one) if built else one for one in typed),
        *_conda(subject, matrix),
    )


def _beside(subject: Subject, spec: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands for a PyTorch and all that is bound to it in its Python; none where it is alone there."""
    if subject.component != "pytorch" or not BUILD_TAG.holds(subject.tag) or not spec.startswith("=="):
        return ()
    environment = where(facts)
    bound = [name for name in place(facts, environment).held if name != "torch"]
    change = with_torch(facts, matrix, environment, subject.version or "", subject.tag or "") if bound else None
    return installing.commands(change, facts, environment) if change else ()


PIP = {
    "python -m pip": "{python} -m pip install {wanted} {index}",
    "uv pip": "uv pip install {wanted} {index}",
}


def _by_uv(facts: Facts) -> bool:
    return installing.manager(facts, where(facts)) == "uv"


def driver(release: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands that install a driver as new as this release: the oldest branch that is still supported.

    The new module is loaded by a restart.
    """
    least = numbers(release)[0]
    branch = driver_packages.supported(least, fixes.last_branch(facts, matrix), matrix)
    old = step("branch {branch} is the oldest of these that NVIDIA still supports", branch=BRANCH(branch))
    commands = (*fixes.driver(facts, matrix, branch=branch), *((old,) if branch != least else ()))
    return (*commands, REBOOT) if any(one.startswith("sudo ") for one in commands) else commands


def compat(package: str) -> tuple[Command, ...]:
    """Return the commands that install a compat package and let programs find it."""
    version = DOTTED(package.removeprefix("cuda-compat-").replace("-", "."))
    return (
        sh("sudo apt-get install {package}", package=NAME(package)),
        sh("export LD_LIBRARY_PATH=/usr/local/cuda-{version}/compat:$LD_LIBRARY_PATH", version=version),
    )


def _conda(subject: Subject, matrix: Matrix) -> tuple[Command, ...]:
    """Return how conda-forge's PyTorch is installed, where it was built for this CUDA."""
    tag = (subject.tag or "").removeprefix("cu")
    cuda = CudaVersion.parse(f"{tag[:-1]}.{tag[-1:]}") if subject.component == "pytorch" and tag.isdecimal() else None
    if cuda is None or not frameworks.on_conda_forge(matrix, subject.version or "", cuda):
        return ()
    version = VERSION(subject.version)
    return (
        sh(
            "conda install -c conda-forge pytorch-gpu={version} cuda-version={cuda}",
            version=version,
            cuda=DOTTED(cuda),
        ),
    )


def _toolkit(version: str) -> tuple[Command, ...]:
    minor = ".".join(version.split(".")[:2])
    return (
        step("set up NVIDIA's repository first ({page})", page=ADDRESS(fixes.TOOLKITS)),
        *either(
            sh("sudo apt-get install cuda-toolkit-{minor}", minor=DOTTED(minor.replace(".", "-"))),
            sh("sudo dnf install cuda-toolkit-{minor}", minor=DOTTED(minor.replace(".", "-"))),
            sh("conda install -c conda-forge cuda-toolkit={minor}", minor=DOTTED(minor)),
        ),
    )
