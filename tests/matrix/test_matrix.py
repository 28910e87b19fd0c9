"""Every row of the compatibility matrix is checked: versions, ranges, source and date."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest

from gpustack import assets
from gpustack.collect import catalogue
from gpustack.errors import BrokenError
from gpustack.matrix import MADE, Matrix, made_of
from gpustack.model.report import Row
from gpustack.model.versions import ComputeCapability, CudaVersion, DriverRelease
from tests.counting import each

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MATRIX = Matrix()
TABLES = sorted(path.stem for path in assets.MATRIX.glob("*.toml") if path.stem != "meta")
TYPED = (
    *("architectures", "families", "toolkits", "compats", "branches", "spans", "flavours", "pci_ranges", "xids"),
    *("nvml_codes", "cuda_codes", "torch_releases", "torch_builds", "onnxruntime", "jax_extras", "bad_pairs"),
    "bindings_floors",
)
PINNED = tuple(sorted(path.stem for path in assets.MATRIX.glob("messages_*.toml")))
REPOSITORY = re.compile(r"(?<![\w./-])[\w.-]+/[\w.-]+(?: \S+)?: ")
REVISION = re.compile(r" (?:at|of) (?=[\w.+-]*\d)[\w.+-]{3,}")


def lines(name: str) -> Iterator[tuple[str, dict[str, object]]]:
    for part, rows in tomllib.loads((assets.MATRIX / f"{name}.toml").read_text("utf-8")).items():
        for number, row in enumerate(rows if isinstance(rows, list) and part != "subjects" else []):
            yield f"{part}[{number}]", row


def unpinned(source: str) -> list[str]:
    """Return each file of a repository that a source names without the commit or tag at which it was opened."""
    found = []
    for part in source.split("; "):
        places = [*(one.start() for one in REPOSITORY.finditer(part)), len(part)]
        found += [part[one:end] for one, end in pairwise(places) if not REVISION.search(part[one:end])]
    return found


@each("name", TABLES)
def test_a_row_says_where_it_comes_from_and_when_it_was_checked(name: str) -> None:
    for place, row in lines(name):
        assert len(str(row["source"])) > 5, place
        assert date.fromisoformat(str(row["checked"])) <= date.fromisoformat(MATRIX.date), place
        assert "recalled" not in str(row).lower(), place


@each("name", PINNED)
def test_a_file_that_a_message_comes_from_is_named_with_its_commit_or_tag(name: str) -> None:
    assert [(place, said) for place, row in lines(name) for said in unpinned(str(row["source"]))] == []


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("a/b: src/c.c at 590.48.01; printed in a/b#1", []),
        ("a/b: c.c at v1.8, d.c at 01d5b167; e/f: g.c of v2.0", []),
        ("printed in a/b#1, a/c#2; the table of nvidia-smi: a column", []),
        ("a/b: src/c.c; printed in a/b#1", ["a/b: src/c.c"]),
        ("a/b: c.c at 84fa569b names the errno of d/e: f/g.c", ["d/e: f/g.c"]),
        ("a/b 595.45.04: src/c.c", ["a/b 595.45.04: src/c.c"]),
        ("a/b: kernel.c of branch 340", ["a/b: kernel.c of branch 340"]),
    ],
)
def test_a_file_without_a_commit_or_tag_is_seen(source: str, refused: list[str]) -> None:
    assert unpinned(source) == refused


@each("name", TABLES)
def test_the_head_of_a_table_says_how_to_measure_the_next_row(name: str) -> None:
    head = (assets.MATRIX / f"{name}.toml").read_text("utf-8").partition("schema = 1")[0]
    assert head.startswith("# ")
    assert name == "stack" or re.search("measure the next", head, re.IGNORECASE)


@pytest.mark.parametrize("name", TYPED)
def test_every_table_becomes_rows_with_a_text_of_their_own(name: str) -> None:
    held = getattr(MATRIX, name)
    rows = [one.row for one in (held.values() if hasattr(held, "values") else held)]
    assert rows
    assert all(isinstance(row, Row) for row in rows)
    assert len({row.text for row in rows}) == len(rows)


def test_the_date_is_that_of_the_youngest_row() -> None:
    made = [str(MATRIX.table(f"generated/{name}")["checked"]) for name in MATRIX.distributions]
    assert max([*made, *(str(row["checked"]) for name in TABLES for _, row in lines(name))]) == MATRIX.date


def test_no_key_occurs_twice() -> None:
    for name, part, key in [
        ("arch", "arch", "cc"),
        ("arch", "limits", "cc"),
        ("arch", "rates", "cc"),
        ("cuda_driver", "families", "major"),
        ("cuda_driver", "toolkits", "cuda"),
        ("driver_branches", "branches", "branch"),
        ("driver_branches", "ends", "arch"),
        ("stack", "systems", "id"),
        ("xid", "xids", "code"),
        ("codes", "nvml", "code"),
        ("codes", "cuda", "code"),
        ("torch", "releases", "torch"),
    ]:
        keys = [row[key] for row in MATRIX.table(name)[part]]
        assert len(set(keys)) == len(keys), (name, part)


def test_architectures_go_from_an_older_toolkit_and_branch_to_a_newer() -> None:
    for one in MATRIX.architectures.values():
        assert one.first_toolkit is not None
        assert one.last_toolkit is None or one.first_toolkit <= one.last_toolkit
        assert one.first_branch is None or one.last_branch is None or one.first_branch <= one.last_branch
        assert all(rate > 0 for rate in one.rates.values())
        assert set(one.halved) <= set(one.rates)
        assert all(0 < low < high <= 1 for low, high in one.efficiency.values())


def test_limits_and_rates_are_of_architectures_that_are_there() -> None:
    known = {str(capability) for capability in MATRIX.architectures}
    for part in ("limits", "rates", "half_rate", "efficiency"):
        assert {row["cc"] for row in MATRIX.table("arch")[part]} <= known


def test_a_product_has_the_rates_of_its_own_kind() -> None:
    ada = MATRIX.arch(ComputeCapability(8, 9))
    assert ada is not None
    assert ada.rates_of("NVIDIA L40S")["bf16"] == 1024
    assert ada.rates_of("NVIDIA L40")["bf16"] == 512
    assert ada.rates_of("NVIDIA GeForce RTX 4090 Laptop GPU")["fp8"] == 1024
    assert ada.rates_of("NVIDIA GeForce RTX 4090")["int8"] == 2048
    assert MATRIX.arch(ComputeCapability(99, 9)) is None


def test_rates_give_the_published_peak_of_the_h200() -> None:
    hopper = MATRIX.arch(ComputeCapability(9, 0))
    assert hopper is not None
    assert 132 * hopper.rates["bf16"] * 1.83e9 == pytest.approx(989.4e12, rel=0.002)
    assert 132 * hopper.rates["fp64"] * 1.98e9 == pytest.approx(66.9e12, rel=0.002)


def test_a_newer_cuda_never_needs_an_older_driver() -> None:
    toolkits = sorted(MATRIX.toolkits, key=lambda one: (one.cuda, one.driver))
    assert all(old.driver <= new.driver for old, new in pairwise(toolkits))
    branches = sorted(MATRIX.branches.values(), key=lambda one: one.number)
    assert all(old.cuda < new.cuda for old, new in pairwise(branches))


def test_the_floor_of_a_family_is_not_above_the_driver_of_its_second_toolkit() -> None:
    for family in MATRIX.families.values():
        second = MATRIX.native(CudaVersion(family.major, 1))
        assert second is not None
        assert family.linux < second.driver
    assert MATRIX.families[12].linux == DriverRelease(525, 60, 13)
    assert MATRIX.families[13].linux == DriverRelease(580, 65, 6)


def test_a_branch_runs_the_toolkit_that_came_with_it() -> None:
    for toolkit in MATRIX.toolkits:
        branch = MATRIX.branches.get(toolkit.driver.branch)
        assert branch is not None
        assert branch.cuda >= toolkit.cuda
        assert branch.end is None or branch.first is None or branch.first < branch.end


def test_native_is_the_oldest_driver_of_a_minor() -> None:
    found = MATRIX.native(CudaVersion(12, 8))
    assert found is not None
    assert found.version == "12.8.0"
    assert MATRIX.native(CudaVersion(12, 7)) is None


def test_spans_agree_with_the_architectures() -> None:
    for one in MATRIX.architectures.values():
        span = MATRIX.span(one.name)
        assert span is not None
        if not one.embedded:
            assert one.last_branch == span.last
            assert one.first_branch is None or span.first is None or one.first_branch >= span.first
    assert MATRIX.span("Hopper") is not None
    assert MATRIX.span("Unheard-of") is None


def test_every_architecture_on_the_bus_has_its_branches_and_its_flavour() -> None:
    for found in MATRIX.pci_ranges:
        assert MATRIX.span(found.arch) is not None
        assert found.arch in {"Tesla", "Fermi", "Kepler"} or MATRIX.flavour(found.arch) is not None
    ends = [(one.first, one.last) for one in sorted(MATRIX.pci_ranges, key=lambda one: one.first)]
    assert all(first <= last for first, last in ends)
    assert all(old[1] < new[0] for old, new in pairwise(ends))


@pytest.mark.parametrize(
    ("device", "arch"),
    [
        (0x2335, "Hopper"),
        (0x1B82, "Pascal"),
        (0x1DB6, "Volta"),
        (0x2684, "Ada"),
        (0x2B85, "Blackwell"),
        (0x20B5, "Ampere"),
    ],
)
def test_a_gpu_is_known_by_its_pci_number(device: int, arch: str) -> None:
    found = MATRIX.pci_arch(device)
    assert found is not None
    assert found.arch == arch


def test_a_pci_number_of_nothing_is_of_no_architecture() -> None:
    assert MATRIX.pci_arch(0x0001) is None


def test_compat_packages_run_on_older_branches_alone() -> None:
    for one in MATRIX.compats:
        assert one.name == f"cuda-compat-{one.cuda.major}-{one.cuda.minor}"
        assert all(base < one.branch for base in one.bases)


def test_the_map_of_the_stack_has_ninety_systems_and_every_one_that_a_probe_asks_after() -> None:
    assert len(MATRIX.systems) == 90
    own = {
        "pci-display",
        "kernel-log",
        "python",
        "packages",
        "limits",
        "iommu",
        "torch-extensions",
        "environment",
        "cupy",
        "infiniband",
        "nvidia-imex",
    }
    for system in catalogue.load():
        if system.id not in own:
            assert MATRIX.systems[system.id].layer is system.layer
    assert all(one.role.endswith(".") for one in MATRIX.systems.values())


def test_builds_of_pytorch_are_of_releases_that_are_there_and_name_code() -> None:
    for one in MATRIX.torch_builds:
        assert one.torch in MATRIX.torch_releases
        assert any(arch.kind == "sm" for arch in one.archs)
        assert one.tag == "cu" + str(one.cuda).replace(".", "")
    pairs = [(one.torch, one.cuda) for one in MATRIX.torch_builds]
    assert len(set(pairs)) == len(pairs)


def test_the_wheels_of_onnxruntime_leave_no_gap() -> None:
    spans = MATRIX.onnxruntime
    for old, new in pairwise(spans):
        assert old.last is not None
        assert new.first == f"1.{int(old.last.split('.')[1]) + 1}"
        assert old.cuda < new.cuda
    assert spans[-1].last is None


def test_a_table_that_is_missing_or_damaged_is_our_fault_and_says_which(tmp_path: Path) -> None:
    (tmp_path / "arch.toml").write_text("arch = [", "utf-8")
    (tmp_path / "torch.toml").write_text("releases = [ { torch = '2.0' } ]", "utf-8")
    (tmp_path / "cuda_driver.toml").write_text(
        "families = [ { major = 12, driver = 'new', source = 'x', checked = 'y' } ]", "utf-8"
    )
    damaged = Matrix(tmp_path)
    for name in ("architectures", "torch_releases", "families", "branches", "date"):
        with pytest.raises(BrokenError, match="matrix is damaged"):
            getattr(damaged, name)


def test_a_table_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "meta.toml").write_text('date = "2026-11-21"', "utf-8")
    matrix = Matrix(tmp_path)
    first = matrix.table("meta")
    (tmp_path / "meta.toml").unlink()
    assert matrix.table("meta") is first
    assert matrix.date == "2026-11-21"


def test_what_was_made_of_a_table_is_read_as_long_as_the_table_is_as_it_was(tmp_path: Path) -> None:
    table = tmp_path / "some.toml"
    table.write_text('said = "first"\n')
    (tmp_path / MADE).mkdir()
    made_of(tmp_path, "some", table.read_bytes()).write_text('{"said": "made of the first"}')
    assert Matrix(folder=tmp_path).table("some") == {"said": "made of the first"}
    table.write_text('said = "other"\n')  # as long as before, and perhaps with the same timestamp
    assert Matrix(folder=tmp_path).table("some") == {"said": "other"}
