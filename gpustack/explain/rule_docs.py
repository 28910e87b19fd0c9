"""The texts of findings by their ids: a rule's is its docstring; those of measurements stand here."""

from __future__ import annotations

from inspect import cleandoc

from gpustack.diagnose.rulebook import explain
from gpustack.diagnose.rules import AFTERWARDS, RULES

BENCH = {
    "bench-failed": """A benchmark gave a wrong result, or could not be run to its end.

        A wrong result means that the GPU, its memory or a library computes wrongly: trust nothing that it computes
        until the cause is known. Where the benchmark crashed instead, the finding gives the error's own words.

        Run it again alone (gpustack bench NAME); look for Xids and ECC errors (gpustack doctor); if a wrong result
        returns, take the GPU out of service.""",
    "bench-low": """A benchmark reached clearly less than this GPU can give.

        The ceiling follows from what the GPU itself reports, and what is usual below it from the matrix. Programs that
        are bound by this figure run as much slower as it is low.

        The finding names what held it back where that was seen: clocks held down by power or heat, a narrower PCIe
        link, another process on the GPU. Fix that and measure again; measure on a GPU that nobody else uses.""",
    "bench-unsteady": """A benchmark's figures vary too much for one of them to be believed.

        Nothing is said of the GPU by it. Mostly another program uses the GPU or the machine, or the clocks change while
        it is measured.

        Stop the others (gpustack explain gpu-processes tells how to see them) and measure again.""",
    "bench-skipped": """A benchmark was not run, since something that it needs is not here.

        Nothing is said of the GPU by it. The finding says what is missing: a library, memory, or a kind of number that
        this GPU does not have.

        Where a package is missing, the finding names the command that installs it.""",
}
TRACE = {
    "trace-wrong-answer": """A model that was followed through the machine gave a wrong answer.

        It was compared with the same model in float64 on the CPU, and differs by more than the precision explains. A
        GPU, its memory or a library computes wrongly: no figure of that run counts, and no result of others either.

        Compare every bit under load (gpustack stress), look for Xids and ECC errors (gpustack doctor), and trace
        another model or precision: an error in one of them alone is a library's.""",
    "trace-step-failed": """One of the seven steps of running a model did not work.

        The finding gives the step and the words of what refused it. All later steps were not reached.

        Let the doctor look for the cause (gpustack doctor --deep); gpustack explain takes the words of the error.""",
}


def ids() -> tuple[str, ...]:
    """Return the id of every finding that can be explained, in the order of the rules."""
    return (*RULES, *AFTERWARDS, *BENCH, *TRACE)


def text(finding: str) -> tuple[str, ...]:
    """Return the paragraphs of a finding's text, the first its title; none where there is no such finding."""
    said = BENCH.get(finding) or TRACE.get(finding) or explain(finding) or ""
    return tuple(" ".join(part.split()) for part in cleandoc(said).split("\n\n") if part.strip())
