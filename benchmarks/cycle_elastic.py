"""How long one elastic decision takes, from 64 to 10,240 GPUs, with two jobs waiting for each GPU.

Half of the teams train elastic jobs that were measured, on all the GPUs that these can use: their GPUs flow
to where they buy most. The other half has the backlog, elastic jobs too. Then things happen, one at a time: a
job reports a new curve, ends, or comes; the time runs from each to the decisions on it being recorded.
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.cycle import NOW, PER_NODE, a_pool, say
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import Job, Launch, Phase, Spec
from grus.model.queues import Queue, Quota
from grus.model.resources import Range, Replica, Request, Role
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Decisions, Pause, Resize, Start
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.scheduler.state.snapshot import Snapshot

SIZES = (64, 512, 2048, 10_240)
TEAMS = 8
LARGEST = 16
FOUND_REST = 200
"""Decisions within which the scene must have come to rest before anything is timed."""


def an_outlook(rng: random.Random) -> Outlook:
    power, left = rng.uniform(0.3, 1.0), 10 ** rng.uniform(2.0, 5.5)
    sizes = tuple(range(1, LARGEST + 1))
    return Outlook(sizes, tuple(size**power for size in sizes), left=left, stall=1.0, boot=30.0)


class Scene:
    """A pool in the middle of things."""

    def __init__(self, gpus: int, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.now = NOW
        self.count = 0
        quota = Quota.of(gpus // TEAMS)
        queues = [Queue(name=QueueName(f"team-{i}"), quota=quota) for i in range(TEAMS)]
        self.snapshot = Snapshot(a_pool(gpus), queues)
        for _ in range(gpus // PER_NODE):
            self.arrive(trading=True)
        for _ in range(2 * gpus + gpus // 2):
            self.arrive(trading=False)
        for _ in range(FOUND_REST):
            if not self.decide().actions:
                return
        raise RuntimeError("the scene does not come to rest")

    def arrive(self, trading: bool) -> None:
        """Another job, of a team that trades what it has or of one with a backlog."""
        team = self.rng.randrange(TEAMS // 2) * 2 + (not trading)
        role = Role("worker", Range(1, LARGEST), Replica())
        spec = Spec(
            name="job",
            queue=QueueName(f"team-{team}"),
            run=("true",),
            request=Request((role,)),
            launch=Launch.PER_GPU,
        )
        self.count += 1
        user = UserName(f"user-{self.rng.randrange(4)}")
        job = Job(id=JobId(f"j{self.count:07}"), spec=spec, user=user, submitted_at=self.now)
        self.snapshot.put(job)
        self.snapshot.expect(job.id, an_outlook(self.rng))

    def end(self, trading: bool) -> None:
        job = self.rng.choice(self.running(trading))
        self.snapshot.put(replace(job, phase=Phase.SUCCEEDED, seats=()))

    def report(self) -> None:
        self.snapshot.expect(self.rng.choice(self.running(trading=True)).id, an_outlook(self.rng))

    def running(self, trading: bool) -> list[Job]:
        leaves = self.snapshot.tree.by_name
        return [
            entry.job
            for team in range(not trading, TEAMS, 2)
            for entry in leaves[QueueName(f"team-{team}")].running.values()
        ]

    def decide(self) -> Decisions:
        """Decide and record; seats that were given back are free by the next decision."""
        decisions = decide(self.snapshot, self.now)
        for action in decisions.actions:
            job = self.snapshot.job(action.job)
            assert job is not None
            if isinstance(action, Start):
                job = replace(job, phase=Phase.RUNNING, seats=action.seats, started_at=self.now, generation=1)
            elif isinstance(action, Resize):
                staying = tuple(seat for seat in action.seats if not seat.leaving)
                job = replace(job, seats=staying, generation=job.generation + 1)
            elif isinstance(action, Pause):
                job = replace(job, phase=Phase.PAUSED, seats=())
            self.snapshot.put(job)
        return decisions

    def timed(self, event: Callable[[], None], times: list[float]) -> None:
        """Let something happen, and decide until there is nothing more to do; each decision counts."""
        event()
        self.now += 1.0
        for _ in range(FOUND_REST):
            begin = time.perf_counter()
            actions = self.decide().actions
            times.append(time.perf_counter() - begin)
            if not actions:
                return
        raise RuntimeError("the scene does not come to rest")


def elastic_times(gpus: int, rounds: int) -> list[float]:
    """Seconds of every decision, ascending."""
    say(f"{gpus} GPUs, {2 * gpus} jobs waiting, elastic: building")
    scene = Scene(gpus)
    times: list[float] = []
    for _ in range(rounds):
        for event in (scene.report, lambda: scene.end(True), lambda: scene.arrive(True)):
            scene.timed(event, times)
        scene.timed(lambda: scene.end(False), times)
    return sorted(times)


def elastic_figures(sizes: tuple[int, ...], rounds: int) -> dict[str, float]:
    found: dict[str, float] = {}
    medians = []
    for gpus in sizes:
        times = elastic_times(gpus, rounds)
        median, late = times[len(times) // 2], times[int(0.99 * (len(times) - 1))]
        say(f"  {len(times)} decisions: median {median * 1e3:.1f} ms, p99 {late * 1e3:.1f} ms")
        found[f"elastic_p50_ms_{gpus}"] = round(median * 1e3, 2)
        found[f"elastic_p99_ms_{gpus}"] = round(late * 1e3, 2)
        medians.append(median)
    found["growth_exponent"] = round(exponent(sizes, medians), 2)
    return found


def exponent(sizes: tuple[int, ...], times: list[float]) -> float:
    """The power of the pool's size with which the time grows: the slope in logarithms."""
    xs, ys = [math.log(size) for size in sizes], [math.log(each) for each in times]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - mean_x) ** 2 for x in xs)
