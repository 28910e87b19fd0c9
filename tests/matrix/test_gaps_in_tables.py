"""No pass across a gap: questions drawn at random from every generated table, and from between its rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.diagnose.requirements.python import UNFIT
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import generated
from gpustack.model.matrix_answer import Compatibility
from tests.wide import WIDE, wide
from tools.matrix import spot
from tools.matrix.__main__ import GENERATED

if TYPE_CHECKING:
    from collections.abc import Iterator

MATRIX = Matrix()
TABLES = sorted(path.stem for path in GENERATED.glob("*.toml"))
WORKS = {Compatibility.COMPATIBLE, Compatibility.LIMITED}
PYTHONS = ("3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15")
PLATFORMS: dict[str, dict[str, str]] = {
    "linux-x86_64": {"machine": "x86_64"},
    "linux-aarch64": {"machine": "aarch64"},
    "windows": {"os": "windows"},
}
GIVEN: tuple[dict[str, str], ...] = (
    {},
    {"python": "3.12"},
    {"python": "3.10", "machine": "aarch64"},
    {"os": "windows"},
    {"gpu": "H100", "driver": "580.95.05"},
    {"gpu": "T4", "python": "3.10"},
    {"glibc": "2.35"},
)


def between(rows: tuple[generated.Release, ...], chance: random.Random) -> Iterator[str]:
    """Yield versions that no row states: between two rows, after the last, before a release."""
    there = {Version(one.version) for one in rows}
    for row in chance.sample(rows, min(3 if WIDE else 1, len(rows))):
        version = Version(row.version)
        major, minor, patch, *_ = (*version.release, 0, 0)
        made = (
            f"{version.base_version}.post97",
            f"{major}.{minor}.{patch + 57}",
            f"{major}.{minor + 90}.0",
            f"{major + 1}.77.0",
            f"{version.base_version}rc7",
            f"{version.base_version}.dev20260101",
        )
        yield from (one for one in made if Version(one) not in there)


@wide
@pytest.mark.parametrize("name", [one for one in TABLES if one != "cuda-toolkit"])  # nvcc 12.2.91 is CUDA 12.2
def test_a_release_that_no_row_states_is_unknown_and_says_so(name: str) -> None:
    """In CI around one row of each table, with ``GPUSTACK_WIDE=1`` around three; any OpenVINO needs Intel's GPU."""
    chance = random.Random(name)  # noqa: S311 - a sample, no secret
    for version in between(generated.releases(MATRIX, name), chance):
        beside = chance.choice([[], ["numpy==2.1.0"]])
        answer = answering.why([f"{name}=={version}", *beside], Given(**chance.choice(GIVEN)), None, MATRIX)
        maker = answer.reasons[0].text.endswith("a GPU of NVIDIA.")
        assert answer.verdict is (Compatibility.INCOMPATIBLE if maker else Compatibility.UNKNOWN), answer.reasons
        assert version in answer.reasons[0].text


def fits(tag: str, python: str) -> bool:
    if tag.endswith("+"):
        return "t" not in python and Version(python) >= Version(tag[:-1])
    return tag in {"any", python}


@wide
@pytest.mark.parametrize("name", TABLES)
def test_a_release_works_only_with_a_python_and_a_platform_that_it_has_a_wheel_for(name: str) -> None:
    """In CI for two draws of each table, with ``GPUSTACK_WIDE=1`` for 48."""
    chance = random.Random(name)  # noqa: S311 - a sample, no secret
    for row in chance.choices(generated.releases(MATRIX, name), k=48 if WIDE else 2):
        platform, python = chance.choice(list(PLATFORMS)), chance.choice(PYTHONS)
        held = (*row.wheels.get(platform, ()), *row.wheels.get(generated.EVERY, ()))
        wheel = row.python.holds(f"{python.rstrip('t')}.99") and any(fits(one, python) for one in held)
        answer = answering.why([f"{name}=={row.version}"], Given(python=python, **PLATFORMS[platform]), None, MATRIX)
        if row.wheels and not wheel:
            built = name in UNFIT and not python.endswith("t")  # by pip, from its source archive
            works = {Compatibility.COMPATIBLE} if built else WORKS
            assert answer.verdict not in works, (row.version, platform, python, answer.reasons)
        denied = [one for one in answer.reasons if one.verdict is Compatibility.INCOMPATIBLE]
        if wheel:  # what rules it out anyway says more than the index does, and names its source
            assert not any(one.row and one.row.table == f"generated/{name}" for one in denied), denied
            assert all(one.source for one in denied), denied


BOARDS: dict[str, dict[str, str]] = {  # what implies a processor, besides those that are named
    **PLATFORMS,
    "linux-x86_64 H100": {"gpu": "H100", "machine": "x86_64"},
    "linux-aarch64 GH200": {"gpu": "GH200"},
    "linux-aarch64 GB10": {"gpu": "GB10"},
    "linux-aarch64 Thor": {"gpu": "Jetson AGX Thor"},
}


