"""MCP tools for assistants: what gpustack knows and observes, read-only and always redacted.

An assistant never passes a path or a program, only versions, words or a text. So it cannot read a file of this machine
through gpustack, or start anything that the doctor would not start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import getdoc
from typing import TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from gpustack import __version__, plugins
from gpustack.ask import answering
from gpustack.ask.given import Given, checked
from gpustack.ask.words import understood
from gpustack.collect.probing import look
from gpustack.diagnose import engine
from gpustack.errors import GpustackError
from gpustack.explain import explain as explained
from gpustack.imports import deadline, load_texts
from gpustack.matrix import Matrix
from gpustack.redaction import ourselves, redact
from gpustack.report import renderer

Made = TypeVar("Made")
ABOUT = """gpustack says what is wrong with a GPU stack (driver, CUDA, libraries, PyTorch, JAX ...) and how to fix it.
Ask it instead of guessing: versions that work together are looked up, not remembered. Nothing here changes the machine;
show the user its commands, and let the user run them."""
READING = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
SECONDS, MOST_TEXT, WIDTH = 30.0, 1_000_000, 100


def server() -> MCPServer:
    """Return the server with its tools."""
    made = MCPServer("gpustack", instructions=ABOUT, version=__version__, log_level="ERROR")
    for tool in (doctor, explain, matrix_why, matrix_plan):
        made.tool(description=getdoc(tool), annotations=READING)(told(tool))
    return made


def told(tool: Callable[..., str]) -> Callable[..., str]:
    """Return a tool whose errors are one line for the assistant."""

    @wraps(tool)
    def answer(**arguments: object) -> str:
        try:
            return tool(**arguments)
        except GpustackError as error:
            raise ToolError(str(error)) from error

    return answer


def doctor(pasted: str = "", *, all_environments: bool = False) -> str:
    """Say what is wrong with a GPU stack, with the evidence, the fix and the command that checks it.

    Without ``pasted`` this machine is examined: its driver and the active Python environment, or with
    ``all_environments`` every one. Where ``pasted`` is given, it is judged instead: an error message or traceback, or
    the output of nvidia-smi, pip freeze, dmesg or torch.utils.collect_env, from any machine.
    """
    plugins.load()
    matrix = Matrix()
    if pasted:
        facts = load_texts({"what was pasted": pasted[:MOST_TEXT].encode("utf-8", "replace")}, matrix)
    else:
        facts = look(all_envs=all_environments, timeout=SECONDS)
    until = deadline.to_judge(SECONDS)
    report = deadline.judged(lambda one: engine.judge(one, matrix), plugins.noted(hidden(facts)), until)
    return renderer("markdown")(report)


def explain(words: str) -> str:
    """Say what a finding of gpustack, an Xid, an error number or name, an error line, a system or a term means."""
    plugins.load()
    return text("explanation", explained(words.split(), Matrix()))


def matrix_why(
    subjects: list[str],
    driver: str | None = None,
    gpu: str | None = None,
    python: str | None = None,
    *,
    on_this_machine: bool = False,
) -> str:
    """Return whether something works with what is given, why, from which source, and what would work instead.

    ``subjects`` are distributions or components, such as ["torch==2.7.1+cu128"]; ``driver`` is a release
    such as 550.54.15; ``gpu`` a name or architecture such as H100 or sm_90; ``python`` a version such as 3.12.
    ``on_this_machine`` asks for this machine, what is given going before what it has.
    """
    return asked(answering.why, subjects, driver, gpu, python, here=on_this_machine)


def matrix_plan(
    subjects: list[str],
    driver: str | None = None,
    gpu: str | None = None,
    python: str | None = None,
    *,
    on_this_machine: bool = False,
) -> str:
    """Find versions that satisfy requirements such as ["torch>=2.6"], smallest change first, with commands.

    The other arguments are those of matrix_why.
    """
    return asked(answering.plan, subjects, driver, gpu, python, here=on_this_machine)


def asked(
    ask: Callable[..., object],
    subjects: Sequence[str],
    driver: str | None,
    gpu: str | None,
    python: str | None,
    *,
    here: bool,
) -> str:
    """Return the answer of the matrix in words; about this machine unless another is described."""
    matrix = Matrix()
    words = understood(subjects, matrix)
    given = Given(driver=driver, gpu=gpu, python=python, os=words.os, machine=words.machine)
    checked(given)
    alone = not given.words and len((*words.subjects, *words.strange)) == 1
    facts = hidden(look(timeout=SECONDS)) if here or words.here or alone else None
    return text("matrix", ask(subjects, given, facts, matrix))


def text(form: str, answer: object) -> str:
    """Return an answer as plain text, redacted."""
    return renderer(form)(hidden(answer), verbose=True, width=WIDTH, colour=False, ascii=False, program="gpustack")


def hidden(thing: Made) -> Made:
    """Return facts or an answer without names of people and machines, serial numbers, UUIDs and addresses."""
    return redact(thing, ourselves(os.environ))
