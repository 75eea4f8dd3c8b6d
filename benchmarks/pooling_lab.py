"""The lab of the pooling benchmark: 20 people, what they own, and how they work.

Everybody's need comes in phases: one to two weeks of experiments, then three to six of other things (data,
writing, meetings), as before a deadline and after it. Inside a phase people work in a closed loop, as people
do. Somebody thinks, builds (an interactive session on a slice of a GPU), both in working hours, and starts an
experiment (some variants of a training at once); then the next, but nobody follows more than three of them
at a time: with three open one waits until all variants of one have ended. So whoever gets results sooner
tries more. An open loop, with the same jobs at the same times whatever the pool does, would show shorter
times but could not show more work. Retraining of what is in use comes by night, whatever people do.

What the n-th experiment of a person is (its variants, their work, the sessions and the thinking) depends only
on the seed, the person and n, not on how soon it comes.
"""

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import PRIORITIES, JobType
from grus.model.queues import Queue, Quota
from grus.model.resources import Range
from grus.simulator.events.run_results import JobOutcome
from grus.simulator.workload.job_work import Linear, TraceJob

HOUR, DAY, WEEK = 3600.0, 86400.0, 7 * 86400.0
POOL = "2x8xA100+4x2xRTX3090+8x1xRTX3060"
MORNING, EVENING = 9 * HOUR, 18 * HOUR
LARGEST = 8
"""GPUs that a training can use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How people work.

    Nobody has measured these. `quiet`, `variants` and `hours` were chosen among eight combinations as the one
    whose static split is used closest below 30 %. Only the static side was run for that, on seeds that the
    benchmark does not report: what pooling gains had no part in it.
    """

    active: tuple[float, float] = (1.0, 2.0)
    quiet: tuple[float, float] = (3.0, 6.0)
    """Weeks, from and to; nothing quiet means experiments all the time."""
    at_once: int = 3
    """Experiments that a person follows at a time."""
    variants: tuple[int, ...] = (1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 16)
    """Trainings of an experiment, each as likely as the others."""
    hours: float = 6.0
    """Median work of a training, on one GPU."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person, and the queue of those who own GPUs together."""

    name: UserName
    queue: QueueName


def owners() -> dict[QueueName, int]:
    """Who owns how many GPUs: two groups a big machine each, four a small one, eight people a workstation."""
    found = {QueueName(f"big-{i}"): 8 for i in range(2)}
    found |= {QueueName(f"small-{i}"): 2 for i in range(4)}
    return found | {QueueName(f"desk-{i}"): 1 for i in range(8)}


def people() -> list[Person]:
    """Two in every group that owns a machine, one at each workstation."""
    queues = [name for name, gpus in owners().items() for _ in range(2 if gpus > 1 else 1)]
    return [Person(UserName(f"user-{i:02}"), queue) for i, queue in enumerate(queues)]


def queues() -> tuple[Queue, ...]:
    """In the pool everybody is guaranteed what they brought."""
    return tuple(Queue(name=name, quota=Quota.of(gpus)) for name, gpus in owners().items())


# ----------------------------------------------------------------------------------------- working hours


def at_work(at: float) -> float:
    """The same moment if it is in working hours, else the next morning of a weekday."""
    day = math.floor(at / DAY)
    if at - day * DAY >= EVENING:
        day, at = day + 1, 0.0
    while day % 7 >= 5:
        day, at = day + 1, 0.0
    return max(at, day * DAY + MORNING)


def later(at: float, hours: float) -> float:
    """So many working hours later."""
    left = hours * HOUR
    at = at_work(at)
    while True:
        evening = math.floor(at / DAY) * DAY + EVENING
        if at + left <= evening:
            return at + left
        left -= evening - at
        at = at_work(evening)


# ------------------------------------------------------------------------------------------- experiments


