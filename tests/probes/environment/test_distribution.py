"""Distributions of one name: all copies, the one that an import finds first."""

from __future__ import annotations

from pathlib import Path

from gpustack.collect import catalogue
from gpustack.collect.probing import look
from gpustack.model.facts import Status
from tests.probes.stand_ins import compiled, distribution, python
from tests.told import ToldHost, load

probe = load("environment/distribution.py")["probe"]
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": ["/user", SITE], "prefix": "/env"}
ROW = {"id": "cuda-bindings", "distributions": ["cuda_bindings"]}


def test_a_distribution_that_is_not_there_is_absent() -> None:
    assert probe(ToldHost(python=PYTHON, row=ROW)) == []
    denied = ToldHost(files={f"{SITE}/x": PermissionError(13, "denied")}, python=PYTHON, row=ROW)
    assert probe(denied) == []


def test_two_copies_are_two_instances_and_the_second_says_what_hides_it() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{SITE}/cuda_bindings-13.3.1.dist-info/INSTALLER": "pip\n",
        "/user/cuda_bindings-12.9.2.dist-info/INSTALLER": "uv\n",
        f"{SITE}/cuda_core-1.2.0.dist-info/INSTALLER": "pip\n",
    }
    first, second = probe(ToldHost(files=files, python=PYTHON, row=ROW))
    assert first == {
        "key": "cuda-bindings",
        "version": "12.9.2",
        "build": None,
        "path": "/user/cuda_bindings-12.9.2.dist-info",
        "kind": "dist-info",
        "shadowed_by": None,
        "installer": "uv",
        "editable": False,
    }
    assert second["version"] == "13.3.1"
    assert second["key"] == f"cuda-bindings in {SITE}/cuda_bindings-13.3.1.dist-info"
    assert second["shadowed_by"] == first["path"]


def test_a_package_of_conda_is_seen_with_its_build() -> None:
    files: dict[str, str | bytes | OSError] = {"/env/conda-meta/cuda-bindings-12.9.2-py312h_1.json": "{}"}
    (seen,) = probe(ToldHost(files=files, python=PYTHON, row=ROW))
    assert (seen["version"], seen["build"], seen["installer"]) == ("12.9.2", "py312h_1", "conda")


def test_in_a_real_python_that_is_not_ours(tmp_path: Path) -> None:
    program, site = python(tmp_path / "env")
    distribution(site, "cuda-core", "1.2.0", INSTALLER="stand-in\n")
    rows = [system for system in catalogue.load() if system.id in {"cuda-core", "cuda-pathfinder"}]
    facts = look(pythons=[str(program)], systems=rows, timeout=20)
    seen, missing = facts.find("cuda-core"), facts.find("cuda-pathfinder")
    assert seen is not None
    assert missing is not None
    assert (seen.version, seen.facts["installer"]) == ("1.2.0", "stand-in")
    assert seen.instances[0].environment == str(program)
    assert missing.status is Status.ABSENT


def asked(files: dict[str, str | bytes | OSError], **row: object) -> list[dict[str, object]]:
    """Return the probe's result for these files, called by a row with these data."""
    found: list[dict[str, object]] = probe(ToldHost(files, python=PYTHON, row={"id": "x", **row}))
    return found


def test_what_a_package_says_of_itself_is_read_from_the_files_that_the_row_names() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{SITE}/vllm-0.11.0.dist-info/METADATA": "",
        f"{SITE}/vllm/_version.py": "__commit_id__ = commit = 'g123'\n",
        f"{SITE}/flashinfer_python-0.5.2.dist-info/METADATA": "",
    }
    said = {"commit": ["vllm/_version.py", "__commit_id__"], "gone": ["vllm/none.py", "x"]}
    (seen,) = asked(files, distributions=["vllm"], said=said, beside=["flashinfer-python", "xformers"])
    assert (seen["commit"], seen["gone"], seen["beside"]) == ("g123", None, {"flashinfer-python": "0.5.2"})


