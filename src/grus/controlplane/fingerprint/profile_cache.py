"""Profile of each fingerprint, for the code that decides and learns: in memory at once, in the store soon.

Lives as long as a server, for any thread. Only `write` blocks; it is for a thread of its own. Users are shown
what is read from the store, and so has lasted already. A job whose code has not been read yet is identified
by its program alone; so is one whose code is new, until it has measurements of its own.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from grus.controlplane.fingerprint import fingerprints
from grus.model.errors import GrusError
from grus.model.execution_plans import Shortage, merged
from grus.model.identifiers import JobId
from grus.model.interfaces import MOST_PROFILES, PROFILES, Store
from grus.model.jobs import Job
from grus.model.profiles import (
    MOST_DATA,
    MOST_PAIRS,
    MOST_RUNS,
    MOST_SHORT,
    MOST_SPEEDS,
    JobProfile,
    Pair,
    ProfiledRun,
    Speed,
)

log = logging.getLogger(__name__)

MOST_SETTLED = 50_000
"""Jobs whose fingerprints are remembered; those settled first are forgotten first."""
SMOOTHING = 0.5
"""Weight of the newest measurement of a pair against those before."""


class JobIdentity(NamedTuple):
    """Fingerprint and program that identify a job, once its code was read."""

    fingerprint: str
    program: str
    data: str = ""
    code: str = ""


class Profiles:
    """Profiles in memory; see the head of this file. Without a store, they are gone with the process."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, JobProfile] = {}
        self._versions: dict[str, dict[str, None]] = {}
        """The fingerprints of each program; the one that was last updated is the last."""
        self._settled: dict[JobId, JobIdentity] = {}
        self._unwritten: set[str] = set()
        for profile in sorted(store.find(PROFILES) if store else (), key=lambda one: one.updated_at):
            self._known[profile.fingerprint] = profile
            self._versions.setdefault(profile.program, {})[profile.fingerprint] = None
            for run in profile.runs:
                self._settled[run.job] = JobIdentity(profile.fingerprint, profile.program, run.data, run.code)

    # ------------------------------------------------------------------------------------------ reading

    def settled(self, job: JobId) -> JobIdentity | None:
        """Return the fingerprint of this job; None until its code has been read."""
        with self._lock:
            return self._settled.get(job)

    def fingerprint(self, job: Job) -> str:
        """Return the fingerprint of this job; without code, that of its program until the code was read."""
        return self._settled_or_not(job).fingerprint

    def of(self, job: Job) -> JobProfile | None:
        """Return the profile of its fingerprint; else the latest one of its program, which had other code."""
        return next(iter(self.like(job)), None)

    def like(self, job: Job) -> list[JobProfile]:
        """Return the profile of its fingerprint, then others of its program, the last updated first."""
        mine = self._settled_or_not(job)
        with self._lock:
            others = [
                one for one in reversed(self._versions.get(mine.program, {})) if one != mine.fingerprint
            ]
            return [self._known[one] for one in (mine.fingerprint, *others) if one in self._known]

    def known(self, fingerprint: str) -> JobProfile | None:
        with self._lock:
            return self._known.get(fingerprint)

    def all(self) -> list[JobProfile]:
        with self._lock:
            return list(self._known.values())

    def new_data(self, job: Job) -> bool:
        """Return whether others of its fingerprint have run, and none of them on the data of this one."""
        mine = self._settled_or_not(job)
        profile = self.known(mine.fingerprint)
        return profile is not None and profile.is_new(mine.data)

    def pair(self, one: Job, other: Job) -> Pair | None:
        """Return the result of jobs like these two sharing a GPU."""
        profile = self.known(self.fingerprint(one))
        return None if profile is None else profile.pair(self.fingerprint(other))

    def _settled_or_not(self, job: Job) -> JobIdentity:
        with self._lock:
            found = self._settled.get(job.id)
        if found is not None:
            return found
        program = fingerprints.program(job.spec, job.user)
        return JobIdentity(fingerprints.fingerprint(program, ""), program)

    # ---------------------------------------------------------------------------------------- recording

    def settle(self, job: Job, code: str, data: str) -> JobIdentity:
        """Record the code that was read: from now on the job is identified by it."""
        program = fingerprints.program(job.spec, job.user)
        made = JobIdentity(fingerprints.fingerprint(program, code), program, data, code)
        with self._lock:
            self._settled[job.id] = made
            while len(self._settled) > MOST_SETTLED:
                del self._settled[next(iter(self._settled))]
        return made

    def forget(self, job: JobId) -> None:
        """Forget an ended job that left nothing to keep."""
        with self._lock:
            self._settled.pop(job, None)

    def ran(self, job: Job, run: ProfiledRun) -> None:
        """Keep the measurements of one job so far."""
        self._change(job, run.at, lambda profile: with_run(profile, run, over=job.terminal))

    def taught(
        self, job: Job, speeds: Iterable[Speed], stall: float | None, boot: float | None, now: float
    ) -> None:
        """Keep the speed of a job, and the cost of a change of its size."""
        given = tuple(speeds)
        self._change(job, now, lambda profile: with_speeds(profile, given, stall, boot))

    def paired(self, one: Job, other: Job, gain: float, now: float) -> None:
        """Keep the joint speed of two jobs on one GPU, in the profiles of both."""
        for mine, its in ((one, other), (other, one)):
            pair = Pair(other=self.fingerprint(its), gain=gain, at=now)
            self._change(mine, now, partial(with_pair, pair=pair))

    def fell_short(self, job: Job, short: Iterable[Shortage], now: float) -> None:
        """Record the allocations with which it ran out of memory (OOM)."""
        given = tuple(short)
        self._change(
            job, now, lambda profile: replace(profile, short=merged([*profile.short, *given])[:MOST_SHORT])
        )

    def _change(self, job: Job, now: float, change: Callable[[JobProfile], JobProfile]) -> None:
        mine = self._settled_or_not(job)
        with self._lock:
            before = self._known.get(mine.fingerprint) or JobProfile(fingerprint=mine.fingerprint)
            after = change(before)
            if after == before:
                return
            self._known[mine.fingerprint] = replace(
                after,
                program=mine.program,
                name=job.spec.name,
                user=job.user,
                command=fingerprints.command_words(job.spec),
                image=job.spec.image,
                updated_at=max(now, before.updated_at),
            )
            versions = self._versions.setdefault(mine.program, {})
            versions.pop(mine.fingerprint, None)
            versions[mine.fingerprint] = None
            self._unwritten.add(mine.fingerprint)
            if len(self._known) > MOST_PROFILES:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop the oldest, as the store does; called under the lock."""
        gone = self._known.pop(min(self._known, key=lambda one: (self._known[one].updated_at, one)))
        self._unwritten.discard(gone.fingerprint)
        versions = self._versions[gone.program]
        del versions[gone.fingerprint]
        if not versions:
            del self._versions[gone.program]
        for run in gone.runs:
            self._settled.pop(run.job, None)

    # ------------------------------------------------------------------------------------------ writing

    def write(self) -> None:
        """Write everything recorded, and return when it is durable. A failed write is tried again the next
        time.
        """
        if self._store is None:
            return
        with self._lock:
            taken = [self._known[one] for one in sorted(self._unwritten)]
            self._unwritten = set()
        futures = [(profile, self._store.put(PROFILES, profile)) for profile in taken]
        for profile, future in futures:
            try:
                future.result()
            except GrusError as error:
                log.error("what is known of %s could not be kept yet: %s", profile.name, error)
                with self._lock:
                    self._unwritten.add(profile.fingerprint)


# --------------------------------------------------------------------------------------------------- merging


def with_run(profile: JobProfile, run: ProfiledRun, *, over: bool) -> JobProfile:
    """Add a run, or replace the same job's earlier one; its data counts as seen once the run is over."""
    new = profile.run(run.job) is None
    runs = (*profile.runs, run) if new else tuple(run if one.job == run.job else one for one in profile.runs)
    data = profile.data
    if over and run.data:
        data = (*(one for one in data if one != run.data), run.data)[-MOST_DATA:]
    return replace(profile, runs=runs[-MOST_RUNS:], count=profile.count + new, data=data)


def with_speeds(
    profile: JobProfile, speeds: Iterable[Speed], stall: float | None, boot: float | None
) -> JobProfile:
    """Add the newest speeds at each type, size and batch (of half a doubling)."""
    kept = {_sort(one): one for one in profile.speeds}
    for one in speeds:
        kept.pop(_sort(one), None)
        kept[_sort(one)] = one
    return replace(
        profile,
        speeds=tuple(kept.values())[-MOST_SPEEDS:],
        stall=profile.stall if stall is None else stall,
        boot=profile.boot if boot is None else boot,
    )


def with_pair(profile: JobProfile, pair: Pair) -> JobProfile:
    before = profile.pair(pair.other)
    if before is not None:
        gain = (1 - SMOOTHING) * before.gain + SMOOTHING * pair.gain
        pair = replace(pair, gain=gain, times=before.times + 1)
    others = (one for one in profile.pairs if one.other != pair.other)
    return replace(profile, pairs=(*others, pair)[-MOST_PAIRS:])


def _sort(speed: Speed) -> tuple[str, int, int, int]:
    return speed.type, speed.nodes, speed.gpus, round(2 * math.log2(speed.local))
