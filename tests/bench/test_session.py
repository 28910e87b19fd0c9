"""Runs whose children die part-way: what was measured is kept, the rest continues, and the run ends."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from gpustack import bench
from gpustack.bench.progress import Lines
from gpustack.errors import NothingSeenError, UsageError
from gpustack.model.bench import BenchReport, Mark
from gpustack.model.report import Severity
from tests.bench import lines
from tests.bench.test_listening import Scripted
from tests.patience import in_time

pytestmark = in_time

PCIE = json.dumps(lines.measured("pcie.h2d.pinned", 55.5e9, 1.0))
BACK = json.dumps(lines.measured("pcie.d2h.pinned", 55.4e9, 1.0))
READ = json.dumps(lines.measured("hbm.read", 4614e9, 1.0))
OPEN = f"say('opened', json.loads({json.dumps(lines.OPENED)!r}))\n"
TWO = {**lines.OPENED, "devices": [lines.DEVICE, {**lines.DEVICE, "index": 1}]}
OPEN_TWO = f"say('opened', json.loads({json.dumps(TWO)!r}))\n"
NAMES = ("pcie.?2?.pinned", "hbm.read")


def done(name: str, line: str) -> str:
    return f"say('at', {name!r}); say('measured', json.loads({line!r}))\n"


def run(
    *scripts: str, names: tuple[str, ...] = NAMES, gpus: tuple[int, ...] = (0,), timeout: float = 20
) -> BenchReport:
    return bench.measure(names, gpus=gpus, door=Scripted(*scripts), timeout=timeout)


def marks(report: BenchReport) -> dict[str, Mark]:
    return {result.id: result.verdict for result in report.results}


ALL = OPEN + done("pcie.h2d.pinned", PCIE) + done("pcie.d2h.pinned", BACK) + done("hbm.read", READ) + "say('done')"


def test_all_is_well() -> None:
    report = run(ALL)
    assert marks(report) == dict.fromkeys(("pcie.h2d.pinned", "pcie.d2h.pinned", "hbm.read"), Mark.OK)
    assert (report.findings, report.interrupted) == ((), None)
    assert report.devices[0].driver == "580.159.04"
    assert report.tool.matrix_date
    assert report.taken.endswith("+00:00")


def test_a_crash_fails_only_its_own_benchmark() -> None:
    crash = OPEN + done("pcie.h2d.pinned", PCIE) + "say('at', 'pcie.d2h.pinned'); os.kill(os.getpid(), signal.SIGSEGV)"
    report = run(crash, OPEN + done("hbm.read", READ) + "say('done')")
    assert marks(report) == {"pcie.h2d.pinned": Mark.OK, "pcie.d2h.pinned": Mark.FAILED, "hbm.read": Mark.OK}
    (finding,) = report.findings
    assert (finding.id, finding.severity, finding.key) == (
        "bench-failed",
        Severity.ERROR,
        "bench-failed@pcie.d2h.pinned on GPU 0",
    )
    assert finding.detail == "was killed by SIGSEGV"


def test_after_an_error_of_cuda_the_rest_goes_on_in_a_new_child() -> None:
    sick = OPEN + done("pcie.h2d.pinned", PCIE) + "say('failed', {'id': 'pcie.d2h.pinned', 'reason': 'error 719'})"
    report = run(sick, OPEN + done("hbm.read", READ) + "say('done')")
    assert marks(report) == {"pcie.h2d.pinned": Mark.OK, "pcie.d2h.pinned": Mark.FAILED, "hbm.read": Mark.OK}
    assert report.results[1].why == ("error 719",)


def test_what_is_skipped_says_what_would_bring_it() -> None:
    skip = "say('skipped', {'id': 'hbm.read', 'reason': 'no room', 'remedy': 'nvidia-smi'}); say('done')"
    report = run(OPEN + skip, names=("hbm.read",))
    assert (report.results[0].verdict, report.results[0].remedy) == (Mark.SKIPPED, "nvidia-smi")
    assert report.findings[0].severity is Severity.INFO
    assert report.findings[0].fix
    assert report.findings[0].fix.commands == ("nvidia-smi",)
    bare = run(OPEN + "say('skipped', {'id': 'hbm.read', 'reason': 'no room'}); say('done')", names=("hbm.read",))
    assert (bare.results[0].remedy, bare.findings[0].fix) == (None, None)


@pytest.mark.parametrize("end", ["", "say('done')", "say('part', 'x'); sys.exit(1)"])
def test_children_that_answer_nothing_do_not_go_on_forever(end: str) -> None:
    report = run(OPEN + end)
    assert set(marks(report).values()) == {Mark.FAILED}
    assert len(report.results) == 3


def test_an_answer_for_another_benchmark_is_none() -> None:
    report = run(OPEN + "say('at', 'hbm.read'); say('measured', {'id': 'x'}); say('done')", names=("hbm.read",))
    assert "answered for another benchmark" in report.results[0].why[0]


def test_more_answers_than_questions_are_left_aside() -> None:
    report = run(OPEN + done("hbm.read", READ) + done("hbm.read", READ) + "say('done')", names=("hbm.read",))
    assert marks(report) == {"hbm.read": Mark.OK}
    assert len(report.results) == 1


def test_a_low_figure_is_a_warning_with_its_limit() -> None:
    slow = json.dumps(lines.measured("hbm.read", 2000e9, 1.0))
    report = run(OPEN + done("hbm.read", slow) + "say('done')", names=("hbm.read",))
    (finding,) = report.findings
    assert (finding.id, finding.severity) == ("bench-low", Severity.WARNING)
    assert [because.value for because in finding.because] == ["2000 GB/s", "4814 GB/s"]


def test_a_hang_at_the_end_of_the_time_leaves_what_there_is() -> None:
    report = run(OPEN + done("pcie.h2d.pinned", PCIE) + "say('at', 'pcie.d2h.pinned'); signal.pause()", timeout=1.5)
    assert marks(report) == {"pcie.h2d.pinned": Mark.OK, "pcie.d2h.pinned": Mark.FAILED, "hbm.read": Mark.SKIPPED}
    assert report.interrupted is None
    assert report.results[2].why == ("time ran out before its turn",)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("say('nothing', {'reason': 'no driver', 'remedy': 'gpustack doctor'})", "no driver; to fix it: gpustack"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the child was killed by SIGSEGV"),
        ("say('opened', {'devices': []})", "malformed"),
        ("print('garbage')", "an unexpected line"),
    ],
)
def test_where_no_gpu_can_be_opened_there_is_nothing_to_see(script: str, says: str) -> None:
    with pytest.raises(NothingSeenError, match=says):
        run(script)


def test_a_gpu_that_is_lost_on_the_way_fails_the_rest_and_keeps_what_there_is() -> None:
    crash = OPEN + done("pcie.h2d.pinned", PCIE) + "say('at', 'pcie.d2h.pinned'); os.kill(os.getpid(), signal.SIGBUS)"
    report = run(crash, "say('nothing', {'reason': 'the GPU is lost', 'remedy': 'gpustack doctor', 'count': 1})")
    assert marks(report) == {"pcie.h2d.pinned": Mark.OK, "pcie.d2h.pinned": Mark.FAILED, "hbm.read": Mark.FAILED}
    assert "the GPU is lost" in report.results[2].why[0]


def test_a_gpu_that_is_not_there_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="no GPU 7; CUDA shows 2"):
        run("say('nothing', {'reason': 'x', 'remedy': 'y', 'count': 2})", gpus=(0, 7))


# Each child waits at a rendezvous until the other arrives; the starter lets one in at a time.
MEETING = """
me, folder = str(asked["gpu"]), {folder!r}
open(os.path.join(folder, me), "w").close()
until = time.monotonic() + 8
while not all(os.path.exists(os.path.join(folder, gpu)) for gpu in "01") and time.monotonic() < until:
    time.sleep(0.01)
