"""Write the page of what redaction takes out from the table itself: ``python docs/redaction.py``, or ``--check``."""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.model.facts import Component, Facts, Host, Layer, Status
from gpustack.redaction import redact
from gpustack.redaction.form import FORMS, NAMED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from gpustack.redaction.form import Form

PAGE = Path(__file__).with_name("redaction.md")
HEAD = """# What redaction removes

A snapshot, and every output format meant for sharing, is redacted first. Each secret has the same placeholder
throughout, so facts can still be matched: `GPU-1` is the same GPU everywhere. `python docs/redaction.py` generates
this page from the table that the code uses; a test redacts each example and each near-miss.

A user name, host name or serial number found in one place is removed wherever it appears. Names that many
machines share (`root`, `ubuntu`, `nvidia` …) stay. Invisible characters within a secret do not hide it. A line longer
than 16 384 characters is truncated there. No list of forms is complete: read a snapshot before you publish it.
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
        f"## Names of facts whose whole value is removed\n\n{named}\n- secret: any name that the form "
        f"“assignment” treats as that of a secret\n\n## What looks similar and stays\n\n{alike}\n"
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
