"""What assistants may call: four read-only tools, through the protocol's own client, without user or host names."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed: pip install '.[mcp]'")

from gpustack.library import assistants  # noqa: E402 - where there is the package

REPO = Path(__file__).resolve().parents[2]
ERROR = "RuntimeError: CUDA error: no kernel image is available for execution on the device"


def ask(tool: str, **arguments: object) -> Any:  # noqa: ANN401 - the protocol's own type
    async def talk() -> Any:  # noqa: ANN401
        async with mcp.Client(assistants.server()) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(talk())


def said(tool: str, **arguments: object) -> str:
    answer = ask(tool, **arguments)
    assert not answer.is_error, answer
    return str(answer.content[0].text)


def test_there_are_four_tools_and_each_says_that_it_only_reads() -> None:
    async def listed() -> Any:  # noqa: ANN401
        async with mcp.Client(assistants.server()) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, about = asyncio.run(listed())
    assert {one.name for one in tools} == {"doctor", "explain", "matrix_why", "matrix_plan"}
    for one in tools:
        assert one.annotations.read_only_hint
        assert not one.annotations.destructive_hint
        assert one.description.endswith(".")
        passed = set(one.input_schema["properties"])
        assert not passed & {"path", "file", "command", "output"}, "nothing that names a file or a program"
    assert "looked up, not remembered" in about


def test_what_was_pasted_is_judged_and_what_it_tells_of_people_is_not_handed_on() -> None:
    answer = said("doctor", pasted=f"jane@secretnode17:~$ python /home/jane.roe/train.py\n{ERROR}\n")
    assert "arch-not-in-build" in answer
    assert "jane.roe" not in answer
    assert "secretnode17" not in answer


def test_this_machine_is_examined_and_not_named() -> None:
    answer = said("doctor")
    assert "gpustack" in answer
    host = socket.gethostname()
    assert len(host) < 5 or host not in answer


def test_words_and_versions_are_looked_up() -> None:
    assert "fallen off the bus" in said("explain", words="Xid 79")
    why = said("matrix_why", subjects=["torch==2.7.1+cu128"], driver="470.256.02")
    assert "does not work with driver 470.256.02" in why
    plan = said("matrix_plan", subjects=["torch>=2.6"], driver="550.54.15", gpu="H100", python="3.12")
    assert "pip install" in plan


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("matrix_why", {"subjects": ["torch==2.7.1"], "driver": "newest"}, "newest"),
        ("matrix_why", {"subjects": []}, ""),
        ("explain", {}, "words"),
        ("update", {}, "update"),
    ],
)
def test_what_cannot_be_answered_is_an_error_that_the_assistant_reads(
    tool: str, arguments: dict[str, object], says: str
) -> None:
    answer = ask(tool, **arguments)
    assert answer.is_error
    assert says in answer.content[0].text


def test_the_command_talks_on_standard_output_alone() -> None:
    async def talk() -> tuple[str, str]:
        program = mcp.StdioServerParameters(
            command=sys.executable, args=["-m", "gpustack", "mcp"], env={**os.environ, "PYTHONPATH": str(REPO)}
        )
        async with mcp.Client(program) as client:
            answer = await client.call_tool("explain", {"words": "warp"})
            return client.server_info.name, answer.content[0].text

    name, answer = asyncio.run(talk())
    assert name == "gpustack"
    assert "32" in answer


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('No module named mcp', name='mcp')\n", "utf-8")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv[1:] = ['mcp']\n"
        "from gpustack.cli import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=REPO)
    assert done.returncode == 3
    wanted = (
        "gpustack: gpustack mcp needs the package mcp: install gpustack with its extra, as in pip install '.[mcp]'\n"
    )
    assert done.stderr == wanted
