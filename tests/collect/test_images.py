"""An unpacked image on this machine: read but never run, and judged against the driver under it.

The tree stands in for an image: its C library and shell are this machine's own files, its torch is only metadata.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpustack.collect.images import TOOLKIT, look, taken_over
from gpustack.diagnose.machine.values import items, number, table, text, told
from gpustack.errors import UsageError
from gpustack.model.facts import Facts, Status
from tests.build import driver, found, gpu, ids, libcuda, merged, module, nvml, on, pci, report, seen, uvm

LIBC = next(
    (path for path in map(Path, ("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6")) if path.exists()), None
)
COMPAT = "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06"
STATUS = "Package: python3.11-minimal\nStatus: install ok installed\nVersion: 3.11.2-6+deb12u4\n"


def package(site: Path, name: str, version: str, files: Mapping[str, str] | None = None) -> None:
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for path, said in (files or {}).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(said)


def torch_in(site: Path, version: str = "2.11.0+cu130", cuda: str = "13.0") -> None:
    said = f"__version__ = '{version}'\ncuda = '{cuda}'\nhip = None\n"
    package(site, "torch", version, {"torch/__init__.py": "raise SystemExit\n", "torch/version.py": said})


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Return a Debian-like root with the system's Python and a venv that contains torch."""
    root = tmp_path / "image"
    for folder in (
        "usr/bin",
        "usr/lib/python3.11",
        "usr/lib/python3/dist-packages",
        "etc/ld.so.conf.d",
        "var/lib/dpkg",
    ):
        (root / folder).mkdir(parents=True)
    for name in ("bin", "lib"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "var/lib/dpkg/status").write_text(STATUS)
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    shutil.copy("/bin/sh", root / "usr/bin/sh", follow_symlinks=True)
    shutil.copy("/bin/sh", root / "usr/bin/python3.11", follow_symlinks=True)
    (root / "usr/bin/python3").symlink_to("python3.11")
    if LIBC:
        (root / "usr/lib/x86_64-linux-gnu").mkdir()
        shutil.copy(LIBC, root / "usr/lib/x86_64-linux-gnu/libc.so.6")
    venv = root / "opt/venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to("/usr/bin/python3")
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    torch_in(venv / "lib/python3.11/site-packages")
    package(root / "usr/lib/python3/dist-packages", "six", "1.16.0")
    return root


def on_driver(facts: Facts, release: str, cuda: int, name: str = "NVIDIA H200", cc: str = "9.0") -> Facts:
    """Return the facts that a machine with this driver would have under the same image."""
    parts = (module(release, release), uvm(release), driver(release), nvml(release, cuda), libcuda(cuda, release, cc))
    brought = table(told(facts, "image"), "libcuda")
    under = taken_over((*parts, seen("pci-display", pci()), seen("gpu", gpu(name, cc))), brought)
    return merged(facts, *under)


def looked(image: Path, *variables: str) -> Facts:
    return look(image, variables, timeout=30)


def test_the_image_is_described_by_its_own_files(image: Path) -> None:
    facts = look(image, ["LD_LIBRARY_PATH=/x"], timeout=30)
    assert [(one.python, one.kind, one.version, one.found) for one in facts.environments] == [
        ("/opt/venv/bin/python", "venv", "3.11.2", False),
        ("/usr/bin/python3", "system", "3.11.2", True),
    ]
    assert (facts.host.container, facts.host.os) == ("image", "Debian GNU/Linux 12 (bookworm)")
    torch = facts.find("pytorch")
    assert torch
    assert (torch.version, torch.build, torch.path) == (
        "2.11.0+cu130", "cu130", "/opt/venv/lib/python3.11/site-packages/torch",
    )  # fmt: skip
    python = facts.find("python")
    assert python
    assert [copy.facts["kind"] for copy in python.instances] == ["venv", "system"]
    assert facts.find("limits") is None
    packages = facts.find("packages")
    assert packages
    assert [copy.facts["distributions"] for copy in packages.instances] == [
        {"torch": "2.11.0+cu130"},
        {"six": "1.16.0"},
    ]


