"""Words that are no name of ours: a GPU by its product's name, and what recorded machines with such words had."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.candidates import likely
from gpustack.explain import topics
from gpustack.matrix.subjects.amd_intel import gfx_of
from gpustack.matrix.subjects.candidates import index, tokens
from gpustack.matrix.subjects.gpus import capability_of
from gpustack.matrix.subjects.messages import patterns
from gpustack.model.facts import Facts, Layer
from gpustack.model.matrix_answer import Kind, Meaning

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Candidate

LONGEST = 60  # letters of a GPU's name
MOST = 3
SHORTEST = 4  # letters of a word that tells something
# Words of messages and findings that say nothing of the stack by themselves.
ORDINARY = frozenset(
    re.findall(
        r"\w+",
        """about above after again against already been being below between block both brought build built
        cannot could does doesn each error even event ever every first found from given going have
        hello here just left like main many more most much near next only other right some start still
        such than that their them then there these they thing things think this those through today
        train until upon using very want well were what when where which while will with within without
        world would write wrong your""",
    )
)


def gpu(text: str, matrix: Matrix) -> Iterator[Meaning]:
    """Yield what is known of a GPU by its name."""
    if len(text) > LONGEST:
        return
    capability, target = capability_of(matrix, text), gfx_of(matrix, text)
    architecture = matrix.arch(capability) if capability else None
    if architecture:
        known = topics.of_architecture(architecture)
        yield replace(known, title=f"{text} is a GPU of {known.title}")
    elif target:
        yield (
            Meaning(
                kind=Kind.ARCHITECTURE,
                id=target.gfx,
                title=f"{target.generation}: an architecture of AMD's GPUs, such as {', '.join(target.names)}.",
                layer=Layer.HARDWARE,
                stands_on=("amd-gpu",),
                see=("rocminfo | grep -E 'Marketing Name|gfx'",),
                findings=topics.leads(("rocm-gfx-unsupported", "gpu-unsupported-by-kfd")),
                row=target.row,
            )
        )


def shared(text: str, matrix: Matrix, *, exact: bool) -> Iterator[Meaning]:
    """Yield the findings that recorded machines with such words had, where enough of the words tell something.

    Where it has to be ``exact``, one of them is a symbol or the name of an error.
    """
    held = index(matrix)
    seen = tokens(text) & held.features.keys()
    words = [word for word in re.findall(r"\w+", text.lower()) if len(word) >= SHORTEST]
    symbols = any("_" in word for word in seen)
    telling = 0 if exact or symbols else sum(word in seen and _telling(word, matrix) for word in words)
    if symbols or telling > len(words) / 2 or (not exact and seen & held.names):
        ranked = tuple(likely(Facts(words=tuple(sorted(seen))), matrix))
        if ranked:
            yield _of_likely(text, ranked[:MOST])


def _telling(word: str, matrix: Matrix) -> bool:
    """Return whether a word is one of what programs say when something is wrong."""
    if word in ORDINARY:
        return False
    found = re.compile(rf"(?<![a-z\\]){re.escape(word)}(?![a-z])", re.IGNORECASE)
    said = (one.match for one in patterns(matrix))
    return any(map(found.search, said)) or any(found.search(" ".join(topics.text(one))) for one in topics.ids())


def _of_likely(words: str, ranked: Sequence[Candidate]) -> Meaning:
    """Return what recorded machines had of which such words were said."""
    first = ranked[0]
    return Meaning(
        kind=Kind.MESSAGE,
        id="likely-causes",
        title="Not known as a whole; recorded machines with these words had one of these. Nothing proves which.",
        says=(f"Words: {words}",),
        fix=first.decide.text,
        see=first.decide.commands,
        findings=topics.leads(one.id for one in ranked),
    )
