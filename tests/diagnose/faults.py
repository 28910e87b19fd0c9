"""Faults to plant in a healthy machine: what is changed, the finding that must result, and the fact that it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.diagnose.machines import GPUS, OTHERS, add, add_ports, address, part, pci, put

RM = "NVRM: GPU {}: RmInitAdapter failed! (0x26:0x56:1482)"
GRAVE = "[Hardware Error]: event severity: fatal"
MCE = "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: be00000000800400"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault on the last GPU of this maker; ``whole``: it concerns the machine, and no single GPU can be named."""

    name: str
    finding: str
    fact: str
    plant: Callable[[dict[str, Any], int], None]
    whole: bool = False
    maker: str = "gpu"


def fact(finding: str, component: str, path: str, value: object) -> Fault:
    """Return a fault that is one fact of the last GPU."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        put(said, component, gpu, path, value)

    name, maker = f"{component} {path}={value}", component if component in OTHERS else "gpu"
    return Fault(name=name, finding=finding, fact=path.partition("[")[0], plant=plant, maker=maker)


def named(
    finding: str, fact_: str, *, whole: bool = False, maker: str = "gpu"
) -> Callable[[Callable[[dict[str, Any], int], None]], Fault]:
    """Return a decorator that makes a fault of a function that plants it."""

    def made(plant: Callable[[dict[str, Any], int], None]) -> Fault:
        return Fault(name=plant.__name__, finding=finding, fact=fact_, plant=plant, whole=whole, maker=maker)

    return made


def drop(said: dict[str, Any], name: str, gpu: int) -> None:
    """Remove one GPU from a component."""
    part(said, name)["instances"].pop(gpu)


def uncounted(said: dict[str, Any], gpu: int) -> None:
    """Make NVML, NVLink and CUDA miss a GPU."""
    drop(said, "gpu", gpu)
    drop(said, "nvlink", gpu)
    part(said, "nvml")["instances"][0]["facts"]["gpu_count"] -= 1
    part(said, "libcuda")["instances"][0]["facts"]["devices"].pop(gpu)


def write(said: dict[str, Any], *lines: str) -> None:
    """Add driver lines to the kernel log."""
    part(said, "kernel-log")["instances"][0]["facts"]["nvrm"] += lines


def machine(finding: str, component: str, layer: str, path: str, value: object) -> Fault:
    """Return a fault that is one fact of the machine."""

    def plant(said: dict[str, Any], _gpu: int) -> None:
        if not any(one["id"] == component and one["instances"] for one in said["components"]):
            said["components"] = [one for one in said["components"] if one["id"] != component]
            add(said, component, layer, {})
        put(said, component, 0, path, value)

    return Fault(name=f"{path}={value}", finding=finding, fact=path.partition("[")[0], plant=plant, whole=True)


def spread(said: dict[str, Any], component: str, path: str, value: object, count: int) -> None:
    """Set a fact on all GPUs of a machine, or once where it is the machine's own."""
    if component not in {*GPUS, *OTHERS}:
        machine("", component, component, path, value).plant(said, 0)
        return
    for number in range(count):
        put(said, component, number, path, value)


def clock(path: str, value: object) -> Fault:
    """Return a clock fault, on a machine that is neither virtual nor a container."""

    def plant(said: dict[str, Any], _gpu: int) -> None:
        said["host"].update(virtualisation=None, container=None)
        put(said, "linux-kernel", 0, f"clock.{path}", value)

    return Fault(name=path, finding="clock-not-synchronised", fact=f"clock.{path}", plant=plant, whole=True)


def port(path: str, value: object) -> Fault:
    """Return a fault that is one fact of the last of four ports of network cards."""

    def plant(said: dict[str, Any], _gpu: int) -> None:
        add_ports(said)
        held = part(said, "infiniband")["instances"][3]["facts"]
        if path.startswith("errors."):
            held = held["errors"]
        held[path.removeprefix("errors.")] = value

    return Fault(name=f"port {path}={value}", finding="rdma-port-degraded", fact=path, plant=plant, whole=True)


@named("gpu-missing", "GPUs of")
def gone_with_a_line_in_the_log(said: dict[str, Any], gpu: int) -> None:
    uncounted(said, gpu)
    write(said, RM.format(pci(gpu)))


@named("gpu-missing", "GPUs of")
def gone_from_nvml_without_a_word(said: dict[str, Any], gpu: int) -> None:
    uncounted(said, gpu)


@named("gpu-missing", "GPUs of CUDA")
def gone_from_nvml_without_a_word_on_any_bus(said: dict[str, Any], gpu: int) -> None:
    for name in ("gpu", "nvlink"):
        drop(said, name, gpu)
    part(said, "nvml")["instances"][0]["facts"]["gpu_count"] -= 1


@named("gpu-missing", "GPUs of")
def gone_from_the_bus_and_from_nvml(said: dict[str, Any], gpu: int) -> None:
    uncounted(said, gpu)
    drop(said, "pci-display", gpu)


@named("gpu-missing", "GPUs of")
def gone_from_everywhere_but_the_log(said: dict[str, Any], gpu: int) -> None:
    gone_from_the_bus_and_from_nvml.plant(said, gpu)
    part(said, "nvidia.ko")["instances"][0]["facts"]["gpus"].pop(gpu)
    write(said, RM.format(pci(gpu)))


@named("gpu-missing", "GPUs of")
def without_a_driver_on_the_bus(said: dict[str, Any], gpu: int) -> None:
    uncounted(said, gpu)
    put(said, "pci-display", gpu, "driver", None)


@named("gpu-missing", "GPUs of")
def gone_from_cuda(said: dict[str, Any], gpu: int) -> None:
    part(said, "libcuda")["instances"][0]["facts"]["devices"].pop(gpu)


@named("gpu-missing", "GPUs of")
def gone_from_cuda_that_is_shown_all(said: dict[str, Any], gpu: int) -> None:
    held = part(said, "libcuda")["instances"][0]["facts"]
    held["visible"] = ",".join(map(str, range(len(held["devices"]))))
    held["devices"].pop(gpu)


@named("gpu-missing", "gpu_count", whole=True)
def counted_once_less(said: dict[str, Any], _gpu: int) -> None:
    part(said, "nvml")["instances"][0]["facts"]["gpu_count"] -= 1


@named("gpu-not-answering", "status")
def no_handle(said: dict[str, Any], gpu: int) -> None:
    found = {"index": gpu, "code": 999, "error": "NVMLError_Unknown: Unknown Error"}
    part(said, "gpu")["instances"][gpu].update(key=f"index {gpu}", status="failed", facts=found)


@named("gpu-not-answering", "status")
def no_answer_to_any_question(said: dict[str, Any], gpu: int) -> None:
    part(said, "gpu")["instances"][gpu]["status"] = "failed"
    put(said, "gpu", gpu, "error", "NVMLError_Unknown: Unknown Error")


@named("gpu-sensor-error", "unavailable[temperature.gpu_c]")
def sensors_that_err(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "temperature.gpu_c", None)
    held = part(said, "gpu")["instances"][gpu]["facts"]["unavailable"]
    held.update({"temperature.gpu_c": "NVMLError_Unknown: Unknown Error", "power.watts": "NVMLError_Unknown: ERR!"})


