"""Pasted text about containers without a GPU, and the one cause that must result."""

from __future__ import annotations

import pytest

from tests.diagnose.test_libraries_from_text import told, words

NO_LIBRARY = (
    "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object"
)
FULL = "NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes, error: No space left on device (28)\n"


@pytest.mark.parametrize(
    ("slug", "text", "mentions"),
    [
        (
            "container-no-gpus-flag",
            "$ docker run -it --rm pytorch/pytorch:2.1.0 python train.py\nFound no NVIDIA driver on your system.",
            ["--gpus", "docker run -it --rm"],
        ),
        (
            "container-no-gpus-flag",
            "$ podman run -it my/image\n>>> torch.cuda.is_available()\nFalse",
            ["podman run --device nvidia.com/gpu=all"],
        ),
        (
            "container-toolkit-missing",
            "docker: Error response from daemon: failed to discover GPU vendor from CDI: no known GPU vendor found",
            ["nvidia-container-toolkit", "CDI", "--runtime=docker"],
        ),
        (
            "container-toolkit-missing",
            "podman: Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
            ["nvidia-ctk cdi generate"],
        ),
        (
            "container-toolkit-missing",
            'Failed to create pod sandbox: failed to get sandbox runtime: no runtime for "nvidia" is configured',
            ["containerd", "--runtime=containerd"],
        ),
        (
            "container-toolkit-missing",
            'error running hook: exec: "nvidia-container-runtime-hook": executable file not found in $PATH: unknown',
            ["nvidia-container-toolkit"],
        ),
        ("docker-snap", "$ which docker\n/snap/bin/docker\nunknown or invalid runtime name: nvidia.", ["snap remove"]),
        ("docker-snap", f"Docker was installed via snap\n{NO_LIBRARY}", ["snap", "libnvidia-ml.so.1"]),
        (
            "container-cgroup-lost-devices",
            "Failed to initialize NVML: Unknown Error\nthe pod lost its GPUs after systemctl daemon-reload",
            ["cgroup", "daemon-reload", "nvidia.com/gpu=all"],
        ),
        ("container-shm-too-small", FULL + "shm              64M   64M     0 100% /dev/shm", ["64 MiB", "--shm-size"]),
        (
            "container-shm-too-small",
            (
                "DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's workers "
                "are out of shared memory."
            ),
            ["shared memory", "--ipc=host"],
        ),
    ],
)
def test_the_one_cause_is_named_with_its_commands(slug: str, text: str, mentions: list[str]) -> None:
    said = words(text, slug)
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    "text",
    [
        "I installed docker with snap. Everything works, but the model answers nonsense.",
        "docker run --gpus all --rm my/image\nAssertionError: batch size must be even",
        "$ docker run --device=/dev/kfd --device=/dev/dri rocm/pytorch\nValueError: bad model",
        "systemctl daemon-reload, then restarted ollama; few tokens a second",
    ],
)
def test_a_container_that_has_its_gpu_is_not_blamed(text: str) -> None:
    assert told(text).verdict.root_causes == ()


def test_a_toolkit_that_finds_no_library_of_a_working_driver_may_be_a_snaps() -> None:
    (finding,) = told(f"{NO_LIBRARY}\nnvidia-smi on the host works").findings[:1]
    assert (finding.id, finding.confidence.value) == ("docker-snap", "possible")
