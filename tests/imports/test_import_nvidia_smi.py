"""nvidia-smi in its layouts since 2018: what is in the table, in -L, in -q and in a query."""

from __future__ import annotations

import pytest

from gpustack.model.facts import Status
from gpustack.model.report import Health
from tests.build import report
from tests.imports.reading import copies, held, read, version

OLD = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 390.87                 Driver Version: 390.87                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 108...  Off  | 00000000:01:00.0  On |                  N/A |
|  0%   43C    P8    13W / 250W |    319MiB / 11177MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  On   | 00000000:02:00.0 Off |                    3 |
| N/A   43C    P0    43W / 300W |     11MiB / 16160MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   2  ERR!                ERR! | 00000000:03:00.0 ERR! |                 ERR! |
"""
MIG = """| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |
|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                   On |
| N/A   34C    P0              61W / 400W |     87MiB / 81920MiB |     N/A      Default |
|                                         |                      |              Enabled |
+-----------------------------------------+----------------------+----------------------+
|   1  NVIDIA A100-SXM4-80GB          On  | 00000000:0F:00.0 Off |                    0 |
| N/A   34C    P0              61W / 400W |      4MiB / 81920MiB |      0%      Default |
|                                         |                      |             Disabled |
+---------------------------------------------------------------------------------------+
| MIG devices:                                                                          |
+------------------+--------------------------------+-----------+-----------------------+
"""
MIG_ROW = "|  0    1   0   0  |              37MiB / 40192MiB  | 42      0 |  3   0    2    0    0 |\n"
QUERY = """==============NVSMI LOG==============

Timestamp                                 : Tue Jun 10 10:00:00 2025
Driver Version                            : 550.54.15
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:0F:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Architecture                  : Hopper
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    Serial Number                         : 1654923012345
    GPU UUID                              : GPU-01234567-89ab-cdef-0123-456789abcdef
    GPU Recovery Action                   : Drain and Reset
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 3
            Link Width
                Max                       : 16x
                Current                   : 8x
    Clocks {word} Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
        Sync Boost                        : Not Active
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 2 MiB
    ECC Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            SRAM Uncorrectable SEC-DED    : 1
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 5
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 2
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 41 C
    Fabric
        State                             : In Progress
