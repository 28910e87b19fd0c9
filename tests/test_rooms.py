"""Who may import whom. When this complains, move the line, not the rule."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from gpustack import assets

REPO = Path(__file__).resolve().parent.parent
GPU_LIBRARIES = {"cuda", "pynvml", "numpy", "nvmath", "cupy", "torch", "jax"}
# Every room, and what it may import besides itself, errors and assets; the command line may import all, nothing it.
ROOMS = {
    "model": set(),
    "matrix": {"model"},
    "collect": {"model", "matrix"},
    "snapshots": {"model"},
    "redaction": {"model"},
    "imports": {"model", "matrix", "snapshots"},
    "diagnose": {"model", "matrix"},
    "compare": {"model", "matrix", "diagnose"},
    "ask": {"model", "matrix", "diagnose"},
    "explain": {"model", "matrix", "diagnose", "imports"},
    "bench": {"model", "matrix", "collect"},
    "policy": {"model", "matrix", "diagnose", "compare", "bench"},
    "trace": {"model", "matrix", "collect", "bench", "snapshots"},
    "fleet": {"model", "matrix", "diagnose", "snapshots", "plugins"},
    "report": {"model"},
    "plugins": {"model", "matrix", "collect", "imports", "diagnose"},
    "library": {
        "ask",
        "explain",
        "plugins",
        "model",
        "collect",
        "matrix",
        "snapshots",
        "redaction",
        "imports",
        "diagnose",
        "bench",
        "policy",
        "report",
    },
}
# The modules at the root: six, and what each may import.
ROOT = {
    "__init__": {"library"},
    "__main__": {"cli", "collect"},
    "assets": set(),
    "errors": set(),
    "interrupting": set(),
    "pytest_plugin": {"collect", "matrix", "model"},
    "selftest": {"collect", "diagnose", "model", "snapshots", "plugins"},
}
EVERYWHERE = {"", "assets", "errors", "interrupting"}
HIDDEN_FROM_RULES = {"os", "subprocess", "pathlib", "socket", "shutil", "tempfile", "platform", "importlib", "time"}


def modules(folder: str) -> list[Path]:
    return sorted(path for path in (REPO / folder).rglob("*.py") if "__pycache__" not in path.parts)


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Return every module that a file imports, wherever the import is, except those for type checkers only."""
    nodes: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    found: list[str] = []
    for node in nodes:  # which grows
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            nodes += node.orelse
        else:
            nodes += ast.iter_child_nodes(node)
    return tuple(found)


def name_of(path: Path) -> str:
    parts = path.relative_to(REPO).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(module: str, rooms: set[str]) -> bool:
    return any(module == room or module.startswith(room + ".") for room in rooms)


