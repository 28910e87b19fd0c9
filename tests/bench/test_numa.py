"""Which processors, memory and links a measurement uses, from a fake sysfs; what is unavailable is reported."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.bench import routes
from gpustack.bench.numa import RefusedError, far, near, prefer_node, processor, processors
from gpustack.bench.telemetry import settled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NUMA nodes are Linux's")
PCI = "0000:17:00.0"
HERE = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


@pytest.fixture
def sysfs(tmp_path: Path) -> Callable[[str, str], str]:
    """Return a function that writes the GPU's node and the processors of node 1."""

    def write(node: str, cpus: str) -> str:
        card, folder = tmp_path / "bus/pci/devices" / PCI, tmp_path / "devices/system/node/node1"
        for one in (card, folder):
            one.mkdir(parents=True)
        (card / "numa_node").write_text(f"{node}\n")
        (folder / "cpulist").write_text(f"{cpus}\n")
        return str(tmp_path)

    return write


class Memory:
    """A memory policy that remembers what was requested, or refuses."""

    def __init__(self, refusal: str | None = None) -> None:
        self.asked: list[int | None] = []
        self.refusal = refusal

    def __call__(self, node: int | None) -> None:
        self.asked.append(node)
        if self.refusal:
            raise RefusedError(self.refusal)


def test_the_process_is_moved_to_the_node_and_back(sysfs: Callable[[str, str], str]) -> None:
    memory = Memory()
    with near(PCI, sysfs("1", f"{HERE[-1]},4000-4003"), memory) as said:
        assert os.sched_getaffinity(0) == {HERE[-1]}
        assert memory.asked == [1]
    assert sorted(os.sched_getaffinity(0)) == HERE
    assert memory.asked == [1, None]
    assert said == f"NUMA: node 1, 1 of {len(HERE)} processors, memory from there too"


def test_it_is_moved_back_after_an_error_too(sysfs: Callable[[str, str], str]) -> None:
    root = sysfs("1", str(HERE[-1]))
    with pytest.raises(ArithmeticError), near(PCI, root, Memory()):
        raise ArithmeticError
    assert sorted(os.sched_getaffinity(0)) == HERE


def test_refused_memory_is_said_and_the_processors_are_taken(sysfs: Callable[[str, str], str]) -> None:
    with near(PCI, sysfs("1", str(HERE[0])), Memory("Operation not permitted")) as said:
        assert os.sched_getaffinity(0) == {HERE[0]}
    assert said.endswith("processors; memory wherever the kernel places it (Operation not permitted)")


@pytest.mark.parametrize(
    ("node", "cpus", "why"),
    [
        ("-1", "0-7", f"the kernel reports no node for {PCI}"),
        ("what", "0-7", f"the kernel reports no node for {PCI}"),
        ("1", "4000-4003", "no processor of node 1 is available here"),
        ("1", "", "no processor of node 1 is available here"),
        ("7", "0", "no processor of node 7 is available here"),
    ],
)
def test_without_a_node_nothing_is_done_and_why_is_said(
    sysfs: Callable[[str, str], str], node: str, cpus: str, why: str
) -> None:
    memory = Memory()
    with near(PCI, sysfs(node, cpus), memory) as said:
        assert sorted(os.sched_getaffinity(0)) == HERE
    assert said == f"NUMA: not pinned, {why}"
    assert not memory.asked