@pytest.mark.skipif(LIBC is None or not os.confstr("CS_GNU_LIBC_VERSION"), reason="this machine's C library is another")
def test_the_c_library_is_recognised_by_the_words_in_it(image: Path) -> None:
    facts = look(image, (), timeout=30)
    about, python = facts.find("image"), facts.find("python")
    assert about
    assert python
    here = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[1]
    assert (about.facts["glibc"], about.facts["machine"]) == (here, os.uname().machine)
    assert python.facts["glibc"] == here


def test_the_machine_is_this_one_and_what_was_not_told_is_said(image: Path) -> None:
    facts, more = look(image, (), timeout=30), look(image, ["A=b"], timeout=30)
    kernel = facts.find("linux-kernel")
    assert kernel
    assert kernel.version == os.uname().release
    assert any("--container-env" in str(one.enable_by) for one in facts.not_seen)
    assert not any("--container-env" in str(one.enable_by) for one in more.not_seen)


def test_a_build_of_the_image_is_judged_against_the_driver_under_it(image: Path) -> None:
    facts = looked(image)
    old = on_driver(facts, "535.183.01", 12020)
    finding = found(old, "driver-too-old-for-cuda-build")
    assert finding
    assert finding.instance == "pytorch:/opt/venv/bin/python"
    assert "driver-too-old-for-cuda-build" not in ids(on_driver(facts, "580.95.05", 13000))