def test_the_build_is_in_the_version_or_in_the_name_of_the_file_it_came_from() -> None:
    tag = {"tag": r"cu(?P<cuda>\d+)torch(?P<torch>\d+\.\d+)(?:cxx11abi(?P<abi>TRUE|FALSE))?"}
    name = "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    by_version: dict[str, str | bytes | OSError] = {
        f"{SITE}/flash_attn-2.8.3+cu12torch2.8cxx11abiFALSE.dist-info/METADATA": ""
    }
    by_address: dict[str, str | bytes | OSError] = {
        f"{SITE}/flash_attn-2.8.3.dist-info/direct_url.json": f'{{"url": "https://example.org/{name}"}}'
    }
    (first,) = asked(by_version, distributions=["flash-attn"], **tag)
    (second,) = asked(by_address, distributions=["flash-attn"], **tag)
    assert (first["cuda"], first["torch"], first["abi"]) == ("12", "2.8", "FALSE")
    assert second["abi"] == "TRUE"
    plain: dict[str, str | bytes | OSError] = {f"{SITE}/flash_attn-2.8.3.dist-info/direct_url.json": "[]"}
    assert "abi" not in asked(plain, distributions=["flash-attn"], **tag)[0]


def test_names_may_end_in_a_star_and_those_named_first_come_first() -> None:
    files: dict[str, str | bytes | OSError] = {
        f"{SITE}/mlc_ai_nightly_cu124-0.19.dist-info/METADATA": "",
        f"{SITE}/apache_tvm-0.20.0.dist-info/METADATA": "",
    }
    assert [one["key"] for one in asked(files, distributions=["apache-tvm", "mlc-ai*"])] == [
        "apache-tvm",
        "mlc-ai-nightly-cu124",
    ]


def test_a_record_whose_package_lacks_what_the_row_requires_is_not_it() -> None:
    files: dict[str, str | bytes | OSError] = {f"{SITE}/torch-2.11.0.dist-info/METADATA": ""}
    assert asked(files, distributions=["torch"], holds="torch/jit/__init__.py") == []
    there: dict[str, str | bytes | OSError] = {**files, f"{SITE}/torch/jit/__init__.py": ""}
    assert len(asked(there, distributions=["torch"], holds="torch/jit/__init__.py")) == 1
    conda: dict[str, str | bytes | OSError] = {
        "/env/conda-meta/pytorch-2.5.1-py312_0.json": "{}",
        f"{SITE}/torch/jit/__init__.py": "",
    }
    assert len(asked(conda, distributions=["pytorch"], holds="torch/jit/__init__.py")) == 1


def test_the_majors_that_extension_files_are_linked_to_are_reported(tmp_path: Path) -> None:
    program, site = python(tmp_path / "env")
    distribution(site, "vllm", "0.11.0")
    needs = [compiled(tmp_path / name) for name in ("libcudart.so.12", "libcudnn.so.9")]
    compiled(site / "vllm" / "_C.abi3.so", needs=needs)
    (site / "vllm" / "_text.so").write_text("no library")
    (site / "vllm" / "__init__.py").write_text("")
    rows = [system for system in catalogue.load() if system.id == "vllm"]
    seen = look(pythons=[str(program)], systems=rows, timeout=20).find("vllm")
    assert seen is not None
    assert seen.facts["built_for"] == {"cuda": ("12",), "cudnn": ("9",)}


def test_what_a_distribution_brings_in_some_releases_alone_is_recognised_by_its_own_folder() -> None:
    rows = {system.id: dict(system.data) for system in catalogue.load()}

    def here(name: str, version: str, *folders: str) -> list[str]:
        files: dict[str, str | bytes | OSError] = {f"{SITE}/{folder}/__init__.py": "" for folder in folders}
        record = {f"{SITE}/cuda_cccl-{version}.dist-info/METADATA": ""}
        found = probe(ToldHost({**files, **record}, python=PYTHON, row=rows[name]))
        return [copy["version"] for copy in found]

    old = ("cuda/cccl/cooperative", "cuda/cccl/parallel", "cuda/cccl/parallel/experimental/algorithms")
    both = ("cuda/coop", "cuda/compute", "cuda/cccl/parallel", "cuda/cccl/parallel/experimental")
    new = ("cuda/compute", "cuda/cccl", "cuda/cccl/parallel", "cuda/cccl/parallel/experimental")
    for version, folders, coop in (("0.2.1", old, True), ("1.1.1", both, True), ("1.2.1", new, False)):
        assert here("cuda-compute", version, *folders) == [version]
        assert here("cuda-coop", version, *folders) == ([version] if coop else [])
    assert here("cuda-compute", "13.3.5", "cuda/cccl") == []
