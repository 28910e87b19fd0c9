"""A policy is read key by key; an error in one is a line that names the file, the line and the key."""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack import assets
from gpustack.errors import InputError
from gpustack.matrix.toml_tables import find_lines
from gpustack.model.policy import Figures, Golden, Gpus, Ignored, InUse, Policy, Raised
from gpustack.model.report import Purpose, Severity
from gpustack.policy import END, ENDED, find, keys, load, read
from gpustack.policy.generate import draft
from tests.report import reports

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPO = Path(__file__).resolve().parents[2]
WHOLE = """\
for = "train"
frameworks = ["torch", "jax"]

[components]
pytorch = ">=2.6,<3"
"nvidia.ko" = ">=570"
nccl = "present"

[gpus]
count = 8
name = "NVIDIA H200*"
compute-capability = ">=8.0,<10"
memory-gib = 140

[bench]
baseline = "baseline.json"

[bench.least]
"hbm.*" = 0.85
"gemm.bf16" = 0.7

[bench.least-of-baseline]
"*" = 0.95

[in-use]
memory-mib = 0
processes = []

[golden]
snapshot = "golden.json"
may-differ = ["packages"]

[[ignore]]
finding = "pcie-link-degraded"
reason = "the riser has eight lanes"
until = 2027-01-31

[[ignore]]
finding = "bench-low@pcie.*"
reason = '''
the same
'''
until = "2027-01-31"

[[raise]]
finding = "persistence-mode-off"
to = "warning"
reason = "jobs are short here"
"""


