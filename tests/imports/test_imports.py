"""Input of ``--from`` is recognised by its content, and refused where it cannot be read."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack import imports
from gpustack.errors import InputError
from gpustack.imports import load
from gpustack.matrix import Matrix
from gpustack.model.report import Health
from gpustack.model.writing import render
from tests.build import healthy, report, torch

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

FACTS = healthy(torch())
SNAPSHOT = render(FACTS)
NOTHING = io.BytesIO()
MATRIX = Matrix()


def read(paths: list[str], stdin: io.BytesIO) -> Facts:
    return load(paths, stdin, MATRIX)


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_a_snapshot_is_its_facts(tmp_path: Path) -> None:
    assert read([write(tmp_path / "a.json", SNAPSHOT)], NOTHING) == FACTS


def test_a_dash_is_standard_input() -> None:
    assert read(["-"], io.BytesIO(SNAPSHOT.encode())) == FACTS


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
def test_the_mark_that_windows_puts_in_front_does_no_harm(tmp_path: Path, encoding: str) -> None:
    assert read([write(tmp_path / "a.json", SNAPSHOT.encode(encoding))], NOTHING) == FACTS


def test_a_folder_is_all_the_files_in_it(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "lunch is on Monday")
    write(tmp_path / "empty.txt", "  \n")
    write(tmp_path / "z.json", SNAPSHOT)
    (tmp_path / "more").mkdir()
    facts = read([str(tmp_path)], NOTHING)
    assert facts.components == FACTS.components
    assert [unseen.what for unseen in facts.not_seen] == [str(tmp_path / "notes.txt")]


def test_text_that_nothing_recognises_is_a_whole_report_of_unknown(tmp_path: Path) -> None:
    facts = read([write(tmp_path / "error.txt", "RuntimeError: it does not work\n")], NOTHING)
    assert facts.components == ()
    assert "nothing in it was recognised" in facts.not_seen[0].why
    verdict = report(facts).verdict
    assert verdict.status is Health.UNKNOWN
    assert verdict.root_causes == ()


@pytest.mark.parametrize("content", ['{"schema": "somebody.else/3"}', '{"a": 1}', '[{"name": "torch"}]'])
def test_json_of_others_is_text_like_any_other(tmp_path: Path, content: str) -> None:
    assert read([write(tmp_path / "a.json", content)], NOTHING).components == ()


@pytest.mark.parametrize("before", ['{job="systemd-journal",host="x"}', "{'unit': 'kernel'}", "{x}"])
def test_a_line_of_a_log_that_begins_with_a_brace_is_text(tmp_path: Path, before: str) -> None:
    line = f"{before} Jan 06 NVRM: Xid (PCI:0000:41:00): 119, pid=1877, Timeout after 6s of waiting for RPC response\n"
    verdict = report(read([write(tmp_path / "loki.txt", line)], NOTHING)).verdict
    assert verdict.root_causes == ("gsp-timeout",)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "is empty"),
        (" \n\t", "is empty"),
        ('{"schema": ', "begins like JSON but is not valid"),
        ('{"not": json}', "begins like JSON but is not valid"),
        ('{"schema": "gpustack.snapshot/9"}', "holds gpustack.snapshot/9"),
        ('{"schema": "gpustack.weather/1"}', "holds gpustack.weather/1"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, content: str, why: str) -> None:
    path = write(tmp_path / "given", content)
    with pytest.raises(InputError, match=why) as refused:
        read([path], NOTHING)
    assert path in str(refused.value)


def test_json_that_was_cut_is_text_where_the_file_is_one_and_it_is_no_snapshot(tmp_path: Path) -> None:
    cut = '{"error": "CUDA error: no kernel image is available for execution on the device",\n "gpu": '
    assert report(read([write(tmp_path / "error.txt", cut)], NOTHING)).verdict.root_causes == ("arch-not-in-build",)
    with pytest.raises(InputError, match="cut off or damaged"):
        read([write(tmp_path / "snapshot.txt", '{"schema": "gpustack.snapshot/1", "host": ')], NOTHING)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read([str(tmp_path / "none.json")], NOTHING)
    with pytest.raises(InputError, match="cannot be read"):
        read(["x" * 5000], NOTHING)
    with pytest.raises(InputError, match="cannot be read"):
        read(["a\0b"], NOTHING)


def test_a_folder_without_a_file_to_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "empty.txt", "")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="has no readable file"):
        read([str(tmp_path)], NOTHING)


def test_an_empty_standard_input_is_refused() -> None:
    with pytest.raises(InputError, match="standard input is empty"):
        read(["-"], io.BytesIO())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write(path, SNAPSHOT)
    path.chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        read([str(path)], NOTHING)
    with pytest.raises(InputError, match="holds no file"):
        read([str(tmp_path)], NOTHING)


def test_one_report_is_about_one_machine(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.json", SNAPSHOT), write(tmp_path / "b.json", SNAPSHOT)
    with pytest.raises(InputError, match="two machines") as refused:
        read([first, second], NOTHING)
    assert first in str(refused.value)
    assert second in str(refused.value)


def test_what_is_too_much_to_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "MOST_BYTES", 1_000_000)
    path = write(tmp_path / "log", b"x" * 600_000)
    assert read([path], NOTHING).components == ()
    with pytest.raises(InputError, match="more than 1 MB is too much"):
        read([path, path], NOTHING)
    with pytest.raises(InputError, match="more than 1 MB is too much"):
        read(["/dev/zero"], NOTHING)


@given(st.binary())
def test_any_bytes_are_facts_or_a_refusal_of_one_line(data: bytes) -> None:
    said = ""
    try:
        read(["-"], io.BytesIO(data))
    except InputError as error:
        said = str(error)
    assert "\n" not in said
