"""Write the page of what redaction takes out from the table itself: ``python docs/redaction.py``, or ``--check``."""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.model.facts import Component, Facts, Host, Layer, Status
from gpustack.redaction import redact
from gpustack.redaction.tokens import FORMS, NAMED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from gpustack.redaction.form import Form

PAGE = Path(__file__).with_name("redaction.md")
HEAD = """# What redaction takes out

A snapshot, and every form of output that is made for others, goes through redaction first. One secret has one
placeholder in all of it, so that facts still join: `GPU-1` is the same GPU everywhere. This page is made by
`python docs/redaction.py` from the table that the code works by; a test redacts each example and each near-miss.

A name of a user or host, or a serial number, that one place shows is taken out wherever it stands. Names that many
machines share (`root`, `ubuntu`, `nvidia` …) stay. What is invisible within a secret does not hide it. Of a line longer
than 16 384 letters the rest is left out. No list of forms is complete: read a snapshot before you publish it.
"""
LONGEST = 70
FILL = re.compile(r"\{(0x)?(\d+)\}")
LETTERS = "aB3dE5gH7jK9mN1pQ4sT6vW8xY0zC2f"
TRIED = tomllib.loads(PAGE.with_suffix(".toml").read_text("utf-8"))


def examples(form: Form) -> list[str]:
    """Return what the form is tried on, the secret between its marks."""
    return [_filled(one) for one in TRIED[form.name]["examples"]]


def stays(form: Form) -> list[str]:
    """Return what looks like the form and must come out as it was."""
    return [_filled(one) for one in TRIED[form.name].get("stays", [])]


def bare(example: str) -> str:
    """Return an example without the marks around its secret."""
    return example.replace("«", "").replace("»", "")


def secrets(example: str) -> list[str]:
    """Return what the marks of an example stand around."""
    return re.findall("«([^»]*)»", example)


def _filled(text: str) -> str:
    """Return a text with letters in place of ``{36}``, and hexadecimal digits in place of ``{0x32}``."""
    return FILL.sub(lambda one: (("0123456789abcdef" if one[1] else LETTERS) * 9)[: int(one[2])], text)


def page() -> str:
    """Return the page: the forms in the order in which they are looked for, then the names that tell a secret."""
    rows = "\n".join(map(_row, FORMS))
    named = "\n".join(f"- {kind}: {_code(pattern.pattern)}" for kind, pattern in NAMED.items())
    alike = "\n".join(f"- {form.name}: {', '.join(map(_code, held))}" for form in FORMS if (held := stays(form)))
    return (
        f"{HEAD}\n## Forms\n\n| form | where | for example | becomes |\n|---|---|---|---|\n{rows}\n\n"
        f"## Names of facts whose whole value is taken out\n\n{named}\n- secret: any name that the form "
        f"“assignment” takes for that of a secret\n\n## What looks alike and stays\n\n{alike}\n"
    )


def _row(form: Form) -> str:
    first = min(examples(form), key=len)
    where = form.context.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*").replace("~", "\\~")
    return f"| {form.name} | {where} | {_code(bare(first))} | {_code(_redacted(bare(first)))} |"


def _redacted(text: str) -> str:
    one = Component(id="x", layer=Layer.DRIVER, vendor="v", status=Status.PRESENT, facts={"said": text})
    return str(redact(Facts(taken="", host=Host(), components=(one,))).components[0].facts["said"])


def _code(text: str) -> str:
    """Return the text as code that a table takes; of what is long the middle is left out."""
    short = re.sub(r"\s*\n\s*", " ⏎ ", text).replace("|", "\N{DIVIDES}")
    short = short if len(short) <= LONGEST else f"{short[: LONGEST // 2]}…{short[-LONGEST // 4 :]}"
    fence = "``" if "`" in short else "`"
    return f"{fence}{short}{fence}"


def main() -> int:
    """Write the page, or with --check tell whether it is as it would be written."""
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
