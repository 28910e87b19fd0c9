"""What all tests share."""

from __future__ import annotations

import compileall
import gc
import os
import posix
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from gpustack.diagnose import engine
from gpustack.imports.gathered import Gathered
from tests import counting, schema, sharing, tables, warm
from tests.fakes.nvml import SONAME, StandIn
from tests.leaving import leave_out

if TYPE_CHECKING:
    from gpustack.model.facts import Facts, Unseen

# Machines that run tests beside other work draw slowly, which says nothing about our code. Every run draws the
# same, so that a change is judged by what it changed; nox -s wide draws new examples, and many more.
SLOW = [HealthCheck.too_slow]
settings.register_profile("same", deadline=None, max_examples=20, derandomize=True, suppress_health_check=SLOW)
settings.register_profile("wide", deadline=None, max_examples=2000, suppress_health_check=SLOW)
settings.load_profile("same")
# Hypothesis draws the constants of whichever of our modules have been imported by then, which differs from process to
# process: with the profile "same" it draws none of them. It has no setting for this; tests/test_suite.py holds it.
COLLECT = providers._get_local_constants  # noqa: SLF001 - there is no other way

ROOT = Path(__file__).resolve().parent.parent
FAKES = ROOT / "tests/fakes"
# Tests that take a second each and often wait; the others take milliseconds of CPU time only.
FIRST = ("tests/bench/", "tests/test_", "tests/trace/", "tests/integrations/", "tests/faults/", "tests/plugins/")
SYNTAX = "rfc3987_syntax"
LEAVE = posix._exit  # noqa: SLF001 - the system's own; coverage has its own in place of os._exit


def postponed() -> ModuleType:
    """Return a stand-in that imports the real module when it is used: that builds 38 grammars and is rarely needed.

    jsonschema imports it, in each process that validates anything, for internationalised addresses only.
    """
    module = ModuleType(SYNTAX)

    def is_valid_syntax(*given: str) -> bool:
        if sys.modules.get(SYNTAX) is module:
            del sys.modules[SYNTAX]
        return bool(import_module(SYNTAX).is_valid_syntax(*given))

    vars(module).update(is_valid_syntax=is_valid_syntax)
    return module


def constants() -> Constants:
    """Return the constants of our code that Hypothesis may draw: none where every run is to draw the same."""
    return Constants() if settings.get_current_profile_name() == "same" else COLLECT()


def pytest_configure() -> None:
    """Let a fork leave at once: coverage's own exit would first write down all that was counted before the fork.

    Tests keep tens of thousands of rows and facts and create little garbage: it is collected less often.
    A shell starts background jobs with Ctrl-C ignored, and children inherit that: ours have to receive it.
    Bytecode is cached, whatever the shell says: otherwise thousands of children would each compile every module.
    The shims of pyenv and its like start a dozen shells before each Python: what lies behind them is started instead.
    """
    plain = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if Path(one).name != "shims")
    os.environ["PATH"] = plain if shutil.which("python3", path=plain) else os.environ["PATH"]
    vars(providers).update(_get_local_constants=constants)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin while they wait: the workers need the cores
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(100_000, 50, 100)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for programs in ("gpustack", "probes", "microbench", "tools"):  # as an installer does, for later starts
            compileall.compile_dir(ROOT / programs, quiet=2, workers=0)
        tables.prepare()
    sys.modules.setdefault(SYNTAX, postponed())
    subprocess.Popen = warm.Popen  # type: ignore[misc]  # which run() and all others start with
    os.register_at_fork(after_in_child=lambda: setattr(os, "_exit", LEAVE))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: they spend part of their time waiting for hanging children."""
    return 1 + (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without coverage, once everything that is to be counted has been imported.

    The process that hands out the tests does it for the workers: they begin to count after much of it was imported.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        counting.import_all()
    counting.pause()
    result = yield
    gc.collect()
    gc.freeze()  # modules and tests are kept until the end, and pytest would traverse them again and again
    return result


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slowest: started last, it would keep everything else waiting."""
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None, not item.nodeid.startswith(FIRST)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure the coverage of few tests' children, and start children for real in tests of how they start."""
    warm.active = item.get_closest_marker("starts") is None
    with counting.children(item):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Count the first case of a test."""
    with counting.counted(pyfuncitem):
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def _rules_that_fail_are_heard() -> Iterator[None]:
    """Let a failing rule fail the test that called it; a user would get the report without that rule."""

    def raised(_rule: object, error: Exception) -> Unseen:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "failed", raised)
        yield


@pytest.fixture(scope="session", autouse=True)
def _what_is_read_is_in_the_schema() -> Iterator[None]:
    """Fail the test in which a text yielded a fact that is not in ``facts.toml``, or has another type there."""
    gathered = Gathered.facts

    def held(self: Gathered) -> Facts:
        facts = gathered(self)
        schema.hold(facts)
        return facts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gathered, "facts", held)
        yield


@pytest.fixture
def any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read texts that were damaged on purpose: what looks like a version in them is not one."""
    monkeypatch.setattr(schema, "hold", lambda _facts: None)


@pytest.fixture(scope="session")
def compile_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that compiles one C file of ``tests/fakes`` to a shared library and returns its path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        leave_out("no C compiler here: stand-in libraries cannot be built")

    def compile_(source: str, name: str, *flags: str) -> Path:
        command = [compiler, "-shared", "-fPIC", "-O1", str(FAKES / source), *flags, "-o"]

        def build(folder: Path) -> None:
            subprocess.run([*command, str(folder / name)], check=True, capture_output=True)

        built = sharing.folder(tmp_path_factory, f"{name} {command}", build) / name
        own = tmp_path_factory.mktemp(Path(source).stem) / name  # links are created beside it, and one test moves it
        shutil.copy2(built, own)
        return own

    return compile_


@pytest.fixture(scope="session")
def nvml(compile_library: Callable[..., Path]) -> StandIn:
    """Return a stand-in for the NVML of a current driver."""
    return StandIn(compile_library("libnvidia_ml.c", SONAME))


@pytest.fixture(scope="session")
def old_nvml(compile_library: Callable[..., Path]) -> StandIn:
    """Return a stand-in for the NVML of an old driver."""
    return StandIn(compile_library("libnvidia_ml.c", SONAME, "-DOLD"))


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a file system of its own with no space left; ``old`` in it holds what was there before."""
    folder, mount = tmp_path / "full", shutil.which("mount")
    folder.mkdir()
    made = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False)
    if not made or made.returncode:
        pytest.skip("no file system can be mounted here, which takes root: none can be filled")
    try:
        (folder / "old").write_text("what was there before\n")
        with (folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(b"\0" * 4096):
                pass
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S607 - beside mount, wherever that is
