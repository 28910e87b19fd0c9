"""Every report format, read by a third-party reader: it is valid, says the same, and no text in it does harm."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from prometheus_client.parser import text_string_to_metric_families

from gpustack.model.command import sh
from gpustack.model.facts import Host
from gpustack.model.policy import HealthClass, Held
from gpustack.model.report import Fix, Severity
from gpustack.report import renderer
from gpustack.report.page import clean, recorded
from gpustack.report.parts import NOTHING, Told, every, policy, standing
from tests.counting import each
from tests.report import checks, measurements, reports
from tests.report.anything import BENCH, CHECK
from tests.report.readers import READERS, github, markdown, noted
from tests.report.snapshots import compare

if TYPE_CHECKING:
    from gpustack.model.report import Report
    from gpustack.report.parts import Reported

ALL: dict[str, Callable[[], Reported]] = {**reports.ALL, **measurements.ALL, **checks.ALL}


def written(form: str, reported: Reported, told: Told = NOTHING) -> str:
    """Return a report in one format."""
    return renderer(form)(reported, told)


def plain(text: str) -> str:
    """Return the text normalised for comparing formats: one space between words, no symbol that one of them lacks."""
    return " ".join(clean(text).replace("|", "/").replace("\u2223", "/").replace("\\x3a:", "::").split())


@each("name", ALL)
@each("form", READERS)
def test_every_form_carries_the_same_findings_and_failed_rules(form: str, name: str) -> None:
    reported = ALL[name]()
    seen = plain(READERS[form](written(form, reported)))
    assert [one.key for one in every(reported) if plain(one.key) not in seen] == []
    asked = [row for row in policy(reported) if row.ok is False or row.unseen]
    assert [row.rule for row in asked if plain(row.rule) not in seen] == []


def test_what_does_not_apply_is_not_news_and_what_could_not_be_checked_is_some() -> None:
    over = Held(rule="ignore.x", wanted="ignored", found="this ended", ok=None, whose=HealthClass.OK)
    reported = replace(checks.ALL["check-bad-host"](), policy=(over, checks.LEAK))
    assert "does not apply | ignore.x" in written("markdown", reported)
    assert "not checked | memory" in written("markdown", reported)
    for form in ("github", "sarif", "nagios"):
        assert "ignore.x" not in written(form, reported)
        assert "memory_in_use" in written(form, reported)


@pytest.mark.parametrize("name", ["driver-too-old", "check-bad-host", "bench-low"])
@pytest.mark.parametrize("form", ["markdown", "junit", "sarif", "github", "prometheus", "nagios"])
def test_a_form_is_the_one_agreed_on(form: str, name: str) -> None:
    compare(f"form-{name}.{form}", written(form, ALL[name]()))


@pytest.mark.parametrize("form", ["html", "markdown", "junit", "sarif", "github"])
def test_what_is_wrong_how_we_know_and_what_to_type_stand_in_it(form: str) -> None:
    seen = plain(READERS[form](written(form, reports.driver_too_old())))
    for said in (
        reports.DRIVER.title,
        "minor-version compatibility does not reach over a major version",
        "550.54.15",
        reports.DRIVER_ROW.source,
        "sudo apt-get install -y nvidia-driver-580-open",
        "root and a reboot",
        "nvidia-smi",
    ):
        assert said in seen


def test_a_green_report_has_test_cases_and_no_failure() -> None:
    text = written("junit", checks.passes())
    assert 'failures="0" skipped="0"' in text
    for case in ("pytorch → nvidia-driver", "gpus.count", "hbm.read on GPU 0"):
        assert case in text


def test_what_fails_in_junit_is_what_fails_the_command() -> None:
    def failures(*failing: Severity) -> int:
        return written("junit", reports.h200(), Told(failing=frozenset(failing))).count("<failure ")

    assert failures(Severity.ERROR) == 0
    assert failures(Severity.ERROR, Severity.WARNING) == 1
    assert written("junit", reports.eight()).count("<skipped ") == 2  # an unknown finding and an unknown contract
    assert (
        written("junit", checks.bad_host()).count("<failure ") == 5
    )  # the policy, the driver, two contracts, a measurement


def test_a_contract_broken_in_another_python_breaks_nothing() -> None:
    report = reports.driver_too_old()
    beside = replace(report.contracts[0], environment="/other/bin/python3")
    quiet = replace(report, findings=(), contracts=(beside, replace(beside, kind="technique", environment=None)))
    assert "<failure " not in written("junit", quiet)


PLACES = [
    (reports.driver_too_old, "framework-without-gpu", NOTHING, f"file://{reports.SITE}/torch"),
    (reports.h200, "cpu-only-build", NOTHING, f"file://{reports.SITE}/onnxruntime"),
    (reports.eight, "kernel-log-unread", NOTHING, "gpustack.toml"),
    (reports.h200, "cpu-only-build", Told(origins={"-": "-"}), "gpustack.toml"),
    (reports.h200, "cpu-only-build", Told(origins={"-": "-", "/a/my report.txt": "my report.txt"}), "my%20report.txt"),
    (reports.h200, "cpu-only-build", Told(origins={reports.SITE: "site/"}), "site/"),
    (reports.h200, "cpu-only-build", Told(origins={"x": "x", "/opt/torch/": "here"}), "here/.venv/lib/python3.12/"),
    (checks.bad_host, None, NOTHING, "ci/gpustack.toml"),
]


@pytest.mark.parametrize(("make", "rule", "told", "place"), PLACES)
def test_a_result_is_located_where_something_can_be_done(
    make: Callable[[], Reported], rule: str | None, told: Told, place: str
) -> None:
    (run,) = json.loads(written("sarif", make(), told))["runs"]
    (found, *_) = [one for one in run["results"] if one["ruleId"] == (rule or "policy")]
    where = found["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"].startswith(place)
    assert where["region"]["startLine"] == (1 if rule else 12)


def test_sarif_keeps_its_fingerprints_and_tells_what_the_rule_means() -> None:
    def results(report: Report, told: Told = NOTHING) -> list[dict[str, object]]:
        (run,) = json.loads(written("sarif", report, told))["runs"]
        made: list[dict[str, object]] = run["results"]
        return made

    report = reports.driver_too_old()
    again = replace(report, findings=report.findings[::-1], taken="later", seconds=9.0)
    marks = {one["ruleId"]: one["partialFingerprints"] for one in results(report)}
    assert marks == {one["ruleId"]: one["partialFingerprints"] for one in results(again)}
    assert len({str(mark) for mark in marks.values()}) == len(marks)
    told = Told(texts={reports.DRIVER.id: "The driver is too old.\n\nInstall a newer one."})
    (run,) = json.loads(written("sarif", report, told))["runs"]
    rule = run["tool"]["driver"]["rules"][0]
    assert rule["shortDescription"]["text"] == "The driver is too old."
    assert "Install a newer one." in rule["help"]["text"]


def test_levels_are_those_of_the_severities() -> None:
    levels = {one["ruleId"]: one["level"] for one in json.loads(written("sarif", reports.h200()))["runs"][0]["results"]}
    assert levels == {"cpu-only-build": "warning", "stubs-on-library-path": "note"}
    commands = [name for name, _, _ in noted(written("github", checks.bad_host()))]
    assert commands == ["error", "notice", "error", "warning", "warning", "notice"]


@pytest.mark.parametrize(
    ("taken", "written"),
    [
        ("2026-11-21T10:02:00+00:00", "recorded 2026-11-21 10:02 UTC"),
        ("2026-11-21T10:02:00Z", "recorded 2026-11-21 10:02 UTC"),
        ("2026-11-21T12:02:31.5+02:00", "recorded 2026-11-21 10:02 UTC"),
        ("yesterday", "recorded yesterday"),
        ("", ""),
    ],
)
def test_people_read_when_it_was_recorded(taken: str, written: str) -> None:
    assert recorded(taken) == written


def test_metrics_are_in_base_units_and_as_they_were_measured() -> None:
    families = {one.name: one for one in text_string_to_metric_families(written("prometheus", measurements.good()))}
    told = {
        (one.name, one.labels["benchmark"]): one.value
        for name, family in families.items()
        if name.startswith("gpustack_bench_")
        for one in family.samples
    }
    assert told["gpustack_bench_bytes_per_second", "hbm.read"] == 4426.0e9
    assert told["gpustack_bench_limit_bytes_per_second", "hbm.read"] == 4814.3e9
    assert told["gpustack_bench_operations_per_second", "gemm.bf16"] == pytest.approx(804.6e12)
    assert told["gpustack_bench_clock_hertz", "hbm.read"] == 1905e6
    low = {one.name: one for one in text_string_to_metric_families(written("prometheus", measurements.low()))}
    assert [one.value for one in low["gpustack_bench_latency_seconds"].samples] == [pytest.approx(2.43e-6)]
    (when,) = families["gpustack_last_run_timestamp_seconds"].samples
    assert when.value == 1795255320


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (reports.healthy, "OK"),
        (reports.no_gpu, "OK"),
        (reports.h200, "WARNING"),
        (reports.driver_too_old, "CRITICAL"),
        (measurements.good, "OK"),
        (measurements.low, "CRITICAL"),
        (checks.passes, "OK"),
        (checks.bad_host, "CRITICAL"),
        (lambda: replace(measurements.nothing(), results=()), "UNKNOWN"),
    ],
)
def test_monitoring_gets_its_word_first_and_a_line_that_fits(make: Callable[[], Reported], word: str) -> None:
    first = written("nagios", make()).splitlines()[0]
    assert first.startswith(f"GPUSTACK {word} - ")
    assert len(first.partition(" | ")[0]) <= 80
    assert standing(make()).value == word


def test_what_looks_like_markdown_is_shown_as_it_was_typed() -> None:
    for said in ("- a * b_c_d `e`", "1. x", "# y", "> z", "| a | b |", "<b>&lt;</b>", "~~s~~ ![i](u) $x$", "+ 1) 2"):
        report = replace(reports.driver_too_old(), findings=(replace(reports.DRIVER, title=said, detail=said),))
        assert plain(markdown(written("markdown", report))).count(plain(said)) >= 2  # the title, and the detail


def test_no_text_can_begin_a_command_to_the_runner_of_a_job() -> None:
    evil = "::error::x\n::set-output name=a::b\n ::warning::y ##[error]z"
    fix = Fix(text=evil, commands=(sh(evil), sh("::a::b")), verify=sh(evil))
    finding = replace(reports.DRIVER, id="::x::", title=evil, detail=evil, fix=fix)
    report = replace(reports.driver_too_old(), findings=(finding,), host=Host(hostname=evil))
    for form in ("markdown", "junit", "nagios", "prometheus"):
        text = written(form, report)
        assert not [line for line in text.splitlines() if line.lstrip().startswith("::") or "##[" in line], form
    assert len(written("github", report).splitlines()) == len(github(written("github", report)).split("::x::"))


@pytest.mark.parametrize("form", READERS)
@given(reported=CHECK | BENCH)
def test_any_report_is_valid_in_any_form(form: str, reported: Reported) -> None:
    text = written(form, reported, Told(origins={"issue.txt": "issue.txt"}))
    READERS[form](text)
    text.encode()
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", text) is None
