"""The subject of a question as people type it (``torch==2.7.1+cu128``), and as a component once installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gpustack.ask.given import gpu, made
from gpustack.ask.releases import candidates, release_named
from gpustack.errors import UsageError
from gpustack.matrix.subjects import amd_intel, drivers, frameworks, generated, gpus, serving, toolkits, torch
from gpustack.matrix.subjects.ranges import VersionRange, numbers
from gpustack.model import record, replace
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.serving import ServingRelease, VllmRelease
    from gpustack.model.facts import Component

COMPONENTS = {
    "torch": "pytorch",
    "pytorch-gpu": "pytorch",
    "pytorch-cuda": "pytorch",
    "tensorflow-gpu": "tensorflow",
    "tf": "tensorflow",
    "onnxruntime-gpu": "onnxruntime",
    "ort": "onnxruntime",
    "jaxlib": "jax",
    "cuda": "cuda-toolkit",
    "cudatoolkit": "cuda-toolkit",
    "toolkit": "cuda-toolkit",
    "nvcc": "cuda-toolkit",
    "driver": "nvidia-driver",
    "nvidia": "nvidia-driver",
    "flash-attn": "flash-attention",
    "text-generation-inference": "tgi",
    "libcudnn": "cudnn",
    "libnccl": "nccl",
    "megatron-core": "megatron-lm",
    "tritonserver": "triton-inference-server",
    "kernel": "linux-kernel",
    "py": "python",
    "numpy": "numpy",  # no release of its own is a row, but others state which they work with
}
WHEEL = re.compile(r"(?:nvidia-)?(?P<name>cudnn|nccl|tensorrt)-cu(?P<cuda>\d\d)")
PLUGIN = re.compile(r"jax-cuda(?P<cuda>\d\d)-(?:plugin|pjrt)")
EXTRA = re.compile(r"cuda(?P<cuda>\d\d)(?:-local|-pip)?")
EXACT = frozenset({"==", "==="})
BARE = frozenset(
    {"gpu", "python", "cudnn", "gcc", "clang", "linux-kernel", "rocm", "image"}
)  # whose versions are no releases of a table
JOINING = frozenset(
    {"on", "for", "with", "in", "and", "to", "using", "run", "runs", "can"}
)  # of sentences, not of names
LONGEST = 200  # characters; the longest useful one has 40


@record
class Subject:
    """One thing that a question is about.

    ``name`` is the distribution or component as typed, ``component`` its id; ``tag`` is the build (cu128, cuda12), None
    if a plain install decides. ``version`` is None until a range is resolved; ``exact`` says whether one release was
    typed.
    """

    typed: str
    name: str
    component: str
    version: str | None = None
    tag: str | None = None
    span: str = ""
    exact: bool = True

    @property
    def words(self) -> str:
        """Its display name, such as pytorch 2.7.1 (cu128)."""
        if self.component == "image":
            return f"{self.name}:{self.version}{self.tag or ''}"
        return " ".join([self.component, *filter(None, [self.version]), *([f"({self.tag})"] if self.tag else [])])


def parse(text: str, matrix: Matrix) -> Subject:
    """Return the typed text, possibly a GPU's name, as a subject; raises UsageError if it is not one."""
    if len(text) > LONGEST:
        raise UsageError(f"{text[:30]!r}… is not a subject: it has {len(text)} characters, more than {LONGEST}")
    if is_gpu(text.strip(), matrix):
        return Subject(typed=text, name="gpu", component="gpu", version=text.strip())
    month = toolkits.NGC.fullmatch(text.strip())
    if month:
        return Subject(typed=text, name=month["name"], component="image", version=month["month"], tag=month["build"])
    try:
        requirement = Requirement(text.strip())
    except InvalidRequirement as error:
        raise UsageError(f"{text!r} is not a subject: write it like torch==2.7.1+cu128 or 'torch>=2.6'") from error
    if requirement.url or requirement.marker:
        raise UsageError(f"{text!r} is not a subject: the matrix takes no address and no condition")
    name = canonicalize_name(requirement.name)
    component, tag = _component(name)
    program = serving.program_named(matrix, name)
    component = program.component if program else component
    extra = next((match["cuda"] for one in sorted(requirement.extras) if (match := EXTRA.fullmatch(one))), None)
    if component == "jax" and extra:
        tag = f"cuda{extra}"
    subject = Subject(typed=text.strip(), name=name, component=component, tag=tag)
    return _versioned(subject, requirement)


