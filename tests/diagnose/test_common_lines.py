"""Common lines of programs: the cause that an expert names first comes first, as a root or as the likeliest."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.model.report import Health
from tests.schema import MATRIX

SMI = "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver"
FIRST = {
    f"{SMI} is properly installed and present in your system.": "nvidia-driver-missing",
    "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'": "cuda-toolkit-missing",
    "/usr/bin/ld: cannot find -lcudart\ncollect2: error: ld returned 1 exit status": "cuda-toolkit-missing",
    "/usr/bin/ld: cannot find -lcuda: No such file or directory": "libcuda-so-symlink-missing",
    "program crashed but device 0 memory hasn't been released\nGPU 0: NVIDIA TITAN X": "gpu-memory-held",
    "nothing provides __cuda >=12 needed by jaxlib-0.4.23-cuda120py310h": "driver-too-old-for-cuda-build",
    "Numba needs NumPy 2.0 or less. Got NumPy 2.1.": "pin-violated",
    "nvidia-container-cli: initialization error: driver rpc error: timed out": "nvml-slow",
    "NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory": "memlock-too-small",
    "libGL error: failed to open drm device: Permission denied": "user-not-in-render-group",
    "训练意外中止之后出现僵尸进程 显存一直占着释放不了": "gpu-memory-held",
    "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'": "nvcc-torch-mismatch",
}


@pytest.mark.parametrize("text", FIRST)
def test_the_cause_comes_first(text: str) -> None:
    report = judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX)
    named = dict.fromkeys((*report.verdict.root_causes, *(one.id for one in report.candidates)))
    assert next(iter(named), None) == FIRST[text], list(named)


def test_a_gpu_whose_links_are_inactive_is_not_called_healthy_for_them() -> None:
    text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: <inactive>\n\t Link 1: <inactive>"
    report = judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX)
    assert report.verdict.status is Health.UNKNOWN
    assert report.candidates[0].id == "nvlink-inactive"
