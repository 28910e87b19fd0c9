"""The matrix's answers beyond Linux x86-64 and common cards: Windows, ARM, Jetson, ROCm; wheels by their tags."""

from __future__ import annotations

from itertools import combinations

import pytest

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import frameworks, gpus, torch, wheel_tags
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.facts import Component, Environment, Facts, Host, Instance, Layer, Status
from gpustack.model.matrix_answer import Compatibility
from gpustack.model.versions import ComputeCapability

MATRIX = Matrix()
WORKS, LIMITED, FAILS = Compatibility.COMPATIBLE, Compatibility.LIMITED, Compatibility.INCOMPATIBLE
UNKNOWN = Compatibility.UNKNOWN


@pytest.mark.parametrize(
    ("asked", "given", "verdict"),
    [
        ("torch==2.8.0+cu128", {"os": "windows", "gpu": "RTX 5090"}, WORKS),
        ("torch==2.7.1+cu128", {"os": "windows", "gpu": "GTX 1080"}, WORKS),  # the build for Linux has no Pascal
        ("torch==2.7.1+cu128", {"gpu": "GTX 1080"}, FAILS),
        ("torch==2.8.0+cu128", {"os": "windows", "gpu": "GTX 1080"}, FAILS),
        ("torch==2.8.0+cu126", {"os": "windows", "gpu": "RTX 5090"}, FAILS),
        ("torch==2.6.0+cu124", {"os": "windows", "gpu": "RTX 5090"}, FAILS),
        ("torch==2.6.0+cu126", {"os": "windows", "gpu": "RTX 4090"}, WORKS),
        ("torch==2.5.1+cu124", {"os": "windows", "gpu": "RTX 4090"}, UNKNOWN),  # its list of architectures was not read
        ("torch==2.9.0+rocm6.4", {"gpu": "gfx1201"}, WORKS),
        ("torch==2.9.0+rocm6.4", {"gpu": "gfx1150"}, FAILS),
        ("torch==2.7.1+rocm6.3", {"gpu": "gfx1102"}, WORKS),
        ("torch==2.5.1+rocm6.2", {"gpu": "gfx1102"}, FAILS),
        ("torch==2.11.0+rocm7.2", {"gpu": "gfx1151"}, WORKS),
        ("rocm==6.4.1", {"gpu": "gfx1201"}, WORKS),
        ("rocm==6.4.0", {"gpu": "gfx1201"}, UNKNOWN),
        ("torch==2.9.1", {"gpu": "GB10"}, FAILS),  # for ARM the index had only a CPU build until 2.11
        ("torch==2.12.0", {"gpu": "GB10"}, WORKS),
        ("torch==2.12.0", {"gpu": "GB300"}, WORKS),
        ("torch==2.12.0", {"gpu": "GH200"}, WORKS),
        ("torch==2.12.0", {"gpu": "Jetson AGX Thor"}, LIMITED),
        ("torch==2.12.0", {"gpu": "Jetson AGX Orin"}, LIMITED),
        ("torch==2.12.0", {"gpu": "Jetson AGX Xavier"}, FAILS),
    ],
)
def test_a_build_is_judged_by_the_code_that_it_has_there(
    asked: str, given: dict[str, str], verdict: Compatibility
) -> None:
    answer = answering.why([asked], Given(**given), None, MATRIX)
    assert answer.verdict is verdict, [one.text for one in answer.reasons]


def test_no_wheel_for_glibc_goes_into_an_alpine_linux() -> None:
    seen = Instance(key="p", version="3.12.7", build=None, environment="p", facts={"musl": True, "glibc": None})
    python = Component(
        id="python",
        layer=Layer.ENVIRONMENT,
        vendor="any",
        status=Status.PRESENT,
        version="3.12.7",
        build=None,
        facts=seen.facts,
        source="a probe",
        instances=(seen,),
    )
    place = Environment(python="p", kind="system")
    alpine = Facts(taken="", host=Host(os="Linux", machine="x86_64"), components=(python,), environments=(place,))
    for asked in ("torch==2.8.0", "numba==0.61.0"):
        answer = answering.why([asked], Given(), alpine, MATRIX)
        assert answer.verdict is FAILS
        assert any(one.text.endswith("given is musl.") for one in answer.reasons), answer.reasons


def test_a_jetson_says_from_which_jetpack_on_it_runs_what_the_index_serves() -> None:
    for name, jetpack in (("Jetson AGX Orin", "JetPack 7.2 (Jetson Linux 39.1.0)"), ("Jetson AGX Thor", "JetPack 7.0")):
        answer = answering.why(["torch==2.12.0"], Given(gpu=name), None, MATRIX)
        assert jetpack in answer.reasons[0].text
        assert "jetson-containers" in answer.reasons[0].source


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("jetson orin torch 2.5", "torch==2.5.0 --index-url https://pypi.jetson-ai-lab.io/jp6/cu126"),
        ("torch 2.5 on jetpack 6.1", "torch==2.5.0 --index-url https://pypi.jetson-ai-lab.io/jp6/cu126"),
        ("orin nano pytorch 2.9 jetpack 6", "torch==2.8.0 --index-url https://pypi.jetson-ai-lab.io/jp6/cu126"),
        ("torch 2.1 l4t 35.4.1", "torch 2.1.0 for Python 3.8"),
        ("pytorch on jetson nano", "torch 1.10.0 for Python 3.6"),
        ("pytorch xavier nx jetpack 5.1.2", "torch 2.1.0 for Python 3.8"),
    ],
)
def test_a_jetson_is_answered_with_what_nvidia_builds_for_its_jetpack(asked: str, first: str) -> None:
    """The package index's ARM wheels compute on the CPU there, or are built for servers."""
    answer = answering.why([asked], Given(), None, MATRIX)
    assert answer.verdict is FAILS
    assert "aarch64" in answer.meant
    assert first in " ".join((*answer.alternatives[0].commands, answer.alternatives[0].steps))


