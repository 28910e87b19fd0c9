"""The health check's text: first the class, then the reasons, policy, measurements and doctor; and it does no harm."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpustack.model.bench import BenchReport, Mark, Result
from gpustack.model.policy import CheckReport, HealthClass, Held
from gpustack.report.check_text import render
from tests.report import checks, measurements, reports
from tests.report.snapshots import compare

KEPT = Held(rule="gpus.count", wanted="8", found="8", ok=True, place="gpustack.toml:9")
RANGE = Held(rule="components.pytorch", wanted=">=2.6,<3", found="2.11.0+cu130", ok=True, place="gpustack.toml:3")
SHORT = Held(
    rule="bench.least.hbm.*",
    wanted="85% of the limit or more",
    found="39.8% pcie.h2d.pinned on GPU 0",
    ok=False,
    place="gpustack.toml:14",
)
ENDED = Held(
    rule="ignore.pcie-link-degraded",
    wanted="ignored until 2026-01-31: the riser has eight lanes",
    found="this ended on 2026-01-31: 1 found, no longer ignored",
    ok=None,
    whose=HealthClass.OK,
    place="gpustack.toml:20",
)


def made(class_: HealthClass, why: str, **more: Any) -> CheckReport:  # noqa: ANN401 - fields of several types
    held = {one.name: getattr(reports.healthy(), one.name) for one in fields(reports.healthy())}
    return CheckReport(**{**held, **more}, class_=class_, why=why)


def good() -> CheckReport:
    return made(
        HealthClass.OK,
        "nothing in the stack is at fault; 2 rules of the policy hold",
        policy=(KEPT, RANGE),
        bench=replace(measurements.good(), quick=True),
    )


def bad() -> CheckReport:
    why = f"{SHORT.rule} ({SHORT.place}): {SHORT.wanted} is required; found: {SHORT.found}"
    return made(HealthClass.BAD_HOST, why, policy=(KEPT, ENDED, SHORT, RANGE), bench=measurements.low())


PAGES: dict[str, tuple[CheckReport, dict[str, Any]]] = {
    "check-good-80": (good(), {}),
    "check-bad-80": (bad(), {}),
    "check-bad-colour": (bad(), {"colour": True}),
    "check-bad-40-ascii": (bad(), {"width": 40, "ascii": True}),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_text_is_the_one_agreed_on(name: str) -> None:
    report, page = PAGES[name]
    text = render(report, **page)
    compare(f"{name}.txt", text)


def test_a_machine_without_a_gpu_is_refused_in_one_voice() -> None:
    bare = {one.name: getattr(reports.no_gpu(), one.name) for one in fields(reports.no_gpu())}
    why = "gpus.count: >=1 is required; found: there is no GPU on the PCI bus"
    count = Held(rule="gpus.count", wanted=">=1", found="there is no GPU on the PCI bus", ok=False)
    text = render(CheckReport(**bare, class_=HealthClass.BAD_HOST, why=why, policy=(count,)))
    assert "BAD HOST" in text
    assert "NO GPU" not in text  # the doctor's word for a machine that need not have one
    assert "To see a diagnosis" not in text


def test_the_class_comes_first_and_what_fails_before_what_holds() -> None:
    text = render(bad(), verbose=1)
    order = [
        "✗ BAD HOST: bench.least.hbm.*",
        "POLICY, 2 of 3 rules hold",
        "✗ bench.least",
        "· ignore.",
        "✓ gpus.count",
        "BENCH",
        "THE DOCTOR",
    ]
    places = [text.index(said) for said in (*order, "HEALTHY")]
    assert places == sorted(places)
    assert "gpustack.toml:3" in text


def test_only_what_is_not_as_required_is_shown_and_the_rest_is_counted() -> None:
    text = render(bad())
    assert "✗ bench.least" in text
    assert "gpus.count" not in text
    assert "! low" in text
    assert "+ ok" not in text
    assert "✓ ok" not in text
    assert "policy, 2 of 2 rules hold" in render(good())
    assert "figures: all ok" in render(good())


def test_the_doctors_verdict_is_not_repeated_where_the_class_rests_on_it() -> None:
    driver = reports.driver_too_old()
    more = {one.name: getattr(driver, one.name) for one in fields(driver)}
    text = render(CheckReport(**more, class_=HealthClass.BAD_HOST, why=f"{reports.DRIVER.title}; the host's"))
    assert text.count("too old for PyTorch") == 1
    assert "Fix (needs root and a reboot):" in text
    assert render(bad(), quiet=True).count("\n") == 1


@pytest.mark.parametrize("class_", HealthClass)
def test_every_class_has_its_word_and_its_reason(class_: HealthClass) -> None:
    first = " ".join(render(made(class_, "so it is"), width=120).splitlines()[0].split())
    assert first[2:] == f"{class_.value.replace('-', ' ').upper()}: so it is."


def test_several_gpus_are_told_apart_and_what_was_skipped_is_one_line() -> None:
    one = measurements.FIGURES[2]
    results = (one, replace(one, device=1), Result(id="gemm.fp4", device=0, unit="", verdict=Mark.SKIPPED))
    text = render(
        made(HealthClass.OK, "well", bench=replace(measurements.good(), results=results)), width=100, verbose=1
    )
    assert "hbm.read on GPU 0" in text
    assert "hbm.read on GPU 1" in text
    assert "skipped: gemm.fp4" in text


TEXT = st.text(st.characters(codec=None, exclude_categories=())) | st.sampled_from([checks.EVIL, "\x1b[2J", "\u202e"])
ROWS = st.builds(Held, rule=TEXT, wanted=TEXT, found=TEXT, ok=st.none() | st.booleans(), place=st.none() | TEXT)
BENCHES = st.sampled_from([None, *(make() for make in measurements.ALL.values()), checks.hostile().bench])


@given(
    class_=st.sampled_from(HealthClass),
    why=TEXT,
    rows=st.lists(ROWS, max_size=3).map(tuple),
    bench=BENCHES,
    width=st.integers(20, 120),
    poor=st.booleans(),
    verbose=st.booleans(),
)
def test_any_check_can_be_drawn_and_nothing_in_it_steers_the_terminal(
    class_: HealthClass,
    why: str,
    rows: tuple[Held, ...],
    bench: BenchReport | None,
    width: int,
    *,
    poor: bool,
    verbose: bool,
) -> None:
    report = made(class_, why, policy=rows, bench=bench, components=(), contracts=(), findings=())
    text = render(report, width=width, ascii=poor, verbose=verbose)
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    assert text.isascii() or not poor
    if bench is None:
        assert all(cell_len(line.replace("\\x3a", ":")) <= width for line in text.splitlines())
