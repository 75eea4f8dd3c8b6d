"""What the Simulate page asks: the form as it is sent, and the worlds that are made of it.

What can be judged without a job is judged at once; the jobs are gathered afterwards, off the request's path,
with the rights of whoever asks. So a simulation tells nobody of jobs that they may not see.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from grus.api.units import parse_seconds
from grus.controlplane.access import is_admin
from grus.controlplane.services import Services
from grus.model.cluster import Health, Node
from grus.model.errors import BadInput, Mistake
from grus.model.jobs import TERMINAL, Job
from grus.model.ports import Event, User
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
from grus.model.resources import GPU
from grus.scheduling.quota import default_queue
from grus.simulation.history import from_jobs
from grus.simulation.pools import count_gpus, largest_node, parse_nodes, quotas_by_use
from grus.simulation.what_if import PRESENT, Change, Chaos, Scenario, changed
from grus.simulation.work import Work
from grus.simulation.workloads import Mix, synthesize

MOST_JOBS = 20_000
"""Of the history, the last ones to be submitted."""
MOST_MADE_UP = 20_000.0
"""Days times jobs a day."""
MOST_PLAYED = 200_000
"""Jobs of one side in all its worlds: more than can be played in the time that there is."""
PAGE = 1000
SHORTEST_BETWEEN = 60.0
"""Seconds between two failures of a node: less is no pool but a fire."""

Text = Annotated[str, Field(max_length=400)]


class WhatIfIn(BaseModel):
    """The form. What is left out is as today."""

    model_config = ConfigDict(extra="forbid")

    source: Literal["history", "synthetic"] = "history"
    days: Annotated[float, Field(gt=0, le=366)] = 7.0
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
    change: Change
    seeds: int = 1
    static: bool = True
    chaos: Chaos | None = None
    notes: tuple[str, ...] = ()
    """What the reader of the answer should know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What is simulated, before its jobs are known; queues are empty where they follow from the jobs."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]


def judged(asked: WhatIfIn, does: Services, user: User) -> Pool:
    """The pool that is meant. Raises BadInput with all that can be said against the form by itself."""
    mistakes: list[Mistake] = []
    nodes, queues = tuple(map(_sound, does.nodes(user))), tuple(does.queue_settings(user))
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
    pool = Pool(nodes=nodes, queues=queues)
    mistakes += _change_mistakes(pool, asked)
    if mistakes:
        raise BadInput(mistakes)
    return pool


def _sound(node: Node) -> Node:
    """The node without what is wrong with it at the moment: the question is about weeks."""
    devices = tuple(replace(one, health=Health.HEALTHY, outside="") for one in node.devices)
    return replace(node, devices=devices, cordoned=False)


def _change(asked: WhatIfIn, pool: Pool) -> Change:
    change = Change(
        add_nodes=asked.add_nodes.strip(),
        remove=asked.remove,
        quotas=asked.quotas,
        load=asked.load,
        policy=asked.policy,
    )
    return replace(change, quotas={**_rest(change, pool), **change.quotas}) if change.quotas else change


def _rest(change: Change, pool: Pool) -> dict[str, float]:
    """What other quotas leave to the default queue, as on the live pool."""
    if all(queue.name != DEFAULT_QUEUE for queue in pool.queues):
        return {}
    left = [node for node in pool.nodes if node.id not in change.remove]
    try:
        gpus = count_gpus(left) + count_gpus(parse_nodes(change.add_nodes) if change.add_nodes else ())
    except BadInput:
        return {}  # said elsewhere
    others = [
        replace(queue, quota=Quota.of(change.quotas[queue.name])) if queue.name in change.quotas else queue
        for queue in pool.queues
        if queue.name != DEFAULT_QUEUE
    ]
    return {DEFAULT_QUEUE: default_queue(others, gpus * GPU).quota.total / GPU}


def _change_mistakes(pool: Pool, asked: WhatIfIn) -> list[Mistake]:
    if not pool.nodes:
        return []  # said already
    change = _change(asked, pool)
    if not pool.queues:  # they follow from the jobs: the simulator judges the quotas when it has them
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


def question(asked: WhatIfIn, pool: Pool, does: Services, user: User) -> Question:
    """The whole question, with the jobs. May take seconds; raises BadInput where there are none."""
    notes = []
    if asked.source == "history":
        works, cut = _history(does, user)
        if cut:
            notes.append(f"Of the history, the last {MOST_JOBS} jobs are played.")
        if not is_admin(user):
            notes.append("Jobs that you may not see are left out: the pool looks emptier than it is.")
    else:
        works = _made_up(asked, pool)
    _require_bounds(len(works), asked)
    own = {queue.name for queue in pool.queues} >= {work.queue for work in works}
    queues = pool.queues if own else tuple(quotas_by_use(works, pool.nodes, least=1))
    between = parse_seconds(asked.faults) if asked.faults else None
    return Question(
        title=_title(asked, pool, works),
        present=Scenario(PRESENT, pool.nodes, queues, tuple(works)),
        change=_change(asked, pool),
        seeds=asked.seeds,
        static=asked.static,
        chaos=None if between is None else Chaos(between),
        notes=tuple(notes),
    )


def _require_bounds(works: int, asked: WhatIfIn) -> None:
    played = works * max(1.0, asked.load) * asked.seeds
    if played > MOST_PLAYED:
        rule = f"with {works} jobs and {asked.load:g} times the load is more than {MOST_PLAYED} jobs to play"
        raise BadInput(
            [Mistake("seeds", f"{rule}; ask for fewer worlds, or a smaller load", str(asked.seeds))]
        )


def _title(asked: WhatIfIn, pool: Pool, works: Sequence[Work]) -> str:
    jobs = f"{len(works)} jobs of the history" if asked.source == "history" else f"{len(works)} made-up jobs"
    return f"{jobs} on {asked.nodes or 'this pool'} ({count_gpus(pool.nodes)} GPUs)"


def _history(does: Services, user: User) -> tuple[list[Work], bool]:
    """What has ended, and whether there was more."""
    found = list(islice(_ended(does, user), MOST_JOBS + 1))
    works = from_jobs(found[:MOST_JOBS], _events(does, user))
    if not works:
        raise BadInput([Mistake("source", "the history has no ended job yet; choose made-up jobs")])
    return works, len(found) > MOST_JOBS


def _ended(does: Services, user: User) -> Iterator[Job]:
    after = None
    while page := does.jobs(user, phases=tuple(TERMINAL), limit=PAGE, after=after):
        yield from page
        after = page[-1].id


def _events(does: Services, user: User) -> Iterator[Event]:
    after = 0
    while page := does.events(user, after=after, limit=PAGE):
        yield from page
        after = page[-1].seq


def _ends(queues: Sequence[Queue]) -> tuple[str, ...]:
    """Queues at the tree's ends with a GPU of their own: sessions are never preempted and need one."""
    above = {queue.parent for queue in queues}
    return tuple(
        sorted(queue.name for queue in queues if queue.name not in above and queue.quota.total >= GPU)
    )


def _made_up(asked: WhatIfIn, pool: Pool) -> list[Work]:
    """Jobs for the pool's own queues, where there are any to be used."""
    mix = Mix(days=asked.days, jobs=asked.jobs)
    largest = min(mix.largest, largest_node(pool.nodes))
    works = synthesize(replace(mix, queues=_ends(pool.queues) or mix.queues, largest=largest), asked.seed)
    if not works:
        rule = "makes no jobs at all; ask for more days or jobs"
        raise BadInput([Mistake("jobs", rule, f"{asked.jobs:g}")])
    return works