@named("gpu-missing", "GPUs of")
def gone_from_the_bus_alone(said: dict[str, Any], gpu: int) -> None:
    said["host"]["container"] = None
    drop(said, "pci-display", gpu)


@named("fabric-state", "fabric.cluster")
def another_cluster(said: dict[str, Any], gpu: int) -> None:
    for number in range(gpu + 1):
        put(said, "gpu", number, "fabric.cluster", "b" if number == gpu else "a")


@named("nvlink-inactive", "links[")
def all_links_down(said: dict[str, Any], gpu: int) -> None:
    held = part(said, "nvlink")["instances"][gpu]["facts"]
    held["active"] = 0
    for one in held["links"]:
        one["active"] = False


@named("nvlink-inactive", "active")
def some_links_down_where_one_gpu_is_listed(said: dict[str, Any], gpu: int) -> None:
    held = part(said, "nvidia.ko")["instances"][0]["facts"]
    for number in reversed(range(gpu)):
        uncounted(said, number)
        drop(said, "pci-display", number)
        held["gpus"].pop(number)
    part(said, "nvlink")["instances"][0]["facts"]["active"] -= 3


@named("gpu-memory-held", "memory.used_mib")
def memory_of_nobody(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "memory.used_mib", 61440)


@named("pcie-link-degraded", "pcie.generation")
def a_slow_link_under_load(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "throttle", {"mask": 4, "reasons": ["sw_power_cap"]})
    put(said, "gpu", gpu, "pcie.generation", 3)


@named("pcie-link-degraded", "link.speed")
def a_slow_slot_under_load(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "throttle", {"mask": 4, "reasons": ["sw_power_cap"]})
    put(said, "pci-display", gpu, "link.speed", 16.0)


@named("nvml-slow", "calls[nvmlDeviceGetCount]", whole=True)
def a_call_of_seconds(said: dict[str, Any], _gpu: int) -> None:
    part(said, "gpu")["calls"].append({"name": "nvmlDeviceGetCount", "seconds": 6.2, "outcome": "ok"})


@named("nvml-slow", "calls[nvmlInit]", whole=True)
def a_start_of_seconds(said: dict[str, Any], _gpu: int) -> None:
    part(said, "nvml")["calls"].append({"name": "nvmlInit", "seconds": 9.5, "outcome": "ok"})


@named("gpu-clocks-low", "clocks.memory_mhz")
def slow_memory_under_load(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "throttle", {"mask": 4, "reasons": ["sw_power_cap"]})
    put(said, "gpu", gpu, "clocks.memory_mhz", 1593)


@named("gpu-clocks-low", "clocks.application_sm_mhz")
def application_clocks_below_the_default(said: dict[str, Any], gpu: int) -> None:
    for number in range(gpu + 1):
        put(said, "gpu", number, "clocks.application_sm_mhz", 1200 if number == gpu else 1980)
        put(said, "gpu", number, "clocks.default_application_sm_mhz", 1980)


@named("gpu-clocks-low", "clocks.application_memory_mhz")
def application_clocks_of_the_memory_below_the_default(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "clocks.application_memory_mhz", 1593)
    put(said, "gpu", gpu, "clocks.default_application_memory_mhz", 3201)


@named("sibling-differs", "clocks.application_sm_mhz")
def an_application_clock_of_its_own(said: dict[str, Any], gpu: int) -> None:
    for number in range(gpu + 1):
        put(said, "gpu", number, "clocks.application_sm_mhz", 1755 if number == gpu else 1980)


@named("gpu-clocks-low", "clocks.sm_mhz")
def slow_for_no_reason(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "throttle", {"mask": 0, "reasons": []})


@named("gpu-clocks-low", "performance_state")
def in_a_low_performance_state_under_load(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "throttle", {"mask": 4, "reasons": ["sw_power_cap"]})
    put(said, "gpu", gpu, "performance_state", 8)


@named("gpu-not-answering", "unavailable")
def links_that_do_not_answer(said: dict[str, Any], gpu: int) -> None:
    held = part(said, "nvlink")["instances"][gpu]["facts"]
    held["unavailable"]["errors.replay"] = "link 0: NVMLError_GpuIsLost: GPU is lost"


@named("nvlink-inactive", "answering")
def half_of_the_links_without_an_answer(said: dict[str, Any], gpu: int) -> None:
    for one in part(said, "nvlink")["instances"][gpu]["facts"]["links"][:9]:
        one["active"] = None


@named("gpu-missing", "GPUs of the device nodes")
def a_device_node_that_is_closed(said: dict[str, Any], gpu: int) -> None:
    said["host"]["container"] = None
    (node,) = (
        one for one in part(said, "nvidia.ko")["instances"][0]["facts"]["nodes"] if one["path"] == f"/dev/nvidia{gpu}"
    )
    node.update(readable=False, writable=False)


@named("gpu-missing", "GPUs of CUDA")
def no_gpu_for_cuda_that_starts(said: dict[str, Any], _gpu: int) -> None:
    part(said, "libcuda")["instances"][0]["facts"]["devices"] = []


@named("gpu-missing", "gpu_count", whole=True)
def counted_more_than_described(said: dict[str, Any], _gpu: int) -> None:
    part(said, "nvml")["instances"][0]["facts"]["gpu_count"] += 1


@named("gpu-fell-off-bus", "xids")
def an_xid_that_the_gpu_alone_has(said: dict[str, Any], gpu: int) -> None:
    held = part(said, "gpu")["instances"][gpu]["facts"]
    held["xids"] = [{"pci": pci(gpu), "code": 79, "text": "GPU has fallen off the bus.", "seconds": 10.0}]


@named("gpu-hw-slowdown", "throttle.reasons")
def a_mask_that_is_not_spelled_out(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "throttle", {"mask": 0x88, "reasons": None})


@named("pin-violated", "pins.torch.triton", whole=True)
def another_triton_than_torch_pins(said: dict[str, Any], _gpu: int) -> None:
    part(said, "pytorch")["instances"][0]["facts"]["installed"]["triton"] = "3.2.0"


@named("driver-library-mismatch", "version", whole=True)
def a_libcuda_of_another_release(said: dict[str, Any], _gpu: int) -> None:
    part(said, "libcuda")["instances"][0]["version"] = "570.124.06"


@named("driver-library-mismatch", "version", whole=True)
def an_nvml_library_of_another_release(said: dict[str, Any], _gpu: int) -> None:
    part(said, "libnvidia-ml")["instances"][0]["version"] = "570.124.06"


@named("gpu-overheat", "temperature.gpu_c")
def hot_and_nobody_says_when_it_slows_down(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "temperature", {"gpu_c": 91, "shutdown_c": 95})


@named("gpu-overheat", "temperature.margin_c")
def less_margin_than_it_should_keep(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "temperature.margin_c", 9)
    put(said, "gpu", gpu, "temperature.gpu_max_margin_c", 15)


@named("gpu-clocks-low", "clocks.sm_mhz")
def clocks_that_a_setting_holds_down(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "throttle", {"mask": 2, "reasons": ["applications_clocks_setting"]})
    put(said, "gpu", gpu, "clocks.sm_mhz", 900)


@named("nvml-slow", "calls[cuInit]", whole=True)
def a_start_of_cuda_that_takes_half_a_minute(said: dict[str, Any], _gpu: int) -> None:
    part(said, "libcuda")["calls"].append({"name": "cuInit", "seconds": 25.0, "outcome": "ok"})


