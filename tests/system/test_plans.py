"""Every plan resolves: the planner's advice is given to the real resolver, which installs nothing.

A grid of frameworks, drivers, GPUs and Pythons is drawn with the seed below. Each plan's first alternative is passed
to uv's resolver (``uv pip compile``, wheels only) for that Python on Linux; what only PyTorch's own index offers, a
build with a tag, is resolved by its release, and its build is checked against the recorded listing of that index in
the matrix. ``GPUSTACK_PLANS=FILE`` writes the questions and answers, as evidence.
Whether a plan moves anything outside its change set is compared: an environment of other packages, drawn by the seed,
is resolved, then the same environment with the plan, which keeps what it can as pip does; whatever moved has to be in
the plan, or required by the plan's own packages. Machines are drawn as well: what the doctor recommends for a PyTorch
and what depends on it, installed on the same day or on two, has to name all of that, and to resolve.
Two more grids, of their own seed, are for aarch64 Linux and for Windows. A few plans are checked with pip itself,
since its resolver is different.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gpustack.diagnose.installing import FROM_SOURCE, TORCH_INDEX
from gpustack.matrix.subjects.toolkits import Packaged
from tests.leaving import leave_out
from tests.system.plans import (
    BEHIND,
    ELSEWHERE,
    FEW,
    MACHINES,
    MATRIX,
    OFFLINE,
    OTHERS,
    PIP,
    SECONDS,
    Plan,
    elsewhere,
    grid,
    held,
    listed,
    machines,
    moved,
    resolved,
    whole,
    wrong,
)


@pytest.mark.system
@pytest.mark.timeout(3000)
def test_every_plan_of_the_grid_resolves_and_moves_nothing_else() -> None:
    rows = held(list(whole()))
    _keep("GPUSTACK_PLANS", rows)
    print(Counter(bool(one["build"]) for one in rows))  # noqa: T201 - the run wants its figure
    assert len(rows) >= 300
    assert not wrong(rows), "\n".join(map(json.dumps, wrong(rows)[:10]))


@pytest.mark.system
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("platform", OTHERS)
def test_every_plan_for_another_platform_resolves_there(platform: str) -> None:
    rows = held(list(elsewhere(platform)))
    _keep("GPUSTACK_PLANS_ELSEWHERE", rows)
    assert len(rows) >= ELSEWHERE // 4  # for the others there is nothing to install there
    assert not wrong(rows), "\n".join(map(json.dumps, wrong(rows)[:10]))


@pytest.mark.system
@pytest.mark.timeout(2000)
def test_what_the_doctor_advises_on_a_drawn_machine_names_all_that_is_bound_to_torch_and_resolves() -> None:
    drawn = list(itertools.islice(machines(), MACHINES))
    rows = held([plan for _, plan in drawn])
    _keep("GPUSTACK_PLANS_MACHINES", rows)
    named = [{one.partition("==")[0] for one in plan.wanted} for _, plan in drawn]
    assert not [plan.command for (there, plan), names in zip(drawn, named, strict=True) if {*there} - names]
    assert not wrong(rows), "\n".join(map(json.dumps, wrong(rows)[:10]))


@pytest.mark.system
@pytest.mark.timeout(3000)
def test_pip_itself_answers_a_few_plans_as_uv_does() -> None:
    """Only what the index has unchanged, for the Python that runs this: pip judges its own.

    Where the index is behind the METADATA of a plan (BEHIND), pip cannot take another release of that package, and uv
    is used instead.
    """
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    plans = {one.wanted: one for one in whole() if one.python == own and not one.tag}
    plans = {one.wanted: one for one in {one.subject: one for one in plans.values()}.values()}  # one of each subject
    source = {wanted for wanted in plans if any(re.split(r"[\[=<>!~]", one)[0] in FROM_SOURCE for one in wanted)}
    rows: list[dict[str, object]] = []
    for wanted in [one for one in plans if one not in source][:PIP]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.json")
            asked = [*(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet")]
            asked += ["--only-binary", ":all:", "--report", str(report), *wanted]
            try:
                done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=2 * SECONDS)
            except subprocess.TimeoutExpired:
                rows.append({"wanted": wanted, "resolves": None, "moved": [], "said": f"nothing in {2 * SECONDS} s"})
                continue
            if done.returncode and OFFLINE.search(done.stderr):
                leave_out("no package index answers here")
            lags = re.search(r"No matching distribution found for ([\w.-]+)(\S*)", done.stderr)
            if lags and any(one.partition(">")[0] == lags[1] for one in BEHIND):
                ok = resolved(wanted, own)[0]  # with any release of that one, which pip cannot be made to choose
                said = f"this index has no {lags[1]}{lags[2]}, which it requires; with any {lags[1]} uv resolves it"
                rows.append({"wanted": wanted, "resolves": ok, "moved": [], "said": said})
                continue
            there = json.loads(report.read_text("utf-8"))["install"] if done.returncode == 0 else []
        answer = "\n".join(f"{one['metadata']['name'].lower()}=={one['metadata']['version']}" for one in there)
        other = moved(plans[wanted], answer)
        rows.append({"wanted": wanted, "resolves": bool(there), "moved": other, "said": len(there)})
    _keep("GPUSTACK_PLANS_PIP", rows)
    answered = [one for one in rows if one["resolves"] is not None]
    assert len(answered) >= PIP // 2  # the others need more than pip downloads in that time
    assert not [one for one in answered if not one["resolves"] or one["moved"]]


def _keep(variable: str, rows: list[dict[str, object]]) -> None:
    """Write the questions and answers to the file that the environment names, as evidence."""
    target = os.environ.get(variable)
    if target:
        with Path(target).open("a", encoding="utf-8") as kept:
            kept.writelines(json.dumps(one) + "\n" for one in rows)


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
    assert not listed(replace(plan, command=f"pip install torch==2.9.0 --index-url {TORCH_INDEX}/cu999"))


# Of the packages that our commands name, those in Debian's main archive; the others are Ubuntu's and the vendors'.
# What it lacks is known too, from its listing in the matrix.
OF_DEBIAN = ("gcc-12 g++-12", "linux-headers-amd64", "libze1", "dkms")
# Releases in the matrix whose wheels do not pull in 3 GB of CUDA: one environment each, really installed.
SMALL = (
    *("onnxruntime-gpu==1.18.*", "onnxruntime-gpu==1.20.*", "onnxruntime-gpu==1.22.*", "onnxruntime-gpu==1.23.*"),
    *("jax==0.4.35", "jax==0.5.0", "jax==0.6.2", "jax==0.7.2"),
    *("bitsandbytes==0.49.2", "torchvision==0.24.0", "torchaudio==2.9.0", "torchaudio==2.8.0"),
)
ALONE = ("bitsandbytes", "torchvision", "torchaudio")  # by --no-deps: their torch would pull in all of CUDA


@pytest.mark.packages
@pytest.mark.parametrize("packages", OF_DEBIAN)
def test_what_debian_has_of_our_packages_can_be_installed_there(packages: str) -> None:
    asked = ["apt-get", "-s", "install", *packages.split()]
    debian = Path("/etc/os-release").is_file() and "ID=debian" in Path("/etc/os-release").read_text("utf-8")
    if not debian or not shutil.which("apt-get"):
        leave_out("this is no Debian")
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=110)
    if "Unable to locate" in done.stderr and not any(Path("/var/lib/apt/lists").glob("*Packages*")):
        leave_out("apt-get has no lists here")
    assert done.returncode == 0, done.stderr


@pytest.mark.packages
def test_the_listing_of_debian_s_compilers_is_that_of_its_archive() -> None:
    """Only on Debian, for the running release: everything that the matrix lists is there, and no other GCC up to 20."""
    system = Path("/etc/os-release").read_text("utf-8") if Path("/etc/os-release").is_file() else ""
    release = re.search(r'^VERSION_ID="?(\d+)', system, re.MULTILINE)
    if "ID=debian" not in system or not release or not any(Path("/var/lib/apt/lists").glob("*Packages*")):
        leave_out("this is no Debian with lists of packages")
    listed_ = [one.gcc for one in MATRIX.rows("host_compiler", "packaged", Packaged) if one.release == release[1]]
    asked = ["apt-cache", "madison", *(f"gcc-{major}" for major in range(5, 21))]
    shown = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=110)
    there = {int(found) for found in re.findall(r"^\s*gcc-(\d+) \|", shown.stdout, re.MULTILINE)}
    assert [set(one) for one in listed_] == [there]


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("wanted", SMALL)
def test_a_plan_without_cuda_in_it_is_really_installed_and_imported(wanted: str, tmp_path: Path) -> None:
    name, python, uv = wanted.partition("==")[0], tmp_path / "env" / "bin" / "python", [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(tmp_path / "env")], check=True)
    options = ["--no-deps"] if name in ALONE else []
    install = [*uv, "pip", "install", "-q", "--only-binary", ":all:", "--python", str(python), wanted, *options]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode and OFFLINE.search(done.stderr):
        leave_out("no package index answers here")
    assert done.returncode == 0, done.stderr
    shown = f"import importlib.metadata as it; print(it.version('{name}'))"
    shown += "" if name in ALONE else f"; import {name.removesuffix('-gpu')}"
    said = subprocess.run([str(python), "-c", shown], capture_output=True, text=True, check=True).stdout.strip()
    assert said.startswith(wanted.partition("==")[2].rstrip("*"))
