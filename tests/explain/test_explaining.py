"""What words mean: names in any spelling, numbers, pasted lines, and an honest answer where nothing is known."""

from __future__ import annotations

import json

import jsonschema
import pytest

from gpustack import assets
from gpustack.explain import explain
from gpustack.explain.topics import carried, ids
from gpustack.imports.messages import mentioned
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.terms import systems, terms
from gpustack.model.facts import Layer
from gpustack.model.matrix_answer import Explanation, Kind
from gpustack.model.writing import render
from tests.counting import each

MATRIX = Matrix()


def told(words: str) -> Explanation:
    return explain(words.split(" "), MATRIX)


def first(words: str) -> tuple[str, str]:
    meaning = told(words).meanings[0]
    return meaning.kind.value, meaning.id


@each("name", [*MATRIX.systems, *(layer.value for layer in Layer), *(one.name for one in terms(MATRIX))])
def test_every_system_layer_and_term_is_explained_by_its_name(name: str) -> None:
    meanings = told(name).meanings
    assert name in {one.id for one in meanings}
    assert all(one.title and one.see and one.layer for one in meanings)


@each("finding", ids())
def test_every_finding_is_explained_by_its_id(finding: str) -> None:
    meaning = told(finding).meanings[0]
    assert (meaning.kind, meaning.id) == (Kind.FINDING, finding)
    assert meaning.says
    assert meaning.fix
    assert meaning.see


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("torch", ("system", "pytorch")),
        ("PyTorch", ("system", "pytorch")),
        ("Paged Attention", ("term", "paged attention")),
        ("paged-attention", ("term", "paged attention")),
        ("PagedAttention?", ("term", "paged attention")),
        ("kv_cache", ("term", "KV cache")),
        ("tensor cores", ("term", "tensor core")),
        ("what is a warp", ("term", "warp")),
        ("nvidia_uvm", ("system", "nvidia-uvm.ko")),
        ("libcudart.so.12", ("system", "cuda-runtime")),
        ("nvidia-cublas-cu12", ("system", "cublas")),
        ("torch.compile()", ("system", "torch-compile")),
        ("/dev/nvidiactl", ("term", "device node")),
        ("cu128", ("term", "local version tag")),
        ("arch not in build", ("finding", "arch-not-in-build")),
        ("driver layer", ("layer", "driver")),
        ("sm_90", ("architecture", "sm_90")),
        ("H100", ("architecture", "sm_90")),
        ("Ada Lovelace", ("architecture", "sm_89")),
        ("xid-79", ("code", "xid-79")),
        ("cudnn9-1002", ("code", "cudnn9-1002")),
        ("CUDA error 803", ("code", "cuda-803")),
        ("cuda 803", ("code", "cuda-803")),
        ("0x323", ("code", "cuda-803")),
        ("cudaerrornokernelimagefordevice", ("code", "cuda-209")),
        ("CUDA_ERROR_NO_BINARY_FOR_GPU", ("code", "cuda-209")),
        ("nvml 18", ("code", "nvml-18")),
        ("NVML_ERROR_GPU_IS_LOST", ("code", "nvml-15")),
        ("ncclSystemError", ("code", "nccl-2")),
        ("SW Power Cap", ("code", "nvmlClocksEventReasonSwPowerCap")),
        ("clocks_throttle_reasons.hw_slowdown", ("code", "nvmlClocksEventReasonHwSlowdown")),
        ("clocks_event_reasons.gpu_idle", ("code", "nvmlClocksEventReasonGpuIdle")),
        ("nvmlClocksThrottleReasonSyncBoost", ("code", "nvmlClocksEventReasonSyncBoost")),
    ],
)
def test_a_name_is_known_however_it_is_spelt(words: str, meant: tuple[str, str]) -> None:
    assert first(words) == meant


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("NVRM: Xid (PCI:0000:65:00): 79, pid=1234, GPU has fallen off the bus.", "xid-79"),
        ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid-20034"),
        ("Error 802: system not yet initialized", "cuda-802"),
        ("cudaGetDeviceCount() returned 35", "cuda-35"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "cuda-209"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", "cuda-2"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "cudnn9-1002"),
        ("CUDA driver error (34)", "cuda-34"),
        ("RuntimeError: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)", "cublas-3"),
    ],
)
def test_a_pasted_line_is_explained_by_the_number_in_it(line: str, meant: str) -> None:
    assert told(line).meanings[0].id == meant


