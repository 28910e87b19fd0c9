"""Commands that hang, are no programs or print nonsense: their component lacks only what they would report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.collect import catalogue
from gpustack.collect.catalogue import Reply
from gpustack.collect.probe_results import parse
from tests.faults import command, machine, programs
from tests.faults.command import DOCTOR, whole
from tests.patience import in_time
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.machine import Shop

pytestmark = in_time

COMMANDS = ("nvidia-persistenced", "nv-fabricmanager", "nvidia-ctk", "icpx")  # which are run on any machine


def test_faulty_commands_fail_nothing(shop: Shop, tmp_path: Path) -> None:
    """One hangs, the next is no program, and so on: files and libraries say the same (more in test_programs.py)."""
    environ = machine.planted(shop, tmp_path / "machine", ())
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, (_, said) in zip(COMMANDS, programs.KINDS.values(), strict=False):
        (folder / name).write_text(said)
        (folder / name).chmod(0o755)
    ran = command.run(DOCTOR, {**environ, "PATH": f"{folder}:{environ['PATH']}"})
    report = whole(ran)
    assert ran.seconds < 12
    odd = {row["what"].rpartition("/")[2].split()[0]: row["why"] for row in report["not_seen"]}
    says = [programs.SAYS.get(fault) for fault in programs.KINDS]
    assert odd == {name: why for name, why in zip(COMMANDS, says, strict=False) if why}
    assert report["verdict"]["status"] == "healthy"
    known = ("linux-kernel", "nvidia-driver", "nvml", "libcuda", "gpu", "cudnn")
    assert {name: ran.status(name)[0] for name in known} == dict.fromkeys(known, "present")
    assert command.left(ran.mark) == []


class Slow(ToldHost):
    """A machine on which every command times out."""

    def run(self, *argv: str, seconds: float | None = None) -> dict[str, object] | None:  # noqa: ARG002 - too long for any
        self.log.append(("run", " ".join(argv), "no answer"))
        raise TimeoutError(argv[0])


@pytest.mark.parametrize(
    ("probe", "files", "row", "fact"),
    [
        ("kernel/linux_kernel.py", {"/proc/sys/kernel/osrelease": "6.8.0\n"}, {}, "release"),
        (
            "driver/nvidia_driver.py",
            {"/sys/module/nvidia/version": "580.95.05\n", "/var/lib/rpm/x": ""},
            {},
            "module_loaded",
        ),
        (
            "kernel_module/nvidia_ko.py",
            {
                "/proc/sys/kernel/osrelease": "6.8.0\n",
                "/lib/modules/6.8.0/modules.dep": "extra/nvidia.ko:\n",
                "/sys/module/nvidia/initstate": "live\n",
            },
            {"module": "nvidia", "nodes": []},
            "state",
        ),
    ],
)
def test_what_files_show_is_kept_though_the_command_beside_them_hangs(
    probe: str, files: dict[str, str | bytes | OSError], row: dict[str, object], fact: str
) -> None:
    host = Slow(files, row=row)
    seen = load(probe)["probe"](host)
    assert seen[fact]
    assert "no answer" in {outcome for _, _, outcome in host.log}


def test_a_command_that_gave_no_answer_is_among_what_was_not_seen() -> None:
    system = next(one for one in catalogue.load() if one.id == "nvidia-driver")
    said = {"status": "absent", "instances": [], "log": [["run", "rpm -q x", "no answer"]]}
    _, unseen = parse([Reply(system=system, environment=None, answer=said)])
    assert [(one.what, one.why) for one in unseen] == [("rpm -q x", "no answer")]
