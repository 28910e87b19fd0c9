"""The commands inside ``integrations/``, run as their systems run them, on recorded machines."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.integrations.recorded import record
from tests.test_command_blocks import python_with_pip

REPO = Path(__file__).resolve().parents[2]
INTEGRATIONS = REPO / "integrations"
FIT, BAD_HOST, BAD_ENVIRONMENT = "healthy-h200", "gpu-fell-off-bus", "sm120-old-torch"
NO_GPU = "no-gpu"  # fit, except under a policy that requires a GPU
POLICY = INTEGRATIONS / "gpustack.toml"
CLASSES = [
    (FIT, "ok", 0),
    ("cpu-only-torch", "degraded", 0),
    (BAD_HOST, "bad-host", 1),
    (BAD_ENVIRONMENT, "bad-environment", 1),
]
Machine = Callable[[str], dict[str, str]]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a function that puts a gpustack on PATH which sees a recorded machine, and returns its environment."""

    def be(name: str) -> dict[str, str]:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        recorded = shlex.quote(str(record(name, tmp_path)))
        script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpustack "$@" --from {recorded}\n'
        (folder / "gpustack").write_text(script, "utf-8")
        (folder / "gpustack").chmod(0o755)
        (tmp_path / "work").mkdir(exist_ok=True)
        return {"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(REPO)}

    return be


def read(name: str) -> Any:  # noqa: ANN401 - YAML has no type
    return next(yaml.safe_load_all((INTEGRATIONS / name).read_text("utf-8")))


def mounted(manifest: str, pod: Any, folder: Path) -> Path:  # noqa: ANN401 - YAML has no type
    """Write the ConfigMap that a pod mounts at /policy into a folder, as Kubernetes does."""
    _, held = yaml.safe_load_all((INTEGRATIONS / manifest).read_text("utf-8"))
    (volume,) = [one for one in pod["volumes"] if one["name"] == "policy"]
    assert (held["kind"], held["metadata"]["name"]) == ("ConfigMap", volume["configMap"]["name"])
    for name, text in held["data"].items():
        (folder / name).write_text(text, "utf-8")
    return folder


def at(place: Path, path: str, command: Iterable[str]) -> list[str]:
    """Return a command with one of its paths changed to where the file is here."""
    words = list(command)
    assert any(path in word for word in words), f"{path} is not in {words}"
    return [word.replace(path, str(place)) for word in words]


def run(command: Iterable[str], environ: Mapping[str, str], seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command in an empty folder of the machine's home."""
    return subprocess.run(
        list(command),
        cwd=Path(environ["HOME"]) / "work",
        env=dict(environ),
        capture_output=True,
        encoding="utf-8",
        timeout=seconds,
        check=False,
    )


def action(environ: Mapping[str, str], **inputs: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run the GitHub action's check as a runner does, and return its outputs too."""
    described = read("../action.yml")
    given = {name: inputs.get(name, one["default"]) for name, one in described["inputs"].items()}
    (step,) = [one for one in described["runs"]["steps"] if one.get("id") == "check"]
    values = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: str(given[str(match[1])]), one)
        for name, one in step["env"].items()
    }
    assert not any("${{" in one for one in (*values.values(), step["run"])), "what a user gives never enters a script"
    outputs, summary = (Path(environ["HOME"]) / name for name in ("outputs", "summary"))
    runner = {"RUNNER_TEMP": environ["HOME"], "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
    outputs.write_text("", "utf-8")
    shell = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
    done = run(shell, {**environ, **runner, **values, "GITHUB_ACTIONS": "true"})
    return done, dict(line.split("=", 1) for line in outputs.read_text("utf-8").splitlines())


@pytest.mark.parametrize(("name", "class_", "code"), CLASSES)
def test_the_github_action_tells_whose_fault_it_is(name: str, class_: str, code: int, machine: Machine) -> None:
    done, outputs = action(machine(name), command="gpustack", bench="false")
    assert (done.returncode, outputs["class"]) == (code, class_), done.stdout + done.stderr
    assert ("::error" in done.stdout) == (code == 1)
    assert json.loads(Path(outputs["report"]).read_text("utf-8"))["class"] == class_
    assert json.loads(Path(outputs["sarif"]).read_text("utf-8"))["version"] == "2.1.0"
    assert "gpustack" in Path(outputs["report"]).with_name("summary").read_text("utf-8"), "the summary of the step"


@pytest.mark.packages
@pytest.mark.timeout(300)
def test_the_github_action_installs_what_lies_beside_it_and_that_checks(machine: Machine, tmp_path: Path) -> None:
    described = read("../action.yml")
    assert set(described["branding"]) == {"icon", "color"}
    (step,) = [one for one in described["runs"]["steps"] if one.get("if") == "inputs.command == ''"]
    shell = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "UV_", "SSL_", "HTTP"))}
    environ = {**machine(NO_GPU), **kept, "RUNNER_TEMP": str(tmp_path)}
    environ.pop("PYTHONPATH")
    done = run(shell, {**environ, "SOURCE": step["env"]["SOURCE"].replace("${{ github.action_path }}", str(REPO))})
    assert done.returncode == 0, done.stdout + done.stderr
    installed = str(tmp_path / "gpustack/bin/gpustack")
    done, outputs = action(environ, command="", bench="false", gpus="0")
    assert (done.returncode, outputs["class"]) == (0, "ok"), done.stdout + done.stderr
    assert Path(installed).exists()