def test_a_number_alone_is_reported_in_every_table_that_has_it_and_the_others_are_named() -> None:
    assert {one.id for one in told("119").meanings} == {"xid-119"}
    answer = told("79")
    assert [one.id for one in answer.meanings] == ["xid-79"]
    assert "CUDA error 79" in answer.missing
    assert {one.id for one in told("9").meanings} >= {"cuda-9", "nvml-9"}


def test_a_version_is_not_a_number_of_an_error() -> None:
    assert mentioned("CUDA 12.8 with torch 2.9.0", MATRIX) == ((), ())


def test_an_nvml_error_is_not_taken_for_one_of_cuda() -> None:
    assert "cuda-999" not in {one.id for one in told("Failed to initialize NVML: Unknown Error").meanings}


def test_a_message_without_a_number_is_known_by_the_patterns_of_the_matrix() -> None:
    meaning = told("Failed to initialize NVML: Driver/library version mismatch").meanings[0]
    assert (meaning.kind, meaning.layer) == (Kind.MESSAGE, Layer.DRIVER)
    assert [one.id for one in meaning.findings] == ["driver-library-mismatch"]
    assert meaning.findings[0].says


def test_a_missing_library_is_named_by_its_finding() -> None:
    line = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"
    assert [one.kind for one in told(line).meanings][:1] == [Kind.MESSAGE]
    assert "cudnn-missing" in {one.id for one in told(line).meanings}


def test_a_pasted_line_brings_what_the_doctor_would_say_with_the_commands_that_fix_it() -> None:
    line = "RuntimeError: The NVIDIA driver on your system is too old (found version 12080)"
    finding = next(one for one in told(line).meanings if one.kind is Kind.FINDING)
    assert finding.id == "driver-too-old-for-cuda-build"
    assert "12.8" in finding.title
    assert finding.commands


def test_a_number_says_what_it_leads_to_and_what_to_do() -> None:
    xid = told("xid 79").meanings[0]
    assert "power" in (xid.fix or "")
    assert [one.id for one in xid.findings] == ["gpu-fell-off-bus"]
    assert xid.layer is Layer.HARDWARE
    assert xid.row is not None
    assert told("cudaErrorProfilerDisabled").meanings[0].fix


def test_an_xid_says_what_comes_before_it_and_what_after() -> None:
    says = " ".join(told("xid 45").meanings[0].says)
    assert "It may follow Xid 13 or 31, which then come first" in says
    assert "It may follow Xid 48 or 94 or 95" in says
    assert "Xid 63 or 64 may follow it" in " ".join(told("xid 48").meanings[0].says)
    assert "It may follow other Xids" in " ".join(told("xid 154").meanings[0].says)


def test_a_reason_for_lowered_clocks_says_whether_it_is_a_fault_and_what_it_leads_to() -> None:
    power, brake = told("sw_power_cap").meanings[0], told("HW Power Brake Slowdown").meanings[0]
    assert "not a fault by itself" in power.says[0]
    assert "bit 0x80" in brake.says[0]
    assert [one.id for one in brake.findings] == ["gpu-hw-slowdown"]


def test_a_word_with_several_meanings_has_them_all_the_one_of_that_very_name_first() -> None:
    assert [one.id for one in told("triton").meanings] == ["triton", "triton-inference-server"]
    assert [one.kind for one in told("kernel").meanings] == [Kind.TERM, Kind.LAYER]


def test_what_carries_is_the_inverse_of_what_stands_on() -> None:
    assert {"vllm", "tgi"} <= set(told("paged attention").meanings[0].carries)
    for one in systems(MATRIX):
        assert all(one.id in carried(need, MATRIX) for need in one.stands_on)


def test_a_layer_lists_what_is_in_it_and_knows_its_neighbours() -> None:
    driver = told("driver").meanings[0]
    assert "libcuda" in driver.holds
    assert driver.stands_on == ("kernel-module layer",)
    assert driver.carries == ("runtime layer",)
    assert told("container").meanings[0].carries == ()


def test_two_terms_in_a_phrase_are_both_told_and_the_rest_is_named() -> None:
    answer = told("warp block frobnicate")
    assert [one.id for one in answer.meanings] == ["warp", "block"]
    assert answer.missing == ("frobnicate",)


