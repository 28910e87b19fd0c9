"""Each NVIDIA GPU as NVML reports it: what it is, how it runs now, what has gone wrong on it, and who uses it.

A query that fails loses only its own fact. But two errors speak of the whole GPU, whatever was asked: it is lost, or it
must be reset.
"""

import ctypes
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

    Write = Callable[[Any], Any]

MOST_GPUS, MOST_MIGS, MOST_PROCESSES = 256, 64, 256  # what garbage in a count may cost
MIB = 1 << 20
NAMING = ("name", "uuid", "pci")
NO_INSTANCE = "NVMLError_NotFound"  # at this number; other results leave open whether there is one
CORRUPTED = "NVMLError_CorruptedInforom"
WHOLE = {"NVMLError_GpuIsLost": 15, "NVMLError_ResetRequired": 16}

BANKS = ("max", "high", "partial", "low", "none")
KINDS = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}
HEALTH = {"degraded_bandwidth": 0, "route_recovery": 2, "route_unhealthy": 4, "access_timeout": 6}


def named(words: str, start: int = 0) -> "Write":
    """Return what names a number, counted from ``start``; one that has no name yet is named by itself."""
    names = dict(enumerate(words.split(), start))
    return lambda number: names.get(number, str(number))


# As nvidia-ml-py counts them: NVML_DEVICE_ARCH_*, NVML_COMPUTEMODE_* and so on.
architecture = named("Kepler Maxwell Pascal Volta Turing Ampere Ada Hopper Blackwell", 2)
compute_mode = named("default exclusive-thread prohibited exclusive-process")
virtualisation = named("none passthrough vgpu host-vgpu host-vsga")
recovery = named("none gpu-reset node-reboot drain-p2p drain-and-reset recover-imex bus-reset system-reboot")
fabric_state = named("not-supported not-started in-progress completed")
event = named(
    "gpu_idle applications_clocks_setting sw_power_cap hw_slowdown sync_boost sw_thermal_slowdown hw_thermal_slowdown"
    " hw_power_brake_slowdown display_clock_setting"
)


def mebibytes(info: "Any") -> "Tuple[Optional[int], ...]":
    reserved = getattr(info, "reserved", None)
    return info.total // MIB, info.used // MIB, info.free // MIB, None if reserved is None else reserved // MIB


def watts(milliwatts: int) -> float:
    return milliwatts / 1000.0


def events(mask: int) -> "Tuple[int, List[str]]":
    """Return the mask of clock event reasons and the name of each; a bit without one is named in hexadecimal."""
    bits = [bit for bit in range(64) if mask >> bit & 1]
    return mask, [hex(1 << bit) if event(bit) == str(bit) else event(bit) for bit in bits]


def each(write: "Write") -> "Write":
    """Return what writes every part of an answer."""
    return lambda parts: [write(part) for part in parts]


def sram(record: "Any") -> "Tuple[Any, ...]":
    volatile = record.volatileUncParity + record.volatileUncSecDed
    aggregate = record.aggregateUncParity + record.aggregateUncSecDed
    return volatile, aggregate, record.volatileCor, record.aggregateCor, bool(record.bThresholdExceeded)


def fabric(record: "Any") -> "Facts":
    """Return the GPU's state in its NVLink fabric; the health mask has two bits a matter: 1 is yes, 2 is no."""
    start = type(record).clusterUuid.offset  # read as bytes: nvidia-ml-py before 13 takes them for text
    unit = bytes(record)[start : start + 16].hex()
    health = {matter: {1: True, 2: False}.get(record.healthMask >> shift & 3) for matter, shift in HEALTH.items()}
    return {
        "state": fabric_state(record.state),
        "status": record.status,
        "clique": record.cliqueId,
        "cluster": re.sub("(.{8})(.{4})(.{4})(.{4})(.{12})", r"\1-\2-\3-\4-\5", unit) if unit.strip("0") else None,
        "health_mask": record.healthMask,
        "health": dict(health, incorrect_configuration=record.healthMask >> 8 & 15),
    }


