"""A node that hangs, dies, prints garbage, has a full disk or another gpustack loses its own answer only."""

from __future__ import annotations

import json
import re
import stat
import sys
import time
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.errors import InputError, UsageError
from gpustack.fleet import collecting, launching, nodes
from gpustack.fleet.launching import Engine, engines
from gpustack.matrix import Matrix
from gpustack.model.fleet import fold
from tests.integrations.test_pods import breaches

# A stand-in for a launcher: what each node does when it is queried.
LAUNCHER = """#!{python}
import json, os, sys, time
node, words = sys.argv[1], sys.argv[2:]
schema = "gpustack.bench/1" if "bench" in words else "gpustack.snapshot/1"
said = json.dumps({{"schema": schema, "node": node}})
if node == "hangs": time.sleep(60)
if node == "dies": sys.exit("srun: error: node dies: unreachable")
if node == "garbage": print("\\x00\\xff not json")
elif node == "old": print(json.dumps({{"schema": "gpustack.snapshot/0"}}))
elif node == "full": os.write(2, b"OSError: No space left on device"); sys.exit(2)
elif node == "banner": print("Welcome to the {{cluster}}"); print(said); print("{{goodbye}}")
elif node == "flaky" and not os.path.exists({flag!r}): open({flag!r}, "w"); sys.exit(1)
else: print(said)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    path = tmp_path / "launcher"
    path.write_text(LAUNCHER.format(python=sys.executable, flag=str(tmp_path / "flag")))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    listing = (sys.executable, "-c", "print('n1\\nn2\\nn1\\n-evil')")
    return Engine(name="stand-in", command=(str(path), "{node}"), nodes=listing, source="", checked="")


def plan(engine: Engine, folder: Path, **more: object) -> collecting.Plan:
    asked = {"seconds": 3.0, "attempts": 1, **more}
    return collecting.Plan(reach=launching.launcher(engine), folder=folder, **asked)  # type: ignore[arg-type]


def test_each_faulty_node_is_named_and_nothing_else_is_lost(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "nodes"
    names = ("n1", "n2", "hangs", "dies", "garbage", "old", "full", "banner")
    began = time.monotonic()
    done = collecting.collect(plan(engine, folder), names)
    assert time.monotonic() - began < 30
    assert set(done.answered) == {"n1", "n2", "banner"}
    assert "no answer within 3 s" in done.missing["hangs"]
    assert "unreachable" in done.missing["dies"]
    assert "not JSON" in done.missing["garbage"]
    assert "another version" in done.missing["old"]
    assert "No space left" in done.missing["full"]
    there, missing = nodes.look(folder)
    assert [one.name for one in there] == ["banner", "n1", "n2"]
    assert set(missing) == set(done.missing)


def test_a_second_run_queries_only_the_missing_nodes(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "nodes"
    first = collecting.collect(plan(engine, folder), ("n1", "flaky"))
    assert set(first.missing) == {"flaky"}
    second = collecting.collect(plan(engine, folder), ("n1", "flaky"))
    assert (second.kept, second.answered, second.missing) == (["n1"], ["flaky"], {})
    assert nodes.look(folder)[1] == {}


def test_a_node_is_asked_again_before_it_is_given_up(engine: Engine, tmp_path: Path) -> None:
    done = collecting.collect(plan(engine, tmp_path / "nodes", attempts=2), ("flaky",))
    assert done.answered == ["flaky"]


def test_the_bench_is_written_beside_the_snapshot(engine: Engine, tmp_path: Path) -> None:
    collecting.collect(plan(engine, tmp_path / "nodes", bench=True), ("n1",))
    [node] = nodes.look(tmp_path / "nodes")[0]
    assert [json.loads(nodes.text(path))["schema"] for path in node.benches] == ["gpustack.bench/1"]


def test_a_bench_that_is_taken_again_is_next_to_the_first(engine: Engine, tmp_path: Path) -> None:
    for again in (False, True, True):
        collecting.collect(plan(engine, tmp_path / "nodes", bench=True, again=again), ("n1",))
    [node] = nodes.look(tmp_path / "nodes")[0]
    assert [path.name for path in node.benches] == [f"n1.bench{take}.json.gz" for take in ("", ".2", ".3")]


def test_the_engine_lists_its_nodes_and_names_that_are_options_are_none(engine: Engine) -> None:
    assert launching.names(engine, 10) == ("n1", "n2")


def test_the_cause_is_kept_where_a_launcher_says_much_after_it() -> None:
    program = "import sys; sys.exit('no GPU on this node' + ' words' * 900 + ' aborted')"
    row = Engine(name="x", command=(sys.executable, "-c", program), source="", checked="")
    why = launching.launcher(row)("n1", (), 20.0)[1]
    assert "no GPU on this node" in why
    assert why.endswith("aborted")
    assert len(why) < 400


def test_an_engine_that_is_not_here_says_so() -> None:
    gone = Engine(name="x", command=("no-such-launcher",), nodes=("no-such-launcher",), source="", checked="")
    with pytest.raises(UsageError, match="cannot be run"):
        launching.names(gone, 1)
    assert "cannot be run" in launching.launcher(gone)("n1", ("gpustack",), 1.0)[1]


@pytest.mark.parametrize("row", engines(Matrix()), ids=lambda one: one.name)
def test_every_engine_names_its_node_and_leaves_no_blank(row: Engine) -> None:
    words = ("gpustack", "snapshot")
    asked = launching.filled(row, "gpu007", words, 60.0, "registry/gpustack:1")
    all_words = [*asked.command, *asked.after, asked.manifest, *(word for step in asked.before for word in step)]
    assert any("gpu007" in word for word in all_words)
    assert any("snapshot" in word for word in all_words)
    assert not re.search(r"\{(node|limit|image|id|words)\}", " ".join(all_words))


def test_the_job_of_kubernetes_is_taken_by_its_schema_and_may_do_nothing() -> None:
    row = launching.engine(engines(Matrix()), "kubernetes")
    words = ("gpustack", "bench", 'a "quoted" word')
    job = json.loads(launching.filled(row, "gpu007", words, 60.0, "registry/gpustack:1").manifest)
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    pod = job["spec"]["template"]["spec"]
    assert list(breaches(pod)) == []
    assert (pod["nodeName"], pod["containers"][0]["args"]) == ("gpu007", list(words))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**job, "spek": {}}, kubernetes_validate.latest_version(), strict=True)


def test_what_is_left_behind_is_cleaned_up_whatever_happened(tmp_path: Path) -> None:
    touch, gone = (sys.executable, "-c", "import sys; open(sys.argv[1], 'a').write('x')"), str(tmp_path / "after")
    made = "import sys; sys.exit(sys.stdin.read() != 'made for n1')"
    row = Engine(
        name="x",
        before=((sys.executable, "-c", made), (sys.executable, "-c", "import sys; sys.exit('no such image')")),
        command=("never",),
        after=(*touch, gone),
        manifest="made for {node}",
        source="",
        checked="",
    )
    assert "no such image" in launching.launcher(row)("n1", ("gpustack",), 20.0)[1]
    assert Path(gone).read_text() == "x"


@given(st.sets(st.from_regex(r"[a-z]{1,4}-?[0-9]{1,4}(-ib)?", fullmatch=True), max_size=30))
def test_names_fold_and_unfold(names: set[str]) -> None:
    assert set(nodes.expand(fold(names))) == names if names else fold(names) == ""


@pytest.mark.parametrize(
    "said", ["gpu[1-", "gpu[a-b]", "-n", "a b", "", "gpu[9-1]", "n[1-99999999]", "$(id)", "x[[1]]"]
)
def test_what_names_no_nodes_is_refused(said: str) -> None:
    with pytest.raises(InputError):
        nodes.expand(said)
