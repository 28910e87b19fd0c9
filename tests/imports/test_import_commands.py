"""The output of commands: on the kernel and its modules, the PCI bus, package managers, AMD's and Intel's tools."""

from __future__ import annotations

import pytest

from tests.imports.reading import copies, held, packages, read

MODINFO = """filename:       /lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko.zst
alias:          char-major-195-*
version:        550.107.02
license:        {}
vermagic:       6.8.0-45-generic SMP preempt mod_unload modversions
signer:         ubuntu Secure Boot Module Signature key
"""
ROCMINFO = """ROCk module version 6.8.5 is loaded
*******
Agent 1
*******
  Name:                    AMD EPYC 7763 64-Core Processor
  Marketing Name:          AMD EPYC 7763 64-Core Processor
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx90a
  Marketing Name:          AMD Instinct MI210
  Device Type:             GPU
*******
Agent 3
*******
  Name:                    gfx90a
  Marketing Name:          AMD Instinct MI210
  Device Type:             GPU
"""


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (
            "Linux rack7 5.15.0-105-generic #115-Ubuntu SMP Mon Apr 15 09:52:04 UTC 2024 x86_64 GNU/Linux",
            "5.15.0-105-generic",
        ),
        ("user@host:~$ uname -r\n6.8.0-45-generic\n", "6.8.0-45-generic"),
        ("kernel 5.10.102.1-microsoft-standard-WSL2", "5.10.102.1-microsoft-standard-WSL2"),
        ("[605633.3768] NVRM:     Reported by libos partition:2#4 kernel v3.1 [0] @ ts:1770232285", None),
        ("Ubuntu 22.04, driver 550.54.14, Alma Linux 9.3", None),
    ],
)
def test_the_kernels_release_is_whole_and_the_kernels_own(text: str, release: str | None) -> None:
    assert read(text).host.kernel == release


@pytest.mark.parametrize(
    ("banner", "flavour"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build", "open"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.03  Fri Aug 16", "proprietary"),
        ("[    6.25] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  560.35.03  Mon May  5", "proprietary"),
    ],
)
def test_the_module_that_is_loaded_names_itself(banner: str, flavour: str) -> None:
    module = held(read(f"{banner}\nGCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"), "nvidia.ko")
    assert (module["version_loaded"], module["loaded"], module["flavour"]) == ("560.35.03", True, flavour)


@pytest.mark.parametrize(("license_", "flavour"), [("NVIDIA", "proprietary"), ("Dual MIT/GPL", "open")])
def test_modinfo_tells_of_the_module_on_the_disk(license_: str, flavour: str) -> None:
    module = held(read(MODINFO.format(license_)), "nvidia.ko")
    assert (module["version_on_disk"], module["flavour_on_disk"]) == ("550.107.02", flavour)
    assert module["vermagic"] == "6.8.0-45-generic SMP preempt mod_unload modversions"
    assert module.get("loaded") is None


def test_a_list_of_modules_without_ours_says_that_it_is_not_loaded() -> None:
    assert held(read("user@host:~$ lsmod | grep nvidia\nuser@host:~$ \n"), "nvidia.ko")["loaded"] is False
    listed = read(
        "$ lsmod | grep nvidia\nnvidia_uvm           1789952  2\nnvidia              56791040  140 nvidia_uvm\n"
    )
    assert held(listed, "nvidia.ko")["loaded"] is True
    assert held(listed, "nvidia-uvm.ko")["loaded"] is True


def test_the_bus_tells_makers_drivers_and_links() -> None:
    facts = read(
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684] (rev a1)\n"
        "\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L0s L1\n"
        "\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)\n"
        "\tKernel driver in use: vfio-pci\n"
        "03:00.0 Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Aldebaran [1002:740f]\n"
        "\tKernel driver in use: amdgpu\n"
    )
    card = copies(facts, "pci-display")["0000:01:00.0"].facts
    assert (card["vendor"], card["device_id"], card["driver"]) == ("nvidia", "0x2684", "vfio-pci")
    assert card["link"] == {"speed": 2.5, "width": 8, "max_speed": 16.0, "max_width": 16}
    assert copies(facts, "pci-display")["0000:03:00.0"].facts["class"] == "0x120000"
    assert facts.find("gpu") is None  # the bus shows cards; only a driver lists GPUs


