"""Random plans, determined by a seed, and the real resolver's answers to them."""

from __future__ import annotations

import itertools
import random
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.diagnose import installing
from gpustack.diagnose.change_sets import FAMILY, change_set
from gpustack.diagnose.installing import FROM_SOURCE, TORCH_INDEX
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import drivers as branches
from gpustack.matrix.subjects import torch
from gpustack.model.matrix_answer import Change
from tests.build import PYTHON, merged, on, seen
from tests.build import torch as built
from tests.leaving import leave_out

if TYPE_CHECKING:
    from collections.abc import Iterator

MATRIX = Matrix()
SEED = 20261122
PLANS, FEW = 340, 4  # of the whole grid, and of the part that CI checks
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
# What an environment contains besides the plan's packages, and must stay as it is.
BESIDES = (
    ("numpy<2.3", "pandas", "pyyaml", "requests", "safetensors", "tqdm", "scikit-learn<1.6"),
    ("transformers>=4.50,<5", "tokenizers", "sentencepiece", "huggingface-hub", "numpy<2.3"),
    ("opencv-python-headless<5", "pillow", "matplotlib", "imageio", "numpy<2.3"),
    ("jupyterlab", "ipywidgets", "matplotlib", "pandas"),
    ("fastapi", "uvicorn", "pydantic<3", "httpx", "pyyaml"),
    ("numpy<2", "scipy<1.14", "numba<0.61", "h5py<3.13"),
)
LINUX, ARM, WINDOWS = "x86_64-manylinux_2_35", "aarch64-manylinux_2_35", "x86_64-pc-windows-msvc"
ELSEWHERE = 40  # questions for each of the other platforms
# By platform: how the question names it, its drivers, and its GPUs.
OTHERS = {
    ARM: ({"machine": "aarch64"}, ("550.54.15", "570.124.06", "580.95.05", "595.45.04"), ("GH200", "GB200", "H100")),
    WINDOWS: ({"os": "windows"}, ("537.13", "551.23", "572.16", "581.15"), ("RTX 3090", "RTX 4090", "RTX 5090")),
}
MACHINES, PIP = 60, 8  # random machines, and plans that are checked with pip itself
# Not from any plan, and only in a release newer than the index of 2026-11-22: any release will do.
BEHIND = ("certifi>=2025",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One question of the grid, and the planner's command for it."""

    subject: str
    driver: str
    gpu: str
    python: str
    command: str
    platform: str = LINUX
    beside: tuple[str, ...] = BESIDES[0]

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


@lru_cache(1)
def whole() -> tuple[Plan, ...]:
    """Return the whole grid, planned once."""
    return tuple(grid(PLANS))


def grid(count: int) -> Iterator[Plan]:
    """Yield this many plans of the grid, in the order that the seed draws."""
    questions = list(itertools.product(SUBJECTS, DRIVERS, GPUS, PYTHONS))
    random.Random(SEED).shuffle(questions)  # noqa: S311 - a published order, no secret
    found = (one for question in questions for one in planned(*question))
    luck = random.Random(SEED)  # noqa: S311 - as above
    for one in itertools.islice(found, count):
        beside = luck.choice(BESIDES)
        usual = one.python == "3.13" and "numpy<2" in beside  # NumPy 1 has no wheel for that Python
        yield replace(one, beside=BESIDES[0] if usual else beside)


def elsewhere(platform: str) -> Iterator[Plan]:
    """Yield the plans for another platform, in the order that the seed draws."""
    given, drivers, gpus = OTHERS[platform]
    questions = list(itertools.product(SUBJECTS, drivers, gpus, PYTHONS))
    random.Random(SEED).shuffle(questions)  # noqa: S311 - as above
    for question in questions[:ELSEWHERE]:
        yield from planned(*question, platform=platform, **given)


def planned(subject: str, driver: str, gpu: str, python: str, *, platform: str = LINUX, **given: str) -> Iterator[Plan]:
    """Yield the first plan, as far as a Python package is part of it."""
    answer = answering.plan([subject], Given(driver=driver, gpu=gpu, python=python, **given), None, MATRIX)
    for one in answer.alternatives[:1]:
        platform = LINUX if one.kind is Change.SYSTEM else platform  # typed in the Linux of WSL
        for command in one.commands:
            if " -m pip install " in command and one.kind is not Change.PYTHON:
                yield Plan(subject=subject, driver=driver, gpu=gpu, python=python, command=command, platform=platform)


def machines() -> Iterator[tuple[dict[str, str], Plan]]:
    """Yield what depends on torch on a random machine, and what the doctor recommends installing there."""
    luck = random.Random(SEED)  # noqa: S311 - as above
    days = MATRIX.rows("torch_wheels", "companions", torch.Companions)
    days = tuple(one for one in days if one.torchaudio and one.torch.startswith(("2.4", "2.5", "2.6", "2.7", "2.8")))
    while True:
        day, other = luck.choice(days), luck.choice(days)
        held = {"torch": day.torch, "torchvision": day.torchvision, "torchaudio": other.torchaudio or ""}
        name = luck.choice(("", "xformers", "bitsandbytes", "vllm"))
        if name:
            held[name] = luck.choice(FAMILY[name](MATRIX)[-12:]).version
        driver, gpu, python = luck.choice(DRIVERS), luck.choice(("8.0", "8.6", "9.0")), luck.choice(PYTHONS[:3])
        usual = torch.default_build(MATRIX, day.torch)
        branch = next(one for one in branches.branches(MATRIX) if driver.startswith(f"{one.number}."))
        here = built(day.torch, usual.tag if usual else "cu126", str(usual.cuda) if usual else "12.6")
        highest = branch.cuda.major * 1000 + branch.cuda.minor * 10
        facts = merged(on(driver, highest, here, cc=gpu), seen("packages", {"distributions": held}))
        facts = merged(facts, seen("python", {"version": f"{python}.1", "glibc": "2.35"}))
        change = change_set(facts, MATRIX, PYTHON)
        for command in installing.commands(change, facts, PYTHON)[:1] if change else ():
            subject = " ".join(f"{one}=={version}" for one, version in held.items())
            beside = luck.choice(BESIDES)
            yield held, Plan(subject=subject, driver=driver, gpu=gpu, python=python, command=command, beside=beside)


@lru_cache(None)
def resolved(wanted: tuple[str, ...], python: str, before: str = "", platform: str = LINUX) -> tuple[bool, str]:
    """Return whether the resolver has an answer, and its output; a build's tag is not on this index.

    ``before`` is an earlier answer, whose releases it keeps where it can. What uv has in its cache answers first, the
    index where that does not.
    """
    asked = [re.sub(r"\+[\w.]+$", "", one) for one in wanted]
    built = any(re.split(r"[\[=<>!~]", one)[0] in FROM_SOURCE for one in asked)
    with tempfile.TemporaryDirectory() as folder:
        overrides, kept = Path(folder, "overrides.txt"), Path(folder, "kept.txt")
        overrides.write_text("\n".join(BEHIND), "utf-8")
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"),
            *("--python-version", python, "--python-platform", platform),
            *(("--no-deps",) if built else ("--only-binary", ":all:", "--override", str(overrides))),
            *(("--output-file", str(kept)) if before else ()),
        ]
        for more in (("--offline",), ()):
            kept.write_text(before, "utf-8")
            done = subprocess.run(
                (*command, *more), input="\n".join(asked), capture_output=True, text=True, check=False, timeout=SECONDS
            )
            if done.returncode == 0:
                break
        found = kept.read_text("utf-8") if before else done.stdout
    if done.returncode and OFFLINE.search(done.stderr):
        leave_out("no package index answers here")
    return done.returncode == 0, (found if done.returncode == 0 else done.stderr).strip()