met = time.monotonic() < until
"""
TURN = """
say("turn", "pcie.latency")
go = json.loads(sys.stdin.readline())["go"]
door = os.open(os.path.join({folder!r}, "door"), os.O_CREAT | os.O_EXCL)
time.sleep(0.1)
os.unlink(os.path.join({folder!r}, "door"))
"""


def test_gpus_work_at_the_same_time_and_take_turns_on_what_they_share(tmp_path: Path) -> None:
    latency = json.dumps(lines.measured("pcie.latency", 1.0, 1e-6))
    script = OPEN_TWO + MEETING.format(folder=str(tmp_path)) + f"if met: {done('hbm.read', READ)}\n"
    script += TURN.format(folder=str(tmp_path)) + f"if go: {done('pcie.latency', latency)}\nsay('done')"
    report = run(script, names=("hbm.read", "pcie.latency"), gpus=(0, 1))
    assert [(result.id, result.device, result.value is not None) for result in report.results] == [
        ("pcie.latency", 0, True),
        ("pcie.latency", 1, True),
        ("hbm.read", 0, True),
        ("hbm.read", 1, True),
    ]
    assert [device.index for device in report.devices] == [0, 1]
    assert all(device.driver for device in report.devices)


def test_what_all_do_at_once_begins_when_the_last_is_ready_and_is_one_figure() -> None:
    part = lines.measured("pcie.h2d.all", 40e9, 1.0)
    slow = "time.sleep(0.3 * asked['gpu'])\nsay('at', 'pcie.h2d.all'); ready = time.monotonic()\n"
    turn = "say('turn', 'pcie.h2d.all'); sys.stdin.readline(); waited = time.monotonic() - ready\n"
    told = f"part = {part!r}; part['method']['waited'] = waited; say('measured', part); say('done')"
    (result,) = run(OPEN_TWO + slow + turn + told, names=("pcie.h2d.all",), gpus=(0, 1)).results
    assert (result.value, result.gpus, result.device) == (80.0, (0, 1), None)
    waited = result.method["waited"]
    assert isinstance(waited, float)
    assert waited > 0.2, "the first was ready three tenths of a second before the second"


def test_names_and_pythons_that_are_not_there_are_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"there is no benchmark hbm.nothing; did you mean hbm\."):
        bench.measure(("hbm.nothing",))
    with pytest.raises(UsageError, match="there is no program"):
        bench.measure(("hbm.read",), pythons=("/no/python",))
    with pytest.raises(UsageError, match="no GPU was named"):
        bench.measure(("hbm.read",), gpus=())
    with pytest.raises(UsageError, match="random or zeros"):
        bench.measure(("hbm.read",), data="ones")


def test_a_child_that_cannot_be_started_is_nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(NothingSeenError, match="could not be started: No such file"):
        bench.measure(("hbm.read",))


class Interrupting(Lines):
    """A progress display in which the user presses Ctrl-C when the second benchmark begins."""

    def started(self, bench: str, number: int, of: int) -> None:
        if (number, of, bench) == (2, 3, "pcie.d2h.pinned"):
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_keeps_what_was_measured() -> None:
    script = f"say('listed', {{'devices': [{lines.DEVICE!r}]}})\n" + OPEN + done("pcie.h2d.pinned", PCIE)
    script += "say('at', 'pcie.d2h.pinned'); signal.pause()"
    report = bench.measure(NAMES, door=Scripted(script), progress=Interrupting(io.StringIO()), timeout=20)
    assert marks(report) == {"pcie.h2d.pinned": Mark.OK}
    assert report.interrupted == "Ctrl-C"


def test_what_would_change_the_figures_is_kept_from_the_child() -> None:
    environ = {**os.environ, "NVIDIA_TF32_OVERRIDE": "1", "CUDA_LAUNCH_BLOCKING": "1", "CUDA_VISIBLE_DEVICES": "0"}
    spy = "say('nothing', {'reason': str(sorted(n for n in os.environ if n.startswith(('NVIDIA_TF', 'CUDA_'))))})"
    with pytest.raises(NothingSeenError, match="CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING', 'CUDA_VISIBLE") as seen:
        bench.measure(("hbm.read",), door=Scripted(spy), environ=environ)
    assert "BLOCKING" not in str(seen.value)
    assert "TF32" not in str(seen.value)


def test_the_library_of_the_chosen_python_is_the_one_that_is_measured(tmp_path: Path) -> None:
    wheel = tmp_path / "lib/python3.12/site-packages/nvidia/cu13/lib"
    wheel.mkdir(parents=True)
    (wheel / "libcublasLt.so.13").touch()
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.touch(mode=0o755)
    spy = "say('nothing', {'reason': asked['library'], 'remedy': ''})"
    with pytest.raises(NothingSeenError, match=r"nvidia/cu13/lib/libcublasLt\.so\.13"):
        bench.measure(("gemm.bf16",), door=Scripted(spy), pythons=(str(python),))