def test_a_jetson_of_a_jetpack_that_runs_servers_builds_takes_them() -> None:
    answer = answering.why(["torch 2.12 jetson orin jetpack 7.2"], Given(), None, MATRIX)
    assert answer.verdict is WORKS


def test_the_doctor_names_the_same_build_for_a_jetson() -> None:
    text = b"PyTorch version: 2.5.0\nIs CUDA available: False\nGPU 0: Orin (nvgpu)\nOS: Linux 5.15.148-tegra aarch64\n"
    found = judge(load_texts({"pasted.txt": text}, MATRIX), MATRIX).findings
    fixed = [one.fix for one in found if one.fix and "JetPack" in one.fix.text]
    asked = answering.why(["jetson orin torch 2.5"], Given(), None, MATRIX)
    assert [one.commands for one in fixed[:1]] == [asked.alternatives[0].commands]


def test_each_jetpack_from_5_to_7_is_there_with_its_cuda() -> None:
    orin = {one.jetpack: one.cuda for one in gpus.jetpacks_for(MATRIX, ComputeCapability(8, 7))}
    assert {"5.1.2": "11.4", "6.0": "12.4", "6.2": "12.6", "7.2": "13.2"}.items() <= orin.items()
    assert {one.l4t.partition(".")[0] for one in gpus.jetpacks_for(MATRIX, ComputeCapability(7, 2))} == {"35"}
    assert not gpus.jetpacks_for(MATRIX, ComputeCapability(9, 0))


@pytest.mark.parametrize(
    ("capability", "sms", "mhz", "published"),
    [
        ((10, 3), 160, 1920, {"fp32": 80, "tf32": 1250, "bf16": 2500, "fp8": 5000, "fp4": 15000}),
        ((11, 0), 20, 1575, {"fp16": 258.5, "fp8": 517, "fp4": 1035}),
        ((12, 1), 48, 2500, {"fp4": 500}),
    ],
)
def test_rates_of_the_newest_gpus_give_what_is_published(
    capability: tuple[int, int], sms: int, mhz: int, published: dict[str, float]
) -> None:
    row = MATRIX.architectures[ComputeCapability(*capability)]
    for dtype, tera in published.items():
        assert row.rates[dtype] * sms * mhz / 1e6 == pytest.approx(tera, rel=0.03), dtype
    assert row.tensor_cores == 5


TAGS = wheel_tags.tags(MATRIX)


def _tags(package: str, version: str, machine: str = "x86_64") -> wheel_tags.WheelTags | None:
    found = [one for one in wheel_tags.tags_of(MATRIX, package, version) if machine in one.machines]
    return found[0] if found else None


def test_no_release_occurs_twice_for_a_processor() -> None:
    for one, other in combinations(TAGS, 2):
        if one.package == other.package and set(one.machines) & set(other.machines):
            ends = [bound.lstrip("<>=") for bound in one.versions.text.split(",")]
            assert not any(other.versions.holds(end) for end in ends), (one.row.text, other.row.text)


def test_pythons_are_versions_or_any() -> None:
    for one in TAGS:
        assert set(one.machines) <= {"x86_64", "aarch64"}
        for python in one.pythons:
            assert python == wheel_tags.EVERY or numbers(python)[:1] == (3,)


@pytest.mark.parametrize(
    ("package", "version", "python", "takes"),
    [
        ("jaxlib", "0.7.0", "3.14", False),
        ("jaxlib", "0.7.1", "3.14t", True),
        ("jaxlib", "0.11.0", "3.13t", False),
        ("vllm", "0.19.0", "3.13", True),
        ("vllm", "0.19.0", "3.13t", False),
        ("vllm", "0.19.0", "3.14", False),
        ("bitsandbytes", "0.49.2", "3.13t", True),
        ("bitsandbytes", "0.49.2", "3.9", False),
        ("torch", "2.9.0+cu128", "3.14", True),
        ("flash-attn", "2.8.3.post1", "3.13", True),
    ],
)
def test_which_python_a_release_has_a_wheel_for(package: str, version: str, python: str, *, takes: bool | None) -> None:
    found = _tags(package, version)
    assert (found.takes(python) if found else None) is takes


def test_they_agree_with_the_rows_of_the_releases() -> None:
    """Two tables list the Pythons that a JAX has x86-64 wheels for; PyTorch's list is only in its releases."""
    for one in frameworks.jax_releases(MATRIX):
        found = _tags("jaxlib", one.version)
        if found and one.pythons:
            assert set(one.pythons) == {python for python in found.pythons if not python.endswith("t")}, one.version
    for build in torch.releases(MATRIX):
        assert (_tags("torch", build.version, "aarch64") is not None) <= ("linux-aarch64" in build.wheels)
