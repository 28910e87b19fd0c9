"""The commands that install a release: pip, uv or conda for a wheel, otherwise the system's package manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.ask.given import where
from gpustack.diagnose import driver_packages, fixes, installing
from gpustack.diagnose.change_sets import FAMILY, place, with_torch
from gpustack.matrix.subjects import frameworks, generated, torch
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import (
    ADDRESS,
    BRANCH,
    BUILD_TAG,
    DOTTED,
    NAME,
    NOTHING,
    PATH,
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
    from collections.abc import Callable, Iterator, Mapping

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
    "triton": "triton",
    "transformer-engine": "transformer-engine",
    "tensorrt-llm": "tensorrt-llm",
    "tensorrt": "tensorrt",
    "cudnn": "nvidia-cudnn-cu12",
    "nccl": "nvidia-nccl-cu12",
}

AND_CUDA = (2, 14)  # the first TensorFlow with this extra


def named(subject: Subject, spec: str) -> str:
    """Return a subject as it would be typed, with its build."""
    if subject.component == "image":
        return f"{subject.name}:{spec.removeprefix('==')}{subject.tag or ''}"
    if subject.component == "jax":
        return f"jax[{subject.tag}]{spec}" if subject.tag else f"jax{spec}"
    local = f"+{subject.tag}" if subject.component == "pytorch" and subject.tag and spec.startswith("==") else ""
    name = "tensorflow" if subject.component == "tensorflow" else subject.name
    return f"{name}{spec}{local}"


def install(subject: Subject, spec: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands that install a release of a subject; ``spec`` names it, such as ==2.11.0 or ==2.16.*."""
    if subject.component in APART:
        return APART[subject.component](subject, spec.removeprefix("=="), facts, matrix)
    name = DISTRIBUTIONS.get(subject.component, subject.name)
    if subject.component not in DISTRIBUTIONS and not generated.has(matrix, name):
        return ()
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
    at = NOTHING
    if subject.component == "pytorch" and subject.tag and not _usual(subject, facts, matrix):
        at = installing.address(subject.tag)
        spec = f"{spec}+{subject.tag}" if spec.startswith("==") and BUILD_TAG.holds(subject.tag) else spec
    wanted = [requirement(name, spec), *_torch_kept(name, facts)]
    own = installing.install(facts, where(facts), wanted, at=at)
    index = sh("--index-url {at}", at=at) if at else NOTHING
    python = PYTHON(where(facts))
    by_pip = sh("{python} -m pip install {wanted} {index}", python=python, wanted=wanted, index=index)
    by_uv = sh("uv pip install {wanted} {index}", wanted=wanted, index=index)
    locked = installing.manager(facts, where(facts)) in {"poetry", "pixi"}  # pip beside them is undone by the next lock
    typed = (own,) if locked else tuple(dict.fromkeys((own, by_pip, by_uv)))
    built = name in installing.FROM_SOURCE
    conda = _conda(subject, matrix)
    wheels = tuple(sh("{install} --no-build-isolation", install=one) if built else one for one in typed)
    return either(*((*conda, *wheels) if _by_conda(facts) else (*wheels, *conda)))


def _usual(subject: Subject, facts: Facts, matrix: Matrix) -> bool:
    """Return whether a plain install picks this build: it is on the package index, and no other build is installed."""
    here, release = place(facts, where(facts)), subject.version or ""
    usual = torch.default_build(matrix, release, here.system)
    return usual is not None and usual.tag == subject.tag and here.release != release


