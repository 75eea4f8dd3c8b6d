"""Fair shares: quota first, then the rest of the pool by weight (water-filling).

A queue that needs less leaves its rest to the others. Shares are rounded to whole GPUs by largest remainder;
a queue whose demand is met is not rounded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from grus.model.resources import GPU


class Claim(NamedTuple):
    """Claim of one of several siblings: its entitlement and its demand. Micro-GPUs."""

    quota: int
    reserved: int
    weight: float
    demand: int


def fair_shares(claims: Sequence[Claim], pool: int) -> list[tuple[float, int]]:
    """Return the exact share (in micro-GPUs) and the rounded share of each claim."""
    if sum(max(claim.demand, claim.reserved) for claim in claims) <= pool - GPU:
        return [(float(claim.demand), claim.demand) for claim in claims]  # There is enough for every demand.
    exact = _pour(claims, pool)
    rounded = [int(share) for share in exact]
    unmet = [i for i, claim in enumerate(claims) if exact[i] < claim.demand]
    if unmet:
        whole = _round([exact[i] for i in unmet])
        for i, share in zip(unmet, whole, strict=True):
            rounded[i] = share
    return list(zip(exact, rounded, strict=True))


def _pour(claims: Sequence[Claim], pool: int) -> list[float]:
    """Give each its quota (or the demand, if less) plus a part of the rest by weight, none above its
    demand.
    """
    shares = [float(min(claim.quota, claim.demand)) for claim in claims]
    idle = sum(max(0, claim.reserved - claim.demand) for claim in claims)
    rest = pool - sum(shares) - idle
    thirsty = [i for i, claim in enumerate(claims) if claim.demand > shares[i]]
    # Level by level: the claim nearest to its demand, per weight, is filled first and leaves its rest.
    thirsty.sort(key=lambda i: (claims[i].demand - shares[i]) / claims[i].weight)
    weight = sum(claims[i].weight for i in thirsty)
    for i in thirsty:
        if rest <= 0:
            break
        claim = claims[i]
        part = min(claim.demand - shares[i], rest * claim.weight / weight)
        shares[i] += part
        rest -= part
        weight -= claim.weight
    return shares


def _round(shares: Sequence[float]) -> list[int]:
    """Round to whole GPUs, keeping the sum (rounded down to whole GPUs) by largest remainder; ties by
    position.
    """
    floors = [int((share + 1e-3) // GPU) * GPU for share in shares]
    spare = int((sum(shares) + 1e-3) // GPU) - sum(floors) // GPU
    order = sorted(range(len(shares)), key=lambda i: (floors[i] - shares[i], i))
    for i in order[: max(0, spare)]:
        floors[i] += GPU
    return floors
