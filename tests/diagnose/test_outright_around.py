"""What a program's message states outright, judged by what stands around it."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.diagnose.fitting import misfits
from gpustack.diagnose.machine.completing import complete
from tests.imports.reading import MATRIX, read

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