def test_the_github_action_passes_what_it_is_given_and_nothing_else(machine: Machine, tmp_path: Path) -> None:
    policy = tmp_path / "it's a policy; touch pwned.toml"
    policy.write_text("[gpus]\ncount = 64\n", "utf-8")
    done, outputs = action(
        machine(FIT), command="gpustack", bench="false", policy=str(policy), arguments="--for\ninfer\n"
    )
    assert (done.returncode, outputs["class"]) == (1, "bad-host"), done.stdout + done.stderr
    assert list((tmp_path / "work").iterdir()) == []


def test_the_github_action_says_unknown_where_the_policy_is_wrong(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("[gpu]\n", "utf-8")
    done, outputs = action(machine(FIT), command="gpustack", bench="false", policy=str(tmp_path / "wrong.toml"))
    assert (done.returncode, outputs["class"]) == (2, "unknown")
    assert "wrong.toml:1" in done.stderr


def test_a_machine_without_a_gpu_is_fit_only_where_none_is_required(machine: Machine) -> None:
    environ = machine(NO_GPU)
    plain = ("gpustack", "check", "--no-bench")
    assert run(plain, environ).returncode == 1
    assert run((*plain, "--policy", str(POLICY)), environ).returncode == 1
    assert run((*plain, "--policy", str(POLICY), "--gpus", "0"), environ).returncode == 0
    for gpus, code in (("0", 0), ("", 1), ("4", 1)):
        done, _ = action(environ, command="gpustack", bench="false", gpus=gpus)
        assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "code"), [(FIT, 0), (BAD_HOST, 75), (BAD_ENVIRONMENT, 1), (NO_GPU, 75)])
def test_the_gitlab_job_is_queued_again_on_a_bad_runner_alone(
    name: str, code: int, machine: Machine, tmp_path: Path
) -> None:
    job = read("gitlab/gitlab-ci.yml")["gpustack"]
    assert job["retry"]["exit_codes"] == 75
    environ = machine(name)
    (tmp_path / "work" / job["variables"]["GPUSTACK_POLICY"]).write_bytes(POLICY.read_bytes())
    variables = {**job["variables"], "GPUSTACK": str(tmp_path / "bin/gpustack"), "GPUSTACK_ARGUMENTS": "--no-bench"}
    script = "set -eo pipefail\n" + "\n".join((*job["before_script"], *job["script"]))
    done = run(("bash", "-c", script), {**environ, **variables})
    assert done.returncode == code, done.stdout + done.stderr
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"gpustack.toml", "gpustack.json", "gpustack.xml"}


def test_the_gitlab_job_installs_nothing_that_it_was_not_told(machine: Machine) -> None:
    job = read("gitlab/gitlab-ci.yml")["gpustack"]
    environ = machine(FIT) | job["variables"]
    done = run(("bash", "-c", "set -eo pipefail\n" + "\n".join(job["before_script"])), environ)
    assert (done.returncode != 0, "GPUSTACK_SOURCE: names what pip installs" in done.stderr) == (True, True)
    assert list((Path(environ["HOME"]) / "work").iterdir()) == [], "nor does it make an environment first"