@named("gpu-missing", "GPUs of CUDA")
def listed_by_cuda_alone(said: dict[str, Any], gpu: int) -> None:
    said["host"]["container"] = None
    for name in ("gpu", "nvlink", "pci-display"):
        drop(said, name, gpu)
    part(said, "nvml")["instances"][0]["facts"]["gpu_count"] -= 1
    part(said, "nvidia.ko")["instances"][0]["facts"]["gpus"].pop(gpu)


@named("gpu-missing", "GPUs of the device nodes")
def a_device_node_that_is_not_there(said: dict[str, Any], gpu: int) -> None:
    held = part(said, "nvidia.ko")["instances"][0]["facts"]
    held["nodes"] = [one for one in held["nodes"] if one["path"] != f"/dev/nvidia{gpu}"]


@named("bios-bar-setting", "largest_bar")
def small_windows_on_every_gpu(said: dict[str, Any], gpu: int) -> None:
    for number in range(gpu + 1):
        put(said, "pci-display", number, "bars", [{"bytes": 16 << 20}, {"bytes": 256 << 20}])


def manager(finding: str, fact_: str, version: str | None = None, **held: object) -> Fault:
    """Return a fabric manager fault on a machine with NVSwitches."""

    def plant(said: dict[str, Any], _gpu: int) -> None:
        add(said, "nvidia-fabricmanager", "driver", {"needed": True, "running": True, "joined": True, **held})
        part(said, "nvidia-fabricmanager")["instances"][0]["version"] = version

    return Fault(name=f"fabric manager {version} {held}", finding=finding, fact=fact_, plant=plant, whole=True)


def xid(code: int) -> Fault:
    """Return a fault that is one Xid of the last GPU."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        put(said, "kernel-log", 0, "xids", [{"pci": pci(gpu), "code": code, "text": "", "seconds": 10.0}])

    return Fault(name=f"Xid {code}", finding="gpu-xid", fact="xids", plant=plant)


def rate(name: str, finding: str, component: str, path: str, value: int) -> Fault:
    """Return a fault that is a counter too high for one hour of uptime, but not for a year."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        put(said, "linux-kernel", 0, "uptime_s", 3600.0)
        put(said, component, gpu, path, value)

    return Fault(name=name, finding=finding, fact=path.partition("[")[0], plant=plant)


RATES = (
    rate("replays in an hour", "pcie-errors", "gpu", "pcie.replays", 4000),
    rate("corrected link errors in an hour", "pcie-errors", "gpu", "pcie.correctable_errors", 4000),
    rate("AER in an hour", "pcie-errors", "pci-display", "aer.correctable", 4000),
    rate("corrected memory errors in an hour", "ecc-corrected-high", "gpu", "ecc.corrected_volatile", 40_000),
    rate("NVLink replays in an hour", "nvlink-error", "nvlink", "links[4].errors.replay", 60),
)


def imex(**held: object) -> Fault:
    """Return a fault of a rack's IMEX daemon."""

    def plant(said: dict[str, Any], _gpu: int) -> None:
        add(said, "nvidia-imex", "driver", {"needed": True, "running": True, "channels": 1, "domain": "UP", **held})

    (name,) = held
    return Fault(name=f"IMEX {held}", finding="imex-not-ready", fact=name, plant=plant, whole=True)


@named("gpu-far-from-network", "numa_node")
def no_network_card_at_its_processor(said: dict[str, Any], gpu: int) -> None:
    add_ports(said)
    for one in part(said, "infiniband")["instances"]:
        one["facts"].update(numa_node=0, bridges=["0000:64:02.0"])
    for number in range(gpu + 1):
        put(said, "pci-display", number, "numa_node", int(number == gpu))


@named("gpu-far-from-network", "bridges[")
def no_network_card_below_its_switch(said: dict[str, Any], gpu: int) -> None:
    add_ports(said)
    for one in part(said, "infiniband")["instances"]:
        one["facts"].update(bridges=["0000:70:00.0", "0000:64:02.0"])
    for number in range(gpu + 1):
        above = "0000:80:00.0" if number == gpu else "0000:70:00.0"
        put(said, "pci-display", number, "bridges", [{"pci": above}, {"pci": "0000:64:02.0"}])


@named("gpu-xid", "earlier_xids")
def an_xid_in_three_starts(said: dict[str, Any], gpu: int) -> None:
    put(said, "kernel-log", 0, "earlier_xids", [{"pci": pci(gpu), "code": 79, "starts": 3}])


@named("nvlink-error", "sxids", whole=True)
def an_sxid_of_a_switch(said: dict[str, Any], _gpu: int) -> None:
    text = "Fatal, Link 32 egress non-posted PRIV error"
    put(said, "kernel-log", 0, "sxids", [{"pci": "0000:c1:00.0", "code": 12028, "text": text, "seconds": 10.0}])


@named("nvlink-inactive", "listed", whole=True)
def switch(said: dict[str, Any], _gpu: int) -> None:
    add(said, "nvswitch", "hardware", {"on_bus": True, "listed": False})


@named("nvlink-inactive", "topology")
def no_nvlink_between_two(said: dict[str, Any], gpu: int) -> None:
    put(said, "nvlink", gpu, "topology", {f"0-{gpu}": {"read": "ok", "write": "ok", "nvlink": "not supported"}})


@named("nvlink-inactive", "topology")
def no_access_between_two(said: dict[str, Any], gpu: int) -> None:
    held = {"read": "chipset not supported", "write": "chipset not supported", "nvlink": "ok", "nvlinks": 18}
    put(said, "nvlink", gpu, "topology", {f"0-{gpu}": held})


@named("nvlink-inactive", "topology")
def fewer_links_between_two(said: dict[str, Any], gpu: int) -> None:
    put(said, "nvlink", gpu, "topology", {f"0-{gpu}": {"nvlinks": 6}})


