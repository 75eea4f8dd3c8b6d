"""GPU types: choose the type for each waiting job, when faster types speed up some jobs more than others.

By itself every training job takes the fastest type that is free. That wastes a fast GPU on a job that is
hardly faster there, when the next in line would be three times as fast. If speeds by type are known, a small
linear program gives every type a price: the value of one more GPU of it to the waiting jobs. A job then takes
the type with the highest value to it above that price. This orders preferences only: no job is kept from a
type, and no job waits for one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from grus.model.jobs import JobType
from grus.model.resources import GPU
from grus.scheduler.state.node_capacity_index import SOON

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.state.job_entry import Entry
    from grus.scheduler.state.request_shapes import Shape

MOST = 200
"""Maximum number of jobs, the oldest first, that are weighed against each other."""


class TypeDemand(NamedTuple):
    """Request for GPU types: the number of GPUs, and the speed on each kind that it may use."""

    gpus: int
    speeds: Mapping[int, float]


def preferences(wants: Sequence[TypeDemand], supply: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Return for each job the kinds of device in the order in which it should try them."""
    given, price = assignment(wants, supply)
    return [
        tuple(
            sorted(
                want.speeds,
                key=lambda kind: (
                    -given.get((number, kind), 0.0),
                    price.get(kind, 0.0) - want.speeds[kind],
                    kind,
                ),
            )
        )
        for number, want in enumerate(wants)
    ]


def assignment(
    wants: Sequence[TypeDemand], supply: Mapping[int, int]
) -> tuple[dict[tuple[int, int], float], dict[int, float]]:
    """Return the part of each job that the best assignment puts on each kind, and the value of one more GPU
    of that kind.
    """
    # Imported here, because only pools with different types and measured jobs need it.
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    kinds = sorted(supply)
    row_of = {kind: len(wants) + number for number, kind in enumerate(kinds)}
    pairs = [(n, kind) for n, want in enumerate(wants) for kind in sorted(want.speeds) if kind in supply]
    if not pairs:
        return {}, {}
    columns = np.arange(len(pairs))
    rows = np.array([number for number, _ in pairs] + [row_of[kind] for _, kind in pairs])
    amounts = np.array([1.0] * len(pairs) + [float(wants[number].gpus) for number, _ in pairs])
    gains = np.array([wants[number].gpus * wants[number].speeds[kind] for number, kind in pairs])
    limits = np.array([1.0] * len(wants) + [float(supply[kind]) for kind in kinds])
    matrix = coo_array((amounts, (rows, np.concatenate([columns, columns]))), shape=(len(limits), len(pairs)))
    found = linprog(-gains, A_ub=matrix.toarray(), b_ub=limits, bounds=(0, 1), method="highs")
    assert found.x is not None, "nothing given to anybody is always possible"
    given = {pair: round(float(part), 6) for pair, part in zip(pairs, found.x, strict=True)}
    return given, {kind: -float(found.ineqlin.marginals[row_of[kind]]) for kind in kinds}


def preferred_shapes(cycle: "Cycle") -> "dict[Entry, Shape]":
    """Return the shapes of waiting jobs whose speeds by type are known, with the kinds in the best order."""
    pool = cycle.pool
    if len(pool.kinds) < 2 or not cycle.snapshot.typed or not pool.free[SOON]:
        return {}
    waiting = sorted(cycle.snapshot.typed.values(), key=lambda entry: entry.age)[:MOST]
    chosen = [entry for entry in waiting if entry.job.spec.type is not JobType.DEV]
    supply = {kind: free for kind in range(len(pool.kinds)) if (free := pool.whole_free(kind, -1, SOON)) > 0}
    if len(supply) < 2 or not chosen:
        return {}
    wants = [TypeDemand(max(1, entry.shape.minimum // GPU), _speeds(cycle, entry)) for entry in chosen]
    orders = preferences(wants, {kind: supply.get(kind, 0) for kind in range(len(pool.kinds))})
    return {
        entry: cycle.snapshot.reordered(entry.shape, order)
        for entry, order in zip(chosen, orders, strict=True)
    }


def _speeds(cycle: "Cycle", entry: "Entry") -> dict[int, float]:
    """Return measured speeds; without a measurement, the usual speed of such devices for others."""
    pool, outlook = cycle.pool, entry.outlook
    known = dict(outlook.types) if outlook is not None else {}
    own = [pool.speeds[kind] for kind in entry.shape.kinds if pool.kinds[kind][0] in known]
    measured = [known[pool.kinds[kind][0]] for kind in entry.shape.kinds if pool.kinds[kind][0] in known]
    scale = sum(own) / sum(measured) if measured else 1.0
    return {
        kind: known[name] * scale if (name := pool.kinds[kind][0]) in known else pool.speeds[kind]
        for kind in entry.shape.kinds
    }