def test_every_key_is_read() -> None:
    policy = read(WHOLE).policy
    assert policy.for_ is Purpose.TRAIN
    assert policy.frameworks == ("pytorch", "jax")
    assert policy.components == {"pytorch": ">=2.6,<3", "nvidia.ko": ">=570", "nccl": "present"}
    assert policy.gpus is not None
    assert (policy.gpus.count, policy.gpus.name, policy.gpus.memory_gib) == (8, ("NVIDIA H200*",), 140.0)
    assert policy.bench.least == {"hbm.*": 0.85, "gemm.bf16": 0.7}
    assert policy.bench.least_of_baseline == {"*": 0.95}
    assert (policy.in_use.memory_mib, policy.in_use.processes) == (0, ())
    assert (policy.golden.snapshot, policy.golden.may_differ) == ("golden.json", ("packages",))
    assert [one.until for one in policy.ignore] == [date(2027, 1, 31)] * 2
    assert (policy.raise_[0].to, policy.raise_[0].until) == (Severity.WARNING, None)
    assert read("").policy == Policy()


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (("for",), 'for = "train"'),
        (("components", "nvidia.ko"), '"nvidia.ko"'),
        (("gpus",), "[gpus]"),
        (("gpus", "memory-gib"), "memory-gib"),
        (("bench", "least", "hbm.*"), '"hbm.*" = 0.85'),
        (("ignore", 0, "until"), "until = 2027-01-31"),
        (("ignore", 1), "[[ignore]]"),
        (("ignore", 1, "until"), 'until = "2027-01-31"'),
        (("gpus", "not-there"), "[gpus]"),
    ],
)
def test_a_key_is_found_on_its_line(key: tuple[str | int, ...], says: str) -> None:
    written = read(WHOLE, "p.toml")
    path, _, line = (written.place(*key) or "").rpartition(":")
    assert path == "p.toml"
    assert WHOLE.splitlines()[int(line) - 1].startswith(says)
    inline = read('gpus = { count = 2 }\nignore = [\n  { finding = "bench-low", reason = "x", until = 2027-01-01 },\n]')
    assert inline.place("gpus", "count") == "gpustack.toml:1"
    assert inline.place("ignore", 0, "until") == "gpustack.toml:2"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("gpus = 3", 1, "gpus: a table is expected, not 3"),
        ("\n[gpu]\ncount = 3", 2, "gpu: there is no such key; did you mean gpus?"),
        ("\nxyzzy = 3", 2, "xyzzy: there is no such key; known here are for, components"),
        ('[gpus]\ncount = "many"', 2, 'gpus.count: "many" is not a range of versions'),
        ("[gpus]\ncount = -1", 2, "gpus.count: a whole number"),
        ("[gpus]\ncount = true", 2, "gpus.count: a whole number"),
        ("[gpus]\nmemory-gib = nan", 2, "gpus.memory-gib: a number above 0"),
        ('[gpus]\nname = [""]', 2, "gpus.name: text or a list of texts"),
        ('[components]\npytorch = "2.6"', 2, 'components.pytorch: "2.6" is not a range of versions: write ">=2.6"'),
        ('[components]\npytorch = ""', 2, "components.pytorch: text is expected"),
        ('[components]\nnvidia.ko = ">=570"', 2, "components.nvidia: text is expected; a name with a dot in it"),
        ('frameworks = ["llama"]', 1, 'frameworks: whether "llama" works cannot be checked'),
        ('for = "fun"', 1, "for: train or infer or build or any is expected"),
        ('\n[[ignore]]\nreason = "x"\nuntil = 2027-01-01', 2, "ignore[0]: finding is missing"),
        ('[[ignore]]\nfinding = "bench-low"\nreason = "x"', 1, "ignore[0]: until is missing"),
        ('[[ignore]]\nfinding = "bench-low"\nuntil = 2027-01-01', 1, "ignore[0]: reason is missing"),
        (
            '[[ignore]]\nfinding = "bench-lwo"\nreason = "x"\nuntil = 2027-01-01',
            2,
            'ignore[0].finding: no finding has the id "bench-lwo"',
        ),
        ('[[ignore]]\nfinding = "bench-low"\nreason = "x"\nuntil = "soon"', 4, "ignore[0].until: a date such as"),
        ('[[ignore]]\nfinding = "bench-low"\nreason = "x"\nuntil = "2027-02-30"', 4, "ignore[0].until: a date"),
        (
            '[[ignore]]\nfinding = "bench-low"\nreason = "x"\nuntil = 2027-01-01T10:00:00',
            4,
            "ignore[0].until: a date such as",
        ),
        ('ignore = "x"', 1, "ignore: tables are expected ([[ignore]])"),
        ('[[raise]]\nfinding = "*"\nreason = "x"\nto = "info"', 4, "raise[0].to: error or warning is expected"),
        ('[bench.least]\n"hbm.reed" = 0.9', 2, 'bench.least."hbm.reed": no benchmark is called "hbm.reed"'),
        ('[bench.least]\n"hbm.reed" = 0.9', 2, 'called "hbm.reed", but hbm.read'),
        ('[bench.least]\n"hbm.*" = 85', 2, 'bench.least."hbm.*": 85 is a fraction: 0.85 is 85 %'),
        ('[bench.least]\n"hbm.*" = "high"', 2, 'bench.least."hbm.*": a number above 0 is expected, not "high"'),
        (
            '[bench.least-of-baseline]\n"*" = 0.9',
            1,
            "bench.least-of-baseline: a minimum of a baseline needs the key baseline",
        ),
        ("[in-use]\nmemory-mib = 1.5", 2, "in-use.memory-mib: a whole number"),
        ("a = 1\na = 2", 2, "this is not valid TOML"),
        ("[gpus\n", 1, "this is not valid TOML"),
        ('x = "\x1b[31m"', 1, "this is not valid TOML"),
        ('"\\u001b]0;x" = 1', 1, r'"\u001b]0;x": there is no such key'),
        (f"x = {'[' * 100_000}", 1, "TOML"),
        (f"[in-use]\nmemory-mib = 0x{'f' * 9000}", 2, "not a number beyond all measure"),
    ],
)
def test_a_wrong_policy_is_one_line_with_file_line_and_key(text: str, line: int, says: str) -> None:
    with pytest.raises(InputError) as error:
        read(text, "here/gpustack.toml")
    said = str(error.value)
    assert said.startswith(f"here/gpustack.toml:{line}: ")
    assert says in said
    assert said.isascii()
    assert said.isprintable()
    assert error.value.exit_code == 2


@given(st.text(max_size=60) | st.lists(st.sampled_from(WHOLE.splitlines()), max_size=8).map("\n".join))
def test_any_text_is_a_policy_or_one_clear_error(text: str) -> None:
    said = outcome(text)
    if isinstance(said, Policy):
        assert SCHEMA.is_valid(json.loads(json.dumps(tomllib.loads(text), default=str)))
    else:
        assert re.match(r"gpustack\.toml:[1-9]\d*: .", said, re.ASCII)
        assert said.isprintable()


def outcome(text: str) -> Policy | str:
    """Return the policy that a text defines, or the error message."""
    try:
        return read(text).policy
    except InputError as error:
        return str(error)


SAID = json.loads((assets.SCHEMAS / "policy.json").read_text("utf-8"))
SCHEMA = jsonschema.Draft202012Validator(SAID)


@given(st.text(max_size=80) | st.lists(st.sampled_from(WHOLE.splitlines()), max_size=12).map("\n".join))
def test_every_key_of_any_toml_has_a_line(text: str) -> None:
    try:
        said = tomllib.loads(text)
    except ValueError:
        return
    found = find_lines(text)
    assert {key[0] for key in found} == set(said)
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())


