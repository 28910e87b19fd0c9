"""The Helm chart: it renders what the tested manifests are, and nothing that Kubernetes or its schema refuses.

The few template forms of Helm that the chart uses are filled in here; where Helm itself is installed, it has to render
the same, and its lint must accept the chart.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import gpustack

REPO = Path(__file__).resolve().parents[2]
CHART = REPO / "integrations/helm/gpustack"
ABOUT = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
FORM = re.compile(r"\{\{-? (?P<words>[^{}]+?) -?\}\}")
HELM = shutil.which("helm") or ""
JOB = {**VALUES, "job": {"enabled": True, "node": "n1", "gpus": 4}}


def rendered(name: str, values: dict[str, Any]) -> str:
    """Return a template filled in: a value, one as JSON, one with a default, and an optional part."""
    known = {"Release": {"Name": "here"}, "Chart": {"AppVersion": ABOUT["appVersion"]}, "Values": values}

    def value(path: str) -> Any:  # noqa: ANN401 - as YAML gives it
        held: Any = known
        for word in path.strip(".").split("."):
            held = held[word]
        return held

    def filled(found: re.Match[str]) -> str:
        match found["words"].split():
            case [path]:
                return str(value(path))
            case ["toJson", path]:
                return json.dumps(value(path))
            case ["default", other, path]:
                return str(value(path) or value(other))
        raise AssertionError(f"{found[0]}: no form of these tests")

    text = (CHART / "templates" / name).read_text("utf-8")
    if part := re.fullmatch(r"\{\{- if (\S+) \}\}\n(.*)\{\{- end \}\}\n", text, re.DOTALL):
        text = part[2] if value(part[1]) else ""
    return FORM.sub(filled, text)


def pod(text: str) -> Any:  # noqa: ANN401 - as YAML gives it
    return yaml.safe_load(text)["spec"]["template"]["spec"]


def test_kubernetes_takes_what_it_renders(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("daemonset.yaml", "policy.yaml", "job.yaml")]
    for file in files:
        file.write_text(rendered(file.name, JOB), "utf-8")
    program = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run([program, "--strict", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_rights_are_those_of_the_manifests_that_were_tried() -> None:
    written = next(yaml.safe_load_all((REPO / "integrations/kubernetes/daemonset.yaml").read_text("utf-8")))
    tried, ours = written["spec"]["template"]["spec"], pod(rendered("daemonset.yaml", VALUES))
    (theirs,), (own,) = tried["containers"], ours["containers"]
    for key in ("automountServiceAccountToken", "securityContext", "runtimeClassName", "nodeSelector", "tolerations"):
        assert ours[key] == tried[key], key
    for key in ("args", "command", "env", "resources", "securityContext", "volumeMounts", "image"):
        assert own[key] == theirs[key], key
    job = pod(rendered("job.yaml", JOB))
    assert job["securityContext"] == tried["securityContext"]
    assert not any("hostPath" in one for one in job["volumes"])
    assert job["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert not rendered("job.yaml", VALUES)


def test_the_values_keep_to_their_schema_and_a_typing_error_does_not() -> None:
    jsonschema.validate(VALUES, SCHEMA)
    for wrong in ({**VALUES, "polcy": ""}, {**VALUES, "textfile": "here"}, {**VALUES, "everySeconds": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_the_policy_arrives_as_it_is_written() -> None:
    values = {**VALUES, "policy": '[gpus]\ncount = 8\nname = "a: b # {{ c }}"\n'}
    assert yaml.safe_load(rendered("policy.yaml", values))["data"]["gpustack.toml"] == values["policy"]


def test_the_chart_is_of_this_release() -> None:
    assert ABOUT["version"] == ABOUT["appVersion"] == gpustack.__version__


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False)


@pytest.mark.skipif(not HELM, reason="Helm is not installed here")
def test_helm_itself_has_nothing_against_it_and_renders_the_same(tmp_path: Path) -> None:
    linted = helm("lint", "--strict", CHART)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    (tmp_path / "values.json").write_text(json.dumps(JOB), "utf-8")
    for values, asked in ((VALUES, ()), (JOB, ("--values", str(tmp_path / "values.json")))):
        done = helm("template", "here", CHART, *asked)
        theirs = {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}
        ours = [yaml.safe_load(rendered(name, values)) for name in ("daemonset.yaml", "policy.yaml", "job.yaml")]
        assert theirs == {one["kind"]: one for one in ours if one}, done.stderr
    refused = helm("template", "here", CHART, "--set", "everySeconds=1")
    assert refused.returncode != 0
    assert "everySeconds" in refused.stderr
