"""The text of a difference: what it means, then the changes that cause it, then the others; and it does no harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpustack.model.difference import Changed, Difference, Side, Told, Turn
from gpustack.model.facts import Layer
from gpustack.model.report import Health, Severity
from gpustack.report.check_text import render_diff
from tests.report.reports import TOOL
from tests.report.snapshots import compare

KEY = "driver-too-old-for-cuda-build@pytorch:/opt/venv/bin/python"


def changed(component: str, layer: Layer, before: str | None, after: str | None, **more: Any) -> Changed:  # noqa: ANN401
    turn = Turn.NEW if before is None else Turn.GONE if after is None else Turn.CHANGED
    held: dict[str, Any] = {"what": "version", "matters": (), **more}
    return Changed(component=component, layer=layer, turn=turn, before=before, after=after, **held)


def told(key: str, title: str, before: Severity | None, after: Severity | None, **more: Any) -> Told:  # noqa: ANN401
    turn = Turn.NEW if before is None else Turn.GONE if after is None else Turn.CHANGED
    return Told(
        key=key,
        id=key.partition("@")[0],
        layer=Layer.DRIVER,
        title=title,
        turn=turn,
        before=before,
        after=after,
        **more,
    )


def upgrade() -> Difference:
    """Return the effects of a PyTorch upgrade on an old driver."""
    return Difference(
        tool=TOOL,
        before=Side(path="monday.json", taken="2026-11-16T08:00:00+00:00", hostname="node-7", status=Health.HEALTHY),
        after=Side(
            path="friday.json",
            taken="2026-11-20T08:00:00+00:00",
            hostname="node-7",
            status=Health.BROKEN,
            root_causes=("driver-too-old-for-cuda-build",),
        ),
        changes=(
            changed("pytorch", Layer.FRAMEWORK, "2.6.0+cu124", "2.11.0+cu130", matters=(KEY,)),
            changed("nvidia.ko", Layer.KERNEL_MODULE, "550.54.14", "550.54.15"),
            changed("nvidia-driver", Layer.DRIVER, "550.54.14", "550.54.15"),
            changed("gpu", Layer.HARDWARE, "yes", "no", what="persistence", where="0000:01:00.0"),
            changed("gpu", Layer.HARDWARE, "NVIDIA H200", None, what="copy", where="0000:02:00.0"),
            *(
                changed(f"package-{number:02}", Layer.ENVIRONMENT, None, f"1.{number}", what="distribution")
                for number in range(20)
            ),
        ),
        findings=(
            told(KEY, "the driver is too old for PyTorch 2.11.0+cu130", None, Severity.ERROR, because_of=("pytorch",)),
            told("cuda-init-failed", "CUDA does not start", None, Severity.ERROR, caused_by=KEY),
            told("pcie-link-degraded", "the link runs at width 8 of 16", Severity.WARNING, None),
            told("persistence-mode-off", "persistence mode is off", None, Severity.INFO, because_of=("gpu",)),
        ),
        same=31,
    )


PAGES: dict[str, dict[str, Any]] = {
    "diff-80": {},
    "diff-verbose": {"verbose": True, "width": 100},
    "diff-40-ascii": {"width": 40, "ascii": True},
}


@pytest.mark.parametrize("name", PAGES)
def test_the_text_is_the_one_agreed_on(name: str) -> None:
    compare(f"{name}.txt", render_diff(upgrade(), **PAGES[name]))


def test_what_matters_comes_first_and_changes_alike_are_one_row() -> None:
    text = render_diff(upgrade())
    order = [
        "HEALTHY → BROKEN",
        "✗ new (error)",
        "✓ gone (warning)",
        "CHANGES THAT MATTER",
        "- pytorch",
        "OTHER CHANGES",
    ]
    places = [text.index(said) for said in (*order, "PACKAGES")]
    assert places == sorted(places)
    assert "- nvidia.ko, nvidia-driver: 550.54.14 → 550.54.15" in text
    assert "1 more follows from it" in text
    assert "and 8 more" in " ".join(text.split())
    assert "package-19" in render_diff(upgrade(), verbose=True)


def test_nothing_changed_is_said_in_a_line() -> None:
    same = replace(upgrade(), changes=(), findings=(), after=upgrade().before)
    assert render_diff(same).splitlines()[0] == "HEALTHY before and after: nothing changed, 0 new findings, 0 gone."


TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
CHANGES = st.builds(
    Changed,
    component=TEXT,
    layer=st.sampled_from(Layer),
    what=TEXT | st.sampled_from(["version", "distribution"]),
    turn=st.sampled_from(Turn),
    before=st.none() | TEXT,
    after=st.none() | TEXT,
    where=st.none() | TEXT,
    matters=st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple),
)
FOUND = st.builds(
    Told,
    key=st.sampled_from(["a", "b"]) | TEXT,
    id=TEXT,
    layer=st.sampled_from(Layer),
    title=TEXT,
    turn=st.sampled_from(Turn),
    before=st.none() | st.sampled_from(Severity),
    after=st.none() | st.sampled_from(Severity),
    caused_by=st.none() | st.sampled_from(["a", "b"]),
    because_of=st.lists(TEXT, max_size=6).map(tuple),
)


@given(
    changes=st.lists(CHANGES, max_size=4).map(tuple),
    findings=st.lists(FOUND, max_size=3).map(tuple),
    width=st.integers(20, 120),
    poor=st.booleans(),
    verbose=st.booleans(),
)
def test_any_difference_can_be_drawn_and_nothing_in_it_steers_the_terminal(
    changes: tuple[Changed, ...], findings: tuple[Told, ...], width: int, *, poor: bool, verbose: bool
) -> None:
    text = render_diff(replace(upgrade(), changes=changes, findings=findings), width=width, ascii=poor, verbose=verbose)
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    assert all(cell_len(line.replace("\\x3a", ":")) <= width for line in text.splitlines())
    assert text.isascii() or not poor
