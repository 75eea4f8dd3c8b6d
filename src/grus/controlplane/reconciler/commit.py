"""Recording: write the changes of a pass together, so that one commit of the store serves them.

A refused write proves nothing about the job: a stale one is read again and decided again, one that the store
could not do is tried again later. Only Fenced is final, for this control plane.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from grus.controlplane.jobs.lifecycle import JobChange
from grus.model.errors import Fenced, GrusError, NotFound, StaleVersion
from grus.model.identifiers import JobId
from grus.model.interfaces import Store
from grus.model.jobs import Job

log = logging.getLogger(__name__)


@dataclass(slots=True)
class BatchWriteResult:
    """Result of writing a batch."""

    jobs: list[Job] = field(default_factory=list)
    """As stored, in the order given."""
    stale: list[JobId] = field(default_factory=list)
    """Jobs that another writer changed first, or whose record is gone."""
    failed: list[JobId] = field(default_factory=list)
    """Jobs that the store could not write now."""


def write(store: Store, changes: Iterable[JobChange], epoch: int) -> BatchWriteResult:
    """Write all of them in this order, each for itself, and wait until they are durable. Raises Fenced."""
    given = [(change, store.replace(change.job, change.event, epoch)) for change in changes]
    written = BatchWriteResult()
    for change, future in given:
        try:
            written.jobs.append(future.result())
        except (StaleVersion, NotFound):
            written.stale.append(change.job.id)
        except Fenced:
            raise
        except (GrusError, OSError) as error:
            what = "its figures" if change.event is None else change.event.kind
            log.error("the store could not write %s of job %s: %s", what, change.job.id, error)
            written.failed.append(change.job.id)
    return written