OF_GPU = (
    ("gpu-ecc-error", "ecc.sram_uncorrected_aggregate", 4),
    ("gpu-ecc-error", "remap.banks.low", 1),
    ("ecc-corrected-high", "remap.banks.partial", 40),
    ("ecc-corrected-high", "remap.correctable", 200),
    *(("gpu-setting-pending", path, value) for path, value in (("ecc.pending", False), ("mig.pending", True))),
    ("ecc-off", "ecc.enabled", False),
    ("gpu-prohibited", "compute_mode", "prohibited"),
    ("driver-library-mismatch", "gsp_firmware", "570.124.06"),
    *(("pcie-link-degraded", f"pcie.max_{name}", value) for name, value in (("width", 8), ("generation", 4))),
    ("gpu-sensor-error", "power.watts", 4_000.5),
    ("gpu-recovery-needed", "recovery_action", 1),
    *(("gpu-ecc-error", path, True) for path in ("remap.failed", "remap.pending", "retired.pending")),
    *(("gpu-ecc-error", f"repair.{which}_pending", True) for which in ("channel", "tpc")),
    ("gpu-ecc-error", "ecc.sram_threshold_exceeded", True),
    ("gpu-ecc-error", "ecc.uncorrected_volatile", 3),
    ("gpu-ecc-error", "ecc.sram_uncorrected_volatile", 1),
    ("gpu-ecc-error", "remap.uncorrectable", 512),
    ("gpu-ecc-error", "remap.banks.none", 2),
    ("gpu-ecc-error", "retired.double_bit", 16),
    ("gpu-ecc-error", "retired.single_bit", 63),
    ("ecc-corrected-high", "ecc.corrected_volatile", 60_000_000),
    ("ecc-corrected-high", "ecc.corrected_aggregate", 60_000_000),
    *(("ecc-corrected-high", f"ecc.sram_corrected_{when}", 20_000) for when in ("volatile", "aggregate")),
    *(("gpu-overheat", f"throttle.since_load_{name}_therm_slowdown", 90_000_000_000) for name in ("sw", "hw")),
    ("gpu-hw-slowdown", "throttle.since_load_hw_power_brake_slowdown", 5_000_000_000),
    ("inforom-corrupted", "inforom.valid", False),
    ("gpu-overheat", "temperature.gpu_c", 96),
    ("gpu-overheat", "temperature.gpu_c", 88),
    ("gpu-overheat", "throttle.reasons", ["hw_thermal_slowdown", "hw_slowdown"]),
    ("gpu-hw-slowdown", "throttle.reasons", ["hw_power_brake_slowdown"]),
    ("gpu-overheat", "temperature.gpu_c", 84),
    ("gpu-overheat", "temperature.margin_c", 1),
    ("gpu-memory-hot", "temperature.memory_c", 104),
    ("gpu-overheat", "throttle_ns.thermal", 90_000_000_000),
    ("gpu-hw-slowdown", "throttle_ns.board_limit", 5_000_000_000),
    ("gpu-hw-slowdown", "throttle_ns.reliability", 7_200_000_000_000),
    ("gpu-power-limited", "power.limit_watts", 350.0),
    ("gpu-sensor-error", "temperature.gpu_c", "ERR!"),
    ("gpu-sensor-error", "power.watts", "ERR!"),
    ("gpu-recovery-needed", "recovery_action_name", "gpu-reset"),
    ("gpu-ecc-error", "ecc.uncorrected_aggregate", 12),
    ("gpu-memory-held", "memory.reserved_mib", 40_000),
    ("fabric-state", "fabric.state", "in-progress"),
    ("fabric-state", "fabric.state", "not-started"),
    ("fabric-state", "fabric.status", 999),
    ("fabric-state", "fabric.health.degraded_bandwidth", True),
    ("fabric-state", "fabric.health.route_unhealthy", True),
    ("fabric-state", "fabric.health.route_recovery", True),
    ("fabric-state", "fabric.health.access_timeout", True),
    ("fabric-state", "fabric.health.incorrect_configuration", 2),
    ("pcie-link-degraded", "pcie.width", 8),
    ("pcie-errors", "pcie.replays", 500_000),
    ("pcie-errors", "pcie.fatal_errors", 1),
    ("pcie-errors", "pcie.nonfatal_errors", 2),
    ("pcie-errors", "pcie.correctable_errors", 200_000),
    ("persistence-mode-off", "persistence", False),
    *(("gpu-sensor-error", path, value) for path in ("power.watts", "clocks.sm_mhz") for value in (0, None)),
    *(("gpu-sensor-error", "temperature.gpu_c", value) for value in (-40, None)),
    ("gpu-sensor-error", "memory.total_mib", None),
    ("fabric-state", "fabric.state", "not-supported"),
    *(("gpu-sensor-error", "temperature.memory_c", value) for value in (0, None)),
    ("gpu-sensor-error", "clocks.memory_mhz", 0),
    ("gpu-sensor-error", "clocks.sm_mhz", 345_000),
    ("gpu-sensor-error", "power.watts", -5.0),
    *(("pcie-link-degraded", f"pcie.{name}", 0) for name in ("width", "generation")),
    ("gpu-overheat", "temperature.margin_c", -3),
    *(("persistence-mode-off", "persistence", value) for value in (0, "Disabled")),
    ("fabric-state", "fabric.state", None),
    ("fabric-state", "fabric.clique", None),
)
# What a tool or a broken driver writes where a number belongs.
OF_WORDS = (
    *(("temperature.gpu_c", words) for words in ("[Unknown Error]", "[GPU requires reset]", "[N/A]")),
    *(("power.watts", words) for words in ("Unknown Error", "[N/A]")),
    *((path, "ERR!") for path in ("clocks.sm_mhz", "memory.used_mib", "pcie.width", "temperature.memory_c")),
    *((path, "ERR!") for path in ("ecc.uncorrected_volatile", "performance_state", "remap.pending")),
    ("ecc.uncorrected_volatile", "3"),
)
OF_SLOT = (("aer.fatal", 1), ("aer.nonfatal", 4), ("aer.correctable", 123_456))
OF_LINK = (
    ("active", False),
    *(("errors.effective", 5000), ("errors.effective_ber", 1e-6), ("errors.symbol", 90_000_000)),
    ("speed_gbps", 10.0),
    *((f"errors.{name}", 5000) for name in ("recovery", "recovery_failed", "recovery_succeeded", "replay")),
    *((f"errors.{name}", 5000) for name in ("receive", "malformed_packet", "buffer_overrun", "integrity")),
    *((f"errors.{name}", 4_000_000) for name in ("crc_flit", "crc_data")),
)
OF_SIBLING = (
    *(("vbios", "96.00.89.00.01"), ("gsp_firmware", "570.124.06"), ("clocks.max_sm_mhz", 1755)),
    *(("clocks.max_memory_mhz", 2619), ("memory.total_mib", 81559), ("ecc.enabled", False), ("nvlinks", 12)),
    *(("memory.bus_width_bits", 5120), ("pcie.max_generation", 4), ("pcie.max_width", 8)),
    ("power.default_limit_watts", 650.0),
    *(("power.max_limit_watts", 600.0), ("power.min_limit_watts", 300.0), ("cores", 14592)),
    ("temperature.slowdown_c", 87),
    *((path, None) for path in ("vbios", "gsp_firmware", "nvlinks")),
)
OF_PORT = (
    *(("state", "DOWN"), ("state", "INIT"), ("physical", "LinkErrorRecovery"), ("rate_gbps", 200.0)),
    *(("firmware", "28.36.1010"), ("lanes", 8)),
    *((f"errors.{name}", 5000) for name in ("link_downed", "link_error_recovery", "symbol_error")),
    *((f"errors.{name}", 5000) for name in ("port_rcv_errors", "local_link_integrity_errors")),
    ("errors.excessive_buffer_overrun_errors", 5000),
    *(("max_lanes", 8), ("state", None), ("firmware", None)),
)


