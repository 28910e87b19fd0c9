"""InfiniBand and RoCE cards on fake machines: ports that are up, down and unreadable, and machines without any."""

from __future__ import annotations

from typing import Any

from tests.told import ToldHost, load

PROBE = load("hardware/infiniband.py")["probe"]
CLASS = "/sys/class/infiniband"
CARD = "/sys/devices/pci0000:64/0000:64:02.0/0000:65:00.0"


def card(name: str, real: str, ports: dict[int, dict[str, object]], **files: object) -> dict[str, str]:
    folder = f"{real}/infiniband/{name}"
    told = {f"{folder}/{file}": f"{said}\n" for file, said in files.items()}
    for number, said in ports.items():
        told |= {f"{folder}/ports/{number}/{file}": f"{one}\n" for file, one in said.items()}
    return told


def look(files: dict[str, str], links: dict[str, str]) -> Any:  # noqa: ANN401 - a probe's answer
    return PROBE(ToldHost(files, links=links))


def test_a_port_that_is_up_with_its_rate_its_errors_and_where_its_card_is() -> None:
    up: dict[str, object] = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "counters/link_downed": 2,
        "counters/symbol_error": 0,
    }
    files = card("mlx5_0", CARD, {1: up}, fw_ver="28.39.1002", board_id="MT_0000000838", hca_type="MT4129")
    files |= {f"{CARD}/numa_node": "1\n", f"{CARD}/current_link_width": "8\n", f"{CARD}/max_link_width": "16\n"}
    links = {f"{CLASS}/mlx5_0": f"{CARD}/infiniband/mlx5_0", f"{CARD}/infiniband/mlx5_0/device": CARD}
    (found,) = look(files, links)
    assert (found["key"], found["state"], found["physical"]) == ("mlx5_0/1", "ACTIVE", "LinkUp")
    assert (found["rate_gbps"], found["width"], found["speed"]) == (400.0, 4, "NDR")
    assert (found["firmware"], found["board"], found["link_layer"]) == ("28.39.1002", "MT_0000000838", "InfiniBand")
    assert (found["pci"], found["bridges"], found["numa_node"]) == ("0000:65:00.0", ["0000:64:02.0"], 1)
    assert (found["lanes"], found["max_lanes"]) == (8, 16)
    assert (found["errors"]["link_downed"], found["errors"]["port_rcv_errors"]) == (2, None)


def test_ports_that_are_down_or_say_nothing_are_listed_and_unknown_is_none() -> None:
    down: dict[str, object] = {
        "state": "1: DOWN",
        "phys_state": "3: Disabled",
        "rate": "10 Gb/sec (4X SDR)",
        "link_layer": "Ethernet",
    }
    files = card("mlx5_1", CARD, {1: down, 2: {"state": "odd"}})
    first, second = look(files, {f"{CLASS}/mlx5_1": f"{CARD}/infiniband/mlx5_1"})
    assert (first["state"], first["physical"], first["link_layer"]) == ("DOWN", "Disabled", "Ethernet")
    assert (second["state"], second["physical"], second["rate_gbps"], second["numa_node"]) == (None, None, None, None)


def test_a_machine_without_cards_has_none() -> None:
    assert look({}, {}) is None
