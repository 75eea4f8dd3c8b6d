"""Synthetic workloads that resemble a team's: sessions by day, training at any time, retraining by night.

Seeded: the same mix and seed give the same jobs. Lengths are log-normal, as those of real clusters are.
"""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, fields

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import PRIORITIES, JobType
from grus.model.nodes import Node
from grus.model.resources import Range
from grus.simulator.simulator import Fault
from grus.simulator.workload.job_work import Linear, TraceJob
from grus.simulator.workload.traces import numbered

HOUR, DAY = 3600.0, 86400.0

BY_DAY = (1, 1, 1, 1, 1, 2, 4, 8, 16, 24, 28, 26, 20, 24, 28, 28, 26, 20, 12, 8, 6, 4, 3, 2)
"""Starts of interactive sessions by hour: working hours with a dip at noon."""
ALL_DAY = (6, 5, 4, 4, 4, 4, 5, 7, 10, 12, 13, 13, 12, 13, 14, 14, 14, 15, 16, 14, 12, 10, 9, 8)
"""Submissions of training by hour: more before people go home."""
BY_NIGHT = (20, 24, 24, 16, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 6, 8, 12, 16)
"""Submissions of retraining on new data, by hour."""
WEEKEND = 0.3
"""Part of a weekday's sessions and trainings on a Saturday or Sunday; retraining does not rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The kinds of work, and their amounts."""

    days: float = 7.0
    jobs: float = 100.0
    """A day, on a weekday."""
    users: int = 20
    queues: tuple[str, ...] = ("language", "speech", "vision")
    build: float = 0.4
    """Part of the jobs that are interactive sessions: half a GPU or one, non-preemptible."""
    retrain: float = 0.2
    """Part of the jobs that train again on new data, rigid and by night; the rest is training."""
    elastic: float = 0.4
    """Part of the trainings that can use a range of GPUs."""
    largest: int = 8
    """GPUs of the largest job."""

    @classmethod
    def parse(cls, text: str, *, field: str = "synthetic") -> "Mix":
        """Parse a mix such as `days=14,jobs=200,queues=vision:language`; omitted settings have their
        defaults.
        """
        found: dict[str, object] = {}
        mistakes = []
        known = {one.name: one.default for one in fields(cls)}
        for pair in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = pair.partition("=")
            if name not in known:
                mistakes.append(Mistake(field, f"knows {', '.join(known)}", name))
                continue
            try:
                found[name] = _parse(name, value)
            except ValueError as error:
                mistakes.append(Mistake(f"{field}.{name}", str(error), value or "nothing"))
        if mistakes:
            raise BadInput(mistakes)
        return cls(**found)  # type: ignore[arg-type]  # each was parsed for its name


_MOST = {
    "days": 3660.0,
    "jobs": 1e6,
    "users": 1e5,
    "build": 1.0,
    "retrain": 1.0,
    "elastic": 1.0,
    "largest": 1e5,
}


def _parse(name: str, value: str) -> object:
    if name == "queues":
        names = tuple(part for part in value.split(":") if part)
        if not names or len(set(names)) < len(names):
            raise ValueError("must be different names joined by colons, such as vision:language")
        return names
    most, whole, part = _MOST[name], name in ("users", "largest"), name in ("build", "retrain", "elastic")
    rule = f"must be a {'whole ' if whole else ''}number {'from 0' if part else 'above 0'} to {most:g}"
    try:
        number = float(value)
    except ValueError:
        raise ValueError(rule) from None
    if not (0 <= number <= most) or (number == 0 and not part) or (whole and not number.is_integer()):
        raise ValueError(rule)
    return int(number) if whole else number


