"""What-if simulations: another pool, other quotas, more load, and the same jobs on a static split of the
pool.

Each seed is one possible world. Seed 0 is the trace as it is; the others keep the arrivals, and draw their
requests again from the same queue's jobs. Present and what-if share the seeds, so that their difference is
not one of luck.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId, QueueName
from grus.model.nodes import Node
from grus.model.queues import Queue, Quota, check_tree
from grus.model.resources import GPU, Range
from grus.scheduler.queues.policies import GRUS, policy_named
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.cluster_spec import count_gpus, parse_nodes, shares
from grus.simulator.events.decision_executor import Costs
from grus.simulator.html_pages.charts import Drawn, draw
from grus.simulator.outcome_metrics import MeasuredTimes, SimulationOutcome, measure
from grus.simulator.simulator import Fault, Progress, Simulation, check_fits
from grus.simulator.workload.job_work import TraceJob
from grus.simulator.workload.synthetic import random_faults
from grus.simulator.workload.traces import refuse

PRESENT, WHAT_IF, STATIC = "present", "what if", "static split"
JITTER = 3600.0
"""Seconds by which a job that was added to raise the load may come later than the one it copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioChange:
    """The differences from the present."""

    add_nodes: str = ""
    remove: tuple[str, ...] = ()
    quotas: Mapping[str, float] = field(default_factory=dict)
    load: float = 1.0
    policy: str = ""
    """Another policy than the present one's."""

    @property
    def nothing(self) -> bool:
        return not (self.add_nodes or self.remove or self.quotas or self.policy) and self.load == 1.0

    def words(self) -> str:
        """The change, for people."""
        parts = [f"with {self.add_nodes} more" if self.add_nodes else ""]
        parts += [f"without {', '.join(self.remove)}" if self.remove else ""]
        parts += [f"with quota {name}={gpus:g}" for name, gpus in self.quotas.items()]
        parts += [f"under the policy {self.policy}" if self.policy else ""]
        parts += [f"at {self.load:g} times the load" if self.load != 1.0 else ""]
        return " and ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A pool, its queues, and what comes: everything that one simulation needs."""

    name: str
    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    works: tuple[TraceJob, ...]
    costs: Costs = field(default_factory=Costs)
    faults: tuple[Fault, ...] = ()
    policy: str = GRUS.name
    draw: bool = False
    """True if its drawable data is kept too."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """Results of one scenario."""

    outcome: SimulationOutcome
    drawn: Drawn | None = None


@dataclass(frozen=True, slots=True)
class Chaos:
    """Mean time between failures of a node, and the time of its repair, in seconds."""

    between: float
    repair: float = 4 * 3600.0


def run(scenario: Scenario, progress: Progress | None = None, every: int = 1000) -> Simulated:
    """Run one simulation; a function of values, so that several can run on several cores.

    `progress` is called after each `every` ended jobs.
    """
    made = Simulation(
        scenario.nodes,
        scenario.queues,
        scenario.works,
        costs=scenario.costs,
        faults=scenario.faults,
        policy=policy_named(scenario.policy),
        history=scenario.draw,
    ).run(progress, every)
    return Simulated(measure(made), draw(made) if scenario.draw else None)


def one_by_one(scenarios: Sequence[Scenario]) -> list[Simulated]:
    return [run(scenario) for scenario in scenarios]


Runner = Callable[[Sequence[Scenario]], list[Simulated]]
"""Runs all of them, on as many cores as it likes, and keeps their order."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the columns: the outcomes of a scenario, one a seed."""

    name: str
    outcomes: tuple[SimulationOutcome, ...]
    drawn: Drawn | None = None
    """Drawable data of the first seed, if it was requested."""


@dataclass(frozen=True, slots=True)
class WhatIfComparison:
    """The sides, the present first."""

    change: ScenarioChange
    sides: tuple[Side, ...]
    measured: MeasuredTimes | None = None
    """The same jobs as they were, where they are of a history."""

    def side(self, name: str) -> Side | None:
        return next((side for side in self.sides if side.name == name), None)


