"""Writing changes down: all of a step together, so that one commit of the store serves them.

A write that is refused says nothing about the job: a stale one is read again and decided again, one that the
store could not do is tried again later. Only Fenced is final, for this control plane.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from grus.controlplane.lifecycle import Change
from grus.model.errors import Fenced, GrusError, NotFound, StaleVersion
from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.model.ports import Store

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Written:
    """What became of a batch."""

    jobs: list[Job] = field(default_factory=list)
    """As stored, in the order given."""
    stale: list[JobId] = field(default_factory=list)
    """Somebody else was faster, or the record is gone."""
    failed: list[JobId] = field(default_factory=list)
    """The store could not do it now."""


def write(store: Store, changes: Iterable[Change], epoch: int) -> Written:
    """Write all of them in this order, each for itself, and wait until they last. Raises Fenced."""
    given = [(change, store.replace(change.job, change.event, epoch)) for change in changes]
    written = Written()
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
