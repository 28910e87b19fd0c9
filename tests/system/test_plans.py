"""Every plan resolves: what the planner advises is asked of the real resolver, which installs nothing.

A grid of frameworks, drivers, GPUs and Pythons is drawn by a seed that stands below. Each plan's first alternative is
handed to uv's resolver (``uv pip compile``, wheels alone) for that Python on Linux; what only PyTorch's own index
offers, a build with a tag, is resolved by its release, and its build is checked against the recorded listing of that
index in the matrix. ``GPUSTACK_PLANS=FILE`` writes what was asked and answered, as evidence.

Whether a plan moves anything outside its change set is compared: an environment of other packages is resolved, then
the same environment with the plan, which keeps what it can as pip does; what moved has to be of the plan, or something
that the plan's own packages require.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.diagnose.installing import FROM_SOURCE, TORCH_INDEX
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import torch
from tests.leaving import leave_out

if TYPE_CHECKING:
    from collections.abc import Iterator

MATRIX = Matrix()
SEED = 20261122
PLANS, FEW = 340, 6  # of the whole grid, and of the part that CI asks
SECONDS, WORKERS = 180, 4
SUBJECTS = (
    *("torch", "torch>=2.6", "torch==2.9.0", "torch==2.13.0", "torch==2.11.0", "torch==2.7.1", "torch==2.5.1"),
    *("torch==2.4.1", "torchvision", "torchaudio", "vllm", "vllm==0.11.0", "vllm==0.20.2", "sglang", "xformers"),
    *("bitsandbytes", "jax", "jax==0.5.0", "tensorflow", "tensorflow==2.17.0", "onnxruntime-gpu", "flash-attn"),
)
DRIVERS = ("470.256.02", "525.147.05", "535.183.01", "550.54.15", "560.35.05", "570.124.06", "580.95.05", "595.45.04")
GPUS = ("V100", "T4", "A100", "RTX 3090", "L40S", "RTX 4090", "H100", "H200", "B200", "RTX 5090")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
OFFLINE = re.compile(r"error sending request|dns error|Failed to fetch|Could not connect|timed out", re.IGNORECASE)
# What lies in the environment beside the plan's packages, and must stay as it is.
BESIDE = ("numpy<2.3", "pandas", "pyyaml", "requests", "safetensors", "tqdm", "scikit-learn<1.6")
# Not of any plan, and asked for in a release that is newer than the index which was asked (2026-11-22): any will do.
BEHIND = ("certifi>=2025",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One question of the grid, and the command that the planner answers it with."""

    subject: str
    driver: str
    gpu: str
    python: str
    command: str

    @property
    def wanted(self) -> tuple[str, ...]:
        """What the command has pip install."""
        words = shlex.split(self.command)
        start = words.index("install") + 1
        options = {number + 1 for number, one in enumerate(words) if one in {"--index-url", "--extra-index-url"}}
        return tuple(
            one for number, one in enumerate(words) if number >= start and number not in options and one[:1] != "-"
        )

    @property
    def tag(self) -> str | None:
        """The build on PyTorch's own index that the command names."""
        found = re.search(rf"{re.escape(TORCH_INDEX)}/(\w[\w.]*)", self.command)
        return found[1] if found else None


def grid(count: int) -> Iterator[Plan]:
    """Yield so many plans of the grid, in the order that the seed draws."""
    questions = list(itertools.product(SUBJECTS, DRIVERS, GPUS, PYTHONS))
    random.Random(SEED).shuffle(questions)  # noqa: S311 - a published order, no secret
    found = (one for question in questions for one in planned(*question))
    yield from itertools.islice(found, count)


def planned(subject: str, driver: str, gpu: str, python: str) -> Iterator[Plan]:
    """Yield the plan that is advised first, as far as a Python package is part of it."""
    answer = answering.plan([subject], Given(driver=driver, gpu=gpu, python=python), None, MATRIX)
    for one in answer.alternatives[:1]:
        for command in one.commands:
            if " -m pip install " in command:
                yield Plan(subject=subject, driver=driver, gpu=gpu, python=python, command=command)


@lru_cache(None)
def resolved(wanted: tuple[str, ...], python: str, before: str = "") -> tuple[bool, str]:
    """Return whether the resolver has an answer, and its words; a build's tag is not on this index.

    ``before`` is an earlier answer, of which it keeps the releases that it can.
    """
    asked = [re.sub(r"\+[\w.]+$", "", one) for one in wanted]
    built = any(re.split(r"[\[=<>!~]", one)[0] in FROM_SOURCE for one in asked)
    with tempfile.TemporaryDirectory() as folder:
        overrides, kept = Path(folder, "overrides.txt"), Path(folder, "kept.txt")
        overrides.write_text("\n".join(BEHIND), "utf-8")
        kept.write_text(before, "utf-8")
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"),
            *("--python-version", python, "--python-platform", "x86_64-manylinux_2_35"),
            *(("--no-deps",) if built else ("--only-binary", ":all:", "--override", str(overrides))),
            *(("--output-file", str(kept)) if before else ()),
        ]
        done = subprocess.run(
            command, input="\n".join(asked), capture_output=True, text=True, check=False, timeout=SECONDS
        )
        found = kept.read_text("utf-8") if before else done.stdout
    if done.returncode and OFFLINE.search(done.stderr):
        leave_out("no package index answers here")
    return done.returncode == 0, (found if done.returncode == 0 else done.stderr).strip()


