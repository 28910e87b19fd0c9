"""Versions beside the particles and verbs of other languages, and outputs with a prefix, a count, or no header."""

from __future__ import annotations

import pytest

from tests.imports.reading import component, copies, kinds, packages, read, version


@pytest.mark.parametrize(
    ("words", "name", "wanted"),
    [
        ("H800 八卡, 驱动用 .run 升到 550.90.07, 服务一启动就退出", "nvidia-driver", "550.90.07"),
        ("驱动从 535.54 升级到 550.90.07, CUDA 是12.4", "nvidia-driver", "550.90.07"),
        ("CUDA 装的11.8, torch是2.1.0+cu121", "pytorch", "2.1.0+cu121"),
        ("CUDA 装的11.8", "cuda-toolkit", "11.8"),
        ("apt 里的 nvidia-fabricmanager-550 是 550.54.15", "nvidia-fabricmanager", "550.54.15"),
        ("ドライバを555.42に上げた。torchは2.3.0です", "nvidia-driver", "555.42"),
        ("ドライバを555.42に上げた。torchは2.3.0です", "pytorch", "2.3.0"),
        ("드라이버를 555.42로 올렸는데 torch는 2.4.0", "pytorch", "2.4.0"),
        ("Treiber auf 550.54 aktualisiert, torch ist 2.4.0", "nvidia-driver", "550.54"),
        ("обновил драйвер до 550.54.14, torch версии 2.3.1", "pytorch", "2.3.1"),
        ("driver está en la versión 550.54, cuDNN es 8.9.7", "cudnn", "8.9.7"),
        ("the newest .run (590.48.01) on slackware", "nvidia-driver", "590.48.01"),
    ],
)
def test_a_version_is_read_beside_words_of_other_languages(words: str, name: str, wanted: str) -> None:
    assert version(read(words), name) == wanted


@pytest.mark.parametrize(
    "words",
    [
        "需要驱动 550.54",
        "ドライバ 550.54 が必要",
        "드라이버 550.54 이상",
        "braucht Treiber 550.54",
        "нужен драйвер 550.54",
    ],
)
def test_what_is_wanted_is_not_here(words: str) -> None:
    assert read(words).find("nvidia-driver") is None


def test_jax_and_its_plugin_are_read_where_particles_follow_their_names() -> None:
    found = read("jax랑 jaxlib만 0.5.3으로 올렸는데 jax-cuda12-plugin은 0.4.30")
    assert component(found, "jax").facts["plugins"] == {"jax-cuda12-plugin": "0.4.30"}
    assert packages(found)["jaxlib"] == "0.5.3"


def test_the_names_of_a_query_are_those_of_its_command() -> None:
    found = read(
        "$ nvidia-smi --query-gpu=index,name,pcie.link.gen.current,pcie.link.width.current,pcie.link.width.max,"
        "power.limit,mig.mode.current,clocks.sm --format=csv,noheader\n"
        "0, NVIDIA A100-PCIE-40GB, 1, 4, 16, 250.00 W, Disabled, 210 MHz\n"
        "1, NVIDIA A100-PCIE-40GB, 4, 16, 16, 250.00 W, Enabled, 1410 MHz\n"
    )
    first, second = (copies(found, "gpu")[str(index)].facts for index in range(2))
    assert first["pcie"] == {"generation": 1, "width": 4, "max_width": 16}
    assert first["power"] == {"limit_watts": 250.0}
    assert first["mig"] == {"enabled": False}
    assert second["clocks"] == {"sm_mhz": 1410}


def test_a_list_without_instances_tells_that_mig_has_none() -> None:
    asked = "index, mig.mode.current\n0, Enabled\n"
    listed = "GPU 0: NVIDIA A30 (UUID: GPU-ba3d1d2e-91d4-1111-2222-333344445555)\n"
    assert copies(read(f"{listed}{asked}"), "gpu")["0"].facts["mig"] == {"enabled": True, "instances": ()}
    with_one = f"{listed}  MIG 1g.6gb      Device  0: (UUID: MIG-ba3d1d2e-91d4-1111-2222-333344445555)\n{asked}"
    mig = copies(read(with_one), "gpu")["0"].facts["mig"]
    assert isinstance(mig, dict)
    assert mig["instances"] != ()


@pytest.mark.parametrize("prefix", ["#11 31.72 ", "worker-1  | "])
def test_the_prefix_of_a_build_or_a_service_does_not_matter(prefix: str) -> None:
    lines = "Successfully installed onnxruntime-1.20.1 onnxruntime-gpu-1.20.1\nUnable to register cuDNN factory: x"
    found = read("\n".join(f"{prefix}{line}" for line in lines.split("\n")))
    assert packages(found) == {"onnxruntime": "1.20.1", "onnxruntime-gpu": "1.20.1"}


def test_gpus_on_the_bus_are_counted_by_grep_and_by_uniq() -> None:
    by_grep = read("[admin@n1 ~]$ lspci | grep -c 'GP100GL \\[Tesla P100'\n4\n")
    assert len(copies(by_grep, "pci-display")) == 4
    by_uniq = read(
        "      6 Bridge: NVIDIA Corporation GA100 [A100 NVSwitch] (rev a1)\n"
        "      8 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)\n"
    )
    assert len(copies(by_uniq, "pci-display")) == 8
    assert component(by_uniq, "nvswitch").facts["on_bus"] is True


def test_modules_are_read_from_their_names_alone() -> None:
    found = read("$ lsmod | grep ^nvidia | awk '{print $1}' | xargs\nnvidia_uvm nvidia_drm nvidia_modeset nvidia\n")
    assert component(found, "nvidia-uvm.ko").facts["loaded"] is True


def test_packages_are_read_from_the_log_of_apt_and_from_columns() -> None:
    log = read("Install: cuda:amd64 (12.6.1-1), nvidia-dkms-560:amd64 (560.35.03-1, automatic)\n")
    assert component(log, "nvidia-driver").facts["package_version"] == "560.35.03"
    columns = read("libnvidia-compute-535:amd64 535.171.04-0ubuntu0.22.04.1\nnvidia-utils-535 535.171.04-0ubuntu1\n")
    assert component(columns, "nvidia-driver").facts["package_version"] == "535.171.04"


@pytest.mark.parametrize(("answer", "said"), [("137", True), ("rc=18", True), ("0", False)])
def test_the_exit_status_of_a_command_tells_whether_it_failed(answer: str, said: bool) -> None:  # noqa: FBT001 - a row
    found = read(f"GPU 0: NVIDIA L40 (UUID: GPU-1)\n$ docker run --rm --gpus all cuda nvidia-smi; echo $?\n{answer}\n")
    assert ("ailing-said" in kinds(found)) is said