def test_dkms_in_its_old_and_new_form() -> None:
    facts = read(
        "nvidia, 470.82.01, 5.4.0-90-generic, x86_64: installed\nnvidia/535.54.03, 6.2.0-26-generic, x86_64: built\n"
        "nvidia-current/550.54.14: added\n"
    )
    states = {(copy.version, copy.facts.get("kernel")): copy.facts["state"] for copy in copies(facts, "dkms").values()}
    assert states == {
        ("470.82.01", "5.4.0-90-generic"): "installed",
        ("535.54.03", "6.2.0-26-generic"): "built",
        ("550.54.14", None): "added",
    }


@pytest.mark.parametrize(
    ("listing", "release"),
    [
        ("ii  nvidia-driver-550  550.107.02-0ubuntu0.22.04.1   amd64   NVIDIA driver metapackage", "550.107.02"),
        ("rc  nvidia-driver-535  535.183.01-0ubuntu0.22.04.1   amd64   NVIDIA driver metapackage", None),
        ("nvidia-driver-550/jammy-updates,now 550.107.02-0ubuntu0.22.04.1 amd64 [installed]", "550.107.02"),
        ("nvidia-driver-560/jammy 560.35.03-0ubuntu1 amd64", None),
        ("nvidia-driver-535:\n  Installed: 535.183.01-0ubuntu0.22.04.1\n  Candidate: 550.1", "535.183.01"),
        ("nvidia-driver-535:\n  Installed: (none)\n  Candidate: 535.183.06", None),
        ("kmod-nvidia-latest-dkms-550.54.15-1.el9.x86_64", "550.54.15"),
        ("nvidia-driver.x86_64     3:550.54.15-1.el9      @cuda-rhel9-x86_64", "550.54.15"),
        ("$ pacman -Q\nlinux 6.9.1.arch1-1\nnvidia-dkms 550.78-1", "550.78"),
    ],
)
def test_packages_of_the_driver_that_are_installed(listing: str, release: str | None) -> None:
    facts = read(listing)
    told = held(facts, "nvidia-driver")["package_version"] if facts.find("nvidia-driver") else None
    assert told == release
    assert facts.host.kernel is None  # an installed kernel package is not necessarily the running one


@pytest.mark.parametrize(
    ("listing", "name", "wanted"),
    [
        ("torch==2.3.0+cu121\n", "torch", "2.3.0+cu121"),
        ("Package  Version\n-------- -------\ntorch    2.2.2\nvllm     0.4.1    /home/x/vllm\n", "vllm", "0.4.1"),
        ('[{"name": "torch", "version": "2.2.2+cu121"}]', "torch", "2.2.2+cu121"),
        (
            "torch @ https://download.pytorch.org/whl/cu121/torch-2.3.0%2Bcu121-cp310-cp310-linux_x86_64.whl#sha256=a\n",
            "torch",
            "2.3.0+cu121",
        ),
        ("Successfully installed numpy-1.26.4 nvidia-cudnn-cu12-8.9.2.26\n", "nvidia-cudnn-cu12", "8.9.2.26"),
        ("Name: flash_attn\nVersion: 2.5.8\nSummary: Flash\n", "flash-attn", "2.5.8"),
        ("# Name   Version   Build  Channel\nlibcublas   12.1.0.26    0    nvidia\n", "libcublas", "12.1.0.26"),
        ("pytorch   1.10.0   py3.9_cuda11.3_cudnn8.2.0_0    pytorch\n", "pytorch", "1.10.0"),
        ("    > nvidia-nccl-cu12==2.19.3\r\n", "nvidia-nccl-cu12", "2.19.3"),
    ],
)
def test_lists_of_python_packages(listing: str, name: str, wanted: str) -> None:
    assert packages(read(listing))[name] == wanted


