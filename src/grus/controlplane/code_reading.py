"""What code and data a job would meet if it began now, as digests. Reads disks: not for a thread in a hurry.

A server that is root reads on behalf of people who may not see what it sees, and digests are shown to them.
For those it looks at names, sizes and times only: no digest tells anything of a content.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

from grus.controlplane import fingerprints, reaching
from grus.model.jobs import Job
from grus.model.ports import Store


class Digests(NamedTuple):
    code: str
    data: str


def read(store: Store, job: Job, *, containers: bool) -> Digests:
    contents = _contents(store, job)
    return Digests(
        fingerprints.code_digest(job.spec, containers=containers, contents=contents),
        fingerprints.data_digest(job.spec.data, containers=containers),
    )


class Own(NamedTuple):
    """Of a stage: the part of the code that it runs, when that last changed, all code, and the data."""

    part: str
    changed_at: float
    code: str
    data: str


def own(store: Store, job: Job) -> Own:
    contents = _contents(store, job)
    source = reaching.reached(job.spec) if contents else None
    part, changed_at = fingerprints.part_digest(job.spec, source, contents=contents)
    return Own(part, changed_at, *read(store, job, containers=False))


def files(store: Store, job: Job, but: Iterable[str]) -> str:
    """What lies beside the code of a job, without what its submission leaves there itself."""
    return fingerprints.files_digest(job.spec.workdir, but=but, contents=_contents(store, job))


def _contents(store: Store, job: Job) -> bool:
    return os.geteuid() != 0 or not any(user.unix_user for user in store.users() if user.name == job.user)
