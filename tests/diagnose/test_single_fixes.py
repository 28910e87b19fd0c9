"""Fixes that were wrong once, each in its own case: what they must name, and what they must not touch."""

from __future__ import annotations

import dataclasses
import io
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose import fixes
from gpustack.diagnose.rules.windows import PURGE
from gpustack.imports import load
from gpustack.model.command import apart
from tests.build import MATRIX, driver, gpu, healthy, kernel, merged, pci, report, seen
from tests.diagnose.test_fixes import KNOWN, SYSTEMS, to_pip, words

if TYPE_CHECKING:
    from pathlib import Path

    from gpustack.model.facts import Facts
    from gpustack.model.report import Fix


def pasted(text: str) -> Facts:
    return load(["-"], io.BytesIO(text.encode()), MATRIX)


def fix(text: str, finding: str) -> Fix:
    found = next(one.fix for one in report(pasted(text)).findings if one.id == finding)
    assert found
    return found


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (
            "[ WARN:0] global net_impl.cpp setUpNet DNN module was not built with CUDA backend; switching to CPU",
            "OpenCV",
        ),
        ("cv2.error: (-216:No CUDA support) The library is compiled without CUDA support in function", "OpenCV"),
        ("Device API cuda is not enabled. Please install the cuda version of dgl", "DGL"),
        ("[LightGBM] [Fatal] CUDA Tree Learner was not enabled in this build.", "LightGBM"),
        ("Please compile with -DSHERPA_ONNX_ENABLE_GPU=ON", "sherpa-onnx"),
        ("warning: not compiled with GPU offload support, --gpu-layers option will be ignored", "llama.cpp"),
        ("src/storage/storage.cc: Compile with USE_CUDA=1 to enable GPU usage", "MXNet"),
        ("Cannot use GPU because you have installed CPU version PaddlePaddle", "PaddlePaddle"),
    ],
)
def test_a_program_for_the_cpu_alone_is_not_installed_as_the_same_again(said: str, name: str) -> None:
    (found,) = [one for one in report(pasted(said)).findings if one.id == "cpu-only-build"]
    assert found.title.startswith(f"{name} is a CPU-only build")
    assert found.fix
    again = [one for one in found.fix.commands if "pip install" in one]
    assert all(re.search("USE_CUDA|GGML_CUDA|-gpu|-cu112", one) for one in again)
    assert {name for one in found.fix.commands for name in to_pip(one)} <= KNOWN


@pytest.mark.parametrize("line", ["apex", "nvidia-foo", "my_kernels"])
def test_an_extension_that_the_index_may_not_have_is_built_and_not_fetched(line: str) -> None:
    said = f"ImportError: /v/site-packages/{line}/x.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs"
    advice = fix(said, "extension-abi-mismatch")
    assert f"Build {line.removesuffix('-foo')} for torch" in advice.text
    assert [name for one in advice.commands for name in to_pip(one)] in ([], ["torch"])


def test_an_extension_is_rebuilt_although_it_is_installed_and_nothing_else_is() -> None:
    said = (
        "ImportError: /v/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs"
    )
    (here,) = fix(said, "extension-abi-mismatch").commands
    assert "--no-build-isolation" in here  # without it the build ends in "No module named 'torch'"
    assert {"--force-reinstall", "--no-deps"} <= set(words(here))
    assert ":all:" not in here


PURGED = (
    "nvidia-driver-580",
    "nvidia-utils-580",
    "libnvidia-compute-580",
    "libnvidia-gl-580",
    "cuda-drivers",
    "libcuda1",
)
KEPT = (
    *("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container1", "libnvidia-container-tools"),
    *("libnvidia-egl-wayland1", "nvidia-cuda-toolkit", "cuda-toolkit-12-9", "libcudart12", "xserver-xorg-video-dummy"),
)