def test_the_schema_for_editors_knows_every_key_and_refuses_others() -> None:
    assert SCHEMA.is_valid(json.loads(json.dumps(tomllib.loads(WHOLE), default=str)))
    assert not SCHEMA.is_valid({"gpu": {}})
    assert not SCHEMA.is_valid({"gpus": {"cuont": 1}})
    assert not SCHEMA.is_valid({"ignore": [{"finding": "bench-low", "reason": "x"}]})
    assert not SCHEMA.is_valid({"bench": {"least": {"hbm.*": "high"}}})
    assert set(SAID["properties"]) == set(keys(Policy))
    described = (SAID, *SAID["$defs"].values())
    assert all(one["description"] for held in described for one in held.get("properties", {}).values())


def test_the_nearest_policy_upwards_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    outer = tmp_path / "gpustack.toml"
    outer.write_text("[gpus]\ncount = 1\n")
    assert find(inner) == outer
    project = tmp_path / "a" / "pyproject.toml"
    project.write_text("[tool.other]\nx = 1\n")
    assert find(inner) == outer
    project.write_text('[tool.other]\nx = 1\n\n[tool.gpustack.gpus]\ncount = "some"\n')
    assert find(inner) == project
    with pytest.raises(InputError, match=re.escape(f"{project}:5: tool.gpustack.gpus.count: ")):
        load(project)
    project.write_text('[tool.other]\nx = 1\n\n[tool.gpustack]\nfor = "infer"\n')
    assert load(project).policy.for_ is Purpose.INFER
    assert load(project).place("for") == f"{project}:5"
    (tmp_path / "a" / "gpustack.toml").write_text("")
    assert find(inner) == tmp_path / "a" / "gpustack.toml"


@pytest.mark.parametrize("text", ["", " \n\n", "# for = 'train'\n", "\ufeff"])
def test_a_policy_that_demands_nothing_is_refused(tmp_path: Path, text: str) -> None:
    for name, more in (("gpustack.toml", ""), ("pyproject.toml", "\n[project]\nname = 'x'\n[tool.gpustack]\n")):
        (tmp_path / name).write_text(text + more, "utf-8")
        with pytest.raises(InputError, match=f"{name} requires nothing: .* gpustack check --init --force"):
            load(tmp_path / name)


def test_a_drafted_policy_that_was_cut_off_is_refused_wherever_that_was(tmp_path: Path) -> None:
    path, whole = tmp_path / "gpustack.toml", draft(reports.h200(), None)
    path.write_text(whole, "utf-8")
    assert load(path).policy.gpus
    for length in range(len(whole) - 1):  # only its last line break is dispensable
        path.write_text(whole[:length], "utf-8")
        with pytest.raises(InputError, match=r"requires nothing|is truncated|this is not valid TOML"):
            load(path)
    path.write_text(whole.replace(f"{ENDED}\n", "").replace(f"{END}\n", ""), "utf-8")
    assert load(path).policy.gpus


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"x = '\xff'", "1: this is not UTF-8"), (b"#" * 1_000_001, "more than 1 MB is too large for a policy")],
)
def test_what_is_not_text_is_refused_by_name(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "gpustack.toml"
    path.write_bytes(data)
    with pytest.raises(InputError, match=says):
        load(path)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path)
    project = tmp_path / "pyproject.toml"
    project.write_text("[project]\n")
    with pytest.raises(InputError, match=re.escape("there is no [tool.gpustack] in it")):
        load(project)


def test_a_mark_of_windows_in_front_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "gpustack.toml"
    path.write_bytes(b'\xef\xbb\xbffor = "infer"\r\n[gpus]\r\ncount = 2\r\n')
    assert load(path).policy.for_ is Purpose.INFER
    assert load(path).place("gpus", "count") == f"{path}:3"


def test_the_page_on_policies_shows_every_key_and_its_examples_are_policies() -> None:
    page = (REPO / "docs/policy.md").read_text("utf-8")
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert all(read(example).policy != Policy() for example in examples)
    whole = read("\n".join(examples)).policy
    for table in (Policy, Gpus, Figures, InUse, Golden, Ignored, Raised):
        for key in keys(table):
            assert re.search(rf"^(\[+)?(bench\.)?{re.escape(key)}\b", "\n".join(examples), re.MULTILINE), key
    assert whole.gpus is not None
    assert whole.raise_[0].until == date(2027, 6, 30)
