"""Rules about the driver's libraries, its initialisation, containers and the environment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack.model.report import Health, Severity
from tests.build import (
    driver,
    found,
    gpu,
    healthy,
    ids,
    kernel,
    libcuda,
    log,
    machine,
    merged,
    module,
    nvml,
    nvml_error,
    pci,
    report,
    roots,
    seen,
    torch,
    uvm,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts

MISMATCH = nvml_error(18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH")
COMPAT = "/usr/local/cuda-12.8/compat/libcuda.so.570.86.10"


def within(facts: Facts, container: str = "docker") -> Facts:
    return replace(facts, host=replace(facts.host, container=container))


def apart(loaded: str, disk: str | None, user: str = "580.95.05", *others: Component) -> Facts:
    return merged(
        healthy(torch()), module(loaded, disk), driver(user), MISMATCH, libcuda(init=803), seen("gpu"), *others
    )


@pytest.mark.parametrize(
    ("facts", "why", "command", "reboot"),
    [
        (apart("570.133.07", "580.95.05"), "the old module is still in memory", "sudo modprobe nvidia", False),
        (apart("570.133.07", "570.133.07"), "the module was not", "sudo dkms autoinstall", True),
        (apart("570.133.07", "575.57.08"), "no two parts are from the same release", "sudo dkms autoinstall", True),
        (within(apart("570.133.07", None)), "The container brings its own driver libraries", "docker run", False),
        (apart("570.133.07", None), "", "sudo modprobe nvidia", False),
    ],
)
def test_which_part_is_behind_says_what_to_do(facts: Facts, why: str, command: str, reboot: bool) -> None:  # noqa: FBT001 - a row
    finding = found(facts, "driver-library-mismatch")
    assert finding is not None
    assert why in finding.detail
    assert finding.fix is not None
    assert any(one.startswith(command) for one in finding.fix.commands)
    assert finding.fix.needs_reboot is reboot
    assert roots(facts) == ("driver-library-mismatch",)


def test_libraries_of_two_releases_are_two_installations() -> None:
    facts = apart("570.133.07", "570.133.07", "580.95.05", driver("580.95.05", libcuda="570.133.07"))
    finding = found(facts, "driver-library-mismatch")
    assert finding is not None
    assert "two installations" in finding.detail
    assert "580.95.05 and 570.133.07" in finding.title


def test_the_mismatch_names_both_releases_and_the_row_of_nvmls_error() -> None:
    finding = found(apart("520.56.06", "520.56.06", "525.85.12"), "driver-library-mismatch")
    assert finding is not None
    assert "520.56.06" in finding.title
    assert "525.85.12" in finding.title
    assert finding.row is not None
    assert finding.row.text.startswith("18 ")


def test_nvmls_word_alone_is_enough() -> None:
    facts = merged(healthy(), MISMATCH, driver(None), module(None, None), seen("pci-display", pci()), seen("gpu"))
    finding = found(facts, "driver-library-mismatch")
    assert finding is not None
    assert finding.title == "The loaded kernel module and the driver libraries are different releases"


def test_releases_that_differ_and_work_are_a_warning() -> None:
    finding = found(healthy(module("570.133.07"), driver("580.95.05")), "driver-library-mismatch")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    facts = healthy(module("570.133.07"))
    assert "driver-library-mismatch" not in ids(replace(facts, host=replace(facts.host, wsl=True)))


def test_nvml_that_does_not_start_is_its_own_root_when_nothing_explains_it() -> None:
    facts = healthy(nvml_error(999, "NVML_ERROR_UNKNOWN"), seen("gpu"), libcuda(init=304))
    assert roots(facts) == ("nvml-init-failed",)
    finding = found(facts, "nvml-init-failed")
    assert finding is not None
    assert finding.row is not None
    assert "999" in finding.title


def test_a_library_that_cannot_be_loaded_says_so_in_the_loaders_words() -> None:
    short = {"status": "failed", "error": "libnvidia-ml.so.1: file too short"}
    facts = healthy(
        seen("nvml", short), seen("gpu"), seen("libcuda", {**short, "error": "libcuda.so.1: file too short"})
    )
    for name in ("nvml-init-failed", "cuda-init-failed"):
        finding = found(facts, name)
        assert finding is not None
        assert "cannot be loaded" in finding.title
        assert "file too short" in finding.detail


def test_without_a_gpu_nothing_needs_to_start() -> None:
    facts = machine(
        kernel(), seen("pci-display"), nvml_error(9, "X"), libcuda(init=100), module(None, None), driver(None)
    )
    assert ids(facts) == set()


@pytest.mark.parametrize(("code", "finding"), [(803, "compat-libs-803"), (804, "forward-compat-804")])
def test_a_compat_library_that_cuda_refuses_is_the_root(code: int, finding: str) -> None:
    facts = healthy(libcuda(init=code, path=COMPAT, kind="compat"))
    assert roots(facts) == (finding,)
    seen_ = found(facts, finding)
    assert seen_ is not None
    assert "compat" in seen_.title
    assert seen_.row is not None


def test_error_803_without_a_compat_library_is_none_of_it() -> None:
    assert "compat-libs-803" not in ids(healthy(libcuda(init=803)))
    copy = {"real": "/usr/lib/x/libcuda.so.580", "kind": "compat"}
    assert "compat-libs-803" in ids(healthy(libcuda(init=803, path="/usr/lib/x/libcuda.so.580", copies=[copy])))


def test_an_unused_compat_folder_is_nothing_to_report() -> None:
    copies = [{"path": COMPAT, "real": COMPAT, "release": "570.86.10", "kind": "compat"}]
    assert ids(healthy(libcuda(copies=copies))) == set()


@pytest.mark.parametrize(
    ("others", "container", "word"),
    [
        ((seen("nvidia-fabricmanager"),), None, "is not running"),
        ((seen("nvidia-fabricmanager", {"running": False}),), None, "is not running"),
        ((), None, "does not seem to run"),
        ((seen("nvidia-fabricmanager"),), "docker", "on the host itself"),
    ],
)
def test_a_fabric_manager_that_was_not_seen_is_not_said_to_be_down(
    others: tuple[Component, ...], container: str | None, word: str
) -> None:
    facts = healthy(libcuda(init=802), *others)
    finding = found(within(facts, container) if container else facts, "fabric-manager-not-running")
    assert finding is not None
    assert word in finding.title


def test_a_fabric_that_is_not_ready_is_the_root() -> None:
    assert roots(healthy(libcuda(init=802))) == ("fabric-manager-not-running",)
    waiting = seen("gpu", gpu(fabric={"state": "in-progress"}))
    assert "fabric-manager-not-running" in ids(healthy(waiting, libcuda(init=3)))
    assert ids(healthy(waiting)) == set()  # a single working GPU has no peer to reach


@pytest.mark.parametrize(
    ("os_id", "command"),
    [
        ("ubuntu", "nvidia-fabricmanager-580"),
        ("rocky", "sudo dnf install nvidia-fabricmanager"),
        ("arch", "Install nvidia-fabricmanager"),
    ],
)
def test_the_fabric_manager_is_that_of_the_drivers_branch(os_id: str, command: str) -> None:
    finding = found(healthy(libcuda(init=802), kernel(os_id=os_id)), "fabric-manager-not-running")
    assert finding is not None
    assert finding.fix is not None
    assert any(command in one for one in (finding.fix.text, *finding.fix.commands))


def test_stubs_on_the_loaders_path_are_a_warning_and_an_error_when_taken() -> None:
    paths = {"LD_LIBRARY_PATH": ["/usr/local/cuda/lib64/stubs"], "LIBRARY_PATH": []}
    warned = found(healthy(libcuda(stub_on_path=paths)), "stub-on-loader-path")
    assert warned is not None
    assert warned.severity is Severity.WARNING
    taken = healthy(libcuda(init=34, path="/usr/local/cuda/lib64/stubs/libcuda.so", kind="stub", stub_on_path=paths))
    assert roots(taken) == ("stub-on-loader-path",)


def test_stubs_on_the_compilers_path_do_no_harm() -> None:
    paths = {"LD_LIBRARY_PATH": [], "LIBRARY_PATH": ["/usr/local/cuda/lib64/stubs"]}
    facts = healthy(libcuda(stub_on_path=paths))
    assert ids(facts) == {"stub-on-library-path"}
    assert roots(facts) == ()


def test_nvml_without_libcuda_is_a_driver_without_its_computing_part() -> None:
    facts = healthy(torch(), seen("libcuda"))
    assert roots(facts) == ("libcuda-missing",)
    for name, word in (
        ("ubuntu", "libnvidia-compute-580"),
        ("debian", "libcuda1"),
        ("rocky", "nvidia-driver-cuda"),
        ("gentoo", "Install nvidia-driver-cuda"),
    ):
        finding = found(merged(facts, kernel(os_id=name)), "libcuda-missing")
        assert finding is not None
        assert finding.fix is not None
        assert any(word in one for one in (finding.fix.text, *finding.fix.commands))
    finding = found(within(facts), "libcuda-missing")
    assert finding is not None
    assert finding.fix is not None
    assert "NVIDIA_DRIVER_CAPABILITIES" in finding.fix.commands[0]


def bare(container: str = "docker") -> Facts:
    parts = (module(disk=None, nodes=[]), driver(None), seen("nvml"), seen("libcuda"), seen("gpu"))
    return within(healthy(torch(), *parts), container)


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ("docker", ["docker run --rm --gpus all ubuntu nvidia-smi", "options: --gpus all", "[runners.docker]"]),
        ("podman", ["podman run --rm --device nvidia.com/gpu=all ubuntu nvidia-smi", "nvidia-ctk cdi generate"]),
        ("kubernetes", ["kubectl run gpu", '"nvidia.com/gpu":1', "device plugin"]),
        ("containerd", ["kubectl run gpu", '"nvidia.com/gpu":1']),
        ("apptainer", ["apptainer exec --nv docker://ubuntu nvidia-smi"]),
        ("singularity", ["apptainer exec --nv docker://ubuntu nvidia-smi"]),
        ("lxc", ["lxc config device add gpu-test gpu gpu", "nvidia.runtime=true", "Proxmox"]),
        ("systemd-nspawn", ["systemd-nspawn", "--bind=/dev/nvidia0"]),
        ("unknown", ["docker run --rm --gpus all ubuntu nvidia-smi"]),
    ],
)
def test_a_container_without_the_gpu_of_its_machine(container: str, words: list[str]) -> None:
    """How a container gets its GPUs, depending on what runs it: a command that shows it, and a CI job's own option."""
    finding = found(bare(container), "container-no-gpus-flag")
    assert finding is not None
    assert finding.fix is not None
    said = f"{finding.fix.text} {finding.fix.commands[0]}"
    assert [one for one in words if one not in said] == []
    assert roots(bare(container)) == ("container-no-gpus-flag",)


