"""Which type of GPU each waiting job should get, where unlike jobs gain unlike much by the better ones.

By itself every training job takes the fastest type that is free. That wastes a fast GPU on a job that is
hardly faster there, when the next in line would be three times as fast. Where speeds by type are known, a
small linear program gives every type a price: what one more GPU of it would be worth to those who wait. A job
then takes the type that is worth most to it above that price. This orders preferences only: nobody is kept
from a type, and nobody waits for one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from grus.model.jobs import JobType
from grus.model.resources import GPU
from grus.scheduling.topology import SOON

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle
    from grus.scheduling.entry import Entry
    from grus.scheduling.shapes import Shape

MOST = 200
"""So many jobs, the oldest first, are weighed against each other."""


class Want(NamedTuple):
    """A job, as far as types go: how many GPUs, and its speed on each kind that it may use."""

    gpus: int
    speeds: Mapping[int, float]


def preferences(wants: Sequence[Want], supply: Mapping[int, int]) -> list[tuple[int, ...]]:
    """For each job the kinds of device in the order in which it should try them."""
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
    wants: Sequence[Want], supply: Mapping[int, int]
) -> tuple[dict[tuple[int, int], float], dict[int, float]]:
    """Which part of each job the best assignment puts on each kind, and what one more GPU of it is worth."""
    # Here, as only pools with unlike types and measured jobs need it.
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
    """Shapes of waiting jobs whose speeds by type are known, with the kinds in the order that is best."""
    pool = cycle.pool
    if len(pool.kinds) < 2 or not cycle.snapshot.typed or not pool.free[SOON]:
        return {}
    waiting = sorted(cycle.snapshot.typed.values(), key=lambda entry: entry.age)[:MOST]
    chosen = [entry for entry in waiting if entry.job.spec.type is not JobType.DEV]
    supply = {kind: free for kind in range(len(pool.kinds)) if (free := pool.whole_free(kind, -1, SOON)) > 0}
    if len(supply) < 2 or not chosen:
        return {}
    wants = [Want(max(1, entry.shape.minimum // GPU), _speeds(cycle, entry)) for entry in chosen]
    orders = preferences(wants, {kind: supply.get(kind, 0) for kind in range(len(pool.kinds))})
    return {
        entry: cycle.snapshot.reordered(entry.shape, order)
        for entry, order in zip(chosen, orders, strict=True)
    }


def _speeds(cycle: "Cycle", entry: "Entry") -> dict[int, float]:
    """Measured where it was; where it was not, as fast as such devices are to others."""
    pool, outlook = cycle.pool, entry.outlook
    known = dict(outlook.types) if outlook is not None else {}
    own = [pool.speeds[kind] for kind in entry.shape.kinds if pool.kinds[kind][0] in known]
    measured = [known[pool.kinds[kind][0]] for kind in entry.shape.kinds if pool.kinds[kind][0] in known]
    scale = sum(own) / sum(measured) if measured else 1.0
    return {
        kind: known[name] * scale if (name := pool.kinds[kind][0]) in known else pool.speeds[kind]
        for kind in entry.shape.kinds
    }