def moved(plan: Plan, answer: str) -> list[str]:
    """Return the packages of the change set for which the resolver would choose another release than the plan names."""
    got = releases(answer)
    pins = [one.partition("==") for one in plan.wanted if "==" in one and "*" not in one]
    return [name for name, _, version in pins if got.get(name.partition("[")[0]) != version.partition("+")[0]]


def outside(plan: Plan, answer: str) -> tuple[list[str], list[str]]:
    """Return what moves in an environment of other packages: without need, and because the plan's own require it.

    What the plan's packages require themselves is part of the plan. A move is forced where nothing resolves with the
    release that was there, such as a pandas that needs NumPy 2 beside a TensorFlow that needs NumPy 1.
    """
    if any(re.split(r"[\[=<>!~]", one)[0] in FROM_SOURCE for one in plan.wanted):
        return [], []  # installed by --no-deps: it moves nothing
    ok, before = resolved(plan.beside, plan.python, "", plan.platform)
    own = releases(answer)
    free = tuple(one for one in plan.beside if re.split(r"[\[=<>!~]", one)[0] not in own)  # of the others
    there, after = resolved((*plan.wanted, *plan.beside), plan.python, before, plan.platform)
    bare = tuple(re.split(r"[\[=<>!~]", one)[0] for one in free)  # in any release, where none of theirs will do
    for others in (free, bare) if ok and not there else ():
        there, after = resolved((*plan.wanted, *others), plan.python, before, plan.platform)
        if there:
            break
    if not (ok and there):
        return [f"not resolved beside the others: {(after if ok else before)[:300]}"], []
    was, now = releases(before), releases(after)
    moves = [name for name in was if was[name] != now.get(name, was[name]) and name not in own]
    named = {re.split(r"[\[=<>!~]", one)[0] for one in plan.wanted}
    taken = tuple(f"{name}=={now[name]}" for name in sorted(named & {*now}))
    kept = {
        name: resolved((*taken, *plan.beside, f"{name}=={was[name]}"), plan.python, "", plan.platform)[0]
        for name in moves
    }
    said = {name: f"{name} {was[name]} to {now[name]}" for name in moves}
    return [said[name] for name in moves if kept[name]], [said[name] for name in moves if not kept[name]]


