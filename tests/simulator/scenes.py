"""Small builders for simulations, in the words of the tests of scheduling."""

from collections.abc import Sequence

from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import PRIORITIES, JobType
from grus.model.queues import Queue
from grus.model.resources import GPU, Range
from grus.simulator.events.decision_executor import Costs
from grus.simulator.events.run_results import JobOutcome, Result
from grus.simulator.simulator import Fault, Simulation
from grus.simulator.workload.job_work import Linear, TraceJob
from tests.scheduler.builders import a_pool, a_queue

FREE = Costs(start=0.0, pause=0.0, resize=0.0, leave=0.0)
"""Nothing costs any time: figures can be worked out in the head."""


def a_work(
    name: str,
    *,
    submit: float = 0.0,
    duration: float = 100.0,
    gpus: float = 1,
    size: tuple[int, int] | None = None,
    queue: str = "default",
    user: str = "ann",
    dev: bool = False,
    priority: int | None = None,
    efficiency: float = 1.0,
    save_every: float | None = None,
    grace: float = 30.0,
    max_runtime: float | None = None,
    reports: bool = False,
) -> TraceJob:
    usual = PRIORITIES["dev" if dev else "train"]
    return TraceJob(
        id=JobId(name),
        submit=submit,
        duration=duration,
        gpus=gpus,
        size=Range(*size) if size else None,
        reports=reports,
        queue=QueueName(queue),
        user=UserName(user),
        type=JobType.DEV if dev else JobType.TRAIN,
        priority=usual if priority is None else priority,
        speedup=Linear(efficiency),
        save_every=save_every,
        grace=grace,
        max_runtime=max_runtime,
    )


def a_simulation(
    pool: str,
    works: Sequence[TraceJob],
    *queues: Queue,
    costs: Costs = FREE,
    faults: Sequence[Fault] = (),
    history: bool = True,
) -> Simulation:
    nodes = a_pool(pool)
    whole = sum(len(node.devices) for node in nodes)
    used = queues or (a_queue("default", quota=whole),)
    return Simulation(nodes, used, works, costs=costs, faults=faults, history=history)


def simulated(
    pool: str,
    works: Sequence[TraceJob],
    *queues: Queue,
    costs: Costs = FREE,
    faults: Sequence[Fault] = (),
) -> dict[str, JobOutcome]:
    """What became of each job, by name."""
    return by_name(a_simulation(pool, works, *queues, costs=costs, faults=faults).run())


def by_name(result: Result) -> dict[str, JobOutcome]:
    return {ran.work.id: ran for ran in result.jobs}


def held_at(result: Result, moment: float, queue: str | None = None) -> float:
    """GPUs that the queue's jobs hold just after a moment."""
    return sum(
        span.gpus
        for ran in result.jobs
        for span in ran.spans
        if queue in (None, ran.work.queue) and span.begin <= moment < span.end
    )


def running_at(result: Result, moment: float) -> set[str]:
    return {ran.work.id for ran in result.jobs for span in ran.spans if span.begin <= moment < span.end}


def micro(gpus: float) -> int:
    return round(gpus * GPU)
