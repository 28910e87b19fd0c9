"""Findings and the policy as HTML: what is wrong, how we know, what to type, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpustack.model.report import Confidence, Severity
from gpustack.report.findings import alike, heading, one_line, paragraphs, value
from gpustack.report.html import safe, tag
from gpustack.report.parts import of_policy

if TYPE_CHECKING:
    from gpustack.model.check import Held
    from gpustack.model.report import Finding, Fix
    from gpustack.report.findings import Family

STYLE = """
.finding{border-left:.3rem solid var(--tone);padding:.8rem 1rem;margin:.8rem 0}
.finding>h3{font-size:1.05rem;line-height:1.35;margin:0 0 .15rem}
.finding h4{font-size:.82rem;font-weight:600;color:var(--soft);margin:.8rem 0 .25rem}
.tone-bad{--tone:var(--bad)}.tone-warn{--tone:var(--warn)}.tone-ask{--tone:var(--ask)}.tone-none{--tone:var(--line)}
.tone-good{--tone:var(--good)}
.word{color:var(--tone);font-weight:600}
.tone-none .word{color:var(--soft)}
.about{color:var(--soft);font-size:.85rem}
.facts{display:grid;grid-template-columns:fit-content(16rem) minmax(0,1fr);gap:.15rem 1rem;margin:0;font-size:.9rem}
.facts dt{color:var(--soft)}
.facts dd{margin:0;min-width:0}
.facts small{display:block;color:var(--soft);font-size:.8rem}
.fix{background:var(--page);border:1px solid var(--line);border-radius:.4rem;padding:.55rem .75rem;margin-top:.8rem}
.fix pre{background:var(--card);user-select:all}
.fix p{margin:.1rem 0}
.follow{margin:.2rem 0;padding-left:1.1rem;font-size:.9rem}
.rows{width:100%;border-collapse:collapse;font-size:.9rem}
.rows td:first-child{white-space:nowrap}
.rows th{text-align:left;font-weight:600;color:var(--soft);font-size:.82rem}
.rows th,.rows td{padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
.rows tr:last-child td{border-bottom:0}
@media (max-width:40rem){.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:.35rem}
.rows thead{display:none}.rows tr{display:block;padding:.35rem 0;border-bottom:1px solid var(--line)}
.rows tr:last-child{border-bottom:0}.rows td{display:block;border:0;padding:.05rem 0}
.rows td[data-name]::before{content:attr(data-name) ": ";color:var(--soft)}}
"""
TONE = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.UNKNOWN: "ask", Severity.INFO: "none"}
WORD = {Severity.ERROR: "Error", Severity.WARNING: "Warning", Severity.UNKNOWN: "Not known", Severity.INFO: "Note"}
HELD = {
    "ok": ("good", "kept"),
    "error": ("bad", "not kept"),
    "skipped": ("ask", "could not be seen"),
    "note": ("none", "does not apply"),
}


def blocks(families: Sequence[Family]) -> str:
    """Give findings in full, those alike on other instances told once."""
    by_head = {head.key: follow for head, follow in families}
    made = []
    for first, others in alike(head for head, _ in families):
        follow = [one for head in (first, *others) for one in by_head[head.key]]
        made.append(_block(first, others, follow))
    return "\n".join(made)


def _block(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding]) -> str:
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    word = tag("span", WORD[finding.severity] + sure, "word")
    place = f"{tag('code', safe(finding.key))}, {safe(finding.layer.value)} layer, {safe(finding.component)}"
    inside = [
        tag("h3", safe(finding.title)),
        tag("p", f"{word} · {place}", "about"),
        *(tag("p", safe(line)) for line in paragraphs(finding)),
        _known(finding),
        fixed(finding.fix) if finding.fix else "",
        _listed("The same holds for", others),
        _listed("What follows from it", follow),
    ]
    return tag("article", "".join(inside), f"card finding tone-{TONE[finding.severity]}")


def _known(finding: Finding) -> str:
    """Give the facts that a finding rests on, each with where it was read, and the rule."""
    rows = [
        tag("dt", safe(f"{one.component} {one.fact}"))
        + tag("dd", safe(value(one.value)) + (tag("small", safe(one.source)) if one.source else ""))
        for one in finding.because
    ]
    if row := finding.row:
        rows.append(tag("dt", "rule") + tag("dd", safe(row.text) + tag("small", safe(f"{row.source}, {row.checked}"))))
    return tag("h4", "How we know") + tag("dl", "".join(rows), "facts") if rows else ""


def fixed(fix: Fix) -> str:
    """Give what to do, with the commands as they are to be typed."""
    commands = "\n".join(safe(one_line(command)) for command in fix.commands)
    told = tag("p", f"{tag('b', safe(heading(fix)))} {safe(fix.text)}")
    typed = tag("pre", commands) if commands else ""
    check = tag("p", "Then check with:", "about") + tag("pre", safe(one_line(fix.verify))) if fix.verify else ""
    return tag("div", told + typed + check, "fix")


def _listed(above: str, findings: Iterable[Finding]) -> str:
    items = [tag("li", f"{safe(one.title)} {tag('code', safe(one.key), 'soft')}") for one in findings]
    return tag("h4", above) + tag("ul", "".join(items), "follow") if items else ""


def held(rows: Sequence[Held]) -> str:
    """Give the rules of the policy as a table, those not kept first."""
    names = ("", "rule", "wanted", "found")
    head = tag("thead", tag("tr", "".join(tag("th", name) for name in names)))
    ordered = sorted(rows, key=lambda row: (row.ok is not False, row.ok is not None))
    return tag("table", head + tag("tbody", "".join(tag("tr", "".join(_cells(row))) for row in ordered)), "rows")


def _cells(row: Held) -> Iterator[str]:
    tone, word = HELD[of_policy(row).value]
    yield tag("td", tag("span", word, "word"), f"tone-{tone}")
    place = tag("small", safe(row.place), "soft") if row.place else ""
    yield tag("td", f"{safe(row.rule)} {place}")
    for name, said in (("wanted", row.wanted), ("found", row.found)):
        yield f'<td data-name="{name}">{safe(said)}</td>'
