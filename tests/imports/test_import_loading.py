"""Files together, in any order, damaged, in other encodings, quoted and coloured: the facts stay the same."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.errors import InputError
from gpustack.imports import deadline, load
from gpustack.imports.sifting import sift
from gpustack.model.writing import render
from tests.build import healthy, torch
from tests.exchanging import swapping
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


OUTSIDE = "torch==9.9.9+cu999\n"  # what lies outside the folder, as a file that would be understood


def test_links_lead_to_other_files_of_the_folder_and_never_out_of_it(tmp_path: Path) -> None:
    folder, deep = tmp_path / "given", tmp_path / "given/..2026/deep"
    deep.mkdir(parents=True)
    (tmp_path / "secret").write_text(OUTSIDE)
    (deep / "pip.txt").write_text(PIP)
    (folder / "..data").symlink_to("..2026")  # as Kubernetes lays out a volume
    (folder / "pip.txt").symlink_to("..data/deep/pip.txt")
    (folder / "smi.txt").symlink_to(folder.resolve() / "..2026/smi.txt")
    (folder / "..2026/smi.txt").write_text(SMI)
    outside = {"up": "../secret", "absolute": str(tmp_path / "secret"), "round": "../given/../secret", "folder": ".."}
    for name, said in outside.items():
        (folder / name).symlink_to(said)
    (folder / "chain").symlink_to("up")
    (folder / "gone").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    facts = loaded([str(folder)])
    assert (version(facts, "pytorch"), version(facts, "nvidia-driver")) == ("2.5.1+cu124", "535.183.01")
    why = {Path(one.what).name: one.why for one in facts.not_seen}
    assert {name for name, said in why.items() if "leads out of the folder" in said} == {*outside, "chain"}
    assert why["gone"] == "it cannot be read: No such file or directory"
    assert "pipe" not in why
    (folder / "ring").symlink_to("ring")
    assert any(one.what.endswith("/ring") for one in loaded([str(folder)]).not_seen)
    for name in ("pip.txt", "smi.txt"):
        (folder / name).unlink()
    with pytest.raises(InputError, match="has no readable file"):
        loaded([str(folder)])


def test_a_file_or_folder_swapped_for_a_link_while_it_is_read_leads_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for place in (folder / "pip.txt", folder / "deep/file"):
        place.write_text(PIP)
    (tmp_path / "secret").write_text(OUTSIDE)
    (tmp_path / "out/file").write_text(OUTSIDE)
    (folder / "through").symlink_to("deep/file")
    (tmp_path / "to-secret").symlink_to(tmp_path / "secret")
    (tmp_path / "to-out").symlink_to(tmp_path / "out")
    answers = set()
    with swapping(folder / "pip.txt", tmp_path / "to-secret"), swapping(folder / "deep", tmp_path / "to-out"):
        for _ in range(2000):
            with suppress(InputError):  # all of it was elsewhere
                answers |= {held for _, held in deadline.contents(folder, 1000) if isinstance(held, bytes)}
    assert answers == {PIP.encode()}


def test_the_way_to_a_file_is_what_was_opened(tmp_path: Path) -> None:
    (tmp_path / "given/deep").mkdir(parents=True)
    (tmp_path / "given/deep/file").write_text(PIP)
    (tmp_path / "file").write_text(OUTSIDE)
    handle = os.open(tmp_path / "given", os.O_RDONLY)
    try:
        assert deadline.read(handle, ("deep", "file"), 1000) == PIP.encode()
        (tmp_path / "given").rename(tmp_path / "moved")
        (tmp_path / "given").symlink_to(tmp_path)
        assert deadline.read(handle, ("deep", "file"), 1000) == PIP.encode()
        (tmp_path / "moved/deep").rename(tmp_path / "moved/away")
        (tmp_path / "moved/deep").symlink_to(tmp_path)
        with pytest.raises(NotADirectoryError):
            deadline.read(handle, ("deep", "file"), 1000)
        (tmp_path / "moved/file").symlink_to(tmp_path / "file")
        with pytest.raises(OSError, match="symbolic links"):
            deadline.read(handle, ("file",), 1000)
    finally:
        os.close(handle)


def test_one_file_with_all_of_it_says_the_same() -> None:
    whole, parts = read("".join(ALL.values())), read(*ALL.values())
    assert {one.id: one.version for one in whole.components} == {one.id: one.version for one in parts.components}
    assert kinds(whole) == kinds(parts)


def test_a_snapshot_is_kept_and_texts_add_to_it(tmp_path: Path) -> None:
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


def test_bytes_that_are_not_text_harm_only_their_line() -> None:
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


def test_a_folder_gives_only_what_a_user_would_paste(tmp_path: Path) -> None:
    files = {
        "expected.toml": 'root_cause = "driver-too-old-for-cuda-build"\nfix = "driver 111.22"\n',
        "notes.yaml": "torch==9.9.9+cu999\n",
        "train.py": "# torch==9.9.8\n",
        "smi.txt": SMI,
        "pyproject.toml": '[project]\ndependencies = ["torch==2.6.0"]\n',
    }
    write(tmp_path, files)
    facts = loaded([str(tmp_path)])
    left = {Path(one.what).name for one in facts.not_seen if "neither output" in one.why}
    assert left == {"expected.toml", "notes.yaml", "train.py"}
    assert not any(one.origin.endswith("expected.toml") for one in facts.messages)
    assert not any("expected.toml" in one.source for one in facts.components)
    named = loaded([str(tmp_path / "notes.yaml")])
    assert named.find("pytorch") is not None, "what is named itself is read, whatever it is called"
