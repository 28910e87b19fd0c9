"""The container toolkit on fake machines: its version, its CDI specifications, and the engines that use it."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import ToldHost, load

PROBE = load("driver/nvidia_container_toolkit.py")
CTK = "/usr/bin/nvidia-ctk"
DENIED = OSError(errno.EACCES, "Permission denied")
# The shape of NVIDIA/nvidia-container-toolkit: cmd/nvidia-ctk/cdi/generate/generate_test.go.
SPEC = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
    - name: all
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
containerEdits:
    hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
    mounts:
        - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.10
          containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.10
"""
CONTAINERD = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "nvidia"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
        runtime_type = "io.containerd.runc.v2"
"""


def look(files: dict[str, Any] | None = None, **said: Any) -> Any:  # noqa: ANN401 - a probe's answer
    return PROBE["probe"](ToldHost(files, **said))


def test_absent_where_nothing_of_it_is_here() -> None:
    assert look() is None
    assert look({"/etc/docker/daemon.json": "{}", "/etc/cdi/vendor.yaml": "kind: vendor.com/net\n"}) is None


def test_its_release_by_its_package() -> None:
    files = {
        "/var/lib/dpkg/status": "Package: nvidia-container-toolkit-base\nStatus: x\nVersion: 1.17.8-1\n\n",
        "/var/lib/dpkg/info/nvidia-container-toolkit-base.list": f"{CTK}\n",
        "/usr/lib/x86_64-linux-gnu/libnvidia-container.so.1.17.8": "",
    }  # fmt: skip
    seen = look(files, commands={CTK: ""})
    assert (seen["version"], seen["package"], seen["path"]) == ("1.17.8", "nvidia-container-toolkit-base", CTK)
    assert (seen["libnvidia_container"], seen["status"]) == ("1.17.8", "present")


def test_its_release_by_its_own_word_and_a_program_that_hangs() -> None:
    said = "NVIDIA Container Toolkit CLI version 1.18.0\ncommit: f202b80\n"
    assert look(commands={CTK: "", f"{CTK} --version": said})["version"] == "1.18.0"
    assert look(commands={CTK: "", f"{CTK} --version": TimeoutError("slow")})["version"] is None


def test_the_gpu_operators_folder() -> None:
    seen = look({"/usr/local/nvidia/toolkit/nvidia-container-runtime": ""})
    assert seen["path"] == "/usr/local/nvidia/toolkit/nvidia-container-runtime"


@pytest.mark.parametrize("path", ["/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"])
def test_a_description_names_devices_and_the_driver_that_it_was_made_for(path: str) -> None:
    seen = look({path: SPEC})
    assert seen["status"] == "absent", "the description has outlived the toolkit"
    assert seen["cdi"] == [
        {
            "kind": "nvidia.com/gpu",
            "cdi_version": "0.5.0",
            "devices": ["0", "all"],
            "path": path,
            "drivers": ["570.86.10"],
        }
    ]  # fmt: skip


def test_a_description_in_json_and_one_that_cannot_be_read() -> None:
    said = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all"}]}
    seen = look({"/etc/cdi/a.json": json.dumps(said), "/etc/cdi/b.yaml": DENIED})
    assert [(one["kind"], one.get("devices"), one.get("why")) for one in seen["cdi"]] == [
        ("nvidia.com/gpu", ["all"], None),
        (None, None, "denied"),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}', (True, None, None)),
        (
            '{"runtimes": {"nvidia": {}}, "default-runtime": "nvidia", "features": {"cdi": true}}',
            (True, "nvidia", True),
        ),
    ],
)
def test_docker_knows_it(text: str, told: tuple[object, ...]) -> None:
    engine = look({"/etc/docker/daemon.json": text})["engines"]["docker"]
    assert (engine["runtime"], engine["default"], engine["cdi"]) == told


def test_docker_of_a_user_without_rights() -> None:
    path = "/home/ada/.config/docker/daemon.json"
    seen = look({path: '{"runtimes": {"nvidia": {}}}'}, environ={"HOME": "/home/ada"})
    assert seen["engines"]["docker"]["path"] == path


@pytest.mark.parametrize("text", ["{", "[1]", '{"runtimes": 7, "features": []}', '{"features": {"cdi": {}}}', "null"])
def test_a_damaged_file_of_docker_is_said_or_empty(text: str) -> None:
    seen = look({"/etc/docker/daemon.json": text}, commands={CTK: ""})
    assert seen["engines"].get("docker", {}).get("runtime") in {None, False}


def test_what_may_not_be_read_is_said() -> None:
    seen = look({"/etc/docker/daemon.json": DENIED, "/etc/containerd/config.toml": DENIED}, commands={CTK: ""})
    assert seen["engines"] == {
        "docker": {"path": "/etc/docker/daemon.json", "why": "denied"},
        "containerd": {"path": "/etc/containerd/config.toml", "why": "denied"},
    }


def test_containerd_crio_and_podman() -> None:
    files = {
        "/etc/containerd/config.toml": CONTAINERD,
        "/etc/crio/crio.conf.d/99-nvidia.conf": "[crio.runtime.runtimes.nvidia]\nruntime_path = '/x'\n",
        "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json": "{}",
    }
    engines = look(files)["engines"]
    assert engines["containerd"] == {
        "path": "/etc/containerd/config.toml",
        "runtime": True,
        "default": "nvidia",
        "cdi": True,
    }
    assert (engines["crio"]["runtime"], engines["crio"]["default"], engines["crio"]["cdi"]) == (True, None, None)
    assert engines["podman"]["runtime"] is True


def test_a_runtime_of_another_name_is_not_nvidias() -> None:
    assert look({"/etc/containerd/config.toml": CONTAINERD.replace("runtimes.nvidia]", "runtimes.runc]")}) is None


def test_the_toolkits_own_settings() -> None:
    text = '#mode = "legacy"\n[nvidia-container-cli]\nno-cgroups = true\n[nvidia-container-runtime]\nmode = "cdi"\n'
    seen = look({"/etc/nvidia-container-runtime/config.toml": text}, commands={CTK: ""})
    assert (seen["mode"], seen["no_cgroups"]) == ("cdi", True)


@given(st.text(max_size=200))
def test_whatever_the_files_hold(text: str) -> None:
    for read in ("from_json", "from_yaml", "in_json"):
        assert isinstance(PROBE[read](text), dict)
    files = {
        "/etc/cdi/a.yaml": "kind: nvidia.com/gpu\ndevices:\n" + text,
        "/etc/docker/daemon.json": text,
        "/etc/containerd/config.toml": text,
    }
    assert look(files)["key"] == "nvidia-container-toolkit"
