"""No letter of the input deceives in any format: what is invisible is written out, what looks like a link is none."""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

import cmarkgfm  # type: ignore[import-untyped] # it has none
import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.report import Report
from gpustack.report import bench_text, renderer, text
from gpustack.report.page import clean
from gpustack.report.report_markdown import block, code, line, safe, table
from tests.report import checks, measurements, reports
from tests.wide import sample, wide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any
    from xml.etree.ElementTree import Element

    from gpustack.report.parts import Reported

Thing = TypeVar("Thing")
# Default_Ignorable_Code_Point of DerivedCoreProperties.txt, Unicode 17.0, as ranges of numbers.
IGNORABLE = (
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
BLANKS = (0x2800, 0xFFFC, 0x13441, 0x13442, 0x16FE4, 0x1D159)  # not a letter, or a picture of nothing
CLASSES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
SPACES = "\t\n\r"
ROW = 256
PLANES = frozenset({0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xF8FF, *(0x10000 * plane - 1 for plane in range(1, 18))})


@cache
def rows() -> tuple[str, ...]:
    """Return every existing letter, in rows."""
    return tuple("".join(map(chr, range(at, at + ROW))) for at in range(0, sys.maxunicode + 1, ROW))


@cache
def deceptive() -> frozenset[str]:
    """Return every letter that is invisible, or looks like something else."""
    found = {letter for row in rows() for letter in row if unicodedata.category(letter) in CLASSES}
    found |= {chr(one) for first, last in IGNORABLE for one in range(first, last + 1)}
    return frozenset((found | set(map(chr, BLANKS))) - set(SPACES))


@cache
def chosen() -> str:
    """Return those that are planted: all with a name; a sample of surrogates, private use and those without a name.

    Of these CI takes the ends of their ranges and of each plane and one in 32 of those at the end of a row of 256,
    ``GPUSTACK_WIDE=1`` all surrogates and both ends of each row.
    """
    many = {letter for letter in deceptive() if unicodedata.category(letter) in {"Cs", "Co", "Cn"}}
    ends = [letter for letter in many if unicodedata.category(letter) == "Cs" or ord(letter) % ROW in {0, ROW - 1}]
    return "".join(sorted({*(deceptive() - many), *sample(ends, 32), *(many & set(map(chr, PLANES)))}))


MAKE: Mapping[str, Callable[[], Reported]] = {
    "report": reports.driver_too_old,
    "check": checks.bad_host,
    "bench": measurements.low,
}
FORMS = ("markdown", "html", "github", "sarif", "junit", "prometheus", "nagios", "text", "json")


def test_every_such_code_point_is_written_out_and_every_other_stays() -> None:
    """All of them, a row at a time."""
    assert [f"{ord(row[0]):x}" for row in rows() if clean(unspaced(row)) != written_out(unspaced(row))] == []


def unspaced(row: str) -> str:
    return "".join(letter for letter in row if letter in deceptive() or not letter.isspace())


def written_out(row: str) -> str:
    return "".join(one.encode("unicode_escape").decode() if one in deceptive() else one for one in row)


def planted(thing: Thing, payload: str, spared: str = "unit") -> Thing:
    """Return the thing with the payload within every text of it, and at both ends, except in fields of this name."""
    if isinstance(thing, str) and not isinstance(thing, Enum):
        return cast("Thing", f"{payload}{thing[:1]}{payload}{thing[1:]}{payload}")
    if is_dataclass(thing) and not isinstance(thing, type):
        held = {one.name: getattr(thing, one.name) for one in fields(thing) if one.name != spared}
        changed = {name: planted(one, payload, spared) for name, one in held.items()}
        return cast("Thing", replace(cast("Any", thing), **changed))
    if isinstance(thing, tuple):
        return cast("Thing", tuple(planted(one, payload, spared) for one in thing))
    if isinstance(thing, dict):
        made = {planted(name, payload, spared): planted(one, payload, spared) for name, one in thing.items()}
        return cast("Thing", made)
    return thing


def written(form: str, reported: Reported) -> str:
    """Return it in this format; text is that of its own command."""
    if form != "text":
        return renderer(form)(reported)
    return text.render(reported) if isinstance(reported, Report) else bench_text.render(reported)


@wide
@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_output_lets_one_through(form: str, make: str) -> None:
    reported = planted(MAKE[make](), chosen())
    shown = written(form, reported)
    shown = shown.replace("⚠\ufe0f", "")  # a symbol of our own, with the selector that turns it into an emoji
    assert sorted(deceptive() & set(shown)) == []
    assert "3164" in shown or form == "prometheus"


# What GitHub makes of a text after parsing its Markdown: mentions, references, pictures. Source: docs.github.com,
# "Autolinked references and URLs"; gjtorikian/commonmarker and html-pipeline's @mention filter.
AFTERWARDS = re.compile(
    r"(?i)(?<![\w`])@[a-z0-9](?:[a-z0-9-]*)|(?<!\w)#\d+|(?<!\w)gh-\d+|[\w.-]+/[\w.-]+#\d+|:[+a-z_-][\w+-]*:|://|www\."
)
PAYLOADS = (
    "https://evil.io/x",
    "http://evil.io",
    "www.evil.io",
    "ftp://evil.io",
    "mailto:eve@evil.io",
    "xmpp:eve@evil.io",
    "eve@evil.io",
    "see:https://evil.io.",
    "(https://evil.io)",
    "<https://evil.io>",
    "[a](https://evil.io)",
    "![i](https://evil.io/i.png)",
    "[a][b]",
    "[b]: https://evil.io",
    "@octocat",
    "(@octocat)",
    "@octo-org/team",
    "#1",
    "owner/repo#1",
    "GH-1",
    "gh-12",
    ":tada:",
    ":+1:",
    "<img src=x>",
    "<b>x</b>",
    "<!-- x -->",
    "&lt;b&gt; &#64;octocat &num;1",
    "# h",
    "## h",
    "- item",
    "1. item",
    "> quote",
    "| a | b |",
    "---",
    "===",
    "```sh",
    "`https://evil.io`",
    "``x` @octocat",
    "**https://evil.io**",
    "~~x~~",
    "_www.evil.io_",
    "\\https://evil.io",
    "\\@octocat",
    "https\\://evil.io",
    "[^1]",
    "- [ ] task",
    "$x$",
    "x^2^ H~2~O",
    "HTTPS://EVIL.EXAMPLE",
    "wWw.evil.io",
    "a@b@evil.io",
    "'@octocat'",
    '"#1"',
    "{@octocat}",
    "//evil.io",
    "user:pw@evil.io",
    "git@github.com:a/b",
    "`",
    "``",
    "\\`@octocat`",
    "x|https://evil.io|y",
    "*@octocat*",
)
HARMLESS = {
    "p",
    "code",
    "h2",
    "h3",
    "h4",
    "ul",
    "li",
    "strong",
    "sub",
    "pre",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}


def page(markdown: str) -> Element:
    """Return the output of GitHub's own parser, with its extensions and without its filter."""
    made = cmarkgfm.github_flavored_markdown_to_html(markdown, cmarkgfm.Options.CMARK_OPT_UNSAFE)
    found: Element = html5lib.HTMLParser(namespaceHTMLElements=False).parseFragment(made)
    return found


def loose(one: Element) -> Iterator[str]:
    """Yield the texts that are neither in code nor in a link: those that GitHub processes afterwards."""
    if one.tag not in {"code", "pre", "a"}:
        yield one.text or ""
        for inner in one:
            yield from loose(inner)
            yield inner.tail or ""


def harmful(markdown: str) -> list[str]:
    """Return everything that GitHub would turn into more than text."""
    whole = page(markdown)
    tags = [one.tag for one in whole.iter() if one is not whole and one.tag not in HARMLESS]
    return [*map(str, tags), *(match[0] for part in loose(whole) for match in AFTERWARDS.finditer(part))]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_of_the_input_is_more_than_text_on_github(payload: str) -> None:
    for made in (f"a {safe(payload)}", line(payload), table(["a"], [[safe(payload), code(payload)]])):
        assert harmful(made) == []
        assert {one.tag for one in page(made).iter()} & {"h1", "h2", "li", "blockquote", "hr", "del", "em"} == set()
    assert harmful(f"{block([payload])}\n\nafter") == []
    shown = "".join(page(line(f"a {payload} z")).itertext()).strip()
    assert shown.replace("\N{DIVIDES}", "|") == f"a {payload} z"


@pytest.mark.parametrize("make", MAKE)
def test_no_report_has_a_link_that_its_input_brought(make: str) -> None:
    for start in range(0, len(PAYLOADS), 8):
        payload = f" {' '.join(PAYLOADS[start : start + 8])} "
        shown = written("markdown", planted(MAKE[make](), payload, spared="row"))
        links = [one.attrib["href"] for one in page(shown).iter("a")]
        assert {link for link in links if "evil" in link} == set()
        assert not [found for found in harmful(shown) if found not in {"a", "details", "summary"}]


def test_the_sources_of_our_rows_stay_links() -> None:
    shown = written("markdown", reports.driver_too_old())
    assert [one.attrib["href"] for one in page(shown).iter("a")] == [reports.DRIVER_ROW.source]
    assert harmful(safe("see https://a.example", own="https://b.example/x")) == []


PIECES = st.lists(st.sampled_from([*PAYLOADS, *"@#:/w.`\\ <>([])*_~|&!-"]), max_size=8).map("".join)


@given(PIECES | st.text(max_size=30))
def test_no_text_becomes_more_than_text(said: str) -> None:
    assert harmful(f"a {safe(said)}") == []
    assert harmful(line(said)) == []