@pytest.mark.parametrize(
    ("listing", "accelerator", "cuda"),
    [
        ("torch==2.3.0+cu121\n", "cuda", "12.1"),
        ("torch==2.3.0+cpu\n", "cpu", None),
        ("torch==2.3.0+rocm6.0\n", "rocm", None),
        ("pytorch   1.10.0   py3.9_cuda11.3_cudnn8.2.0_0    pytorch\n", "cuda", "11.3"),
        ("pytorch   2.1.0    cpu_py310h1    conda-forge\n", "cpu", None),
        ("torch==2.3.0\n", None, None),
    ],
)
def test_the_build_that_a_version_names(listing: str, accelerator: str | None, cuda: str | None) -> None:
    torch = held(read(listing), "pytorch")
    assert (torch.get("accelerator"), torch.get("cuda")) == (accelerator, cuda)


def test_rocminfo_has_processors_among_its_agents() -> None:
    facts = read(ROCMINFO)
    assert [(gpu.facts["gfx"], gpu.facts["name"]) for gpu in copies(facts, "amd-gpu").values()] == [
        ("gfx90a", "AMD Instinct MI210"),
        ("gfx90a", "AMD Instinct MI210"),
    ]
    assert held(facts, "amdgpu.ko")["loaded"] is True


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("GPU[1]\t\t: Card Series: \t\tAMD Instinct MI300X\nGPU[1]\t\t: GFX Version: \t\tgfx942\n", ("1", "gfx942")),
        ('{"card0": {"Card Series": "AMD Instinct MI300X", "GFX Version": "gfx942"}}', ("0", "gfx942")),
        (
            "GPU: 0\n    ASIC:\n        MARKET_NAME: AMD Instinct MI300X\n        TARGET_GRAPHICS_VERSION: gfx942\n",
            ("0", "gfx942"),
        ),
        (
            '[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "target_graphics_version": "gfx942"}}]',
            ("0", "gfx942"),
        ),
        ("| 0000:09:00.0    AMD Instinct MI300X | 0 %      49 C   0          144/1000 W |\n", ("0", None)),
        ("device,Card series,Card model\ncard0,Arcturus [AMD Instinct MI300X],0x0c34\n", ("0", None)),
    ],
)
def test_amds_tools_in_words_tables_and_json(text: str, wanted: tuple[str, str | None]) -> None:
    gpu = copies(read(text), "amd-gpu")[wanted[0]].facts
    assert "AMD Instinct MI300X" in str(gpu["name"])
    assert gpu.get("gfx") == wanted[1]


def test_sycl_lists_a_gpu_once_for_each_of_its_backends() -> None:
    facts = read(
        "[level_zero:gpu][level_zero:0] Intel(R) Level-Zero, Intel(R) Arc(TM) B580 Graphics 20.1.0 [1.6.31907]\n"
        "[opencl:cpu:1] Intel(R) OpenCL, 13th Gen Intel(R) Core(TM) i9-13900K 3.0 [2023.16.7.0.21]\n"
        "[opencl:gpu][opencl:1] Intel(R) OpenCL Graphics, Intel(R) Arc(TM) B580 Graphics 3.0 NEO [24.52]\n"
    )
    gpu = copies(facts, "intel-gpu")
    assert [one.facts["name"] for one in gpu.values()] == ["Intel(R) Arc(TM) B580 Graphics"]


def test_groups_of_the_user_are_those_after_the_word() -> None:
    facts = read("$ id\nuid=1000(alice) gid=1000(alice) groups=1000(alice),44(video)\n")
    assert held(facts, "user")["groups"] == ("alice", "video")