def room_of(module: str) -> str:
    """Return the room of a module, or the module itself if it is at the root; empty for the package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (REPO / "gpustack" / parts[1]).exists() else (parts[1:2] or [""])[0]


@pytest.mark.parametrize("room", [*ROOMS, *ROOT, "cli"])
def test_a_room_sees_only_what_it_may(room: str) -> None:
    there = [path for path in modules("gpustack") if (room_of(name_of(path)) or "__init__") == room]
    assert there
    for path in there:
        seen = {room_of(module) for module in imported(path) if within(module, {"gpustack"})} - {"__version__", room}
        if room != "cli":
            assert seen <= EVERYWHERE | (ROOMS.get(room) or ROOT.get(room) or set()), path
        assert not {module for module in imported(path) if within(module, {"probes", "microbench"})}, path


def test_every_room_is_named_and_six_modules_at_most_stand_at_the_root() -> None:
    package = REPO / "gpustack"
    folders = {path.parent.name for path in package.glob("*/*.py") if path.parent.name != "_shipped"}
    assert folders == {*ROOMS, "cli"}
    assert {path.stem for path in package.glob("*.py")} == set(ROOT)
    assert len(ROOT) <= 7


def test_no_room_imports_itself_through_others() -> None:
    reached = {room: set(seen) for room, seen in ROOMS.items()}
    for _ in ROOMS:
        reached = {room: seen.union(*(reached[one] for one in seen)) for room, seen in reached.items()}
    assert [room for room, seen in reached.items() if room in seen] == []


def test_typer_rich_and_the_gpu_libraries_stay_in_their_rooms() -> None:
    for path in modules("gpustack"):
        name, seen = name_of(path), {module.partition(".")[0] for module in imported(path)}
        assert "typer" not in seen or within(name, {"gpustack.cli"}), path
        assert "rich" not in seen or within(name, {"gpustack.report", "gpustack.cli"}), path
        assert not seen & GPU_LIBRARIES or within(name, {"gpustack.bench", "gpustack.trace"}), path
        assert "pydantic" not in seen, path


def test_rules_see_no_files_no_processes_and_no_environment() -> None:
    for path in modules("gpustack/diagnose/rules"):
        assert not {module.partition(".")[0] for module in imported(path)} & HIDDEN_FROM_RULES, path


@pytest.mark.parametrize("folder", ["probes", "microbench"])
def test_probes_and_benches_see_the_standard_library_alone(folder: str) -> None:
    for path in modules(folder):
        foreign = {module.partition(".")[0] for module in imported(path)} - set(sys.stdlib_module_names)
        assert foreign == set(), path


def test_probes_are_written_in_the_syntax_of_python_3_8() -> None:
    for path in modules("probes"):
        ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, 8))


def test_every_probe_of_the_catalogue_has_its_program_and_every_program_its_row() -> None:
    rows = json.loads((assets.PROBES / "catalogue.json").read_text("utf-8"))["systems"]
    named = {row["probe"] for row in rows} | {row["exercise"] for row in rows if "exercise" in row}
    there = {str(path.relative_to(REPO / "probes")) for path in modules("probes") if path.parent != REPO / "probes"}
    assert named == there
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        text = (REPO / "probes" / row["probe"]).read_text("utf-8")
        assert "def probe(host" in text
        tried = (REPO / "probes" / row["exercise"]).read_text("utf-8") if "exercise" in row else text
        assert ("def exercise(host" in tried) == row.get("deep", False)


def test_a_file_has_one_subject_and_says_it() -> None:
    for path in (*modules("gpustack"), *modules("probes"), *modules("microbench")):
        text = path.read_text("utf-8")
        assert ast.get_docstring(ast.parse(text)), path
        assert len(text.splitlines()) <= (400 if "rules" in path.parts else 300), path  # a family of rules is one table


FORBIDDEN = ("pydantic", "numpy", "cuda", "pynvml", "rich")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["doctor", "--help"],
        ["doctor", "--from", "examples/driver-too-old.json", "--format", "json"],
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(arguments: list[str]) -> None:
    program = (
        "import sys, atexit, json\n"
        f"atexit.register(lambda: print(json.dumps([m for m in {FORBIDDEN!r} if m in sys.modules]), file=sys.stderr))\n"
        "from gpustack.cli import main\n"
        f"sys.argv = ['gpustack', *{arguments!r}]\n"
        "main()\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=False)
    assert json.loads(run.stderr.splitlines()[-1]) == []


def test_the_probes_run_before_the_rules_and_the_matrix_are_loaded() -> None:
    program = (
        "import sys\n"
        "from gpustack.collect import probing\n"
        "late = ('gpustack.diagnose', 'gpustack.matrix', 'gpustack.report.text', 'gpustack.imports')\n"
        "def look(**asked):\n"
        "    print([name for name in late if name in sys.modules])\n"
        "    asked['meanwhile']()\n"
        "    print([name for name in late if name in sys.modules])\n"
        "    raise KeyboardInterrupt\n"
        "probing.look = look\n"
        "sys.argv = ['gpustack', 'doctor']\n"
        "from gpustack.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    before, after = done.stdout.splitlines()
    assert before == "[]", done.stderr
    assert after == "['gpustack.diagnose', 'gpustack.matrix', 'gpustack.report.text']"
