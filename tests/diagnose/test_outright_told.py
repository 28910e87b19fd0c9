"""What a program's message means together with what people tell of the machine in the same text."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.diagnose.fitting import misfits
from tests.imports.reading import MATRIX, read


def causes(said: str) -> tuple[str, ...]:
    return judge(read(said), MATRIX).verdict.root_causes


@pytest.mark.parametrize("gpu", ["My 50-series card", "an RTX 50xx", "\u6211\u768450\u7cfb\u663e\u5361"])
def test_a_gpu_named_by_its_series_is_known_by_its_architecture(gpu: str) -> None:
    said = "{}: CUDA error: no kernel image is available for execution on the device, torch 2.5.1+cu121"
    one = judge(read(said.format(gpu)), MATRIX)
    assert one.verdict.root_causes == ("arch-not-in-build",)
    assert "sm_120" in repr(one.findings[0])


@pytest.mark.parametrize(
    ("package", "ours", "blamed"),
    [("torch_sparse", "11.8", ("cuda-major-mismatch-wheel",)), ("torch_sparse", "12.4", ())],
)
def test_kernels_of_another_major_of_cuda_are_blamed(package: str, ours: str, blamed: tuple[str, ...]) -> None:
    said = f"Detected that PyTorch and {package} were compiled with different CUDA versions. PyTorch has CUDA version "
    assert causes(f"{said}12.1 and {package} has CUDA version {ours}.") == blamed


@pytest.mark.parametrize(
    ("file", "cause"),
    [
        ("apex/libtorch_wrapper.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE", "extension-abi-mismatch"),
        (
            "addons/_ops.so: undefined symbol: _ZN10tensorflow8OpKernel11TraceStringEPNS_15OpKernelContextEb",
            "extension-abi-mismatch",
        ),
    ],
)
def test_an_extension_that_misses_what_its_framework_offered_was_built_for_another(file: str, cause: str) -> None:
    assert causes(f"ImportError: /venv/lib/python3.10/site-packages/{file}") == (cause,)


@pytest.mark.parametrize(
    "said",
    [
        "from torchaudio import _extension\nOSError: [WinError 127] The specified procedure could not be found",
        "OSError: /venv/lib/python3.10/site-packages/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZN2at4_ops1E",
    ],
)
def test_a_torchaudio_that_cannot_load_goes_with_another_torch(said: str) -> None:
    assert causes(f"import torchaudio\n{said}") == ("torch-torchvision-mismatch",)


def test_a_program_that_loads_torch_and_misses_the_runtime_is_of_another_cuda() -> None:
    said = "{}\nImportError: libcudart.so.12: cannot open shared object file: No such file or directory"
    assert "cuda-major-mismatch-wheel" in causes(said.format("vllm 0.4.2, torch 2.3.0+cu118"))
    assert causes(said.format("$ ls /usr/lib64/libcudart*\n/usr/lib64/libcudart.so.11.0")) == ("cuda-major-mixed",)


@pytest.mark.parametrize(
    ("gpu", "blamed"), [("RTX 3090", ("arch-not-in-build",)), ("GTX 1080", ()), ("a rented one", ())]
)
def test_a_cublas_that_fails_is_older_than_the_gpu_where_tensorflow_is(gpu: str, blamed: tuple[str, ...]) -> None:
    said = f"{gpu}, tensorflow-gpu 1.15.0: failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED"
    assert causes(said) == blamed


@pytest.mark.parametrize(
    ("where", "blamed"),
    [
        ("In a docker container", ("container-shm-too-small",)),
        ("In a docker container, run with --shm-size=64g", ()),
    ],
)
def test_a_bus_error_in_a_container_is_its_shared_memory_unless_there_is_plenty(
    where: str, blamed: tuple[str, ...]
) -> None:
    assert causes(f"The training dies with: Bus error (core dumped). {where}") == blamed


def test_ray_says_how_small_the_shared_memory_is() -> None:
    said = "The object store is using /tmp instead of /dev/shm because /dev/shm has only 67108864 bytes available."
    assert causes(f"WARNING: {said}") == ("container-shm-too-small",)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("I forgot --gpus all. In it torch.cuda.is_available() is False", "container-no-gpus-flag"),
        (
            (
                "$ docker run --rm jellyfin\nCannot load libnvidia-encode.so.1\n"
                "The minimum required Nvidia driver for nvenc is (unknown) or newer"
            ),
            "container-capabilities-missing",
        ),
        (
            (
                "snap list: docker 27.2.0\nnvidia-container-cli: initialization error: load library failed: "
                "libnvidia-ml.so.1"
            ),
            "docker-snap",
        ),
    ],
)
def test_what_a_container_was_not_given_is_named(said: str, cause: str) -> None:
    assert causes(said) == (cause,)


def test_a_gpu_whose_last_driver_is_too_old_is_not_one_that_a_container_was_not_given() -> None:
    said = "in docker: CUDA driver version is insufficient for CUDA runtime version. {}, CUDA 12.2 image"
    assert causes(said.format("Tesla K40")) == ("driver-too-old-for-cuda-build",)
    assert causes(said.format("Tesla T4")) == ("container-no-gpus-flag",)


def test_the_former_wrapper_of_docker_is_missed_by_nobody_who_asks_with_an_option() -> None:
    said = "nvidia-docker: command not found\n"
    assert causes(said) == ("container-toolkit-missing",)
    assert causes(said + "docker run --gpus all nvidia/cuda:12.2.0-base nvidia-smi prints the table") == ()


@pytest.mark.parametrize(
    ("said", "blamed"),
    [
        ("the machine reboots under GPU load, nothing in journalctl. Power supply is 550 W", ("host-hardware-fault",)),
        ("the machine shuts down at once under load, Xid 79", ("gpu-fell-off-bus",)),
        ("Unable to change power state from D3cold to D0, device inaccessible: the GPU", ("gpu-fell-off-bus",)),
        ("Throttling HW: false", ()),
        ("No network: the GPU server's NIC is gone", ()),
    ],
)
def test_what_went_off_is_told_from_its_traces(said: str, blamed: tuple[str, ...]) -> None:
    assert causes(said) == blamed


def test_an_open_module_is_blamed_where_the_gpu_is_too_old_for_it_and_something_fails() -> None:
    said = "GeForce GTX {}, open kernel module 560.35: the screen stays black, nvidia-smi: No devices were found"
    assert causes(said.format("970")) == ("open-module-unsupported-gpu",)
    assert "open-module-unsupported-gpu" not in causes(said.format("1660"))


def test_what_fails_as_root_too_is_not_put_down_to_a_group() -> None:
    said = "The ROCm build of PyTorch: torch.cuda.is_available() is False as user, {}; rocminfo lists the GPU"
    assert causes(said.format("works with sudo")) == ("user-not-in-render-group",)
    assert causes(said.format("fails with sudo as well")) == ()


def test_a_network_fault_is_told_by_a_failed_call_between_machines() -> None:
    assert causes("NCCL error: unhandled system error. Two nodes, 8 GPUs each") == ("nccl-network-fault",)
    assert causes("NCCL error: unhandled system error. One machine, 8 GPUs") == ()


def test_a_build_for_a_gpu_newer_than_the_compiler_does_not_fit() -> None:
    said = "RTX 5090 with nvcc {}, I am building llama.cpp from source"
    found = {nvcc: list(misfits(read(said.format(nvcc)), MATRIX)) for nvcc in ("12.4", "12.8")}
    assert found == {"12.4": ["toolkit-too-old-for-arch"], "12.8": []}


@pytest.mark.parametrize(
    ("runtimes", "blamed"),
    [
        ("GL.nvidia-550-78", ("driver-library-mismatch",)),
        ("GL.nvidia-550-78 org.freedesktop.Platform.GL.nvidia-550-90-07", ()),
    ],
)
def test_flatpak_needs_the_libraries_of_the_very_driver(runtimes: str, blamed: tuple[str, ...]) -> None:
    said = f"Driver Version: 550.90.07\n$ flatpak list\norg.freedesktop.Platform.{runtimes}\nSteam does not start"
    assert causes(said) == blamed


@pytest.mark.parametrize("target", ["native", "all", "all-major"])
def test_an_nvcc_that_knows_no_native_target_is_too_old(target: str) -> None:
    said = f"nvcc fatal   : Value '{target}' is not defined for option 'gpu-architecture'"
    assert causes(said) == ("toolkit-too-old-for-arch",)


def test_a_row_that_was_marked_for_repair_asks_for_a_reset() -> None:
    said = "NVRM: Xid (PCI:0000:3b:00): 63, Row Remapper: New row marked for remapping, reset gpu to activate."
    one = judge(read(said), MATRIX)
    assert (one.verdict.status.value, [found.id for found in one.findings]) == ("degraded", ["gpu-ecc-error"])
    assert "marked memory for repair" in one.findings[0].title


def test_a_card_and_a_tool_in_one_line_are_no_stuck_process() -> None:
    kinds = {
        said: {one.kind for one in read(said).messages}
        for said in ("Intel UHD 630, compute-runtime 24.52: clinfo", "root 812 0 0 1 5 ? D 10:01 0:00 clinfo")
    }
    assert ["smi-stuck" in one for one in kinds.values()] == [False, True]


@pytest.mark.parametrize(
    ("said", "title", "command"),
    [
        (
            "RTX 3090, tensorflow-gpu 1.15.0: failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED",
            *("TensorFlow 1.15.0 has no code for RTX 3090", "tensorflow[and-cuda]"),
        ),
        (
            (
                "torch 2.1.0+cu121\nDetected that PyTorch and torch_sparse were compiled with different CUDA versions. "
                "PyTorch has CUDA version 12.1 and torch_sparse has CUDA version 11.8."
            ),
            *("torch-sparse is built for CUDA 11, but torch 2.1.0+cu121", "torch-2.1.0+cu121.html"),
        ),
        (
            "nvcc fatal   : Value 'native' is not defined for option 'gpu-architecture'",
            *("does not know native: CUDA 11.6 or newer does", "cuda-11.6"),
        ),
        (
            "import tensorflow_addons\ntensorflow_addons/_ops.so: undefined symbol: _ZN10tensorflow8OpKernel1E",
            *("built for a different TensorFlow than the one here", "get_compile_flags"),
        ),
    ],
)
def test_the_finding_names_the_program_at_fault_and_a_command_for_it(said: str, title: str, command: str) -> None:
    one = next(found for found in judge(read(said), MATRIX).findings if title in found.title)
    assert one.fix is not None
    assert any(command in part for part in one.fix.commands)


@pytest.mark.parametrize(("limit", "blamed"), [(" --hwmon-temp-abort=30", ()), ("", ("gpu-overheat",))])
def test_a_limit_that_was_set_low_makes_no_gpu_hot(limit: str, blamed: tuple[str, ...]) -> None:
    assert causes(f"./hashcat -a3 -m 0 2c4c{limit} ?a?a?a\nTemperature limit on GPU #1 reached, aborting") == blamed


def test_a_hosted_runner_has_no_gpu_to_be_passed_on() -> None:
    said = "in docker: CUDA driver version is insufficient for CUDA runtime version\n{}"
    assert causes(said.format("on our own runner")) == ("container-no-gpus-flag",)
    assert causes(said.format("GitHub Actions, hosted runner")) == ()