def in_cuda(finding: str, path: str, value: object) -> Fault:
    """Return a fault that is one fact of the last GPU as CUDA reports it."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        put(said, "libcuda", 0, f"devices[{gpu}].{path}", value)

    return Fault(name=f"cuda {path}={value}", finding=finding, fact=f"cuda.{path}", plant=plant)


@named("gpu-missing", "GPUs of the kernel module")
def gone_from_the_module_alone(said: dict[str, Any], gpu: int) -> None:
    """Let the kernel module list one GPU less than NVML, on a machine that is not a container."""
    said["host"]["container"] = None
    part(said, "nvidia.ko")["instances"][0]["facts"]["gpus"].pop(gpu)


@named("sibling-differs", "largest_bar")
def a_small_window_on_the_bus(said: dict[str, Any], gpu: int) -> None:
    """Give a GPU a memory window of 256 MiB, as without Resizable BAR."""
    put(said, "pci-display", gpu, "bars", [{"bytes": 16 << 20}, {"bytes": 256 << 20}])


OF_CUDA = (
    ("sibling-differs", "attributes.sms", 66),
    ("sibling-differs", "attributes.clock_khz", 345_000),
    ("sibling-differs", "attributes.l2_bytes", 31_457_280),
    ("sibling-differs", "attributes.bus_width_bits", 3072),
    ("sibling-differs", "attributes.ecc", 0),
    ("sibling-differs", "attributes.memory_bytes", 75_000_000_000),
    ("driver-library-mismatch", "attributes.memory_bytes", 75_000_000_000),
    ("driver-library-mismatch", "cc", "8.0"),
    ("sibling-differs", "attributes.memory_clock_khz", 1_593_000),
)


def logs(
    finding: str, where: str, line: str, fact_: str | None = None, maker: str = "gpu", *, whole: bool = False
) -> Fault:
    """Return a fault that is one line of the kernel's log, with the address of the last GPU in it."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        place = address(said, gpu, maker)
        held = part(said, "kernel-log")["instances"][0]["facts"]
        held[where] = [*held.get(where, ()), line.format(pci=place, short=place.partition(":")[2])]

    return Fault(name=line, finding=finding, fact=fact_ or where, plant=plant, whole=whole, maker=maker)


def links(change: dict[str, Any], keep: int = 18) -> Callable[[dict[str, Any], int], None]:
    """Return what changes the last GPU's NVLinks, and keeps this many of them."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        held = part(said, "nvlink")["instances"][gpu]["facts"]
        held.update(links=held["links"][:keep], active=keep, total=keep)
        for one in held["links"]:
            one.update(change)

    return plant


@named("nvlink-inactive", "described")
def nvlinks_that_nobody_describes(said: dict[str, Any], gpu: int) -> None:
    drop(said, "nvlink", gpu)


@named("nvlink-inactive", "described")
def no_nvlink_component_on_a_joined_board(said: dict[str, Any], _gpu: int) -> None:
    part(said, "nvlink").update(status="absent", instances=[], facts={})


@named("nvlink-inactive", "nvlinks")
def no_nvlink_in_a_fabric(said: dict[str, Any], gpu: int) -> None:
    for number in range(gpu + 1):
        put(said, "gpu", number, "nvlinks", 0)


@named("gpu-memory-held", "unlisted_mib")
def memory_beyond_what_processes_hold(said: dict[str, Any], gpu: int) -> None:
    put(said, "gpu", gpu, "memory.used_mib", 100_000)
    put(said, "gpu", gpu, "processes", [{"pid": 4242, "kind": "compute", "used_mib": 40_000, "name": "python"}])


@named("rdma-port-degraded", "speed", whole=True)
def a_port_of_an_older_generation(said: dict[str, Any], _gpu: int) -> None:
    add_ports(said)
    for number, one in enumerate(part(said, "infiniband")["instances"]):
        one["facts"]["speed"] = "HDR" if number == 3 else "NDR"


@named("gpu-missing", "dxg", whole=True)
def no_device_of_wsl(said: dict[str, Any], _gpu: int) -> None:
    said["host"].update(wsl=True, container=None)
    put(said, "linux-kernel", 0, "dxg", value=False)


def unanswered(finding: str, why: str) -> Fault:
    """Return a fault that is a question of no weight that NVML could not answer for this reason."""
    return replace(fact(finding, "gpu", "unavailable.serial", why), fact="unavailable[serial]")


def absent(finding: str, name: str) -> Fault:
    """Return a fault that is a daemon which a machine outside of containers needs and does not have."""

    def plant(said: dict[str, Any], _gpu: int) -> None:
        said["host"]["container"] = None
        said["components"] = [one for one in said["components"] if one["id"] != name]
        add(said, name, "driver", {"needed": True})
        part(said, name)["instances"][0]["status"] = "absent"
        part(said, name)["status"] = "absent"

    return Fault(name=f"{name} is not installed", finding=finding, fact="status", plant=plant, whole=True)


def bridge(fact_: str, **held: object) -> Fault:
    """Return a fault of the upper of two bridges above the last GPU."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        well = {"speed": 32.0, "width": 16, "max_speed": 32.0, "max_width": 16}
        bridges = [{"pci": "0000:66:00.0", **well}, {"pci": "0000:64:00.0", **well, **held}]
        put(said, "pci-display", gpu, "bridges", bridges)

    return Fault(name=f"bridge {held}", finding="pcie-link-degraded", fact=fact_, plant=plant)


def imex_of(release: str) -> Fault:
    """Return a fault that is an IMEX daemon of this release."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        imex(running=True).plant(said, gpu)
        part(said, "nvidia-imex")["instances"][0]["version"] = release

    return Fault(name=f"IMEX of {release}", finding="imex-not-ready", fact="version", plant=plant, whole=True)


def module(finding: str, fact_: str, path: str, value: object, *, whole: bool = True) -> Fault:
    """Return a fault that is a fact of AMD's module."""

    def plant(said: dict[str, Any], _gpu: int) -> None:
        put(said, "amdgpu.ko", 0, path, value)

    return Fault(name=f"amdgpu {path}", finding=finding, fact=fact_, plant=plant, whole=whole, maker="amd-gpu")


@named("gpu-missing", "unknown", maker="amd-gpu", whole=True)
def a_node_of_a_gpu_that_nobody_lists(said: dict[str, Any], gpu: int) -> None:
    part(said, "amd-gpu")["instances"].pop(gpu)


@named("sibling-differs", "least_mbs", maker="amd-gpu")
def a_slow_link_of_infinity_fabric(said: dict[str, Any], gpu: int) -> None:
    place = address(said, gpu, "amd-gpu")
    for one in part(said, "infinity-fabric")["instances"][0]["facts"]["links"]:
        one["max_mbs"] = 25_000 if one["from"] == place else 50_000


@named("sibling-differs", "links", maker="amd-gpu")
def a_gpu_without_infinity_fabric(said: dict[str, Any], gpu: int) -> None:
    held, place = part(said, "infinity-fabric")["instances"][0]["facts"], address(said, gpu, "amd-gpu")
    held["links"] = [one for one in held["links"] if one["from"] != place]


def masked(name: str, value: str, maker: str) -> Fault:
    """Return a fault that is a variable which hides GPUs of AMD or Intel, or names some that do not exist."""
    fault = machine("cuda-visible-devices-invalid", "environment", "environment", f"variables.{name}", value)
    return replace(fault, maker=maker, fact="variables")


def on_windows(fault: Fault) -> Fault:
    """Return a fault on a Windows host, which has no sysfs, no device nodes and no kernel log."""
    absent = {"linux-kernel", "kernel-log", "nvidia.ko", "nvidia-uvm.ko", "pci-display", "nvidia-driver"}

    def plant(said: dict[str, Any], gpu: int) -> None:
        said["host"].update(
            os="Microsoft Windows Server 2022", kernel="10.0.20348", container=None, virtualisation=None
        )
        said["components"] = [one for one in said["components"] if one["id"] not in absent]
        fault.plant(said, gpu)

    return replace(fault, name=f"{fault.name} on Windows", plant=plant)