def test_a_container_that_has_nothing_for_a_gpu_is_not_a_fault() -> None:
    for facts in (merged(bare(), drop=["pytorch"]), merged(bare(), torch("2.11.0", "cpu", None))):
        made = report(facts)
        assert [(one.id, one.severity) for one in made.findings] == [("container-no-gpus-flag", Severity.INFO)]
        assert made.verdict.status is Health.NO_GPU


def test_a_libcuda_that_starts_and_tells_of_no_gpu_is_unusable() -> None:
    made = report(healthy(torch(), libcuda(error="cuDeviceGetCount: 999")))
    assert made.verdict.root_causes == ("cuda-init-failed",)
    assert made.verdict.works == {"pytorch": False}


def test_a_container_with_its_nodes_or_without_evidence_is_not_blamed() -> None:
    assert "container-no-gpus-flag" not in ids(within(healthy()))
    none = (seen("pci-display"), module(None, None), driver(None), seen("nvml"), seen("libcuda"), seen("gpu"))
    assert ids(within(healthy(torch(), *none))) == set()
    unknown = seen("nvidia.ko", {"loaded": True, "version_loaded": "580.95.05"})
    assert "container-no-gpus-flag" not in ids(within(healthy(unknown)))


def node(path: str = "/dev/nvidiactl", *, allowed: bool = True, opened: str = "ok") -> dict[str, object]:
    return {"path": path, "exists": True, "readable": allowed, "writable": allowed, "open": opened}