def resolve(subject: Subject, system: str, matrix: Matrix) -> Subject:
    """Return the subject with a version and, for PyTorch, the build that a plain install picks on this platform."""
    version = subject.version
    if version is None:
        fitting = [one for one in _released(subject, matrix) if _in(one, subject.span)]
        kept = [one for one in fitting if subject.component != "nvidia-driver" or _for_production(one, matrix)]
        version = next(reversed(kept or fitting), None)
    else:
        major = subject.component == "cudnn" and version.isdecimal()  # any of that major
        known = None if major else release_named(matrix, subject.component, version)
        version = known or version
        if re.fullmatch(r"\d+(\.\d+)?", subject.version or "") and subject.component not in {"nvidia-driver", *BARE}:
            missing = known is None or generated.missing(matrix, subject.component, version)
            version = (_newest(subject.component, subject.version or "", matrix) if missing else None) or version
    tag = subject.tag
    if subject.component == "pytorch" and tag is None and version:
        usual = torch.default_build(matrix, version, system)
        tag = usual.tag if usual else None
    return replace(subject, version=version, tag=tag)


def _released(subject: Subject, matrix: Matrix) -> list[str]:
    """Return the releases of a component, oldest first; of another of its distributions, or without wheels, its own."""
    known = [one.version for one in candidates(matrix, subject.component)]
    main = generated.DISTRIBUTIONS.get(subject.component, (subject.component,))[0]
    other = subject.name not in {main, subject.component}
    own = generated.releases(matrix, subject.name) if other or not known else ()
    return [one.version for one in own if not one.yanked] or known


def _newest(component: str, version: str, matrix: Matrix) -> str | None:
    """Return the newest release that a major or a minor may mean: TensorFlow 2.16 began with 2.16.1."""
    name = generated.DISTRIBUTIONS.get(component, (component,))[0]
    listed = [one.version for one in generated.releases(matrix, name) if one.wheels and not one.yanked]
    known, wanted = (*(one.version for one in candidates(matrix, component)), *listed), numbers(version)
    return next((one for one in reversed(known) if numbers(one)[: len(wanted)] == wanted), None)


def _for_production(driver: str, matrix: Matrix) -> bool:
    """Return whether a driver's branch is meant for production, not a new-feature branch."""
    branch = drivers.branch_of(matrix, int(driver.partition(".")[0]))
    return branch is not None and branch.kind in drivers.KEPT


def is_gpu(text: str, matrix: Matrix) -> bool:
    """Return whether a text names a GPU: by architecture, compute capability or name."""
    if ComputeCapability.parse(text) or re.fullmatch(r"gfx[0-9a-f]{3,5}", text):
        return True
    if any(word.lower() in JOINING or serving.program_named(matrix, canonicalize_name(word)) for word in text.split()):
        return False
    if any(canonicalize_name(re.split("[=<>~]", word)[0]) in {*COMPONENTS, *matrix.systems} for word in text.split()):
        return False  # several words, one of them a GPU, are not a GPU
    named = gpus.capability_of(matrix, text) or gpus.ambiguity_of(matrix, text) or amd_intel.gfx_of(matrix, text)
    return named is not None or amd_intel.device_named(matrix, text) is not None


def _component(name: str) -> tuple[str, str | None]:
    wheel, plugin = WHEEL.fullmatch(name), PLUGIN.fullmatch(name)
    if wheel:
        return wheel["name"], f"cu{wheel['cuda']}"
    if plugin:
        return "jax", f"cuda{plugin['cuda']}"
    return COMPONENTS.get(name, name), None


def _versioned(subject: Subject, requirement: Requirement) -> Subject:
    parts = list(requirement.specifier)
    exact = parts[0].version if len(parts) == 1 and parts[0].operator in EXACT else None
    if exact is None or exact.endswith("*"):
        return replace(subject, span=str(requirement.specifier), exact=False)
    version, _, local = exact.partition("+")
    return replace(subject, version=version, tag=local or subject.tag)


def _in(version: str, span: str) -> bool:
    return VersionRange.parse(span).holds(version)


BROUGHT = "brought"  # marks a component that nobody named and that an install adds
CPU_BUILDS = frozenset({"onnxruntime"})  # distributions whose builds do not depend on the GPU
KIND = re.compile(r"cpu|xpu|rocm|cu")
CUDA = re.compile(r"cu(\d{1,2})(\d)")