# The facts that an answer gives, the function (nvmlDeviceGet…), its arguments, and how the answer is written. A second
# row for the same facts is asked where the first had no answer: it is what older drivers know.
QUESTIONS = (
    ("uuid", "UUID", (), None),
    ("name", "Name", (), None),
    ("minor", "MinorNumber", (), int),
    ("architecture", "Architecture", (), architecture),
    ("cc", "CudaComputeCapability", (), lambda pair: "%d.%d" % tuple(pair)),
    ("cores", "NumGpuCores", (), int),
    ("vbios", "VbiosVersion", (), None),
    ("gsp_firmware", "GspFirmwareVersion", (), None),
    ("virtualisation_mode", "VirtualizationMode", (), virtualisation),
    ("persistence", "PersistenceMode", (), bool),
    ("compute_mode", "ComputeMode", (), compute_mode),
    ("performance_state", "PerformanceState", (), int),
    ("memory.total_mib memory.used_mib memory.free_mib memory.reserved_mib", "MemoryInfo", (0x02000028,), mebibytes),
    ("memory.total_mib memory.used_mib memory.free_mib memory.reserved_mib", "MemoryInfo", (), mebibytes),
    ("memory.bus_width_bits", "MemoryBusWidth", (), int),
    ("pcie.generation", "CurrPcieLinkGeneration", (), int),
    ("pcie.width", "CurrPcieLinkWidth", (), int),
    ("pcie.max_generation", "MaxPcieLinkGeneration", (), int),
    ("pcie.max_width", "MaxPcieLinkWidth", (), int),
    ("pcie.device_max_generation", "GpuMaxPcieLinkGeneration", (), int),
    ("pcie.replays", "PcieReplayCounter", (), int),
    ("power.watts", "PowerUsage", (), watts),
    ("power.limit_watts", "EnforcedPowerLimit", (), watts),
    ("power.default_limit_watts", "PowerManagementDefaultLimit", (), watts),
    ("power.min_limit_watts power.max_limit_watts", "PowerManagementLimitConstraints", (), each(watts)),
    ("temperature.gpu_c", "TemperatureV", (0,), int),
    ("temperature.gpu_c", "Temperature", (0,), int),
    ("temperature.shutdown_c", "TemperatureThreshold", (0,), int),
    ("temperature.slowdown_c", "TemperatureThreshold", (1,), int),
    ("temperature.margin_c", "MarginTemperature", (), int),
    ("clocks.sm_mhz", "ClockInfo", (1,), int),
    ("clocks.memory_mhz", "ClockInfo", (2,), int),
    ("clocks.max_sm_mhz", "MaxClockInfo", (1,), int),
    ("clocks.max_memory_mhz", "MaxClockInfo", (2,), int),
    ("clocks.application_sm_mhz", "ApplicationsClock", (1,), int),
    ("clocks.application_memory_mhz", "ApplicationsClock", (2,), int),
    ("clocks.default_application_sm_mhz", "DefaultApplicationsClock", (1,), int),
    ("clocks.default_application_memory_mhz", "DefaultApplicationsClock", (2,), int),
    ("throttle.mask throttle.reasons", "CurrentClocksEventReasons", (), events),
    ("throttle.mask throttle.reasons", "CurrentClocksThrottleReasons", (), events),
    ("ecc.enabled ecc.pending", "EccMode", (), each(bool)),
    ("ecc.corrected_volatile", "TotalEccErrors", (0, 0), int),
    ("ecc.uncorrected_volatile", "TotalEccErrors", (1, 0), int),
    ("ecc.corrected_aggregate", "TotalEccErrors", (0, 1), int),
    ("ecc.uncorrected_aggregate", "TotalEccErrors", (1, 1), int),
    ("remap.correctable remap.uncorrectable", "RemappedRows", (), lambda said: said[:2]),
    ("remap.pending remap.failed", "RemappedRows", (), lambda said: [bool(one) for one in said[2:]]),
    ("remap.banks", "RowRemapperHistogram", (), lambda said: {how: getattr(said, how) for how in BANKS}),
    ("retired.single_bit", "RetiredPages", (0,), len),
    ("retired.double_bit", "RetiredPages", (1,), len),
    ("retired.pending", "RetiredPagesPendingStatus", (), bool),
    ("repair.channel_pending repair.tpc_pending", "RepairStatus", (), each(bool)),
    ("mig.enabled mig.pending", "MigMode", (), each(bool)),
    ("mig.max_instances", "MaxMigDeviceCount", (), int),
)  # type: Tuple[Tuple[str, str, Tuple[int, ...], Optional[Write]], ...]
SRAM = (
    "ecc.sram_uncorrected_volatile ecc.sram_uncorrected_aggregate ecc.sram_corrected_volatile"
    " ecc.sram_corrected_aggregate ecc.sram_threshold_exceeded"
)
STRUCTURES = (
    ("fabric", "GpuFabricInfoV", "c_nvmlGpuFabricInfoV_t", fabric),
    (SRAM, "SramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t", sram),
)  # fmt: skip
FIELDS = (
    ("recovery_action", "GET_GPU_RECOVERY_ACTION"),
    ("nvlinks", "NVLINK_LINK_COUNT"),
    ("temperature.memory_c", "MEMORY_TEMP"),
    ("temperature.shutdown_margin_c", "TEMPERATURE_SHUTDOWN_TLIMIT"),
    ("temperature.slowdown_margin_c", "TEMPERATURE_SLOWDOWN_TLIMIT"),
    ("temperature.gpu_max_margin_c", "TEMPERATURE_GPU_MAX_TLIMIT"),
    ("temperature.memory_max_margin_c", "TEMPERATURE_MEM_MAX_TLIMIT"),
    ("pcie.correctable_errors", "PCIE_COUNT_CORRECTABLE_ERRORS"),
    ("pcie.nonfatal_errors", "PCIE_COUNT_NON_FATAL_ERROR"),
    ("pcie.fatal_errors", "PCIE_COUNT_FATAL_ERROR"),
    # How long each has slowed the GPU since the driver was loaded. The finer CLOCKS_EVENT_REASON_* are not asked for:
    # their numbers changed between releases, and an old nvidia-ml-py would ask a new driver for something else.
    ("throttle_ns.power", "PERF_POLICY_POWER"),
    ("throttle_ns.thermal", "PERF_POLICY_THERMAL"),
    ("throttle_ns.sync_boost", "PERF_POLICY_SYNC_BOOST"),
    ("throttle_ns.board_limit", "PERF_POLICY_BOARD_LIMIT"),
    ("throttle_ns.reliability", "PERF_POLICY_RELIABILITY"),
)
MIG_QUESTIONS = (
    ("uuid", "UUID", None),
    ("name", "Name", None),
    ("gpu_instance", "GpuInstanceId", int),
    ("compute_instance", "ComputeInstanceId", int),
    ("sms memory_mib", "Attributes", lambda said: (said.multiprocessorCount, said.memorySizeMB)),
)  # type: Tuple[Tuple[str, str, Optional[Write]], ...]