def below(**counted: int) -> Fault:
    """Return a fault that the port above the last GPU has counted, and the GPU itself has not."""

    def plant(said: dict[str, Any], gpu: int) -> None:
        put(said, "linux-kernel", 0, "uptime_s", 3600.0)
        well = {"speed": 32.0, "width": 16, "max_speed": 32.0, "max_width": 16}
        put(said, "pci-display", gpu, "bridges", [{"pci": "0000:66:00.0", **well, "aer": counted}])

    return Fault(name=f"port above {counted}", finding="pcie-errors", fact="bridges[0].aer", plant=plant)


@named("debug-variable-set", "NCCL_NET", whole=True)
def tcp_beside_infiniband(said: dict[str, Any], _gpu: int) -> None:
    add_ports(said)
    add(said, "environment", "environment", {"variables": {"NCCL_NET": "Socket"}})


@named("debug-variable-set", "NCCL_NET", whole=True)
def tcp_beside_infiniband_for_every_program(said: dict[str, Any], _gpu: int) -> None:
    add_ports(said)
    add(said, "environment", "environment", {"nccl_conf": {"NCCL_NET": "socket"}})


@named("gpu-missing", "listed", maker="intel-gpu")
def left_out_by_level_zero(said: dict[str, Any], _gpu: int) -> None:
    part(said, "level-zero")["instances"][0]["facts"]["drivers"][0]["devices"].pop()