def moved(plan: Plan, answer: str) -> list[str]:
    """Return the packages of the change set that the resolver would take in another release than the plan names."""
    got = releases(answer)
    pins = [one.partition("==") for one in plan.wanted if "==" in one and "*" not in one]
    return [name for name, _, version in pins if got.get(name.partition("[")[0]) != version.partition("+")[0]]


def outside(plan: Plan, answer: str) -> tuple[list[str], list[str]]:
    """Return what moves in an environment of other packages: for nothing, and because the plan's own cannot bear it.

    What the plan's packages require themselves is of the plan. A move is forced where nothing resolves with the release
    that was there, such as a pandas that needs NumPy 2 beside a TensorFlow that needs NumPy 1.
    """
    if any(re.split(r"[\[=<>!~]", one)[0] in FROM_SOURCE for one in plan.wanted):
        return [], []  # installed by --no-deps: it moves nothing
    ok, before = resolved(BESIDE, plan.python)
    there, after = resolved((*plan.wanted, *BESIDE), plan.python, before)
    if not (ok and there):
        return [f"not resolved beside the others: {(after if ok else before)[:300]}"], []
    was, now, own = (releases(one) for one in (before, after, answer))
    moves = [name for name in was if was[name] != now.get(name, was[name]) and name not in own]
    kept = {name: resolved((*plan.wanted, *BESIDE, f"{name}=={was[name]}"), plan.python)[0] for name in moves}
    said = {name: f"{name} {was[name]} to {now[name]}" for name in moves}
    return [said[name] for name in moves if kept[name]], [said[name] for name in moves if not kept[name]]


def releases(answer: str) -> dict[str, str]:
    """Return the release of each package of the resolver's answer."""
    lines = (line.partition(";")[0].strip() for line in answer.splitlines())
    return dict(line.split("==", 1) for line in lines if "==" in line and not line.startswith("#"))


def listed(plan: Plan) -> bool:
    """Return whether the recorded listing of PyTorch's own index has the build of a plan, where it names one."""
    pins = [one.partition("==")[2].partition("+") for one in plan.wanted if one.startswith("torch==")]
    return plan.tag is None or all(torch.build_of(MATRIX, version, plan.tag) for version, _, _ in pins)


def held(plans: list[Plan]) -> list[dict[str, object]]:
    """Return every plan with what was answered."""
    asked = list(dict.fromkeys((plan.wanted, plan.python) for plan in plans))
    with ThreadPoolExecutor(WORKERS) as pool:
        answers = dict(zip(asked, pool.map(lambda one: resolved(*one), asked), strict=True))
        once = {(plan.wanted, plan.python): plan for plan in plans}
        firsts = [plan for at, plan in once.items() if answers[at][0]]
        others = list(pool.map(lambda plan: outside(plan, answers[plan.wanted, plan.python][1]), firsts))
        beside = {(plan.wanted, plan.python): moves for plan, moves in zip(firsts, others, strict=True)}
    return [
        {
            "subject": plan.subject,
            "driver": plan.driver,
            "gpu": plan.gpu,
            "python": plan.python,
            "command": plan.command,
            "resolves": ok,
            "build": None if plan.tag is None else f"{plan.tag}: by the recorded listing of PyTorch's own index",
            "listed": listed(plan),
            "moved": moved(plan, said) if ok else [],
            "outside": beside[plan.wanted, plan.python][0] if ok else [],
            "forced": beside[plan.wanted, plan.python][1] if ok else [],
            "said": len(said.splitlines()) if ok else said[:600],
        }
        for plan in plans
        for ok, said in [answers[plan.wanted, plan.python]]
    ]


def wrong(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [one for one in rows if not one["resolves"] or not one["listed"] or one["moved"] or one["outside"]]


@pytest.mark.system
@pytest.mark.timeout(3000)
def test_every_plan_of_the_grid_resolves_and_moves_nothing_else() -> None:
    rows = held(list(grid(PLANS)))
    target = os.environ.get("GPUSTACK_PLANS")
    if target:
        Path(target).write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    print(Counter(bool(one["build"]) for one in rows))  # noqa: T201 - the run wants its figure
    assert len(rows) >= 300
    assert not wrong(rows), "\n".join(map(json.dumps, wrong(rows)[:10]))


@pytest.mark.packages
@pytest.mark.timeout(600)
def test_a_few_plans_of_the_grid_resolve() -> None:
    rows = held(list(grid(FEW)))
    assert not wrong(rows), "\n".join(map(json.dumps, wrong(rows)))


def test_the_grid_is_that_of_its_seed_and_names_what_it_asks() -> None:
    first = next(grid(1))
    assert first == next(grid(1))
    assert first.wanted
    plan = Plan(
        subject="", driver="", gpu="", python="", command="python -m pip install a==1+cu126 --index-url X 'b[c]==2'"
    )
    assert plan.wanted == ("a==1+cu126", "b[c]==2")
    assert moved(plan, "a==1\nb==3") == ["b[c]"]
    assert not listed(Plan(**{**_fields(plan), "command": f"pip install torch==2.9.0 --index-url {TORCH_INDEX}/cu999"}))


def _fields(plan: Plan) -> dict[str, str]:
    return {name: getattr(plan, name) for name in ("subject", "driver", "gpu", "python", "command")}