def structure(reading: "Any", names: str, function: str, kind: str, write: "Write") -> None:
    """Record what a function writes into a structure of nvidia-ml-py."""
    record, why = reading.nvml.ask(kind)
    if why:
        reading.put(names, None, why)
    else:
        reading.ask(names, function, ctypes.byref(record), write=lambda _: write(record))


def inforom(reading: "Any") -> None:
    """Record whether the checksums of the InfoROM fit; NVML has an error of its own for one that is corrupted."""
    _, why = reading.nvml.ask("nvmlDeviceValidateInforom", reading.handle)
    corrupted = (why or "").startswith(CORRUPTED)
    reading.put("inforom.valid", not why or (False if corrupted else None), None if corrupted else why)


def instances(reading: "Any") -> None:
    """Record the MIG instances that the GPU is divided into; null if unknown, which is not the same as none."""
    most = reading.said["mig.max_instances"] if reading.said["mig.enabled"] else 0
    found, whys = [], [] if most is not None else [reading.unavailable["mig.max_instances"]]
    for number in range(min(most or 0, MOST_MIGS)):
        handle, why = reading.nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", reading.handle, number)
        if why:
            whys += [] if why.startswith(NO_INSTANCE) else [why]
            continue
        one = type(reading)(reading.nvml, handle)
        for names, function, write in MIG_QUESTIONS:
            one.ask(names, function, write=write)
        found.append(dict(one.facts(), index=number))
    reading.put("mig.instances", found or (None if whys else []), whys[0] if whys else None)


