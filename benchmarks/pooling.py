"""One pool against a static split: the same 20 people on the same 32 GPUs.

    python -m benchmarks.pooling [--weeks N] [--seeds N] [--habits]

2 x 8 big GPUs, 4 x 2 small ones, 8 workstations; who owns what and how people work is in `pooling_lab`.
*Static*: everybody's jobs run on their own GPUs only, with the same scheduler (slices, elastic jobs,
priorities); a job that asks for more than its owner has runs on all of it, longer. *Pool*: one pool, what
each brought is its quota, the rest is lent. GPU types count as equally fast.

`utilisation` is useful GPU-time / GPU-time there was: what the work done would take on the GPUs it was
measured on (elastic jobs: on one), without starts, losses and the cost of being spread; sessions count as
their slice. `jct_ratio` compares the mean time from submission to end of the trainings that both sides came
to; `concurrent` is the mean number of trainings that hold GPUs. What pooling gains depends on how people
work, which is assumed: with `--habits`, `other_habits` gives the figures of the first seed for other
assumptions, kinder and less kind.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from benchmarks.machine import facts
from benchmarks.pooling_lab import POOL, WEEK, Habits, Lab, owners, queues
from grus.model.identifiers import JobId
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU, Range
from grus.simulator.cluster_spec import count_gpus, parse_nodes
from grus.simulator.events.run_results import JobOutcome, Result
from grus.simulator.simulator import Simulation
from grus.simulator.workload.job_work import TraceJob

Fit = Callable[[TraceJob], TraceJob]
FIRST_SEED = 100
"""Those below were used to choose the habits."""
OTHERS = {
    "shorter trainings": Habits(hours=3.0),
    "longer trainings": Habits(hours=12.0),
    "one experiment at a time": Habits(at_once=1),
    "no quiet weeks": Habits(quiet=(0.0, 0.0)),
    "twice the quiet weeks": Habits(quiet=(6.0, 12.0)),
}


@dataclass(frozen=True, slots=True)
class Side:
    """One way to run the lab, in figures of one seed."""

    utilisation: float
    concurrent: float
    trainings: int
    session_wait: float
    times: dict[JobId, float]
    """Completion time of every training and retraining."""


def lab(seed: int, weeks: float, habits: Habits, *, static: bool) -> Side:
    """People at work for so many weeks; what is still running then is let run to its end."""
    people = Lab(seed, weeks, habits)
    nodes = parse_nodes(POOL)
    fit: Fit = cut if static else as_asked
    told = 0

    def go_on(simulation: Simulation) -> bool:
        """People see what has ended, and go on."""
        nonlocal told
        ended = simulation.effects.ended
        while told < len(ended):
            simulation.expect([fit(work) for work in people.follow(ended[told])])
            told += 1
        return False

    first = [fit(work) for work in people.begin()]
    simulation = Simulation(nodes, split_queues() if static else queues(), first, begin=0.0, history=True)
    result = simulation.run(until=go_on)
    assert not result.violations, result.violations
    return measure(result, weeks * WEEK, count_gpus(nodes))


def as_asked(work: TraceJob) -> TraceJob:
    return work


def split_queues() -> tuple[Queue, ...]:
    """Everybody has exactly what they own: nothing is lent, nothing is taken back."""
    return tuple(
        Queue(name=name, quota=Quota.of(gpus), reserved=gpus * GPU, limit=gpus * GPU)
        for name, gpus in owners().items()
    )


def cut(work: TraceJob) -> TraceJob:
    """The job on what its owner has: no more GPUs, and longer in proportion where it asked for more."""
    own = owners()[work.queue]
    size = Range(1, min(work.size.high, own)) if work.size is not None and own > 1 else None
    if work.gpus <= own:
        return replace(work, size=size)
    return replace(work, size=size, gpus=own, duration=work.duration * work.gpus / own)


def measure(result: Result, end: float, gpus: int) -> Side:
    useful = sum(ran.useful * part_until(ran, end) for ran in result.jobs)
    trainings = [ran for ran in result.jobs if is_training(ran)]
    running = sum(seconds_until(ran, end) for ran in trainings)
    sessions = [ran.waited for ran in result.jobs if not is_training(ran)]
    return Side(
        utilisation=useful / (gpus * end),
        concurrent=running / end,
        trainings=sum(ran.ended is not None and ran.ended <= end for ran in trainings),
        session_wait=fmean(sessions),
        times={ran.work.id: ran.completion for ran in trainings if ran.completion is not None},
    )


def is_training(ran: JobOutcome) -> bool:
    return not ran.work.id.startswith("build.")


def part_until(ran: JobOutcome, end: float) -> float:
    """The part of the GPU-time that it held before the end."""
    held = sum((min(span.end, end) - span.begin) * span.gpus for span in ran.spans if span.begin < end)
    return held / ran.held if ran.held else 0.0


def seconds_until(ran: JobOutcome, end: float) -> float:
    """Seconds in which it held GPUs, before the end."""
    return sum(min(span.end, end) - span.begin for span in ran.spans if span.begin < end)


def compare(seeds: Sequence[int], weeks: float, habits: Habits) -> dict[str, float]:
    """Both sides, means over the seeds."""
    pool = [lab(seed, weeks, habits, static=False) for seed in seeds]
    static = [lab(seed, weeks, habits, static=True) for seed in seeds]
    jct, static_jct = zip(*(common(a, b) for a, b in zip(pool, static, strict=True)), strict=True)
    figures = {
        "utilisation": fmean(side.utilisation for side in pool),
        "static_utilisation": fmean(side.utilisation for side in static),
        "concurrent": fmean(side.concurrent for side in pool),
        "static_concurrent": fmean(side.concurrent for side in static),
        "trainings_a_week": fmean(side.trainings for side in pool) / weeks,
        "static_trainings_a_week": fmean(side.trainings for side in static) / weeks,
        "jct_h": fmean(jct) / 3600,
        "static_jct_h": fmean(static_jct) / 3600,
        "session_wait_s": fmean(side.session_wait for side in pool),
        "static_session_wait_s": fmean(side.session_wait for side in static),
    }
    figures["utilisation_ratio"] = figures["utilisation"] / figures["static_utilisation"]
    figures["jct_ratio"] = figures["jct_h"] / figures["static_jct_h"]
    return {name: round(figure, 4) for name, figure in figures.items()}


def common(ours: Side, theirs: Side) -> tuple[float, float]:
    """Mean completion times of the trainings that both came to."""
    both = ours.times.keys() & theirs.times.keys()
    return fmean(ours.times[job] for job in both), fmean(theirs.times[job] for job in both)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weeks", type=float, default=4)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--habits", action="store_true", help="other assumptions too (several times as long)")
    given = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
    figures: dict[str, object] = {"weeks": given.weeks, "seeds": given.seeds}
    figures |= compare(seeds, given.weeks, Habits())
    print("  as it is: done", file=sys.stderr, flush=True)
    others = {}
    for words, habits in OTHERS.items() if given.habits else ():
        other = compare(seeds[:1], given.weeks, habits)
        wanted = ("utilisation", "static_utilisation", "utilisation_ratio", "jct_ratio")
        others[words] = {name: other[name] for name in wanted}
        print(f"  {words}: done", file=sys.stderr, flush=True)
    if others:
        figures["other_habits"] = others
    print(json.dumps(figures | facts()))


if __name__ == "__main__":
    main()
