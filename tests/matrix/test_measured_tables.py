"""What is read from primary sources other than the package index: pci.ids, and nvcc's header."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from gpustack.matrix import Matrix
from probes.hardware import gpu, nvlink
from tools.matrix import coverage, headers, pci
from tools.matrix.__main__ import GENERATED, main

MATRIX = Matrix()
PCI_IDS = """\
#	Version: 2026.08.22
#	Date:    2026-08-22 03:15:01
10dd  Another vendor
	2b00  GB10B [not of NVIDIA]
10de  NVIDIA Corporation
	0008  NV1 [STG2000]
	0a20  GT216 [GeForce GT 220]
		1043 8311  ENGT220
	0a65  GT218 [GeForce 210]
	0ab0  MCP79 Ethernet
	0be2  GT216 High Definition Audio Controller
	0ca3  GT215 [GeForce GT 240]
	2200  GA102
	2204  GA102 [GeForce RTX 3090]
	2206  GA102 USB Type-C UCSI Controller
	2208  GA102 [GeForce RTX 3080 Ti]
	2900  GB100 [B200]
	2b85  GB202 [GeForce RTX 5090]
10df  Emulex Corporation
	2c02  GB203 [not of NVIDIA]
C 03  Display controller
"""
RANGES = [
    (0x0A20, 0x0A65, "Tesla"),
    (0x0CA3, 0x0CA3, "Tesla"),
    (0x2200, 0x2208, "Ampere"),
    (0x2900, 0x2900, "Blackwell"),
    (0x2B85, 0x2B85, "Blackwell"),
]


def test_devices_of_one_architecture_are_joined_and_what_is_not_a_gpu_parts_them() -> None:
    assert list(pci.ranges(PCI_IDS)) == RANGES


def test_the_same_pci_ids_gives_the_same_bytes_and_no_other_file_gives_any(tmp_path: Path) -> None:
    source, made = tmp_path / "pci.ids", tmp_path / "measured" / "pci.toml"
    source.write_text(PCI_IDS, "utf-8")
    for day in ("2026-11-23", "2026-12-01"):  # a new date alone is not a change
        assert main(["pci", str(source), "--folder", str(tmp_path), "--date", day]) == 0
        assert made.read_text("utf-8") == pci.table(PCI_IDS, "2026-11-23")
    made.write_text(made.read_text("utf-8").replace("0x2208", "0x2fff"), "utf-8")
    assert main(["pci", str(source), "--folder", str(tmp_path), "--date", "2026-11-23"]) == 0
    assert made.read_text("utf-8") == pci.table(PCI_IDS, "2026-11-23")
    for wrong in ("", "no list of devices", PCI_IDS.replace("10de", "10dc")):
        source.write_text(wrong, "utf-8")
        assert main(["pci", str(source), "--folder", str(tmp_path)]) == 1
    assert made.read_text("utf-8") == pci.table(PCI_IDS, "2026-11-23")


def test_no_ethernet_controller_of_a_chipset_is_taken_for_a_gpu() -> None:
    for device in (0x0AB0, 0x0AB9, 0x0FAE):  # MCP79 Ethernet and AHCI, Tegra X1's root port
        assert MATRIX.pci_arch(device) is None
    for device, arch in ((0x0A65, "Tesla"), (0x0FA7, "Kepler"), (0x2330, "Hopper"), (0x2B85, "Blackwell")):
        found = MATRIX.pci_arch(device)
        assert found
        assert found.arch == arch
        assert "pci.ids of 2026" in found.row.source


HEADER = """\
#if (__GRCO_CLANG_COMPILER__ == 1) && ((__clang_major__ < 15) || (__clang_major__ > 17))
#error -- unsupported Grace clang version! The version must be 15.x to 17.x.
#endif
#if defined(__GNUC__)
#if __GNUC__ > 12

#error -- unsupported GNU version! gcc versions later than 99 are not supported!
#endif
#if (__clang_major__ >= 40)
#error -- unsupported HOS clang version! The version must be less than 40 .
#endif
#if (__clang_major__ >= 17) || (__clang_major__ < 3) || ((__clang_major__ == 3) &&  (__clang_minor__ < 3))
#error -- unsupported clang version! clang version must be less than 16 and greater than 3.2 .
#endif
#endif
#if _MSC_VER < 1910 || _MSC_VER >= 1940

