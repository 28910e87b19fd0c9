"""Texts as people paste them (``pastes.toml``): short, in words, over several lines, and from healthy machines."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.matrix.subjects.codes import FAMILIES, numbers
from gpustack.model.facts import Strength
from gpustack.model.report import Confidence, Health, Severity
from tests.imports.reading import MATRIX, read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpustack.model.report import Report

PASTES: Mapping[str, Sequence[Mapping[str, str]]] = tomllib.loads(
    Path(__file__).with_name("pastes.toml").read_text("utf-8")
)
CODES = [one for family in FAMILIES for one in numbers(MATRIX, family) if one.message]
SICK = {
    "joined": 36,
    "codes": 43,
    "states": 38,
    "lexicon": 20,
}  # how many of each kind must at least yield their finding first


@cache
def reports(kind: str) -> tuple[tuple[str, str, Report], ...]:
    """Return text, expected findings and report of each paste of a kind."""
    return tuple((one["text"], one["expect"], judge(read(one["text"]), MATRIX)) for one in PASTES[kind])


@pytest.mark.parametrize("kind", SICK)
def test_what_is_pasted_yields_its_finding(kind: str) -> None:
    right = [text for text, ids, report in reports(kind) if {*report.verdict.root_causes[:1]} & {*ids.split("|")}]
    assert len(right) >= SICK[kind]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("nvmlInit: NVMLError 999", "nvml-unknown"),
        ("nvml error: driver not loaded", "nvml-not-loaded"),
        ("cudaGetDeviceCount -> 803", "cuda-803"),
        ("cuModuleLoadData failed: 222", "ptx-toolchain"),
        ("cuDNN status 1002", "cudnn-sublibrary-mismatch"),
    ],
)
def test_a_bare_error_code_is_read_as_the_message_that_it_means(line: str, kind: str) -> None:
    assert kind in {one.kind for one in read(line).messages}


@pytest.mark.parametrize(
    ("line", "component", "fact", "value"),
    [
        ("CUDA error: no kernel image is available for execution on the device on RTX 5070", "gpu", "name", "RTX 5070"),
        ("CUDA error: no kernel image is available for execution on the device (RTX 5090)", "gpu", "name", "RTX 5090"),
        ("Unable to find code object for all current devices! rx 6600", "amd-gpu", "name", "rx 6600"),
    ],
)
def test_what_follows_an_error_in_its_line_is_read(line: str, component: str, fact: str, value: str) -> None:
    seen = read(line).find(component)
    assert seen is not None
    assert seen.facts[fact] == value


def test_wsl_after_an_error_decides_where_libcuda_should_be() -> None:
    report = judge(read("libcuda.so: cannot open shared object file on WSL2 with Triton 3.1"), MATRIX)
    assert "/usr/lib/wsl/lib" in report.findings[0].title


@pytest.mark.parametrize(
    "line",
    ["CUDA 12", "CUDA version 803", "cudaMalloc(999)", "torch returned 18", "no NVML error 18", "nvml 12 GPUs"],
)
def test_a_number_beside_a_library_is_not_an_error_code(line: str) -> None:
    assert not {one.kind for one in read(line).messages} & {one.message for one in CODES}


@pytest.mark.parametrize("kind", PASTES)
def test_what_only_words_support_is_never_certain(kind: str) -> None:
    for text, _, report in reports(kind):
        for found in report.findings:
            words = found.because and all(one.strength is Strength.STATED for one in found.because)
            assert not (words and found.confidence is Confidence.CERTAIN), (text, found.id)


@pytest.mark.parametrize(
    "sentence",
    [
        "GPU 2 reports uncorrectable ECC errors, count goes up every day.",
        "We forgot to start the fabric manager on the DGX; torch says system not yet initialized.",
        "My card is gone: the GPU has fallen off the bus again.",
        "Nobody installed the kernel headers: linux-headers are missing.",
    ],
)
def test_a_sentence_of_a_person_is_stated_also_where_a_program_has_the_same_words(sentence: str) -> None:
    assert {one.strength for one in read(sentence).messages} == {Strength.STATED}


def test_what_is_over_is_not_a_fault_of_now() -> None:
    assert [text for text, _, report in reports("well") if report.verdict.root_causes][1:] == []


TOO_OLD = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        (f"> {TOO_OLD}\n", "Everything works now."),
        ("The old driver gave CUDA error 35 here. ", "With 570.86.15 it runs."),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", "That was in May with the old card."),
    ],
)
def test_a_fault_that_is_over_counts_no_more(fault: str, end: str) -> None:
    assert judge(read(fault), MATRIX).verdict.root_causes
    assert not judge(read(fault + end), MATRIX).verdict.root_causes


@pytest.mark.parametrize(
    ("text", "former"),
    [
        (f"> {TOO_OLD}\nEverything works now.", "driver-too-old-for-cuda-build"),
        ("Failed to initialize NVML: Driver/library version mismatch\nIt works again.", "driver-library-mismatch"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\nThat was in May.", "gpu-fell-off-bus"),
        ("I got CUDA error 802 last week, and a reboot fixed it.", None),
    ],
)
def test_a_fault_that_is_over_is_named_as_such(text: str, former: str | None) -> None:
    report = judge(read(text), MATRIX)
    assert [one.instance for one in report.findings if one.id == "former-fault"] == [former] * bool(former)
    assert (report.verdict.status, report.verdict.root_causes) == (Health.UNKNOWN, ())


@pytest.mark.parametrize("well", ["It works again since the reboot.", "CUDA works again after a reboot, the log:"])
@pytest.mark.parametrize("shown", ["", "tensor([1.], device='cuda:0')\n"])
def test_a_fault_below_the_word_that_all_is_well_is_one_of_now(well: str, shown: str) -> None:
    lost = f"{well}\n{shown}NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."
    assert judge(read(lost), MATRIX).verdict.root_causes == ("gpu-fell-off-bus",)


def test_a_fault_that_came_back_counts() -> None:
    told = f"> {TOO_OLD}\nIt worked again for a day, but it still says so in the other environment."
    assert judge(read(told), MATRIX).verdict.root_causes


def root(*texts: str) -> tuple[str | None, str]:
    """Return the first root cause of texts of one machine, and its title."""
    report = judge(read(*texts), MATRIX)
    found = next((one for one in report.findings if one.key in report.verdict.root_keys), None)
    return (found.id, found.title) if found else (None, "")


def test_a_server_that_a_command_installs_is_checked_against_a_driver_in_prose() -> None:
    """The release's requirements come from the matrix, not from the text."""
    found = root("$ pip install vllm==0.7.3", "The node still runs driver 510.85.02, one A40.")
    assert found[0] == "driver-too-old-for-cuda-build"
    assert "2.5.1" in found[1]
    assert "12.4" in found[1]
    assert root("$ pip install vllm==0.7.3", "The node runs driver 550.54.15, one A40.") == (None, "")