def processes(host: "Host", reading: "Any") -> "Iterator[Facts]":
    """Yield the processes on the GPU; a number without a name belongs to no process that is seen from here."""
    for kind, word in KINDS.items():
        listed, why = reading.nvml.ask("nvmlDeviceGet%sRunningProcesses" % word, reading.handle)
        if why:
            reading.unavailable["processes." + kind] = why
        for one in (listed or [])[:MOST_PROCESSES]:
            comm = host.read("/proc/%d/comm" % one.pid, 64)
            used = None if one.usedGpuMemory is None else one.usedGpuMemory // MIB
            yield {"pid": one.pid, "kind": kind, "used_mib": used, "name": comm and comm.strip()}


def mps(host: "Host", processes: "List[Facts]") -> "Facts":
    """Return what is seen of the Multi-Process Service: its folder, control daemon, servers and clients here."""
    folder = host.env("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"  # noqa: S108 - NVIDIA's default
    said = (host.read(folder + "/nvidia-cuda-mps-control.pid", 32) or "").strip()
    comm = host.read("/proc/%s/comm" % said, 64) if said.isdecimal() else None
    return {
        "folder": folder if host.exists(folder) else None,
        "control": int(said) if (comm or "").startswith("nvidia-cuda-mps") else None,
        "servers": [one["pid"] for one in processes if (one["name"] or "").startswith("nvidia-cuda-mps")],
        "clients": [one["pid"] for one in processes if one["kind"] == "mps"],
    }


def gpu(host: "Host", nvml: "Any", index: int) -> "Facts":
    """Return one GPU: failed if it has no handle or no identity, or if any answer says that it is lost."""
    facts = {"key": "index %d" % index, "index": index}  # type: Facts
    try:
        handle = nvml.library.call("nvmlDeviceGetHandleByIndex", index)
    except Exception as error:  # noqa: BLE001 - an error of NVML is known by its number, not by a class at hand
        return dict(facts, status="failed", code=getattr(error, "value", None), error=nvml.library.words(error))
    reading = read(host, host.shared("nvml.py")["Reading"](nvml, handle))
    facts.update(reading.facts(), key=reading.said["uuid"] or facts["key"])
    if all(reading.said[fact] is None for fact in NAMING):  # what no GPU keeps to itself: nothing says that this works
        facts.update(status="failed", error=reading.unavailable[NAMING[0]])
    parts = [reading.unavailable, *(one["unavailable"] for one in reading.said["mig.instances"] or ())]
    for why in (why for part in parts for why in part.values()):
        if why.partition(":")[0] in WHOLE:
            facts.update(status="failed", code=WHOLE[why.partition(":")[0]], error=why)
    return facts


def read(host: "Host", reading: "Any") -> "Any":
    """Return the reading with everything asked."""
    place = host.shared("nvml.py")["place"]
    reading.ask("pci device_id", "PciInfo", write=lambda info: (place(info), "0x%04x" % (info.pciDeviceId >> 16)))
    for names, function, args, write in QUESTIONS:
        if reading.said.get(names.split()[0]) is None:
            reading.ask(names, function, *args, write=write)
    for names, function, kind, write in STRUCTURES:
        structure(reading, names, function, kind, write)
    reading.fields(FIELDS)
    action = reading.said["recovery_action"]
    reading.put("recovery_action_name", None if action is None else recovery(action))
    instances(reading)
    found = list(processes(host, reading))
    reading.put("processes", found)
    # R535.43 to .86 shuffle the list; and a container does not see the host's processes. So nothing is concluded.
    reading.put("pids_unreliable", any(one["name"] is None for one in found))
    reading.put("mps", mps(host, found))
    inforom(reading)  # last: it reads a flash memory for 0.07 s, during which CUDA would have to wait for its start
    return reading


def probe(host: "Host") -> "Answer":
    nvml = host.shared("nvml.py")["opened"](host)
    if nvml is None:
        return None
    return [gpu(host, nvml, index) for index in range(min(nvml.library.call("nvmlDeviceGetCount"), MOST_GPUS))]
