"""Scheduling policies: named bundles of rules for what the quotas leave open, such as the queue order and the
growth of jobs.

Quotas, fair shares, priorities and gangs hold under every policy. A policy says in which order equal jobs of
a queue wait (`rank`), whether a job falls behind the others of its priority (`demotion`), what each size of
an elastic job is worth (`worth`), and whether running jobs trade GPUs where that pays (`trades`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grus.model.errors import BadInput, Mistake
from grus.model.jobs import Job
from grus.scheduler.elasticity.size_values import Candidate, Rule, values, weight
from grus.scheduler.elasticity.throughput_outlook import Ladder, Outlook

RULE = Rule()
SHORTEST_FIRST = Rule(offset=1.0, power=1.0)
SERVED_LONG = 16 * 3600.0
"""GPU-seconds after which Tiresias puts a job behind those that have had less."""

Worth = Callable[[Job, Outlook, int], Mapping[int, float]]
"""Value of each size to a job that has so many replicas now (0: it waits)."""


def _by_submission(job: Job, outlook: Outlook | None) -> float:  # noqa: ARG001 - the shape of a rank
    return job.submitted_at


def _by_time_left(job: Job, outlook: Outlook | None) -> float:
    """Rank by time left. Jobs of unknown length come after all others, in the order of submission."""
    return outlook.left if outlook is not None else 1e12 + job.submitted_at


def _never(job: Job, outlook: Outlook | None) -> int:  # noqa: ARG001 - the shape of a demotion
    return 0


def _after_long_service(job: Job, outlook: Outlook | None) -> int:  # noqa: ARG001 - as above
    return int(outlook is not None and outlook.attained >= SERVED_LONG)


@dataclass(frozen=True, slots=True)
class Policy:
    """One bundle of rules. The rank is the order in line; ties are broken by id."""

    name: str
    summary: str
    worth: Worth
    growth: Worth | None = None
    """Value of each size if GPUs are idle, until the job's end; None: the same as `worth`."""
    rank: Callable[[Job, Outlook | None], float] = _by_submission
    demotion: Callable[[Job, Outlook | None], int] = _never
    by_user: bool = True
    """True if users of a queue take turns by their holdings."""
    trades: bool = False
    oracle: bool = False
    """True if it needs the true duration of every job: a simulation provides it."""
    by_age: bool = False
    """True if the value of a size depends on the job's submission time."""

    def ladder(self, job: Job, outlook: Outlook, present: int, idle: bool = False) -> Ladder:
        """Return the value of each size: taken from others, or on GPUs that are idle."""
        worth = self.growth if idle and self.growth is not None else self.worth
        return Ladder(worth(job, outlook, present))


def _by_rule(rule: Rule) -> Worth:
    def worth(job: Job, outlook: Outlook, present: int) -> Mapping[int, float]:
        # Speeds are relative to one replica; the rule's are to the smallest size that the job can have.
        base = outlook.speeds[0] if outlook.speeds and outlook.speeds[0] > 0 else 1.0
        candidate = Candidate(
            key=job.id,
            sizes=outlook.sizes,
            speeds=outlook.speeds,
            length=outlook.left / base,
            present=present,
            stall=outlook.stall,
            boot=outlook.boot,
        )
        return {
            size: value * base for size, value in zip(outlook.sizes, values(candidate, rule), strict=True)
        }

    return worth


def _until_the_end(rule: Rule) -> Worth:
    """Return values on idle GPUs, which cost others nothing: a change is worth the time that it saves before
    the job ends.
    """

    def worth(job: Job, outlook: Outlook, present: int) -> Mapping[int, float]:  # noqa: ARG001 - the shape of a worth
        scale = weight(outlook.left, rule)
        return {size: scale * outlook.until_end(present, size) for size in outlook.sizes}

    return worth


def _the_oldest_first(job: Job, outlook: Outlook, present: int) -> Mapping[int, float]:  # noqa: ARG001 - the shape of a worth
    """Return values that are equal for every replica, and higher for an older job: it grows to its maximum
    first.
    """
    weight = 1.0 / (1.0 + max(0.0, job.submitted_at))
    return {size: weight * size for size in outlook.sizes}


def _the_smallest_first(job: Job, outlook: Outlook, present: int) -> Mapping[int, float]:  # noqa: ARG001 - the shape of a worth
    return {size: float(size) ** 0.5 for size in outlook.sizes}


def _time_saved(job: Job, outlook: Outlook, present: int) -> Mapping[int, float]:  # noqa: ARG001 - the shape of a worth
    """Return the seconds by which the job ends earlier than on one replica."""
    return {
        size: outlook.left * (1.0 - 1.0 / speed)
        for size, speed in zip(outlook.sizes, outlook.speeds, strict=True)
        if speed > 0
    }


FIFO = Policy(
    name="fifo",
    summary="in the order of submission; the oldest grows first",
    worth=_the_oldest_first,
    by_user=False,
    by_age=True,
)
FAIR = Policy(
    name="fair",
    summary="users take turns; the smallest job grows first",
    worth=_the_smallest_first,
)
SRTF = Policy(
    name="srtf",
    summary="the shortest remaining time first, in line and in growth",
    worth=_by_rule(SHORTEST_FIRST),
    growth=_until_the_end(SHORTEST_FIRST),
    rank=_by_time_left,
    by_user=False,
    trades=True,
    oracle=True,
)
TIRESIAS = Policy(
    name="tiresias",
    summary="who has had 16 GPU-hours falls behind the others; then in the order of submission",
    worth=_the_oldest_first,
    demotion=_after_long_service,
    by_user=False,
    by_age=True,
    oracle=True,
)
OPTIMUS = Policy(
    name="optimus",
    summary="each GPU to the job whose end it brings nearest",
    worth=_time_saved,
    by_user=False,
    trades=True,
    oracle=True,
)
GRUS = Policy(
    name="grus",
    summary="GPUs flow to where they buy most progress, short work first, changes only where they pay",
    worth=_by_rule(RULE),
    growth=_until_the_end(RULE),
    trades=True,
)

POLICIES: Mapping[str, Policy] = {
    policy.name: policy for policy in (FIFO, FAIR, SRTF, TIRESIAS, OPTIMUS, GRUS)
}


def policy_named(name: str) -> Policy:
    """Return the policy of that name; BadInput lists the existing ones."""
    found = POLICIES.get(name)
    if found is None:
        raise BadInput([Mistake("policy", f"must be one of {', '.join(POLICIES)}", name)])
    return found
