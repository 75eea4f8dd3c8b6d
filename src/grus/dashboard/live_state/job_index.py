"""All jobs at a glance, in memory: an index that answers filters and sorting without asking the store.

Fed by the store's commits; made full once, when the server starts. It holds what a line of a list needs and
nothing more. Everybody's jobs are in it: who sees which is settled at each look. For any thread.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest
from typing import Any

from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import Job, Phase
from grus.model.resources import GPU, Request
from grus.model.texts.job_text import request_text, size_text, status_word

MOST = 50_000
"""Jobs that it holds; beyond that the ones that ended first go. `grus ps` still finds them."""
FULL = 1.1
"""Above so many times the most it lets go: rarely, many at once."""


class JobState(StrEnum):
    """State of a job, in the few words that people sort jobs by."""

    RUNNING = "running"
    PENDING = "pending"
    PAUSED = "paused"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    STOPPED = "stopped"


STATES = {
    Phase.PENDING: JobState.PENDING,
    Phase.STARTING: JobState.RUNNING,
    Phase.RUNNING: JobState.RUNNING,
    Phase.PAUSING: JobState.PAUSED,
    Phase.PAUSED: JobState.PAUSED,
    Phase.SUCCEEDED: JobState.SUCCEEDED,
    Phase.FAILED: JobState.FAILED,
    Phase.STOPPED: JobState.STOPPED,
}
ORDER = {state: number for number, state in enumerate(JobState)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """One line of the list."""

    id: JobId
    version: int
    name: str
    user: UserName
    queue: QueueName
    state: JobState
    status: str
    """The phase in everyday words, with a user action that was requested but is not done yet."""
    type: str
    priority: int
    held: int
    """Micro-GPUs."""
    asked: str
    """Its request, as it could be written."""
    least: int
    """Micro-GPUs of the smallest size that it asks for."""
    submitted: float
    started: float | None
    ended: float | None
    why: str
    words: str
    """Text that a free-text filter searches, in lower case."""


def brief_of(job: Job) -> Brief:
    spec, status = job.spec, status_word(job)
    return Brief(
        id=job.id,
        version=job.version,
        name=spec.name,
        user=job.user,
        queue=spec.queue,
        state=STATES[job.phase],
        status=status,
        type=spec.type.value,
        priority=spec.priority,
        held=job.held,
        asked=request_text(job.asked) if job.size is None else size_text(spec, job.size),
        least=_least(spec.request),
        submitted=job.submitted_at,
        started=job.first_started_at,
        ended=job.ended_at,
        why=job.reason,
        words=f"{job.id} {spec.name} {job.user} {spec.queue} {status} {spec.type.value}".lower(),
    )


def _least(request: Request) -> int:
    return sum(role.replicas.low * (role.replica.gpus * GPU + role.replica.share) for role in request.roles)


# ------------------------------------------------------------------------------------------------ looking

SORTS: dict[str, Callable[[Brief], Any]] = {
    "submitted": lambda brief: brief.submitted,
    "name": lambda brief: brief.name.lower(),
    "state": lambda brief: ORDER[brief.state],
    "queue": lambda brief: brief.queue,
    "user": lambda brief: brief.user,
    "gpus": lambda brief: (brief.held, brief.least),
    "priority": lambda brief: brief.priority,
    "started": lambda brief: brief.started or 0.0,
}
"""Sort keys of a list, by name; jobs with equal keys come newest first."""
DOWN_AT_FIRST = frozenset({"submitted", "gpus", "priority", "started"})
"""Sorts that begin with the largest."""

Sees = Callable[[UserName, QueueName], bool]
"""Predicate: True if jobs of this user in this queue may be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Query of the job list: filters, order and page. Empty fields mean all."""

    text: str = ""
    """Words that must all occur."""
    states: frozenset[str] = frozenset()
    queue: str = ""
    user: str = ""
    type: str = ""
    sort: str = "submitted"
    down: bool = True
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListing:
    """Result of one query."""

    rows: tuple[Brief, ...]
    total: int
    """Jobs that match."""
    everything: int
    """Jobs that the user sees at all."""
    counts: dict[str, int]
    """Number of jobs per state, among those that match everything but the wanted states."""
    queues: tuple[str, ...]
    users: tuple[str, ...]
    types: tuple[str, ...]
    """Filter choices that exist."""


class Board:
    """See the module."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._briefs: dict[JobId, Brief] = {}
        self._above = FULL * most
        """Size above which some jobs are dropped."""
        self._revision = 0
        self._full = False

    @property
    def revision(self) -> int:
        """Another one after every change."""
        return self._revision

    @property
    def full(self) -> bool:
        """Return whether the jobs from before the start are included."""
        return self._full

    @property
    def crowded(self) -> bool:
        """Return whether it holds its maximum, so that a job that ended earlier would be dropped at once."""
        return len(self._briefs) >= self._most

    def take(self, jobs: Iterable[Job]) -> None:
        """Add jobs that were committed or are on record; the newest version of each job stays.

        A caller that first listens and then takes all that is on record misses nothing.
        """
        self._add(brief_of(job) for job in jobs)

    def filled(self) -> None:
        """All that is on record was taken."""
        with self._lock:
            self._full = True
            self._revision += 1

    def _add(self, briefs: Iterable[Brief]) -> None:
        made = list(briefs)
        with self._lock:
            for brief in made:
                known = self._briefs.get(brief.id)
                if known is None or known.version < brief.version:
                    self._briefs[brief.id] = brief
            if len(self._briefs) > self._above:
                self._let_go()
            self._revision += 1

    def _let_go(self) -> None:
        """Jobs that have not ended always stay."""
        ended = [brief for brief in self._briefs.values() if brief.ended is not None]
        for brief in nsmallest(len(self._briefs) - self._most, ended, key=lambda brief: brief.ended or 0.0):
            del self._briefs[brief.id]
        self._above = FULL * max(
            self._most, len(self._briefs)
        )  # many that live must not be gone through each time

    def look(self, wanted: JobFilter, sees: Sees, *, since: float = 0.0) -> JobListing:
        """Return the wanted jobs that the user may see; jobs that ended before `since` are no longer on
        record.
        """
        with self._lock:
            briefs = list(self._briefs.values())
        seen = [brief for brief in _visible(briefs, sees) if brief.ended is None or brief.ended >= since]
        words = wanted.text.lower().split()
        matching = [brief for brief in seen if _matches(brief, wanted, words)]
        counts = Counter(brief.state.value for brief in matching)
        if wanted.states:
            matching = [brief for brief in matching if brief.state in wanted.states]
        return JobListing(
            rows=tuple(_part(matching, wanted)),
            total=len(matching),
            everything=len(seen),
            counts={state.value: counts[state.value] for state in JobState},
            queues=tuple(sorted({brief.queue for brief in seen})),
            users=tuple(sorted({brief.user for brief in seen})),
            types=tuple(sorted({brief.type for brief in seen})),
        )


def _visible(briefs: Iterable[Brief], sees: Sees) -> Iterator[Brief]:
    """Yield the visible jobs.

    There are far fewer owners than jobs: each owner is checked once.
    """
    judged: dict[tuple[UserName, QueueName], bool] = {}
    for brief in briefs:
        owner = (brief.user, brief.queue)
        if owner not in judged:
            judged[owner] = sees(*owner)
        if judged[owner]:
            yield brief


def _matches(brief: Brief, wanted: JobFilter, words: Sequence[str]) -> bool:
    return (
        (not wanted.queue or brief.queue == wanted.queue)
        and (not wanted.user or brief.user == wanted.user)
        and (not wanted.type or brief.type == wanted.type)
        and all(word in brief.words for word in words)
    )


def _part(matching: list[Brief], wanted: JobFilter) -> list[Brief]:
    """The wanted stretch of the sorted list. Sorting is stable, so the second key goes first."""
    matching.sort(key=lambda brief: (brief.submitted, brief.id), reverse=True)
    if wanted.sort != "submitted":
        matching.sort(key=SORTS[wanted.sort], reverse=wanted.down)
    elif not wanted.down:
        matching.reverse()
    return matching[wanted.offset : wanted.offset + wanted.limit]
