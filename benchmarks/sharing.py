"""Slices and gangs until the pool is full: how much of it is in use, and what the rest is good for.

    python -m benchmarks.sharing [--nodes N] [--seeds N]

Jobs of the mix of `sharing_mix` come one by one until they have asked for 130 % of the pool, as in FGD's own
evaluation; nobody leaves, and one that finds no place goes away. The same jobs are placed by first fit, best
fit, FGD's rule and the production `decide`; every placement is entered in the same books, which check it.

`allocated` is the share of the GPUs in use at the end, `fragmentation` (FGD's measure, with the true mix)
the share of all GPUs that is free and that a job of the mix cannot use, on average; both are means over the
seeds. `worst_lead` is the smallest lead over FGD of any seed. `no_hosts` is the same where host CPU and
memory are not counted: there only slices and gangs get in each other's way.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.machine import facts
from benchmarks.sharing_mix import Machine, draw, make_nodes, unusable
from benchmarks.sharing_rules import Production, Rule, best_fit, fgd, first_fit
from grus.model.nodes import Node
from grus.model.resources import GPU

ASKED = 1.3
"""What comes, in pools."""
FIRST_SEED = 100
"""The measure of the production rule was chosen on seeds below this."""
RULES: dict[str, Callable[[Sequence[Node]], Rule]] = {
    "": Production,
    "fgd_": lambda _: fgd(),
    "bestfit_": lambda _: best_fit(),
    "firstfit_": lambda _: first_fit,
}


@dataclass(frozen=True, slots=True)
class Filled:
    """A pool at the end, as shares of its GPUs."""

    allocated: float
    fragmentation: float


def fill(nodes: Sequence[Node], rule: Rule, seed: int) -> Filled:
    """Let jobs come until they have asked for more than there is."""
    machines = [Machine(node) for node in nodes]
    capacity = sum(len(machine.free) for machine in machines) * GPU
    held = 0
    for sort in draw(seed, round(ASKED * capacity)):
        placed = rule(machines, sort)
        if placed is not None:
            number, devices = placed
            machines[number].book(sort, devices)
            held += sort.asked
    return Filled(held / capacity, sum(unusable(machine.state) for machine in machines) / capacity)


def compare(nodes: Sequence[Node], seeds: int) -> dict[str, float]:
    """All rules on the same jobs."""
    filled = {
        name: [fill(nodes, make(nodes), FIRST_SEED + i) for i in range(seeds)] for name, make in RULES.items()
    }
    figures: dict[str, float] = {}
    for name, ends in filled.items():
        figures[f"{name}allocated"] = round(fmean(end.allocated for end in ends), 4)
        figures[f"{name}fragmentation"] = round(fmean(end.fragmentation for end in ends), 4)
    leads = (
        ours.allocated - theirs.allocated for ours, theirs in zip(filled[""], filled["fgd_"], strict=True)
    )
    figures["worst_lead"] = round(min(leads), 4)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    nodes = make_nodes(given.nodes)
    figures: dict[str, object] = {"gpus": sum(len(node.devices) for node in nodes), "seeds": given.seeds}
    figures |= compare(nodes, given.seeds)
    print("  with hosts counted: done", file=sys.stderr, flush=True)
    figures["no_hosts"] = compare(make_nodes(given.nodes, hosts=False), given.seeds)
    print(json.dumps(figures | facts()))


if __name__ == "__main__":
    main()
