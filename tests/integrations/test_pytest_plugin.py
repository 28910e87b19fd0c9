"""The pytest plugin in a pytest of its own: it skips, it fails with the diagnosis, and it probes only when needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack import pytest_plugin
from tests.integrations.recorded import record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = REPO / "integrations/pytest/test_example.py"
NEEDS = """
import pytest

@pytest.mark.gpustack(needs={needs})
def test_{number}():
    pass
"""


def run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with our plugin only, from an empty folder."""
    command = [sys.executable, "-m", "pytest", "-p", "gpustack.pytest_plugin", "-p", "no:cacheprovider", "-rs", "-v"]
    return subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPO), **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def asking(*needs: str) -> str:
    """Return a file with a test for each requirement."""
    return "".join(NEEDS.format(needs=one, number=number) for number, one in enumerate(needs))


def needing(machine: str, folder: Path, *needs: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a test for each requirement on a recorded machine."""
    test = folder / "test_needs.py"
    test.write_text(asking(*needs), "utf-8")
    return run(folder, str(test), "--gpustack-from", str(record(machine, folder)), *options)


def test_a_test_runs_where_what_it_needs_works(tmp_path: Path) -> None:
    needs = ("'pytorch'", "'torch'", "'cudnn'", "None", "'Pytest'", "('nvidia.ko', 'typer')")
    done = needing("healthy-h200", tmp_path, *needs)
    assert f"{len(needs)} passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("machine", "reasons"),
    [
        ("cpu-only-torch", {"'pytorch'": r"pytorch does not work here: .*\(cpu-only-build\)"}),
        (
            "driver-too-old",
            {
                "'pytorch'": r"pytorch does not work here: .*\(driver-too-old-for-cuda-build\)",
                "None": r"no usable GPU here \(broken\): .*\(driver-too-old-for-cuda-build\)",
            },
        ),
        (
            "no-gpu",
            {
                "None": r"no usable GPU here \(no-gpu\)",
                "'cudnn'": "cudnn is not installed",
                "'pytest'": r"no usable GPU here \(no-gpu\)",
            },
        ),
        (
            "healthy-h200",
            {
                "('pytorch', 'tensorrt')": "tensorrt is not installed",
                "'onnxruntime'": "onnxruntime does not work here",
            },
        ),
    ],
)
def test_a_test_is_skipped_with_the_cause_where_it_does_not(
    machine: str, reasons: dict[str, str], tmp_path: Path
) -> None:
    done = needing(machine, tmp_path, *reasons, options=("--no-fold-skipped",))
    assert done.returncode == 0
    assert f"{len(reasons)} skipped" in done.stdout, done.stdout + done.stderr
    said = dict(re.findall(r"SKIPPED \S+::test_(\d) - (.*?)(?=SKIPPED|=====)", " ".join(done.stdout.split())))
    for number, reason in enumerate(reasons.values()):
        assert re.search(f"gpustack: {reason}", said[str(number)]), done.stdout


def test_what_could_not_be_checked_is_not_said_to_be_missing(tmp_path: Path) -> None:
    facts = json.loads(record("healthy-h200", tmp_path).read_text("utf-8"))
    torch = next(one for one in facts["components"] if one["id"] == "pytorch")
    torch.update(status="failed", reason="KeyError: 'x'", instances=[], version=None, build=None, path=None, facts={})
    (tmp_path / "lost.json").write_text(json.dumps(facts), "utf-8")
    test = tmp_path / "test_lost.py"
    test.write_text(asking("'pytorch'"), "utf-8")
    done = run(tmp_path, str(test), "--gpustack-from", str(tmp_path / "lost.json"))
    assert "pytorch could not be examined: KeyError: 'x'" in " ".join(done.stdout.split())


def test_fail_gives_the_diagnosis_and_the_commands(tmp_path: Path) -> None:
    done = needing("cpu-only-torch", tmp_path, "'pytorch'", options=("--gpustack=fail",))
    assert done.returncode == 1
    assert "Fix: " in done.stdout
    assert "pip install" in done.stdout
    assert "cpu-only-build" in done.stdout


def test_an_unreadable_record_is_said_and_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_needs.py").write_text(asking("None"), "utf-8")
    done = run(tmp_path, "--gpustack-from", "nowhere.json")
    assert "1 skipped" in done.stdout
    assert "gpustack could not tell: " in done.stdout


def test_a_wrong_mark_is_said(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text("import pytest\n@pytest.mark.gpustack(need='x')\ndef test_x(): pass\n")
    done = run(tmp_path, "--strict-markers")
    assert done.returncode != 0
    assert "takes only needs=" in done.stdout + done.stderr


@pytest.mark.parametrize("machine", ["healthy-h200", "no-gpu"])
def test_a_name_that_nothing_has_is_an_error_and_leaves_no_test_out(machine: str, tmp_path: Path) -> None:
    done = needing(machine, tmp_path, "'pytroch'", "('cudnn', 'onnxruntim')", "'no such thing'")
    assert (done.returncode, "3 errors" in done.stdout) == (1, True), done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert said.count("neither a component that gpustack knows nor a distribution in") >= 3
    assert set(re.findall(r"did you mean ([\w-]+)", said)) == {"pytorch", "onnxruntime"}


def test_the_machine_is_probed_once_and_only_for_marked_tests(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def hear(event, what):\n"
        f"    if event == 'subprocess.Popen' and 'doctor' in what[1]: open({str(counted)!r}, 'a').write('x')\n"
        "sys.addaudithook(hear)\n"
    )
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    assert run(tmp_path, "test_plain.py").returncode == 0
    assert not counted.exists()
    (tmp_path / "test_marked.py").write_text(
        "import pytest\npytestmark = pytest.mark.gpustack\n" + "".join(f"def test_{n}(): pass\n" for n in range(3))
    )
    run(tmp_path, "test_marked.py")
    assert counted.read_text() == "x"


def test_nothing_heavy_is_imported_with_the_plugin() -> None:
    program = (
        "import sys, gpustack.pytest_plugin; print(*(name for name in sys.modules if name.startswith('gpustack')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"gpustack", "gpustack.pytest_plugin"}


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"gpustack": pytest_plugin.__name__}


def test_the_example_does_what_it_says_on_this_machine(tmp_path: Path) -> None:
    done = run(tmp_path, str(EXAMPLE), "--strict-markers")
    assert done.returncode == 0, done.stdout
    assert "test_nothing_is_needed PASSED" in done.stdout
    again = run(tmp_path, str(EXAMPLE), "--gpustack=fail", "--gpustack-from", str(record("no-gpu", tmp_path)))
    assert "3 failed, 1 passed" in again.stdout
    assert json.loads((tmp_path / "no-gpu.json").read_text("utf-8"))["schema"].startswith("gpustack.snapshot/")
