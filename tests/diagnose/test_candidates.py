"""Likely causes: listed whenever something was recognised but nothing is certain; never for a healthy machine."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gpustack.diagnose import rule
from gpustack.diagnose.candidates import candidates, features, likely
from gpustack.diagnose.engine import judge
from gpustack.diagnose.evidence import possible
from gpustack.diagnose.requirements.records import decisions
from gpustack.imports import load_texts
from gpustack.matrix.subjects.candidates import NO_CAUSES, index, tokens
from gpustack.matrix.subjects.messages import patterns
from gpustack.model.facts import AT_WORK, Facts, Host
from gpustack.model.report import Confidence, Health, Report, Severity
from gpustack.report import renderer
from tests.build import MATRIX, gpu, healthy, machine, seen
from tests.recorded import judged
from tools import cases
from tools.cases import ranking

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LONGEST = 900  # characters of a wording
HEADERS = "The build of the nvidia module by dkms ended early: the kernel sources for this kernel could not be located."


def reported(text: str) -> Report:
    return judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX)


def test_words_of_the_stack_give_likely_causes_where_nothing_is_proven() -> None:
    report = reported(HEADERS)
    assert report.verdict.status is Health.UNKNOWN
    assert report.verdict.root_causes == ()
    first = report.candidates[0]
    assert first.id in {"dkms-headers-missing", "dkms-build-failed"}
    assert len(report.candidates) <= 5
    assert sum(one.weight for one in report.candidates) <= 1
    assert [one.weight for one in report.candidates] == sorted((one.weight for one in report.candidates), reverse=True)
    assert any("dkms" in str(one.value) for one in first.because)
    assert "dkms status" in first.decide.commands
    recorded = {(one.source, one.root_cause) for one in cases.every()}
    assert first.similar
    assert {(one.source, one.cause) for each in report.candidates for one in each.similar} <= recorded


def test_where_recorded_machines_speak_for_nothing_the_cause_that_a_message_names_comes_first() -> None:
    report = reported("mat1 and mat2 shapes cannot be multiplied (8x512 and 1024x1000)")
    weights = [one.weight for one in report.candidates]
    assert report.candidates[0].id == "application-fault"
    assert weights == sorted(weights, reverse=True)


def test_a_guess_is_in_no_headline_and_a_share_below_one_percent_is_not_written_as_none() -> None:
    report = reported(HEADERS)
    assert "most likely:" in " ".join(renderer("text")(report).split())
    guess = replace(report, candidates=(replace(report.candidates[0], weight=0.004),))
    assert "nothing is proven, and no cause stands out" in " ".join(renderer("text")(guess).split())
    assert "under 1%" in renderer("markdown")(guess)


def test_a_message_that_is_no_longer_known_speaks_for_no_cause() -> None:
    known = {f"message:{AT_WORK}", *(f"message:{row.kind}" for row in patterns(MATRIX))}  # the first is a reader's own
    assert {name for name in index(MATRIX).features if name.startswith("message:")} <= known


def test_nothing_of_the_stack_gives_none() -> None:
    for text in ("hello world, how are you today?", "The train to the north is late; all seats are taken.", "42"):
        report = reported(text)
        assert report.candidates == ()
        assert report.verdict.status is Health.UNKNOWN


def test_a_certain_root_cause_leaves_no_candidates_and_a_likely_one_is_none_itself() -> None:
    certain = likely = 0
    for case in cases.every()[::160]:
        report = judged(case)
        roots = [one for one in report.findings if one.key in report.verdict.root_keys]
        sure = any(one.confidence is Confidence.CERTAIN for one in roots)
        if sure or report.verdict.status in {Health.HEALTHY, Health.NO_GPU}:
            assert report.candidates == (), case.id
            certain += 1
        elif roots:
            assert not {one.id for one in report.candidates} & {*report.verdict.root_causes}, case.id
            likely += len(report.candidates) > 0
    assert certain > 6
    assert likely > 0


def test_a_machine_that_was_probed_and_is_healthy_has_none() -> None:
    facts = healthy()
    assert candidates(facts, MATRIX, (), judge(facts, MATRIX).verdict) == judge(facts, MATRIX).candidates == ()


def test_a_cause_is_possible_only_where_the_system_and_the_maker_allow_it() -> None:
    windows, linux = Facts(host=Host(os="Windows 11")), Facts(host=Host(os="Ubuntu 24.04", kernel="6.8.0"))
    assert not possible("dkms-build-failed", windows)
    assert possible("dkms-build-failed", linux)
    assert not possible("tf-no-native-windows-gpu", linux)
    assert not possible("tf-no-native-windows-gpu", replace(linux, host=Host(os="Ubuntu 22.04")))
    old = load_texts({"a": b"Windows 10, TensorFlow 2.2.0"}, MATRIX)
    new = load_texts({"a": b"Windows 10, TensorFlow 2.15.0"}, MATRIX)
    assert possible("tf-no-native-windows-gpu", new) > possible("tf-no-native-windows-gpu", old)
    assert possible("wsl-linux-driver-installed", replace(linux, host=replace(linux.host, wsl=True)))
    assert not possible("rocm-gfx-unsupported", machine(seen("gpu", gpu())))
    assert possible("rocm-gfx-unsupported", Facts())


def test_every_form_tells_the_likely_causes_and_says_nothing_else_beside() -> None:
    report = reported(HEADERS)
    first = report.candidates[0]
    for form in ("text", "markdown", "html"):
        told = " ".join(renderer(form)(report).replace("\\", "").replace("&#x27;", "'").replace("&#39;", "'").split())
        assert first.id in told, form
        assert "dkms status" in told, form
        assert "too little could be seen" not in told, form
        assert "could be seen." not in told, form
    said = json.loads(renderer("json")(report))
    assert said["candidates"][0]["similar"][0]["cause"] == first.id


def test_every_cause_of_the_index_is_a_finding_with_a_title_and_with_what_decides() -> None:
    held = index(MATRIX)
    assert set(cases.causes(healthy=False)) <= set(held.causes)
    for cause in held.causes:
        if cause not in NO_CAUSES:
            assert rule.explain(cause), cause
    missing = [cause for cause in cases.causes(healthy=False) if cause not in decisions()]
    assert missing == []


def test_features_are_of_known_words_alone_so_that_no_secret_gets_into_facts() -> None:
    facts = load_texts({"a paste": b"dkms on host srv-quokka-77 of jane.doe@example.org fails, nvidia"}, MATRIX)
    assert "dkms" in facts.words
    assert not any("jane" in word or "quokka" in word for word in facts.words)
    assert set(facts.words) <= set(features(facts))


def test_a_long_text_costs_no_more_than_its_ends() -> None:
    middle = " ".join(f"word{number}" for number in range(200_000))
    assert len(tokens(f"dkms {middle} nouveau")) < 100_000
    assert {"dkms", "nouveau"} <= tokens(f"dkms {middle} nouveau")


def test_words_of_every_alphabet_are_known() -> None:
    assert {"detecte", "пропала", "显存", "存不"} <= tokens("Détecté. Видеокарта пропала. 显存不够")


def test_a_text_that_names_no_system_but_clearly_tells_of_a_fault_has_likely_causes() -> None:
    report = reported(
        "Reseated the riser, the rig still drops one card after an hour and lspci does not list it any more."
    )
    assert report.candidates
    assert not reported("Whisk the eggs, add flour and milk, and bake for twenty minutes.").candidates


def test_each_wording_is_of_a_cause_that_is_ranked_and_is_written_once() -> None:
    known = {*index(MATRIX).causes, *NO_CAUSES}
    written = [
        (cause, text)
        for path in sorted(ranking.WORDINGS.glob("*.toml"))
        for cause, texts in tomllib.loads(path.read_text("utf-8")).items()
        for text in texts.strip().split("\n\n")
    ]
    assert {cause for cause, _ in written} <= known
    assert [text for text, times in Counter(text for _, text in written).items() if times > 1] == []
    assert [text for _, text in written if not text.strip() or len(text) > LONGEST] == []


def test_a_wording_counts_less_than_a_machine_and_names_no_thread(tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text("nouveau-loaded = '''\nlspci: in use nouveau\n\nnouveau has it\n'''\n", "utf-8")
    first, second = ranking.wordings(MATRIX, tmp_path)
    assert (first.cause, first.source, first.weight) == ("nouveau-loaded", "", ranking.OF_WORDINGS)
    assert first.weight < ranking.Document(cause="", seen=frozenset()).weight
    assert "nouveau" in second.seen


@pytest.fixture(scope="module")
def documents() -> list[ranking.Document]:
    return [ranking.document(case, MATRIX) for case in cases.every()[::24]]


@pytest.mark.timeout(900)  # the longest of all: it learns from thousands of texts
def test_threads_of_other_repositories_rank_far_above_the_most_frequent_causes(
    documents: list[ranking.Document],
) -> None:
    ranked, frequent = ranking.validate(documents, list(ranking.vocabulary(MATRIX))[::5], (1,))
    assert ranked.machines > 20
    assert ranked.three > 0.7 * ranked.machines
    assert ranked.three > 2 * frequent.three


def test_the_index_is_written_as_it_is_read(
    documents: list[ranking.Document], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("matrix")
    made = ranking.built(documents)
    ranking.write(made, folder / "candidates.toml")
    (folder / "stack.toml").write_text("schema = 1\nsystems = []\n", "utf-8")
    read = index(replace(MATRIX, folder=folder))
    assert (read.features, read.causes, read.cases) == (made.features, made.causes, made.cases)
    seen = documents[0].seen
    assert read.rank(seen) == made.rank(seen)
    assert sum(one.weight for one in read.rank(seen)) == pytest.approx(1)


@pytest.mark.parametrize(
    "line",
    [
        "Error 803: system has unsupported display driver / cuda driver combination",
        "ze_result 0x78000001",
        "nccl WARN Cuda failure 'invalid device ordinal'",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory",
    ],
)
def test_a_candidate_has_something_that_speaks_for_it(line: str) -> None:
    report = reported(line)
    assert report.candidates or report.verdict.root_causes
    assert all(one.because for one in report.candidates)


def test_the_name_of_an_error_alone_is_enough() -> None:
    held = index(MATRIX)
    for name in ("cudaErrorInsufficientDriver", "CUDA_ERROR_SYSTEM_NOT_READY", "NVML_ERROR_LIB_RM_VERSION_MISMATCH"):
        ranked = held.rank(held.words(name))
        assert ranked, name
        assert name.lower() in ranked[0].because


def test_a_recorded_machine_is_most_like_itself() -> None:
    held = index(MATRIX)
    alike = 0
    for case in cases.every()[::120]:
        if not case.healthy:
            seen = ranking.document(case, MATRIX).seen
            alike += case.source in held.similar(case.root_cause, seen, 3)
    assert alike >= 12


def test_no_finding_comes_from_words_alone() -> None:
    report = reported(HEADERS)
    assert [one for one in report.findings if one.severity in {Severity.ERROR, Severity.WARNING}] == []


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("nvidia-container-cli: command not found", "container-toolkit-missing"),
        ("ld: cannot find ./nvidia/nv-kernel.o", "dkms-build-failed"),
    ],
)
def test_what_a_message_itself_leads_to_goes_before_what_others_had_who_saw_it(line: str, cause: str) -> None:
    candidates = [*likely(load_texts({"a paste": line.encode()}, MATRIX), MATRIX)]
    assert candidates[0].id == cause
    assert [one.weight for one in candidates] == sorted((one.weight for one in candidates), reverse=True)
