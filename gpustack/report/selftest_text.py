"""What the self-test proved, as text: how much held, and each thing that did not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpustack.model.selftest import Part
from gpustack.report.lines import Line, draw, write
from gpustack.report.page import DEFAULT_WIDTH, Page

if TYPE_CHECKING:
    from gpustack.model.selftest import SelfTest

NAMES = {
    Part.RULE: "checks fire on a machine that has what they look for",
    Part.GUARD: "sick probes are stopped and told, and cost no other its answer",
}


def render(
    tested: SelfTest,
    *,
    width: int = DEFAULT_WIDTH,
    colour: bool = False,
    ascii: bool = False,  # noqa: A002 - the same word in every renderer
    verbose: bool = False,
) -> str:
    """Give what was proved as text for a page of this width; ``verbose`` shows what held as well."""
    page = Page.of(width, colour=colour, ascii_only=ascii, verbose=verbose)
    return draw(_text(tested, page), page)


def _text(tested: SelfTest, page: Page) -> Iterator[Line]:
    for part, name in NAMES.items():
        proofs = [proof for proof in tested.proofs if proof.part is part]
        held = sum(proof.held for proof in proofs)
        mark = ("ok", "good") if held == len(proofs) else ("bad", "error")
        yield Line(
            lead=write(page, (f"{page.mark(mark[0])} ", mark[1])), body=write(page, f"{held} of {len(proofs)} {name}")
        )
        for proof in proofs:
            if not proof.held or page.verbose:
                shown = ("ok", "good") if proof.held else ("bad", "error")
                lead = write(page, f"  {page.mark(shown[0])} ")
                yield Line(lead=lead, body=write(page, (proof.name, shown[1]), f": {proof.says}"))
    end = "All held" if tested.held else "Not all held: do not trust this installation; install it anew"
    yield Line(body=write(page, f"{end} ({tested.seconds:.1f} s)."))