"""


def test_the_table_of_2018_has_driver_gpus_and_what_is_below_their_names() -> None:
    facts = read(OLD)
    assert version(facts, "nvidia-driver") == "390.87"
    assert held(facts, "nvml")["code"] == 0
    gpus = copies(facts, "gpu")
    assert [gpu.facts.get("pci") for gpu in gpus.values()] == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]
    assert gpus["0"].facts["memory"] == {"total_mib": 11177, "used_mib": 319}
    assert gpus["1"].facts["ecc"] == {"enabled": True, "uncorrected_volatile": 3}
    assert "ecc" not in gpus["0"].facts


def test_a_name_that_is_cut_is_not_taken_for_another_gpu() -> None:
    gpus = copies(read(OLD), "gpu")
    assert gpus["0"].facts["name"] == "GeForce GTX"  # 108... may be a 1080 or a 1080 Ti
    assert gpus["1"].facts["name"] == "Tesla V100-SXM2"


def test_a_gpu_that_cannot_be_asked_has_failed() -> None:
    assert copies(read(OLD), "gpu")["2"].status is Status.FAILED


@pytest.mark.parametrize(
    ("rows", "instances"),
    [(MIG_ROW, ({"gpu_instance": 1, "compute_instance": 0},)), ("|  No MIG devices found      |\n", ())],
)
def test_mig_is_of_the_gpu_below_whose_name_it_is(rows: str, instances: object) -> None:
    gpus = copies(read(MIG + rows), "gpu")
    assert gpus["0"].facts["mig"] == {"enabled": True, "instances": instances}
    assert gpus["1"].facts["mig"] == {"enabled": False}


def test_on_in_place_of_ecc_errors_means_mig_where_the_line_that_says_so_is_cut() -> None:
    gpus = copies(read("\n".join(MIG.splitlines()[:2]) + "\n" + OLD.splitlines()[-1]), "gpu")
    assert gpus["0"].facts["mig"] == {"enabled": True}


@pytest.mark.parametrize(
    ("banner", "release", "cuda"),
    [
        ("| NVIDIA-SMI 566.36      Driver Version: 566.36      CUDA Version: 12.7  |", "566.36", 12070),
        ("| NVIDIA-SMI 595.10       KMD Version: 595.10       CUDA UMD Version: 13.2     |", "595.10", 13020),
        ("NVIDIA-SMI 475.14       Driver Version: 475.14       CUDA Version: 11.4", "475.14", 11040),
        ("| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: N/A |", "550.54.15", None),
        (
            (
                "NVIDIA-SMI version  : 555.42.02\nNVML version        : 555.42\nDRIVER version      : 555.42.02\n"
                "CUDA Version        : 12.5"
            ),
            "555.42.02",
            12050,
        ),
    ],
)
def test_the_release_and_the_cuda_version_of_the_driver(banner: str, release: str, cuda: int | None) -> None:
    facts = read(banner)
    assert version(facts, "nvidia-driver") == release
    assert held(facts, "nvml").get("cuda_version") == cuda
    assert facts.find("cuda-toolkit") is None  # the driver's CUDA version is not a toolkit's


def test_only_in_wsl_the_tool_and_the_driver_are_of_different_releases() -> None:
    row = "| NVIDIA-SMI 535.98       Driver Version: {}       CUDA Version: 12.2     |"
    assert read(row.format("536.40")).host.wsl
    assert not read(row.format("535.98")).host.wsl
    assert not read(row.format("530.30.02")).host.wsl  # nvidia-smi from another driver release, on Linux


def test_the_driver_models_of_windows_tell_the_system() -> None:
    table = (
        "| NVIDIA-SMI 566.36                 Driver Version: 566.36         CUDA Version: 12.7     |\n"
        "| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        "|   0  NVIDIA GeForce RTX 4090      WDDM  |   00000000:01:00.0  On |                  Off |\n"
    )
    facts = read(table)
    assert facts.host.os == "Windows"
    assert copies(facts, "gpu")["0"].facts["name"] == "NVIDIA GeForce RTX 4090"


@pytest.mark.parametrize("word", ["Event", "Throttle"])
def test_the_long_form_gives_what_the_live_probe_gives(word: str) -> None:
    gpu = held(read(QUERY.format(word=word)), "gpu")
    assert gpu["pci"] == "0000:0f:00.0"
    assert gpu["architecture"] == "Hopper"
    assert gpu["mig"] == {"enabled": False, "pending": True}
    assert gpu["pcie"] == {"generation": 3, "max_generation": 5, "width": 8, "max_width": 16}
    assert gpu["throttle"] == {
        "mask": 0x4 | 0x8 | 0x40,
        "reasons": ("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"),
    }
    assert gpu["ecc"] == {"enabled": True, "uncorrected_volatile": 3, "uncorrected_aggregate": 5}
    assert gpu["remap"] == {"correctable": 0, "uncorrectable": 2, "pending": True, "failed": False}
    assert gpu["fabric"] == {"state": "in-progress"}
    assert gpu["recovery_action_name"] == "drain-and-reset"
    assert gpu["memory"] == {"total_mib": 81559, "used_mib": 2}


@pytest.mark.parametrize(("word", "code"), [("Success", 0), ("Unknown Error", 999), ("N/A", None), ("odd", None)])
def test_the_answer_of_the_fabric_is_the_number_that_nvml_gives(word: str, code: int | None) -> None:
    (gpu,) = copies(
        read(QUERY.format(word="Event") + f"        Status                            : {word}\n"), "gpu"
    ).values()
    assert gpu.facts["fabric"] == {"state": "in-progress"} | ({} if code is None else {"status": code})


def test_a_long_form_that_is_cut_says_what_it_says() -> None:
    facts = read(QUERY.format(word="Event")[:700])
    assert version(facts, "nvidia-driver") == "550.54.15"
    assert held(facts, "gpu")["name"] == "NVIDIA H100 80GB HBM3"


def test_a_query_in_rows_is_read_by_its_head() -> None:
    facts = read(
        "index, name, driver_version, memory.total [MiB], compute_cap, pci.bus_id\n"
        "0, NVIDIA L40S, 550.90.07, 46068 MiB, 8.9, 00000000:01:00.0\n"
        "1, NVIDIA L40S, 550.90.07, 46068 MiB, 8.9, 00000000:02:00.0\n"
    )
    assert version(facts, "nvidia-driver") == "550.90.07"
    assert {key: gpu.facts["cc"] for key, gpu in copies(facts, "gpu").items()} == {"0": "8.9", "1": "8.9"}


def test_a_list_has_the_instances_of_each_gpu() -> None:
    facts = read(
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-01234567-89ab-cdef-0123-456789abcdef)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-01234567-89ab-cdef-0123-456789abcdee)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-removed)\n"
    )
    gpus = copies(facts, "gpu")
    name, uuid = "MIG 3g.20gb", "MIG-01234567-89ab-cdef-0123-456789abcdee"
    assert gpus["0"].facts["mig"] == {"enabled": True, "instances": ({"name": name, "uuid": uuid},)}
    assert "mig" not in gpus["1"].facts
    assert gpus["1"].facts.get("uuid") is None  # what the user removed is not a UUID


XML = """<nvidia_smi_log>
  <driver_version>550.54.15</driver_version>
  <cuda_version>12.4</cuda_version>
  <gpu id="00000000:0F:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <mig_mode>
      <current_mig>Disabled</current_mig>
      <pending_mig>Enabled</pending_mig>
    </mig_mode>
    <uuid>GPU-01234567-89ab-cdef-0123-456789abcdef</uuid>
    <pci>
      <pci_gpu_link_info>
        <link_widths>
          <max_link_width>16x</max_link_width>
          <current_link_width>8x</current_link_width>
        </link_widths>
      </pci_gpu_link_info>
    </pci>
    <clocks_event_reasons>
      <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
      <clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>
      <clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>
    </clocks_event_reasons>
    <ecc_mode>
      <current_ecc>Enabled</current_ecc>
    </ecc_mode>
