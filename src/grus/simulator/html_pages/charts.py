"""Data for the charts of a simulation: use over time, completion times, jobs on parts of the pool.

Small for every trace: time is cut into bins, completion times into quantiles, and the chart of jobs shows the
busiest stretch that is still readable. Numbers only; `comparison_page` decides on their presentation.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from grus.simulator.events.run_results import JobOutcome, Moment, Result
from grus.simulator.outcome_metrics import completion

BINS = 400
QUANTILES = 300
MOST_BARS = 1500
"""Bars of the chart of jobs; more cannot be distinguished, and make the page slow."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A job held this part of the pool, from `low` to `low + gpus`, for a time."""

    job: str
    queue: str
    begin: float
    end: float
    low: float
    gpus: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """One simulation, ready to be drawn. Times are seconds since its beginning."""

    gpus: float
    times: tuple[float, ...]
    """Start times of the bins."""
    used: tuple[float, ...]
    """Mean part of the pool that was held in each bin."""
    waiting: tuple[float, ...]
    """Mean number of jobs that waited in each bin."""
    completions: tuple[float, ...]
    """Completion times, ascending: the 1st, 2nd, … of equally many parts of the jobs."""
    bars: tuple[Bar, ...]
    shown: tuple[float, float]
    """Begin and end of the time that the bars show."""
    whole: bool
    """True if that is all the time there was."""


def draw(result: Result) -> Drawn:
    """Needs a result with its history."""
    times, used, waiting = over_time(result.moments, result.begin, result.end)
    done = sorted(completion(ran) for ran in result.jobs if ran.ended is not None)
    begin, end = busiest(result)
    return Drawn(
        gpus=result.gpus,
        times=tuple(round(at - result.begin, 3) for at in times),
        used=tuple(round(held / result.gpus, 5) if result.gpus else 0.0 for held in used),
        waiting=tuple(round(count, 3) for count in waiting),
        completions=quantiles(done),
        bars=tuple(packed(result.jobs, begin, end, result.begin)),
        shown=(round(begin - result.begin, 3), round(end - result.begin, 3)),
        whole=begin <= result.begin and end >= result.end,
    )


def over_time(
    moments: Sequence[Moment], begin: float, end: float
) -> tuple[list[float], list[float], list[float]]:
    """Beginnings of the bins, GPUs held and jobs waiting in each, as means over its time."""
    if end <= begin or not moments:
        return [], [], []
    size = (end - begin) / BINS
    held, waiting = [0.0] * BINS, [0.0] * BINS
    for moment, until in zip(moments, [*(later.at for later in moments[1:]), end], strict=True):
        first = min(BINS - 1, int((moment.at - begin) / size))
        last = min(BINS - 1, int((until - begin) / size))
        for index in range(first, last + 1):
            left = max(moment.at, begin + index * size)
            right = until if index == last else min(until, begin + (index + 1) * size)
            part = max(0.0, right - left) / size
            held[index] += moment.held * part
            waiting[index] += moment.waiting * part
    return [begin + index * size for index in range(BINS)], held, waiting


def quantiles(ascending: Sequence[float]) -> tuple[float, ...]:
    """All of them, or so many at equal distances with the first and the last."""
    if len(ascending) <= QUANTILES:
        return tuple(round(value, 3) for value in ascending)
    last = len(ascending) - 1
    return tuple(round(ascending[round(last * n / (QUANTILES - 1))], 3) for n in range(QUANTILES))


def busiest(result: Result) -> tuple[float, float]:
    """All the time if its bars can be drawn; else the stretch around the fullest moment that can be."""
    begins = sorted(span.begin for ran in result.jobs for span in ran.spans)
    if len(begins) <= MOST_BARS:
        return result.begin, result.end
    fullest = max(result.moments, key=lambda moment: (moment.held, moment.waiting, -moment.at)).at
    # Jobs under way at the beginning of the stretch are drawn too: leave room for as many again.
    middle = bisect_left(begins, fullest)
    first = max(0, min(middle - MOST_BARS // 4, len(begins) - MOST_BARS // 2))
    last = min(len(begins) - 1, first + MOST_BARS // 2)
    return begins[first], begins[last]


def packed(jobs: Sequence[JobOutcome], begin: float, end: float, zero: float) -> list[Bar]:
    """Bars of the jobs that held something meanwhile, each on the lowest part of the pool that is free.

    Which GPUs these really were is not kept; a job that finds no place in one piece is drawn in several.
    """
    spans = sorted(
        (max(span.begin, begin), min(span.end, end), ran.work.id, span.gpus, ran.work.queue)
        for ran in jobs
        for span in ran.spans
        if span.end > begin and span.begin < end and span.gpus > 0
    )
    bars: list[Bar] = []
    free = [(0.0, float("inf"))]
    taken: list[tuple[float, int, list[tuple[float, float]]]] = []
    for number, (since, until, job, gpus, queue) in enumerate(spans[:MOST_BARS]):
        while taken and taken[0][0] <= since:
            for piece in taken.pop(0)[2]:
                _give_back(free, piece)
        pieces = _take(free, gpus)
        insort(taken, (until, number, pieces))
        bars += [
            Bar(job, queue, round(since - zero, 3), round(until - zero, 3), low, round(high - low, 6))
            for low, high in pieces
        ]
    return bars


def _take(free: list[tuple[float, float]], gpus: float) -> list[tuple[float, float]]:
    """The lowest parts that are free, in as many pieces as need be; in one where the lowest gap allows."""
    pieces = []
    left = gpus
    while left > 1e-9:
        low, high = free.pop(0)
        used = min(left, high - low)
        pieces.append((low, round(low + used, 6)))
        if high - low > used + 1e-9:
            free.insert(0, (round(low + used, 6), high))
        left -= used
    return pieces


def _give_back(free: list[tuple[float, float]], piece: tuple[float, float]) -> None:
    insort(free, piece)
    merged: list[tuple[float, float]] = []
    for low, high in free:
        if merged and low <= merged[-1][1] + 1e-9:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    free[:] = merged
