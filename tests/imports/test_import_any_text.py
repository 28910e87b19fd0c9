"""Whatever a text contains, reading it ends soon, raises nothing but a refusal, and yields facts that others accept."""

from __future__ import annotations

import io
import json
import time
from functools import cache
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack import assets
from gpustack.errors import InputError
from gpustack.imports import load
from gpustack.imports.gathered import Gathered
from gpustack.imports.texts import LAYOUTS, READERS
from gpustack.model.facts import Facts, Host
from gpustack.model.writing import render
from gpustack.redaction import redact
from tests.imports.reading import MATRIX
from tests.patience import idle, in_time
from tests.wide import WIDE, sample, wide
from tools import cases

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = in_time

SECONDS = 20.0  # far more than any text of these sizes takes; unbounded growth takes minutes
# Pieces that our expressions begin with: texts joined from them come close to matching.
PIECES = (
    *(
        "NVIDIA-SMI ",
        "Driver Version: 5",
        "CUDA Version: ",
        "| 0  ",
        "|",
        "GPU 0: ",
        "(UUID: GPU-",
        "MIG 1g.5gb Device 0: ",
    ),
    *("GPU 1: X\n Link 0: ", "2.5 GB/s\n", "<inactive>\n", " Link 1: CRC Errors: 3\n", "CA 'mlx5_0'\n", "Port 1:\n"),
    *("State: Down\n", "phys state: 5: LinkUp\n", "hca_id: mlx5_1\n", "Rate: 400\n", "fw_ver: 28.39\n"),
    *("torch==", "Name: x\nVersion: 1", "Package Version\n------- ---", "[conda] ", "ii  nvidia-", "cuda ", "driver "),
    *(
        "Xid (PCI:0000:",
        "NVRM: ",
        "[ 12.5] ",
        "Nov 21 10:02:33 h kernel: ",
        "PyTorch version: ",
        "OS: ",
        ": ",
        "GPU[0] : ",
    ),
    *(
        "gfx90a",
        "Agent 1\n",
        "01:00.0 VGA compatible controller: NVIDIA ",
        "nvidia/5: ",
        "LD_LIBRARY_PATH=",
        "version",
        "\n",
    ),
    *(
        "undefined symbol: ",
        "libcuda.so.1: cannot open shared object file",
        "\t",
        "    ",
        "-",
        "=" * 30,
        "1.2.3",
        "é",
        "\x1b[",
    ),
    *(
        "=====NVSMI LOG=====\n",
        "GPU 00000000:01:00.0\n",
        "sys.platform",
        "PyTorch built with:\n",
        "* CUDA:\n",
        '"gpu": 0,',
    ),
    *(
        "uname_result(system='Linux', ",
        "filename:  /lib/modules/x/nvidia.ko\n",
        "BOOT_IMAGE=",
        "index, name, driver_version\n",
    ),
    *(
        "[level_zero:gpu] Intel",
        "# Name Version Build\n",
        "Successfully installed ",
        "### Python version\n\n",
        "Device 0: ",
    ),
    *(
        "$ lsmod | grep nvidia\n",
        "$ uname -r\n6.",
        "| MIG devices: |\n",
        "Device Type: GPU\n",
        "cuDNN version: ",
        "9" * 5000,
    ),
    *(
        "RTX 40",
        "3x ",
        "A100",
        " is",
        "CUDA error: ",
        "GLIBC_2.3",
        "`",
        "'",
        '"',
        "{",
        "}",
        "[",
        "(",
        ")",
        "\\",
        "\r",
        "\0",
    ),
)


@cache
def texts() -> tuple[str, ...]:
    """Return the inputs of the recorded cases."""
    return tuple(text for case in cases.every() for text in case.inputs.values())


@cache
def validator() -> jsonschema.Draft202012Validator:
    """Return the validator of facts for the shipped schema."""
    return jsonschema.Draft202012Validator(json.loads((assets.SCHEMAS / "snapshot.json").read_text()))


def read(data: bytes) -> tuple[Facts, str]:
    """Return the facts, or none and the one line of the refusal."""
    try:
        return load(["-"], io.BytesIO(data), MATRIX), ""
    except InputError as error:
        return Facts(taken="", host=Host()), str(error)


def sound(data: bytes) -> None:
    """Read, and check that the facts are what other modules expect."""
    began = time.monotonic()
    facts, refused = read(data)
    assert time.monotonic() - began < idle(SECONDS)
    assert "\n" not in refused
    validator().validate(json.loads(render(facts)))
    clean = redact(facts)
    assert redact(clean) == clean


@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    sound(data)


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=60).map("".join))
def test_texts_that_come_near_to_what_we_know(text: str) -> None:
    sound(text.encode("utf-8", "replace"))


@given(st.data())
def test_real_inputs_that_are_cut_shuffled_and_damaged(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(texts())) + data.draw(st.sampled_from(texts()))
    lines = text.splitlines(keepends=True)
    if data.draw(st.booleans()):
        lines = data.draw(st.permutations(lines))
    if data.draw(st.booleans()):
        lines = [line for line in lines for _ in range(data.draw(st.integers(0, 3)))]
    text = "".join(lines)
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, max(0, len(text) - 1)))
        text = (
            text[:at]
            + data.draw(st.sampled_from(["", " ", "9", "\n", "x" * 50]))
            + text[at + data.draw(st.integers(0, 9)) :]
        )
    sound(text.encode())


@wide
@pytest.mark.parametrize("piece", sample(PIECES, 6))
def test_the_same_piece_over_and_over_takes_no_longer(piece: str) -> None:
    """In CI one piece in six."""
    sound((piece * (100_000 // len(piece))).encode())


@pytest.mark.parametrize("reader", [*READERS, *LAYOUTS], ids=lambda reader: str(reader.__module__.rpartition(".")[2]))
@given(text=st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_each_reader_alone(reader: Callable[[str, str, Gathered], None], text: str) -> None:
    into = Gathered()
    reader("text", text, into)
    render(into.facts())


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [' + "1, " * 400_000 + "1]}",
        '{"a": ' + "[" * 100_000,
        "[" * 100_000,
        '{"a": ' * 50_000,
        "{" + "1" * 200_000 + "}",
    ],
)
def test_endless_brackets_and_numbers_are_refused_or_read(text: str) -> None:
    sound(text.encode())


LINES = ("a", " ", "\n", "NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.\n", "GPU ", "\x1b[31m")


@wide
@pytest.mark.slow
@pytest.mark.parametrize("piece", LINES if WIDE else LINES[::3])
def test_fifty_megabytes_are_read_in_seconds(piece: str) -> None:
    """Of two pieces in CI, of all with ``GPUSTACK_WIDE=1``."""
    sound((piece * (49_000_000 // len(piece)) + "x").encode())