def compare(
    present: Scenario,
    change: ScenarioChange,
    *,
    seeds: int = 1,
    static: bool = True,
    chaos: Chaos | None = None,
    draw: bool = False,
    runner: Runner = one_by_one,
) -> WhatIfComparison:
    """Simulate the present, the change, and the same jobs on a static split, for each seed. All input is
    checked before the first simulation. `draw`: keep the drawable data of the first seed.
    """
    judge(present, change, static)
    made: dict[str, list[Scenario]] = {}
    for seed in range(seeds):
        world = replace(present, works=tuple(resample(present.works, seed)), draw=draw and seed == 0)
        made.setdefault(PRESENT, []).append(with_faults(world, chaos, seed))
        if not change.nothing:
            made.setdefault(WHAT_IF, []).append(with_faults(changed(world, change, seed), chaos, seed))
        if static:
            made.setdefault(STATIC, []).append(with_faults(static_split(world), chaos, seed))
    flat = [scenario for scenarios in made.values() for scenario in scenarios]
    results = iter(runner(flat))
    return WhatIfComparison(
        change, tuple(_side(name, [next(results) for _ in s]) for name, s in made.items())
    )


def _side(name: str, results: Sequence[Simulated]) -> Side:
    return Side(name, tuple(one.outcome for one in results), results[0].drawn)


def judge(present: Scenario, change: ScenarioChange, static: bool = False) -> None:
    """Raise BadInput with all errors: those of the jobs on the pool, and those of the change.

    A job that fits today and would not after the change is reported once.
    """
    mistakes = misfits(present)
    try:
        then = changed(replace(present, works=tuple(present.works)), replace(change, load=1.0), 0)
    except BadInput as error:
        mistakes += error.mistakes
    else:
        told = {(mistake.line, mistake.value) for mistake in mistakes}
        new = [] if change.nothing else [one for one in misfits(then) if (one.line, one.value) not in told]
        mistakes += [replace(one, rule=f"{change.words()} it {one.rule}") for one in new]
    if not change.load > 0:
        mistakes.append(Mistake("load", "must be above zero", f"{change.load:g}"))
    if not mistakes and static:
        mistakes += misfits(static_split(present))
    refuse(mistakes)


def misfits(scenario: Scenario) -> list[Mistake]:
    """Jobs that no state of the scenario's pool could run."""
    try:
        check_fits(Snapshot(scenario.nodes, scenario.queues), scenario.works)
    except BadInput as error:
        return list(error.mistakes)
    return []


def with_faults(scenario: Scenario, chaos: Chaos | None, seed: int) -> Scenario:
    if chaos is None or not scenario.works:
        return scenario
    begin = scenario.works[0].submit
    end = max(work.submit + work.duration for work in scenario.works)
    found = random_faults(scenario.nodes, begin, end, between=chaos.between, repair=chaos.repair, seed=seed)
    return replace(scenario, faults=tuple(found))


# -------------------------------------------------------------------------------------------- other worlds


def resample(works: Iterable[TraceJob], seed: int) -> list[TraceJob]:
    """Return the trace as it is for seed 0; else the same arrivals, each with the request of a job of its
    queue.
    """
    works = list(works)
    if seed == 0:
        return works
    chance = random.Random(f"resample/{seed}")  # noqa: S311 - seeded on purpose, no secret
    by_queue: dict[QueueName, list[TraceJob]] = {}
    for work in works:
        by_queue.setdefault(work.queue, []).append(work)
    return [replace(chance.choice(by_queue[work.queue]), id=work.id, submit=work.submit) for work in works]


def with_load(works: Iterable[TraceJob], load: float, seed: int) -> list[TraceJob]:
    """Multiply the number of jobs: each comes again (within the hour), or stays away, at random."""
    chance = random.Random(f"load/{seed}")  # noqa: S311 - seeded on purpose, no secret
    found = []
    for work in works:
        times = int(load) + (chance.random() < load - int(load))
        for copy in range(times):
            later = work.submit + (chance.random() * JITTER if copy else 0.0)
            found.append(replace(work, id=JobId(f"{work.id}.{copy}" if copy else work.id), submit=later))
    return found


