"""The way in: all placers on one model, the best of their answers improved, or why there is none.

    place(graph, topology)  →  Plan | Infeasible

Deterministic: the same model and devices give the same answer.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from grus.partition.bounds import priorities, step_bound
from grus.partition.graph import OpGraph
from grus.partition.improve import Search, blocks, fits
from grus.partition.infeasible import explain, impossible
from grus.partition.placers.contiguous import split, stretches
from grus.partition.placers.etf import etf
from grus.partition.placers.outcome import Assignment, NoRoom
from grus.partition.placers.sct import sct
from grus.partition.placers.topo import pack, topo
from grus.partition.plan import Infeasible, Plan
from grus.partition.schedule import ranks, simulate
from grus.partition.topology import Topology
from grus.partition.units import breadth_first, depth_first, units_of

Placer = Callable[[OpGraph, Topology, bool], Assignment | NoRoom]
LISTS: dict[str, Placer] = {"topo": topo, "etf": etf, "sct": sct}
EFFORT = 60_000
"""Operators that the local search may simulate in all: a few tenths of a second."""
STARTS = 3
"""So many of the placers' answers are improved."""


def place(graph: OpGraph, topology: Topology, effort: int = EFFORT) -> Plan | Infeasible:
    """The best placement found; every answer carries its lower bound."""
    proof = impossible(graph, topology)
    plan = None if proof is not None else search(graph, topology, effort)
    if plan is None:
        return explain(graph, topology, lambda raised: search(graph, raised, 0) is not None)
    return replace(plan, bound=step_bound(graph, topology))


def search(graph: OpGraph, topology: Topology, effort: int) -> Plan | None:
    """None when no placer's answer fits."""
    found = sorted(answers(graph, topology).values(), key=lambda plan: plan.seconds)
    if not found:
        return None
    if effort <= 0 or len(topology.devices) < 2:
        return found[0]
    starts = found[:STARTS]
    budget = effort // len(graph.ops) // len(starts)
    improved = [_improved(graph, topology, plan, budget) for plan in starts]
    return min(improved, key=lambda plan: plan.seconds)


def _improved(graph: OpGraph, topology: Topology, plan: Plan, budget: int) -> Plan:
    units = units_of(graph)
    order = sorted(range(len(graph.ops)), key=lambda op: plan.start[op])
    best = plan
    for rank in (ranks(order), ranks(priorities(graph, topology))):
        work = Search(graph, topology, best, rank, budget // 2)
        for share in (0.5, 0.1, 0.0):
            work.descend(blocks(graph, units, round(share * topology.largest)))
        best = min(best, work.best, key=lambda one: one.seconds)
    return best


def answers(graph: OpGraph, topology: Topology) -> dict[str, Plan]:
    """The simulated answer of every placer whose answer fits, by name; the packed one only when none does."""
    found: dict[str, Plan] = {}
    for careful in (True, False):
        for name, assignment in _assignments(graph, topology, careful):
            plan = _best_order(graph, topology, assignment, name)
            known = found.get(name)
            if fits(plan, topology) and (known is None or plan.seconds < known.seconds):
                found[name] = plan
        if len(found) > 1:
            return found
    packed = (pack(graph, topology, careful) for careful in (True, False))
    for one in packed:
        if not found and isinstance(one, Assignment):
            plan = _best_order(graph, topology, one, "pack")
            if fits(plan, topology):
                found["pack"] = plan
    return found


def _best_order(graph: OpGraph, topology: Topology, assignment: Assignment, name: str) -> Plan:
    """In the placer's order, most work behind it first, or topologically: what fits and is shortest."""
    orders = {assignment.order: None, tuple(priorities(graph, topology)): None, graph.topological: None}
    plans = (simulate(graph, topology, assignment.device_of, ranks(order), name) for order in orders)
    return min(plans, key=lambda plan: (not fits(plan, topology), plan.seconds))


def _assignments(graph: OpGraph, topology: Topology, careful: bool) -> Iterator[tuple[str, Assignment]]:
    sorts = {(one.memory, one.speed): number for number, one in enumerate(topology.devices)}
    for device in sorts.values():
        yield "single", Assignment((device,) * len(graph.ops), graph.topological)
    for name, placer in LISTS.items():
        placed = placer(graph, topology, careful)
        if isinstance(placed, Assignment):
            yield name, placed
    if careful:
        yield from (("contiguous", one) for one in contiguous(graph, topology))


def contiguous(graph: OpGraph, topology: Topology) -> Iterator[Assignment]:
    """Contiguous splits of two orders of the units, for both goals and two orders of the devices."""
    units = units_of(graph)
    listed = list(range(len(topology.devices)))
    by_memory = sorted(listed, key=lambda one: -topology.devices[one].memory)
    seen = set()
    for order in (breadth_first(graph, units), depth_first(graph, units)):
        if tuple(order) in seen:
            continue
        seen.add(tuple(order))
        table = stretches(graph, topology, units, order)
        for devices in (listed, by_memory) if by_memory != listed else (listed,):
            for evenest in (False, True):
                found = split(graph, topology, units, order, [table] * len(devices), devices, evenest)
                if isinstance(found, Assignment):
                    yield found
