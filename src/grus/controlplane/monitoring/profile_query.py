"""Learned profiles and recognized activity of jobs, for users. Read from what has lasted already.

Some answers read code from disks: not for threads that must not block.
"""

from collections.abc import Callable
from dataclasses import dataclass

from grus.controlplane.fingerprint import code_digest, fingerprints
from grus.controlplane.fingerprint.profile_cache import JobIdentity, Profiles
from grus.controlplane.monitoring.activity_tag_store import TagKeeper
from grus.controlplane.security import rbac
from grus.model.activity_labels import Tag
from grus.model.errors import NotFound
from grus.model.interfaces import PROFILES, Store, User
from grus.model.jobs import Job
from grus.model.profiles import JobProfile
from grus.model.run_prediction import Expected, expected


@dataclass(frozen=True, slots=True)
class Learned:
    """Learned data about one job."""

    fingerprint: str
    profile: JobProfile | None
    """Profile of its own fingerprint; None until the first job with it has run."""
    expected: Expected | None
    """Expectation from other jobs; None if nothing like it ran before."""


@dataclass(eq=False)
class Insight:
    """Insight into jobs; one per server, for any thread."""

    _store: Store
    _profiles: Profiles
    _keeper: TagKeeper
    _containers: bool
    _clock: Callable[[], float]

    def of(self, job: Job) -> Learned:
        """Return the learned data about a job that the caller may see."""
        settled = self._profiles.settled(job.id) or self._settle(job)
        kept = {one.fingerprint: one for one in self._store.find(PROFILES) if one.program == settled.program}
        mine = kept.pop(settled.fingerprint, None)
        found = None
        if mine is not None:
            run = mine.run(job.id)
            new = mine.is_new(settled.data) if run is None else run.new_data
            found = expected(mine, same_code=True, new_data=new, but=job.id)
        others = sorted(kept.values(), key=lambda one: (one.updated_at, one.fingerprint))
        while found is None and others:
            found = expected(others.pop(), same_code=False, new_data=False)
        return Learned(settled.fingerprint, mine, found)

    def _settle(self, job: Job) -> JobIdentity:
        """Return the fingerprints that a job that has not started would get if it started now."""
        program = fingerprints.program(job.spec, job.user)
        found = code_digest.read(self._store, job, containers=self._containers)
        return JobIdentity(fingerprints.fingerprint(program, found.code), program, found.data, found.code)

    def profiles(self, user: User) -> list[JobProfile]:
        """Return one's own profiles, and all for administrators; the last updated first."""
        found = [one for one in self._store.find(PROFILES) if rbac.is_admin(user) or one.user == user.name]
        return sorted(found, key=lambda one: (one.updated_at, one.fingerprint), reverse=True)

    def profile(self, user: User, fingerprint: str) -> JobProfile:
        """Return the profile with this fingerprint, or with a unique prefix of it. Raises NotFound."""
        found = [one for one in self.profiles(user) if one.fingerprint.startswith(fingerprint)]
        if len(found) != 1 or not fingerprint:
            many = f"{len(found)} begin so; give more of it" if found else "`grus profile` lists them"
            raise NotFound(f"there is no profile {fingerprint!r}: {many}")
        return found[0]

    def tags(self) -> dict[str, Tag]:
        """Return the tags of jobs and GPUs, by `of_job` and `of_gpu`."""
        return self._keeper.tags(self._clock())