#error -- unsupported Microsoft Visual Studio version! Only the versions between 2017 and 2022 are supported!
#endif
"""


def test_the_condition_counts_and_not_the_message_beside_it() -> None:
    assert headers.limits(HEADER) == {"gcc_max": 12, "clang_max": 16, "msc_min": 1910, "msc_max": 1939}
    assert headers.limits("#error -- unsupported GNU version!") == {}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning")
def test_rows_of_host_compilers_are_checked_against_the_header_in_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "index" / "nvidia-cuda-nvcc-cu12"
    page.mkdir(parents=True)
    name = "nvidia_cuda_nvcc_cu12-12.3.107-py3-none-manylinux1_x86_64.whl"
    (page / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{name}">{name}</a></body></html>', "utf-8")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for header, status, said in (
        (HEADER, 0, "gcc_max 12, clang_max 16, msc_min 1910, msc_max 1939\n"),
        (HEADER.replace(">= 17", ">= 16"), 1, "; clang_max is 15, and the row says 16\n"),
    ):
        with zipfile.ZipFile(page / name, "w") as wheel:
            wheel.writestr("nvidia/cuda_nvcc/include/crt/host_config.h", header)
        assert main(["compilers", "nvidia-cuda-nvcc-cu12==12.3.107"]) == status
        assert capsys.readouterr().out.endswith(said)
    assert main(["compilers", "nvidia-cuda-nvcc-cu12==9.9"]) == 1
    shutil.rmtree(tmp_path / "index")


WHEEL = {
    "nvidia/cu13/include/nvml.h": """
typedef enum nvmlReturn_enum {
    NVML_SUCCESS = 0,                          //!< The operation was successful
    NVML_ERROR_UNINITIALIZED = 1,
} nvmlReturn_t;
#define NVML_FI_DEV_ECC_CURRENT 1 //!< Current ECC mode
#define NVML_FI_DEV_ECC_SAME    1
""",
    "nvidia/cu13/include/driver_types.h": "\n".join(
        ["enum cudaError {", *(f"    cudaErrorNumber{one} = {one}," for one in range(1, 13)), "};"]
    ),
    "nvidia/cu13/bin/ptxas": "#!/bin/sh\necho \"such as sm_60: 'compute_75','sm_75','sm_90','sm_90a','sm_121f'\"\n",
    "nvidia/nccl/include/nccl.h": """
typedef enum { ncclSuccess                 =  0,
               ncclTimeout                 =  8,
               ncclNumResults              =  9 } ncclResult_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;
