"""What is said about another machine, or denied, does not apply to this one; and facts in other wordings."""

from __future__ import annotations

import pytest

from tests.imports.reading import copies, held, packages, read, version


@pytest.mark.parametrize(
    "words",
    [
        "my laptop, not on WSL, torch 2.5.1",
        "native Ubuntu 22.04 (not WSL2)",
        "no WSL here",
        "it isn't WSL",
        "neither WSL nor docker",
        "not running WSL",
        "works on WSL",
        "it works in WSL but not here",
        "is this WSL related? I use Ubuntu",
        "WSL: no",
        '  "wsl": false,',
        '  "wsl": null,',
    ],
)
def test_wsl_that_is_denied_or_elsewhere_is_not_this_machine(words: str) -> None:
    assert read(words).host.wsl is False


@pytest.mark.parametrize(
    "words",
    [
        *("Ubuntu 22.04 in WSL2", "WSL2, Ubuntu 22.04", "I'm on WSL", "running under WSL", "Windows 11 with WSL 2"),
        *("I use WSL2 on Windows 11", "torch installed in WSL2", "nvidia-smi in WSL shows the GPU"),
    ],
)
def test_wsl_that_is_this_machine(words: str) -> None:
    assert read(words).host.wsl is True


@pytest.mark.parametrize(
    ("words", "embedded"),
    [
        ("the same code works on my Jetson", False),
        ("I tried it on Jetson too and it was fine", False),
        ("for Jetson there is another wheel", False),
        ("on a Jetson Orin", True),
        ("Jetson AGX Orin, JetPack 5.1", True),
        ("I run this on a Jetson Nano", True),
    ],
)
def test_a_jetson_is_this_machine_where_it_is_said_so(words: str, embedded: object) -> None:
    gpu = read(words).find("gpu")
    assert bool(gpu and any(copy.facts.get("embedded") for copy in gpu.instances)) is embedded


def test_kernels_and_their_headers_keep_their_releases() -> None:
    facts = read(
        "kernel.x86_64          3.10.0-957.el7        @anaconda\n"
        "kernel-devel.x86_64    3.10.0-1127.18.2.el7  @updates\n"
        "kernel-headers.x86_64  3.10.0-957.el7        @anaconda\n"
        "ii  linux-image-6.8.0-45-generic    6.8.0-45.45  amd64  Signed kernel image\n"
        "ii  linux-headers-6.8.0-41-generic  6.8.0-41.41  amd64  Linux kernel headers\n"
    )
    told = held(facts, "system-packages")
    assert told["kernels"] == ("3.10.0-957.el7", "6.8.0-45-generic")
    assert told["kernel_headers"] == ("3.10.0-1127.18.2.el7", "6.8.0-41-generic")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("I have a 4070, nvidia-smi is fine", "4070"),
        ("GeForce 1070, Arch Linux", "GeForce 1070"),
        ("2x 3090, NCCL hangs", "3090"),
        ("两张4090的利用率很低", "4090"),
        ("eine 2070 mit CUDA 12", "2070"),
    ],
)
def test_a_gpu_by_its_number_alone(words: str, name: str) -> None:
    assert next(iter(copies(read(words), "gpu").values())).facts["name"] == name


@pytest.mark.parametrize(
    ("words", "component"),
    [
        ("my R9 290 is slow", "amd-gpu"),
        ("HD 7970, Windows 7", "amd-gpu"),
        ("Radeon R7 360", "amd-gpu"),
        ("amd 280x", "amd-gpu"),
        ("FirePro W9100", "amd-gpu"),
        ("a GTX 280 is slow", "gpu"),
    ],
)
def test_an_old_card_has_its_maker(words: str, component: str) -> None:
    assert list(copies(read(words), component).values())


def test_a_processor_and_graphics_of_intel_are_no_card_of_amd() -> None:
    assert read("Ryzen R7 5800X, R9 3900X, Intel HD 5500").find("amd-gpu") is None


@pytest.mark.parametrize("words", ["a 4070 images long list", "my 3060 steps took an hour", "batch of 4080 tokens"])
def test_a_number_alone_is_not_a_gpu(words: str) -> None:
    assert read(words).find("gpu") is None


def test_every_cupy_of_a_list_in_words_is_reported() -> None:
    assert packages(read("pip list: cupy 12.0.0, cupy-cuda12x 13.2.0")) == {"cupy": "12.0.0", "cupy-cuda12x": "13.2.0"}


def test_a_package_of_the_driver_beside_the_module_tells_the_libraries() -> None:
    facts = read("cat /proc/driver/nvidia/version says 535.183.01 but dpkg has nvidia-driver-535 535.216.01")
    assert held(facts, "nvidia.ko")["version_loaded"] == "535.183.01"
    assert held(facts, "nvidia-driver")["libnvidia_ml"] == "535.216.01"
    assert version(read("nvidia-driver-535 535.216.01 is here"), "nvidia-driver") == "535.216.01"


def test_a_second_cuda_in_words_beside_one_that_a_program_named() -> None:
    wheel = "it finds the CUDA 12 wheel\n"
    assert held(read(f"{wheel}CUDA 11.8"), "cuda-toolkit")["also_told"] == "11.8"
    assert "also_told" not in held(read(f"{wheel}CUDA 12"), "cuda-toolkit")


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("centos7, Tesla P40", "centos 7"),
        ("RHEL8 and an A100", "RHEL 8"),
        ("rocky8, nvidia-smi is fine", "rocky 8"),
        ("The same card works in Windows10. Here nvidia-smi fails.", None),
    ],
)
def test_a_system_and_its_release_may_be_one_word(text: str, system: str | None) -> None:
    assert read(text).host.os == system
