"""The map of the stack as a page: a box a layer, the top first, what is here lit up, and the contracts between."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpustack.model.facts import Component, Layer, Status
from gpustack.model.report import Contract, Kept
from gpustack.report.html import document, safe, tag
from gpustack.report.stack_text import DOWNWARD
from gpustack.report.summary import entries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpustack.model.stack_map import StackMap

STYLE = """
.layer{display:flex;gap:.8rem;background:var(--card);border:1px solid var(--line);margin-top:-1px;padding:.5rem .7rem}
.layer>h2{flex:0 0 8rem;font-size:.95rem;margin:.2rem 0}
.layer>div{flex:1;min-width:0}
.systems{display:flex;flex-wrap:wrap;gap:.35rem;margin:.15rem 0}
.vendor{flex:0 0 100%;font-size:.75rem;text-transform:uppercase;letter-spacing:.06em;color:var(--soft)}
.system{border:1px solid var(--line);border-radius:.3rem;padding:.15rem .45rem;overflow-wrap:anywhere;max-width:100%}
.present{background:var(--lit);border-color:var(--good)}
.present b,.failed b{display:block}
.failed,.at-fault,.error{border-color:var(--bad)}
.warning,.affected{border-color:var(--warn)}
.system em{display:block;font-style:normal;font-size:.8rem;color:var(--warn)}
.at-fault,.error{background:var(--card);box-shadow:inset 0 0 0 1px var(--bad)}
.at-fault em,.error em{color:var(--bad)}
.absent,.not-applicable,.unknown{color:var(--soft);font-size:.85rem}
.needs{list-style:none;margin:.3rem 0 0;padding:.3rem 0 0;border-top:1px dashed var(--line);font-size:.85rem}
@media (max-width:40rem){.layer{flex-direction:column;gap:.2rem}.layer>h2{flex-basis:auto}}
"""
VENDORS = {"any": "", "nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
NONE: Mapping[str, str] = {}
KEPT = {Kept.OK: "good", Kept.LIMITED: "warn", Kept.BROKEN: "bad", Kept.UNKNOWN: "ask"}


def render(chart: StackMap) -> str:
    """Give the page of a map."""
    here = sum(one.status is Status.PRESENT for one in chart.components[: len(chart.known)])
    host = chart.host
    where = ", ".join(filter(None, (host.hostname, host.os, host.kernel and f"Linux {host.kernel}", host.machine)))
    head = tag("h1", f"{here} of {len(chart.known)} systems of the GPU stack are here") + tag("p", safe(where), "soft")
    foot = f"gpustack {chart.tool.version}, matrix of {chart.tool.matrix_date}"
    drawn = boxes(chart.components, chart.contracts)
    return document("GPU stack", f"{head}\n{drawn}\n{tag('p', safe(foot), 'soft')}", STYLE)


def boxes(components: Sequence[Component], contracts: Sequence[Contract], faults: Mapping[str, str] = NONE) -> str:
    """Give the layers as boxes, the top first; ``faults`` are the components to be marked, each with a word."""
    layers = {one.id: one.layer for one in components}
    made = []
    for layer in DOWNWARD:
        here = [one for one in components if one.layer is layer]
        made.append(_layer(layer, here, [edge for edge in contracts if _upper(edge, layers) is layer], faults))
    return "\n".join(filter(None, made))


def _layer(layer: Layer, here: Sequence[Component], edges: Sequence[Contract], faults: Mapping[str, str]) -> str:
    """Give the box of a layer; nothing where nothing is in it."""
    if not here and not edges:
        return ""
    groups = "".join(
        _vendor(name, [one for one in here if one.vendor == vendor], faults) for vendor, name in VENDORS.items()
    ) + _vendor("", [one for one in here if one.vendor not in VENDORS], faults)
    inside = tag("h2", safe(layer.value)) + tag("div", groups + _needs(edges))
    return tag("section", inside, "layer")


def _upper(edge: Contract, layers: dict[str, Layer]) -> Layer | None:
    ends = [layers[end] for end in (edge.from_, edge.to) if end in layers]
    return min(ends, key=DOWNWARD.index, default=None)


def _vendor(name: str, own: Sequence[Component], faults: Mapping[str, str]) -> str:
    if not own:
        return ""
    heading = tag("span", safe(name), "vendor") if name else ""
    return tag("div", heading + "".join(_system(one, faults.get(one.id)) for one in own), "systems")


def _system(one: Component, fault: str | None) -> str:
    """Give a system: lit up with its version where it is here, its name and why where it is not."""
    mark = f" {fault.replace(' ', '-')}" if fault else ""
    told = tag("em", safe(fault)) if fault else ""
    if one.status not in {Status.PRESENT, Status.FAILED}:
        title = f' title="{safe(one.reason)}"' if one.reason else ""
        word = "" if one.status is Status.ABSENT else f" ({one.status.value})"
        return f'<span class="system {one.status.value}{mark}"{title}>{safe(one.id + word)}{told}</span>'
    said = [
        tag("b", safe(entry.head))
        + safe(", ".join([*(["failed"] if one.status is Status.FAILED else []), *entry.notes]))
        for entry in entries(one)
    ]
    title = f' title="{safe(one.path)}"' if one.path else ""
    return f'<span class="system {one.status.value}{mark}"{title}>{"".join(said)}{told}</span>'


def _needs(edges: Sequence[Contract]) -> str:
    told = Counter((edge.status, f"{edge.from_} → {edge.to}: needs {edge.needs}; found {edge.found}") for edge in edges)
    items = [
        tag("li", f"{tag('b', status.value, KEPT[status])} {safe(said)}{f' ({times} times)' if times > 1 else ''}")
        for (status, said), times in told.items()
    ]
    return tag("ul", "".join(items), "needs") if items else ""
