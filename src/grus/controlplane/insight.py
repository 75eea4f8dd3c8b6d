"""What was learned of jobs and recognised of what runs, for people. Read from what has lasted already.

Some answers read code from disks: not for a thread in a hurry.
"""

from collections.abc import Callable
from dataclasses import dataclass

from grus.controlplane import access, code_reading, fingerprints
from grus.controlplane.profiles import Profiles, Settled
from grus.controlplane.tag_keeping import TagKeeper
from grus.model.errors import NotFound
from grus.model.expecting import Expected, expected
from grus.model.jobs import Job
from grus.model.ports import Store, User
from grus.model.profiles import JobProfile
from grus.model.tags import Tag


@dataclass(frozen=True, slots=True)
class Learned:
    """Of one job."""

    fingerprint: str
    profile: JobProfile | None
    """Of its own fingerprint; None before the first of it ran."""
    expected: Expected | None
    """From others; None if nothing like it ran before."""


class Insight:
    """One a server, for any thread."""

    def __init__(
        self,
        store: Store,
        profiles: Profiles,
        keeper: TagKeeper,
        *,
        containers: bool,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._profiles = profiles
        self._keeper = keeper
        self._containers = containers
        self._clock = clock

    def of(self, job: Job) -> Learned:
        """What is known of a job that the caller sees."""
        settled = self._profiles.settled(job.id) or self._settle(job)
        kept = {one.fingerprint: one for one in self._store.profiles() if one.program == settled.program}
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

    def _settle(self, job: Job) -> Settled:
        """By what a job that has not begun would be recognised if it began now."""
        program = fingerprints.program(job.spec, job.user)
        found = code_reading.read(self._store, job, containers=self._containers)
        return Settled(fingerprints.fingerprint(program, found.code), program, found.data, found.code)

    def profiles(self, user: User) -> list[JobProfile]:
        """One's own, and all for administrators; the last updated first."""
        found = [one for one in self._store.profiles() if access.is_admin(user) or one.user == user.name]
        return sorted(found, key=lambda one: (one.updated_at, one.fingerprint), reverse=True)

    def profile(self, user: User, fingerprint: str) -> JobProfile:
        """By its fingerprint, or the beginning of it if only one begins so. Raises NotFound."""
        found = [one for one in self.profiles(user) if one.fingerprint.startswith(fingerprint)]
        if len(found) != 1 or not fingerprint:
            many = f"{len(found)} begin so; give more of it" if found else "`grus profile` lists them"
            raise NotFound(f"there is no profile {fingerprint!r}: {many}")
        return found[0]

    def tags(self) -> dict[str, Tag]:
        """Of jobs and GPUs, by `of_job` and `of_gpu`."""
        return self._keeper.tags(self._clock())
