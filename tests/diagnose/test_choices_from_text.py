"""What is not a fault because it was chosen, is over, or concerns another machine; and faults in everyday words."""

from __future__ import annotations

import pytest

from tests.imports.reading import first, read

FAULTS = (
    ("Tesla K40, CUDA 7.5, driver 346.96\nCUDA driver version is insufficient", "driver-too-old-for-cuda-build", "352"),
    (
        "NVRM: API mismatch: client version 550.120, kernel module version 550.107.02",
        "driver-library-mismatch",
        "550.107.02",
    ),
    (
        "/sys/module/nvidia/version: 535.154.05\nDriver/library version mismatch\nNVML library version: 535.161",
        "driver-library-mismatch",
        "535.154.05",
    ),
    (
        "the module source in the package is 560.28.03\nDriver/library version mismatch\nNVML library version: 560.35",
        "driver-library-mismatch",
        "rebuild|autoinstall",
    ),
    (
        "GeForce GT 730 (GK208). nvidia-driver-470 was chosen. With 545 the card is silently ignored.",
        "legacy-gpu-needs-older-branch",
        "470",
    ),
    (
        "after the machine wakes from suspend the container stops working and so does CUDA",
        "uvm-stale-after-suspend",
        "nvidia_uvm",
    ),
    (
        'Unable to dynamically load the "cuda" shared library - searched for library names: ["cuda", "nvcuda"].',
        "libcuda-so-symlink-missing",
        "libcuda.so",
    ),
    (
        "onnxruntime-win-x64-cuda12-1.17.3, cuDNN 9\nLoadLibrary failed with error 126 onnxruntime_providers_cuda.dll",
        "ort-cudnn-major-mismatch",
        "cuDNN 8",
    ),
    ("torch 2.1.0+cu118\nRuntimeError: Library libcublas.so.12 is not found", "cuda-major-mixed", "CUDA 12"),
    (
        "CUDA 11.8, torch 2.3.1+cu121\nOSError: libcudart.so.12: cannot open shared object file",
        "cuda-major-mixed",
        "11.8",
    ),
    (
        "Python 3.6, CUDA 9.1\nImportError: libcublas.so.9.0: cannot open shared object file",
        "tf-cannot-dlopen",
        "libcublas.so.9.0",
    ),
    (
        "TypeError: register_custom_call_target(): incompatible function arguments.",
        "jax-plugin-mismatch",
        "register_custom_call_target",
    ),
    (
        "RTX 2080\nNVRM: Open nvidia.ko is only ready for use on Data Center GPUs.",
        "open-module-unsupported-gpu",
        "NVreg_OpenRmEnableUnsupportedGpus",
    ),
    ("GTX 1070\nNVRM: Open nvidia.ko is only ready for use on Data Center GPUs.", "open-module-unsupported-gpu", "GSP"),
    ("WSL2: nvidia-smi: Driver/library version mismatch", "wsl-linux-driver-installed", "wsl/lib"),
    ("Arc A770: clinfo: Number of platforms 0, as root it lists the card", "user-not-in-render-group", "render"),
    ("jax.devices()\n[CpuDevice(id=0)]\nRTX 4090, jaxlib 0.4.30", "cpu-only-build", "JAX"),
    ("/dev/nvidia0 exists, /dev/nvidia-uvm does not. cuInit returns 999", "nvidia-uvm-missing", "nvidia-uvm"),
    (
        "/usr/include/c++/11/bits/std_function.h:435:145: error: parameter packs not expanded with '...'",
        "host-compiler-too-new",
        "GCC 11",
    ),
    (
        "Python 3.9: No matching distribution found for onnxruntime-gpu==1.24.4",
        "python-version-no-wheel",
        "onnxruntime-gpu",
    ),
    ("Link Width Max 16x Current 1x, RTX 3090 under load", "pcie-link-degraded", "1 of 16"),
    (
        "torch 2.4 is installed\npip install flash-attn\nModuleNotFoundError: No module named 'torch'",
        "build-isolation-hides-torch",
        "no-build-isolation",
    ),
    (
        "| NVIDIA-SMI 535.154.05   Driver Version: 535.154.05   CUDA Version: N/A      |",
        "libcuda-missing",
        "libcuda",
    ),
    ("It shows that the NVIDIA driver is out of date.", "driver-too-old-for-cuda-build", "driver"),
)
WELL = (
    "Our CI runner has no GPU.\nRuntimeError: Found no NVIDIA driver on your system.",
    "It is a CPU-only server.\nSpecified provider 'CUDAExecutionProvider' is not in available provider names.",
    "Link Width Max 16x Current 4x, an eGPU over Thunderbolt",
    "After resume nvidia-smi works and so does CUDA, RTX 3060",
    "CUDA_VISIBLE_DEVICES=-1 is set on purpose\nCUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    "torch.cuda.is_available() is False as it should be\nCUDA_VISIBLE_DEVICES='' is in the script",
    'The message "could not select device driver with capabilities: [[gpu]]" is explained on our wiki page.',
    'I read in the docs: "GPU has fallen off the bus" is Xid 79. Which of them matter?',
    'The error "CUDA driver version is insufficient" came last month; updating to 550 fixed it.',
    'My colleague\'s laptop has "Torch not compiled with CUDA enabled"; mine works, RTX 4090, torch 2.3.0+cu121.',
)


@pytest.mark.parametrize(("text", "root", "names"), FAULTS)
def test_a_fault_is_known_by_ordinary_words(text: str, root: str, names: str) -> None:
    found, said = first(text)
    assert found == root
    assert any(name.lower() in said.lower() for name in names.split("|"))


@pytest.mark.parametrize("text", WELL)
def test_what_was_chosen_or_is_anothers_is_not_a_fault(text: str) -> None:
    assert first(text)[0] is None


@pytest.mark.parametrize(
    ("words", "root"),
    [
        ("RTX 4090, and the container has no GPU\nTorch not compiled with CUDA enabled", "cpu-only-build"),
        ("I read the docs. Xid 79: GPU has fallen off the bus", "gpu-fell-off-bus"),
        (
            "The error came an hour ago; rebooting did not help: CUDA_ERROR_SYSTEM_NOT_READY",
            "fabric-manager-not-running",
        ),
    ],
)
def test_a_fault_beside_such_words_stays_one(words: str, root: str) -> None:
    assert first(words)[0] == root


def test_a_word_that_ends_like_a_preposition_hides_no_gpu() -> None:
    gpu = read("the plugin. GPU: L4, driver 550").find("gpu")
    assert gpu is not None
    assert gpu.instances[0].facts["name"] == "L4"
