"""What blocks traffic between GPUs on the bus: bits in a bridge's configuration, laid out as PCI Express defines it."""

from __future__ import annotations

import struct

import pytest

from tests.told import ToldHost, load

probe = load("kernel/iommu.py")["probe"]
BUS = "/sys/bus/pci/devices"
FIRST, SECOND, BRIDGE = "0000:41:00.0", "0000:61:00.0", "0000:40:01.1"


def config(*capabilities: tuple[int, int], size: int = 4096) -> bytes:
    """Return a configuration space with these extended capabilities, each with the word at +6."""
    data = bytearray(4096)
    for place, (number, control) in enumerate(capabilities):
        at = 0x100 + 0x40 * place
        following = at + 0x40 if place + 1 < len(capabilities) else 0
        struct.pack_into("<IHH", data, at, number | 1 << 16 | following << 20, 0, control)
    return bytes(data[:size])


def host(held: bytes | OSError, domain: str = "DMA-FQ\n") -> ToldHost:
    """Return a machine with two GPUs, one of them behind a bridge."""
    files: dict[str, str | bytes | OSError] = {
        f"{BUS}/{BRIDGE}/config": held,
        "/sys/kernel/iommu_groups/7/type": domain,
    }
    links = {f"{BUS}/{FIRST}": f"../../../devices/pci0000:40/{BRIDGE}/{FIRST}"}
    for where in (f"/sys/devices/pci0000:40/{BRIDGE}/{FIRST}", f"{BUS}/{SECOND}"):
        files |= {f"{where}/vendor": "0x10de\n", f"{where}/class": "0x030000\n"}
    links[f"{BUS}/{FIRST}/iommu_group"] = "../../../../kernel/iommu_groups/7"
    return ToldHost(files, links=links)


@pytest.mark.parametrize(
    ("held", "acs"),
    [
        (config((0x0D, 0x1D)), ["source-validation", "request-redirect", "completion-redirect", "upstream-forwarding"]),
        (config((0x01, 0xFF), (0x0D, 0x01)), ["source-validation"]),
        (config((0x0D, 0)), []),
        (config((0x01, 0xFF)), []),
        (config((0x0D, 0x1D), size=64), None),
        (PermissionError(13, "denied"), None),
    ],
)
def test_what_a_bridge_redirects_is_read_from_its_configuration(held: bytes | OSError, acs: list[str] | None) -> None:
    seen = probe(host(held))
    assert seen["bridges"] == [{"pci": BRIDGE, "acs": acs}]


def test_how_each_gpu_relates_to_the_iommu() -> None:
    seen = probe(host(config()))
    assert seen["gpus"] == [
        {"pci": FIRST, "domain": "DMA-FQ", "bridges": [BRIDGE]},
        {"pci": SECOND, "domain": None, "bridges": []},
    ]


def test_capabilities_that_lead_in_a_circle_or_out_of_the_space_end() -> None:
    circle = bytearray(config((0x01, 0)))
    struct.pack_into("<I", circle, 0x100, 0x01 | 0x100 << 20)
    assert probe(host(bytes(circle)))["bridges"][0]["acs"] == []
    struct.pack_into("<I", circle, 0x100, 0x01 | 0xFFF << 20)
    assert probe(host(bytes(circle)))["bridges"][0]["acs"] == []


def test_without_a_gpu_there_is_nothing_to_say() -> None:
    disk = {f"{BUS}/0000:00:1f.2/vendor": "0x8086\n", f"{BUS}/0000:00:1f.2/class": "0x010601\n"}
    assert probe(ToldHost(disk)) is None


@pytest.mark.parametrize("file", ["vendor", "class"])
def test_a_device_that_may_be_a_gpu_and_cannot_be_read_is_not_absent(file: str) -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{BUS}/{FIRST}/vendor": "0x10de\n",
        f"{BUS}/{FIRST}/class": "0x030200\n",
    }
    files[f"{BUS}/{FIRST}/{file}"] = PermissionError(13, "denied")
    with pytest.raises(OSError, match=f"{file}: denied"):
        probe(ToldHost(files))
