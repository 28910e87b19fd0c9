"""The row of each process on a GPU: its name, Python and memory; those that only keep a node open share one."""

from __future__ import annotations

from gpustack.report.page import TIMES
from gpustack.report.summary import entries
from tests.build import seen


def process(pid: int, **facts: object) -> dict[str, object]:
    rows = ({"gpu": "0000:06:00.0", "used_mib": 3072},)
    return {"key": f"pid {pid}", "pid": pid, "name": "python3", "gpus": rows, "used_mib": 3072, **facts}


def told(*processes: dict[str, object]) -> list[tuple[str, str]]:
    return [(entry.head, ", ".join(entry.notes)) for entry in entries(seen("gpu-processes", *processes))]


def test_a_process_with_what_it_runs() -> None:
    frameworks = ({"name": "pytorch", "version": "2.11.0"}, {"name": "vllm", "version": None})
    one = process(70, command="python3 vllm serve", application="LLM server", frameworks=frameworks)
    assert told(one) == [("gpu-processes python3 vllm serve", "LLM server, pytorch 2.11.0, vllm, 3.0 GiB, pid 70")]


def test_one_of_which_little_is_known() -> None:
    unseen = process(70, name=None, used_mib=None, seen=False, frameworks=None)
    assert told(unseen) == [("gpu-processes not seen from here", "pid 70")]


def test_those_that_hold_a_node_alone_are_one_row() -> None:
    others = [process(pid, gpus=(), used_mib=None, application="custom") for pid in (70, 71, 72)]
    assert told(*others) == [(f"gpu-processes 3 {TIMES} python3", "custom, holds a GPU's device node open")]


def test_garbage_in_the_place_of_facts_is_skipped() -> None:
    assert told({"key": "x", "gpus": 7, "frameworks": ("a", {"version": "1"}), "used_mib": "much"})[0][0].endswith(
        "here"
    )
