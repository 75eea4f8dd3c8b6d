"""Entry point of placement: all placers on one model, the best answers improved, or the reason for none.

    place(graph, topology)  →  Plan | Infeasible

Deterministic: the same model and devices give the same answer.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace

from grus.partition.execution.placement_plan import Infeasible, Plan
from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.graph import OpGraph
from grus.partition.operators.coarsening import Limit, coarsen
from grus.partition.operators.colocation_groups import breadth_first, depth_first, units_of
from grus.partition.placers.contiguous_segments import split, stretches
from grus.partition.placers.etf import etf
from grus.partition.placers.infeasibility import explain, impossible
from grus.partition.placers.lower_bounds import priorities, step_bound
from grus.partition.placers.outcome import Assignment, NoRoom
from grus.partition.placers.refine_placement import PENALTY, PlacementSearch, blocks, fits, overflow
from grus.partition.placers.sct import sct
from grus.partition.placers.topo import pack, topo
from grus.partition.topology import Topology

Placer = Callable[[OpGraph, Topology, bool], Assignment | NoRoom]
LISTS: dict[str, Placer] = {"topo": topo, "etf": etf, "sct": sct}
PLACERS = ("single", *LISTS, "contiguous")
QUICK = ("single", "topo", "etf")
"""Placers whose time hardly grows faster than the graph: the only ones used on large graphs."""
LARGE = 700
NODES = 250
"""Graphs with more operators are coarsened to so many, if the limits allow it."""
SHARE = 0.1
"""Share of a device's memory, and of its even share of the time, that one coarse operator may take."""
EFFORT = 180_000
"""Operators that the local search may simulate in all: less than half a second."""
LEAST = 20_000
"""The same when any valid answer is enough, and the placers have none."""
STARTS = 3
"""Number of the placers' answers that are improved."""
SHARES = (0.5, 0.2, 0.05, 0.0)
"""Blocks that are moved hold at most these shares of a device; at the end each unit alone."""
MARGINS = (1.0, 0.92, 0.8)
"""Shares of the memory that contiguous splits may use when it is known roughly only."""


def place(graph: OpGraph, topology: Topology, effort: int = EFFORT) -> Plan | Infeasible:
    """The best placement found; every answer carries its lower bound."""
    proof = impossible(graph, topology)
    plan = None if proof is not None else search(graph, topology, effort)
    if plan is None:
        return explain(graph, topology, lambda raised: search(graph, raised, 0) is not None)
    return replace(plan, bound=step_bound(graph, topology))