""",
}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an index with a wheel with headers and a ptxas, and one without; pip uses it."""
    page = tmp_path / "index" / "nvidia-demo"
    page.mkdir(parents=True)
    names = [f"nvidia_demo-{version}-py3-none-manylinux1_x86_64.whl" for version in ("13.0.1", "13.0.2", "13.0.3")]
    links = "".join(f'<a href="{name}">{name}</a>' for name in names)
    (page / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>", "utf-8")
    failing = {"nvidia/cu13/bin/ptxas": "#!/bin/sh\nexit 3\n"}
    for name, members in zip(names, (WHEEL, {"readme": ""}, failing), strict=True):
        with zipfile.ZipFile(page / name, "w") as wheel:
            for member, text in members.items():
                wheel.writestr(member, text)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return tmp_path


UNCLOSED = "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"


@pytest.mark.filterwarnings(*UNCLOSED)
def test_ten_rows_of_the_headers_that_were_deleted_come_back_byte_for_byte(served: Path) -> None:
    asked = ["headers", "nvidia-demo==13.0.1", "--folder", str(served), "--date", "2026-11-23"]
    made = served / "measured" / "headers.toml"
    assert main(asked) == 0
    whole = made.read_text("utf-8")
    assert 'source = "driver_types.h of nvidia-demo 13.0.1; nccl.h of nvidia-demo 13.0.1; nvml.h of' in whole
    lines = whole.splitlines(keepends=True)
    lost = [one for one in lines if "cudaErrorNumber" in one][:10]
    assert len(lost) == 10
    made.write_text("".join(one for one in lines if one not in lost), "utf-8")
    assert main(asked) == 0
    assert made.read_text("utf-8") == whole
    held = coverage.table(made)
    assert [one["target"] for one in held["targets"]] == ["sm_75", "sm_90", "sm_121"]
    assert held["nvml"][-1] == {"code": 1, "name": "NVML_ERROR_UNINITIALIZED"}
    assert held["fields"] == [{"code": 1, "name": "NVML_FI_DEV_ECC_CURRENT"}]
    assert [one["name"] for one in held["nccl"]] == ["ncclSuccess", "ncclTimeout"]


@pytest.mark.filterwarnings(*UNCLOSED)
def test_what_a_wheel_does_not_have_stays_as_another_gave_it(served: Path) -> None:
    made = served / "measured" / "headers.toml"
    made.parent.mkdir()
    rows = 'cublas = [{ code = 0, name = "CUBLAS_STATUS_SUCCESS" }]\nnccl = [{ code = 9, name = "old" }]\n'
    made.write_text(f'source = "cublas_api.h of nvidia-cublas 13.0; nccl.h of nvidia-nccl 2.0"\n{rows}', "utf-8")
    assert main(["headers", "nvidia-demo==13.0.1", "--folder", str(served)]) == 0
    held = coverage.table(made)
    assert held["cublas"] == [{"code": 0, "name": "CUBLAS_STATUS_SUCCESS"}]
    assert [one["code"] for one in held["nccl"]] == [0, 8]
    assert held["source"].startswith("cublas_api.h of nvidia-cublas 13.0; driver_types.h of nvidia-demo 13.0.1; nccl")
    assert "nvidia-nccl" not in held["source"]


@pytest.mark.filterwarnings(*UNCLOSED)
@pytest.mark.parametrize("asked", ["nvidia-demo==13.0.2", "nvidia-demo==13.0.3", "nvidia-demo==9", "nvidia-other==1"])
def test_a_wheel_without_headers_a_ptxas_that_fails_and_no_wheel_give_no_table(served: Path, asked: str) -> None:
    assert main(["headers", asked, "--folder", str(served)]) == 1
    assert not (served / "measured").exists()


MEASURED = coverage.table(GENERATED / "measured" / "headers.toml")


LIBRARIES = ("nccl", "cublas", "cusolver", "cusparse", "cudnn9")
PARTS = [("cuda", "name"), ("nvml", "name"), ("driver", "driver"), *((one, "name") for one in LIBRARIES)]


@pytest.mark.parametrize(("part", "column"), PARTS)
def test_each_number_of_the_headers_has_a_hand_made_row_of_that_name(part: str, column: str) -> None:
    by_hand = {one["code"]: one for one in MATRIX.table("codes")["cuda" if part == "driver" else part]}
    for one in MEASURED[part]:
        names = {by_hand[one["code"]].get(column), by_hand[one["code"]]["name"]}
        assert one["name"] in names, one


@pytest.mark.parametrize("part", LIBRARIES)
def test_each_hand_made_error_of_a_library_is_in_its_header(part: str) -> None:
    assert {one["name"] for one in MATRIX.table("codes")[part]} == {one["name"] for one in MEASURED[part]}


def test_each_field_of_nvml_that_a_probe_asks_for_is_one() -> None:
    fields = {one["name"].removeprefix("NVML_FI_DEV_") for one in MEASURED["fields"]}
    asked = {field for probe in (gpu, nvlink) for _, field in probe.FIELDS}
    assert asked
    assert asked <= fields


def test_ptxas_takes_what_the_rows_of_architectures_say_of_its_release() -> None:
    targets = {one["target"] for one in MEASURED["targets"]}
    cuda = Version("13.0")
    rows = MATRIX.table("arch")["arch"]
    taken = [one for one in rows if Version(one["first_toolkit"]) <= cuda <= Version(one.get("last_toolkit", "99"))]
    assert targets == {f"sm_{one['cc'].replace('.', '')}" for one in taken}
