"""``matrix why`` and the doctor agree about the same versions: asked about, installed, or read from a listing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as some

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.ask.releases import candidates
from gpustack.matrix.subjects import drivers, frameworks, gpus, torch
from gpustack.model.matrix_answer import Compatibility
from gpustack.model.report import Kept
from tests.build import MATRIX, PYTHON, jax, merged, on, onnxruntime, report, seen

if TYPE_CHECKING:
    from gpustack.matrix.subjects.torch import Build
    from gpustack.model.facts import Component, Facts
    from gpustack.model.report import Contract

WORKS = {Compatibility.COMPATIBLE, Compatibility.LIMITED}
BUILDS = tuple(
    build
    for release in torch.releases(MATRIX)[-28:]
    for platform in ("linux-x86_64", "linux-aarch64")
    for build in torch.builds_of(MATRIX, release.version, platform)
    if build.accelerator in {"cuda", "cpu"}
)
GPUS = ("H100", "B200", "B300", "RTX 5090", "L40S", "A100", "T4", "Tesla V100", "GTX 1080", "GH200", "GB300")
RELEASES = tuple(one for one in drivers.branches(MATRIX) if one.last and one.number >= 450)
PYTHONS = ("3.9", "3.10", "3.12", "3.13", "3.13t", "3.14", "3.14t")
# The distribution as a listing names it, and its component.
BESIDE = {
    "vllm": "vllm",
    "sglang": "sglang",
    "xformers": "xformers",
    "bitsandbytes": "bitsandbytes",
    "flash-attn": "flash-attention",
    "torchvision": "torchvision",
}
INDEX = {"package": "onnxruntime-gpu"}
EXTENSIONS = tuple(
    (name, one.version) for name, component in BESIDE.items() for one in candidates(MATRIX, component)[-9:]
)
# Other frameworks: the question, and the same framework as an installed one.
OTHERS = (
    *(
        (f"jax=={one.version}+cuda{cuda}", jax(f"cuda{cuda}", one.version))
        for one in frameworks.jax_releases(MATRIX)[-14:]
        for cuda in one.cuda
    ),
    *(
        (
            f"onnxruntime-gpu=={one.version}.0",
            onnxruntime(f"cuda{one.cuda}", f"{one.version}.0", cuda=str(one.cuda), **INDEX),
        )
        for one in frameworks.onnxruntime_releases(MATRIX)[-10:]
    ),
    *(
        (f"{name}=={one}", seen(name, {"version": one, "environment": PYTHON}))
        for name, releases in (
            ("tensorflow", [f"{one.version}.0" for one in frameworks.tensorflow_releases(MATRIX)[-12:]]),
            ("cupy", [one.version for one in candidates(MATRIX, "cupy")[-8:]]),
            ("vllm", [one.version for one in candidates(MATRIX, "vllm")[-8:]]),
        )
        for one in releases
    ),
)
# An installed copy proves that it can be installed, whatever wheels exist: these are asked about before installing.
BEFORE_INSTALLING = {"python", "platform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One machine with a PyTorch, and possibly something built on it."""

    build: Build
    gpu: str
    driver: drivers.Branch
    python: str
    extension: tuple[str, str] | None = None

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects of the question."""
        beside = () if self.extension is None else (f"{self.extension[0]}=={self.extension[1]}",)
        return (*beside, f"torch=={self.build.version}+{self.build.tag}")

    @property
    def given(self) -> Given:
        """The versions given with the question."""
        machine = self.build.platform.removeprefix("linux-")
        return Given(driver=str(self.driver.last), gpu=self.gpu, python=self.python, machine=machine)

    def installed(self) -> Facts:
        """Return the same machine as the probes would report it."""
        capability = gpus.capability_of(MATRIX, self.gpu)
        assert capability is not None
        packed = self.driver.cuda.major * 1000 + self.driver.cuda.minor * 10
        here = on(str(self.driver.last), packed, *self._wheels(), cc=str(capability), name=self.gpu)
        version, gil = self.python.removesuffix("t"), not self.python.endswith("t")
        interpreter = {"key": PYTHON, "version": version, "gil": gil, "environment": PYTHON, "glibc": "2.39"}
        facts = merged(here, seen("python", interpreter), drop=["pci-display", "kernel-log"])
        return replace(facts, host=replace(facts.host, machine=self.build.platform.removeprefix("linux-")))

    def _wheels(self) -> tuple[Component, ...]:
        archs = [f"{one.kind}_{one.capability.major}{one.capability.minor}{one.suffix}" for one in self.build.archs]
        copy = {
            "version": f"{self.build.version}+{self.build.tag}",
            "build": self.build.tag,
            "environment": PYTHON,
            "accelerator": self.build.accelerator,
            "cuda": str(self.build.cuda) if self.build.cuda else None,
            "archs": archs,
        }
        listed = dict([self.extension] if self.extension else [])
        return seen("pytorch", copy), seen("packages", {"environment": PYTHON, "distributions": listed})


STACKS = some.builds(
    Stack,
    build=some.sampled_from(BUILDS),
    gpu=some.sampled_from(GPUS),
    driver=some.sampled_from(RELEASES),
    python=some.sampled_from(PYTHONS),
    extension=some.none() | some.sampled_from(EXTENSIONS),
)


def _by_pair(contracts: tuple[Contract, ...]) -> dict[tuple[str, str, str, str], Kept]:
    return {(one.from_, one.to, one.kind, one.needs): one.status for one in contracts}


@settings(max_examples=150)
@given(stack=STACKS)
def test_the_doctor_and_the_matrix_never_disagree(stack: Stack) -> None:
    asked = answering.search(stack.subjects, stack.given, None, MATRIX, versions=1).at
    found = _by_pair(report(stack.installed()).contracts)
    for key, kept in _by_pair(asked.contracts).items():
        runs = key[:2] in {("gpu", "nvidia-driver"), ("gpu", "nvidia.ko")}  # a driver supports every GPU that it lists
        if runs or key[2] in BEFORE_INSTALLING or (key[2] == "accelerator" and stack.build.accelerator == "cpu"):
            assert {kept, found.get(key, kept)} != {Kept.OK, Kept.BROKEN}, key
        elif kept is Kept.BROKEN or found.get(key) is Kept.BROKEN:
            assert found.get(key) is kept, (stack.subjects, stack.given, key, kept)
    if asked.verdict in WORKS:
        ends = {"pytorch", "gpu", "nvidia-driver", "python", *BESIDE.values()}
        broken = [key for key, kept in found.items() if kept is Kept.BROKEN and {key[0], key[1]} <= ends]
        assert not broken, (stack.subjects, stack.given)


@settings(max_examples=60)
@given(stack=STACKS, drop=some.sampled_from(["gpu", "driver", "python", "machine"]))
def test_less_given_never_turns_a_no_into_a_yes_of_the_same_pairs(stack: Stack, drop: str) -> None:
    """A pair gets the same verdict whatever else is given; only what depends on the third thing may differ."""
    whole = answering.search(stack.subjects, stack.given, None, MATRIX, versions=1).at
    fewer = replace(stack.given, **{drop: None})
    part = answering.search(stack.subjects, fewer, None, MATRIX, versions=1).at
    if whole.verdict is Compatibility.COMPATIBLE and drop != "machine":
        assert part.verdict in WORKS, (stack.subjects, stack.given, drop)


@settings(max_examples=120)
@given(other=some.sampled_from(OTHERS), gpu=some.sampled_from(GPUS[:9]), driver=some.sampled_from(RELEASES))
def test_the_doctor_and_the_matrix_never_disagree_on_other_frameworks(
    other: tuple[str, Component], gpu: str, driver: drivers.Branch
) -> None:
    subject, component = other
    given_ = Given(driver=str(driver.last), gpu=gpu, python="3.12", machine="x86_64")
    asked = answering.search((subject,), given_, None, MATRIX, versions=1).at
    packed = driver.cuda.major * 1000 + driver.cuda.minor * 10
    here = on(str(driver.last), packed, component, cc=str(gpus.capability_of(MATRIX, gpu)), name=gpu)
    found = _by_pair(report(merged(here, drop=["pci-display", "kernel-log"])).contracts)
    for key, kept in _by_pair(asked.contracts).items():
        if key[0] == component.id and key[2] not in BEFORE_INSTALLING and Kept.BROKEN in {kept, found.get(key)}:
            assert found.get(key) is kept, (subject, given_, key)
    if asked.verdict in WORKS:
        assert not [key for key, kept in found.items() if kept is Kept.BROKEN and key[0] == component.id], subject
