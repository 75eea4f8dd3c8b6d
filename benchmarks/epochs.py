"""What it saves to pause trainings at the end of their epochs, and what it costs those who wait for them.

    python -m benchmarks.epochs [--seeds N] [--hours N]

32 GPUs of two queues. One queue, with a quota of 8, runs trainings on all that the other leaves; the other,
with a quota of 24, has short jobs that come at random and take back what was lent. A training saves at the
end of each epoch and nowhere else: paused in between it loses what it did since. *Blind*: the scheduler knows
no rhythm. *Told*: four epochs after each start it does, within half a second and a hundredth of the period.
Both for jobs that report their checkpoints (`grus.report(saved=True)`), so that even who is blind knows what
each would lose, and for jobs that do not; and for epochs that are short, of minutes, and long.

`lost` is GPU-seconds of work lost for each pause, `ratio` that of who is told to that of who is blind, `wait`
the mean seconds that the short jobs waited for their start. The seeds were not used to choose anything.
"""

import argparse
import json
import random
import sys
from dataclasses import dataclass
from statistics import fmean

from benchmarks.machine import facts
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import JobId, QueueName
from grus.model.jobs import HOLDING
from grus.model.queues import Queue, Quota
from grus.scheduler import cycle
from grus.scheduler.decisions import Decisions
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.cluster_spec import parse_nodes
from grus.simulator.events.decision_executor import Costs
from grus.simulator.events.run_results import Result
from grus.simulator.simulator import Simulation
from grus.simulator.workload.job_work import TraceJob

POOL = "4x8xA100"
LENDER, BORROWER = QueueName("lender"), QueueName("borrower")
QUEUES = (Queue(name=LENDER, quota=Quota.of(24)), Queue(name=BORROWER, quota=Quota.of(8)))
COSTS = Costs()
HOUR = 3600.0
FIRST_SEED = 500
LENGTHS = {"15s_60s": (15.0, 60.0), "1m_3m": (60.0, 180.0), "3m_10m": (180.0, 600.0)}
RECOGNISED = 4.0
"""Epochs after which a rhythm is known."""


@dataclass(frozen=True, slots=True)
class Side:
    """One seed, with or without tags."""

    lost: float
    """GPU-seconds."""
    pauses: int
    waits: dict[JobId, float]
    """Of the lender's jobs, until they first started."""


def works(seed: int, hours: float, epochs: tuple[float, float]) -> list[TraceJob]:
    """Trainings that would fill the pool for that long, and the lender's short jobs."""
    chance = random.Random(seed)
    found: list[TraceJob] = []
    asked = 0.0
    while asked < 32 * hours * HOUR:
        gpus = chance.choice([1, 1, 1, 2, 2, 4])
        epoch = epochs[0] * (epochs[1] / epochs[0]) ** chance.random()
        work = TraceJob(
            id=JobId(f"t{len(found):04}"),
            submit=chance.random() * HOUR / 2,
            duration=chance.uniform(0.5, 3.0) * HOUR,
            gpus=gpus,
            queue=BORROWER,
            save_every=epoch,
            grace=0.0,
        )
        found.append(work)
        asked += work.gpu_seconds
    at = HOUR / 2
    while at < hours * HOUR:
        at += chance.expovariate(1 / 120.0)
        found.append(
            TraceJob(
                id=JobId(f"s{len(found):04}"),
                submit=at,
                duration=chance.uniform(300.0, 1800.0),
                gpus=chance.choice([1, 1, 2, 4]),
                queue=LENDER,
            )
        )
    return found


class Profiler:
    """Tells the scheduler of each training's rhythm when four of its epochs have passed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def look(self, simulation: Simulation) -> bool:
        """Called at every moment of the simulation; never ends it."""
        snapshot, now = simulation.snapshot, simulation.now
        for id_, run in simulation.effects.runs.items():
            period, job = run.work.save_every, run.job
            known = id_ in snapshot.tags
            if period is None or job.started_at is None or job.phase not in HOLDING:
                if known:
                    snapshot.note(id_, None)
                continue
            began = job.started_at + COSTS.start
            if not known and now - began >= RECOGNISED * period:
                snapshot.note(id_, self._tag(id_, job.attempt, began, period))
        return False

    def _tag(self, job: JobId, attempt: int, began: float, period: float) -> Tag:
        chance = random.Random(f"{self._seed} {job} {attempt}")
        off = chance.uniform(-0.5, 0.5) + 0.01 * period * chance.uniform(-1.0, 1.0)
        return Tag(kind=WorkloadKind.TRAINING, at=began, expires=1e12, period=period, boundary=began + off)


def silent(snapshot: Snapshot, now: float) -> Decisions:
    """What is decided of jobs that report no checkpoint."""
    for entry in snapshot.entries.values():
        entry.saved_at = entry.started_at
    return cycle.decide(snapshot, now)


def side(seed: int, hours: float, epochs: tuple[float, float], *, told: bool, reports: bool) -> Side:
    simulation = Simulation(
        parse_nodes(POOL),
        QUEUES,
        works(seed, hours, epochs),
        costs=COSTS,
        begin=0.0,
        decide=cycle.decide if reports else silent,
    )
    result = simulation.run(until=Profiler(seed).look if told else None)
    assert not result.violations, result.violations
    return measure(result)


def measure(result: Result) -> Side:
    trainings = [ran for ran in result.jobs if ran.work.queue == BORROWER]
    short = [ran for ran in result.jobs if ran.work.queue == LENDER and ran.started is not None]
    return Side(
        lost=sum(ran.lost for ran in trainings),
        pauses=sum(ran.pauses for ran in trainings),
        waits={ran.work.id: ran.started - ran.work.submit for ran in short if ran.started is not None},
    )


def compare(seeds: int, hours: float, epochs: tuple[float, float], *, reports: bool) -> dict[str, float]:
    """All seeds, blind and told."""
    each = range(FIRST_SEED, FIRST_SEED + seeds)
    blind = [side(seed, hours, epochs, told=False, reports=reports) for seed in each]
    told = [side(seed, hours, epochs, told=True, reports=reports) for seed in each]
    lost = [sum(one.lost for one in sides) / sum(one.pauses for one in sides) for sides in (blind, told)]
    wait = [fmean(wait for one in sides for wait in one.waits.values()) for sides in (blind, told)]
    return {
        "lost_blind": round(lost[0], 1),
        "lost": round(lost[1], 1),
        "ratio": round(lost[1] / lost[0], 2),
        "wait_blind": round(wait[0], 1),
        "wait": round(wait[1], 1),
        "pauses": sum(one.pauses for one in told),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hours", type=float, default=6.0)
    given = parser.parse_args()
    figures: dict[str, float] = {}
    for reports in (False, True):
        for name, epochs in LENGTHS.items():
            found = compare(given.seeds, given.hours, epochs, reports=reports)
            whose = "reporting" if reports else "silent"
            print(f"epochs of {name}, {whose}: {found}", file=sys.stderr)
            figures |= {f"{whose}_{name}_{figure}": value for figure, value in found.items()}
    print(json.dumps({**figures, "seeds": given.seeds, "hours": given.hours, **facts()}))


if __name__ == "__main__":
    main()
