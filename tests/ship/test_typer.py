"""The newest typer that we allow beside the one of the tests: no start imports pydantic, and the words are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
OLD = "examples/driver-too-old.json"
STARTS = ("--version", "--help", "doctor --help", f"doctor --from {OLD} --format json -q", "fleet gate --store nowhere")
PROGRAM = "import sys; sys.argv[0] = 'gpustack'; from gpustack.cli import main; main()"
TYPED = (
    *("doctor --format xx", "doctor --timeout 1", "doctor --timeout x", "doctor --timeout nan", "doctor --frmat json"),
    *("bench --gpu x", "bench --repeat 0", "fleet judge", "fleet collect x", "fleet gate --store", "check --gpus x"),
    *(
        "matrix why torch --python x",
        "explain Xid 79 --format json",
        f"doctor --from {OLD} -q --fail-on never",
        "doctr",
    ),
    *(f"doctor --from {OLD} -q -o /nowhere/x", f"doctor --from {OLD} --format text --format json -o /dev/null"),
)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with the newest typer in our bounds, and what we need beside it."""
    made = tmp_path_factory.mktemp("newest")
    uv = (sys.executable, "-m", "uv", "--quiet", "--no-config")
    subprocess.run([*uv, "venv", "--python", sys.executable, made], check=True)
    needs = ("typer>=0.29,<0.30", "rich", "packaging", "nvidia-ml-py", "tomli")
    subprocess.run([*uv, "pip", "install", "--python", made / "bin/python", *needs], check=True)
    return made / "bin/python"


def asked(python: Path, words: str, *options: str) -> subprocess.CompletedProcess[str]:
    whole = {**os.environ, "PYTHONPATH": str(REPO), "COLUMNS": "100"}
    command: list[str | Path] = [python, *options, "-c", PROGRAM, *words.split()]
    return subprocess.run(command, cwd=REPO, env=whole, capture_output=True, text=True, check=False)


@pytest.mark.packages
def test_no_start_imports_pydantic_though_typer_would(newest: Path) -> None:
    subprocess.run([newest, "-c", "import pydantic"], check=True)
    for words in STARTS:
        assert "pydantic" not in asked(newest, words, "-X", "importtime").stderr, words


@pytest.mark.packages
def test_what_is_typed_is_read_and_refused_in_the_same_words(newest: Path) -> None:
    for words in TYPED:
        ours, theirs = asked(Path(sys.executable), words), asked(newest, words)
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr), words
