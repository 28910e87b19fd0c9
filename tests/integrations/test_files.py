"""The files of ``integrations/`` as the systems that they are for read them: their own schemas and checkers."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
import yaml

from gpustack import policy

REPO = Path(__file__).resolve().parents[2]
INTEGRATIONS = REPO / "integrations"
MANIFESTS = sorted((INTEGRATIONS / "kubernetes").glob("*.yaml"))
SCRIPTS = sorted(INTEGRATIONS.rglob("*.sh"))
# The keys that node-problem-detector reads: kubernetes/node-problem-detector, pkg/custompluginmonitor/types/config.go
# and types.go, pkg/types/types.go.
DETECTOR = {"plugin", "pluginConfig", "source", "conditions", "rules", "metricsReporting"}
DETECTOR_GLOBAL = {
    "invoke_interval",
    "timeout",
    "max_output_length",
    "concurrency",
    "enable_message_change_based_condition_update",
    "skip_initial_status",
}
DETECTOR_RULE = {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"}


def tool(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a checker of the extra ``dev``."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found, f"{name} is of the extra dev"
    return subprocess.run([found, *arguments], cwd=REPO, capture_output=True, encoding="utf-8", check=False)


def checker(name: str, *arguments: str | Path) -> tuple[int, str]:
    """Return the exit code of a checker written in Python, run in this process, where it is imported once."""
    (found,) = entry_points(group="console_scripts", name=name)
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said), catch_warnings():
        simplefilter("ignore")  # those of others
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        try:
            code = found.load()()
        except SystemExit as left:
            code = left.code
    return int(code or 0), said.getvalue()


def read(path: Path) -> Any:  # noqa: ANN401 - YAML has no type
    return next(yaml.safe_load_all(path.read_text("utf-8")))


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("vendor.github-actions", "../action.yml"),
        ("vendor.github-workflows", "github/workflow.yml"),
        ("vendor.github-workflows", "github/again.yml"),
        ("vendor.github-workflows", "../.github/workflows/release.yml"),
        ("vendor.gitlab-ci", "gitlab/gitlab-ci.yml"),
    ],
)
def test_ci_files_keep_to_their_schema(schema: str, file: str) -> None:
    code, said = checker("check-jsonschema", "--builtin-schema", schema, INTEGRATIONS / file)
    assert code == 0, said
    assert "ok" in said


def test_the_schema_would_refuse_a_file_with_a_wrong_key(tmp_path: Path) -> None:
    wrong = tmp_path / "action.yml"
    wrong.write_text((REPO / "action.yml").read_text("utf-8") + "runner: a\n", "utf-8")
    assert checker("check-jsonschema", "--builtin-schema", "vendor.github-actions", wrong)[0] != 0


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_kubernetes_takes_the_manifest(manifest: Path) -> None:
    code, said = checker("kubernetes-validate", "--strict", manifest)
    assert code == 0, said


def test_the_validator_would_refuse_a_manifest_with_a_wrong_key(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((INTEGRATIONS / "kubernetes/init-container.yaml").read_text("utf-8") + "  initContainer: []\n")
    assert checker("kubernetes-validate", "--strict", wrong)[0] != 0


def test_pre_commit_takes_the_hook_and_it_runs_on_a_changed_policy_alone() -> None:
    manifest = REPO / ".pre-commit-hooks.yaml"
    done = tool("pre-commit", "validate-manifest", manifest)
    assert done.returncode == 0, done.stdout + done.stderr
    (hook,) = read(manifest)
    assert hook["pass_filenames"] is False
    paths = ("gpustack.toml", "sub/gpustack.toml", "pyproject.toml", "gpustack_toml", "README.md", "my-gpustack.toml")
    assert [path for path in paths if re.search(hook["files"], path)] == list(paths[:3])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(INTEGRATIONS)))
def test_shellcheck_finds_nothing(script: Path) -> None:
    done = tool("shellcheck", "-x", script)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "file", ["../action.yml", "../.github/workflows/release.yml", "gitlab/gitlab-ci.yml", "kubernetes/daemonset.yaml"]
)
def test_shellcheck_finds_nothing_in_scripts_inside_yaml(file: str, tmp_path: Path) -> None:
    for number, text in enumerate(scripts(read(INTEGRATIONS / file))):
        script = tmp_path / f"{number}.sh"
        script.write_text(text, "utf-8")
        done = tool("shellcheck", "--shell=bash", "--exclude=SC2086,SC2154", script)
        assert done.returncode == 0, done.stdout


def scripts(held: Any) -> list[str]:  # noqa: ANN401 - YAML has no type
    """Return every script in such a file: a step's ``run``, a job's ``script``, a container's ``args``."""
    if isinstance(held, list):
        return [script for one in held for script in scripts(one)]
    if not isinstance(held, dict):
        return []
    own = [held[key] for key in ("run", "before_script", "script", "args") if key in held]
    lines = ["\n".join(map(str, one)) if isinstance(one, list) else one for one in own]
    return lines + [script for one in held.values() for script in scripts(one)]


