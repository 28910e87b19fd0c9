"""What an image requires of the machine (NVIDIA_REQUIRE_CUDA), as NVIDIA's container runtime reads it.

Words with a space between are alternatives, those with a comma between hold together. Source:
NVIDIA/libnvidia-container, src/cli/dsl.c (5823754), read 2026-11-21.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import naming
from gpustack.diagnose.machine.inventory import capabilities, driver_release, gpus
from gpustack.diagnose.machine.values import table, told
from gpustack.matrix.subjects.ranges import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


NAME = "NVIDIA_REQUIRE_CUDA"
TERM = re.compile(r"(?P<what>[a-z]+)(?P<how>!=|<=|>=|=|<|>)(?P<value>.+)")
HOW: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]  # of two tuples of numbers
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}
BRANDS = (("geforce", re.compile("GeForce")), ("titan", re.compile("TITAN", re.IGNORECASE)))


def variables(facts: Facts) -> dict[str, str]:
    """Return the variables of an image."""
    held = table(told(facts, "image"), "variables")
    return {name: value for name, value in held.items() if isinstance(value, str)}


def refused(facts: Facts, matrix: Matrix) -> str | None:
    """Give the requirement of the image that this machine does not meet; None where it may meet it, or has none."""
    given = variables(facts)
    wanted = given.get(NAME, "")
    if not wanted.strip() or given.get("NVIDIA_DISABLE_REQUIRE", "").lower() in {"1", "true", "yes"}:
        return None
    met = [_all(words.split(","), facts, matrix) for words in wanted.split()]
    return wanted if all(one is False for one in met) else None


def cuda(wanted: str) -> str | None:
    """Return the CUDA version that a requirement asks for at least."""
    found = re.search(r"(?:^|[\s,])cuda>=(\d+\.\d+)", wanted)
    return found[1] if found else None


def _all(words: list[str], facts: Facts, matrix: Matrix) -> bool | None:
    met = [_met(word, facts, matrix) for word in words if word]
    return False if False in met else None if None in met else True


def _met(word: str, facts: Facts, matrix: Matrix) -> bool | None:
    """Return whether one term holds; None where it is not known what this machine has of it."""
    term = TERM.fullmatch(word.lower())
    if term is None:
        return None
    if term["what"] == "brand":
        brand = _brand(facts)
        return None if brand is None else HOW[term["how"]](brand, term["value"])
    here = _here(term["what"], facts, matrix)
    wanted = numbers(term["value"])
    return HOW[term["how"]](_short(here), _short(wanted)) if here and wanted else None


def _here(what: str, facts: Facts, matrix: Matrix) -> tuple[int, ...]:
    highest = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix)
    release, capability = driver_release(facts), next(iter(capabilities(facts)), None)
    known = {"cuda": highest, "driver": release, "arch": capability}
    return numbers(str(known[what])) if known.get(what) else ()


def _short(parts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers without zeros at the end: 12.0 and 12 are one version."""
    while parts and parts[-1] == 0:
        parts = parts[:-1]
    return parts


def _brand(facts: Facts) -> str | None:
    """Return the brand of the first GPU as far as its name tells; that of a data-centre card differs by generation."""
    name = next((gpu.name for gpu in gpus(facts)), "")
    return next((brand for brand, words in BRANDS if words.search(name)), None)
