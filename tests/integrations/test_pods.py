"""What the pods of ``integrations/kubernetes`` may do: the pod security standard "restricted", and little beyond."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "integrations/kubernetes"
MANIFESTS = sorted(one for one in FOLDER.glob("*.yaml") if one.stem != "fleet")  # which has roles but no pod
# What each manifest takes beyond the standard; a comment at its top says why.
EXCEPTIONS = {
    "daemonset": {"volume textfile is a hostPath"},
    "fleet-gate": {"a token of the service account is mounted"},
}
# https://kubernetes.io/docs/concepts/security/pod-security-standards/, "Restricted", as of Kubernetes 1.34
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
    "image",
}
SECCOMP = ("RuntimeDefault", "Localhost")


def pod(manifest: Path) -> Any:  # noqa: ANN401 - YAML has no type
    """Return the pod of a manifest, at whatever depth it is defined."""
    first = next(yaml.safe_load_all(manifest.read_text("utf-8")))
    spec = first["spec"]
    for key in ("jobTemplate", "template"):
        spec = spec[key]["spec"] if key in spec else spec
    return spec


def breaches(spec: Any) -> Iterator[str]:  # noqa: ANN401 - YAML has no type
    """Yield where a pod breaks the standard, or our own requirements beyond it."""
    whole = spec.get("securityContext", {})
    yield from (f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    if spec.get("automountServiceAccountToken") is not False:
        yield "a token of the service account is mounted"
    if whole.get("sysctls") or whole.get("windowsOptions"):
        yield "the pod sets what the standard does not admit"
    for volume in spec.get("volumes", []):
        (kind,) = volume.keys() - {"name"}
        if kind not in VOLUMES:
            yield f"volume {volume['name']} is a {kind}"
    for one in (*spec.get("initContainers", []), *spec["containers"]):
        own = one.get("securityContext", {})
        yield from (f"{one['name']}: {breach}" for breach in container_breaches(one, own, {**whole, **own}))


def container_breaches(one: Any, own: Any, joined: Any) -> Iterator[str]:  # noqa: ANN401 - YAML has no type
    """Yield where one container breaks them; the pod's setting applies where the container has none."""
    if joined.get("runAsNonRoot") is not True or joined.get("runAsUser") == 0:
        yield "runs as root"
    if joined.get("seccompProfile", {}).get("type") not in SECCOMP:
        yield "has no seccomp profile"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "may gain rights"
    if own.get("privileged") or own.get("procMount", "Default") != "Default":
        yield "is privileged"
    capabilities = own.get("capabilities", {})
    if capabilities.get("drop") != ["ALL"] or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield "keeps capabilities"
    if any("hostPort" in port for port in one.get("ports", [])):
        yield "takes a port of the node"
    if one["name"] == "gpustack" and not (own.get("readOnlyRootFilesystem") and joined.get("runAsUser")):
        yield "may write its image, or runs as whoever the image says"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_a_pod_is_restricted_but_for_what_its_head_explains(manifest: Path) -> None:
    head = manifest.read_text("utf-8").split("apiVersion:")[0]
    assert set(breaches(pod(manifest))) == EXCEPTIONS.get(manifest.stem, set())
    assert 'pod security standard "restricted"' in head.replace("\n# ", " ")
    assert ("with no exception" in head.replace("\n# ", " ")) == (manifest.stem not in EXCEPTIONS)


def test_the_daemon_set_mounts_one_folder_of_the_node_and_says_who_has_to_own_it() -> None:
    spec = pod(FOLDER / "daemonset.yaml")
    (folder,) = [one["hostPath"] for one in spec["volumes"] if "hostPath" in one]
    assert folder == {"path": "/var/lib/prometheus/node-exporter", "type": "Directory"}
    own = spec["securityContext"]
    command = f"install -d -o {own['runAsUser']} -g {own['runAsGroup']} {folder['path']}"
    assert command in (FOLDER / "daemonset.yaml").read_text("utf-8")
    assert command in (FOLDER.parent / "README.md").read_text("utf-8")
    (container,) = spec["containers"]
    assert [one["name"] for one in container["volumeMounts"] if not one.get("readOnly")] == ["textfile", "scratch"]


def without(spec: Any, *path: str | int) -> Any:  # noqa: ANN401 - YAML has no type
    """Return a pod without one of its fields."""
    spoilt = copy.deepcopy(spec)
    within = spoilt
    for name in path[:-1]:
        within = within[name]
    del within[path[-1]]
    return spoilt


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_each_field_that_is_taken_away_is_missed(manifest: Path) -> None:
    spec = pod(manifest)
    place = "initContainers" if "initContainers" in spec else "containers"
    own = ("allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem")
    fields: list[tuple[str | int, ...]] = [(place, 0, "securityContext", name) for name in own]
    fields += [("securityContext", name) for name in ("runAsNonRoot", "seccompProfile")]
    token = [] if "serviceAccountName" in spec else [("automountServiceAccountToken",)]
    for path in (*fields, *token):
        assert set(breaches(without(spec, *path))) > set(breaches(spec)), path


def grow(name: str, value: object) -> Callable[[Any], None]:
    """Return a function that sets a field of a pod, or of its first container."""

    def change(spec: Any) -> None:  # noqa: ANN401 - YAML has no type
        where = spec if name.startswith("host") else spec["containers"][0]["securityContext"]
        where[name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        grow("hostNetwork", value=True),
        grow("hostPID", value=True),
        grow("privileged", value=True),
        grow("runAsUser", 0),
        grow("capabilities", {"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
        grow("seccompProfile", {"type": "Unconfined"}),
    ],
)
def test_each_right_that_is_added_is_found(change: Callable[[Any], None]) -> None:
    spec = copy.deepcopy(pod(FOLDER / "job.yaml"))
    change(spec)
    assert list(breaches(spec))


def test_the_check_runs_as_the_user_of_the_pods_with_no_home_and_no_rights() -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None or os.geteuid() != 0:
        pytest.skip("becoming another user needs root and setpriv")
    own = pod(FOLDER / "daemonset.yaml")["securityContext"]
    user = f"--reuid={own['runAsUser']}", f"--regid={own['runAsGroup']}", "--clear-groups"
    rights = "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"
    if subprocess.run([setpriv, *user, *rights, sys.executable, "-V"], capture_output=True, check=False).returncode:
        pytest.skip("another user cannot run the Python of the tests here")
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    os.chown(folder, own["runAsUser"], own["runAsGroup"])
    check = [sys.executable, "-m", "gpustack", "check", "--no-bench", "--format", "prometheus"]
    try:
        done = subprocess.run(
            [setpriv, *user, *rights, *check, "-o", str(folder / "gpustack.prom")],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(FOLDER.parents[1])},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode in {0, 1}, done.stderr
        assert "gpustack_check_class" in (folder / "gpustack.prom").read_text("utf-8")
    finally:
        shutil.rmtree(folder)
