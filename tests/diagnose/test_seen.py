"""What a machine is, in the terms of the rules: where a careless reading would blame or clear the wrong part."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.diagnose.machine.inventory import any_gpu, builds, capabilities, on_bus, ours, starts
from gpustack.model.facts import Status
from gpustack.model.report import Health
from gpustack.model.versions import ComputeCapability, CudaVersion
from tests.build import PYTHON, gpu, healthy, libcuda, machine, pci, report, seen, torch
from tests.diagnose.machines import eight, facts, part, recorded

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("keeper", ["vfio-pci", "pci-stub", "xen-pciback"])
def test_a_gpu_that_is_passed_on_to_a_virtual_machine_is_not_ours(keeper: str) -> None:
    facts = machine(seen("pci-display", pci(keeper)))
    assert (len(on_bus(facts, "nvidia")), ours(facts)) == (1, ())


@pytest.mark.parametrize(
    ("exercise", "ran"),
    [
        ({"ran": True, "ok": True, "device": "cuda:0"}, True),
        ({"ran": True, "ok": True, "device": "cpu"}, False),
        ({"ran": True, "ok": True}, False),
        ({"ran": True, "ok": False, "device": "cuda:0"}, False),
        ({"status": "failed"}, None),
    ],
)
def test_what_ran_on_the_processor_did_not_run_on_the_gpu(exercise: dict[str, object], *, ran: bool | None) -> None:
    (build,) = builds(healthy(torch(exercise=exercise)))
    assert build.ran_on_gpu is ran


def test_cuda_that_starts_and_then_tells_of_no_gpu_does_not_start() -> None:
    assert starts(healthy()) is True
    assert starts(healthy(libcuda(error="cuDeviceGetCount answered 100"))) is False
    assert starts(healthy(libcuda(init=802))) is False
    assert starts(healthy(seen("libcuda"))) is False
    assert starts(healthy(seen("libcuda", status="unknown"))) is None


def test_of_several_copies_in_one_python_the_first_is_what_an_import_takes() -> None:
    first = torch("2.10.0", "cu128", "12.8").instances[0]
    second = replace(torch("2.4.0", "cu118", "11.8").instances[0], key="older")
    other = replace(first, environment="/b/bin/python")
    both = replace(torch(), instances=(first, second, other))
    assert [(one.copy.version, one.copy.environment) for one in builds(healthy(both))] == [
        ("2.10.0+cu128", PYTHON),
        ("2.10.0+cu128", "/b/bin/python"),
    ]


@pytest.mark.parametrize(
    ("build", "cuda", "wanted"),
    [
        ("cu128", None, CudaVersion(12, 8)),
        ("cu92", None, CudaVersion(9, 2)),
        ("cuda13", None, CudaVersion(13)),
        ("cu128", "12.6", CudaVersion(12, 6)),
    ],
)
def test_the_cuda_version_of_a_build_is_its_own_word_else_its_tag(
    build: str, cuda: str | None, wanted: CudaVersion
) -> None:
    (seen_,) = builds(healthy(torch("2.9.0", build, cuda, accelerator="cuda")))
    assert seen_.cuda == wanted


def test_gpus_that_programs_do_not_see_count_for_no_build() -> None:
    two = seen("gpu", gpu(), gpu("NVIDIA GeForce GTX 1080", "6.1", "0000:02:00.0"))
    assert capabilities(healthy(two)) == (ComputeCapability(9, 0),)
    blind = healthy(two, libcuda(cc=None))
    assert capabilities(blind) == (ComputeCapability(9, 0), ComputeCapability(6, 1))


def test_the_npu_of_a_processor_is_not_a_gpu() -> None:
    unit = pci("intel_vpu", "0x7d1d", vendor="intel", **{"class": "0x120000"})
    facts = machine(seen("pci-display", unit))
    assert on_bus(facts, "intel") == ()
    assert any_gpu(facts) is False
    assert facts.components[0].status is Status.PRESENT


def gone(said: dict[str, Any], name: str) -> None:
    said["components"].remove(part(said, name))


def denied(said: dict[str, Any], name: str) -> None:
    part(said, name).update(status="unknown", reason="permission denied", instances=[], facts={})


def timed_out(said: dict[str, Any], name: str) -> None:
    part(said, name).update(status="failed", reason="gave no answer in 8.0 s", instances=[], facts={})


def blank(said: dict[str, Any], name: str) -> None:
    """Leave the last copy without any fact."""
    part(said, name)["instances"][-1]["facts"] = {}
    part(said, name)["facts"] = {}


def lacking(said: dict[str, Any], name: str) -> None:
    part(said, name)["instances"].pop()


WAYS = (gone, denied, timed_out, blank)
UNLEARNT = (
    *((way, name) for way in WAYS for name in ("nvml", "libcuda", "gpu", "nvlink")),
    *((way, name) for way in (denied, timed_out) for name in ("nvidia.ko", "nvidia-driver", "pci-display")),
    (lacking, "nvlink"),
)


@pytest.mark.parametrize("size", [recorded, eight])
@pytest.mark.parametrize(("way", "name"), UNLEARNT)
def test_what_was_not_learnt_of_a_machine_is_named_and_is_not_health(
    way: Callable[[dict[str, Any], str], None], name: str, size: Callable[[], dict[str, Any]]
) -> None:
    said = copy.deepcopy(size())
    way(said, name)
    made = report(facts(said))
    assert made.verdict.status is Health.UNKNOWN
    assert [one.component for one in made.findings if one.id == "component-not-seen"][:1] == [name]


@pytest.mark.parametrize("way", [gone, denied, blank])
@pytest.mark.parametrize("name", ["kernel-log", "linux-kernel"])
def test_what_was_not_read_for_lack_of_rights_is_named(way: Callable[[dict[str, Any], str], None], name: str) -> None:
    said = recorded()
    way(said, name)
    read = name == "linux-kernel" and way is blank
    assert [one.what for one in report(facts(said)).not_seen] == ([] if read else [name])


def test_a_log_that_was_denied_is_named_once() -> None:
    said = recorded()
    part(said, "kernel-log")["instances"][0]["facts"] = {"readable": False, "why": "/dev/kmsg: permission denied"}
    assert [one.why for one in report(facts(said)).not_seen] == ["/dev/kmsg: permission denied"]
    said["not_seen"] = [{"what": "/dev/kmsg", "why": "permission denied", "enable_by": "run gpustack as root"}]
    assert [one.what for one in report(facts(said)).not_seen] == ["/dev/kmsg"]


def test_files_that_a_probe_had_no_time_to_read_are_listed_as_not_checked() -> None:
    read = {"key": "/site/one.so", "missing": [], "checked": 3}
    rest = {"key": "the rest", "status": "unknown", "why": "there was no time to read all library files"}
    lines = [(one.what, one.why) for one in report(healthy(seen("torch-extensions", read, rest))).not_seen]
    assert ("torch-extensions: the rest", "there was no time to read all library files") in lines
    everything = report(healthy(seen("torch-extensions", read)))
    assert not [one for one in everything.not_seen if one.what.startswith("torch-extensions")]
