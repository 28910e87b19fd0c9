"""The recorded machines of ``examples/``: the first screen is enough to fix each, as its page shows.

The effect of the commands is applied to the facts, since the machines are not here; then the doctor runs again.
``GPUSTACK_RENEW=1`` rewrites the page's transcripts.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from gpustack import snapshots
from gpustack.diagnose.engine import judge
from gpustack.imports import load
from gpustack.model.report import Health, Report
from gpustack.report import renderer
from tests.build import MATRIX

FOLDER = Path(__file__).resolve().parents[1] / "examples"
PAGE = FOLDER / "README.md"
BEGIN = "## Fixed with the first screen alone\n"
INTRO = """
Each transcript is what someone who has never seen gpustack does: read the screen, type the commands under *Fix*,
then the one under *Check*. The commands ran on stand-ins: what each would change was changed in the recorded facts,
and the doctor judged them again.
"""
# What the commands on the screen change: what was recorded, and what would be recorded after them.
FIXED = {
    "driver-too-old": (
        ("2.7.1+cu128", "2.5.1+cu118"),
        ('"cu128"', '"cu118"'),
        ('"12.8"', '"11.8"'),
        (
            '["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]',
            '["sm_50", "sm_80", "sm_86", "sm_90"]',
        ),
    ),
    "module-mismatch": (("570.133.07", "580.95.05"),),
    "gpu-newer-than-build": (
        ("2.6.0+cu126", "2.11.0+cu128"),
        ('"cu126"', '"cu128"'),
        ('"12.6"', '"12.8"'),
        ('["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]', '["sm_75", "sm_80", "sm_90", "sm_120"]'),
    ),
    "cudnn-shadowed": (('"step": "LD_LIBRARY_PATH", "folder": "/opt/cudnn/lib"', '"step": "none", "folder": "/none"'),),
}


def before(name: str) -> Report:
    """Return the report on the machine as it was recorded."""
    return judge(load([str(FOLDER / f"{name}.json")], io.BytesIO(), MATRIX), MATRIX)


def after(name: str) -> Report:
    """Return the report on the machine as the commands leave it."""
    text = json.dumps(json.loads((FOLDER / f"{name}.json").read_text("utf-8")))
    for old, new in FIXED[name]:
        assert old in text, old
        text = text.replace(old, new)
    held = json.loads(text)
    for one in held["components"]:
        for copy in (one, *one["instances"]):
            search = copy["facts"].get("search", {})
            search.update({key: [step for step in steps if step["step"] != "none"] for key, steps in search.items()})
    if name == "module-mismatch":  # NVML and CUDA answer, as on the other H200 with this driver
        other = json.loads((FOLDER / "cudnn-shadowed.json").read_text("utf-8"))["components"]
        answers = {one["id"]: one for one in other if one["id"] in {"nvml", "libcuda", "gpu", "kernel-log"}}
        held["components"] = [answers.get(one["id"], one) for one in held["components"]]
    text = json.dumps(held)
    return judge(snapshots.read(text), MATRIX)


def typed(name: str) -> tuple[str, ...]:
    """Return what the user types, all of it from the first screen."""
    report = before(name)
    (root,) = [one for one in report.findings if one.key == report.verdict.root_keys[0]]
    assert root.fix
    return (*root.fix.commands, *([root.fix.verify] if root.fix.verify else []))


def transcript(name: str) -> str:
    """Return the whole transcript, from the first run to the last."""
    screen = renderer("text")(before(name)).rstrip()
    commands = "\n".join(f"$ {command}" for command in typed(name))
    well = renderer("text")(after(name)).splitlines()[0]
    return f"### {name}\n\n```console\n$ gpustack doctor\n{screen}\n{commands}\n$ gpustack doctor\n{well}\n```\n"


@pytest.mark.parametrize("name", FIXED)
def test_the_first_screen_holds_all_that_is_typed_and_what_is_typed_fixes_the_machine(name: str) -> None:
    screen = renderer("text")(before(name))
    assert before(name).verdict.status is Health.BROKEN
    assert len(screen.splitlines()) <= 24
    assert [command for command in typed(name) if command not in screen] == []
    assert after(name).verdict.status is Health.HEALTHY, after(name).verdict.root_keys


def test_the_page_shows_just_that() -> None:
    made = "\n".join((BEGIN, INTRO.strip() + "\n", *map(transcript, FIXED)))
    page = PAGE.read_text("utf-8")
    if os.environ.get("GPUSTACK_RENEW"):
        PAGE.write_text(f"{page.partition(BEGIN)[0]}{made}", "utf-8")
    assert PAGE.read_text("utf-8").endswith(made)
    assert {path.stem for path in FOLDER.glob("*.json")} == set(FIXED)