def changed(present: Scenario, change: ScenarioChange, seed: int) -> Scenario:
    """The scenario with the change; BadInput with everything that is wrong with it."""
    mistakes: list[Mistake] = []
    nodes = list(present.nodes)
    names = {node.id for node in nodes}
    for name in change.remove:
        if name not in names:
            mistakes.append(Mistake("remove", f"names no node; there are {_some(sorted(names))}", name))
    nodes = [node for node in nodes if node.id not in change.remove]
    if change.add_nodes:
        try:
            nodes += parse_nodes(change.add_nodes, field="add-nodes", first=_free_number(present.nodes))
        except BadInput as error:
            mistakes += error.mistakes
    if not nodes and not mistakes:
        mistakes.append(
            Mistake("remove", "leaves no node at all; keep at least one", ", ".join(change.remove))
        )
    queues = _with_quotas(present.queues, change.quotas, count_gpus(nodes), mistakes)
    if not change.load > 0:
        mistakes.append(Mistake("load", "must be above zero", f"{change.load:g}"))
    policy = change.policy or present.policy
    try:
        policy_named(policy)
    except BadInput as error:
        mistakes += error.mistakes
    if mistakes:
        raise BadInput(mistakes)
    works = present.works if change.load == 1.0 else with_load(present.works, change.load, seed)
    return replace(
        present, name=WHAT_IF, nodes=tuple(nodes), queues=queues, works=tuple(works), policy=policy
    )


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _free_number(nodes: Iterable[Node]) -> int:
    """The first number such that no node-N from there on is taken."""
    numbers = [int(node.id[5:]) for node in nodes if node.id.startswith("node-") and node.id[5:].isdigit()]
    return max(numbers, default=-1) + 1


def _with_quotas(
    queues: tuple[Queue, ...], quotas: Mapping[str, float], gpus: int, mistakes: list[Mistake]
) -> tuple[Queue, ...]:
    names = {queue.name for queue in queues}
    for name, number in quotas.items():
        if name not in names:
            mistakes.append(Mistake("quota", f"names no queue; there are {_some(sorted(names))}", name))
        elif not 0 <= number <= gpus:
            mistakes.append(Mistake("quota", f"of {name} must be from 0 to the pool's {gpus}", f"{number:g}"))
    if mistakes or not quotas:
        return queues
    found = tuple(
        replace(queue, quota=Quota.of(quotas[queue.name])) if queue.name in quotas else queue
        for queue in queues
    )
    mistakes += check_tree(found, gpus * GPU)
    return found


# -------------------------------------------------------------------------------------------- static split


def static_split(present: Scenario) -> Scenario:
    """Every queue owns its share of the GPUs for itself: nothing is lent, nothing is taken back.

    Shares go by quota, at least one GPU each. A job that is larger than its queue's share runs on all of it,
    longer in proportion, which is kind to the split: without it the job could not run at all.
    """
    used = {work.queue for work in present.works}
    quotas = {queue.name: float(queue.quota.total) for queue in present.queues if queue.name in used}
    if not any(quotas.values()):
        quotas = dict.fromkeys(quotas, 1.0)
    own = shares(quotas, count_gpus(present.nodes), least=1)
    queues = tuple(
        Queue(name=name, quota=Quota.of(share), reserved=share * GPU, limit=share * GPU)
        for name, share in sorted(own.items())
    )
    works = tuple(_cut(work, own[work.queue]) for work in present.works)
    return replace(present, name=STATIC, queues=queues, works=works)


def _cut(work: TraceJob, share: int) -> TraceJob:
    if work.high <= share:
        return work
    work = replace(work, spec=None)  # Its request does not apply any more.
    size = Range(min(work.size.low, share), min(work.size.high, share)) if work.size else None
    size = None if size is None or size.rigid else size
    if work.gpus <= share:
        return replace(work, size=size)
    return replace(work, size=size, gpus=share, duration=work.duration * work.gpus / share)