@pytest.mark.parametrize(("name", "code"), [(FIT, 0), (BAD_HOST, 1)])
def test_the_hook_of_pre_commit_runs(name: str, code: int, machine: Machine) -> None:
    (hook,) = yaml.safe_load((REPO / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert run(shlex.split(hook["entry"]), machine(name)).returncode == code


@pytest.mark.parametrize(("name", "healthy"), [(FIT, True), (BAD_HOST, False), (NO_GPU, False), (None, True)])
def test_the_image_is_unhealthy_when_something_is_wrong_and_not_when_it_cannot_be_told(
    name: str | None, *, healthy: bool, machine: Machine, tmp_path: Path
) -> None:
    text = (INTEGRATIONS / "docker/Dockerfile").read_text("utf-8").replace("\\\n", "")
    (command,) = re.findall(r"^HEALTHCHECK .*?CMD (.*)$", text, re.MULTILINE)
    environ = machine(name or FIT)
    if name is None:
        (tmp_path / f"{FIT}.json").write_text("{ not JSON", "utf-8")
    done = run(at(POLICY, "/etc/gpustack/gpustack.toml", ("sh", "-c", command)), environ)
    assert done.returncode == (0 if healthy else 1), done.stdout + done.stderr


def test_the_image_checks_by_its_policy_when_it_is_run(machine: Machine) -> None:
    text = (INTEGRATIONS / "docker/Dockerfile").read_text("utf-8")
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    words = [*at(POLICY, "/etc/gpustack/gpustack.toml", json.loads(command)), "--no-bench"]
    assert [run(words, machine(name)).returncode for name in (FIT, NO_GPU)] == [0, 1]


@pytest.mark.parametrize(("name", "code"), [(FIT, 0), (BAD_HOST, 1), (NO_GPU, 1)])
def test_the_detector_reads_one_short_line(name: str, code: int, machine: Machine) -> None:
    monitor = json.loads((INTEGRATIONS / "kubernetes/gpustack-monitor.json").read_text("utf-8"))
    (rule,) = monitor["rules"]
    args = at(POLICY, "/etc/gpustack/gpustack.toml", rule["args"])
    done = run((Path(rule["path"]).name, *args), machine(name))
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.splitlines()[0][: monitor["pluginConfig"]["max_output_length"]].startswith("GPUSTACK ")


@pytest.mark.parametrize(("name", "code"), [(FIT, 0), (BAD_HOST, 1), (NO_GPU, 1)])
def test_a_workload_of_kubernetes_starts_only_where_its_gpu_is_fit(
    name: str, code: int, machine: Machine, tmp_path: Path
) -> None:
    manifest = "kubernetes/init-container.yaml"
    pod = read(manifest)["spec"]
    (container,) = pod["initContainers"]
    policy = mounted(manifest, pod, tmp_path)
    assert run(at(policy, "/policy", container["command"]), machine(name)).returncode == code


@pytest.mark.parametrize(("name", "class_"), [(FIT, "ok"), (BAD_HOST, "bad-host"), (NO_GPU, "bad-host")])
def test_the_daemon_set_writes_the_textfile_again_and_again(
    name: str, class_: str, machine: Machine, tmp_path: Path
) -> None:
    manifest = "kubernetes/daemonset.yaml"
    pod = read(manifest)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (script,) = at(mounted(manifest, pod, tmp_path), "/policy", container["args"])
    folder = tmp_path / "textfile"
    folder.mkdir()
    environ = {**machine(name), "EVERY_SECONDS": "0.1"}
    command = [*container["command"], script.replace("/textfile/", f"{folder}/")]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL, start_new_session=True
    ) as child:
        try:
            written = folder / "gpustack.prom"
            first = replaced(written, None)
            assert replaced(written, first) != first
        finally:
            os.killpg(child.pid, 15)
    assert families(written)
    assert re.search(rf'^gpustack_check_class\{{.*"{class_}".*\}} 1$', written.read_text("utf-8"), re.MULTILINE)


def replaced(path: Path, before: int | None) -> int | None:
    """Return the file's inode once it has changed; the unchanged one after a while."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        now = path.stat().st_ino if path.exists() else None
        if now not in {None, before}:
            return now
        time.sleep(0.05)
    return before


def families(path: Path) -> set[str]:
    """Return the metric families of a textfile, parsed by Prometheus' own client."""
    return {family.name for family in text_string_to_metric_families(path.read_text("utf-8")) if family.samples}


@pytest.mark.parametrize(("name", "code"), [(FIT, 0), (BAD_HOST, 1)])
def test_the_service_of_systemd_writes_the_textfile(name: str, code: int, machine: Machine, tmp_path: Path) -> None:
    unit = (INTEGRATIONS / "systemd/gpustack-textfile.service").read_text("utf-8")
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    path, *rest = shlex.split(command.replace("/var/lib/prometheus/node-exporter", str(tmp_path)))
    done = run((Path(path).name, *rest), machine(name))
    assert done.returncode == code
    assert f"SuccessExitStatus={code}" in unit or code == 0
    assert all(family.startswith("gpustack_") for family in families(tmp_path / "gpustack.prom"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_the_image_runs_when_it_is_built_installs_gpustack(tmp_path: Path) -> None:
    text = (INTEGRATIONS / "docker/Dockerfile").read_text("utf-8").replace("\\\n", "")
    (command,) = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    source = tmp_path / "usr/src/gpustack"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(source)]
    subprocess.run(build, cwd=REPO, capture_output=True, check=True)
    (copied,) = re.findall(r"^COPY (.*) /usr/src/gpustack/$", text, re.MULTILINE)
    passed = (INTEGRATIONS / "docker/Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert passed == ["*", *(f"!{one}" for one in copied.split())], "the wheel, and nothing of the checkout"
    for name in copied.split()[1:]:
        shutil.copy(REPO / name, source)
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    (tmp_path / "opt").mkdir()
    rooted = re.sub(r"(?<![\w/.])/(opt|usr|etc)/", rf"{tmp_path}/\1/", command)
    # Its requirements are met: README.md's first command installs them, and tests/test_command_blocks.py runs it.
    path = f"{python_with_pip(tmp_path / 'bin')}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PIP_NO_COMPILE": "1", "PIP_NO_DEPS": "1"}
    done = subprocess.run(["/bin/sh", "-c", rooted], env=environ, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    installed = str(tmp_path / "usr/local/bin/gpustack")
    said = subprocess.run([installed, "--version"], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path)
    assert said.stdout.startswith("gpustack ")
    assert (tmp_path / "etc/gpustack/gpustack.toml").read_bytes() == POLICY.read_bytes()
    assert not source.exists()
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["65532:65532"]
