"""Workflow graph of the jobs of one submission: its members and their dependencies.

A submission has no record of its own: its jobs name the first of them (`Spec.graph`), and were written with
times that follow each other by `STEP`, so that all of them are found in one short listing from any of them.
Inputs of a job from an earlier submission (after a retry) are part of the graph and are marked.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from grus.controlplane.visibility import JobVisibility
from grus.model.errors import NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import Store, User
from grus.model.job_spec import MOST_STAGES
from grus.model.jobs import Job

STEP = 1e-6
"""Seconds between the times of two jobs of one submission."""
_LAST = JobId("~")
"""Sorts behind every id."""


@dataclass(frozen=True, slots=True)
class WorkflowStage:
    """A job in its graph."""

    job: Job
    after: tuple[JobId, ...]
    """Members of the graph that it depends on."""
    depth: int
    """Length of the longest path to it; 0 for jobs without dependencies."""
    earlier: bool
    """True if it belongs to an earlier submission whose outputs others use."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Workflow: its stages, each after those that it depends on."""

    id: JobId
    stages: tuple[WorkflowStage, ...]


def arranged(id_: JobId, members: Iterable[Job], earlier: Iterable[Job] = ()) -> Graph:
    """Arrange jobs in any order as a graph; dependencies that are not given are left out."""
    old = {job.id: job for job in earlier}
    jobs = old | {job.id: job for job in sorted(members, key=_position)}
    before = {job.id: tuple(other for other in job.spec.after if other in jobs) for job in jobs.values()}
    depths: dict[JobId, int] = {}
    for one in TopologicalSorter(before).static_order():
        depths[one] = max((depths[other] + 1 for other in before[one]), default=0)
    # Ids exist before anything refers to them: a dependent job is always written after its dependency.
    order = sorted(jobs.values(), key=lambda job: (job.id not in old, _position(job)))
    stages = [WorkflowStage(job, before[job.id], depths[job.id], job.id in old) for job in order]
    return Graph(id_, tuple(stages))


def to_retry(job: Job, members: Sequence[Job], stands: Callable[[Job], bool]) -> list[Job]:
    """Return the job, those that depend on it, and their other missing dependencies; in their order.

    A job in `stands` (it has succeeded, and its outputs still exist) that depends on none of them is not
    repeated.
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

    def __init__(self, store: Store, sight: JobVisibility) -> None:
        self._store = store
        self._sight = sight

    def members(self, job: Job) -> list[Job]:
        """Return all jobs of its submission; itself alone if it was submitted alone."""
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

    def of(self, user: User, id_: JobId) -> Graph:
        """Return the jobs that were submitted together with this one, as far as the user sees them, and their
        dependencies.
        """
        job = self._sight.get(user, id_)
        members = [one for one in self.members(job) if self._sight.job(user, one.id)]
        return arranged(job.spec.graph or job.id, members, self.before(user, members))

    def before(self, user: User, members: Sequence[Job]) -> list[Job]:
        """Return jobs of earlier submissions that these depend on, as far as the user sees them."""
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