def test_the_systemd_units_are_verified_by_systemd(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here")
    for unit in (INTEGRATIONS / "systemd").iterdir():
        text = unit.read_text("utf-8").replace("/opt/gpustack/bin/gpustack", sys.executable)
        (tmp_path / unit.name).write_text(text, "utf-8")
    for unit in sorted(tmp_path.iterdir()):
        done = subprocess.run([analyze, "verify", unit], capture_output=True, encoding="utf-8", check=False)
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "gpustack" in line]
        assert (done.returncode, ours) == (0, []), done.stdout + done.stderr


def test_systemd_calls_the_service_little_exposed() -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here")
    unit = INTEGRATIONS / "systemd/gpustack-textfile.service"
    asked = [analyze, "security", "--offline=true", "--threshold=40", "--no-pager", str(unit)]
    done = subprocess.run(asked, capture_output=True, encoding="utf-8", check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze judges no file: before 250")
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


def test_the_service_may_do_what_the_check_needs() -> None:
    """What a stricter unit would block: the GPUs, the kernel's log and modules, the processes, the textfile."""
    unit = (INTEGRATIONS / "systemd/gpustack-textfile.service").read_text("utf-8")
    held = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and line[0] != "#")
    blind = ("PrivateDevices", "PrivateUsers", "ProtectKernelLogs", "ProtectKernelModules", "ProtectProc", "ProcSubset")
    assert not held.keys() & {*blind, "User", "DynamicUser", "MemoryDenyWriteExecute", "UMask"}
    assert all(f"# {name}=" in unit or f", {name}=" in unit for name in blind), "each is named with its reason"
    assert {"char-nvidia* rw", "char-kfd rw", "char-drm rw", "/dev/kmsg r"} == set(
        re.findall(r"^DeviceAllow=(.*)$", unit, re.MULTILINE)
    )
    (output,) = re.findall(r"-o (\S+)/", held["ExecStart"])
    assert held["ReadWritePaths"] == output


def test_the_check_runs_with_the_rights_of_the_service_and_without_a_network(tmp_path: Path) -> None:
    unshare, setpriv = shutil.which("unshare"), shutil.which("setpriv")
    if unshare is None or setpriv is None or os.geteuid() != 0:
        pytest.skip("dropping root's rights needs root, unshare and setpriv")
    unit = (INTEGRATIONS / "systemd/gpustack-textfile.service").read_text("utf-8")
    (held,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    rights = ",".join(("-all", *(f"+{one.removeprefix('CAP_').lower()}" for one in held.split())))
    wrapped = [unshare, "-n", setpriv, f"--bounding-set={rights}", "--inh-caps=-all", "--no-new-privs"]
    if subprocess.run([*wrapped, "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces of our own are not allowed here")
    output = tmp_path / "gpustack.prom"
    check = [sys.executable, "-m", "gpustack", "check", "--no-bench", "--format", "prometheus", "-o", str(output)]
    done = subprocess.run([*wrapped, *check], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode in {0, 1}, done.stderr
    assert "gpustack_check_class" in output.read_text("utf-8")


def test_the_detectors_monitor_is_one_that_it_takes() -> None:
    monitor = json.loads((INTEGRATIONS / "kubernetes/gpustack-monitor.json").read_text("utf-8"))
    assert monitor["plugin"] == "custom"
    assert set(monitor) <= DETECTOR
    assert set(monitor["pluginConfig"]) <= DETECTOR_GLOBAL
    known = {condition["type"] for condition in monitor["conditions"]}
    for rule in monitor["rules"]:
        assert set(rule) <= DETECTOR_RULE
        assert rule["type"] == "permanent"
        assert rule["condition"] in known
        assert seconds(rule["timeout"]) <= seconds(monitor["pluginConfig"]["timeout"])
        own = float(rule["args"][rule["args"].index("--timeout") + 1])
        assert own < seconds(rule["timeout"]), "ours must end before the detector ends it"


def seconds(text: str) -> int:
    """Return a Go duration in seconds."""
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


@pytest.mark.parametrize("manifest", [one for one in MANIFESTS if "fleet" not in one.stem], ids=lambda path: path.stem)
def test_every_manifest_requires_a_gpu_by_a_policy_of_its_own(manifest: Path) -> None:
    (held,) = [one for one in yaml.safe_load_all(manifest.read_text("utf-8")) if "data" in one]
    assert policy.read(held["data"]["gpustack.toml"]).policy.gpus
    others = [one.read_text("utf-8") for one in MANIFESTS if one != manifest]
    assert not any(f"name: {held['metadata']['name']}\n" in text for text in others), "two would overwrite each other"


def test_the_jobs_policy_is_a_policy() -> None:
    (held,) = [
        one for one in yaml.safe_load_all((INTEGRATIONS / "kubernetes/job.yaml").read_text("utf-8")) if "data" in one
    ]
    written = policy.read(held["data"]["gpustack.toml"])
    assert written.policy.gpus
    assert written.policy.gpus.count == 8