@pytest.mark.parametrize(
    "words",
    ["", "frobnicate", "xid 9999", "we met by a block of flats near the main event of the day", "NVML_ERROR_9999"],
)
def test_what_is_not_known_is_not_made_up(words: str) -> None:
    assert not told(words).known


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("drivr", "driver"),
        ("flash atention 2", "flash attention"),
        ("cudaErrorIllegalAdress", "cudaErrorIllegalAddress"),
        ("gpu-fel-off-bus", "gpu-fell-off-bus"),
        ("xid 9999", "Xid"),
        ("gpu-mem", "gpu-memory-held"),
    ],
)
def test_a_typing_error_is_answered_with_what_was_perhaps_meant(words: str, near: str) -> None:
    answer = told(words)
    assert not answer.known
    assert near in answer.near


def test_the_beginning_of_a_name_is_enough_where_no_other_begins_so() -> None:
    assert [one.id for one in told("cudnn-shadowed").meanings] == ["cudnn-shadowed-by-ld-library-path"]
    assert [one.id for one in told("arch-not").meanings] == ["arch-not-in-build"]


def test_a_hostile_or_huge_line_is_answered_anyway() -> None:
    for line in ("\x1b[31m(((((((((((" * 200, "error " * 5000, "xid " + "9" * 4000, "((" + "a_" * 20000):
        assert told(line).words


@pytest.mark.parametrize(
    "words", ["79", "pytorch", "kernel", "arch-not-in-build", "sm_90", "frobnicate", "no such file"]
)
def test_the_json_keeps_its_schema(words: str) -> None:
    schema = json.loads((assets.SCHEMAS / "explain.json").read_text("utf-8"))
    written = json.loads(render(told(words)))
    jsonschema.Draft202012Validator(schema).validate(written)
    assert written["schema"] == "gpustack.explain/1"
    assert written["known"] == bool(written["meanings"])


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("RTX 5090", "sm_120"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "sm_86"),
        ("Tesla T4", "sm_75"),
        ("MI300X", "gfx942"),
        ("RX 7900 XTX", "gfx1100"),
    ],
)
def test_a_gpu_is_known_by_its_name(words: str, meant: str) -> None:
    assert first(words) == ("architecture", meant)


def test_the_two_cuda_versions_of_nvidia_smi_and_nvcc_are_told_apart() -> None:
    for words in ("nvidia-smi vs nvcc", "nvcc versus nvidia-smi"):
        meaning = told(words).meanings[0]
        assert "newest CUDA that the driver can run" in meaning.title
        assert "nvcc --version" in meaning.see


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("modpost", "dkms-build-failed"),
        ("Unable to determine the device handle", "gpu-fell-off-bus"),
        ("GLIBC_2.34", "glibc-too-old"),
        ("ptxas fatal", "toolkit-too-old-for-arch"),
    ],
)
def test_a_part_of_an_error_line_leads_to_what_recorded_machines_had(words: str, cause: str) -> None:
    meaning = told(words).meanings[-1]  # before it, the finding of the message of which the words are a part
    assert cause in {one.id for one in meaning.findings}
    assert meaning.see
    assert "Nothing proves which" in meaning.title


@pytest.mark.parametrize(
    ("part", "finding"),
    [
        ("CUDA error: no kernel image is available for execution", "arch-not-in-build"),
        ("torchvision were compiled with different CUDA major versions. PyTorch has", "torch-torchvision-mismatch"),
        ("file is not compatible with this version of TensorRT, expecting library", "tensorrt-engine-version-mismatch"),
        ("in use by your system. This driver is incompatible with the NVIDIA driver", "nouveau-loaded"),
    ],
)
def test_a_part_of_a_line_leads_to_the_finding_of_the_whole(part: str, finding: str) -> None:
    found = explain(part.split(), MATRIX)
    assert finding in {lead.id for one in found.meanings for lead in one.findings}


@pytest.mark.parametrize(
    ("image", "says"), [("pytorch:23.11-py3", "CUDA 12.3"), ("tritonserver:25.10-py3", "CUDA 13.0")]
)
def test_an_image_of_a_month_is_explained_by_its_row(image: str, says: str) -> None:
    (meaning,) = told(f"nvcr.io/nvidia/{image}").meanings
    assert says in meaning.title
    assert meaning.row is not None


def test_an_image_without_a_row_is_not_made_up() -> None:
    assert not any("CUDA" in one.title for one in told("nvcr.io/nvidia/jax:23.11-py3").meanings)
