"""``python -m tools.fleet.rates``: how often slow cards, nodes and uplinks are found, and how often others are blamed.

Cards: a spread of 0.8 %, half of its variance specific to the card, so that it recurs in the second measurement, and
half to a measurement (3 % in one of a thousand); 0.4 % are slow by 5 to 15 %; twenty figures each, measured twice.
Pairs: noise of 1 %, nodes slow by 10 %, uplinks by 15 %, nodes that hang, pairs slowed by congestion.
"""

from __future__ import annotations

import argparse
import json
import random

from gpustack.fleet import drift, pairs
from gpustack.fleet.pairs import Pair
from gpustack.model.fleet import Low

FIGURES, GPUS = 20, 8
SLOW, HEAVY = 0.004, 0.001
OWN = REPEATED = 0.008 / 2**0.5
Found = tuple[set[str], set[str], int]  # who should be found, who is found, and out of how many


def cards(seed: int, nodes: int, takes: int = 2) -> Found:
    """Return the cards that are slow, and those that are reported as low."""
    draw = random.Random(seed)  # noqa: S311 - a simulation
    every = [(f"n{node:05d}", gpu) for node in range(nodes) for gpu in range(GPUS)]
    slow = {one: 1 - draw.uniform(0.05, 0.15) for one in draw.sample(every, max(1, round(len(every) * SLOW)))}
    found: set[str] = set()
    for number in range(FIGURES):
        sample = drift.Sample("GB/s")
        own = {one: 1000.0 * draw.gauss(1, OWN) * slow.get(one, 1.0) for one in every}
        for take in range(1, takes + 1):
            for node, gpu in every:
                value = own[node, gpu] * draw.gauss(1, 0.03 if draw.random() < HEAVY else REPEATED)
                one = drift.Measured(
                    node=node, gpus=(gpu,), value=value, spread=0.004, take=take, ratio=None, low=False
                )
                sample.add(one)
        figures = drift.judged(f"f{number}", "kind", "580", sample)
        low = Low.LOW if takes > 1 else Low.SUSPECT
        found |= {f"{one.node}/{one.gpus[0]}" for one in figures.outliers if one.verdict is low}
    return {f"{node}/{gpu}" for node, gpu in slow}, found, len(every)


def nodes_and_uplinks(
    seed: int, count: int, *, slow: int, uplinks: int, hanging: int = 0, congested: float = 0.0
) -> Found:
    """Return the nodes and uplinks that are slow or hang, and those blamed after three rounds and a confirming one."""
    draw = random.Random(seed)  # noqa: S311 - a simulation
    names = [f"n{number:05d}" for number in range(count)]
    groups = {name: f"switch{place // 32}" for place, name in enumerate(names)}
    bad, stuck = set(draw.sample(names, slow)), set(draw.sample(names, hanging))
    narrow = set(draw.sample(sorted(set(groups.values())), uplinks))

    def value(one: str, other: str) -> float | None:
        if {one, other} & stuck:
            return None
        crossing = groups[one] != groups[other] and {groups[one], groups[other]} & narrow
        factor = (0.9 if {one, other} & bad else 1.0) * (0.85 if crossing else 1.0)
        return 350 * draw.gauss(1, 0.01) * factor * (0.8 if draw.random() < congested else 1.0)

    rounds = pairs.plan(names, 3, seed)
    found = [Pair(one, other, value(one, other), str(at)) for at, held in enumerate(rounds) for one, other in held]
    first = pairs.decode(found, groups)
    found += [Pair(one, other, value(one, other), pairs.CONFIRM) for one, other in first.confirm]
    suspects = {one.name for one in pairs.decode(found, groups).suspects}
    return bad | stuck | narrow, suspects, count + len(set(groups.values()))


def rates(trials: list[Found]) -> dict[str, float]:
    """Return the share of the faulty that are found, and the share of all that are wrongly blamed."""
    sick, hit, false, every = (
        sum(one) for one in zip(*((len(w), len(w & f), len(f - w), n) for w, f, n in trials), strict=True)
    )
    return {"trials": len(trials), "sick": sick, "recall": hit / sick, "false": false, "false_share": false / every}


def main() -> None:
    """Print the rates over this many trials of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=10_000)
    asked = parser.parse_args()
    seeds, count = range(asked.trials), asked.nodes
    hung = {"slow": 33, "uplinks": 5, "hanging": 10, "congested": 0.02}
    said = {
        "cards, measured twice": rates([cards(seed, count // 10) for seed in seeds]),
        "pairs": rates([nodes_and_uplinks(seed, count, slow=33, uplinks=5) for seed in seeds]),
        "pairs, with hangs and congestion": rates([nodes_and_uplinks(seed, count, **hung) for seed in seeds]),  # type: ignore[arg-type]
    }
    print(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