def test_in_wsl_the_driver_is_purged_and_the_container_toolkit_stays(tmp_path: Path) -> None:
    said = (
        "5.15.167.4-microsoft-standard-WSL2\n$ sudo apt install nvidia-driver-535\n$ nvidia-smi\nFailed to initialize"
    )
    (command,) = [
        one
        for one in fix(
            f"{said} NVML: GPU access blocked by the operating system", "wsl-linux-driver-installed"
        ).commands
        if "purge" in one
    ]
    assert command == PURGE
    for name, body in (("dpkg-query", f"printf '%s\\n' {' '.join((*PURGED, *KEPT))}"), ("sudo", 'echo "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    shell, path = ["bash", "-c", command], {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(shell, env=path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["apt-get", "purge", *PURGED]


def test_the_compat_folder_leaves_the_loaders_configuration_and_the_c_librarys_own_stays(tmp_path: Path) -> None:
    said = "CUDA error 803: system has unsupported display driver / cuda driver combination"
    (command,) = fix(said, "compat-libs-803").commands
    own = "# Legacy biarch compatibility support\n/lib32\n/usr/lib32\n"
    (tmp_path / "zz_i386-biarch-compat.conf").write_text(own, "utf-8")
    (tmp_path / "cuda-compat.conf").write_text("/usr/local/cuda-12.8/compat\n/opt/lib\n", "utf-8")
    (tmp_path / "alternative").write_text("/usr/lib/mesa\n", "utf-8")
    (tmp_path / "GL.conf").symlink_to("alternative")
    edit = command.partition(" && ")[0].removeprefix("sudo ").replace("/etc/ld.so.conf.d", str(tmp_path))
    shell = ["bash", "-c", edit]
    subprocess.run(shell, check=True)
    assert (tmp_path / "zz_i386-biarch-compat.conf").read_text("utf-8") == own
    assert (tmp_path / "GL.conf").is_symlink()
    assert (tmp_path / "cuda-compat.conf").read_text("utf-8") == "#/usr/local/cuda-12.8/compat\n/opt/lib\n"


def test_docker_is_not_removed_where_nothing_says_that_it_is_a_snap() -> None:
    said = (
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object "
        "file: no such file or directory: unknown.\n"
        "| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |\n"
        "|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off |\n"
    )
    assert fix(said, "docker-snap").commands == ("snap list docker",)
    named = fix(f"{said}$ snap list docker\ndocker  24.0.5  2915  latest/stable  canonical  -\n", "docker-snap")
    assert "volumes" in named.text
    assert named.commands[0] == "sudo snap save docker"


OLD = (("V100", "0x1db1", "Tesla V100-SXM2-16GB", "7.0", 580), ("K80", "0x102d", "Tesla K80", "3.7", 470))


@pytest.mark.parametrize("old", OLD, ids=lambda one: str(one[0]))
@pytest.mark.parametrize("system", ["ubuntu", *SYSTEMS])
def test_a_gpu_that_the_newest_driver_has_left_gets_the_last_that_runs_it(
    system: str, old: tuple[str, str, str, str, int]
) -> None:
    _, device, name, cc, last = old
    card = merged(healthy(driver("450.80.02")), kernel(os_id=system), seen("pci-display", pci(device=device)))
    typed = fixes.driver(merged(card, seen("gpu", gpu(name, cc))), MATRIX)
    assert any(str(last) in one for one in typed)
    assert not any("nvidia-open" in one or "ubuntu-drivers" in one for one in typed)
    new = fixes.driver(merged(healthy(), kernel(os_id=system)), MATRIX)
    assert not any(str(last) in one for one in new)


def test_the_commands_for_a_v100_on_rocky_name_its_last_branch() -> None:
    said = (
        "Rocky Linux 9.4\n| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |\n"
        "|   0  Tesla V100-SXM2...  On   | 00000000:00:1E.0 Off |                    0 |\n"
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a "
        "newer version, or use an earlier cuda container: unknown.\n"
    )
    advice = fix(said, "container-requires-newer-driver")
    assert advice.commands == (
        "sudo dnf module enable nvidia-driver:580-dkms",
        "sudo dnf install cuda-drivers",
        "sudo reboot",
    )
    assert "NVIDIA's repository" in advice.text


def test_no_driver_for_linux_is_installed_inside_wsl() -> None:
    facts = healthy()
    typed = fixes.driver(dataclasses.replace(facts, host=dataclasses.replace(facts.host, wsl=True)), MATRIX)
    commands, by_hand = apart(typed)
    assert commands == ()
    assert by_hand.startswith("On Windows, install NVIDIA's newest driver from https://www.nvidia.com/drivers")
    assert "`wsl.exe --shutdown` in PowerShell on Windows" in by_hand


def test_mig_is_divided_or_switched_off_and_not_both() -> None:
    facts = healthy(seen("gpu", gpu("NVIDIA A30", "8.0", mig={"enabled": True, "instances": []})))
    (found,) = [one for one in report(facts).findings if one.id == "mig-enabled-no-instance"]
    assert found.fix
    assert [one for one in found.fix.commands if not one.startswith("#")] == [
        "sudo nvidia-smi mig -i 0000:01:00.0 -lgip"
    ]


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "  - package pytorch-1.7.1-py3.8 requires python 3.8.*, but none of the providers can be installed",
            "torch",
        ),
        ("ERROR: Package 'my-own-thing' requires a different Python: 3.13.1 not in '<3.12,>=3.8'", None),
    ],
)
def test_a_package_is_installed_by_the_name_that_the_index_has(said: str, named: str | None) -> None:
    typed = fix(said, "python-version-no-wheel").commands
    assert {name for one in typed for name in to_pip(one)} == ({named} if named else set())