def releases(answer: str) -> dict[str, str]:
    """Return the release of each package in the resolver's answer."""
    lines = (line.partition(";")[0].strip() for line in answer.splitlines())
    return dict(line.split("==", 1) for line in lines if "==" in line and not line.startswith("#"))


def listed(plan: Plan) -> bool:
    """Return whether the recorded listing of PyTorch's own index has the build of a plan, where it names one."""
    pins = [one.partition("==")[2].partition("+") for one in plan.wanted if one.startswith("torch==")]
    return plan.tag is None or all(torch.build_of(MATRIX, version, plan.tag) for version, _, _ in pins)


def held(plans: list[Plan]) -> list[dict[str, object]]:
    """Return every plan with its answer."""
    asked = list(dict.fromkeys((plan.wanted, plan.python, "", plan.platform) for plan in plans))
    with ThreadPoolExecutor(WORKERS) as pool:
        found = dict(zip(asked, pool.map(lambda one: resolved(*one), asked), strict=True))
        answers = [found[plan.wanted, plan.python, "", plan.platform] for plan in plans]
        moves = list(pool.map(lambda plan, got: outside(plan, got[1]) if got[0] else ([], []), plans, answers))
    return [
        {
            "subject": plan.subject,
            "driver": plan.driver,
            "gpu": plan.gpu,
            "python": plan.python,
            "platform": plan.platform,
            "command": plan.command,
            "environment": list(plan.beside),
            "resolves": ok,
            "build": None if plan.tag is None else f"{plan.tag}: by the recorded listing of PyTorch's own index",
            "listed": listed(plan),
            "moved": moved(plan, said) if ok else [],
            "outside": elsewhere_moved,
            "forced": forced,
            "said": len(said.splitlines()) if ok else said[:600],
        }
        for plan, (ok, said), (elsewhere_moved, forced) in zip(plans, answers, moves, strict=True)
    ]


def wrong(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [one for one in rows if not one["resolves"] or not one["listed"] or one["moved"] or one["outside"]]