def test_a_container_that_lost_its_devices_is_told_from_one_that_may_not_open_them() -> None:
    broken = (nvml_error(999, "NVML_ERROR_UNKNOWN"), libcuda(init=999), seen("gpu"))
    lost = within(healthy(torch(), module(nodes=[node(opened="denied")]), *broken))
    assert roots(lost) == ("container-cgroup-lost-devices",)
    closed = healthy(torch(), module(nodes=[node(allowed=False, opened="denied")]), *broken)
    assert roots(closed) == ("device-nodes-not-accessible",)


def test_closed_nodes_do_no_harm_while_all_works() -> None:
    assert ids(healthy(module(nodes=[node(allowed=False)]))) == set()
    assert ids(healthy(uvm(nodes=[node("/dev/nvidia-uvm-tools", allowed=False)]))) == set()


@pytest.mark.parametrize(
    ("visible", "starts", "severity"),
    [
        ("2", False, Severity.ERROR),
        ("GPU-ffffffff", False, Severity.ERROR),
        ("the first", False, Severity.ERROR),
        ("0,1,5", True, Severity.WARNING),
        ("2", True, Severity.WARNING),
        ("", False, Severity.WARNING),
        ("-1", False, Severity.WARNING),
        ("-1,0", False, Severity.WARNING),
        ("0,-1", True, None),
        ("0,-1,7", True, None),
        ("0", True, None),
        (None, True, None),
        ("GPU-00000000", True, None),
        ("MIG-GPU-00000000", True, None),
    ],
)
def test_gpus_that_are_asked_for_must_be_there(
    visible: str | None,
    starts: bool,  # noqa: FBT001 - a row
    severity: Severity | None,
) -> None:
    facts = healthy(torch(), libcuda(init=0 if starts else 100, visible=visible))
    finding = found(facts, "cuda-visible-devices-invalid")
    assert (finding.severity if finding else None) is severity
    assert report(facts).verdict.works == {"pytorch": starts}
    assert not starts or report(facts).verdict.status is not Health.BROKEN


