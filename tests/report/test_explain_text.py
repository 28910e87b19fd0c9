"""Explanations as text: how they look, and that nothing in them can do harm."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gpustack.model.facts import Layer
from gpustack.model.matrix_answer import Explanation, Kind, Lead, Meaning
from gpustack.model.report import Row
from gpustack.report.knowledge_text import render_explanation
from tests.report.snapshots import compare

ROW = Row(table="terms", text="x", source="the maker's documentation, a page with a long name", checked="2026-11-21")
LEAD = Lead(id="gpu-fell-off-bus", title="A GPU has fallen off the bus.", says=("The link is gone.", "Restart."))
TERM = Meaning(
    kind=Kind.TERM,
    id="kernel",
    title="A function that runs on the GPU, once in each of many threads; not the kernel of the operating system.",
    layer=Layer.RUNTIME,
    stands_on=("grid", "thread", "cuda-runtime"),
    carries=tuple(f"term {number}" for number in range(20)),
    see=("nsys profile --stats=true python program.py --with-a-very-long-option=that-must-not-be-broken-by-us",),
    findings=(LEAD,),
    row=ROW,
)
CODE = Meaning(
    kind=Kind.CODE,
    id="xid-79",
    title="Xid 79, GPU has fallen off the bus: the driver reads all ones.",
    layer=Layer.HARDWARE,
    says=("Also called FALLEN.",),
    cause="the link, the power, the heat",
    fix="restart the host, then look at slot, riser, power and temperature, and at the log of the firmware",
    see=("journalctl -k -g 'NVRM: Xid'", "dmesg | grep -i xid"),
    findings=(LEAD,),
    row=ROW,
)
FINDING = Meaning(
    kind=Kind.FINDING,
    id="gpu-fell-off-bus",
    title="A GPU has fallen off the bus.",
    layer=Layer.HARDWARE,
    says=("The link is gone.",),
    fix="Run it there.",
    stands_on=("gpu",),
    see=("gpustack doctor",),
)
SEVERAL = Explanation(words="79", meanings=(CODE, TERM), missing=("CUDA error 79",))
NOTHING = Explanation(words="drivr", near=("driver", "render node"))


@pytest.mark.parametrize("width", [80, 40])
def test_the_text_is_the_one_agreed_on(width: int) -> None:
    compare(f"explain-several-{width}.txt", render_explanation(SEVERAL, width=width))


def test_what_is_not_known_is_said_with_what_was_perhaps_meant() -> None:
    compare("explain-nothing-80.txt", render_explanation(NOTHING))
    assert "Did you mean" not in render_explanation(Explanation(words="x"))


def test_every_line_fits_the_page_but_a_command_is_never_broken() -> None:
    for width in (20, 40, 80):
        lines = render_explanation(SEVERAL, width=width).splitlines()
        assert [
            line for line in lines if cell_len(line) > width and not line.lstrip().startswith(("nsys", "jour", "dmesg"))
        ] == []
    assert TERM.see[0] in render_explanation(SEVERAL, width=20)


def test_a_finding_shown_in_full_is_not_shown_in_full_again() -> None:
    text = render_explanation(Explanation(words="79", meanings=(FINDING, CODE)))
    assert text.count("The link is gone.") == 1
    assert text.count("A GPU has fallen off the bus.") == 2


def test_many_names_are_cut_short_unless_all_are_asked_for() -> None:
    assert "and 6 more" in render_explanation(SEVERAL)
    assert "term 19" in render_explanation(SEVERAL, verbose=True)


def test_nothing_in_the_words_can_control_a_terminal_and_ascii_is_ascii() -> None:
    text = render_explanation(Explanation(words="\x1b[31mx\u202e", missing=()), colour=False)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert render_explanation(Explanation(words="größe …"), ascii=True).isascii()


def test_colour_is_used_only_where_it_is_requested() -> None:
    assert "\x1b[" in render_explanation(SEVERAL, colour=True)
    assert "\x1b[" not in render_explanation(SEVERAL)
