"""Digests of the code and data that a job would use if it started now. Reads disks: not for threads that must
not block.

A server that is root reads on behalf of people who may not see what it sees, and digests are shown to them.
For those it looks at names, sizes and times only, so that no digest reveals anything about file contents.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

from grus.controlplane.fingerprint import fingerprints, import_closure
from grus.model.interfaces import USERS, Store
from grus.model.jobs import Job


class Digests(NamedTuple):
    code: str
    data: str


def read(store: Store, job: Job, *, containers: bool) -> Digests:
    contents = _contents(store, job)
    return Digests(
        fingerprints.code_digest(job.spec, containers=containers, contents=contents),
        fingerprints.data_digest(job.spec.data, containers=containers),
    )


class StageCode(NamedTuple):
    """Digests of a stage: its part of the code, when that last changed, all code, and the data."""

    part: str
    changed_at: float
    code: str
    data: str


def own(store: Store, job: Job) -> StageCode:
    contents = _contents(store, job)
    source = import_closure.reached(job.spec) if contents else None
    part, changed_at = fingerprints.part_digest(job.spec, source, contents=contents)
    return StageCode(part, changed_at, *read(store, job, containers=False))


def files(store: Store, job: Job, but: Iterable[str]) -> str:
    """Return the digest of the files beside a job's code, without those that its submission leaves there
    itself.
    """
    return fingerprints.files_digest(job.spec.workdir, but=but, contents=_contents(store, job))


def _contents(store: Store, job: Job) -> bool:
    return os.geteuid() != 0 or not any(user.unix_user for user in store.find(USERS) if user.name == job.user)
