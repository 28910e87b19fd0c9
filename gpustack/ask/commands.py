"""What to type to have a release: with pip, uv and conda where it is a wheel, else with the system's own manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import (
    ADDRESS,
    BRANCH,
    BUILD_TAG,
    DOTTED,
    NAME,
    NOTHING,
    VERSION,
    Command,
    Word,
    requirement,
    sh,
)

if TYPE_CHECKING:
    from gpustack.ask.subjects import Subject
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

# The distribution to install, and its name on conda-forge where it has one there.
DISTRIBUTIONS = {
    "pytorch": ("torch", "pytorch-gpu"),
    "tensorflow": ("tensorflow[and-cuda]", "tensorflow-gpu"),
    "onnxruntime": ("onnxruntime-gpu", None),
    "jax": ("jax", "jax"),
    "vllm": ("vllm", "vllm"),
    "sglang": ("sglang", None),
    "xformers": ("xformers", "xformers"),
    "flash-attention": ("flash-attn", "flash-attn"),
    "bitsandbytes": ("bitsandbytes", "bitsandbytes"),
    "torchvision": ("torchvision", "torchvision"),
    "torchaudio": ("torchaudio", "torchaudio"),
    "transformer-engine": ("transformer-engine", None),
    "tensorrt-llm": ("tensorrt-llm", None),
    "tensorrt": ("tensorrt", None),
    "cudnn": ("nvidia-cudnn-cu12", "cudnn"),
    "nccl": ("nvidia-nccl-cu12", "nccl"),
}

JAXLIB = sh('"jaxlib=*=*cuda*"')
AND_CUDA = (2, 14)  # the first TensorFlow with the extra


def install(subject: Subject, spec: str) -> tuple[Command, ...]:
    """Return the commands that install a release of a subject; ``spec`` names it, such as ==2.11.0 or ==2.16.*."""
    if subject.component == "nvidia-driver":
        return _anywhere(spec.removeprefix("=="))
    if subject.component == "cuda-toolkit":
        return _toolkit(spec.removeprefix("=="))
    if subject.component not in DISTRIBUTIONS:
        return ()
    name, on_conda = DISTRIBUTIONS[subject.component]
    if subject.component == "onnxruntime":
        name = subject.name if subject.name in {"onnxruntime", "onnxruntime-gpu"} else name
    if subject.component in {"cudnn", "nccl"} and subject.tag:
        name = f"nvidia-{subject.component}-{subject.tag}"
    if subject.component == "tensorflow" and numbers(subject.version) < AND_CUDA:
        name = "tensorflow"
    if subject.component == "jax" and subject.tag:
        name = f"jax[{subject.tag}]"
    wanted = requirement(name, spec)
    index: Word | Command = NOTHING
    if subject.component == "pytorch" and subject.tag:
        index = sh("--index-url {index}/{tag}", index=ADDRESS(fixes.TORCH_INDEX), tag=BUILD_TAG(subject.tag))
    return (
        sh("python -m pip install {wanted} {index}", wanted=wanted, index=index),
        sh("uv pip install {wanted} {index}", wanted=wanted, index=index),
        *_conda(subject, spec, on_conda),
    )


def driver(release: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands that install the branch of a driver release, by the distribution where it is known."""
    known = fixes.manager(facts) is not None
    return fixes.driver(facts, matrix, branch=numbers(release)[0]) if known else _anywhere(release)


def _anywhere(release: str) -> tuple[Command, ...]:
    branch, page = BRANCH(release.partition(".")[0]), ADDRESS(fixes.DRIVERS)
    return (
        sh(
            "sudo apt-get update && sudo apt-get install nvidia-driver-{branch}  # Ubuntu, where it has that branch",
            branch=branch,
        ),
        sh("# elsewhere install branch {branch} as it says there: {page}", branch=branch, page=page),
    )


def compat(package: str) -> tuple[Command, ...]:
    """Return the commands that install a compat package and let programs find it."""
    version = DOTTED(package.removeprefix("cuda-compat-").replace("-", "."))
    return (
        sh("sudo apt-get install {package}", package=NAME(package)),
        sh("export LD_LIBRARY_PATH=/usr/local/cuda-{version}/compat:$LD_LIBRARY_PATH", version=version),
    )


def _conda(subject: Subject, spec: str, name: str | None) -> tuple[Command, ...]:
    if name is None or (subject.component == "pytorch" and not (subject.tag or "").startswith("cu")):
        return ()
    version = spec.removeprefix("==").removesuffix(".*")
    wanted = sh("{name}={version}", name=NAME(name), version=VERSION(version))
    tag = (subject.tag or "").removeprefix("cuda").removeprefix("cu")
    cuda = {"pytorch": f"{tag[:2]}.{tag[2:]}", "jax": tag}.get(subject.component) if tag.isdecimal() else None
    return (
        sh(
            "conda install -c conda-forge {wanted} {build} {cuda}",
            wanted=wanted if spec.startswith("==") else requirement(name, spec),
            build=JAXLIB if subject.component == "jax" else NOTHING,
            cuda=sh("cuda-version={cuda}", cuda=DOTTED(cuda)) if cuda else NOTHING,
        ),
    )


def _toolkit(version: str) -> tuple[Command, ...]:
    minor = ".".join(version.split(".")[:2])
    return (
        sh("sudo apt-get install cuda-toolkit-{minor}", minor=DOTTED(minor.replace(".", "-"))),
        sh("conda install -c conda-forge cuda-toolkit={minor}", minor=DOTTED(minor)),
    )
