"""What holds for every rule, whatever it covers, and that each can fire."""

from __future__ import annotations

import inspect
import io
import json
import re
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.evidence import OWN_INSTANCE
from gpustack.diagnose.machine.completing import complete
from gpustack.diagnose.rule import Rule, explain, explained_by, ids, rules
from gpustack.diagnose.rules import FAMILIES
from gpustack.imports import load
from gpustack.matrix import Matrix
from gpustack.model.facts import Call, Environment, Message
from gpustack.model.report import Purpose, Severity
from gpustack.snapshots import read
from tests.build import (
    PCI,
    PYTHON,
    driver,
    gpu,
    healthy,
    jax,
    libcuda,
    log,
    machine,
    merged,
    module,
    nvml,
    nvml_error,
    on,
    onnxruntime,
    pci,
    report,
    seen,
    torch,
    uvm,
)
from tests.counting import each
from tests.diagnose.faults import FAULTS
from tests.diagnose.machines import facts as of_json
from tests.diagnose.machines import of
from tests.recorded import facts_of
from tests.wide import WIDE, sample, wide
from tools import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Component, Facts
    from gpustack.model.report import Finding, Report

MATRIX = Matrix()
HOSTS = sorted((Path(__file__).parent.parent / "hosts").glob("*.json"))
IDS = set(ids())
COMPAT = "/usr/local/cuda/compat/libcuda.so.570.86.10"
CUDNN = "/usr/lib/libcudnn.so.9"
DENIED = {"path": "/dev/nvidiactl", "exists": True, "readable": True, "writable": True, "open": "denied"}


def xid(code: int) -> Facts:
    return healthy(log(xids=[{"pci": PCI, "code": code, "text": ""}]))


def unlisted(device: str, release: str, flavour: str) -> Facts:
    parts = (seen("pci-display", pci(device=device)), module(release, release, flavour=flavour), driver(release))
    return healthy(*parts, nvml(release, count=0), seen("gpu"), libcuda(init=100))


def out(*, holder: str | None = None, **module_facts: object) -> Facts:
    bare = (seen("pci-display", pci(holder)), uvm(None), nvml_error(9, "NOT_LOADED"), libcuda(init=100), seen("gpu"))
    return healthy(*bare, module(None, "580.95.05", **module_facts))


def cudnn(version: str, **facts: object) -> Facts:
    search = {"libcudnn.so.9": [{"step": "ld.so.cache", "path": CUDNN, "real": CUDNN}]}
    copy = {"key": CUDNN, "path": CUDNN, "version": version, **facts}
    return healthy(seen("cudnn", copy), torch(search=search, pins={"nvidia-cudnn-cu13": "9.19.0.56"}))


def within(facts: Facts) -> Facts:
    return replace(facts, host=replace(facts.host, container="docker"))


def cuda_python(core: str, bindings: str) -> Facts:
    first = seen("cuda-core", {"key": "cuda-core", "version": core, "environment": PYTHON})
    second = seen("cuda-bindings", {"key": "cuda-bindings", "version": bindings, "environment": PYTHON})
    return on("535.183.01", 12020, first, second)


def beside(chosen: Component) -> Facts:
    """Return a machine whose selected Python has this framework, and another Python that works."""
    copy = {"version": "2.11.0+cu130", "build": "cu130", "cuda": "13.0", "accelerator": "cuda", "archs": ["sm_90"]}
    made = seen("pytorch", {**copy, "environment": "/other/bin/python"})
    both = replace(chosen, instances=(*chosen.instances, *made.instances))
    other = Environment(python="/other/bin/python", kind="venv", prefix="/other", found=True)
    facts = healthy(both)
    return replace(facts, environments=(*facts.environments, other))


