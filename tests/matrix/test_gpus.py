"""A GPU's name, as a tool or a person writes it, yields its compute capability, or nothing if it is ambiguous."""

from __future__ import annotations

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import gpus
from gpustack.model.versions import ComputeCapability
from tests.counting import each

MATRIX = Matrix()
KNOWN = {
    "2.0": ["GeForce GTX 480", "Quadro 4000", "Tesla M2090"],
    "2.1": ["GTX 550 Ti", "NVS 5400M", "GF108 [GeForce GT 430]"],
    "3.0": ["Tesla K10", "Quadro K5000", "GeForce GTX 680", "GRID K520", "GK104 [GeForce GTX 770]"],
    "3.5": ["Tesla K40m", "GeForce GTX 780 Ti", "GeForce GTX TITAN Black", "K20Xm"],
    "3.7": ["Tesla K80", "K80", "GK210GL [Tesla K80] (rev a1)"],
    "5.0": ["GTX 960M", "940MX", "GeForce MX130", "Quadro K620", "Tesla M10", "GeForce GTX 750 Ti"],
    "5.2": [
        "GeForce GTX TITAN X",
        "Tesla M60",
        "GTX 980 Ti",
        "Quadro M4000",
        "GeForce GTX 980M",
        "Quadro M2200 Mobile",
    ],
    "5.3": ["NVIDIA Jetson Nano Developer Kit", "NVIDIA Tegra X1"],
    "6.0": ["Tesla P100-PCIE-16GB", "P100", "Quadro GP100"],
    "6.1": ["TITAN X (Pascal)", "TITANXp", "1080 Ti", "GTX 1060 6GB", "MX150", "P2000", "P106-100", "GRID P40-24Q"],
    "7.0": ["Tesla V100-SXM2-16GB", "V100", "TITAN V", "GV100GL [Tesla V100S PCIe 32GB]", "GRID V100D-32C"],
    "7.2": ["Xavier (nvgpu)", "Jetson AGX Xavier"],
    "7.5": [
        *("Tesla T4", "RTX2080Ti", "1660 super", "Quadro RTX 6000", "NVIDIA T1000 8GB", "TITAN RTX", "GRID T4-16Q"),
        *("NVIDIA GeForce GTX 1650 Ti with Max-Q Design", "CMP 30HX", "GeForce MX450", "RTX 8000", "GTX 2080"),
    ],
    "8.0": [
        *("A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", "8 x A100-SXM4-40GB", "NVIDIA A30", "CMP 170HX", "DGX A100"),
        *("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A800-SXM4-80GB"),
    ],
    "8.6": [
        *("RTX 3060", "3070 Ti", "NVIDIA GeForce RTX 3060/PCIe/SSE2", "rtx3090", "A10G", "NVIDIA A40-48Q", "A4000"),
        *("NVIDIA RTX A2000 12GB", "GeForce RTX 2050", "Quadro RTX A6000", "NVIDIA GeForce RTX 3050 6GB Laptop GPU"),
    ],
    "8.7": ["Orin (nvgpu)", "NVIDIA Jetson AGX Orin Developer Kit", "Jetson Orin Nano"],
    "8.9": [
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "2x GeForce RTX 4090", "RTX 5880 Ada", "NVIDIA L4", "L40S", "4090"),
        *("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX6000-Ada-48Q", "NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4090D"),
        *("AD103M / GN21-X9 [GeForce RTX 4080 Max-Q / Mobile]", "NVIDIA GeForce RTX 3050 A Laptop GPU"),
    ],
    "9.0": ["NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3", "H200", "NVIDIA GH200 480GB", "NVIDIA H20-3e", "H800 PCIe"],
    "10.0": ["NVIDIA B200", "NVIDIA GB200", "HGX B200"],
    "10.3": ["NVIDIA B300 SXM6 AC", "GB300", "GPU 0: NVIDIA B300 SXM6 AC (UUID: GPU-0)"],
    "11.0": ["NVIDIA Thor", "Jetson AGX Thor"],
    "12.0": [
        *("RTX PRO 6000 Blackwell", "NVIDIA GeForce RTX 5090 D v2", "RTX 5070 Ti Laptop GPU", "RTX 6000 Pro"),
        *("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA RTX PRO 5000 72GB Blackwell"),
    ],
    "12.1": ["NVIDIA GB10", "DGX Spark"],
}
UNSURE = [
    *("GeForce GTX 860M", "GeForce GT 730", "GT 710", "TITAN X", "NVIDIA TITAN X", "RTX 6000", "RTX 4000", "4000"),
    *(
        "NVIDIA Graphics Device",
        "Radeon RX 7900 XTX",
        "Intel Arc A770",
        "GeForce 210",
        "RTX 50",
        "",
        "x",
    ),
]


@each(("capability", "name"), [(cc, name) for cc, names in KNOWN.items() for name in names])
def test_a_name_tells_the_compute_capability(capability: str, name: str) -> None:
    assert str(gpus.capability_of(MATRIX, name)) == capability


@pytest.mark.parametrize("name", UNSURE)
def test_a_name_that_several_kinds_share_or_that_is_unknown_tells_nothing(name: str) -> None:
    assert gpus.capability_of(MATRIX, name) is None
    assert gpus.class_of(MATRIX, name) is None


def test_why_a_name_tells_nothing_is_said() -> None:
    shared = gpus.ambiguity_of(MATRIX, "NVIDIA GeForce GTX 860M")
    assert shared is not None
    assert "Maxwell (5.0)" in shared.why
    assert gpus.ambiguity_of(MATRIX, "Tesla T4") is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Tesla T4", "datacenter"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "datacenter"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "workstation"),
        ("Quadro RTX 6000", "workstation"),
        ("NVIDIA GeForce RTX 5090", "consumer"),
        ("NVIDIA TITAN RTX", "consumer"),
        ("Orin (nvgpu)", "embedded"),
    ],
)
def test_a_name_tells_what_the_gpu_is_made_for(name: str, kind: str) -> None:
    assert gpus.class_of(MATRIX, name) == kind


def test_every_name_occurs_once_and_finds_its_own_row() -> None:
    lines = gpus.product_lines(MATRIX)
    keys = [key for one in lines for key in one.keys]
    assert len(keys) == len(set(keys)) == sum(len(one.names) for one in lines)
    for one in lines:
        assert {gpus.line_of(MATRIX, name) for name in one.names} == {one}
    shared = {key for one in gpus.shared_names(MATRIX) for key in one.keys}
    assert shared.isdisjoint(keys)


def test_every_architecture_has_products_and_every_product_an_architecture() -> None:
    named = {one.capability for one in gpus.product_lines(MATRIX)}
    assert named <= set(MATRIX.architectures)
    assert set(MATRIX.architectures) - named == {ComputeCapability(8, 8), ComputeCapability(10, 1)}


def test_products_named_in_the_table_of_architectures_are_of_that_architecture() -> None:
    for one in MATRIX.architectures.values():
        for product in one.gpus:
            assert gpus.capability_of(MATRIX, product) in {one.capability, None}


def test_figures_agree_with_the_rates_of_the_architecture() -> None:
    for one in gpus.figures(MATRIX):
        assert all(value > 0 for value in one.peaks.values())
        if "fp16" in one.peaks and "bf16" in one.peaks:
            assert one.peaks["fp16"] == one.peaks["bf16"]
        if "fp32" in one.peaks and "fp16" in one.peaks:
            assert one.peaks["fp16"] > one.peaks["fp32"]
