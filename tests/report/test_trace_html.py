"""The page of a trace: valid HTML, loading nothing, and in a real Chromium neither blank nor cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpustack.model.difference import BatchTime, Crossover
from gpustack.model.trace import CHECKED, LINK, Figure, Moment
from gpustack.report import trace_charts
from gpustack.report.trace_html import picture, render, words_of
from gpustack.trace import NAMES
from tests.report import chromium, looks, readers, traces

SCREENS, SCREEN = 5, 812  # pixels of a phone
OUTSIDE = """(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const edge = svg.getBoundingClientRect();
    if (!edge.width) continue;
    for (const one of svg.querySelectorAll('text,rect,circle,polyline,line,polygon')) {
      const box = one.getBoundingClientRect();
      if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1
          || box.bottom > edge.bottom + 1) found.push([one.tagName, one.textContent, svg.getAttribute('aria-label')]);
    }
  }
  return found;
})()"""
BEYOND = """(() => {
  const found = [];
  for (const place of document.querySelectorAll('.machine .place, .machine .way, .machine .gpu')) {
    const edge = place.getBoundingClientRect();
    for (const one of place.querySelectorAll('b,span,i,.place')) {
      const box = one.getBoundingClientRect();
      const wide = Math.max(box.width, one.scrollWidth);
      if (box.left + wide > edge.right + 1 || box.bottom > edge.bottom + 1) found.push(one.textContent);
    }
  }
  return found;
})()"""


def shown(browser: chromium.Page, folder: Path, name: str, width: int, *, dark: bool = False) -> None:
    path = folder / f"{name}.html"
    path.write_text(render(traces.ALL[name]()), "utf-8")
    browser.show(path, width, dark=dark)


@pytest.mark.parametrize("name", traces.ALL)
def test_the_page_is_html_that_loads_nothing_and_tells_every_step(name: str) -> None:
    text = render(traces.ALL[name]())
    said = readers.page(text)
    for step in NAMES.values():
        assert step in said
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("<script") == 1  # the one that copies commands
    assert "\x1b" not in text


def test_the_machine_has_the_figures_on_it() -> None:
    drawn = picture(traces.gpu())
    for said in ("1: made, 52 ms", "54.9 GB/s", "95% of the link", "132 multiprocessors (SMs)", "answer: error 0.0052"):
        assert drawn.count(f">{said}</") == 1, said
    assert drawn.count('class="busy"') == 132
    assert "failed" not in drawn


def test_the_place_where_it_fails_is_marked_and_the_rest_is_faint() -> None:
    drawn = picture(traces.broken())
    assert drawn.count('<div class="way failed">') == 1
    assert drawn.count(' idle">') == 6
    assert "busy" not in drawn


def test_without_a_gpu_none_is_drawn_and_the_cpu_has_its_own_figures() -> None:
    drawn = picture(traces.cpu())
    assert ">CPU, 16 threads</b>" in drawn
    assert ">290 µs</span>" in drawn
    assert "GPU" not in drawn
    assert "multiprocessors" not in drawn.lower()


def test_the_copy_back_is_apart_from_the_check_of_the_answer() -> None:
    whole = traces.gpu()
    check = Figure(name=CHECKED, value=0.608, unit="s")
    slow = [replace(one, seconds=0.61, figures=(check,)) if one.number == 7 else one for one in whole.steps]
    assert words_of(replace(whole, steps=tuple(slow)))["out"] == ("7: copied back", "2 ms")
    assert "7: checked, 608 ms" in words_of(replace(whole, steps=tuple(slow)))["host"]
    copy = Moment(track=LINK, name="copy back", begin=0.4, seconds=1.9e-4, step=7)
    exact = replace(whole, steps=tuple(slow), timeline=(*whole.timeline, copy))
    assert words_of(exact)["out"] == ("7: copied back", "190 µs")


def test_the_roofline_has_every_layer_that_computes() -> None:
    trace = traces.gpu()
    drawn = trace_charts.roofline(trace)
    assert drawn.count("<circle") == sum(1 for one in trace.layers if one.flops)
    assert "attention.qkv: 363 TFLOP/s at 559 FLOP/byte" in drawn
    assert "limit: memory 4800 GB/s, arithmetic 900 TFLOP/s" in drawn
    assert "FLOP/byte)</text>" in drawn
    assert drawn.count('class="roof"') == 2  # the line, and its word in the legend
    fast = replace(trace, cache_ceiling=Figure(name="l2", value=10138.0, unit="GB/s"))
    assert "limit of the cache: 10138 GB/s" in trace_charts.roofline(fast)
    slow = replace(trace, compute_ceiling=Figure(name="processor", value=0.158, unit="TFLOP/s"))
    assert "arithmetic 158 GFLOP/s" in trace_charts.roofline(slow)
    assert trace_charts.roofline(replace(trace, memory_ceiling=None)) == ""
    assert trace_charts.roofline(replace(trace, layers=())) == ""
    strange = replace(trace.layers[0], flops=float("nan"), seconds=float("inf"))
    assert trace_charts.roofline(replace(trace, layers=(strange, *trace.layers[1:]))).count("<circle") == 14
    low = Figure(name="memory", value=0.5, unit="GB/s")
    assert "<polyline" in trace_charts.roofline(replace(trace, memory_ceiling=low))


def test_the_times_of_batches_are_two_lines_or_nothing() -> None:
    drawn = trace_charts.times(traces.gpu())
    assert drawn.count("<polyline") == 2
    one = Crossover(at=None, points=(BatchTime(batch=1, cpu_seconds=1.0, gpu_seconds=1.0),), says="")
    assert trace_charts.times(replace(traces.gpu(), crossover=one)) == ""
    assert trace_charts.times(traces.cpu()) == ""


@pytest.mark.parametrize("width", [looks.PHONE, looks.DESK])
@pytest.mark.parametrize("name", traces.ALL)
def test_nothing_is_cut_or_overlaps_other_words(browser: chromium.Page, tmp_path: Path, name: str, width: int) -> None:
    shown(browser, tmp_path, name, width)
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert (
        width > looks.PHONE
        or name == "hostile"
        or browser.ask("document.documentElement.scrollHeight") <= SCREENS * SCREEN
    )
    browser.ask(looks.UNFOLDED)
    boxes = [tuple(box) for box in browser.ask(looks.BOXES)]
    assert len(boxes) > 30
    assert [said for left, _, right, _, said in boxes if left < 0 or right > width] == []
    assert looks.overlapping(boxes) == []
    assert browser.ask(OUTSIDE) == []
    assert browser.ask(BEYOND) == []
    assert browser.ask("performance.getEntriesByType('resource').length") == 0
    assert browser.ask("document.querySelector('.machine').clientWidth") > 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [looks.PHONE, looks.DESK])
def test_it_is_not_blank_and_follows_light_and_dark(
    browser: chromium.Page, tmp_path: Path, width: int, *, dark: bool
) -> None:
    shown(browser, tmp_path, "gpu", width, dark=dark)
    mean, variance = looks.light(browser, width)
    assert variance > looks.LEAST_VARIANCE
    assert (mean < 128) is dark


def test_overlapping_and_overflowing_words_would_be_noticed(browser: chromium.Page, tmp_path: Path) -> None:
    shown(browser, tmp_path, "gpu", looks.DESK)
    browser.ask("document.querySelector('.machine b').textContent = 'far-too-long-for-its-box'.repeat(9)")
    browser.ask("document.querySelector('.machine b').style.whiteSpace = 'pre'")
    browser.ask("document.querySelector('.machine').style.overflowWrap = 'normal'")
    assert browser.ask(BEYOND) != []
    assert browser.ask(OUTSIDE) != [] or looks.overlapping([tuple(box) for box in browser.ask(looks.BOXES)]) != []