NARROW = pci(link={"width": 8, "max_width": 16})
OTHERS = pci("amdgpu", "0x74a1", "0000:03:00.0", "amd")
FAILED = seen(
    "dkms", {"key": "n", "module": "nvidia", "state": "failed", "for_running_kernel": True, "log_tail": "error"}
)
CLOSED = module(nodes=[{**DENIED, "readable": False}])
ERROR = nvml_error(999, "NVML_ERROR_UNKNOWN")
LINKER = {"by": "/v/libcusparse.so.12", "path": "/c/libnvJitLink.so.12", "lacking": ["__nvJitLinkComplete_12_4"]}
CUBLAS, NCCL = "/c/libcublas.so.12.1.0", "/c/libnccl.so.2.14.3"
FOUND = {path.partition(".so")[0][3:]: path for path in (CUBLAS, NCCL)}
SHADOWED = {f"{name}.so": [{"step": "LD_LIBRARY_PATH", "path": path, "real": path}] for name, path in FOUND.items()}
TWO = {
    "path": "/v/lib/libnvrtc.so.12",
    "owners": [{"name": "nvidia-x-cu11"}, {"name": "nvidia-x-cu12"}],
    "there": False,
}
PACKAGES = {"key": PYTHON, "environment": PYTHON, "distributions": {"cupy": "1", "cupy-cuda12x": "1"}}
PINNED = {**PACKAGES, "distributions": {"vllm": "0.11.0", "torch": "2.9.1"}, "pins": {"vllm": {"torch": "==2.8.0"}}}
SLOW = replace(libcuda(), calls=(Call(name="cuInit", seconds=9.5, outcome="ok"),))
ON_GPU = {"key": "pid 70", "pid": 70, "name": "python3", "used_mib": 612}
ENDED, WAITS = {"stuck": {"how": "ended", "heirs": []}}, {"stuck": {"how": "waits", "where": "uvm_va_space_destroy"}}
REPLACED = {"gone": [{"path": "/usr/lib/libcuda.so.550.54.15", "release": "550.54.15"}]}
CARDS = {"gpus": [{"pci": PCI, "domain": "DMA"}, {"pci": "0000:02:00.0"}]}
DEAD = {"key": "0000:03:00.0", "driver": "xe", "survivability": {"kind": "boot"}}  # an Intel GPU awaiting its firmware
GONE = {"icds": [{"file": "/etc/x.icd", "library": "libx.so.1"}]}
MACHINES = (
    machine(seen("intel-gpu", DEAD), *(seen(loader, {"key": "0", **GONE}) for loader in ("opencl", "vulkan"))),
    *(xid(code) for code in (13, 74)),
    machine(
        torch("2.8.0", "rocm6.4", None, hip="6.4.4", accelerator="rocm"),
        seen("hip", {"version": "7.0.1", "environment": PYTHON}),
    ),
    merged(on("550.54.15", 12040), seen("pci-display", pci(device="0x2b85")), drop=["gpu"]),
    healthy(torch(linker=LINKER)),
    healthy(torch(search=SHADOWED, pins={"nvidia-cublas-cu12": "12.4.5.8", "nvidia-nccl-cu12": "2.27.3"})),
    healthy(seen("packages", {**PACKAGES, "overwritten": [TWO]})),
    healthy(seen("iommu", CARDS)),
    within(healthy(torch(), seen("limits", {"shm_bytes": 1 << 26}))),
    healthy(seen("limits", {"memlock_bytes": 1 << 23, "may_lock": False, "rdma": ["mlx5_0"]})),
    healthy(SLOW, seen("gpu", gpu(persistence=False))),
    healthy(seen("packages", PINNED)),
    *(xid(code) for code in (48, 79, 119)),
    *(healthy(libcuda(init=code, path=COMPAT, kind="compat")) for code in (802, 803, 804, 999)),
    *(healthy(seen("gpu", gpu(throttle={"reasons": [f"hw_{why}_slowdown"]}))) for why in ("thermal", "power_brake")),
    unlisted("0x1b82", "590.48.01", "proprietary"),
    unlisted("0x2b85", "580.95.05", "proprietary"),
    unlisted("0x2684", "580.95.05", "open"),
    healthy(seen("pci-display", NARROW, OTHERS, pci("vfio-pci", at="0000:04:00.0"))),
    machine(seen("pci-display", OTHERS)),
    healthy(seen("gpu", gpu(mig={"enabled": True, "instances": []}, recovery_action=2))),
    healthy(seen("gpu", gpu(recovery_action=1))),
    out(vermagic="6.5.0"),
    out(holder="nova_core"),
    out(blacklisted=["/etc/modprobe.d/x.conf"]),
    merged(out(), FAILED, module(None, None)),
    merged(out(), module(None, None)),
    healthy(uvm(None), libcuda(init=999)),
    healthy(libcuda(stub_on_path={"LD_LIBRARY_PATH": ["/x/stubs"]})),
    *(healthy(libcuda(visible=visible)) for visible in ("9", "-1")),
    healthy(torch(), seen("libcuda")),
    within(healthy(torch(), seen("libcuda"))),
    within(healthy(module(nodes=[DENIED]), ERROR, libcuda(init=999), seen("gpu"))),
    healthy(CLOSED, ERROR, libcuda(init=999), seen("gpu")),
    healthy(ERROR, seen("gpu")),
    healthy(libcuda(init=3)),
    healthy(torch("2.11.0", "cpu", None), onnxruntime()),
    on("340.108", 6050, jax("cpu")),
    on("470.256.02", 11040, jax("cuda12"), cc="8.6"),
    on("535.183.01", 12020, jax("cuda13"), onnxruntime("cuda13", cuda="13"), torch()),
    on("580.95.05", 13000, torch("2.7.1", "cu128", "12.8", archs=["compute_80"])),
    on("535.183.01", 12020, torch("2.7.1", "cu128", "12.8", archs=["compute_80"])),
    on("535.183.01", 12020, torch("0.1", "cu128", "12.8", archs=["compute_80"]), cc="15.0"),
    on("580.95.05", 13000, torch(archs=["compute_80"]), cc="15.0"),
    on("580.95.05", 13000, torch(archs=["sm_75"]), cc="15.0"),
    on("535.183.01", 12020, seen("cuda-toolkit", {"key": "/c", "version": "13.0", "in_use": True})),
    cuda_python("1.0.0", "13.0.3"),
    cudnn("9.14.0"),
    cudnn("9.19.0", mixed=True),
    healthy(onnxruntime(distributions={"onnxruntime": "1", "onnxruntime-gpu": "1"})),
    healthy(jax("cuda12", "0.9.2", plugins={"jax-cuda12-plugin": "0.9.1"})),
    healthy(torch(exercise={"ran": True, "ok": False, "device": "cuda:0", "error": "x"})),
    healthy(onnxruntime(exercise={"ran": False, "ok": False, "error": "ImportError: x"})),
    healthy(seen("nvml", reason="gave no answer", status="failed")),
    replace(healthy(), messages=(Message(kind="mce", line="[Hardware Error]: Uncorrected", origin="dmesg"),)),
    *(healthy(seen("gpu-processes", {**ON_GPU, **more})) for more in (ENDED, WAITS, REPLACED)),
    replace(healthy(), taken="2028-01-01T00:00:00Z"),
    beside(torch("2.11.0", "cpu", None)),
    on("535.183.01", 12020, seen("image", {"variables": {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0"}})),
    healthy(torch("9.1.0", "cu140", "14.0"), seen("cuda-toolkit")),
)
# What no case and no machine above shows.
SAID = (
    b"nvcc fatal : Unsupported gpu architecture 'compute_35'\nCuda compilation tools, release 12.1, V12.1.66",
    b"Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9}",
    b"ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /env/lib/libx.so)",
    b"Failed to initialize NVML: Driver/library version mismatch\nRebooted, and it works again.",
)


def planted() -> Iterator[Facts]:
    """Yield a machine with a fault of each health finding and maker, or with each: test_health.py judges every one."""
    for fault in FAULTS if WIDE else {(one.finding, one.maker): one for one in FAULTS}.values():
        said = of(fault.maker, 2)
        fault.plant(said, 1)
        yield of_json(said)


@cache
def recorded() -> tuple[Facts, ...]:
    """Return every recorded or invented machine."""
    hosts = [read(json.dumps(json.loads(path.read_text("utf-8"))["facts"])) for path in HOSTS]
    return (*hosts, *(load(["-"], io.BytesIO(text), MATRIX) for text in SAID), *MACHINES)


@cache
def machines() -> tuple[Facts, ...]:
    """Return these and a sample of the pasted cases: test_cases.py judges each and checks the same."""
    return (*recorded(), *planted(), *map(facts_of, sample(cases.every(), 96)))


@cache
def judged() -> tuple[tuple[Facts, Report], ...]:
    """Return these machines and the report on each."""
    return tuple((facts, report(facts, Purpose.ANY)) for facts in machines())


@wide
@pytest.mark.timeout(400)
def test_every_rule_can_fire_and_what_it_finds_rests_on_facts() -> None:
    """Where the sample of cases is not enough, the rest are judged until each rule has fired."""
    fired = set()
    for _, made in judged():
        assert unsound(made) == []
        fired |= {finding.id for finding in made.findings}
    for case in sorted(cases.every(), key=lambda one: one.root_cause not in IDS - fired):
        if fired >= IDS:
            break
        fired |= {finding.id for finding in report(facts_of(case), Purpose.ANY).findings}
    assert fired == IDS


def unsound(made: Report) -> list[str]:
    """Return the findings of a report that are not sound, or that no rule makes."""
    return [one.key for one in made.findings if one.id not in IDS or not sound(one)]


def sound(finding: Finding) -> bool:
    """Return whether a finding rests on facts, is short, and, where it is the root, has a fix made of commands."""
    fix, row = finding.fix, finding.row
    assert finding.because
    assert all(ground.component and ground.fact for ground in finding.because)
    assert finding.title == finding.title.strip().removesuffix(".")
    assert len(finding.title) < 200
    if fix:
        assert fix.text.endswith(".")
        assert fix.commands or fix.verify or fix.text.count(". ")  # what no command can do is described in words
        assert fix.needs_root or not any("sudo " in command for command in fix.commands)
        assert fix.needs_reboot or not any("reboot" in command for command in fix.commands)
    if finding.caused_by:
        return fix is None
    needed = finding.severity in {Severity.ERROR, Severity.WARNING}
    return (fix is not None or not needed) and (row is None or bool(row.source and row.checked))


@each("finding", rules())
def test_a_rule_says_what_was_seen_why_it_hurts_and_what_to_do(finding: str) -> None:
    doc = explain(finding) or ""
    first, _, rest = doc.partition("\n\n")
    assert first.endswith(".")
    assert "\n" not in first
    assert len(re.findall(r"[.:;]", rest)) >= 2
    assert inspect.signature(rules()[finding].predicate).parameters.keys() in (
        {"facts", "matrix"},
        {"facts", "_matrix"},
    )


def test_an_id_is_that_of_one_rule() -> None:
    every = [one for family in FAMILIES for one in vars(import_module(f"gpustack.diagnose.rules.{family}")).values()]
    made = [one.id for one in {id(one): one for one in every if isinstance(one, Rule)}.values()]
    assert sorted(made) == sorted(rules())


@wide
def test_a_rule_about_messages_says_nothing_without_one() -> None:
    """On all recorded and invented machines; in CI on a sample of the cases."""
    for facts in machines():
        mute = complete(replace(facts, messages=()), MATRIX)
        assert [one.id for one in rules().values() if one.from_messages and list(one(mute, MATRIX))] == []


@each("finding", sorted(IDS))
def test_explain_gives_a_rules_own_words(finding: str) -> None:
    said = explain(finding)
    assert said is not None
    assert "\n\n" in said


@pytest.mark.parametrize("other", ["reading", "seen", "no-such-thing", "", "causes"])
def test_explain_knows_rules_alone(other: str) -> None:
    assert explain(other) is None


def test_causes_and_consequences_are_findings_that_exist() -> None:
    named = {*(cause for one in IDS for cause in explained_by(one)), *OWN_INSTANCE}
    assert named <= IDS
    assert "nouveau-loaded" in named


def test_no_finding_explains_itself_by_way_of_others() -> None:
    def behind(finding: str, before: frozenset[str]) -> None:
        assert finding not in before, f"{finding} explains itself"
        for cause in explained_by(finding):
            behind(cause, before | {finding})

    for finding in IDS:
        behind(finding, frozenset())
