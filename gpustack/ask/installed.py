"""A subject as the component it would be once installed, for judging."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.ask.given import gpu, made
from gpustack.ask.subjects import Subject
from gpustack.matrix.subjects import frameworks, serving, torch
from gpustack.matrix.subjects.ranges import numbers

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.serving import ServingRelease, VllmRelease
    from gpustack.model.facts import Component

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


MAKERS = {"pytorch": _torch, "onnxruntime": _onnxruntime, "jax": _jax, "tensorflow": _tensorflow}