def beside(row: generated.Release, platform: str, python: str, chance: random.Random) -> tuple[str, str, bool] | None:
    """Return a distribution that a release requires there, a version of it near its pins, and whether that is allowed.

    The expected result is computed by packaging from the text of METADATA.
    """
    environment = {**generated.MACHINES[platform], "python_version": python.rstrip("t"), "extra": ""}
    needs: dict[str, list[Requirement]] = {}
    for one in map(Requirement, row.on.get(platform, row.requires or ())):
        if one.marker is None or one.marker.evaluate(environment):
            needs.setdefault(one.name, []).append(one)
    if not needs:
        return None
    name = chance.choice(sorted(needs))
    pins = [Version(part.version.rstrip(".*")) for one in needs[name] for part in one.specifier]
    near = [f"{pin.major}.{pin.minor + step}.{pin.micro}" for pin in pins for step in (0, 1)]
    version = chance.choice([*map(str, pins), *near, *([] if pins else ["1.0.0"])])
    return name, version, all(one.specifier.contains(version, prereleases=True) for one in needs[name])


PINNING = [name for name in TABLES if any(one.requires for one in generated.releases(MATRIX, name))]


@wide
@pytest.mark.parametrize("name", PINNING)
def test_a_pair_is_judged_as_metadata_says(name: str) -> None:
    """In CI for two draws of each table, with ``GPUSTACK_WIDE=1`` for 32."""
    chance = random.Random(f"pairs of {name}, 2026-11-23")  # noqa: S311 - a sample, no secret
    for row in chance.choices([one for one in generated.releases(MATRIX, name) if one.requires], k=32 if WIDE else 2):
        board, python = chance.choice(list(BOARDS)), chance.choice(PYTHONS[1:-1])
        platform = board.partition(" ")[0]
        held = (*row.wheels.get(platform, ()), *row.wheels.get(generated.EVERY, ()))
        drawn = beside(row, platform, python, chance) if any(fits(one, python) for one in held) else None
        if drawn is None or not row.python.holds(f"{python.rstrip('t')}.99"):
            continue
        other, version, allowed = drawn
        texts = [f"{name}=={row.version}", f"{other}=={version}"]
        answer = answering.why(texts, Given(python=python, **BOARDS[board]), None, MATRIX)
        if not allowed:
            assert answer.verdict is not Compatibility.COMPATIBLE, (texts, board, python, answer.reasons)
        denied = [one for one in answer.reasons if one.verdict is Compatibility.INCOMPATIBLE and one.row]
        if allowed and "cuda" not in answer.meant:  # JAX for CUDA: what its extra requires counts too
            assert not [
                one for one in denied if one.row and one.row.text.startswith(f"{name} {row.version} requires {other} ")
            ]


def test_what_was_withdrawn_is_never_fine() -> None:
    withdrawn = [one for name in TABLES for one in generated.releases(MATRIX, name) if one.yanked and one.wheels]
    assert len(withdrawn) > 4
    for one in withdrawn:
        answer = answering.why([f"{one.name}=={one.version}"], Given(), None, MATRIX)
        assert answer.verdict is not Compatibility.COMPATIBLE, one
        assert any("withdrawn" in reason.text for reason in answer.reasons), (one, answer.reasons)


@pytest.mark.parametrize(
    ("asked", "given", "verdict"),
    [
        ("bitsandbytes==0.41.1", {"python": "3.11"}, Compatibility.COMPATIBLE),  # a wheel for any Python
        ("bitsandbytes==0.41.1", {"machine": "aarch64"}, Compatibility.UNKNOWN),  # which contains x86-64 libraries
        ("onnxruntime==1.22.1", {"python": "3.9"}, Compatibility.INCOMPATIBLE),
        ("onnxruntime==1.22.1", {"python": "3.13", "machine": "aarch64"}, Compatibility.COMPATIBLE),
        ("onnxruntime-gpu==1.22.0", {"python": "3.13", "machine": "aarch64"}, Compatibility.INCOMPATIBLE),
        ("jax==0.7.0", {"python": "3.12", "os": "windows"}, Compatibility.COMPATIBLE),  # on the CPU
        ("jax==0.7.0", {"gpu": "H100", "os": "windows"}, Compatibility.INCOMPATIBLE),
        ("jaxlib==0.4.26", {"python": "3.10", "machine": "aarch64"}, Compatibility.COMPATIBLE),  # no plugin there
        ("torchvision==0.21.0", {"python": "3.13", "os": "windows"}, Compatibility.COMPATIBLE),
        ("torchaudio==2.5.1", {"python": "3.13"}, Compatibility.INCOMPATIBLE),
        ("triton==3.2.0", {"os": "windows"}, Compatibility.INCOMPATIBLE),
        ("flash-attn==2.7.3", {"python": "3.8"}, Compatibility.INCOMPATIBLE),
        ("vllm==0.1.0", {"python": "3.10"}, Compatibility.LIMITED),  # only a source archive, which nvcc compiles
    ],
)
def test_each_distribution_is_judged_by_its_own_wheels(
    asked: str, given: dict[str, str], verdict: Compatibility
) -> None:
    answer = answering.why([asked], Given(**given), None, MATRIX)
    assert answer.verdict is verdict, [one.text for one in answer.reasons]


SPOTS = spot.read(Path(__file__).with_name("spots.csv"))


def test_no_claim_drawn_from_the_index_at_random_is_denied() -> None:
    said = [(one, spot.answered(one, MATRIX)) for one in SPOTS]
    assert [one for one, verdict in said if spot.wrong(one, verdict)] == []
    blank = [one for one, verdict in said if verdict is Compatibility.UNKNOWN]
    assert len(blank) < len(said) // 20, blank
