"""What the matrix states about a component: every table that covers it, with every source, at any width."""

from __future__ import annotations

import csv
import io
import sys

import pytest

from gpustack import cli
from gpustack.ask.answering import brief, names, show
from gpustack.errors import UsageError
from gpustack.matrix.subjects import generated
from gpustack.report.knowledge_text import render_csv, render_matrix
from tests.ask.questions import MATRIX, command, written
from tests.counting import each

SUBJECTS = sorted({one for table in names(MATRIX) for one in MATRIX.table(table).get("subjects", ())})


@each("subject", SUBJECTS)
def test_every_subject_of_a_table_can_be_shown(subject: str) -> None:
    tables = show(subject, MATRIX)
    assert tables.parts or subject in {"bentoml", "cuda-python"}
    written(tables, "matrix-show")
    for part in tables.parts:
        assert all(len(row) == len(part.columns) for row in part.rows)
        assert all(part.sources)
        assert len(part.sources) == len(part.checked) == len(part.rows)


@pytest.mark.parametrize(
    ("typed", "component", "part"),
    [
        ("torch", "pytorch", "torch.releases"),
        ("PyTorch", "pytorch", "torch_wheels.patches"),
        ("driver", "nvidia-driver", "driver_branches.branches"),
        ("cuda", "cuda-toolkit", "cuda_driver.toolkits"),
        ("onnxruntime-gpu", "onnxruntime", "onnxruntime.releases"),
        ("flash_attn", "flash-attention", "training.flash_attention"),
        ("nvidia.ko", "nvidia.ko", "driver_branches.flavours"),
        ("vllm", "vllm", "generated/vllm.releases"),
        ("numba", "numba", "generated/numba.releases"),
        ("tensorrt-llm", "tensorrt-llm", "serving.tensorrt_llm"),
    ],
)
def test_names_as_people_type_them_lead_to_the_component(typed: str, component: str, part: str) -> None:
    tables = show(typed, MATRIX)
    assert tables.component == component
    assert part in {f"{one.table}.{one.part}" for one in tables.parts}


def test_a_short_answer_is_one_screen_with_the_current_line_first() -> None:
    """PyTorch was shown as a single row with everything that its wheels require."""
    short = brief(show("torch", MATRIX))
    newest = show("torch", MATRIX).parts[0].rows[-1][0]
    assert short.parts[0].rows[0][0] == newest
    assert len(short.parts[0].rows) > 3
    assert {"torch.releases", "torch.builds"} & {f"{one.table}.{one.part}" for one in short.parts}
    assert len(render_matrix(short).splitlines()) <= 24


def test_parts_about_a_neighbour_are_left_out() -> None:
    assert {one.part for one in show("xformers", MATRIX).parts if one.table == "training"} == {"floors"}
    floors = next(one for one in show("xformers", MATRIX).parts if one.part == "floors")
    assert {row[floors.columns.index("component")] for row in floors.rows} == {"xformers"}
    assert "sglang" not in {one.part for one in show("tgi", MATRIX).parts}


def test_what_works_with_what_comes_before_messages() -> None:
    tables = [one.table for one in show("pytorch", MATRIX).parts]
    assert tables[0] == "generated/torch"
    first = next(place for place, table in enumerate(tables) if table.startswith("messages_"))
    assert all(table.startswith("messages_") for table in tables[first:])


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("subject", ["nvidia-driver", "pytorch", "cudnn", "tensorflow", "gpu"])
def test_tables_stay_inside_the_page(subject: str, width: int) -> None:
    text = render_matrix(show(subject, MATRIX), width=width, ascii=True)
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii()


def test_sources_are_counted_and_told_in_full_where_asked() -> None:
    tables = show("nvidia-driver", MATRIX)
    source = tables.parts[0].sources[0]
    plain, verbose = (" ".join(render_matrix(tables, verbose=one).split()) for one in (False, True))
    assert " ".join(source.split()) in verbose
    assert "sources, checked 20" in plain


@pytest.mark.parametrize(
    ("typed", "near"), [("torhc", "pytorch"), ("tensorlow", "tensorflow"), ("zzzzzz", "pytorch, nvidia-driver")]
)
def test_an_unknown_subject_is_one_line_with_near_misses(typed: str, near: str) -> None:
    with pytest.raises(UsageError) as error:
        show(typed, MATRIX)
    assert near in str(error.value)
    assert "\n" not in str(error.value)


def test_wheels_are_shown_of_the_component_that_was_asked_for_alone() -> None:
    parts = [one for one in show("bitsandbytes", MATRIX).parts if one.table == "wheel_tags"]
    assert {row[0] for one in parts for row in one.rows} == {"bitsandbytes"}


@each("distribution", sorted(MATRIX.distributions))
def test_every_distribution_is_shown_with_every_release_of_it(distribution: str) -> None:
    whole = show(distribution, MATRIX)
    rows = list(csv.DictReader(io.StringIO(render_csv(whole))))
    stated = {one["version"] for one in rows if one["table"] == f"generated/{distribution}.releases"}
    assert stated == {one.version for one in generated.releases(MATRIX, distribution)}
    assert all(one["row_source"] and one["row_checked"] for one in rows)


def test_tables_are_written_as_csv_with_the_source_of_each_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = show("vllm", MATRIX)
    rows = list(csv.DictReader(io.StringIO(render_csv(tables))))
    assert len(rows) == sum(len(part.rows) for part in tables.parts)
    release = next(row for row in rows if row["table"] == "generated/vllm.releases" and row["version"] == "0.9.2")
    assert "torch==2.7.0" in release["requires"]
    assert release["row_checked"] == MATRIX.table("generated/vllm")["checked"]
    assert all(row["row_source"] for row in rows)
    monkeypatch.setattr(sys, "argv", ["gpustack", "matrix", "show", "vllm", "--format", "csv"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code in {None, 0}
    assert list(csv.DictReader(io.StringIO(capsys.readouterr().out))) == rows


@pytest.mark.parametrize("subject", ["torch", "vllm", "nvidia-driver", "jax", "xformers", "cudnn", "gpu"])
def test_the_short_answer_is_one_screen_with_the_newest_first(subject: str) -> None:
    whole = show(subject, MATRIX)
    short = brief(whole)
    shown = render_matrix(short, width=80, ascii=True)
    assert len(shown.splitlines()) <= 24
    assert short.parts[0].rows[0] == whole.parts[0].rows[-1] or short.left
    assert "--all" in shown
    kept = sum(len(one.rows) + one.left for one in short.parts)
    assert kept <= sum(len(one.rows) for one in whole.parts)


def test_everything_is_shown_on_request() -> None:
    short, whole = command("show", "torch"), command("show", "torch", "--all")
    assert "2.15" in short.stdout.splitlines()[2]  # after the table's name and its columns
    assert len(whole.stdout.splitlines()) > 3 * len(short.stdout.splitlines())
