"""Random traces: the same bytes every time, every rule kept at every moment, nothing left over."""

import random
from dataclasses import replace

import pytest

from grus.model.jobs import Job
from grus.model.queues import Queue
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Decisions
from grus.simulator.events.decision_executor import Costs
from grus.simulator.simulator import Simulation
from grus.simulator.workload.job_work import TraceJob
from grus.simulator.workload.synthetic import random_faults
from tests.scheduler import invariants
from tests.scheduler.builders import a_pool, a_queue
from tests.scheduler.reference import Facts
from tests.simulator.scenes import a_work

COSTS = Costs(start=3.0, pause=4.0, resize=0.5, leave=1.5)
QUEUES = (
    a_queue("A", quota=3, reserved=1),
    a_queue("B", quota=3, weight=2.0, limit=6),
    a_queue("C", quota=1),
)


def a_trace(seed: int, jobs: int = 40) -> list[TraceJob]:
    chance = random.Random(seed)
    works = []
    for number in range(jobs):
        gpus: float = chance.choice((1, 1, 1, 2, 4))
        size = None
        dev = chance.random() < 0.15
        if dev:
            gpus = chance.choice((0.5, 1))
        elif chance.random() < 0.3:
            size = (int(gpus), int(gpus) + chance.choice((1, 3)))
        works.append(
            a_work(
                f"j{number:02}",
                submit=float(chance.randrange(400)),
                duration=float(chance.randrange(5, 300)),
                gpus=gpus,
                size=size,
                queue=chance.choice("ABC"),
                user=chance.choice(("ann", "bob")),
                dev=dev,
                efficiency=chance.choice((0.5, 0.9, 1.0)),
                save_every=chance.choice((None, 20.0)),
                grace=chance.choice((2.0, 30.0)),
                max_runtime=chance.choice((None, 400.0)),
            )
        )
    return works


def a_run(seed: int, queues: tuple[Queue, ...] = QUEUES, **more: object) -> Simulation:
    nodes = a_pool("2x4")
    faults = random_faults(nodes, 0.0, 600.0, between=400.0, repair=50.0, seed=seed)
    return Simulation(nodes, queues, a_trace(seed), costs=COSTS, faults=faults, history=True, **more)  # type: ignore[arg-type]  # keywords of many types


@pytest.mark.parametrize("seed", range(6))
def test_the_same_trace_and_seed_give_the_same_bytes(seed: int) -> None:
    assert repr(a_run(seed).run()) == repr(a_run(seed).run())


@pytest.mark.parametrize("seed", range(3))
def test_the_order_in_which_jobs_and_queues_are_listed_does_not_matter(seed: int) -> None:
    nodes = a_pool("2x4")
    works = a_trace(seed)
    shuffled = random.Random(1).sample(works, len(works))
    first = Simulation(nodes, QUEUES, works, costs=COSTS).run()
    second = Simulation(nodes[::-1], QUEUES[::-1], shuffled, costs=COSTS).run()
    assert repr(first) == repr(second)


@pytest.mark.parametrize("seed", range(12))
def test_every_rule_holds_after_every_decision(seed: int) -> None:
    judge = Judge()
    simulation = a_run(seed, decide=judge.decide, watch=judge.watch)
    judge.simulation = simulation
    result = simulation.run()
    assert judge.seen > 50
    assert result.violations == ()
    assert all(ran.ended is not None for ran in result.jobs)


class Judge:
    """Compares the facts before and after every decision with the naive reference."""

    def __init__(self) -> None:
        self.simulation: Simulation | None = None
        self.before: Facts | None = None
        self.seen = 0

    def facts(self) -> Facts:
        simulation = self.simulation
        assert simulation is not None
        jobs: tuple[Job, ...] = tuple(run.job for run in simulation.effects.runs.values())
        snapshot = simulation.snapshot
        assert all(snapshot.job(job.id) is job for job in jobs), "the snapshot is not up to date"
        assert set(snapshot.entries) == {job.id for job in jobs}
        return Facts(snapshot.nodes, snapshot.queue_list, jobs, frozenset(), simulation.now)

    def decide(self, snapshot: object, now: float) -> Decisions:
        self.before = self.facts()
        return decide(snapshot, now)  # type: ignore[arg-type]  # a stand-in

    def watch(self, simulation: Simulation, decisions: Decisions) -> None:
        assert self.before is not None
        self.seen += 1
        wrong = invariants.of_step(self.before, decisions, self.facts())
        assert not wrong, f"{simulation.now}: {wrong}"


@pytest.mark.parametrize("seed", range(4))
def test_when_nobody_waits_or_could_grow_the_scheduler_has_nothing_to_say(seed: int) -> None:
    """So it need not be asked."""
    asked = 0

    class Asking(Simulation):
        def _decide(self) -> bool:
            nonlocal asked
            if self.effects.nothing_to_decide():
                asked += 1
                assert decide(self.snapshot, self.now).actions == ()
            return super()._decide()

    rigid = [replace(work, size=None) for work in a_trace(seed, jobs=12)]
    Asking(a_pool("2x4"), QUEUES, rigid, costs=COSTS).run()
    assert asked > 1


@pytest.mark.parametrize("seed", range(4))
def test_what_is_held_never_exceeds_the_pool_and_adds_up(seed: int) -> None:
    result = a_run(seed).run()
    assert max(moment.held for moment in result.moments) <= 8
    held = sum(ran.held for ran in result.jobs)
    spans = sum((span.end - span.begin) * span.gpus for ran in result.jobs for span in ran.spans)
    assert held == pytest.approx(spans)
    assert held <= result.offered + 1e-6
    for ran in result.jobs:
        rate = max(1.0, ran.work.rate(ran.work.high))
        assert ran.held * rate + 1e-6 >= ran.useful, "no work without GPUs"


def test_rigid_jobs_of_one_pool_lose_nothing_without_faults() -> None:
    works = [replace(work, size=None, grace=30.0) for work in a_trace(1)]
    result = Simulation(a_pool("2x4"), QUEUES, works, costs=COSTS).run()
    assert sum(ran.lost for ran in result.jobs) == 0.0
    for ran in result.jobs:
        starts = ran.pauses + 1
        assert ran.held == pytest.approx(
            ran.work.gpus * (ran.work.duration + starts * 3.0 + ran.pauses * 4.0), abs=12.0 * starts
        )
