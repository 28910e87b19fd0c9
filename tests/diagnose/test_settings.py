"""Rules about limits and settings: mentioned only where they matter, a warning only where harm is seen or certain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack.model.facts import Call, Facts
from gpustack.model.report import Health, Severity
from tests.build import PCI, found, gpu, healthy, ids, kernel, libcuda, log, nvml, pci, report, seen, torch

OTHER = "0000:02:00.0"
MIB, GIB = 1 << 20, 1 << 30
TWO = seen("gpu", gpu(), gpu(at=OTHER))
BUS = seen("pci-display", pci(), pci(at="0000:02:00.0"))
CUDA = libcuda(devices=[{"ordinal": number, "pci": at} for number, at in enumerate((PCI, "0000:02:00.0"))])
FAULT = "nvidia 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0010 address=0x64a7f000 flags=0x0000]"


def within(facts: Facts, container: str | None = "docker") -> Facts:
    return replace(facts, host=replace(facts.host, container=container))


@pytest.mark.parametrize(
    ("size", "several", "container", "severity"),
    [
        (64 * MIB, True, "docker", Severity.WARNING),
        (511 * MIB, True, "docker", Severity.WARNING),
        (512 * MIB, True, "docker", None),
        (64 * MIB, True, None, None),
        (64 * MIB, False, "docker", Severity.INFO),
        (8 * GIB, False, "docker", None),
        (None, True, "docker", None),
    ],
)
def test_shared_memory_of_a_container(
    size: int | None,
    several: bool,  # noqa: FBT001 - a row
    container: str | None,
    severity: Severity | None,
) -> None:
    parts = (torch(), seen("limits", {"shm_bytes": size}), *([TWO, BUS, nvml(count=2), CUDA] if several else []))
    facts = within(healthy(*parts), container)
    finding = found(facts, "container-shm-too-small")
    assert (finding.severity if finding else None) is severity
    if finding:
        assert f"{(size or 0) // MIB} MiB" in finding.title
        assert report(facts).verdict.status is (Health.DEGRADED if several else Health.HEALTHY)


def test_shared_memory_where_nothing_uses_it() -> None:
    assert "container-shm-too-small" not in ids(within(healthy(seen("limits", {"shm_bytes": 64 * MIB}))))


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"memlock_bytes": 8 * MIB, "may_lock": False, "rdma": ["mlx5_0"]}, True),
        ({"memlock_bytes": 8 * MIB, "may_lock": True, "rdma": ["mlx5_0"]}, False),
        ({"memlock_bytes": 8 * MIB, "may_lock": None, "rdma": ["mlx5_0"]}, False),
        ({"memlock_bytes": 8 * MIB, "may_lock": False, "rdma": []}, False),
        ({"memlock_bytes": "unlimited", "may_lock": False, "rdma": ["mlx5_0"]}, False),
        ({"memlock_bytes": 32 * GIB, "may_lock": False, "rdma": ["mlx5_0"]}, False),
    ],
)
def test_locked_memory_matters_to_rdma_alone_and_is_not_a_fault(limits: dict[str, object], told: bool) -> None:  # noqa: FBT001 - a row
    facts = healthy(seen("limits", limits))
    assert ids(facts) == ({"memlock-too-small"} if told else set())
    assert report(facts).verdict.status is Health.HEALTHY


def between(domain: str | None = None, acs: list[str] | None = None, cards: int = 2) -> dict[str, object]:
    gpus = [{"pci": at, "domain": domain, "bridges": ["0000:40:01.1"]} for at in (PCI, OTHER)[:cards]]
    return {"gpus": gpus, "bridges": [{"pci": "0000:40:01.1", "acs": acs}]}


@pytest.mark.parametrize(
    ("way", "told"),
    [
        (between(acs=["source-validation", "request-redirect"]), True),
        (between("DMA-FQ", None), True),
        (between("identity", []), False),
        (between(None, ["source-validation"]), False),
        (between("DMA", ["request-redirect"], cards=1), False),
        (between(), False),
    ],
)
def test_what_is_between_gpus_is_reported_and_is_a_fault_only_where_copies_were_turned_away(
    way: dict[str, object],
    told: bool,  # noqa: FBT001 - a row
) -> None:
    facts = healthy(seen("iommu", way))
    assert ids(facts) == ({"iommu-acs-p2p"} if told else set())
    assert report(facts).verdict.status is Health.HEALTHY
    harmed = healthy(seen("iommu", way), seen("kernel-log", {"readable": True, "iommu_faults": [FAULT]}))
    assert report(harmed).verdict.root_causes == (("iommu-acs-p2p",) if told else ("pcie-errors",))


def test_faults_of_other_devices_prove_nothing() -> None:
    other = seen("kernel-log", {"iommu_faults": [FAULT.replace("nvidia 0000:01", "ahci 0000:28")]})
    finding = found(healthy(seen("iommu", between("DMA")), other), "iommu-acs-p2p")
    assert finding is not None
    assert finding.severity is Severity.INFO


def test_gpus_with_nvlink_or_in_a_virtual_machine_do_not_go_over_the_bus() -> None:
    way = seen("iommu", between("DMA", ["request-redirect"]))
    assert ids(healthy(way, seen("nvlink", {"key": "a", "active": 18}))) == set()
    assert "iommu-acs-p2p" in ids(healthy(way, seen("nvlink", {"key": "a", "active": 0})))
    machine = healthy(way)
    assert ids(replace(machine, host=replace(machine.host, virtualisation="kvm"))) == set()


@pytest.mark.parametrize(
    ("persistence", "seconds", "told"),
    [(False, 9.5, True), (False, 0.4, False), (True, 9.5, False), (None, 9.5, False)],
)
def test_persistence_is_mentioned_where_the_start_was_slow(
    persistence: bool | None,  # noqa: FBT001 - a row
    seconds: float,
    told: bool,  # noqa: FBT001 - a row
) -> None:
    slow = replace(libcuda(cc="8.9"), calls=(Call(name="cuInit", seconds=seconds, outcome="ok"),))
    card = gpu("NVIDIA GeForce RTX 4090", "8.9", persistence=persistence)
    facts = healthy(slow, seen("gpu", card), log(), kernel(), seen("pci-display", pci()))
    assert ids(facts) == ({"persistence-mode-off"} if told else set())
    assert report(facts).verdict.status is Health.HEALTHY