@pytest.mark.parametrize("outcome", ["", "\nERROR: No matching distribution found for vllm", "Should I try that?"])
def test_a_command_that_failed_or_is_only_proposed_installs_nothing(outcome: str) -> None:
    found = read(f"$ pip install vllm==0.7.3 {outcome}").find("vllm")
    assert (found is None) == bool(outcome)


def test_a_module_built_for_another_kernel_is_found_from_two_commands() -> None:
    dkms = "nvidia/550.120, 6.8.0-48-generic, x86_64: installed"
    failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    found = root(f"$ uname -r\n6.8.0-49-generic\n$ dkms status\n{dkms}", failed)
    assert found[0] == "module-built-for-other-kernel"
    assert "6.8.0-48-generic" in found[1]
    assert root(f"$ uname -r\n6.8.0-48-generic\n$ dkms status\n{dkms}", failed)[0] == "nvidia-module-not-loaded"
    assert root(f"$ uname -r\n6.8.0-49-generic\n$ dkms status\n{dkms}")[0] is None


def test_a_log_that_shows_the_module_at_work_outweighs_a_failing_nvidia_smi() -> None:
    log = "NVRM: RmInitAdapter failed! (0x62:0x40:2393)\nNVRM: GPU 0000:01:00.0: rm_init_adapter failed"
    failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert root(log, failed)[0] != "nvidia-module-not-loaded"


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The graphics card drops off under load.", "fallen-off-bus"),
        ("My card goes up to 104 C and dies.", "overheat"),
        ("Apparently nobody ever installed the container toolkit here.", "toolkit-missing-said"),
        ("nvidia_uvm was never loaded on this box.", "uvm-missing"),
        ("I never enrolled the MOK key.", "module-key-said"),
        ("We have MIG on but there are no instances.", "mig-no-instance"),
    ],
)
def test_a_thing_and_its_state_are_read_from_words(sentence: str, kind: str) -> None:
    assert (kind, Strength.STATED) in {(one.kind, one.strength) for one in read(sentence).messages}


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The graphics card never drops off under load.", "fallen-off-bus"),
        ("Until last week the card would vanish, it was the riser.", "fallen-off-bus"),
        ("What happens if the GPU disappears?", "fallen-off-bus"),
        ("The container lost its GPU, so the GPU is gone in there.", "fallen-off-bus"),
        ("What limits a card that is at 104 C?", "overheat"),
        ("The junction reaches 104 C, the card is at 80 C.", "overheat"),
        ("The container toolkit is installed and nothing is missing.", "toolkit-missing-said"),
        ("no container of nvidia-docker comes up", "toolkit-missing-said"),
        ("nvidia_uvm is loaded.", "uvm-missing"),
        ("Mali: Mali device driver loaded", "nvml-not-loaded"),
        ("The MOK key is enrolled.", "module-key-said"),
    ],
)
def test_what_is_denied_supposed_or_past_is_not_a_state(sentence: str, kind: str) -> None:
    assert kind not in {one.kind for one in read(sentence).messages}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "more GPU memory than is free",
        ),
        ("ResourceExhaustedError: OOM when allocating tensor with shape[256,3,1024]", "more GPU memory than is free"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x10)", "shapes do not fit"),
        ("RuntimeError: CUDA error: device-side assert triggered", "failed an assertion"),
        ("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", "devices"),
    ],
)
def test_an_error_of_the_users_own_program_is_named_and_no_fault_of_the_stack(line: str, what: str) -> None:
    report = judge(read(line), MATRIX)
    assert not report.verdict.root_causes
    (found,) = (one for one in report.findings if one.id == "application-fault")
    assert what in found.title
    assert found.severity is Severity.INFO


