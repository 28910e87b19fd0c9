"""The links from a GPU up to the root, in folders laid out as the kernel lays them out."""

from __future__ import annotations

from pathlib import Path

from gpustack.bench import routes
from gpustack.bench.telemetry import settled

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
