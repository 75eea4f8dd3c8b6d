"""Sizes of all elastic jobs of a pool, chosen together so that they gain most.

On the concave hull of every job's values the steepest step is taken first, which is optimal except for the
last step that does not fit. Nothing here knows nodes, queues or clocks: sizes in, sizes out. Jobs that have
waited too long are placed before anything is weighed: a low weight delays a job but never stops it.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from grus.scheduler.elasticity.size_values import Candidate, Key, Rule, values

DEFAULT = Rule()


Step = tuple[int, float]  # a size and its value


Waiting = tuple[float, int, int, list[Step]]  # slope (negative), size of the step, its job, further steps


def hull(steps: Iterable[Step], start: Step = (0, 0.0)) -> list[Step]:
    """Return the sizes on the upper concave hull over `start`, as long as it rises; `steps` ascend in
    size.
    """
    kept = [start]
    for step in steps:
        if step[1] <= kept[-1][1]:
            continue
        while len(kept) > 1 and _slope(kept[-1], step) > _slope(kept[-2], kept[-1]):
            kept.pop()
        kept.append(step)
    return kept


def _slope(low: Step, high: Step) -> float:
    return (high[1] - low[1]) / (high[0] - low[0])


def allocate(candidates: Iterable[Candidate[Key]], gpus: int, rule: Rule = DEFAULT) -> dict[Key, int]:
    """Return the sizes that gain most with so many GPUs; 0 for a job that has to wait.

    Of steps with equal gain the one to the smaller size wins, then that of the earlier candidate.

    The wait of every job is bounded. Let the pool hold every job's smallest size, and let decisions come at
    least every d seconds. If k - 1 others have waited longer when a job's patience ends, it starts at the
    latest `patience + k * (turn + d)` after it began to wait. For k = 1: after its patience ends, no other
    waiting job starts before it, and no running job is kept longer than a turn. For k: the same from the
    moment when the one before it started; a job that is stopped meanwhile waits behind it.
    """
    jobs = list(candidates)
    sizes = {job.key: 0 for job in jobs}
    closed = _seat_first(jobs, sizes, gpus, rule)
    left = gpus - sum(sizes.values())
    worth = [list(zip(job.sizes, values(job, rule), strict=True)) for job in jobs]
    line: list[Waiting] = []
    for index, job in enumerate(jobs):
        if not (closed and job.present == 0 and sizes[job.key] == 0):
            _queue(line, index, worth[index], sizes[job.key], left)
    while line and left > 0:
        _, size, index, after = heappop(line)
        key = jobs[index].key
        if size - sizes[key] > left:
            _queue(line, index, worth[index], sizes[key], left)
            continue
        left -= size - sizes[key]
        sizes[key] = size
        if after:
            heappush(line, (-_slope(_at(worth[index], size), after[0]), after[0][0], index, after[1:]))
    return sizes


def _queue(line: list[Waiting], index: int, worth: Sequence[Step], size: int, left: int) -> None:
    """Put a job's steps in line, steepest first, from the size it has up to what could still fit."""
    start = _at(worth, size)
    steps = hull((step for step in worth if size < step[0] <= size + left), start)[1:]
    if steps:
        heappush(line, (-_slope(start, steps[0]), steps[0][0], index, steps[1:]))


def _at(worth: Sequence[Step], size: int) -> Step:
    return next((step for step in worth if step[0] == size), (0, 0.0))


def _seat_first(jobs: Sequence[Candidate[Key]], sizes: dict[Key, int], gpus: int, rule: Rule) -> bool:
    """Give the smallest sizes to those whose turn is not over, then to the starved, longest wait first.

    True if a starved job found no room: then no other waiting job may start, or the starved job might be
    overtaken without end.
    """
    left = gpus
    unfinished = [job for job in jobs if job.present and job.ran < rule.turn]
    starved = sorted((job for job in jobs if job.waited > rule.patience), key=lambda job: -job.waited)
    for job in unfinished + starved:
        if job.sizes[0] > left:
            return True
        sizes[job.key] = job.sizes[0]
        left -= job.sizes[0]
    return False
