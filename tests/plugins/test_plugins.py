"""Plugins: what a site adds is found, fully checked, called by its own name, and breaks nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gpustack
from gpustack import matrix as tables
from gpustack import plugins
from gpustack.collect import catalogue
from gpustack.diagnose import engine, rule
from gpustack.diagnose.engine import failed
from gpustack.errors import UsageError
from gpustack.plugins import reading

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = REPO / "examples/plugin/gpustack_example"
OLD = REPO / "examples/driver-too-old.json"
Change = Callable[[str], str]


def command(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpustack", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow
def test_the_tests_of_the_example_pass() -> None:
    folder = EXAMPLE.parent
    alone = ("-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder, folder / "tests")
    done = subprocess.run([sys.executable, *alone], capture_output=True, text=True, check=False, cwd=REPO)
    assert "3 passed" in done.stdout, done.stdout


def test_a_system_of_a_plugin_is_probed_and_its_finding_is_in_the_report() -> None:
    done = command("doctor", "--plugins", EXAMPLE, "--format", "json")
    report = json.loads(done.stdout)
    (scratch,) = [one for one in report["components"] if one["id"] == "example/scratch"]
    assert (scratch["status"], scratch["facts"]["mounted"]) == ("present", False)
    (finding,) = [one for one in report["findings"] if one["id"] == "example/scratch-missing"]
    assert finding["row"]["source"] == "example site: handbook, storage"
    assert finding["fix"]["commands"] == ["sudo systemctl restart scratch.mount"]
    assert done.returncode == 1
    assert "example/scratch" in command("--plugins", EXAMPLE, "doctor", "--list-checks").stdout
    assert "example/scratch" in command("doctor", "--list-checks", "--plugins", EXAMPLE).stdout
    assert "example/scratch" not in command("doctor", "--list-checks").stdout, "only where it is asked for"


def test_explain_and_the_list_of_checks_know_it_and_a_policy_has_its_name() -> None:
    explained = command("explain", "example/scratch-missing", "--plugins", EXAMPLE).stdout
    assert "example/scratch-missing: a finding of the plugin example" in explained
    assert "Jobs write their checkpoints" in explained
    checked = ("check", "--policy", "example/strict", "--plugins", EXAMPLE, "--from", OLD, "--format", "json")
    rules = json.loads(command(*checked).stdout)["policy"]
    assert "8" in {one["wanted"] for one in rules if one["rule"].startswith("gpus")}
    raised = next(one for one in json.loads(command(*checked).stdout)["findings"] if one["id"].startswith("example/"))
    assert (raised["id"], raised["severity"]) == ("example/driver-not-approved", "error")


def test_the_version_lists_plugins_and_those_that_are_left_out(tmp_path: Path) -> None:
    folders = f"{EXAMPLE}{os.pathsep}{tmp_path}"
    lines = command("--version", "-v", GPUSTACK_PLUGINS=folders).stdout.splitlines()
    assert lines[1].startswith(f"plugin example 1.0 ({EXAMPLE}): scratch, approved drivers")
    assert lines[1].endswith("1 system, 2 rows, 1 message, 3 findings, 1 policy")
    assert lines[2].startswith(f"plugin {tmp_path} is left out: ")
    assert command("--version", "-v").stdout.splitlines()[1:] == ["no plugins"]


def test_a_folder_that_is_not_a_plugin_is_one_line(tmp_path: Path) -> None:
    done = command("doctor", "--plugins", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gpustack: --plugins {tmp_path}: a plugin is a folder with plugin.toml, which is missing\n"


WRONG: list[tuple[str, Change, str]] = [
    ("plugin.toml", lambda text: text + "]", "plugin.toml: "),
    ("plugin.toml", lambda text: text.replace("schema = 1", "schema = 2"), "schema is not 1"),
    ("plugin.toml", lambda text: "state = []\n" + text, "there is no key state"),
    ("plugin.toml", lambda text: text.replace('name = "example"', 'name = "Example One"'), "name: use lower-case"),
    (
        "plugin.toml",
        lambda text: text.replace('"example/scratch-missing"', '"gpu-xid"'),
        "gpu-xid: everything in a plugin",
    ),
    ("plugin.toml", lambda text: text.replace('id = "example/scratch"', 'id = "nvml"'), "nvml: everything in a plugin"),
    ("plugin.toml", lambda text: text.replace('kind = "example/', 'kind = "'), "feed-lost: everything in a plugin"),
    ("plugin.toml", lambda text: text.replace("probes/scratch.py", "../../etc.py"), "there is no probe"),
    (
        "plugin.toml",
        lambda text: text.replace('type = "flag"', 'type = "colour"'),
        "facts of example/scratch: 'colour'",
    ),
    ("plugin.toml", lambda text: text.replace('fact = "mounted"', 'fact = "mountd"'), "no schema has the fact"),
    (
        "plugin.toml",
        lambda text: text.replace('"example/power.feed" =', '"gpu.colour" ='),
        "no schema has the fact gpu",
    ),
    ("plugin.toml", lambda text: text.replace("expect = [true]\n", ""), "states[0]: example/scratch.mounted expects"),
    ("plugin.toml", lambda text: text.replace("{feed:A|B}", "{feed:colour}"), "'colour' is no kind of placeholder"),
    (
        "plugin.toml",
        lambda text: text.replace('id = "example/power-lost"', 'id = "example/else"'),
        "but no [[findings]]",
    ),
    ("plugin.toml", lambda text: text.replace('where = "system"', 'where = "moon"'), "where is system, target or both"),
    ("rules.py", lambda _: "import sys\nsys.exit(0)\n", "rules.py would have ended the program"),
    ("rules.py", lambda _: "while True: pass\n", "rules.py took longer than 2 s"),
    (
        "rules.py",
        lambda text: text.replace('"example/driver', '"driver'),
        "driver-not-approved: everything in a plugin",
    ),
    ("rules.py", lambda _: "def broken(:\n", "SyntaxError"),
    ("policies/strict.toml", lambda _: "gpus = \n", "strict.toml: "),
]


@pytest.mark.parametrize(("file", "change", "says"), WRONG)
def test_what_is_wrong_leaves_the_plugin_out_whole_and_is_named(
    file: str, change: Change, says: str, plugin: Path, apart: None
) -> None:
    del apart
    text = (plugin / file).read_text("utf-8")
    (plugin / file).write_text(change(text), "utf-8")
    assert change(text) != text
    plugins.load([plugin])
    (fault,) = plugins.LOADED.faults
    assert says in fault.why
    assert not plugins.LOADED.plugins
    assert not any((catalogue.ADDED, rule.ADDED, tables.ADDED))
    report = gpustack.judge(OLD)
    assert report.verdict.root_causes == ("driver-too-old-for-cuda-build",)
    assert fault in report.not_seen


RULE = '''
from gpustack.diagnose.rule import rule
from gpustack.model.facts import Layer
from gpustack.model.report import Severity

@rule("example/odd", Layer.DRIVER, "nvidia-driver", Severity.ERROR)
def odd(facts, matrix):
    """It is odd."""
    {}
'''


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("raise SystemExit(1)", "would have ended the program"),
        ("while True: pass", "took longer than 2 s"),
        ("yield 5", "it yields 5, which is not a finding example/odd"),
        (
            "from dataclasses import replace; yield replace(odd.finding(title='x'), id='gpu-xid')",
            "not a finding example/odd",
        ),
    ],
)
def test_a_rule_that_fails_affects_only_itself(
    body: str, says: str, plugin: Path, apart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del apart
    monkeypatch.setattr(engine, "failed", failed)  # as it is outside of tests, where it raises
    before = gpustack.judge(OLD)
    (plugin / "rules.py").write_text(RULE.format(body), "utf-8")
    plugins.load([plugin])
    assert not plugins.LOADED.faults
    report = gpustack.judge(OLD)
    (unseen,) = [one for one in report.not_seen if one.what == "example/odd"]
    assert says in unseen.why
    assert unseen.enable_by == "correct the plugin example, or leave it out"
    assert (report.verdict, report.findings) == (before.verdict, before.findings)


@pytest.mark.parametrize("body", ["import os; os.abort()", "import time; time.sleep(60)"])
def test_a_probe_that_hangs_or_crashes_affects_only_itself(body: str, plugin: Path) -> None:
    (plugin / "probes/scratch.py").write_text(f"def probe(host):\n    {body}\n", "utf-8")
    text = (plugin / "plugin.toml").read_text("utf-8")
    (plugin / "plugin.toml").write_text(text.replace('where = "system"', 'where = "system"\nalone = true'), "utf-8")
    done = command("doctor", "--plugins", plugin, "--format", "json", "--timeout", "6")
    seen = {one["id"]: one["status"] for one in json.loads(done.stdout)["components"]}
    assert (seen["example/scratch"], seen["linux-kernel"]) == ("failed", "present")


def test_two_of_one_name_are_not_mixed(plugin: Path, apart: None) -> None:
    del apart
    plugins.load([EXAMPLE, plugin])
    plugins.load([EXAMPLE])
    assert [one.origin for one in plugins.LOADED.plugins] == [str(EXAMPLE)]
    assert [one.why for one in plugins.LOADED.faults] == ["there is already a plugin example"]
    with pytest.raises(UsageError, match="which is missing"):
        plugins.load([plugin / "policies"])


def test_an_installed_plugin_is_found_by_its_entry_point(
    plugin: Path, apart: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del apart
    packages = tmp_path / "packages"
    about = packages / "gpustack_example-1.0.dist-info"
    about.mkdir(parents=True)
    plugin.rename(packages / "gpustack_example_installed")
    points = "[gpustack.plugins]\nexample = gpustack_example_installed\ngone = gpustack_not_there\n"
    (about / "entry_points.txt").write_text(points, "utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: gpustack-example\nVersion: 1.0\n", "utf-8")
    monkeypatch.syspath_prepend(packages)
    plugins.load()
    assert [(one.name, one.origin) for one in plugins.LOADED.plugins] == [("example", "example")]
    assert [one.what for one in plugins.LOADED.faults] == ["plugin gone"]
    assert "gpustack_example_installed" not in sys.modules
    assert "example/scratch-missing" in rule.ids()


def test_without_a_plugin_the_plugin_reader_is_not_loaded() -> None:
    program = (
        "import sys\nfrom gpustack import plugins\nplugins.load()\n"
        "late = ('gpustack.plugins.reading', 'gpustack.model.facts', 'importlib.metadata')\n"
        "print([one for one in sys.modules if one in late])\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False, cwd=REPO)
    assert done.stdout == "[]\n", done.stderr


def test_the_rows_of_a_plugin_are_checked_against_the_types_of_ours() -> None:
    read = reading.read(EXAMPLE, "here")
    assert read.brings == ("1 system", "2 rows", "1 message", "3 findings", "1 policy")
    assert all(one.data["probe"].startswith(str(EXAMPLE)) for one in read.systems)
