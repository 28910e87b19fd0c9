"""Hostile folders: modules and tools planted in the working folder, or in PYTHONPATH, are not run by any command.

What is planted records that it ran, and then acts as what it replaces, so that its caller continues. A Python that is
started with PYTHONPATH imports from there by itself (``sitecustomize``), before any line of ours: what each Python runs
by itself this way is measured, and nothing beyond it may run. Only ``--deep`` imports frameworks as their user would.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from gpustack.collect import isolation, targets
from gpustack.errors import UsageError
from tests.wide import WIDE, wide

REPO = Path(__file__).resolve().parent.parent
SNAPSHOT = str(REPO / "examples" / "driver-too-old.json")
COMMAND = (str(Path(sys.executable).with_name("gpustack")),)
# What the installer's own start script imports before our first line: pip's imported ``re``.
SCRIPT = frozenset(re.findall(r"^import (\w+)", Path(COMMAND[0]).read_text("utf-8"), re.MULTILINE))
MODULE = (sys.executable, "-m", "gpustack")
STANDARD = """argparse ast base64 bz2 collections compileall contextlib copy csv ctypes dataclasses datetime difflib
email enum errno functools gettext glob hashlib heapq hmac html http importlib inspect json keyword linecache locale
logging math numbers operator pathlib pickle pkgutil platform queue random re reprlib runpy selectors shlex shutil
signal socket ssl string struct subprocess tempfile textwrap threading time tokenize tomllib traceback types typing
unicodedata urllib uuid warnings weakref xml zipfile zlib""".split()  # noqa: SIM905 - words read better than quotes
OTHERS = """pip typer click rich packaging pynvml numpy cuda torch jax onnxruntime tensorflow shellingham tomli probes
host microbench sitecustomize usercustomize""".split()  # noqa: SIM905 - the same
FRAMEWORKS = {"torch", "jax", "onnxruntime", "tensorflow", "numpy", "cuda"}
TOOLS = """python python3 pip bash sh env nvidia-smi ldconfig lspci uname dpkg-query rpm rocm-smi rocminfo modinfo nvcc
gcc cc cat journalctl dmesg systemctl systemd-detect-virt nvidia-ctk docker conda git ps who""".split()  # noqa: SIM905 - the same
PLANTED = """\
import sys
with open({mark!r}, "a") as file:
    file.write("%s %s\\n" % (__name__, sys.executable))
kept, sys.path[:] = sys.path[:], [entry for entry in sys.path if entry not in ("", {folder!r})]
try:
    del sys.modules[__name__]
    __import__(__name__)
finally:
    sys.path[:] = kept