OF_AMD = (
    *(("sibling-differs", f"link.max_{name}", 8) for name in ("speed", "width")),
    *(("gpu-sensor-error", path, 0.0) for path in ("temperature.junction_c", "power.watts")),
    ("gpu-sensor-error", "power.watts", 5000.0),
    ("gpu-overheat", "temperature", {"edge_c": 97.0, "edge_limit_c": 100.0}),
    *(("gpu-overheat", "temperature", {name: 111.0}) for name in ("edge_c", "junction_c")),
    ("ecc-corrected-high", "ras.corrected", 250_000),
    *(("gpu-overheat", "temperature.junction_c", 95.0), ("gpu-overheat", "temperature.memory_c", 90.0)),
    *(("pcie-link-degraded", "link.width", 8), ("pcie-link-degraded", "link.slot.width", 4)),
    *(("pcie-errors", "link.replays", 10_000), ("gpu-memory-held", "memory.vram_used_mib", 2048)),
    *(("gpu-missing", "kfd", False), ("gpu-missing", "driver", None), ("gpu-missing", "render", None)),
    *(("sibling-differs", path, value) for path, value in (("gfx", "gfx908"), ("vbios", "113-D67301-059"))),
    *(("sibling-differs", path, value) for path, value in (("compute_units", 96), ("max_clock_mhz", 1300))),
    *(("sibling-differs", path, value) for path, value in (("power.limit_watts", 150.0), ("partition_mode", "CPX"))),
    *(("sibling-differs", f"clocks.max_{name}_mhz", 1000) for name in ("core", "memory")),
    ("sibling-differs", "memory.vram_total_mib", 32_752),
)
OF_INTEL_FIRMWARE = (
    ("gpu-not-answering", "guc", "LOAD FAIL"),
    ("gpu-not-answering", "huc", "LOAD FAIL"),
    ("gpu-firmware-missing", "guc", "MISSING"),
)
OF_INTEL = (
    *(("gpu-missing", "driver", None), ("gpu-missing", "nodes[0].exists", False)),
    *(("pcie-link-degraded", "link.width", value) for value in (8, 4)),
    *(("sibling-differs", f"link.max_{name}", 8) for name in ("speed", "width")),
    *(("sibling-differs", "memory_bytes", 8 << 30), ("sibling-differs", "xe_cores", 16)),
    ("sibling-differs", "memory_window_bytes", 1 << 28),
)
# What NVIDIA's driver writes about a GPU that NVML describes as healthy.
OF_NVRM = (
    *("NVRM: GPU {pci}: RmInitAdapter failed! (0x62:0x40:2412)", "NVRM: GPU {pci}: request_irq() failed (-22)"),
    *("NVRM: GPU {pci}: rm_init_adapter failed, device minor number 1", "nvidia: probe of {pci} failed with error -1"),
    "NVRM: GPU {pci}: Failed to enable MSI; falling back to PCIe virtual-wire interrupts.",
    "NVRM: GPU {pci}: GPU does not have the necessary power cables connected.",
)
OF_DRIVER = (
    "NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7",
    *("NVRM: Going over RM unhandled interrupt threshold for irq 133", "NVRM: Can't find an IRQ for your NVIDIA card!"),
    "NVRM: rm_init_adapter failed for device bearing minor number 1",
    "NVRM: RmLogGpuCrash: RmLogGpuCrash: failed to save GPU crash data",
)
OF_AMDGPU = (
    "amdgpu {pci}: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
    *("amdgpu {pci}: amdgpu: GPU reset begin!", "amdgpu {pci}: amdgpu: PSP load tos failed!"),
    "amdgpu {pci}: amdgpu: ring comp_1.0.0 timeout, signaled seq=1, emitted seq=3",
    "amdgpu {pci}: amdgpu: SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x0000000F",
    "amdgpu {pci}: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
)
OF_HARDWARE = (
    "Memory failure: 0x1234567: recovery action for dirty LRU page: Recovered",
    "pcieport 0000:64:02.0: DPC: containment event, status:0x1f01 source:0x0000",
    "mce: CPU12: Package temperature above threshold, cpu clock throttled (total events = 812)",
    *("NMI: PCI system error (SERR) for reason a1 on CPU 0.", "Uhhuh. NMI received for unknown reason 21 on CPU 4."),
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
)
OF_INTEL_LOG = (
    "xe {pci}: [drm] *ERROR* CRITICAL: Xe has declared device {pci} as wedged.",
    "xe {pci}: [drm] GT0: Schedule disable failed to respond, guc_id=2",
    *(
        "xe {pci}: [drm] *ERROR* GT0: reset failed (-ETIMEDOUT)",
        "xe {pci}: probe with driver xe failed with error -110",
    ),
    "i915 {pci}: [drm] GPU HANG: ecode 12:1:85dffffb, in python [77]",
    "i915 {pci}: Device initialization failed (-5)",
)
DAEMONS = {"imex-not-ready": "nvidia-imex", "fabric-manager-not-running": "nvidia-fabricmanager"}
UNANSWERED = ("GpuIsLost", "ResetRequired", "IrqIssue", "Timeout", "InsufficientPower")
UNREAD = (
    *("temperature", "power", "memory", "clocks", "ecc", "throttle", "pcie", "remap"),
    *("temperature.gpu_c", "power.watts", "memory.total_mib", "clocks.sm_mhz"),
    *("ecc.enabled", "throttle.reasons", "pcie.width", "remap.failed"),
)
VARIABLES = {
    **dict.fromkeys(("CUDA_LAUNCH_BLOCKING", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE"), "1"),
    "CUDA_INJECTION64_PATH": "/opt/x/libinject.so",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_DEBUG": "TRACE",
    **dict.fromkeys(("CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "CUDA_CACHE_DISABLE"), "1"),
    **dict.fromkeys(("CUDA_DEVICE_WAITS_ON_EXCEPTION", "PYTORCH_NO_CUDA_MEMORY_CACHING"), "1"),
    "NVTX_INJECTION64_PATH": "/opt/x/libinject.so",
    **dict.fromkeys(("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"), "LOC"),
    **dict.fromkeys(("HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "AMD_SERIALIZE_COPY"), "1"),
    "HSA_ENABLE_SDMA": "0",
    "AMD_LOG_LEVEL": "3",
    "TRITON_INTERPRET": "1",
    **dict.fromkeys(("NEOReadDebugKeys", "ZE_ENABLE_VALIDATION_LAYER", "ZE_ENABLE_TRACING_LAYER"), "1"),
    "SYCL_PI_TRACE": "-1",
    "HSA_TOOLS_LIB": "/opt/x/libtool.so",
    "ONEAPI_DEVICE_SELECTOR": "opencl:cpu",
}
FAULTS = (
    *(value for value in list(globals().values()) if isinstance(value, Fault)),
    *(fact(finding, "gpu", path, value) for finding, path, value in OF_GPU),
    *(fact("pcie-errors", "pci-display", path, value) for path, value in OF_SLOT),
    *(
        replace(fact("fabric-state", "gpu", "fabric.health_mask", mask), fact="fabric.health.")
        for mask in (0b01, 0b10_01_10)
    ),
    *RATES,
    *(imex(**held) for held in ({"domain": "DOWN"}, {"domain": "FAILED"}, {"running": False}, {"channels": 0})),
    imex(replaced=True),
    *(xid(code) for code in (92, 157, 161, 999)),
    *(replace(fact("gpu-sensor-error", "gpu", path, words), name=f"{path}: {words}") for path, words in OF_WORDS),
    manager("fabric-manager-not-running", "running", running=False),
    manager("fabric-manager-version-mismatch", "version", "570.124.06"),
    *(machine("gpu-missing", "nvml", "driver", "gpu_count", value) for value in (None, "2")),
    machine("gpu-not-answering", "nvidia-uvm.ko", "kernel-module", "state", "going"),
    machine("debug-variable-set", "environment", "environment", "variables.NCCL_IB_DISABLE", " 01"),
    *(in_cuda(finding, path, value) for finding, path, value in OF_CUDA),
    *(fact("gpu-sensor-error", "gpu", path, None) for path in UNREAD),
    *(fact("pcie-link-degraded", "pci-display", "power_state", state) for state in ("D2", "D3hot", "error")),
    machine("driver-library-mismatch", "nvml", "driver", "driver_version", "570.124.06"),
    fact("pcie-link-degraded", "pci-display", "link.width", 8),
    fact("pcie-link-degraded", "pci-display", "link.width", 4),
    fact("bios-bar-setting", "pci-display", "bars[1].assigned", value=False),
    fact("nvlink-inactive", "nvlink", "active", 17),
    machine("driver-library-mismatch", "nvidia.ko", "kernel-module", "gpus[0].firmware", "570.124.06"),
    *(
        machine("driver-library-mismatch", f"nvidia-{name}.ko", "kernel-module", "version_loaded", "570.124.06")
        for name in ("uvm", "modeset", "drm", "peermem")
    ),
    *(
        machine("driver-library-mismatch", "nvidia-driver", "driver", name, "570.124.06")
        for name in ("libcuda", "libnvidia_ml")
    ),
    machine("gpu-not-answering", "nvidia.ko", "kernel-module", "state", "going"),
    *(
        machine("kernel-fault", "linux-kernel", "kernel", "taint_flags", [flag])
        for flag in ("died", "bad-page", "soft-lockup")
    ),
    *(
        fact("sibling-differs", "pci-display", f"link.{path}", value)
        for path, value in (("max_speed", 16.0), ("max_width", 8))
    ),
    machine("fabric-manager-version-mismatch", "nvidia-fabricmanager", "driver", "replaced", value=True),
    *(
        fact("nvlink-inactive" if path == "active" else "nvlink-error", "nvlink", f"links[4].{path}", value)
        for path, value in OF_LINK
    ),
    *(fact("sibling-differs", "gpu", path, value) for path, value in OF_SIBLING),
    fact("fabric-state", "gpu", "fabric.clique", 3),
    *(port(path, value) for path, value in OF_PORT),
    *(
        machine("debug-variable-set", "environment", "environment", f"variables.{name}", value)
        for name, value in VARIABLES.items()
    ),
    *(
        machine("debug-variable-set", "environment", "environment", f"{where}.NCCL_{name}", value)
        for where in ("variables", "nccl_conf")
        for name, value in (("PROTO", "LL,LL128"), ("MAX_NCHANNELS", "2"), ("MAX_CTAS", "1"))
    ),
    *(
        machine("debug-variable-set", "environment", "environment", f"nccl_conf.NCCL_{name}_DISABLE", "1")
        for name in ("P2P", "SHM", "IB")
    ),
    *(
        machine("debug-variable-set", "environment", "environment", f"nccl_conf.NCCL_{name}_LEVEL", "LOC")
        for name in ("P2P", "NET_GDR")
    ),
    machine("numa-balancing-on", "linux-kernel", "kernel", "numa_balancing", value=True),
    *(
        machine("cpu-governor-slow", "linux-kernel", "kernel", "cpu_governor", name)
        for name in ("powersave", "ondemand", "userspace")
    ),
    machine("clocksource-slow", "linux-kernel", "kernel", "clocksource", "hpet"),
    machine("host-hardware-fault", "linux-kernel", "kernel", "taint_flags", ["machine-check"]),
    machine("host-hardware-fault", "linux-kernel", "kernel", "edac", [{"controller": "mc0", "corrected": 90_000}]),
    machine("host-hardware-fault", "linux-kernel", "kernel", "edac", [{"controller": "mc1", "uncorrected": 1}]),
    machine("open-files-low", "limits", "environment", "open_files", 256),
    machine("nvlink-inactive", "nvidia.ko", "kernel-module", "parameters.NvLinkDisable", "1"),
    *(clock(path, value) for path, value in (("synchronised", False), ("max_error_s", 16.0))),
    machine("host-hardware-fault", "kernel-log", "kernel", "hardware_errors", [MCE]),
    machine("host-hardware-fault", "kernel-log", "kernel", "hardware_errors", [GRAVE]),
    *(fact("gpu-missing", "gpu", path, value) for path, value in (("uuid", "GPU-1"), ("index", 0), ("minor", 0))),
    *(unanswered("gpu-not-answering", f"NVMLError_{why}: it failed") for why in UNANSWERED),
    unanswered("inforom-corrupted", "NVMLError_CorruptedInforom: Corrupted infoROM"),
    fact("gpu-overheat", "gpu", "throttle.since_load_hw_therm_slowdown", 10_000_000_000),
    *(
        replace(fact("fabric-state", "gpu", "fabric.health_mask", mask), fact="fabric.health.")
        for mask in (0x2AA, 0x3AA)
    ),
    Fault(name="two NVLinks missing", finding="nvlink-inactive", fact="total", plant=links({}, 16)),
    Fault(name="slow NVLinks", finding="nvlink-error", fact="fastest", plant=links({"speed_gbps": 20.0})),
    Fault(name="older NVLinks", finding="nvlink-error", fact="newest", plant=links({"version": "3.0"})),
    *(bridge(f"bridges[1].{name}", **{name: value}) for name, value in (("width", 4), ("max_width", 8))),
    *(bridge(f"bridges[1].{name}", **{name: value}) for name, value in (("speed", 2.5), ("max_speed", 16.0))),
    *(absent(finding, name) for finding, name in DAEMONS.items()),
    imex_of("570.124.06"),
    *(logs("gpu-not-answering", "nvrm", line) for line in OF_NVRM),
    *(logs("gpu-not-answering", "nvrm", line, whole=True) for line in OF_DRIVER),
    logs("bios-bar-setting", "nvrm", "NVRM: BAR1 is 0M @ 0x0 (PCI:{pci})"),
    logs("nvlink-error", "nvrm", "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 32", whole=True),
    logs("pcie-errors", "iommu_faults", "DMAR: [DMA Read NO_PASID] Request device [{short}] fault addr 0xf7fe000000"),
    *(logs("host-hardware-fault", "hardware_errors", line, whole=True) for line in OF_HARDWARE),
    *(fact(finding, "amd-gpu", path, value) for finding, path, value in OF_AMD),
    replace(fact("gpu-ecc-error", "amd-gpu", "ras.blocks.umc.ue", 2), fact="ras.blocks[umc].ue"),
    *(logs("gpu-not-answering", "amdgpu", line, maker="amd-gpu") for line in OF_AMDGPU),
    logs("gpu-not-answering", "amdgpu", "amdgpu: qcm fence wait loop timeout expired", maker="amd-gpu", whole=True),
    module("gpu-missing", "nodes[", "nodes[1].exists", value=False),
    module("gpu-not-answering", "state", "state", "going"),
    module("gpu-not-answering", "not_started", "not_started", "smu -62"),
    module("gpu-not-answering", "stopped_ring", "stopped_ring", "gfx_0.0.0"),
    module("gpu-firmware-missing", "not_started", "not_started", "psp -2"),
    *(fact(finding, "intel-gpu", path, value) for finding, path, value in OF_INTEL),
    *(
        replace(fact(finding, "intel-gpu", f"firmware.{name}.state", state), fact=f"firmware[{name}].state")
        for finding, name, state in OF_INTEL_FIRMWARE
    ),
    *(below(**counted) for counted in ({"fatal": 1}, {"nonfatal": 2}, {"correctable": 12_000}, {"correctable": 3000})),
    masked("HIP_VISIBLE_DEVICES", "-1", "amd-gpu"),
    masked("ROCR_VISIBLE_DEVICES", "0,9", "amd-gpu"),
    masked("ZE_AFFINITY_MASK", "12.0", "intel-gpu"),
    *(logs("gpu-not-answering", "intel", line, maker="intel-gpu") for line in OF_INTEL_LOG),
    replace(fact("gpu-overheat", "intel-gpu", "clocks[0].slowed_by", "pl1, thermal"), fact="clocks[0].slowed_by"),
    logs("gpu-not-answering", "amdgpu", "amdgpu {pci}: amdgpu: GPU reset(3) failed", maker="amd-gpu"),
    *(on_windows(one) for one in (gone_from_cuda, gone_from_nvml_without_a_word_on_any_bus)),
    *(
        on_windows(fact(finding, "gpu", path, value))
        for finding, path, value in (
            ("gpu-ecc-error", "remap.failed", True),
            ("gpu-overheat", "temperature.gpu_c", 93),
            ("pcie-link-degraded", "pcie.width", 4),
            ("sibling-differs", "vbios", "96.00.89.00.01"),
            ("gpu-sensor-error", "power.watts", None),
        )
    ),
)
# Values just inside of a limit, and what an owner sets on purpose, on all GPUs: component, path and value of each.
HARMLESS: tuple[tuple[str, str, object], ...] = (
    *(("gpu", f"throttle.since_load_{name}", 36_000_000_000_000) for name in ("sw_power_cap", "sync_boost")),
    *(("gpu", "throttle", {"mask": mask, "reasons": [name]}) for mask, name in ((4, "sw_power_cap"), (1, "gpu_idle"))),
    *(("gpu", f"throttle.since_load_{name}_therm_slowdown", 900_000) for name in ("sw", "hw")),
    ("gpu", "throttle_ns", {"power": 10**15, "sync_boost": 10**14, "thermal": 0, "board_limit": 0, "reliability": 0}),
    *(("gpu", "temperature.gpu_c", 70), ("gpu", "temperature.memory_c", 85), ("gpu", "power.watts", 712.0)),
    *(("gpu", "ecc.corrected_volatile", 40), ("gpu", "remap.correctable", 2), ("gpu", "memory.used_mib", 600)),
    *(("gpu", "compute_mode", "exclusive-process"), ("gpu", "inforom.valid", None), ("gpu", "pcie.replays", 12)),
    ("gpu", "retired", {"single_bit": 2, "double_bit": 0, "pending": False}),
    ("gpu", "unavailable", {"serial": "NVMLError_NoPermission: Insufficient Permissions"}),
    *(("nvlink", "links[9].errors.effective_ber", 1.5e-254), ("nvlink", "links[9].errors.symbol", 900)),
    *(("pci-display", "aer", {"correctable": 4, "nonfatal": 0, "fatal": 0}), ("pci-display", "numa_node", -1)),
    *(("linux-kernel", "clocksource", name) for name in ("tsc", "kvm-clock", "arch_sys_counter")),
    *(("linux-kernel", "cpu_governor", name) for name in ("performance", "schedutil")),
    ("linux-kernel", "edac", [{"controller": "mc0", "corrected": 3, "uncorrected": 0}]),
    *(("environment", f"variables.{name}", "0") for name in ("CUDA_LAUNCH_BLOCKING", "NCCL_P2P_DISABLE")),
    *(("environment", "variables.NCCL_NET", "Socket"), ("environment", "variables.NCCL_P2P_LEVEL", "SYS")),
    *(("kernel-log", "earlier_xids", [{"pci": pci(1), "code": code, "starts": 1}]) for code in (79, 119)),
    ("kernel-log", "earlier_xids", [{"pci": pci(1), "code": 13, "starts": 3}]),
    *(("amd-gpu", "power.limit_watts", 250.0), ("amd-gpu", "partition_mode", "CPX"), ("amd-gpu", "link.speed", 2.5)),
    *(("amd-gpu", "temperature.junction_c", 75.0), ("amd-gpu", "ras.corrected", 12), ("amd-gpu", "link.replays", 3)),
    *(("intel-gpu", "clocks[0].slowed_by", "pl1"), ("intel-gpu", "link.speed", 2.5)),
    *(("intel-gpu", "driver", "vfio-pci"), ("intel-gpu", "memory_window_bytes", 8 << 30)),
)
# Masks that somebody chose, by the maker of the GPUs.
CHOSEN = (
    *(
        ("amd-gpu", "HIP_VISIBLE_DEVICES", "0"),
        ("amd-gpu", "ROCR_VISIBLE_DEVICES", "0,1"),
        ("gpu", "NCCL_IB_HCA", "mlx5"),
    ),
    *(("intel-gpu", "ZE_AFFINITY_MASK", "1"), ("intel-gpu", "ONEAPI_DEVICE_SELECTOR", "level_zero:gpu")),
    *(("intel-gpu", "ZE_AFFINITY_MASK", "default"), ("intel-gpu", "ONEAPI_DEVICE_SELECTOR", "*:gpu")),
)
