"""The jobs of one submission as a graph: who belongs to it, and who comes after whom.

A submission has no record of its own: its jobs name the first of them (`Spec.graph`), and were written with
times that follow each other by `STEP`, so that all of them are found in one short listing, whichever is asked
for. What a job takes from an earlier submission (after a retry) belongs to the picture and is marked.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from grus.api.stages_in import MOST_STAGES
from grus.controlplane.sight import Sight
from grus.model.errors import NotFound
from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.model.ports import Store, User

STEP = 1e-6
"""Seconds between the times of two jobs of one submission."""
_LAST = JobId("~")
"""Sorts behind every id."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A job in its graph."""

    job: Job
    after: tuple[JobId, ...]
    """Those of the graph that it comes after."""
    depth: int
    """Length of the longest way to it; 0 for those that come after nobody."""
    earlier: bool
    """Whether it is of an earlier submission, from which others take something."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Stages, each behind those that it comes after."""

    id: JobId
    stages: tuple[Stage, ...]


def arranged(id_: JobId, members: Iterable[Job], earlier: Iterable[Job] = ()) -> Graph:
    """Jobs in any order as a graph; what they come after and is not given is left out."""
    old = {job.id: job for job in earlier}
    jobs = old | {job.id: job for job in sorted(members, key=_position)}
    before = {job.id: tuple(other for other in job.spec.after if other in jobs) for job in jobs.values()}
    depths: dict[JobId, int] = {}
    for one in TopologicalSorter(before).static_order():
        depths[one] = max((depths[other] + 1 for other in before[one]), default=0)
    # Ids are given before anything refers to them: whoever comes after another was written after it.
    order = sorted(jobs.values(), key=lambda job: (job.id not in old, _position(job)))
    stages = [Stage(job, before[job.id], depths[job.id], job.id in old) for job in order]
    return Graph(id_, tuple(stages))


def to_retry(job: Job, members: Sequence[Job], stands: Callable[[Job], bool]) -> list[Job]:
    """The job, those that come after it, and what those lack besides; in their order.

    What `stands` (it has succeeded, and what it left is there) and comes after none of them is not repeated.
    """
    wanted = {job.id}
    while True:
        after = {one.id for one in members if wanted.intersection(one.spec.after)}
        named = {other for one in members if one.id in wanted for other in one.spec.after}
        lacking = {one.id for one in members if one.id in named and not stands(one)}
        if after | lacking <= wanted:
            return [one for one in sorted(members, key=_position) if one.id in wanted]
        wanted |= after | lacking


def _position(job: Job) -> tuple[float, JobId]:
    return job.submitted_at, job.id


class Graphs:
    """Reads graphs from the store. For any thread."""

    def __init__(self, store: Store, sight: Sight) -> None:
        self._store = store
        self._sight = sight

    def members(self, job: Job) -> list[Job]:
        """All jobs of its submission; itself alone if it was submitted alone."""
        if not job.spec.graph:
            return [job]
        window = (MOST_STAGES + 1) * STEP
        at: tuple[float, JobId] | None = (job.submitted_at + window, _LAST)
        found: list[Job] = []
        while at is not None:
            page = self._store.jobs(user=job.user, limit=MOST_STAGES, after=at)
            found += [one for one in page if one.spec.graph == job.spec.graph]
            last = page[-1] if len(page) == MOST_STAGES else None
            at = None if last is None or last.submitted_at < job.submitted_at - window else _position(last)
        return found

    def of(self, user: User, job: Job) -> Graph:
        """The graph of a job that the user sees; of others' jobs in it only those that the user sees too."""
        members = [one for one in self.members(job) if self._sight.job(user, one.id)]
        return arranged(job.spec.graph or job.id, members, self.before(user, members))

    def before(self, user: User, members: Sequence[Job]) -> list[Job]:
        """Jobs of earlier submissions that these come after, as far as the user sees them."""
        known = {one.id for one in members}
        found: list[Job] = []
        asked = [other for one in members for other in one.spec.after]
        while asked and len(found) < MOST_STAGES:
            id_ = asked.pop()
            if id_ in known or not self._sight.job(user, id_):
                continue
            known.add(id_)
            try:
                found.append(self._store.job(id_))
            except NotFound:
                continue
            asked += found[-1].spec.after
        return found
