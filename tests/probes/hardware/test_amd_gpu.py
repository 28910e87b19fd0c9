"""AMD's GPUs as the kernel reports them: trees recorded on real machines, and small ones made here for the rest."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load
from tests.trees import named, plant, source

AMD, GPU, FABRIC = load("amd.py"), load("hardware/amd_gpu.py"), load("hardware/infinity_fabric.py")
NODES = "/sys/class/kfd/kfd/topology/nodes"
CARD = "/sys/bus/pci/devices/0000:03:00.0"
NODE = (
    "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\nvendor_id 4098\nlocation_id 768\ndrm_render_minor 128\n"
)
BUS = {f"{CARD}/vendor": "0x1002\n", f"{CARD}/class": "0x030000\n", f"{CARD}/device": "0x744c\n"}


def look(files: dict[str, Any], **more: Any) -> Any:  # noqa: ANN401 - a probe's answer
    return GPU["probe"](ToldHost(files, **more))


def recorded(tree: str, root: Path) -> list[dict[str, Any]]:
    found = GPU["probe"](Host(root=str(plant(tree, root)), environ={}))
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("tree", named("amd"))
def test_a_recorded_tree_names_its_source(tree: str) -> None:
    assert "From: https://github.com/" in source(tree)


MACHINES = {  # target, compute units, how many, address of the first, integrated
    "amd-mi210-8": ("gfx90a", 104, 8, "0000:63:00.0", False),
    "amd-mi300x-cpx": ("gfx942", 38, 4, "0000:05:00.0", False),
    "amd-mi308x-cpx": ("gfx942", 20, 2, "0000:0a:00.0", False),
    "amd-rx7900xtx-kfd": ("gfx1100", 96, 1, "0000:86:00.0", False),
    "amd-radeon-780m": ("gfx1103", 12, 1, "0000:64:00.0", True),
    "amd-radeon-890m": ("gfx1150", 12, 1, "0000:c1:00.0", True),
}


@pytest.mark.parametrize("tree", MACHINES)
def test_recorded_machines_give_the_right_card_and_target(tmp_path: Path, tree: str) -> None:
    found = recorded(tree, tmp_path)
    gfx, units, count, pci, integrated = MACHINES[tree]
    assert {one["gfx"] for one in found} == {gfx}
    assert {one["compute_units"] for one in found} == {units}
    assert (len(found), found[0]["pci"], found[0]["integrated"]) == (count, pci, integrated)
    assert all(one["kfd"] and one["gfx_from"] == "KFD" and one["lds_kib"] == 64 for one in found)


def test_a_partition_is_told_from_the_whole_gpu_that_it_is_of(tmp_path: Path) -> None:
    found = recorded("amd-mi300x-cpx", tmp_path)
    assert [(one["key"], one["pci"], one["partition"]) for one in found] == [
        ("0000:05:00.0", "0000:05:00.0", False),
        ("0000:05:00.1", "0000:05:00.0", True),
        ("0000:05:00.7", "0000:05:00.0", True),
        ("0000:27:00.0", "0000:27:00.0", False),
    ]


def test_memory_and_caches_as_kfd_tells_them(tmp_path: Path) -> None:
    first = recorded("amd-mi308x-cpx", tmp_path)[0]
    assert first["cache"] == {"l2_kib": 4096, "l3_kib": 65536}
    assert (first["memory"]["kfd_mib"], first["memory"]["bus_width_bits"]) == (49152, 8192)


def test_a_recorded_laptop_with_its_link_memory_clocks_and_heat(tmp_path: Path) -> None:
    (one,) = recorded("amd-radeon-780m", tmp_path)
    assert (one["driver"], one["device_id"], one["core"]) == ("amdgpu", "0x15bf", "11.0.1")
    assert (one["link"]["speed"], one["link"]["width"], one["link"]["max_width"]) == (16.0, 16, 16)
    assert (one["memory"]["vram_total_mib"], one["memory"]["kfd_mib"]) == (4096, 29977)
    assert one["clocks"] == {"core_mhz": 800, "max_core_mhz": 2700, "memory_mhz": 400, "max_memory_mhz": 800}
    assert (one["temperature"], one["power"]["watts"]) == ({"edge_c": 25.0}, 3.103)


def test_a_recorded_card_without_kfd_is_reported_with_its_link_and_sensors(tmp_path: Path) -> None:
    (one,) = recorded("amd-rx7900xtx-card", tmp_path)
    assert (one["kfd"], one["gfx"], one["integrated"], one["device_id"]) == (False, None, None, "0x744c")
    assert one["link"]["slot"] == {"speed": 16.0, "width": 16}
    assert (one["temperature"]["junction_c"], one["temperature"]["junction_limit_c"]) == (61.0, 110.0)
    assert one["power"] == {"watts": 68.0, "limit_watts": 290.0}


def test_a_recorded_hive_is_linked_all_to_all(tmp_path: Path) -> None:
    found = FABRIC["probe"](Host(root=str(plant("amd-mi210-8", tmp_path)), environ={}))
    assert [len(hive) for hive in found["hives"]] == [4, 4]
    assert (found["gpus"], len(found["links"]), found["cut"]) == (8, 24, False)
    assert all(link["max_mbs"] == 50000 for link in found["links"])
    assert all(any({link["from"], link["to"]} <= set(hive) for hive in found["hives"]) for link in found["links"])


def test_links_without_a_hive_or_to_the_processor_are_none(tmp_path: Path) -> None:
    assert FABRIC["probe"](Host(root=str(plant("amd-radeon-780m", tmp_path)), environ={})) is None
    assert FABRIC["probe"](ToldHost()) is None


@pytest.mark.parametrize(
    ("number", "name"),
    [(90402, "gfx942"), (90010, "gfx90a"), (90012, "gfx90c"), (110001, "gfx1101"), (110501, "gfx1151"), (0, None)],
)
def test_a_target_has_its_minor_and_step_in_hexadecimal(number: int, name: str | None) -> None:
    assert AMD["target"](number) == name


def test_no_gpu_of_amd_is_absent() -> None:
    assert look({}) is None
    assert look({f"{CARD}/vendor": "0x10de\n", f"{CARD}/class": "0x030000\n"}) is None
    assert look({f"{NODES}/0/properties": "cpu_cores_count 16\nsimd_count 0\n"}) is None


def test_a_gpu_that_kfd_does_not_list_is_named_by_its_core() -> None:
    core = f"{CARD}/ip_discovery/die/0/11/0"
    files = {**BUS, f"{core}/major": "11\n", f"{core}/minor": "0\n", f"{core}/revision": "3\n"}
    (one,) = look(files, links={f"{CARD}/driver": "../../../bus/pci/drivers/amdgpu"})
    assert (one["kfd"], one["gfx"], one["gfx_from"], one["driver"]) == (False, "gfx1101", "ip discovery", "amdgpu")
    files[f"{core}/revision"] = "99\n"
    assert look(files)[0]["gfx"] is None


def test_an_integrated_gpu_beside_a_card_are_told_apart() -> None:
    small = NODE.replace("192", "4").replace("110000", "100306").replace("768", "4096").replace("128", "129")
    files = {f"{NODES}/1/properties": NODE, f"{NODES}/2/properties": small}
    found = look(files)
    assert [(one["gfx"], one["integrated"], one["render"]) for one in found] == [
        ("gfx1100", False, "/dev/dri/renderD128"),
        ("gfx1036", True, "/dev/dri/renderD129"),
    ]


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({f"{CARD}/product_name": "AMD Instinct MI300X OAM\n"}, "AMD Instinct MI300X OAM"),
        (
            {f"{CARD}/revision": "0xc8\n", "/usr/share/libdrm/amdgpu.ids": "744C,\tC8,\tAMD Radeon RX 7900 XTX\n"},
            "AMD Radeon RX 7900 XTX",
        ),
        (
            {
                "/usr/share/misc/pci.ids": "1001  Other\n\t744c  Wrong\n1002  AMD\n# a remark\n\t744b  Not it\n"
                "\t744c  Navi 31 [RX 7900 XTX]\n\t\t1002 0e3b  RX\n1003  Next\n\t744c  Wrong\n"
            },
            "Navi 31 [RX 7900 XTX]",
        ),
        ({}, None),
    ],
)
def test_a_gpu_is_named_by_its_board_or_by_the_lists(more: dict[str, str], name: str | None) -> None:
    assert look({**BUS, **more})[0]["name"] == name


def test_errors_are_counted_by_block_in_both_spellings_and_zero_is_no_block() -> None:
    ras = {"umc_err_count": "ue: 2\nce: 40\n", "gfx_err_count": "ue: 0\nce: 0\n", "aca_sdma": "UE: 1\nCE: 0\nDE: 3\n"}
    pages = {"gpu_vram_bad_pages": "0x0000f6c1 : 0x00001000 : R\n0x0000f6c2 : 0x00001000 : P\n", "features": "x"}
    files = {f"{CARD}/ras/{name}": text for name, text in {**ras, **pages}.items()}
    found = look({**BUS, **files})[0]["ras"]
    assert (found["uncorrected"], found["corrected"], found["bad_pages"]) == (3, 40, 2)
    assert set(found["blocks"]) == {"umc", "sdma"}
    denied = {f"{CARD}/ras/umc_err_count": OSError(errno.EACCES, "denied")}
    assert look({**BUS, **denied})[0]["ras"]["uncorrected"] is None


def test_nodes_that_a_container_hides_are_counted_and_not_told() -> None:
    files: dict[str, Any] = {f"{NODES}/1/properties": NODE, f"{NODES}/2/properties": OSError(errno.EPERM, "denied")}
    (one,) = look(files)
    assert one["hidden_nodes"] == 1


@given(st.text(max_size=300), st.binary(max_size=300))
def test_no_content_makes_it_raise(text: str, data: bytes) -> None:
    names = ("pp_dpm_pcie", "pp_dpm_sclk", "mem_info_vram_total", "current_link_speed", "ras/umc_err_count", "device")
    files: dict[str, Any] = {**BUS, **{f"{CARD}/{name}": text for name in names}}
    files.update({f"{NODES}/1/properties": NODE + text, f"{NODES}/2/properties": data})
    files.update({f"{NODES}/1/io_links/0/properties": text, f"{NODES}/1/mem_banks/0/properties": data})
    files.update({f"{CARD}/hwmon/hwmon0/temp1_label": "edge", f"{CARD}/hwmon/hwmon0/temp1_input": text})
    assert look(files)
    FABRIC["probe"](ToldHost(files))


def test_a_node_without_an_address_is_named_by_its_number_alone() -> None:
    (one,) = look({f"{NODES}/3/properties": NODE.replace("location_id 768", "location_id 0")})
    assert (one["key"], one["pci"], one["name"], one["driver"]) == ("node 3", None, None, None)