def test_all_gpus_hidden_is_one_root_and_a_warning() -> None:
    facts = healthy(libcuda(init=100, visible="-1"))
    assert roots(facts) == ("cuda-visible-devices-invalid",)
    finding = found(facts, "cuda-init-failed")
    assert finding is not None
    assert finding.severity is Severity.WARNING


def test_where_the_gpus_were_not_counted_nothing_is_said_of_those_asked_for() -> None:
    facts = merged(healthy(libcuda(visible="7")), seen("gpu"), seen("nvml"))
    assert "cuda-visible-devices-invalid" not in ids(facts)


def test_a_job_that_was_given_no_gpu_is_not_a_fault_and_has_none() -> None:
    def given_none(*nodes: dict[str, object], visible: str | None = None) -> Facts:
        none = (nvml(count=0), seen("gpu"), libcuda(init=100, visible=visible), torch("2.11.0", "cpu", None))
        return healthy(*none, module(nodes=[node(), *nodes] if nodes else []))

    shut = {**node("/dev/nvidia0", allowed=False), "mode": "0o666"}
    for facts in (given_none(shut), given_none(node("/dev/nvidia0"), visible="NoDevFiles")):
        made = report(facts)
        assert made.verdict.status is Health.NO_GPU
        assert [(one.id, one.severity) for one in made.findings] == [("gpu-not-listed", Severity.INFO)]
        assert "given no GPU" in made.findings[0].title
        assert report(within(facts)).verdict.root_causes == ()
    for failing in (given_none(node("/dev/nvidia0")), given_none({**shut, "mode": "0o660"}), given_none()):
        assert report(failing).verdict.status is Health.BROKEN


def test_a_mode_that_lets_everybody_in_is_not_what_refuses() -> None:
    broken = (nvml_error(999, "NVML_ERROR_UNKNOWN"), libcuda(init=999), seen("gpu"))
    shut = {**node(allowed=False, opened="denied"), "mode": "0o666"}
    assert roots(within(healthy(torch(), module(nodes=[shut]), *broken))) == ("container-cgroup-lost-devices",)


def test_a_gpu_that_could_not_be_brought_up_is_reported_in_the_drivers_words() -> None:
    line = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)"
    facts = healthy(torch(), nvml(count=0), seen("gpu"), libcuda(init=100), log(line))
    finding = found(facts, "gpu-not-listed")
    assert finding is not None
    assert finding.detail == line
    assert roots(facts) == ("gpu-not-listed",)
