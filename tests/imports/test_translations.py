"""The C library's messages in other languages are read like the English ones."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports.messages import english, meanings
from gpustack.imports.texts import take
from gpustack.matrix import Matrix

MATRIX = Matrix()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "libcudart.so.11.0: Kann die Shared-Object-Datei nicht öffnen: Datei oder Verzeichnis nicht gefunden",
            "cuda-runtime-missing",
        ),
        ("ImportError: libcublas.so.12: 无法打开共享目标文件: 没有那个文件或目录", "cuda-runtime-missing"),
        ("Unable to open /dev/kfd read-write: Keine Berechtigung", "user-not-in-render-group"),
        ("modprobe: ERROR: could not insert 'nvidia': La clé a été rejetée par le service", "secure-boot-key-rejected"),
    ],
)
def test_a_fault_in_another_language_is_named(text: str, finding: str) -> None:
    facts, _ = take([("text", text)], MATRIX)
    assert judge(facts, MATRIX).verdict.root_causes == (finding,)


def test_english_text_stays_as_it_is() -> None:
    text = "libcudart.so.12: cannot open shared object file: No such file or directory"
    assert english(text) == text


def test_every_phrase_becomes_what_it_means() -> None:
    for words, meaning in meanings().items():
        assert english(words) == meaning
