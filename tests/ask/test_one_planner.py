"""The doctor, ``matrix why`` and ``matrix plan`` recommend the same thing first: they share one planner."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.diagnose.change_sets import FAMILY
from gpustack.diagnose.engine import judge
from gpustack.diagnose.machine.completing import complete
from gpustack.diagnose.machine.inventory import builds, capabilities, driver_cuda
from gpustack.matrix.subjects import torch as rows
from gpustack.model.matrix_answer import Change
from tests.ask.test_agreement import BUILDS, RELEASES
from tests.build import MATRIX, PYTHON, merged, on, seen, torch
from tests.diagnose.test_rules import recorded
from tests.recorded import facts_of
from tests.wide import WIDE, sample, wide
from tools import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Component, Facts

IDS = ("driver-too-old-for-cuda-build", "arch-not-in-build")
INSTALLED = re.compile(r"apt-get install nvidia-driver-\S+")
ON_TORCH = ("vllm", "xformers", "bitsandbytes", "flash-attn")
LISTED = {"flash-attn": None}  # of these nobody says of which Python the list is
SEED, DRAWN = 20261122, 400 if WIDE else 10
CARDS = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")


def of_the_doctor(facts: Facts) -> str | None:
    """Return the requirements that the doctor says to install, where the PyTorch build is what is wrong.

    Whatever is wrong with a server or an extension beside it gets the same: one set of changes is for all of them.
    """
    found = judge(facts, MATRIX).findings
    every = [" ".join(one.fix.commands) for one in found if one.fix]
    sets = {pins(one) for one in every if "torch==" in one}
    assert len(sets) < 2, sets
    for one in found:
        if not (one.instance or "").startswith("pytorch"):
            assert not sets or not INSTALLED.search(" ".join(one.fix.commands) if one.fix else ""), one.title
            continue
        typed = " ".join(one.fix.commands) if one.fix and one.id in IDS else ""
        if "torch==" in typed:
            return pins(typed)
        if one.id == IDS[0] and INSTALLED.search(typed):
            return driver(typed)
    return None


def driver(typed: str) -> str:
    """Return the driver package that the commands install."""
    found = INSTALLED.search(typed)
    return found[0] if found else ""


def pins(command: str) -> str:
    """Return everything that a command pins, in order."""
    return " ".join(re.findall(r"[\w-]+==[\w.+]+", command))


def of_the_matrix(name: str, facts: Facts) -> str | None:
    """Return the PyTorch that the matrix recommends when asked about the installed one."""
    (build,) = (one for one in builds(complete(facts, MATRIX)) if one.component == "pytorch")
    version = (build.copy.version or "").partition("+")[0]
    answer = getattr(answering, name)([f"torch=={version}+{build.copy.build}"], Given(), facts, MATRIX)
    kinds = {Change.WHEEL, Change.VERSION, Change.DRIVER}
    first = next((one for one in answer.alternatives if one.kind in kinds), None)
    typed = " ".join(first.commands) if first else ""
    return (driver(typed) if first.kind is Change.DRIVER else pins(typed)) if first else None


def plain(facts: Facts) -> bool:
    """Return whether a machine has exactly one PyTorch, of a release in the matrix, and a known GPU and driver."""
    known = complete(facts, MATRIX)
    here = [one for one in builds(known) if one.component == "pytorch"]
    return (
        len(here) == 1
        and here[0].copy.build is not None
        and rows.release_of(MATRIX, here[0].copy.version or "") is not None
        and bool(capabilities(known) and driver_cuda(known, MATRIX))
    )


def drawn() -> Iterator[tuple[str, Facts]]:
    """Yield random machines with a PyTorch, a driver and a GPU, determined by the seed."""
    luck = random.Random(SEED)  # noqa: S311 - a published order, no secret
    linux = [one for one in BUILDS if one.platform == "linux-x86_64" and one.accelerator == "cuda" and one.archs]
    for _ in range(DRAWN):
        build, branch, card = luck.choice(linux), luck.choice(RELEASES), luck.choice(CARDS)
        highest = branch.cuda.major * 1000 + branch.cuda.minor * 10
        installed = torch(build.version, build.tag, str(build.cuda), archs=[str(one) for one in build.archs])
        facts = on(str(branch.last), highest, installed, cc=card)
        yield f"{build.version}+{build.tag} {branch.last} {card}", facts
        beside = rows.companions(MATRIX, build.version)
        if beside and beside.torchaudio:
            held = {"torch": build.version, "torchvision": beside.torchvision, "torchaudio": beside.torchaudio}
            listed = seen("packages", {"environment": PYTHON, "distributions": held})
            yield f"{build.version}+{build.tag} {branch.last} {card} and companions", merged(facts, listed)
            name, known = luck.choice(ON_TORCH), rows.release_of(MATRIX, build.version)
            python = f"{luck.choice(known.pythons if known else ('3.11',))}.1"
            more = {**held, name: luck.choice(FAMILY[name](MATRIX)[-12:]).version}
            there = merged(facts, seen("python", {"version": python, "glibc": "2.35"}))
            listed = seen("packages", {"environment": LISTED.get(name, PYTHON), "distributions": more})
            yield (
                f"{build.version}+{build.tag} {branch.last} {card} {python} {name} {more[name]}",
                merged(there, listed),
            )


def everywhere() -> Iterator[tuple[str, Facts]]:
    yield from drawn()
    yield from (("recorded", facts) for facts in recorded() if plain(facts))
    told = [one for one in cases.every() if one.root_cause in IDS]
    yield from ((one.id, facts) for one in sample(told, 48) if plain(facts := facts_of(one)))


@pytest.mark.parametrize(
    ("installed", "python", "more"),
    [
        # a server is compiled for the usual build of its torch, so no cu118 build works with it
        (torch("2.7.1", "cu128", "12.8"), "3.12.1", {"torchvision": "0.22.1", "torchaudio": "2.7.1", "vllm": "0.25.0"}),
        # no torchvision for a CUDA 11.8 torch has a wheel for this Python
        (torch("2.6.0", "cu126", "12.6"), "3.13.1", {"torchvision": "0.21.0", "torchaudio": "2.6.0"}),
    ],
)
def test_neither_recommends_a_torch_that_breaks_what_depends_on_it(
    installed: Component, python: str, more: dict[str, str]
) -> None:
    here = seen("python", {"version": python, "glibc": "2.35"})
    held = seen("packages", {"distributions": {"torch": installed.version or "", **more}})
    facts = merged(merged(on("510.108.03", 11060, installed, cc="8.6"), here), held)
    doctor = of_the_doctor(facts)
    assert doctor
    assert doctor.startswith("apt-get install nvidia-driver-")
    assert {of_the_matrix("why", facts), of_the_matrix("plan", facts)} == {doctor}


@wide
@pytest.mark.timeout(0 if WIDE else 240)
def test_the_doctor_and_the_matrix_recommend_the_same_first() -> None:
    """On 10 random machines and one case of 36 in CI, on 400 and on all with GPUSTACK_WIDE=1."""
    asked = with_companions = 0
    other = []
    for name, facts in everywhere():
        doctor = of_the_doctor(facts)
        if doctor is not None:
            asked += 1
            with_companions += "torchvision==" in doctor and "torchaudio==" in doctor
            matrix = {of_the_matrix("why", facts), of_the_matrix("plan", facts)}
            if matrix != {doctor}:
                other.append(f"{name}: {doctor}, {matrix}")
    assert asked >= DRAWN // 4
    assert with_companions >= DRAWN // 6  # all pins at once
    assert not other, "\n".join(other)
