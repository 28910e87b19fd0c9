"""What a program's message states outright: what is missing, of another version, or unreachable."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.diagnose.fitting import misfits
from gpustack.diagnose.machine.completing import complete
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


OLD = "CUDA driver version is insufficient for CUDA runtime version"


@pytest.mark.parametrize(
    ("driver", "cause"),
    [
        (", driver 565.77", "container-no-gpus-flag"),
        ("", "container-no-gpus-flag"),
        (", driver 470.82", "driver-too-old-for-cuda-build"),
    ],
)
def test_in_a_container_a_driver_that_runs_every_cuda_12_is_not_too_old_but_absent(driver: str, cause: str) -> None:
    assert judge(read(f"faster-whisper in a docker container: {OLD}{driver}"), MATRIX).verdict.root_causes == (cause,)


@pytest.mark.parametrize(("cuda", "causes"), [("cu131", ()), ("cu130", ("python-version-no-wheel",))])
def test_an_index_that_never_had_a_build_says_nothing_of_the_python(cuda: str, causes: tuple[str, ...]) -> None:
    said = (
        f"pip install torch==2.10.0 --index-url https://download.pytorch.org/whl/{cuda}\n"
        "ERROR: Could not find a version that satisfies the requirement torch==2.10.0 (from versions: none)"
    )
    assert judge(read(said), MATRIX).verdict.root_causes == causes


WARNS = "Tesla T4 with CUDA capability sm_75 is not compatible with the current PyTorch installation.\n"
HAS = "The current PyTorch install supports CUDA capabilities sm_35 {} compute_70."


def test_a_build_whose_code_runs_on_the_gpu_is_not_blamed_for_its_warning() -> None:
    blamed = {code: judge(read(WARNS + HAS.format(code)), MATRIX).verdict.root_causes for code in ("sm_70", "sm_61")}
    assert blamed == {"sm_70": (), "sm_61": ("arch-not-in-build",)}


@pytest.mark.parametrize(
    ("gpu", "causes"),
    [("Vega 10 XT [Radeon RX Vega 64]", ()), ("GeForce GTX 770", ("arch-not-in-build",))],
)
def test_pytorch_for_rocm_calling_a_radeon_too_old_blames_nothing(gpu: str, causes: tuple[str, ...]) -> None:
    said = (
        f"Found GPU0 {gpu} which is of cuda capability 3.0.\nPyTorch no longer supports this GPU because it is too old."
    )
    assert judge(read(said), MATRIX).verdict.root_causes == causes


def test_firmware_that_a_gpu_starts_without_is_no_fault() -> None:
    line = "amdgpu 0000:19:00.0: Direct firmware load for amdgpu/vega20_{}.bin failed with error -2"
    assert judge(read(line.format("rlc")), MATRIX).verdict.root_causes == ("gpu-firmware-missing",)
    assert not judge(read(line.format("ta")), MATRIX).verdict.root_causes


@pytest.mark.parametrize(
    ("said", "causes"),
    [
        ("Device #0 HotSpot temp: {} C\nDevice #0 is running too hot", ((68, ()), (92, ("gpu-overheat",)))),
        ("GPU {} C\nit gets too hot and throttles", ((66, ("gpu-overheat",)),)),
    ],
)
def test_a_program_that_calls_a_mild_gpu_too_hot_blames_nothing(
    said: str, causes: tuple[tuple[int, tuple[str, ...]], ...]
) -> None:
    for celsius, cause in causes:
        assert judge(read(said.format(celsius)), MATRIX).verdict.root_causes == cause


def test_the_name_of_a_program_is_no_heat() -> None:
    said = 'GTX 980 at P8 and 22 W. gpu-hot says "throttle status: performance"'
    assert judge(read(said), MATRIX).verdict.root_causes == ()


def test_open_files_that_run_out_at_a_limit_set_by_hand_are_no_low_limit() -> None:
    said = "Failed accept4: Too many open files"
    assert judge(read(said), MATRIX).verdict.root_causes == ("open-files-low",)
    assert judge(read(f"docker run --ulimit nofile=65535:65535 x\n{said}"), MATRIX).verdict.root_causes == ()


def test_a_symbol_of_torch_itself_only_says_that_torch_is_to_be_imported_first() -> None:
    said = "ImportError: lltm_cpp.cpython-36m-x86_64-linux-gnu.so: undefined symbol: {}"
    first = judge(read(said.format("THPVariableClass")), MATRIX).verdict.root_causes
    other = judge(read(said.format("THPVariable_Wrap")), MATRIX).verdict.root_causes
    assert (first, other) == ((), ("extension-abi-mismatch",))


def test_a_cuda_version_above_the_drivers_own_shows_a_compat_library() -> None:
    smi = "| NVIDIA-SMI 460.91.03    Driver Version: 460.91.03    CUDA Version: {}     |"
    row = "|   0  GeForce GTX 1650    Off  | 00000000:01:00.0 Off |                  N/A |"
    other, own = (misfits(complete(read(f"{smi.format(one)}\n{row}"), MATRIX), MATRIX) for one in ("11.3", "11.2"))
    assert set(other) == {"forward-compat-804"}
    assert not own


def test_a_gpu_that_julias_cuda_dropped_is_named_as_dropped() -> None:
    said = "Your Tesla V100-SXM2-32GB GPU (compute capability 7.0) is not supported on CUDA 13+."
    assert judge(read(said), MATRIX).candidates[0].id == "arch-dropped-by-toolkit"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "package cudatoolkit has constraint __cuda >=11.0 conflicting with __cuda-10.2-0",
            "driver-too-old-for-cuda-build",
        ),
        ("dpkg: error processing package nvidia-dkms-555 (--configure)", "dkms-build-failed"),
        ('nvc++ on an ARM node: identifier "__float128" is undefined', "host-compiler-too-new"),
        ("torchaudio -> undefined symbol. 2.1.2 and 2.1.1 both; 2.1.0 works fine.", "torch-torchvision-mismatch"),
    ],
)
def test_what_a_message_mostly_means_is_the_likeliest_cause_and_no_more(said: str, cause: str) -> None:
    report = judge(read(said), MATRIX)
    assert report.candidates[0].id == cause
    assert not report.verdict.root_causes
    assert report.verdict.status.value == "unknown"


NO_DRIVER = 'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]'


@pytest.mark.parametrize(
    ("machine", "causes"),
    [("Macbook Pro 2019, Radeon Pro 5300M", ()), ("Apple silicon Mac", ()), ("ubuntu", ("container-toolkit-missing",))],
)
def test_a_mac_lacks_no_container_toolkit(machine: str, causes: tuple[str, ...]) -> None:
    assert judge(read(f"{machine}, docker compose up\n{NO_DRIVER}"), MATRIX).verdict.root_causes == causes


@pytest.mark.parametrize(("how", "causes"), [("--use-directml", ()), ("--use-rocm", ("cpu-only-build",))])
def test_directml_runs_beside_the_pytorch_for_the_cpu(how: str, causes: tuple[str, ...]) -> None:
    said = f"RX 6800, {how} is slow\ntorch 2.3.1+cpu, Windows 10\nTypeError: 'Pipeline' object is not callable"
    assert judge(read(said), MATRIX).verdict.root_causes == causes


def test_a_symbol_that_torchaudios_own_library_lacks_is_a_torchaudio_of_another_torch() -> None:
    said = "ImportError: .../torchaudio-0.2-py3.6-linux-x86_64.egg/_torch_sox.cpython-36m-x86_64-linux-gnu.so: {}"
    symbol = "undefined symbol: _ZN3c1019UndefinedTensorImpl10_singletonE"
    assert judge(read(said.format(symbol)), MATRIX).verdict.root_causes == ("torch-torchvision-mismatch",)


@pytest.mark.parametrize(
    ("cupy", "cause"), [("cupy-cuda11x", "cuda-major-mixed"), ("cupy-cuda12x", "cuda-runtime-missing")]
)
def test_a_library_of_another_major_than_cupys_own_is_mixed_and_one_of_its_own_is_missing(
    cupy: str, cause: str
) -> None:
    said = f"{cupy}==12.0.0\nImportError: libnvJitLink.so.12: cannot open shared object file: No such file or directory"
    assert judge(read(said), MATRIX).verdict.root_causes == (cause,)


def test_full_throttle_is_no_heat() -> None:
    assert not judge(
        read("60 hours an epoch on my 2060s? GPU is full throttle, temp is only 52"), MATRIX
    ).verdict.root_causes


def test_two_servers_that_are_compared_require_nothing_of_each_others_pytorch() -> None:
    said = "vllm0.8.2   272.919 tokens/s\nsglang0.4.4.post4   530.181 tokens/s\nIs sglang faster on this A100?"
    assert not judge(read(said), MATRIX).verdict.root_causes


FAILS = "cu->cuInit(0) failed -> CUDA_ERROR_UNKNOWN: unknown error"


@pytest.mark.parametrize(
    ("machine", "cause"),
    [
        (
            "Quadro P4000, Proxmox, jellyfin in an LXC container, nvidia-smi in the container works",
            "nvidia-uvm-missing",
        ),
        (
            "Quadro P4000, jellyfin in a docker container, since the machine woke from suspend",
            "uvm-stale-after-suspend",
        ),
        ("Quadro P4000, jellyfin, nvidia-smi works", "uvm-stale-after-suspend"),
    ],
)
def test_in_a_container_that_did_not_sleep_an_unknown_error_is_a_missing_node(machine: str, cause: str) -> None:
    assert judge(read(f"{machine}\n{FAILS}"), MATRIX).verdict.root_causes == (cause,)


@pytest.mark.parametrize(
    ("where", "causes"),
    [
        ("habitat-sim in docker, nvidia-smi works", ("container-capabilities-missing",)),
        ("docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=all habitat", ()),
        ("habitat-sim on my desktop", ()),
        ("habitat-sim in docker, rocminfo lists gfx1100, Radeon RX 7900 XTX", ()),
    ],
)
def test_a_container_without_a_library_to_draw_with_lacks_the_capability(where: str, causes: tuple[str, ...]) -> None:
    said = "WindowlessEglApplication::tryCreateContext(): unable to find EGL device for CUDA device 0"
    assert judge(read(f"{where}\n{said}"), MATRIX).verdict.root_causes == causes


def test_tensorflow_without_the_library_to_profile_with_uses_the_gpu_all_the_same() -> None:
    said = "Could not load dynamic library 'lib{}.so.11.2'; dlerror: cannot open shared object file"
    blamed = {name: judge(read(said.format(name)), MATRIX).verdict.root_causes for name in ("cupti", "cublas")}
    assert blamed == {"cupti": (), "cublas": ("tf-cannot-dlopen",)}


def test_zeros_that_arrive_on_the_second_gpu_show_no_gpu_at_work() -> None:
    zeros = "tensor([[[0., 0., 0.,  ..., 0., 0., 0.],\n         [0., 0., 0.,  ..., 0., 0., 0.]]], device='cuda:1')"
    report = judge(read(f"Moving hidden states from cuda:0 to cuda:1\n{zeros}"), MATRIX)
    assert (report.verdict.status.value, report.candidates[0].id) == ("unknown", "iommu-acs-p2p")


def test_a_monitor_that_looks_for_every_makers_gpus_says_nothing_of_those_that_are_not_here() -> None:
    said = "btop 1.4.0, two Radeons\n(18:31:28) | DEBUG: Failed to initialize NVML, {}: Driver Not Loaded"
    blamed = {
        words: judge(read(said.format(words)), MATRIX).verdict.root_causes
        for words in ("NVIDIA GPUs will not be detected", "error 9")
    }
    assert blamed == {"NVIDIA GPUs will not be detected": (), "error 9": ("nvidia-module-not-loaded",)}
