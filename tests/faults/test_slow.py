"""The command on a machine whose libraries really take five seconds: awaited while there is time, otherwise named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.faults import command, machine
from tests.faults.command import DOCTOR, whole
from tests.patience import idle, in_time

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.machine import Shop

pytestmark = in_time

SLOW = 5.0
PLAN = {"cuInit": "libcuda", "nvmlSystemGetDriverVersion": "nvml", "nvmlDeviceGetName": "gpu", "zeInit": "level-zero"}


def test_a_slow_library_is_waited_for_while_there_is_time_and_named_where_there_is_not(
    shop: Shop, tmp_path: Path
) -> None:
    environ = machine.planted(shop, tmp_path, ())
    plan = ";".join([*(f"{function}=slow5" for function in PLAN), environ["NV_SICK"]])
    environ |= {"NV_SICK": plan, "NVML_FAKE": plan}
    with ThreadPoolExecutor() as pool:
        waited, cut = pool.map(lambda argv: command.run(argv, environ), (DOCTOR, (*DOCTOR, "--timeout", "4")))
    rows = {row["id"]: row for row in whole(waited)["components"]}
    assert (waited.report["verdict"]["status"], waited.report["verdict"]["root_causes"]) == ("degraded", ["nvml-slow"])
    assert SLOW < waited.seconds < idle(10 + 1)  # the default, and what a busy machine takes to start a Python
    for component in PLAN.values():
        assert (rows[component]["status"], rows[component]["seconds"] >= SLOW) == ("present", True)
    assert (rows["nvml"]["version"], rows["gpu"]["facts"]["name"]) == ("580.159.04", "NVIDIA H200")
    assert rows["libcuda"]["facts"]["devices"][0]["name"] == "NVIDIA H200"
    assert whole(cut)["verdict"]["status"] == "unknown"
    assert cut.seconds < idle(4 + 2)  # the limit, and the same
    for component in PLAN.values():
        status, reason = cut.status(component)
        assert (status, reason[:18], "(state S" in reason) == ("failed", "gave no answer in ", True)
    assert [command.left(one.mark) for one in (waited, cut)] == [[], []]
