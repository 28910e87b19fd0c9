"""What looks like a fault but is not: found live or pasted, nothing is blamed for it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from gpustack.imports import load
from gpustack.matrix import Matrix
from gpustack.model.report import Kept, Severity
from tests.build import (
    found,
    gpu,
    healthy,
    kernel,
    machine,
    module,
    nvml,
    on,
    onnxruntime,
    pci,
    report,
    roots,
    seen,
    torch,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

MATRIX = Matrix()


def blamed(facts: Facts) -> list[str]:
    told = report(facts)
    return [*told.verdict.root_causes, *(one.id for one in told.findings if one.severity is Severity.ERROR)]


def cudnn(version: str, built: str) -> Facts:
    path = "/v/nvidia/cudnn/lib/libcudnn.so.9"
    search = {"libcudnn.so.9": [{"step": "RUNPATH", "path": path, "real": path}]}
    copy = {"key": path, "path": path, "version": version}
    return healthy(seen("cudnn", copy), torch(search=search, pins={"nvidia-cudnn-cu13": built}))


LIVE = {
    "a build for CUDA 12.8 on driver 535": on("535.183.01", 12020, torch("2.7.1", "cu128", "12.8", archs=["sm_86"])),
    "a build for CUDA 11.7 on driver 450, data centre": on(
        *("450.80.02", 11000, torch("1.13.1", "cu117", "11.7", archs=["sm_70"])), cc="7.0", name="Tesla V100-SXM2-16GB"
    ),
    "a build for CUDA 11.7 on driver 470, data centre": on(
        *("470.256.02", 11040, torch("1.13.1", "cu117", "11.7", archs=["sm_80"])),
        cc="8.0",
        name="NVIDIA A100-SXM4-40GB",
    ),
    "an idle link at Gen1": healthy(
        seen("pci-display", pci(link={"speed": 2.5, "width": 16, "max_speed": 32.0, "max_width": 16})),
        seen("gpu", gpu(pcie={"generation": 1, "width": 16, "max_generation": 5, "max_width": 16})),
    ),
    "NVLink down where no bridge is": healthy(
        seen("nvlink", {"key": "0", "links": [{"link": 0, "active": False}, {"link": 1, "active": False}]})
    ),
    "two toolkits side by side": healthy(
        seen(
            "cuda-toolkit",
            {"key": "/usr/local/cuda-12.8", "version": "12.8.93", "in_use": True},
            {"key": "/usr/local/cuda-11.8", "version": "11.8.89", "in_use": False},
        ),
        torch(),
    ),
    "a newer minor of cuDNN than built with": cudnn("9.19.0", "9.10.2.21"),
    "MIG instances": healthy(
        seen("gpu", gpu("NVIDIA A100-SXM4-80GB", "8.0", mig={"enabled": True, "instances": [{"uuid": "MIG-1"}]}))
    ),
    "a host without a GPU, with builds for the CPU": machine(
        *(seen("pci-display"), module(None, None), torch("2.11.0", "cpu", None), onnxruntime())
    ),
    "amdgpu of the kernel itself, without a version": machine(
        *(kernel(), seen("pci-display", pci("amdgpu", "0x744c", vendor="amd")), seen("amdgpu.ko", {"loaded": True}))
    ),
}


@pytest.mark.parametrize("facts", [pytest.param(facts, id=name) for name, facts in LIVE.items()])
def test_a_live_machine_that_is_healthy_is_not_blamed(facts: Facts) -> None:
    assert blamed(facts) == []


PASTED = {
    "cu128 on 535": "PyTorch version: 2.7.0+cu128\nCUDA used to build PyTorch: 12.8\nIs CUDA available: True\n"
    "GPU models and configuration: GPU 0: NVIDIA A100-SXM4-80GB\nNvidia driver version: 535.183.01\n",
    "cu117 on 450": "PyTorch version: 1.13.1+cu117\nCUDA used to build PyTorch: 11.7\n"
    "GPU models and configuration: GPU 0: Tesla V100-SXM2-32GB\nNvidia driver version: 450.172.01\n",
    "a driver number of Windows in WSL": "PyTorch version: 2.7.0+cu128\nCUDA used to build PyTorch: 12.8\n"
    "Python platform: Linux-5.15.167.4-microsoft-standard-WSL2-x86_64-with-glibc2.39\n"
    "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 5090\nNvidia driver version: 572.60\n",
    "fabric manager without NVSwitch": "nv-fabricmanager[1]: request to query NVSwitch device information "
    "from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
    "GPU 0: NVIDIA GeForce RTX 4090\n",
    "an idle link": "    GPU Link Info\n        PCIe Generation\n            Current : 1\n            Max : 4\n"
    "performance state P8, idle",
    "inactive links": "$ nvidia-smi nvlink -s\nGPU 0: NVIDIA RTX A6000 (UUID: GPU-removed)\n\t Link 0: <inactive>\n",
    "in-tree amdgpu": "cat: /sys/module/amdgpu/version: No such file or directory\n"
    "$ lsmod | grep amdgpu\namdgpu 12345678 0\n",
    "a CPU build on a host without a GPU": "PyTorch version: 2.3.0+cpu\nCUDA used to build PyTorch: None\n"
    "Is CUDA available: False\nGPU models and configuration: No CUDA\nNvidia driver version: No CUDA\n",
    "MIG instances": "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-removed)\n"
    "  MIG 3g.20gb     Device  0: (UUID: MIG-removed)\n  MIG 3g.20gb     Device  1: (UUID: MIG-removed)\n",
    "two toolkits": "$ ls /usr/local\ncuda cuda-11.8 cuda-12.4\nCuda compilation tools, release 12.4, V12.4.131\n"
    "torch 2.4.1+cu124, driver 550.54.15, RTX 4090\n",
    "a driver for Windows, by its own number": "GTX 1060 6GB, driver 581.57, CUDA 12.8 toolkit\nRasterization failed\n",
    "hipBLASLt without kernels": 'rocblaslt error: Cannot read "TensileLibrary_lazy_gfx1201.dat": No such file\n',
    "out of memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\ntorch==2.5.1+cu124\n",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in PASTED.items()])
def test_a_paste_of_a_machine_that_is_healthy_blames_nobody(text: str) -> None:
    assert blamed(load(["-"], io.BytesIO(text.encode()), MATRIX)) == []


def test_minor_version_compatibility_is_reported_as_a_limit() -> None:
    contracts = report(LIVE["a build for CUDA 12.8 on driver 535"]).contracts
    kept = [one.status for one in contracts if (one.from_, one.to, one.kind) == ("pytorch", "nvidia-driver", "cuda")]
    assert kept == [Kept.LIMITED]


def test_the_same_machines_with_the_fault_are_blamed() -> None:
    too_old = on("470.256.02", 11040, torch("2.7.1", "cu128", "12.8", archs=["sm_86"]))
    assert roots(too_old) == ("driver-too-old-for-cuda-build",)
    assert found(healthy(seen("gpu", gpu(mig={"enabled": True, "instances": []}))), "mig-enabled-no-instance")
    assert roots(healthy(nvml(count=1), torch())) == ()
