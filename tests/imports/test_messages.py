"""Messages in text: found wherever they are, each once, in the order of the text, and cheaply in large ones."""

from __future__ import annotations

import time

import pytest

from gpustack.imports.messages import MOST_OF_A_KIND, clean, find, laid, spoken
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.messages import TABLES, Pattern, patterns
from tests.imports.reading import read

MATRIX = Matrix()
OUTDATED = "Outdated cuDNN installation found.\nVersion JAX was built against: 9100\nMinimum supported: 9100\n"
OUTDATED += "Installed version: {}\n"
XID = "NVRM: Xid (PCI:0000:06:00): {}, pid=1234, name=python, it is said"


def kinds(text: str) -> list[str]:
    return [message.kind for message in find([("text", clean(text))], MATRIX)]


def test_a_message_has_its_line_its_place_and_its_values() -> None:
    found = find([("dmesg", clean("before\n[  12.5] " + XID.format(79) + "\nafter\n"))], MATRIX)
    xid = next(message for message in found if message.kind == "xid")
    assert (xid.origin, xid.values["code"], xid.values["pci"]) == ("dmesg", "79", "PCI:0000:06:00")
    assert xid.line == XID.format(79).removeprefix("NVRM: ")


def test_the_same_message_counts_once_and_others_with_other_values_too() -> None:
    text = "\n".join([XID.format(79), XID.format(79), XID.format(119)])
    codes = [message.values["code"] for message in find([("text", clean(text))], MATRIX) if message.kind == "xid"]
    assert codes == ["79", "119"]


def test_messages_are_in_the_order_of_the_text() -> None:
    one, other = "CUDA error: no kernel image is available for execution on the device", XID.format(79)
    order = [kind for kind in kinds(f"{one}\n{other}\n") if kind in {"no-kernel-image", "xid"}]
    turned = [kind for kind in kinds(f"{other}\n{one}\n") if kind in {"no-kernel-image", "xid"}]
    assert order == ["no-kernel-image", "xid"]
    assert turned == ["xid", "no-kernel-image"]


@pytest.mark.parametrize("place", [0, 100, 5_000, 200_000])
def test_a_message_is_found_however_far_into_the_text(place: int) -> None:
    message = "\nCUDA error: no kernel image is available for execution on the device\n"
    assert "no-kernel-image" in kinds("x" * place + message + "y" * 900)


def test_letters_that_take_several_bytes_do_not_shift_it() -> None:
    text = "é€😀" * 400 + "\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    found = find([("text", clean(text))], MATRIX)
    assert [message.line for message in found if message.kind == "no-kernel-image"] == [text.split("\n")[1]]


def test_of_one_kind_only_so_many_are_kept_and_the_rest_costs_little() -> None:
    text = clean("\n".join(XID.format(n % 150) + f" {n}" for n in range(20_000)))
    began = time.process_time()
    found = [message for message in find([("text", text)], MATRIX) if message.kind == "xid"]
    assert len(found) <= MOST_OF_A_KIND
    assert time.process_time() - began < 20  # the expressions see only the text around a bounded number of places


def test_every_pattern_holds_its_word_in_lower_case_and_compiles() -> None:
    for pattern in patterns(MATRIX):
        assert pattern.has == pattern.has.lower(), pattern.kind
        assert pattern.has.strip(), pattern.kind
        pattern.compiled()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("[  12.345678] NVRM: API mismatch", "API mismatch"),
        ("Nov 21 10:02:33 rack9 kernel: NVRM: API mismatch", "API mismatch"),
        ("kern:     err: plain", "kern:     err: plain"),
        ("> > quoted", "quoted"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("    indented", "indented"),
    ],
)
def test_what_loggers_terminals_and_mails_put_before_a_line_is_taken_away(line: str, wanted: str) -> None:
    assert clean(line) == wanted


def test_indentation_that_a_tool_means_can_be_kept() -> None:
    assert (
        laid("    MIG Mode\r\n        Current : Enabled\n    [ 12.5] NVRM: x")
        == "    MIG Mode\n        Current : Enabled\nx"
    )


def test_lines_of_the_kernels_log_have_no_author() -> None:
    text = "kernel 6.8.0\n[  12.5] NVRM: libos kernel v3.1\nNov 21 10:02:33 rack9 kernel: nvidia: x\ndriver 550.54.14\n"
    assert [line for line in spoken(text).split("\n") if line] == ["kernel 6.8.0", "driver 550.54.14"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("RuntimeError: cudaErrorNoKernelImageForDevice", "no-kernel-image"),
        ("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "cuda-804"),
        ("pynvml.NVMLError_GpuIsLost", "gpu-lost"),
        ("health check: ERROR_LIB_RM_VERSION_MISMATCH", "nvml-mismatch"),
        ("Cuda initialization failure with error 35.", "insufficient-driver"),
        ("cudaGetDeviceCount() ends with error 804.", "cuda-804"),
        ("it answers with system error 802.", "cuda-802"),
    ],
)
def test_a_name_or_a_number_of_the_table_of_errors_needs_no_row_of_its_own(text: str, kind: str) -> None:
    found = {one.kind for one in read(text).messages}
    assert kind in found
    rows = [row for table in TABLES for row in MATRIX.rows(table, "messages", Pattern)]
    assert not any(row.compiled().search(text) for row in rows if row.kind == kind)


@pytest.mark.parametrize(
    "text", ["make: exit code 100 (cuda)", "http status 804", "CUDA 12.4, error 0.35", "MY_CUDA_ERROR_NO_DEVICES"]
)
def test_other_numbers_are_not_errors_of_cuda(text: str) -> None:
    assert {one.kind for one in read(text).messages} & {"no-device", "cuda-804", "insufficient-driver"} == set()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("AssertionError: Invalid CUDA '--device 0' requested, use '--device cpu' or pass", "cuda-available-false"),
        ("ValueError: Invalid CUDA 'device=0,1' requested. Use 'device=cpu' or pass", "cuda-available-false"),
        (OUTDATED.format(8907), "cudnn-outdated-jax"),
        ("socketPollConnect: connect returned No route, exceeded error retry count (9)", "nccl-connect-failed"),
        ("No VA display found for device /dev/dri/renderD128.", "media-no-device"),
        ("No VA display found for device: /dev/dri/renderD128.", "media-no-device"),
        ("Found GPU0 Tesla V100-PCIE-32GB which is of compute capability (CC) 7.0.", "arch-too-old"),
        ("Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.", "arch-too-old"),
    ],
)
def test_what_the_versions_of_a_program_print_is_read_alike(text: str, kind: str) -> None:
    assert kind in kinds(text)
