"""Questions of the Simulate page: the form as it is sent, and the scenarios that are made of it.

Everything that does not need a job is checked at once; the jobs are gathered afterwards, off the request's
path, with the rights of the user. So a simulation reveals no jobs that its user may not see.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from grus.controlplane.facade.services import Services
from grus.model.errors import BadInput, Mistake
from grus.model.interfaces import User
from grus.model.nodes import Node
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
from grus.model.resources import GPU
from grus.model.texts.plural_words import counted
from grus.model.texts.units import parse_seconds
from grus.reports.data_collection import Scope, gather
from grus.reports.static_split import of_past
from grus.scheduler.queues.queue_usage_tree import default_queue
from grus.simulator.cluster_spec import count_gpus, largest_node, parse_nodes, quotas_by_use
from grus.simulator.events.decision_executor import Costs
from grus.simulator.outcome_metrics import MeasuredTimes
from grus.simulator.whatif_scenarios import PRESENT, Chaos, Scenario, ScenarioChange, changed
from grus.simulator.workload.history_trace import MOST_JOBS, History, measured, sound
from grus.simulator.workload.job_work import TraceJob
from grus.simulator.workload.synthetic import Mix, synthesize

MOST_MADE_UP = 20_000.0
"""Days times jobs a day."""
MOST_PLAYED = 200_000
"""Jobs of one side in all its worlds: more than can be played in the time that there is."""
DAY = 86_400.0
SHORTEST_BETWEEN = 60.0
"""Seconds between two failures of a node: less is no pool but a fire."""

Text = Annotated[str, Field(max_length=400)]


class WhatIfIn(BaseModel):
    """The form. What is left out is as today."""

    model_config = ConfigDict(extra="forbid")

    source: Literal["history", "synthetic"] = "history"
    days: Annotated[float, Field(gt=0, le=366)] = 7.0
    """Jobs of the history, or made up."""
    jobs: Annotated[float, Field(gt=0, le=10_000)] = 100.0
    """A day, made up."""
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    nodes: Text = ""
    """Another pool than this one, as `2x8xA100`."""
    add_nodes: Text = ""
    remove: Annotated[tuple[Text, ...], Field(max_length=10_000)] = ()
    quotas: Annotated[dict[str, Annotated[float, Field(ge=0, le=1e6)]], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    load: Annotated[float, Field(gt=0, le=20)] = 1.0
    policy: Text = ""
    seeds: Annotated[int, Field(ge=1, le=10)] = 1
    static: bool = True
    faults: Text = ""
    """Mean time between two failures of a node, as `30d`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All that the simulator needs."""

    title: str
    present: Scenario
    change: ScenarioChange
    seeds: int = 1
    static: bool = True
    chaos: Chaos | None = None
    measured: MeasuredTimes | None = None
    """The same jobs as they were, where they are of a history."""
    notes: tuple[str, ...] = ()
    """Notes for the reader of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPool:
    """The simulated pool, before its jobs are known; queues are empty if they follow from the jobs."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]


def judged(asked: WhatIfIn, does: Services, user: User) -> SimulatedPool:
    """The pool that is meant. Raises BadInput with all that can be said against the form by itself."""
    mistakes: list[Mistake] = []
    nodes, queues = tuple(map(sound, does.pool.nodes(user))), tuple(does.queues.settings(user))
    if asked.nodes:
        queues = ()
        try:
            nodes = parse_nodes(asked.nodes)
        except BadInput as error:
            mistakes += error.mistakes
    elif not nodes:
        mistakes.append(Mistake("nodes", "this pool has none; say which to simulate, such as 2x8xA100"))
    if asked.source == "synthetic" and asked.days * asked.jobs > MOST_MADE_UP:
        rule = f"times the jobs a day must be at most {MOST_MADE_UP:g} jobs"
        mistakes.append(Mistake("days", rule, f"{asked.days:g}"))
    mistakes += _fault_mistakes(asked.faults)
    pool = SimulatedPool(nodes=nodes, queues=queues)
    mistakes += _change_mistakes(pool, asked)
    if mistakes:
        raise BadInput(mistakes)
    return pool


def _change(asked: WhatIfIn, pool: SimulatedPool) -> ScenarioChange:
    change = ScenarioChange(
        add_nodes=asked.add_nodes.strip(),
        remove=asked.remove,
        quotas=asked.quotas,
        load=asked.load,
        policy=asked.policy,
    )
    return replace(change, quotas={**_rest(change, pool), **change.quotas}) if change.quotas else change


def _rest(change: ScenarioChange, pool: SimulatedPool) -> dict[str, float]:
    """Return the GPUs that other quotas leave to the default queue, as on the live pool."""
    if all(queue.name != DEFAULT_QUEUE for queue in pool.queues):
        return {}
    left = [node for node in pool.nodes if node.id not in change.remove]
    try:
        gpus = count_gpus(left) + count_gpus(parse_nodes(change.add_nodes) if change.add_nodes else ())
    except BadInput:
        return {}  # reported elsewhere
    others = [
        replace(queue, quota=Quota.of(change.quotas[queue.name])) if queue.name in change.quotas else queue
        for queue in pool.queues
        if queue.name != DEFAULT_QUEUE
    ]
    return {DEFAULT_QUEUE: default_queue(others, gpus * GPU).quota.total / GPU}


def _change_mistakes(pool: SimulatedPool, asked: WhatIfIn) -> list[Mistake]:
    if not pool.nodes:
        return []  # reported already
    change = _change(asked, pool)
    if not pool.queues:  # they follow from the jobs: the simulator checks the quotas when it has them
        change = replace(change, quotas={})
    try:
        changed(Scenario(PRESENT, pool.nodes, pool.queues, ()), change, 0)
    except BadInput as error:
        return error.mistakes
    return []


def _fault_mistakes(faults: str) -> list[Mistake]:
    if not faults:
        return []
    try:
        between = parse_seconds(faults)
    except ValueError as error:
        return [Mistake("faults", str(error), faults)]
    return [] if between >= SHORTEST_BETWEEN else [Mistake("faults", "must be at least a minute", faults)]


# ---------------------------------------------------------------------------------------------- gathering


def question(asked: WhatIfIn, pool: SimulatedPool, does: Services, user: User) -> Question:
    """The whole question, with the jobs. May take seconds; raises BadInput where there are none."""
    past = _history(asked, does, user) if asked.source == "history" else None
    works = _made_up(asked, pool) if past is None else past.works()
    _require_bounds(len(works), asked)
    own = {queue.name for queue in pool.queues} >= {work.queue for work in works}
    queues = pool.queues if own else tuple(quotas_by_use(works, pool.nodes, least=1))
    between = parse_seconds(asked.faults) if asked.faults else None
    costs = Costs() if past is None else past.costs
    return Question(
        title=_title(asked, pool, works),
        present=Scenario(PRESENT, pool.nodes, queues, tuple(works), costs),
        change=_change(asked, pool),
        seeds=asked.seeds,
        static=asked.static,
        chaos=None if between is None else Chaos(between),
        measured=None if past is None or asked.nodes else measured(past),
        notes=() if past is None else tuple(_notes(past)),
    )


def _notes(past: History) -> Iterator[str]:
    if len(past.jobs) == MOST_JOBS:
        yield f"Of the history, the last {MOST_JOBS} jobs are simulated."
    if not past.whole:
        yield "Jobs that you may not see are left out: the pool looks emptier than it is."


def _require_bounds(works: int, asked: WhatIfIn) -> None:
    played = works * max(1.0, asked.load) * asked.seeds
    if played > MOST_PLAYED:
        rule = f"with {works} jobs and {asked.load:g} times the load is more than {MOST_PLAYED} jobs to play"
        raise BadInput(
            [Mistake("seeds", f"{rule}; ask for fewer worlds, or a smaller load", str(asked.seeds))]
        )


def _title(asked: WhatIfIn, pool: SimulatedPool, works: Sequence[TraceJob]) -> str:
    jobs = (
        f"{counted(len(works), 'job')} of the history"
        if asked.source == "history"
        else f"{counted(len(works), 'made-up job')}"
    )
    return f"{jobs} on {asked.nodes or 'this pool'} ({counted(count_gpus(pool.nodes), 'GPU')})"


def _history(asked: WhatIfIn, does: Services, user: User) -> History:
    """The jobs that were submitted and ended in the last days, as reports measure them."""
    now = does.clock()
    found = of_past(gather(does, user, Scope(since=now - asked.days * DAY, until=now)))
    if not found.jobs:
        rule = f"the last {asked.days:g} days have no ended job; choose more days, or made-up jobs"
        raise BadInput([Mistake("source", rule)])
    return found


def _ends(queues: Sequence[Queue]) -> tuple[str, ...]:
    """Queues at the tree's ends with a GPU of their own: sessions are non-preemptible and need one."""
    above = {queue.parent for queue in queues}
    return tuple(
        sorted(queue.name for queue in queues if queue.name not in above and queue.quota.total >= GPU)
    )


def _made_up(asked: WhatIfIn, pool: SimulatedPool) -> list[TraceJob]:
    """Jobs for the pool's own queues, where there are any to be used."""
    mix = Mix(days=asked.days, jobs=asked.jobs)
    largest = min(mix.largest, largest_node(pool.nodes))
    works = synthesize(replace(mix, queues=_ends(pool.queues) or mix.queues, largest=largest), asked.seed)
    if not works:
        rule = "makes no jobs at all; ask for more days or jobs"
        raise BadInput([Mistake("jobs", rule, f"{asked.jobs:g}")])
    return works
