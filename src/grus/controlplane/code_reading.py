"""What code and data a job would meet if it began now, as digests. Reads disks: not for a thread in a hurry.

A server that is root reads on behalf of people who may not see what it sees, and digests are shown to them.
For those it looks at names, sizes and times only: no digest tells anything of a content.
"""

import os
from typing import NamedTuple

from grus.controlplane import fingerprints
from grus.model.jobs import Job
from grus.model.ports import Store


class Digests(NamedTuple):
    code: str
    data: str


def read(store: Store, job: Job, *, containers: bool) -> Digests:
    contents = os.geteuid() != 0 or not any(user.unix_user for user in store.users() if user.name == job.user)
    return Digests(
        fingerprints.code_digest(job.spec, containers=containers, contents=contents),
        fingerprints.data_digest(job.spec.data, containers=containers),
    )