def _beside(subject: Subject, spec: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands for a PyTorch and everything bound to it in its Python; none if nothing is bound to it."""
    if subject.component != "pytorch" or not BUILD_TAG.holds(subject.tag) or not spec.startswith("=="):
        return ()
    environment = where(facts)
    bound = [name for name in place(facts, environment).held if name != "torch"]
    change = with_torch(facts, matrix, environment, subject.version or "", subject.tag or "") if bound else None
    return installing.commands(change, facts, environment) if change else ()


def _torch_kept(name: str, facts: Facts) -> Iterator[Word]:
    """Yield the installed torch, for a command that installs packages bound to it: pip must not replace it."""
    release = place(facts, where(facts)).release if name in FAMILY and name not in installing.FROM_SOURCE else None
    if release:
        yield requirement("torch", f"=={release}")


def _by_conda(facts: Facts) -> bool:
    return not facts.taken and any(one.kind == "conda" for one in facts.environments[:1])


def driver(release: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    """Return the commands that install a driver at least this new: the oldest branch that is still supported.

    A restart loads the new module.
    """
    least = numbers(release)[0]
    branch = driver_packages.supported(least, fixes.last_branch(facts, matrix), matrix)
    old = step("branch {branch} is the oldest of these that NVIDIA still supports", branch=BRANCH(branch))
    newest = fixes.manager(facts) == "pacman"  # Arch Linux has no other
    commands = (*fixes.driver(facts, matrix, branch=branch), *((old,) if branch != least and not newest else ()))
    return (*commands, REBOOT) if any(one.startswith("sudo ") for one in commands) else commands


def is_supported(release: str, facts: Facts, matrix: Matrix) -> bool:
    """Return whether NVIDIA still supports the driver's branch, or no supported branch runs the GPU."""
    branch = numbers(release)[0]
    return driver_packages.supported(branch, fixes.last_branch(facts, matrix), matrix) == branch


def compat(package: str, facts: Facts) -> tuple[Command, ...]:
    """Return the commands that install a compat package and make programs find it."""
    version = DOTTED(package.removeprefix("cuda-compat-").replace("-", "."))
    return (
        *_from_nvidia(package, facts),
        sh("export LD_LIBRARY_PATH=/usr/local/cuda-{version}/compat:$LD_LIBRARY_PATH", version=version),
    )


def _conda(subject: Subject, matrix: Matrix) -> tuple[Command, ...]:
    """Return how to install conda-forge's PyTorch, if it was built for this CUDA."""
    tag = (subject.tag or "").removeprefix("cu")
    cuda = CudaVersion.parse(f"{tag[:-1]}.{tag[-1:]}") if subject.component == "pytorch" and tag.isdecimal() else None
    if cuda is None or not frameworks.on_conda_forge(matrix, subject.version or "", cuda):
        return ()
    version = VERSION(subject.version)
    return (
        sh(
            "conda install -c conda-forge pytorch-gpu={version} cuda-version={cuda}", version=version, cuda=DOTTED(cuda)
        ),
    )


def _toolkit(version: str, facts: Facts) -> tuple[Command, ...]:
    minor = ".".join(version.split(".")[:2])
    *typed, last = _from_nvidia(f"cuda-toolkit-{minor.replace('.', '-')}", facts, arch="cuda")
    return (*typed, *either(last, sh("conda install -c conda-forge cuda-toolkit={minor}", minor=DOTTED(minor))))


def _from_nvidia(package: str, facts: Facts, *, arch: str = "") -> tuple[Command, ...]:
    """Return how to install a package from NVIDIA's repository: on this distribution, else on the two likeliest."""
    if fixes.manager(facts):
        return fixes.from_nvidia(facts, package, fixes.TOOLKITS, arch=arch)
    rpm = step(
        "this is for Ubuntu and Debian; on Red Hat Enterprise Linux, Rocky, AlmaLinux and Fedora"
        " `sudo dnf install {package}`",
        package=NAME(package),
    )
    first = step("set up NVIDIA's repository first ({page})", page=ADDRESS(fixes.TOOLKITS))
    return (first, rpm, sh("sudo apt-get install {package}", package=NAME(package)))


def python(number: str) -> tuple[Command, ...]:
    """Return the commands that create a separate environment with another Python, and activate it."""
    words = {"number": DOTTED(number)}
    return (
        sh("uv venv --seed --python {number} env-{number}", **words),
        sh(". env-{number}/bin/activate", **words),
        step("or with conda: `conda create -n env-{number} python={number}`, `conda activate env-{number}`", **words),
    )


def _driver(_subject: Subject, release: str, facts: Facts, matrix: Matrix) -> tuple[Command, ...]:
    return driver(release, facts, matrix) if BRANCH.holds(release.partition(".")[0]) else ()


APART: Mapping[str, Callable[[Subject, str, Facts, Matrix], tuple[Command, ...]]] = {
    "nvidia-driver": _driver,
    "cuda-toolkit": lambda _subject, release, facts, _matrix: _toolkit(release, facts),
    "image": lambda subject, month, *_: (sh("docker pull {image}", image=PATH(named(subject, month))),),
}