"""
COMMANDS = {
    "doctor": (0,),
    "doctor --deep": (0,),
    "doctor --all-envs": (0,),
    f"doctor --from {SNAPSHOT}": (1,),
    "stack": (0,),
    "snapshot": (0,),
    f"diff {SNAPSHOT} {SNAPSHOT}": (0,),
    "explain Xid 79": (0,),
    "matrix show pytorch": (0,),
    "matrix why torch==2.11.0 --driver 550.54.15": (0, 1),
    "matrix plan torch --driver 550.54.15": (0,),
    "matrix update torch --timeout 20": (3,),
    "bench --quick": (3,),
    "stress --seconds 1": (3,),
    "check": (0, 1),
    "selftest": (0,),
    "trace --cpu": (0,),
    "trace --framework torch": (3,),
    "help": (0, 2),
    "--help": (0,),
}


DEEPEST = "doctor --deep"
LOOKING = ("doctor", "doctor --all-envs", "stack", "snapshot", "check")  # as doctor --deep does, and no more
TRAPS = ("folder", "PYTHONPATH")
pytestmark = pytest.mark.starts


def commands(why: str) -> list[str]:
    """Return the commands that are tried in this trap: in CI every second, and the deepest, which probes as others do.

    The others are tried in the other trap; GPUSTACK_WIDE=1 tries all of them in both.
    """
    others = [one for one in COMMANDS if one not in {DEEPEST, *LOOKING}]
    return [DEEPEST, *(LOOKING if WIDE else ()), *(others if WIDE else others[TRAPS.index(why) :: len(TRAPS)])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """A folder full of modules and tools that record in a file that they ran."""

    folder: Path
    mark: Path
    environ: dict[str, str] = field(default_factory=dict)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, and record only what that command ran."""
        self.mark.write_text("")
        return subprocess.run(
            argv, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False, timeout=90
        )

    def ran(self) -> set[tuple[str, str]]:
        """Return which planted files ran, and in which Python."""
        lines = (line.partition(" ") for line in self.mark.read_text().splitlines())
        return {(name, program) for name, _, program in lines}


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Trap:
    """Return the trap, reached only by being the working folder and by . on PATH."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("hostile")
    mark = home / "mark"
    for name in (*STANDARD, *OTHERS):
        (folder / f"{name}.py").write_text(PLANTED.format(mark=str(mark), folder=str(folder)))
    for name in TOOLS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} tool >> {mark}\n")
        (folder / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name.startswith("PYENV_")}
    path = ["", ".", str(Path(sys.executable).parent), "/usr/bin", "/bin", "relative"]
    more = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "LD_LIBRARY_PATH": ":."}
    environ = {**kept, "HOME": str(home), "PATH": os.pathsep.join(path), "CUDA_VISIBLE_DEVICES": "", **more}
    return Trap(folder=folder, mark=mark, environ=environ)


@pytest.fixture(scope="module")
def poisoned(trap: Trap) -> Trap:
    """Return the trap with PYTHONPATH leading to it, by its name and by that of the working folder."""
    path = os.pathsep.join(("", ".", str(trap.folder)))
    return Trap(folder=trap.folder, mark=trap.mark, environ={**trap.environ, "PYTHONPATH": path})


def test_what_is_planted_is_run_where_nothing_prevents_it(trap: Trap, poisoned: Trap) -> None:
    """The trap works; otherwise nothing here could fail."""
    trap.run(sys.executable, "-c", "import typing, json, pip")
    assert {name for name, _ in trap.ran()} >= {"json", "pip", "typing"}
    poisoned.run(sys.executable, "-c", "pass")
    assert {name for name, _ in poisoned.ran()} >= {"sitecustomize"}
    trap.run("/bin/sh", "-c", "nvidia-smi; python3")
    assert trap.ran() == {("nvidia-smi", "tool"), ("python3", "tool")}


@wide
@pytest.mark.parametrize("command", commands("folder"))
def test_nothing_of_the_working_folder_runs(command: str, trap: Trap) -> None:
    """In CI a sample of the commands, see ``commands``."""
    done = trap.run(*COMMAND, *command.split())
    assert trap.ran() == set()
    assert done.returncode in COMMANDS[command], done.stdout + done.stderr


@wide
@pytest.mark.parametrize("command", commands("PYTHONPATH"))
def test_of_pythonpath_nothing_runs_but_what_each_python_starts_itself(command: str, poisoned: Trap) -> None:
    """In CI a sample of the commands, see ``commands``."""
    done = poisoned.run(*COMMAND, *command.split())
    assert beyond(poisoned, poisoned.ran(), command) == set()
    assert done.returncode in COMMANDS[command], done.stdout + done.stderr


@pytest.mark.parametrize("command", ["doctor", "bench --quick", "matrix update torch"])
def test_as_a_module_python_alone_imports_from_the_working_folder(command: str, trap: Trap) -> None:
    """What ``python -m`` of any module imports before that module is measured."""
    (trap.folder / "nothing.py").touch()
    trap.run(sys.executable, "-m", "nothing")
    itself = trap.ran()
    done = trap.run(*MODULE, *command.split())
    assert trap.ran() - itself == set()
    assert done.returncode in (0, 1, 3), done.stdout + done.stderr
    assert "internal error" not in done.stderr


def beyond(trap: Trap, ran: set[tuple[str, str]], command: str) -> set[tuple[str, str]]:
    """Return what ran beyond what its Python runs itself, and beyond the frameworks that are to be imported."""
    asked = SCRIPT | (FRAMEWORKS if "--deep" in command or "--framework" in command else set())
    return {(name, program) for name, program in ran if name not in asked | itself(trap.folder, trap.mark, program)}


@cache
def itself(folder: Path, mark: Path, program: str) -> frozenset[str]:
    """Return which planted files a Python imports of its own accord."""
    bare = Trap(folder=folder, mark=mark, environ={"PYTHONPATH": str(folder)})
    if program != "tool":
        bare.run(program, "-c", "pass")
    return frozenset(name for name, _ in bare.ran() if program != "tool")


class Paths:
    """What Python has on its path, in its order."""

    standard = str(Path(os.__file__).parent)
    compiled = f"{standard}/lib-dynload"
    site = f"{standard}/site-packages"


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (["/work", "/pp"], []),
        (["", "."], []),
        (["/pp", isolation.OWN, "/deps"], ["/pp", isolation.OWN, "/deps"]),
        (["/work", isolation.OWN], [isolation.OWN]),
        (["", isolation.OWN, "relative"], [isolation.OWN]),
    ],
)
def test_what_is_before_the_standard_library_is_left_out_unless_we_lie_there(
    found: list[str], kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = [Paths.standard, Paths.compiled, Paths.site, "/work"]
    monkeypatch.setattr(sys, "path", [*found, *rest])
    monkeypatch.setattr(os, "getcwd", lambda: "/work")
    after = [Paths.site, "/work"]  # a user in one of Python's own folders has not planted it
    assert isolation.path() == [Paths.standard, Paths.compiled, *kept, *after]


def test_a_child_of_a_checkout_that_is_not_installed_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [isolation.OWN, *(one for one in isolation.path() if one != isolation.OWN)])
    monkeypatch.setattr(os, "getcwd", lambda: isolation.OWN)
    done = subprocess.run([*isolation.argv("gpustack"), "--version"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("gpustack "), done.stderr


def test_no_search_path_of_a_child_leads_to_the_working_folder() -> None:
    given = {
        "PATH": ":/bin:.:bin:/usr/bin:",
        "PYTHONPATH": ".",
        "LD_LIBRARY_PATH": ":/x",
        "LD_PRELOAD": "",
        "HOME": ".",
    }
    assert isolation.absolute(given) == {
        "PATH": "/bin:/usr/bin",
        "LD_LIBRARY_PATH": "/x",
        "LD_PRELOAD": "",
        "HOME": ".",
    }


def test_a_word_names_a_command_and_never_a_file_of_the_working_folder(
    trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trap.folder)
    monkeypatch.setenv("PATH", trap.environ["PATH"])
    first = str(Path(sys.executable).parent)
    assert targets.choose(["python3"], {})[0].python == f"{first}/python3"
    assert targets.choose((), {"PATH": trap.environ["PATH"]})[0].python == f"{first}/python3"
    assert not targets.choose((), {"PATH": ".:"})[0].python.startswith(str(trap.folder))
    assert targets.choose(["./python3"], {})[0].python == str(trap.folder / "python3")
    (trap.folder / "mine").touch(mode=0o755)
    for name in ("mine", ""):
        with pytest.raises(UsageError, match="there is no program to run there"):
            targets.choose([name], {})
    (trap.folder / "env-of-mine" / "bin").mkdir(parents=True)
    (trap.folder / "env-of-mine" / "bin" / "python").symlink_to(sys.executable)
    assert targets.choose(["env-of-mine"], {})[0].prefix == str(trap.folder / "env-of-mine")
    (trap.folder / "bin").symlink_to(trap.folder / "env-of-mine" / "bin")
    assert targets.choose((), {"VIRTUAL_ENV": ".", "PATH": first})[0].python == f"{first}/python3"
