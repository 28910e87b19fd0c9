"""Files together, in any order, damaged, in other encodings, quoted and coloured: the facts stay the same."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.imports import load
from gpustack.imports.sifting import sift
from gpustack.render.plain import render
from tests.build import healthy, torch
from tests.imports.reading import MATRIX, component, copies, given, held, kinds, read, version

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

SMI = "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2     |\n"
LIST = "GPU 0: NVIDIA A100-SXM4-40GB\nGPU 1: NVIDIA A100-SXM4-40GB\n"
PIP = "torch==2.5.1+cu124\nnvidia-cudnn-cu12==9.1.0.70\n"
KERNEL_LOG = "[605633.376794] NVRM: Xid (PCI:0000:06:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
ERROR = "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).\n"
ALL = {"nvidia-smi.txt": SMI + LIST, "pip.txt": PIP, "dmesg.txt": KERNEL_LOG, "error.txt": ERROR}


def write(folder: Path, contents: dict[str, str]) -> list[str]:
    for name, content in contents.items():
        (folder / name).write_text(content)
    return [str(folder / name) for name in contents]


def loaded(paths: list[str]) -> Facts:
    with Path("/dev/null").open("rb") as nothing:
        return load(paths, nothing, MATRIX)


def test_files_are_of_one_machine_whatever_their_order(tmp_path: Path) -> None:
    paths = write(tmp_path, ALL)
    first = loaded(paths)
    assert version(first, "nvidia-driver") == "535.183.01"
    assert held(first, "pytorch")["cuda"] == "12.4"
    assert len(copies(first, "gpu")) == 2
    assert {"xid", "torch-driver-too-old"} <= kinds(first)
    for order in itertools.permutations(paths):
        assert loaded(list(order)) == first


def test_a_folder_is_the_files_in_it(tmp_path: Path) -> None:
    paths = write(tmp_path, ALL)
    assert loaded([str(tmp_path)]).components == loaded(paths).components


def test_one_file_with_all_of_it_says_the_same() -> None:
    whole, parts = read("".join(ALL.values())), read(*ALL.values())
    assert {one.id: one.version for one in whole.components} == {one.id: one.version for one in parts.components}
    assert kinds(whole) == kinds(parts)


def test_a_snapshot_stands_and_texts_add_to_it(tmp_path: Path) -> None:
    snapshot = healthy(torch())
    (tmp_path / "snapshot.json").write_text(render(snapshot))
    facts = loaded([str(tmp_path / "snapshot.json"), *write(tmp_path, {"dmesg.txt": KERNEL_LOG, "smi.txt": SMI})])
    ids = [one.id for one in facts.components]
    assert len(ids) == len(set(ids))
    for one in snapshot.components:
        assert component(facts, one.id) == one
    assert {"xid", "fallen-off-bus"} <= kinds(facts)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"    {line}\n" for line in text.splitlines()),
        lambda text: f"```\n{text}```\n",
        lambda text: "".join(f"\x1b[1;31m{line}\x1b[0m\x1b[K\n" for line in text.splitlines()),
        lambda text: text + text,
        lambda text: text.replace(" ", "\xa0"),
        lambda text: text.replace("NVIDIA", "NVI\0DIA"),
    ],
    ids=["windows", "macintosh", "quoted", "indented", "fenced", "coloured", "twice", "hard-spaces", "nulls"],
)
def test_what_mail_terminals_and_editors_do_to_a_text_does_no_harm(damage: object) -> None:
    assert callable(damage)
    plain, harmed = read("".join(ALL.values())), read(str(damage("".join(ALL.values()))))
    assert {one.id: one.version for one in harmed.components} == {one.id: one.version for one in plain.components}
    assert len(copies(harmed, "gpu")) == 2
    assert kinds(harmed) == kinds(plain)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le-bom", "latin-1"])
def test_encodings(encoding: str) -> None:
    text = f"Größe: 3\n{SMI}{LIST}"
    data = b"\xff\xfe" + text.encode("utf-16-le") if encoding == "utf-16-le-bom" else text.encode(encoding)
    assert len(copies(given(data), "gpu")) == 2


def test_bytes_that_are_no_text_harm_only_their_line() -> None:
    facts = given(b"\x00\xff\xfe\x80\n" + SMI.encode() + b"\xc3\x28\n" + LIST.encode() + bytes(range(256)))
    assert version(facts, "nvidia-driver") == "535.183.01"
    assert len(copies(facts, "gpu")) == 2


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_of_a_text_that_is_cut_the_rest_is_read(share: float) -> None:
    text = SMI + LIST + PIP + KERNEL_LOG
    facts = read(text[: int(len(text) * share)])
    assert version(facts, "nvidia-driver") == "535.183.01"


def test_the_loggers_lines_before_a_message_do_not_hide_it() -> None:
    xid = "NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus."
    for before in (
        "",
        "[605633.376794] ",
        "[Tue Apr 15 16:50:03 2025] ",
        "Nov 21 10:02:33 rack9 kernel: ",
        "Nov 21 10:02:33 rack9 kernel: [605633.376794] ",
        "2025-04-15T16:50:03.123456+00:00 rack9 kernel: ",
        "<3>[  12.5] ",
        "> ",
    ):
        facts = read(before + xid)
        xids = held(facts, "kernel-log")["xids"]
        assert isinstance(xids, tuple)
        assert [one["code"] for one in xids if isinstance(one, dict)] == [79], before


def test_a_large_log_is_read_for_what_matters_and_says_so() -> None:
    noise = "".join(
        f"Nov 21 10:02:33 host app[{n}]: step {n} loss 0.{n} at /data/run/{n % 97}\n" for n in range(120_000)
    )
    middle = len(noise) // 2
    text = SMI + noise[:middle] + "\n" + KERNEL_LOG + noise[middle:] + LIST
    assert len(text) > 5_000_000
    facts = given(text.encode())
    assert version(facts, "nvidia-driver") == "535.183.01"
    assert "xid" in kinds(facts)
    assert len(copies(facts, "gpu")) == 2
    assert [one.what for one in facts.not_seen] == ["standard input"]
    assert "it is large" in facts.not_seen[0].why


def test_sifting_keeps_the_ends_and_cuts_what_is_endless() -> None:
    head, tail = b"first line\n", b"\nlast line"
    kept, less = sift(head + b"a" * 9_000_000 + tail)
    assert less
    assert kept.startswith(head)
    assert kept.rstrip().endswith(b"last line")
    assert len(kept) < 100_000


def test_sifting_leaves_what_differs_and_thins_what_repeats() -> None:
    different = b"\n".join(bytes([97 + n % 26, 97 + n // 26 % 26, 97 + n // 676 % 26]) for n in range(17_576))
    assert sift(different)[0].strip() == different
    same = b"\n".join(b"step %d" % n for n in range(200_000))
    thin, less = sift(same)
    assert less
    assert thin.startswith(b"step 0\nstep 1\n")
    assert thin.rstrip().endswith(b"step 199999")
    assert len(thin) < 10_000