"""


def test_xml_says_what_the_long_form_says() -> None:
    facts, log = read(XML), held(read(QUERY.format(word="Event")), "gpu")
    assert version(facts, "nvidia-driver") == "550.54.15"
    gpu = held(facts, "gpu")
    assert {name: gpu[name] for name in ("name", "pci", "uuid", "mig", "throttle")} == {
        name: log[name] for name in ("name", "pci", "uuid", "mig", "throttle")
    }
    assert gpu["pcie"] == {"width": 8, "max_width": 16}
    assert gpu["ecc"] == {"enabled": True}


def test_a_gpu_in_cut_xml_works() -> None:
    cut = XML[: XML.index("<mig_mode>")]
    assert report(read(f"My exporter cannot parse this:\n{cut}")).verdict.status is Health.HEALTHY


GPU = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-1111-1111-1111-111111111111)\n"
LINKS = f"{GPU}\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: 26.562 GB/s\n"
ERRORS = f"{GPU}\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 12\n\t Link 0: CRC Errors: 3\n"


def test_the_state_and_the_errors_of_nvlinks_are_read() -> None:
    (link,) = copies(read(LINKS), "nvlink").values()
    assert link.facts["links"] == (
        {"link": 0, "active": True, "speed_gbps": 26.562},
        {"link": 1, "active": False},
        {"link": 2, "active": True, "speed_gbps": 26.562},
    )
    assert (link.facts["active"], link.facts["total"], link.facts["index"]) == (2, 3, 0)
    (link,) = copies(read(ERRORS), "nvlink").values()
    assert link.facts["links"] == ({"link": 0, "errors": {"replay": 0, "recovery": 12, "crc_data": 3}},)
    assert "active" not in link.facts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LINKS, "nvlink-inactive"),
        (LINKS.replace("H100 80GB HBM3", "RTX A6000"), None),  # a bridge may leave links unused
        (LINKS.replace("H100 80GB HBM3", "Tesla V100-SXM2-16GB"), None),  # a mesh of eight, of which four are rented
        (LINKS.replace("H100 80GB HBM3", "A100-SXM4-80GB"), "nvlink-inactive"),
        (LINKS.replace("<inactive>", "26.562 GB/s"), None),
        (LINKS.replace("26.562 GB/s", "<inactive>"), None),  # one GPU of several, given to a virtual machine
        (ERRORS, "nvlink-error"),
        (ERRORS.replace("12", "0").replace("3\n", "0\n"), None),
    ],
)
def test_links_that_failed_are_a_fault_and_those_that_need_not_work_are_none(text: str, found: str | None) -> None:
    made = report(read(text))
    assert [one.id for one in made.findings if one.id.startswith("nvlink")] == ([found] if found else [])


IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tPort 1:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
"""
IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:0000:0000:0000:0001
\tstate:\t\t 2: INIT
\tphys state:\t 5: LinkUp
\trate:\t\t 400 Gb/sec (4X NDR)
\tlink_layer:\t InfiniBand
"""
DEVINFO = """hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t28.39.1002
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_INIT (2)
\t\t\tlink_layer:\t\tInfiniBand
"""


@pytest.mark.parametrize(
    ("text", "less"), [(IBSTAT, ()), (IBSTATUS, ("firmware",)), (DEVINFO, ("physical", "rate_gbps"))]
)
def test_three_tools_that_list_ports_say_the_same(text: str, less: tuple[str, ...]) -> None:
    (port,) = copies(read(text), "infiniband").values()
    facts = {"firmware": "28.39.1002", "state": "INIT", "physical": "LinkUp", "rate_gbps": 400.0}
    facts |= {"card": "mlx5_0", "port": 1, "link_layer": "InfiniBand"}
    assert (port.key, dict(port.facts)) == ("mlx5_0/1", {name: facts[name] for name in facts if name not in less})


def test_a_port_that_waits_for_its_subnet_manager_is_a_fault_beside_gpus_of_a_data_centre() -> None:
    assert [one.id for one in report(read(GPU + IBSTAT)).findings] == ["rdma-port-degraded"]
    assert "rdma-port-degraded" not in [one.id for one in report(read(IBSTAT.replace("LinkUp", "Polling"))).findings]
