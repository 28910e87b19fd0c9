"""What a program's message states outright: what is missing, of another version, or unreachable."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.imports.texts import take
from gpustack.model.report import Confidence
from gpustack.model.writing import render
from tests.imports.reading import MATRIX, read

BUILDS = "Collecting flash-attn\n  Getting requirements to build wheel ... error\n"
FAULTS = (
    (BUILDS + "ModuleNotFoundError: No module named 'torch'", "build-isolation-hides-torch", "isolated"),
    (
        "x Failed to build `flash-attn==2.7.4`\nModuleNotFoundError: No module named 'torch'",
        *("build-isolation-hides-torch", "--no-build-isolation"),
    ),
    (
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
        *("cuda-toolkit-missing", "nvcc"),
    ),
    ("MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)", "cuda-toolkit-missing", "PATH"),
    (
        "UserWarning: flash_attn was requested, but nvcc was not found.  Are you sure your environment has nvcc?",
        *("cuda-toolkit-missing", "cuda-toolkit"),
    ),
    (
        "tesla p40: Requested float16 compute type, but the target device or backend do not support efficient float16",
        *("gpu-feature-unsupported", "7.0"),
    ),
    (
        "Transcoding only works after chmod 666 /dev/dri/renderD128",
        *("user-not-in-render-group", "render"),
    ),
    ("my laptop slept, ollama uses only the CPU now", "uvm-stale-after-suspend", "nvidia_uvm"),
    ("node 12 has lost a GPU, nvidia-smi shows three", "gpu-fell-off-bus", "bus"),
    (
        "error: builder for '/nix/store/x-nvidia-open-6.7-545.29.02.drv' failed with exit code 2;",
        *("dkms-build-failed", "6.7"),
    ),
    ("$ python train.py\nModuleNotFoundError: No module named 'torch'", "framework-not-installed", "PyTorch"),
    ("ImportError: No module named tensorflow", "framework-not-installed", "TensorFlow"),
    (
        "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.1 as it may crash.",
        *("numpy-abi-mismatch", "2.0.1"),
    ),
    (
        "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header",
        *("numpy-abi-mismatch", "numpy<2"),
    ),
    (
        "RuntimeError: module compiled against API version 0x10 but this version of numpy is 0xf",
        *("numpy-abi-mismatch", "0x10"),
    ),
    (
        (
            "[E] 6: The engine plan file is not compatible with this version of TensorRT, expecting library version "
            "8.6.1.6 got 8.5.3.1, please rebuild."
        ),
        *("tensorrt-engine-version-mismatch", "8.5.3.1"),
    ),
    (
        "The engine plan file is generated on an incompatible device, expecting compute 8.6 got compute 7.5",
        *("tensorrt-engine-version-mismatch", "7.5"),
    ),
    (
        "misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.7<41234> failed : No route to host",
        *("nccl-network-fault", "No route to host"),
    ),
    (
        "WARN socketPollConnect: connect to 10.0.0.7<4123> returned Connection refused, exceeded error retry count",
        *("nccl-network-fault", "Connection refused"),
    ),
    ("nvidia-uvm: uvm_gpu.c:1402 ECC error encountered, GPU GPU-4b3", "gpu-ecc-error", "ECC"),
    ("msg='[0] CUDA GPU is too old. Compute Capability detected: 3.5'", "arch-not-in-build", "3.5"),
    ("NVRM: GPU 0000:01:00.0 is already bound to nouveau.", "nouveau-loaded", "nouveau"),
    ("NCCL WARN Bootstrap : no socket interface found", "nccl-network-fault", "interface"),
    (
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.7<51022> with status=12 opcode=0 len=0 vendor err 129",
        *("nccl-network-fault", "InfiniBand"),
    ),
    (
        " nvidia-driver-535 : Depends: libnvidia-gl-535 (= 535.183.01-0ubuntu1) but it is not going to be installed",
        *("driver-packages-conflict", "nvidia-driver-535"),
    ),
    (
        (
            "dpkg: error processing archive x.deb:\n trying to overwrite '/usr/lib/libnvidia-ml.so.1', which is "
            "also in package libnvidia-compute-535 535.183.01"
        ),
        *("driver-packages-conflict", "libnvidia-compute-535"),
    ),
    (
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        *("host-compiler-missing", "CC"),
    ),
    ("error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory", "host-compiler-missing", "gcc"),
    (
        "Could not find the compiler specified in the environment variable CC:\n  gcc-12.",
        *("host-compiler-missing", "gcc"),
    ),
    ("nvcc fatal   : Cannot find compiler 'cl.exe' in PATH", "host-compiler-missing", "cl.exe"),
    ("main.c:6:10: fatal error: Python.h: No such file or directory", "host-compiler-missing", "python3-dev"),
    ("fatal error C1083: Cannot open include file: 'Python.h'", "host-compiler-missing", "Include"),
    (
        "NVIDIA_DRIVER_CAPABILITIES=utility\nImportError: libcuda.so.1: cannot open shared object file",
        *("container-capabilities-missing", "compute"),
    ),
    (
        "docker exec -it plex nvidia-smi\n| NVIDIA-SMI 460.67   Driver Version: 460.67   CUDA Version: N/A  |",
        *("container-capabilities-missing", "compute"),
    ),
    ("KERNEL_ERROR: invalid device function in cuda_ml_optimiser.cu (error-code 8)", "arch-not-in-build", "function"),
    (
        (
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility\nCannot load libnvidia-encode.so.1\n"
            "The minimum required Nvidia driver for nvenc is 470.57.02 or newer"
        ),
        *("container-capabilities-missing", "video"),
    ),
    (
        "Error: crun: cannot stat `/usr/lib64/libEGL_nvidia.so.565.57.01`: No such file or directory",
        *("cdi-spec-stale", "565.57.01"),
    ),
    ('failed to stat CDI host device "/dev/nvidia-modeset": no such file or directory', "cdi-spec-stale", "modeset"),
)
SOUND = (
    "ModuleNotFoundError: No module named 'torch._custom_ops'",
    "ModuleNotFoundError: No module named 'torchsummary'",
    "NCCL WARN socketProgress: Connection closed by remote peer 10.0.0.7<41234>",
    " firefox : Depends: libfoo (= 2) but it is not going to be installed",
    "trying to overwrite '/usr/bin/foo', which is also in package bar 1.0",
    "NVIDIA_DRIVER_CAPABILITIES=all\nImportError: libcuda.so.1: cannot open shared object file",
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility\nRuntimeError: No CUDA GPUs are available",
    "stat /home/me/data.so: no such file or directory",
    "# nvcc not found\n# NVIDIA RTX A6000 : 4",
    "$ nvcc --version\nbash: nvcc: command not found",
    "torch 2.7.0+rocm6.3\nOSError: CUDA_HOME environment variable is not set.",
    "RTX 4090: Requested float16 compute type, but the target device or backend do not support efficient float16",
    "Installing collected packages: numpy-2.0.1\nSuccessfully installed numpy-2.0.1",
)


@pytest.mark.parametrize(("text", "finding", "says"), FAULTS)
def test_what_a_message_states_is_the_root_and_names_what_it_says(text: str, finding: str, says: str) -> None:
    report = judge(take([("paste.txt", text)], MATRIX)[0], MATRIX)
    assert report.verdict.root_causes[:1] == (finding,)
    assert says in render(next(one for one in report.findings if one.id == finding))


@pytest.mark.parametrize("text", SOUND)
def test_what_is_near_such_a_message_is_none(text: str) -> None:
    report = judge(take([("paste.txt", text)], MATRIX)[0], MATRIX)
    assert not {one.id for one in report.findings} & {finding for _, finding, _ in FAULTS}


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeWarning: numpy.dtype size changed, may indicate binary incompatibility. Expected 96, got 88",
        "numpy.ufunc size changed, may indicate binary incompatibility",
    ],
)
def test_a_warning_of_a_size_that_changed_blames_nothing(text: str) -> None:
    assert judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX).verdict.root_causes == ()


def test_people_who_speak_of_throttling_make_nothing_certain() -> None:
    text = b"my 3080 gets slower after a while, i think it is thermal throttling"
    report = judge(load_texts({"a paste": text}, MATRIX), MATRIX)
    assert all(one.confidence is not Confidence.CERTAIN for one in report.findings)


@pytest.mark.parametrize(
    ("said", "cause", "remedy"),
    [
        ("OSError: [Errno 24] Too many open files", "open-files-low", "LimitNOFILE"),
        ("r600_cp: Failed to load firmware 'radeon/R600_rlc.bin'", "gpu-firmware-missing", "linux-firmware"),
        ("Failed to initialize NVML: Insufficient Permissions", "device-nodes-not-accessible", "group"),
        ("Arch, 6.19: the nvidia module fails to compile for it", "dkms-build-failed", "older|release of the driver"),
        ("RuntimeError: Required aspect fp64 is not supported on the device", "gpu-feature-unsupported", "float32"),
        ("Error checking compiler version for cl: [WinError 2]", "host-compiler-missing", "Visual Studio"),
        ('stdlib.h(141): error: identifier "_Float32" is undefined', "host-compiler-too-new", "older gcc"),
        ("RuntimeError: Numpy is not available", "numpy-abi-mismatch", "NumPy"),
        ("Unknown encoder 'hevc_nvenc'", "cpu-only-build", "NVENC"),
        ("module 'faiss' has no attribute 'StandardGpuResources'", "cpu-only-build", "faiss-cpu"),
        (
            "CUDA error in func set_constants: invalid device symbol, GTX 1080",
            "arch-not-in-build",
            "built for this GPU",
        ),
        ("worker (pid 13) is killed by signal: Bus error.", "container-shm-too-small", "shm-size"),
        ("RuntimeError: Gloo connectFullMesh failed with", "nccl-network-fault", "interface"),
        ("ROCR: unsupported GPU, RX 7600 XT", "rocm-gfx-unsupported", "build"),
        ("gcc: error trying to exec 'cc1plus': execvp: Datei nicht gefunden", "host-compiler-missing", "g++"),
        ("Could not find compatible tinycudann extension for compute capability 86", "arch-not-in-build", "this GPU"),
        ("PUassert: The PTX was compiled with an unsupported toolchain", "ptx-newer-than-driver", "driver"),
        ("Falling back to the CUDA driver; ptxas does not support CC 8.9", "toolkit-too-old-for-arch", "ptxas"),
        ("/usr/bin/ld: no se puede encontrar -lcuda", "libcuda-so-symlink-missing", "link"),
        ("ld: -lcuda kann nicht gefunden werden", "libcuda-so-symlink-missing", "link"),
        ("RTX 4060: it falls back to `torch-2.6.0+cpu`", "cpu-only-build", "build cu124"),
        ("RTX 2060, optixInit()\nOPTIX_ERROR_UNSUPPORTED_ABI_VERSION (7801)", "driver-too-old-for-cuda-build", "OptiX"),
        ("PG-Strom: You are running using the stub version of nvrtc", "stub-on-loader-path", "stubs"),
        ("ModuleNotFoundError: No module named 'fused_layer_norm_cuda'", "cpu-only-build", "apex"),
        ("RuntimeError: nms_impl: implementation for device cuda:0 not found.", "cpu-only-build", "mmcv"),
        (
            "The version ('90000') of the host compiler ('Apple clang') is not supported",
            "host-compiler-too-new",
            "clang",
        ),
        ("WARN: Can't get fan speed, error code 15", "gpu-fell-off-bus", "power|seat|riser"),
        ("Cannot load cudnn shared library. Cannot invoke method cudnnGetVersion.", "cudnn-missing", "cuDNN"),
        ("NVRM: installed in this system is not supported by open", "open-module-unsupported-gpu", "proprietary"),
        ("GPU 0: got incorrect temperature 511, ignore", "gpu-sensor-error", "reset"),
        ("all_reduce_perf hangs on 8 RTX 4090. With p2p disabled all is well", "iommu-acs-p2p", "iommu=pt"),
        (
            "Could not dlopen library 'libcudart.so.10.0'; LD_LIBRARY_PATH: /usr/local/cuda-8.0",
            "tf-cannot-dlopen",
            "10.0",
        ),
        ('/usr/bin/nvidia-modprobe: unrecognized option: "-u"', "nvidia-uvm-missing", "nvidia-uvm|modprobe"),
    ],
)
def test_what_a_message_says_outright_is_the_cause(said: str, cause: str, remedy: str) -> None:
    report = judge(read(said), MATRIX)
    assert list(report.verdict.root_causes) == [cause]
    finding = next(one for one in report.findings if one.id == cause)
    assert finding.because
    assert finding.fix
    assert any(word in finding.fix.text for word in remedy.split("|"))
