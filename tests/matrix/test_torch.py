"""PyTorch's rows: they have types, agree with one another, and state well-known facts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import torch
from gpustack.matrix.subjects.ranges import minor, numbers
from gpustack.model.versions import ComputeCapability, CudaVersion

MATRIX = Matrix()
PLATFORMS = {"linux-x86_64", "linux-aarch64", "windows", "macos-x86_64", "macos-arm64"}


def test_releases_go_from_old_to_new_each_once_with_pythons_and_platforms() -> None:
    versions = [numbers(one.version) for one in torch.releases(MATRIX)]
    assert all(old < new for old, new in pairwise(versions))
    assert versions[0] == (1, 0, 0)
    for one in torch.releases(MATRIX):
        assert [numbers(python) for python in one.pythons] == sorted(numbers(python) for python in one.pythons)
        assert set(one.wheels) <= PLATFORMS
        assert one.row.text.startswith(f"torch {one.version}: ")


def test_patch_releases_agree_with_the_minor_releases_that_the_doctor_reads() -> None:
    for name, release in MATRIX.torch_releases.items():
        patches = [one for one in torch.releases(MATRIX) if minor(one.version) == name]
        assert patches, name
        assert {one.tag for one in patches} == {release.tag}
        assert {one.pythons for one in patches} == {release.pythons}
        assert {one.glibc for one in patches} == {release.glibc}


def test_the_default_build_is_one_that_is_offered() -> None:
    for one in torch.releases(MATRIX):
        for platform in ("linux-x86_64", "linux-aarch64", "windows"):
            build = torch.default_build(MATRIX, one.version, platform)
            offered = {build.tag for build in torch.builds_of(MATRIX, one.version, platform)}
            assert build is None or not offered or build.tag in offered, (one.version, platform)


def test_every_build_has_a_tag_that_says_its_accelerator_and_none_is_offered_twice() -> None:
    for one in torch.releases(MATRIX):
        builds = torch.builds_of(MATRIX, one.version)
        assert len({build.tag for build in builds}) == len(builds), one.version
        for build in builds:
            assert build.accelerator in {"cpu", "cuda", "rocm", "xpu"}
            assert (build.accelerator == "cuda") == (build.cuda is not None)
            assert build.cuda is None or MATRIX.native(build.cuda) or build.cuda < CudaVersion(9)


def test_code_is_of_builds_that_are_offered() -> None:
    parts = MATRIX.table("torch_wheels")["code"], MATRIX.table("torch")["builds"]
    keys = [(line["torch"], line["cuda"], line.get("platform", "")) for part in parts for line in part]
    assert len(set(keys)) == len(keys)
    for version, cuda, platform in keys:
        tags = {
            tag
            for line in MATRIX.table("torch_wheels")["offers"]
            if line["torch"] == version and line["platform"] == (platform or "linux-x86_64")
            for tag in line["tags"]
        }
        assert not tags or "cu" + cuda.replace(".", "") in tags, (version, cuda)


def test_a_build_of_a_cuda_version_carries_libraries_that_agree_with_its_wheel() -> None:
    for one in torch.releases(MATRIX):
        build = torch.default_build(MATRIX, one.version)
        rows = [
            line
            for line in MATRIX.table("torch_wheels")["libraries"]
            if build and (line["torch"], line["cuda"]) == (minor(one.version), str(build.cuda))
        ]
        for line in rows:
            assert line["cudnn"] == one.pins["cudnn"]
            assert line.get("nccl", one.pins.get("nccl")) == one.pins.get("nccl")


def test_a_plain_install_of_torch_2_11_is_a_cuda_13_build_and_its_predecessor_one_for_cuda_12() -> None:
    new, old = torch.default_build(MATRIX, "2.11.0"), torch.default_build(MATRIX, "2.10.0")
    assert new is not None
    assert old is not None
    assert (new.tag, old.tag) == ("cu130", "cu128")


@pytest.mark.parametrize(
    ("version", "platform", "tag"),
    [
        ("2.11.0", "windows", "cpu"),
        ("2.7.1", "macos", "cpu"),
        ("2.10.0", "linux-aarch64", "cpu"),
        ("2.11.0", "linux-aarch64", "cu130"),
        ("1.8.1+cu111", "linux-x86_64", "cu102"),
        ("1.4.0", "linux-x86_64", "cu101"),
    ],
)
def test_a_plain_install_takes_what_its_platform_is_served(version: str, platform: str, tag: str) -> None:
    build = torch.default_build(MATRIX, version, platform)
    assert build is not None
    assert build.tag == tag


def test_what_no_wheel_or_no_source_says_is_not_guessed() -> None:
    assert torch.default_build(MATRIX, "1.0.0") is None
    assert torch.default_build(MATRIX, "1.4.0", "windows") is None
    assert torch.release_of(MATRIX, "9.9.9") is None
    assert torch.build_of(MATRIX, "nightly", "cu130") is None
    assert torch.build_of(MATRIX, "2.12.0", "cu128") is None
    assert torch.companions(MATRIX, "9.9.9") is None


def test_an_extra_build_is_offered_of_some_patch_releases_alone() -> None:
    assert torch.build_of(MATRIX, "2.12.0", "cu129") is None
    assert torch.build_of(MATRIX, "2.12.1", "cu129") is not None


def test_volta_is_left_by_cuda_13_and_served_by_cuda_12_6() -> None:
    volta = {(one.version, one.tag) for one in torch.builds_for_arch(MATRIX, ComputeCapability(7, 0))}
    assert ("2.14.1", "cu126") in volta
    assert ("2.10.0", "cu128") in volta
    assert ("2.11.0", "cu128") not in volta
    assert not {one for one in volta if one[1].startswith("cu13")}


def test_blackwell_is_first_served_by_torch_2_7_for_cuda_12_8() -> None:
    first = torch.builds_for_arch(MATRIX, ComputeCapability(12, 0))[0]
    assert (first.version, first.tag) == ("2.7.0", "cu128")
    assert first.libraries["cudnn"] == "9.7.1.26"


def test_ptx_is_promised_on_linux_alone() -> None:
    linux, windows = (torch.build_of(MATRIX, "2.9.1", "cu130", one) for one in ("linux-x86_64", "windows"))
    assert linux is not None
    assert windows is not None
    assert {arch.kind for arch in linux.archs} == {"sm", "compute"}
    assert {arch.kind for arch in windows.archs} == {"sm"}


@pytest.mark.parametrize(
    ("version", "vision", "audio"),
    [
        ("2.7.1", "0.22.1", "2.7.1"),
        ("1.13.1", "0.14.1", "0.13.1"),
        ("1.7.0", "0.8.1", "0.7.0"),
    ],
)
def test_torchvision_and_torchaudio_of_a_release(version: str, vision: str, audio: str | None) -> None:
    found = torch.companions(MATRIX, version)
    assert found is not None
    assert (found.torchvision, found.torchaudio) == (vision, audio)
    assert found.pin == f"=={version}"


def test_a_torchvision_without_compiled_parts_goes_with_more_than_one_torch() -> None:
    found = torch.companions(MATRIX, "1.0.1")
    assert found is not None
    assert (found.torchvision, found.torchaudio, found.pin) == ("0.2.2", None, "<1.2")


def test_torch_is_found_by_its_companions() -> None:
    old, new = torch.torch_for_torchvision(MATRIX, "0.15.2+cu118"), torch.torch_for_torchvision(MATRIX, "0.29.2")
    audio = torch.torch_for_torchaudio(MATRIX, "2.0.2")
    assert old is not None
    assert new is not None
    assert audio is not None
    assert (old.torch, old.pin) == ("2.0.1", "==2.0.1")
    assert new.pin == ">=2.14.0"
    assert audio.torch == "2.0.1"
    assert torch.torch_for_torchvision(MATRIX, "99.0") is None


def test_every_release_but_the_oldest_long_term_one_has_its_companions() -> None:
    for one in torch.releases(MATRIX):
        assert torch.companions(MATRIX, one.version) is not None, one.version