def compat(image: Path, release: str = "580.65.06") -> Path:
    """Add a compat package; its libraries are empty, so no ELF note says what they pair with."""
    folder = image / "usr/local/cuda-13.0/compat"
    folder.mkdir(parents=True)
    (folder / f"libcuda.so.{release}").write_bytes(b"")
    (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{release}")
    (image / "usr/local/cuda").symlink_to("/usr/local/cuda-13.0")
    (image / "etc/ld.so.cache").write_bytes(b"")
    return folder


def test_a_compat_package_in_the_image_takes_the_drivers_place_on_a_data_centre_gpu(image: Path) -> None:
    compat(image)
    facts = looked(image)
    helped = on_driver(facts, "535.183.01", 12020)
    taken = helped.find("libcuda")
    assert taken
    first = items(taken.instances[0].facts, "copies")[0]
    assert (text(first, "real"), text(first, "found_by")) == (COMPAT, TOOLKIT)
    assert not {"driver-too-old-for-cuda-build", "forward-compat-804", "compat-libs-803"} & ids(helped)
    consumer = on_driver(facts, "535.183.01", 12020, "NVIDIA GeForce RTX 4090", "8.9")
    assert "forward-compat-804" in report(consumer).verdict.root_causes
    newer = on_driver(facts, "580.95.05", 13000)
    assert number(told(newer, "libcuda"), "cu_init") == 0  # the driver's own remains
    assert "driver-too-old-for-cuda-build" not in ids(newer)


def test_without_a_loaders_list_the_toolkit_leaves_the_compat_package_alone(image: Path) -> None:
    compat(image)
    (image / "etc/ld.so.cache").unlink()
    assert "driver-too-old-for-cuda-build" in ids(on_driver(looked(image), "535.183.01", 12020))


def test_variables_and_ld_so_conf_of_the_image_lead_the_loader(image: Path) -> None:
    folder = compat(image, "525.60.13")
    (image / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    (image / "etc/ld.so.conf.d/c.conf").write_text(f"# compat\n/{folder.relative_to(image)}\n")
    for facts in (looked(image), looked(image, "LD_LIBRARY_PATH=/usr/local/cuda/compat")):
        taken = on_driver(facts, "580.95.05", 13000).find("libcuda")
        assert taken
        assert taken.status is Status.PRESENT
        assert "cu_init" not in taken.facts


def test_a_stub_on_the_library_path_of_the_image_is_seen(image: Path) -> None:
    folder = image / "usr/local/cuda-12.4/lib64/stubs"
    folder.mkdir(parents=True)
    (folder / "libcuda.so").write_bytes(b"")
    (folder / "libcuda.so.1").symlink_to("libcuda.so")
    facts = on_driver(looked(image, "LD_LIBRARY_PATH=/usr/local/cuda-12.4/lib64/stubs"), "580.95.05", 13000)
    assert "stub-on-loader-path" in ids(facts)


def test_what_the_image_requires_of_the_driver_is_checked_against_it(image: Path) -> None:
    facts = looked(image, "NVIDIA_REQUIRE_CUDA=cuda>=13.0 brand=tesla,driver>=570,driver<571")
    finding = found(on_driver(facts, "535.183.01", 12020), "container-requires-newer-driver")
    assert finding
    assert "cuda>=13.0" in finding.title
    assert "535.183.01" in finding.title
    assert "container-requires-newer-driver" not in ids(on_driver(facts, "580.95.05", 13000))
    assert "container-requires-newer-driver" not in ids(on_driver(facts, "570.86.10", 12080))


def built(image: Path, archs: bytes) -> Path:
    """Turn the image's torch into a CUDA build, as far as its files show."""
    folder = image / "opt/venv/lib/python3.11/site-packages/torch/lib"
    folder.mkdir()
    (folder / "libtorch_cuda.so").write_bytes(b"")
    (folder / "libtorch_python.so").write_bytes(b"text" * 9 + b"\0" + archs + b"\0")
    return folder


def test_a_build_of_the_image_without_code_for_the_gpu_is_seen(image: Path) -> None:
    built(image, b"sm_50 sm_60 sm_70")
    facts = on_driver(looked(image), "580.95.05", 13000)
    finding = found(facts, "arch-not-in-build")
    assert finding
    assert "sm_90" in finding.title
    built_anew = image / "opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_python.so"
    built_anew.write_bytes(b"\0sm_80 sm_90\0")
    assert "arch-not-in-build" not in ids(on_driver(looked(image), "580.95.05", 13000))


def test_a_library_of_the_image_before_the_frameworks_own_is_seen(
    image: Path, compile_library: Callable[..., Path]
) -> None:
    lib = built(image, b"sm_90")
    site = lib.parent.parent
    made = compile_library("shared_object.c", "libcublas.so.12", "-Wl,-soname,libcublas.so.12")
    needs = compile_library(
        "shared_object.c", "libtorch_global_deps.so", f"-L{made.parent}", "-Wl,--no-as-needed", "-l:libcublas.so.12",
        "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../nvidia/cublas/lib",
    )  # fmt: skip
    shutil.copy(needs, lib / needs.name)
    own, other = site / "nvidia/cublas/lib", image / "usr/local/cuda-12.1/lib64"
    for folder, version in ((own, "12.4.5.8"), (other, "12.1.0.26")):
        folder.mkdir(parents=True)
        shutil.copy(made, folder / f"libcublas.so.{version}")
        (folder / "libcublas.so.12").symlink_to(f"libcublas.so.{version}")
    record = site / "torch-2.11.0+cu130.dist-info/METADATA"
    record.write_text(record.read_text() + "Requires-Dist: nvidia-cublas-cu12==12.4.5.8\n")
    with_path = on_driver(looked(image, "LD_LIBRARY_PATH=/usr/local/cuda-12.1/lib64"), "580.95.05", 13000)
    finding = found(with_path, "cuda-lib-shadowed")
    assert finding
    assert "12.1.0.26" in finding.title
    assert "cuda-lib-shadowed" not in ids(on_driver(looked(image), "580.95.05", 13000))


@pytest.mark.skipif(LIBC is None or os.uname().machine != "x86_64", reason="the stand-in is of x86-64 and glibc")
def test_a_build_that_needs_a_newer_c_library_than_the_image_has_is_seen(image: Path) -> None:
    facts = looked(image)
    torch, python = facts.find("pytorch"), facts.find("python")
    assert torch
    assert python
    for needs, seen_ in (("2.99", True), ("2.17", False)):
        copies = tuple(replace(one, facts={**one.facts, "glibc_needed": needs}) for one in torch.instances)
        made = on_driver(merged(facts, replace(torch, instances=copies)), "580.95.05", 13000)
        assert ("glibc-too-old" in report(made).verdict.root_causes) == seen_


def test_links_pipes_and_devices_of_an_image_lead_nowhere(image: Path) -> None:
    secret = image.parent / "secret"
    torch_in(secret / "lib/python3.11/site-packages", "9.9.9+cu999", "99.9")
    shutil.copytree(image / "opt/venv/bin", secret / "bin", symlinks=True)
    (secret / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    (image / "opt/out").symlink_to("../../secret")
    (image / "opt/away").symlink_to(secret)
    (image / "venv").symlink_to("venv")
    (image / "usr/lib/python3/dist-packages/x.pth").write_text(
        f"{secret}/lib/python3.11/site-packages\nimport os\n../..\n"
    )
    (image / "app").mkdir()
    os.mkfifo(image / "app/.venv")
    (image / "etc/ld.so.conf").symlink_to("/etc/../../../etc/ld.so.conf")
    begun = time.monotonic()
    facts = look(image, [f"PATH={secret}/bin", f"PYTHONPATH={secret}/lib/python3.11/site-packages"], timeout=30)
    assert time.monotonic() - begun < 20
    torch = facts.find("pytorch")
    assert torch
    assert {copy.version for copy in torch.instances} == {"2.11.0+cu130"}
    assert len(facts.environments) == 2


def test_no_program_of_an_image_is_run(image: Path) -> None:
    mark = image.parent / "ran"
    for name in ("nvcc", "gcc", "rpm", "python3.11"):
        program = image / "usr/bin" / name
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {mark}\n")
        program.chmod(0o755)
    facts = look(image, ("CC=/usr/bin/gcc",), timeout=30)
    assert not mark.exists()
    assert not any(component.status is Status.FAILED for component in facts.components if component.layer != "driver")


def test_a_venv_without_its_base_is_reported_once(image: Path) -> None:
    (image / "usr/bin/python3").unlink()
    (image / "usr/bin/python3.11").unlink()
    facts = look(image, (), timeout=30)
    assert facts.environments == ()
    (gone,) = [one for one in facts.not_seen if "is gone" in one.why]
    assert gone.what == "/opt/venv/bin/python"


def test_a_python_whose_version_nothing_tells_is_reported_as_not_seen(image: Path) -> None:
    (image / "opt/venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    shutil.rmtree(image / "opt/venv/lib")
    (image / "usr/bin/python3.11").rename(image / "usr/bin/pythonish")
    (image / "usr/bin/python3").unlink()
    (image / "usr/bin/python3").symlink_to("pythonish")
    facts = look(image, (), timeout=30)
    assert facts.environments == ()
    (told_,) = [one for one in facts.not_seen if one.what == "/opt/venv/bin/python"]
    assert "which Python version" in told_.why


@pytest.mark.parametrize("variable", ["A", "=b", "A\0=b"])
def test_a_variable_has_a_name_and_a_value(image: Path, variable: str) -> None:
    with pytest.raises(UsageError, match="KEY=VALUE is expected"):
        look(image, [variable])


def doctor(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpustack", "doctor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_judges_an_image_and_refuses_what_is_none(image: Path, tmp_path: Path) -> None:
    done = doctor("--container", image, "--format", "json")
    assert done.returncode in {0, 1}
    report_ = json.loads(done.stdout)
    assert report_["environments"][0]["python"] == "/opt/venv/bin/python"
    (tmp_path / "empty").mkdir()
    for arguments, says in (
        (["--container", tmp_path / "empty"], "not the root of a file system"),
        (["--container", tmp_path / "gone"], "No such file"),
        (["--container", image / "etc/os-release"], "Not a directory"),
        (["--container", image, "--deep"], "cannot be combined"),
        (["--container", image, "--from", "x"], "cannot be combined"),
        (["--container-env", "A=b"], "name it with --container DIR"),
        (["--from", "x", "--all-envs"], "cannot be combined"),
    ):
        refused = doctor(*arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert says in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_a_gpu_of_the_driver_is_still_told_without_an_image() -> None:
    assert taken_over((libcuda(),), {"copies": ()})[0].facts["cu_init"] == 0
    assert taken_over((seen("libcuda"),), {"copies": ()})[0].status is Status.ABSENT
    assert on("535.183.01", 12020).find("libcuda")