def install(subject: Subject, where: str | None, matrix: Matrix) -> Component:
    """Return the component of a subject in the Python at ``where``; raises UsageError for an unknown GPU."""
    if subject.component == "gpu":
        return gpu(subject.version or "", matrix)
    if subject.component in MAKERS:
        return MAKERS[subject.component](subject, where, matrix)
    if subject.component == "cuda-toolkit":
        return made("cuda-toolkit", subject.version, in_use=True)
    if subject.component in {"cudnn", "nccl", "tensorrt"}:
        major = (subject.tag or "").removeprefix("cu")
        return made(subject.component, subject.version, cuda_major=int(major) if major.isdecimal() else None)
    everywhere = subject.component in {"nvidia-driver", "gcc", "clang", "linux-kernel"}
    return made(subject.component, subject.version, None if everywhere else where)


def brought(subject: Subject, where: str | None, system: str | None, matrix: Matrix) -> Component | None:
    """Return the PyTorch that a plain install of a server adds: the version it pins, in its usual build."""
    known = _release(subject, matrix)
    pinned = re.fullmatch(r"==([\d.]+)", known.torch.text) if known else None
    usual = torch.default_build(matrix, pinned[1], system or "") if pinned else None
    if pinned is None or usual is None:
        return None
    own = Subject(typed="", name="torch", component="pytorch", version=pinned[1], tag=usual.tag)
    made_ = _torch(own, where, matrix)
    return replace(made_, instances=tuple(replace(one, facts={**one.facts, BROUGHT: True}) for one in made_.instances))


def _release(subject: Subject, matrix: Matrix) -> VllmRelease | ServingRelease | None:
    if subject.component == "vllm":
        return serving.vllm_of(matrix, subject.version or "")
    return serving.release_of(matrix, "sglang", subject.version or "") if subject.component == "sglang" else None


def offered(subject: Subject, platform: str, matrix: Matrix) -> bool:
    """Return whether a PyTorch is offered in the build that the subject names; true for anything else."""
    if subject.component != "pytorch" or not subject.version or not subject.tag:
        return True
    usual = torch.default_build(matrix, subject.version, platform)
    return (usual is not None and usual.tag == subject.tag) or (
        torch.build_of(matrix, subject.version, subject.tag, platform) is not None
    )


def _torch(subject: Subject, where: str | None, _matrix: Matrix) -> Component:
    tag = subject.tag or ""
    kind, cuda = KIND.match(tag), CUDA.fullmatch(tag)
    accelerator = {"cu": "cuda"}.get(kind.group(), kind.group()) if kind else None
    number = f"{cuda[1]}.{cuda[2]}" if cuda else None
    return made("pytorch", subject.version, where, build=tag or None, accelerator=accelerator, cuda=number)


def _onnxruntime(subject: Subject, where: str | None, matrix: Matrix) -> Component:
    release = frameworks.onnxruntime_of(matrix, subject.version or "") if numbers(subject.version)[1:] else None
    for_gpu = subject.name != "onnxruntime"
    cuda = str(release.cuda) if release and for_gpu else None
    accelerator = "cpu" if not for_gpu else "cuda"
    return made("onnxruntime", subject.version, where, cuda=cuda, accelerator=accelerator)


def _jax(subject: Subject, where: str | None, _matrix: Matrix) -> Component:
    major = (subject.tag or "").removeprefix("cuda")
    accelerator = "cuda" if major else "cpu"
    return made("jax", subject.version, where, build=subject.tag, cuda=major or None, accelerator=accelerator)


def _tensorflow(subject: Subject, where: str | None, matrix: Matrix) -> Component:
    known = frameworks.tensorflow_of(matrix, subject.version or "") if numbers(subject.version)[1:] else None
    plain = known is not None and known.gpu_wheel not in {"tensorflow", subject.name}
    own = subject.name if subject.name == "tensorflow-gpu" else None  # a distribution with wheels of its own
    return made("tensorflow", subject.version, where, accelerator="cpu" if plain else "cuda", distribution=own)


def _image(subject: Subject, _where: str | None, _matrix: Matrix) -> Component:
    return made("image", subject.version, name=subject.name, build=subject.tag)


MAKERS = {"image": _image, "pytorch": _torch, "onnxruntime": _onnxruntime, "jax": _jax, "tensorflow": _tensorflow}
