"""What people write in few words about containers, permissions, variables and WSL, and the one cause of it."""

from __future__ import annotations

import pytest

from tests.diagnose.test_libraries_from_text import told, words

NO_GPU = "RuntimeError: No CUDA GPUs are available\n"
ONE_MIG = "torch.cuda.device_count()\n1"


@pytest.mark.parametrize(
    ("slug", "text", "mentions"),
    [
        (
            "container-requires-newer-driver",
            "the image x/y:12.8 requires cuda>=12.8\nhost driver 550.54.15\nthe container refuses to start",
            ["cuda>=12.8", "550.54.15", "CUDA 12.4"],
        ),
        (
            "container-requires-newer-driver",
            "kubelet: nvidia-container-cli: requirement error: unsatisfied condition: cuda\\u003e=12.2, please update",
            ["cuda>=12.2"],
        ),
        (
            "forward-compat-804",
            (
                "ERROR: This container was built for NVIDIA Driver Release 510.39 or later, but version 470.86 was "
                "detected and compatibility mode is UNAVAILABLE.\n[[CUDA Driver UNAVAILABLE (cuInit(0) returned 804)]]"
            ),
            ["804", "470.86"],
        ),
        ("fabric-manager-not-running", "DGX A100: CUDA initialization fails with 802", ["802"]),
        (
            "fabric-manager-not-running",
            "nvidia-fabricmanager service is not running\ntorch.cuda.is_available() returns False",
            ["fabric"],
        ),
        (
            "fabric-manager-version-mismatch",
            "nvidia-fabricmanager-550 550.90.07\ndriver 550.127.05\nnvidia-fabricmanager.service failed to start",
            ["550.90.07", "550.127.05"],
        ),
        (
            "container-no-gpus-flag",
            "Started the container without --gpus all\ntorch.cuda.is_available() is False inside the container",
            ["--gpus"],
        ),
        (
            "container-no-gpus-flag",
            "compose.yml has no NVIDIA device reservation, so nvidia-smi is unavailable inside the container",
            ["device reservation"],
        ),
        (
            "container-no-gpus-flag",
            "forgot --nv\napptainer exec x.sif python\n>>> torch.cuda.is_available()\nFalse",
            ["apptainer exec --nv"],
        ),
        ("container-toolkit-missing", "nvidia-container-toolkit is not installed\ndocker run --gpus all", ["toolkit"]),
        (
            "docker-snap",
            "docker  24.0.5  2915 latest/stable  canonical** -\nUnknown runtime specified nvidia.",
            ["snap remove docker"],
        ),
        (
            "container-cgroup-lost-devices",
            "after systemctl daemon-reload the container loses the GPU\nno CUDA-capable device is detected",
            ["cgroup", "daemon-reload"],
        ),
        (
            "container-shm-too-small",
            "docker, 2x RTX 3090, /dev/shm is 64M\nNCCL error: unhandled system error",
            ["64 MiB", "--shm-size"],
        ),
        ("cuda-visible-devices-invalid", f"{NO_GPU}CUDA_VISIBLE_DEVICES: all", ["CUDA_VISIBLE_DEVICES=all"]),
        (
            "cuda-visible-devices-invalid",
            "CUDA_VISIBLE_DEVICES is set to 4,5,6,7 but the machine has 4 GPUs\nCUDA error: invalid device ordinal",
            ["4,5,6,7", "0 to 3"],
        ),
        ("mig-enabled-no-instance", f"A100: MIG is enabled on the GPU but has no MIG partitions\n{NO_GPU}", ["A100"]),
        ("mig-multiple-devices", f"an A100 configured for MIG (several MIG devices)\n{ONE_MIG}", ["MIG"]),
        (
            "user-not-in-render-group",
            "in the container:\ncrw-rw---- 1 root 105  226, 128 Mar 18 13:28 renderD128",
            ["105", "/dev/dri/renderD128", "render"],
        ),
        (
            "user-not-in-render-group",
            (
                "rocminfo fails\n$ id\nuid=1000(bob) gid=1000(bob) groups=1000(bob),27(sudo)\n"
                "crw-rw---- 1 root render 509, 0 May 3 10:00 /dev/kfd"
            ),
            ["/dev/kfd", "render"],
        ),
        (
            "wsl-libcuda-shadowed",
            "WSL2\nexport LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/usr/lib/x86_64-linux-gnu\nnvidia-smi will no longer work",
            ["/usr/lib/wsl/lib", "LD_LIBRARY_PATH", "/usr/lib/x86_64-linux-gnu"],
        ),
        (
            "wsl-linux-driver-installed",
            "WSL2\nsudo apt install cuda\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
            ["/usr/lib/wsl/lib", "cuda"],
        ),
        (
            "libcuda-so-symlink-missing",
            "skipping incompatible /usr/lib/i386-linux-gnu/libcuda.so when searching for -lcuda",
            ["-lcuda", "libcuda.so.1"],
        ),
        ("oneapi-env-not-sourced", "Cannot load shared library libmkl_core.so", ["libmkl_core.so", "setvars.sh"]),
        ("oneapi-env-not-sourced", "'icpx' is not recognized as an internal or external command", ["setvars.sh"]),
        ("intel-level-zero-missing", "the test says error 2013265921", ["libze_intel_gpu.so.1"]),
    ],
)
def test_few_words_are_enough(slug: str, text: str, mentions: list[str]) -> None:
    said = words(text, slug).lower()
    assert all(one.lower() in said for one in mentions)


@pytest.mark.parametrize(
    "text",
    [
        "Should I pass --gpus all? CPU inference works without --gpus.",
        "NOTE: The SHMEM allocation limit is set to the default of 64MB. This may be insufficient for PyTorch.",
        "OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376.",
        "kubernetes pod with 2x A100\nRuntimeError: NCCL error: unhandled system error",
        "Bus error (core dumped) when I import my own module",
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0"\ntorch.cuda.device_count() returns 1\nKeyError',
        "the service has deploy.resources.reservations.devices set and sees the GPU",
        "docker: my user is in the render and video groups, rocminfo shows gfx1100, works with sudo too",
        "jellyfin container\ncrw-rw---- 1 root render 226, 128 Mar 18 14:28 renderD128",
        "WSL2, LD_LIBRARY_PATH=/usr/lib/wsl/lib:/usr/lib/x86_64-linux-gnu, torch.cuda.is_available() True",
        "What if MIG is enabled without instances? Mine is off. torch.cuda.is_available() True",
        "nvidia-fabricmanager.service failed: NV_WARN_NOTHING_TO_DO\ntorch.cuda.is_available() False",
        "batch 802 is fine, error rate 804 per second",
        "docker is installed via apt, not snap; could not select a model",
    ],
)
def test_what_is_only_mentioned_is_not_a_fault(text: str) -> None:
    assert not told(text).verdict.root_causes
