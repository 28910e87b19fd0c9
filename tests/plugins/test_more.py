"""Siblings, counts and known-bad versions from a plugin; fleets judged with one; the option before a command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import gpustack
from gpustack import plugins
from tests.plugins.test_plugins import command
from tools.fleet.__main__ import fleet

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = REPO / "examples/plugin/gpustack_example"
RULE = '''
from gpustack.diagnose.rule import rule
from gpustack.model.facts import Layer
from gpustack.model.report import Severity

@rule("example/odd", Layer.DRIVER, "nvidia-driver", Severity.ERROR)
def odd(facts, matrix):
    """It is odd."""
    for one in facts.find("gpu").instances:
        if one.facts["temperature"]["gpu_c"] == 31:
            yield odd.finding(title="31 degrees")
            return
'''
MORE = """
[[alike]]
name = "example/ecc-alike"
of = "gpu"
fact = "ecc.enabled"
finding = "example/mixed"
severity = "warning"
what = "its ECC mode is {found}; its siblings have {needs}"
source = "example site: handbook, GPUs"
checked = "2026-11-23"

[[counts]]
name = "example/bus-in-nvml"
every = "bus"
among = "nvml"
finding = "example/mixed"
severity = "error"
what = "is on the PCI bus and not in NVML"
source = "example site: handbook, GPUs"
checked = "2026-11-23"

[[combinations]]
id = "example/driver-and-kernel"
component = "nvidia-driver"
versions = ">=1"
with = { linux-kernel = ">=1" }
effect = "crash"
what = "the jobs of this site crash"
advice = "Boot the kernel of the site."
proof = "project"
source = "example site: handbook, kernels"
checked = "2026-11-23"

[[findings]]
id = "example/mixed"
layer = "hardware"
component = "gpu"
remedy = "Give the node back to the vendor."
verify = "nvidia-smi"
doc = '''
The GPUs of a node are not the ones that the site bought.
'''
"""


WRONG = [
    ('among = "nvml"', 'among = "moon"', "there is no list moon"),
    ('"example/bus-in-nvml"', '"gpu.bus"', "gpu.bus: everything in a plugin"),
    ('"example/driver-and-kernel"', '"mine"', "mine: everything in a plugin"),
    ('proof = "project"', 'proof = "me"', "combinations[0]"),
    ('"ecc.enabled"', '"ecc.colour"', "no schema has the fact gpu"),
    ('id = "example/mixed"', 'id = "example/else"', "but no [[findings]] block describes it"),
]


@pytest.mark.parametrize(("old", "new", "says"), WRONG)
def test_a_row_that_is_wrong_leaves_the_plugin_out(old: str, new: str, says: str, plugin: Path, apart: None) -> None:
    del apart
    text = MORE.replace(old, new)
    assert text != MORE
    (plugin / "plugin.toml").write_text((plugin / "plugin.toml").read_text("utf-8") + text, "utf-8")
    plugins.load([plugin])
    (fault,) = plugins.LOADED.faults
    assert says in fault.why


def test_siblings_counts_and_known_bad_versions_of_a_site_are_judged_as_ours_are(plugin: Path, apart: None) -> None:
    del apart
    (plugin / "plugin.toml").write_text((plugin / "plugin.toml").read_text("utf-8") + MORE, "utf-8")
    said = json.loads((REPO / "tests/hosts/recorded-h200-x2.json").read_text("utf-8"))["facts"]
    said["host"].update({"virtualisation": None, "container": None})
    gpu = next(one for one in said["components"] if one["id"] == "gpu")["instances"]
    (slots,) = [one["instances"] for one in said["components"] if one["id"] == "pci-display"]
    slots.append({**slots[0], "key": "0000:77:00.0"})
    for number, one in enumerate(gpu):
        one["facts"]["ecc"]["enabled"] = bool(number)
    before = {one.id for one in gpustack.judge(said).findings}
    plugins.load([plugin])
    assert not plugins.LOADED.faults
    found = [one for one in gpustack.judge(said).findings if one.row and one.row.source.startswith("example site")]
    assert {one.row.text.partition(":")[0] for one in found if one.row} >= {
        "example/ecc-alike",
        "every GPU of the list bus is in the list nvml",
    }
    assert {one.id for one in found} - before >= {"example/mixed"}
    (bad,) = [one for one in found if one.id == "known-bad-combination"]
    assert (bad.instance, bad.severity.value) == ("example/driver-and-kernel", "warning")


def test_a_fleet_is_judged_with_the_plugins_and_twins_by_what_their_rules_may_read(
    plugin: Path, tmp_path: Path
) -> None:
    (plugin / "rules.py").write_text(RULE, "utf-8")
    fleet(tmp_path / "nodes", 70, seed=3, benches=0)
    hot = set()
    for file in (tmp_path / "nodes").glob("*.json.gz"):
        said = json.loads(gzip.decompress(file.read_bytes()))
        held = [one for part in said["components"] if part["id"] == "gpu" for one in part["instances"]]
        hot |= (
            {file.name.partition(".")[0]} if any(one["facts"]["temperature"]["gpu_c"] == 31 for one in held) else set()
        )
    asked = ("fleet", "judge", tmp_path / "nodes", "--workers", "2", "--format", "json", "--plugins", plugin)
    report = json.loads(command(*asked).stdout)
    found = [one for one in report["classes"] if any(held["id"] == "example/odd" for held in one["findings"])]
    assert {name for one in found for name in one["nodes"]} == hot
    assert 0 < len(hot) < 70
    (plugin / "rules.py").write_text("raise ValueError('slip')\n", "utf-8")
    assert f"plugin {plugin} is left out: slip" in command(*asked).stderr


def test_the_option_goes_before_any_command_as_well() -> None:
    before = command("--plugins", EXAMPLE, "explain", "example/scratch-missing")
    behind = command("explain", "example/scratch-missing", "--plugins", EXAMPLE)
    assert (before.returncode, before.stdout) == (0, behind.stdout)


def test_the_self_test_proves_what_a_plugin_finds() -> None:
    done = command("selftest", "--plugins", EXAMPLE, "--format", "json")
    assert {one["name"] for one in json.loads(done.stdout)["proofs"] if one["name"].startswith("example/")} == {
        "example/scratch-missing",
        "example/power-lost",
        "example/driver-not-approved",
    }
    assert done.returncode == 0