def search(graph: OpGraph, topology: Topology, effort: int) -> Plan | None:
    """None when nothing that fits is found. Large graphs are searched coarse first, with half the effort."""
    if len(graph.ops) > NODES:
        rough = _rough(graph, topology, effort // 2)
        if rough is not None:
            names = PLACERS if len(graph.ops) <= LARGE else QUICK
            others = [plan for _, plan in attempts(graph, topology, names)]
            return _best(graph, topology, [rough, *others], effort - effort // 2)
    return _best(graph, topology, [plan for _, plan in attempts(graph, topology)], effort)


def _rough(graph: OpGraph, topology: Topology, effort: int) -> Plan | None:
    """Return the plan found on the coarse graph, simulated with the original operators; it may not fit."""
    seconds = sum(op.seconds for op in graph.ops) / len(topology.devices)
    memory = min(device.memory for device in topology.devices)
    coarse = coarsen(graph, Limit(NODES, round(SHARE * memory), SHARE * seconds))
    tried = [plan for _, plan in attempts(coarse.graph, topology)]
    plan = _best(coarse.graph, topology, tried, effort)
    if plan is None:
        return None
    order = sorted(range(len(coarse.graph.ops)), key=lambda op: plan.start[op])
    device_of = coarse.expanded(plan.device_of)
    return _best_order(graph, topology, Assignment(device_of, tuple(coarse.order(order))), plan.placer)


def _best(graph: OpGraph, topology: Topology, tried: Sequence[Plan], effort: int) -> Plan | None:
    """The best of these that fits, improved as far as the effort allows."""
    found = sorted((plan for plan in tried if fits(plan, topology)), key=lambda plan: plan.seconds)
    if found and (effort <= 0 or len(topology.devices) < 2):
        return found[0]
    starts = _starts(topology, tried, found)
    budget = max(effort, LEAST) // len(graph.ops) // max(1, len(starts))
    improved = [_improved(graph, topology, plan, budget) for plan in starts]
    return min((plan for plan in improved if plan is not None), key=lambda plan: plan.seconds, default=None)


def _starts(topology: Topology, tried: Sequence[Plan], found: Sequence[Plan]) -> list[Plan]:
    """The best that fit, and the best that nearly do: with fewer bytes moved they may become better."""
    shortest = found[0].seconds if found else float("inf")
    over = [plan for plan in tried if not fits(plan, topology) and plan.seconds < shortest]
    over.sort(key=lambda plan: plan.seconds * (1 + PENALTY * overflow(plan, topology)))
    starts = [*found[:STARTS], *over[: STARTS if not found else 1]]
    return list({plan.device_of: plan for plan in starts}.values())


def _improved(graph: OpGraph, topology: Topology, plan: Plan, budget: int) -> Plan | None:
    units = units_of(graph)
    order = sorted(range(len(graph.ops)), key=lambda op: plan.start[op])
    best = plan if fits(plan, topology) else None
    for rank in (ranks(order), ranks(priorities(graph, topology))):
        work = PlacementSearch(graph, topology, best or plan, rank, budget // 2)
        for share in SHARES:
            work.descend(blocks(graph, units, round(share * topology.largest)))
        known = [one for one in (best, work.best) if one is not None]
        best = min(known, key=lambda one: one.seconds, default=None)
    return best


def answers(graph: OpGraph, topology: Topology) -> dict[str, Plan]:
    """Return the simulated answer of every placer whose answer fits, by name; the packed one if none does."""
    found: dict[str, Plan] = {}
    for name, plan in attempts(graph, topology):
        known = found.get(name)
        if fits(plan, topology) and (known is None or plan.seconds < known.seconds):
            found[name] = plan
    return found


def attempts(graph: OpGraph, topology: Topology, names: Container[str] = PLACERS) -> list[tuple[str, Plan]]:
    """The simulated answers of these placers, whether they fit or not."""
    tried = [
        (name, _best_order(graph, topology, assignment, name))
        for careful in (True, False)
        for name, assignment in _assignments(graph, topology, careful, names)
    ]
    if not any(fits(plan, topology) for _, plan in tried):
        packed = (pack(graph, topology, careful) for careful in (True, False))
        some = (one for one in packed if isinstance(one, Assignment))
        tried += [("pack", _best_order(graph, topology, one, "pack")) for one in some]
    return tried


def _best_order(graph: OpGraph, topology: Topology, assignment: Assignment, name: str) -> Plan:
    """Return the best plan of three orders: the placer's, most remaining work first, and topological.

    A plan that fits comes before one that does not; then the shortest counts.
    """
    orders = {assignment.order: None, tuple(priorities(graph, topology)): None, graph.topological: None}
    plans = (simulate(graph, topology, assignment.device_of, ranks(order), name) for order in orders)
    return min(plans, key=lambda plan: (not fits(plan, topology), plan.seconds))


def _assignments(
    graph: OpGraph, topology: Topology, careful: bool, names: Container[str]
) -> Iterator[tuple[str, Assignment]]:
    sorts = {(one.memory, one.speed): number for number, one in enumerate(topology.devices)}
    for device in sorts.values() if careful else ():
        yield "single", Assignment((device,) * len(graph.ops), graph.topological)
    for name, placer in LISTS.items():
        placed = placer(graph, topology, careful) if name in names else None
        if isinstance(placed, Assignment):
            yield name, placed
    if "contiguous" in names:
        yield from (("contiguous", one) for one in contiguous(graph, topology, careful))


def contiguous(graph: OpGraph, topology: Topology, careful: bool) -> Iterator[Assignment]:
    """Contiguous splits of two orders of the units, for both goals and two orders of the devices.

    Without care for what is released, memory is known only roughly: splits take more or less of it.
    """
    units = units_of(graph)
    listed = list(range(len(topology.devices)))
    by_memory = sorted(listed, key=lambda one: -topology.devices[one].memory)
    margins = (1.0,) if careful else MARGINS
    seen = set()
    for order in (breadth_first(graph, units), depth_first(graph, units)):
        if tuple(order) in seen:
            continue
        seen.add(tuple(order))
        table = stretches(graph, topology, units, order)
        table = table if careful else table.in_flight(1, 1)
        for devices in (listed, by_memory) if by_memory != listed else (listed,):
            for evenest in (False, True):
                for margin in margins:
                    tables = [table] * len(devices)
                    allowed = topology.scaled(margin)
                    found = split(graph, allowed, units, order, tables, devices, evenest)
                    if isinstance(found, Assignment) and found.device_of not in seen:
                        seen.add(found.device_of)
                        yield found