def test_a_refusal_to_choose_processors_is_said(
    sysfs: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with near(PCI, sysfs("1", str(HERE[0])), Memory()) as said:
        pass
    assert said == "NUMA: not pinned, choosing processors was refused: Operation not permitted"


def test_lists_of_processors_are_read_as_the_kernel_writes_them(sysfs: Callable[[str, str], str]) -> None:
    assert processors(1, sysfs("1", "0-2,64-65,7")) == {0, 1, 2, 7, 64, 65}


@pytest.mark.skipif(not Path("/sys/devices/system/node/node0").exists(), reason="a kernel without NUMA")
def test_the_kernel_takes_our_policy_or_says_why_not() -> None:
    said = ""
    try:
        prefer_node(0)
        prefer_node(None)
    except RefusedError as error:
        said = str(error)
    assert said != os.strerror(22)  # an invalid argument would be our bug, not a refusal


def test_a_node_that_is_not_there_is_refused_by_the_kernel_or_by_us() -> None:
    with pytest.raises((RefusedError, IndexError)):
        prefer_node(1023)


def test_an_unknown_machine_has_no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(RefusedError, match="riscv64"):
        prefer_node(0)


def test_the_processor_is_named_by_the_kernel_or_by_its_kind(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Stand-in 9000\n")
    assert processor(str(tmp_path)) == "Stand-in 9000"
    assert processor(str(tmp_path / "nowhere")) == platform.machine()


def nodes(root: str, has_memory: str = "0-2") -> str:
    """Write three nodes, of which the last is furthest from the GPU's."""
    folder = Path(root, "devices/system/node")
    (folder / "node1/distance").write_text("21 10 32\n")
    (folder / "online").write_text("0-2\n")
    (folder / "has_memory").write_text(f"{has_memory}\n")
    return root


def test_far_memory_is_that_of_the_furthest_node_and_then_it_is_near_again(sysfs: Callable[[str, str], str]) -> None:
    memory = Memory()
    with far(PCI, nodes(sysfs("1", "0")), memory) as said:
        assert memory.asked == [2]
    assert (memory.asked, said) == ([2, 1], "NUMA: memory from node 2, the GPU is on node 1")


@pytest.mark.parametrize(
    ("node", "has_memory", "refusal", "why"),
    [
        ("-1", "0-2", None, "the kernel reports no node for"),
        ("1", "1", None, "only node 1 has memory"),
        ("1", "nonsense", None, "only node 1 has memory"),
        ("1", "0-2", "not permitted", "not permitted"),
    ],
)
def test_where_no_far_node_can_be_seen_or_taken_it_says_so(
    node: str, has_memory: str, refusal: str | None, why: str, sysfs: Callable[[str, str], str]
) -> None:
    with pytest.raises(RefusedError, match=why), far(PCI, nodes(sysfs(node, "0"), has_memory), Memory(refusal)):
        pass


GPU, BRIDGE, PORT = "0000:17:00.0", "0000:16:00.0", "0000:15:01.0"


def lay(root: Path, **said: tuple[str, str, str, str]) -> None:
    """Create a GPU behind a switch behind a root port; each has a speed and a width, and the maximum of both."""
    folder = root / "devices/pci0000:15"
    for name, rows in (("port", PORT), ("bridge", BRIDGE), ("gpu", GPU)):
        folder /= rows
        folder.mkdir(parents=True)
        for file, text in zip(routes.FILES, said.get(name, ()), strict=False):
            (folder / file).write_text(text + "\n")
    (root / "bus/pci/devices").mkdir(parents=True)
    (root / "bus/pci/devices" / GPU).symlink_to(folder)


def test_every_link_from_the_gpu_to_the_root_is_reported(tmp_path: Path) -> None:
    whole, narrow = ("32.0 GT/s PCIe", "16"), ("16.0 GT/s PCIe", "8")
    lay(tmp_path, gpu=(*whole, *whole), bridge=(*narrow, *whole), port=("2.5 GT/s PCIe", "1", *whole))
    assert routes.look(routes.chain(GPU, str(tmp_path))) == [
        (GPU, 5, 16, 5, 16),
        (BRIDGE, 4, 8, 5, 16),
        (PORT, 1, 1, 5, 16),
    ]


def test_what_a_virtual_machine_makes_up_or_leaves_out_is_unknown(tmp_path: Path) -> None:
    lay(tmp_path, gpu=("Unknown", "0", "32.0 GT/s PCIe", "16"), bridge=("Unknown speed", "63", "", "255"))
    seen = routes.look(routes.chain(GPU, str(tmp_path)))
    assert seen[0] == (GPU, None, None, 5, 16)
    assert seen[1][1:] == seen[2][1:] == (None, None, None, None)


def test_a_device_that_the_kernel_does_not_know_has_no_links(tmp_path: Path) -> None:
    assert routes.chain(GPU, str(tmp_path)) == ()
    assert routes.look(()) == []


def test_a_busy_gpu_is_given_time_to_come_to_rest() -> None:
    """NVML's utilisation is an average over up to a second: NVIDIA/DCGM#272 failed because of its own previous test."""
    told, waited = iter([80, 45, 12, 3, 0]), list[float]()
    assert settled(lambda: next(told), waited.append) == 3
    assert len(waited) == 3
    waited.clear()
    assert settled(lambda: 97, waited.append) == 97
    assert 1 < sum(waited) < 2
    assert settled(lambda: None, waited.append) is None