def synthesize(mix: Mix, seed: int) -> list[TraceJob]:
    """The jobs of a mix. Time 0 is the midnight before a Monday."""
    chance = random.Random(seed)  # noqa: S311 - seeded on purpose, no secret
    works: list[TraceJob] = []
    for hour in range(math.ceil(mix.days * 24)):
        rest = WEEKEND if hour // 24 % 7 >= 5 else 1.0
        train = max(0.0, 1.0 - mix.build - mix.retrain)
        for make, part, hours in (
            (_build, mix.build * rest, BY_DAY),
            (_train, train * rest, ALL_DAY),
            (_retrain, mix.retrain, BY_NIGHT),
        ):
            expected = mix.jobs * part * hours[hour % 24] / sum(hours)
            for _ in range(_poisson(chance, expected)):
                at = (hour + chance.random()) * HOUR
                if at < mix.days * DAY:
                    works.append(make(mix, chance, at))
    return numbered(works)


def _poisson(chance: random.Random, expected: float) -> int:
    """Draw the number of events that happen `expected` times on average."""
    number, left = 0, expected
    while (left := left - chance.expovariate(1.0)) > 0:
        number += 1
    return number


def _owner(mix: Mix, chance: random.Random) -> tuple[QueueName, UserName]:
    """A user belongs to one queue; some submit more than others."""
    number = min(int(chance.random() ** 1.5 * mix.users), mix.users - 1)
    return QueueName(mix.queues[number % len(mix.queues)]), UserName(f"user-{number:02}")


def _seconds(chance: random.Random, median: float, spread: float, least: float, most: float) -> float:
    return round(min(most, max(least, chance.lognormvariate(math.log(median), spread))), 1)


def _build(mix: Mix, chance: random.Random, at: float) -> TraceJob:
    queue, user = _owner(mix, chance)
    return TraceJob(
        id=JobId(""),
        submit=round(at, 3),
        duration=_seconds(chance, 1.2 * HOUR, 0.9, 60.0, 10 * HOUR),
        gpus=chance.choice((0.5, 0.5, 1)),
        queue=queue,
        user=user,
        priority=PRIORITIES["dev"],
        type=JobType.DEV,
    )


def _train(mix: Mix, chance: random.Random, at: float) -> TraceJob:
    queue, user = _owner(mix, chance)
    gpus = min(mix.largest, chance.choices((1, 2, 4, 8, 16), (50, 20, 15, 12, 3))[0])
    size = None
    if chance.random() < mix.elastic and mix.largest > 1:
        size = Range(max(1, gpus // 2), min(mix.largest, 2 * gpus))
    return TraceJob(
        id=JobId(""),
        submit=round(at, 3),
        duration=_seconds(chance, 1.5 * HOUR, 1.4, 60.0, 3 * DAY),
        gpus=gpus,
        size=size if size is not None and not size.rigid else None,
        queue=queue,
        user=user,
        one_node=gpus <= 8,
        speedup=Linear(round(chance.uniform(0.6, 0.95), 3)),
        save_every=1800.0,
    )


def _retrain(mix: Mix, chance: random.Random, at: float) -> TraceJob:
    queue, user = _owner(mix, chance)
    return TraceJob(
        id=JobId(""),
        submit=round(at, 3),
        duration=_seconds(chance, 2.5 * HOUR, 0.5, 600.0, 12 * HOUR),
        gpus=min(mix.largest, chance.choice((1, 1, 2, 4))),
        queue=queue,
        user=user,
        save_every=1800.0,
    )


def random_faults(
    nodes: Iterable[Node], begin: float, end: float, *, between: float, repair: float, seed: int
) -> list[Fault]:
    """Nodes fail at random, each once in `between` seconds on average, and are back after about `repair`."""
    faults = []
    for node in sorted(nodes, key=lambda node: node.id):
        # One stream a node: a pool with a node more has the same faults on the others.
        chance = random.Random(f"{seed}/{node.id}")  # noqa: S311 - seeded on purpose, no secret
        at = begin + chance.expovariate(1.0 / between)
        while at < end:
            back = at + chance.expovariate(1.0 / repair)
            faults.append(Fault(round(at, 3), node.id, round(back, 3)))
            at = back + chance.expovariate(1.0 / between)
    return sorted(faults, key=lambda fault: (fault.at, fault.node))