INTEL = "01:00.0 VGA compatible controller [0300]: Intel Corporation DG2 [Arc A770] [8086:56a0] (rev 08)"
BLACKWELL = (
    "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GB202 [GeForce RTX 5090] [10de:2b85] (rev a1)\n"
    "$ nvidia-smi\nNo devices were found"
)
NVCC = "Cuda compilation tools, release 11.8, V11.8.89"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Name:    gfx1010", ">>> torch.cuda.get_arch_list()\n['gfx900', 'gfx1030']"), "rocm-gfx-unsupported"),
        (("Name:    gfx1030", ">>> torch.cuda.get_arch_list()\n['gfx900', 'gfx1030']"), None),
        ((INTEL, "torch==2.9.0+cu130", ">>> torch.xpu.is_available()\nFalse"), "cpu-only-build"),
        ((BLACKWELL, "$ modinfo nvidia | grep license\nlicense:        NVIDIA"), "closed-module-unsupported-gpu"),
        ((BLACKWELL, "$ modinfo nvidia | grep license\nlicense:        Dual MIT/GPL"), "gpu-not-listed"),
        (
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
                "libnvidia-ml.so.1 -> libnvidia-ml.so.550.120",
            ),
            "driver-library-mismatch",
        ),
        ((NVCC, "torch==2.4.1+cu121", "The detected CUDA version mismatches"), "nvcc-torch-mismatch"),
    ],
)
def test_facts_of_different_texts_are_joined(texts: tuple[str, ...], expected: str | None) -> None:
    assert root(*texts)[0] == expected