class Lab:
    """Everybody's next steps. One lab is good for one simulation."""

    def __init__(self, seed: int, weeks: float, habits: Habits | None = None) -> None:
        self._seed = seed
        self._end = weeks * WEEK
        self._habits = habits or Habits()
        self._people = {person.name: person for person in people()}
        self._phases = {name: list(self._draw_phases(name)) for name in self._people}
        self._open: dict[tuple[UserName, int], int] = {}
        """Variants of each experiment that have not ended."""
        self._following = dict.fromkeys(self._people, 0)
        """How many experiments of each person are open."""
        self._next = dict.fromkeys(self._people, 0)
        """Number of each person's next session."""
        self._building: set[UserName] = set()

    def begin(self) -> list[TraceJob]:
        """Everybody's first session, and all nights' retraining."""
        first = [work for person in self._people.values() for work in self._go_on(person, 0.0)]
        return first + list(self._retraining())

    def follow(self, ran: JobOutcome) -> Iterable[TraceJob]:
        """What somebody does when this has ended."""
        kind, name, number = _parse(ran.work.id)
        assert ran.ended is not None
        if kind == "retrain":
            return []
        person = self._people[name]
        if kind == "build":
            self._building.discard(name)
            self._following[name] += 1
            return [*self._experiment(person, number, ran.ended), *self._go_on(person, ran.ended)]
        self._open[name, number] -= 1
        if self._open[name, number]:
            return []
        self._following[name] -= 1
        return self._go_on(person, ran.ended)

    def _go_on(self, person: Person, now: float) -> list[TraceJob]:
        """The next session, unless one is under way or there is enough to follow."""
        name = person.name
        if name in self._building or self._following[name] >= self._habits.at_once:
            return []
        self._building.add(name)
        self._next[name] += 1
        return self._session(person, self._next[name], now)

    def _draw_phases(self, name: UserName) -> Iterator[tuple[float, float]]:
        """When somebody experiments. The first phase may have begun before the time that is looked at."""
        chance, habits = random.Random(f"{self._seed}/{name}"), self._habits
        at = -chance.uniform(0.0, habits.active[1] + habits.quiet[1]) * WEEK
        while at < self._end:
            until = at + chance.uniform(*habits.active) * WEEK
            if until > 0.0:
                yield max(0.0, at), until
            at = until + chance.uniform(*habits.quiet) * WEEK

    def _session(self, person: Person, number: int, since: float) -> list[TraceJob]:
        """The next session: after some thinking, in this phase or at the beginning of the next."""
        chance = random.Random(f"{self._seed}/{person.name}/{number}/build")
        thinking = chance.lognormvariate(0.0, 0.6)
        begins = (
            later(max(since, begin), thinking) for begin, end in self._phases[person.name] if since < end
        )
        at = next(begins, self._end)
        if at >= self._end:
            return []
        return [
            TraceJob(
                id=JobId(f"build.{person.name}.{number}"),
                submit=at,
                duration=_hours(chance, 1.2, 0.5, 4.0),
                gpus=chance.choice((0.25, 0.5)),
                queue=person.queue,
                user=person.name,
                priority=PRIORITIES["dev"],
                type=JobType.DEV,
            )
        ]

    def _experiment(self, person: Person, number: int, at: float) -> list[TraceJob]:
        chance = random.Random(f"{self._seed}/{person.name}/{number}/train")
        variants = chance.choice(self._habits.variants)
        hours = _hours(chance, self._habits.hours, 0.9, 60.0) / HOUR
        elastic = chance.random() < 0.6
        (gpus,) = (1,) if elastic else chance.choices((1, 2, 4), (6, 3, 1))
        efficiency = chance.uniform(0.7, 0.95)
        self._open[person.name, number] = variants
        one = TraceJob(
            id=JobId(""),
            submit=at,
            duration=hours * HOUR / Linear(efficiency)(gpus),
            gpus=gpus,
            size=Range(1, LARGEST) if elastic else None,
            queue=person.queue,
            user=person.name,
            speedup=Linear(efficiency),
            save_every=1800.0,
        )
        return [replace(one, id=JobId(f"train.{person.name}.{number}.{i}")) for i in range(variants)]

    def _retraining(self) -> Iterator[TraceJob]:
        """Each night at two, each group's models one after the other on one GPU."""
        for number, queue in enumerate(owners()):
            for day in range(math.ceil(self._end / DAY)):
                chance = random.Random(f"{self._seed}/{queue}/{day}")
                at = day * DAY + (2.0 + chance.random()) * HOUR
                if at < self._end and chance.random() < 0.5:
                    yield TraceJob(
                        id=JobId(f"retrain.{queue}.{day}"),
                        submit=at,
                        duration=_hours(chance, 2.0, 0.5, 8.0),
                        queue=queue,
                        user=UserName(f"robot-{number}"),
                        save_every=1800.0,
                    )


def _parse(job: JobId) -> tuple[str, UserName, int]:
    kind, name, number = job.split(".")[:3]
    return kind, UserName(name), int(number)


def _hours(chance: random.Random, median: float, spread: float, most: float) -> float:
    """A log-normal time in seconds, given in hours."""
    return round(HOUR * min(most, max(0.1, chance.lognormvariate(math.log(median), spread))), 1)
