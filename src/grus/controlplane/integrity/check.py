"""Full check of a state: the file, the record against the log and itself, the files beside it.

Read-only, at one moment of the record; a server may continue to run meanwhile.
"""

from dataclasses import dataclass
from pathlib import Path

from grus.controlplane.integrity.fsck_event_log import Consistency, EventLog
from grus.controlplane.integrity.orphans import Leftovers
from grus.model.integrity_findings import Finding
from grus.model.interfaces import QUEUES, RESULTS, USERS
from grus.store.verify_integrity import Examination, examine


@dataclass(frozen=True, slots=True)
class FsckResult:
    """Result of a check: the number of examined records, and the findings."""

    findings: tuple[Finding, ...]
    jobs: int = 0
    events: int = 0

    @property
    def clean(self) -> bool:
        return not any(one.grave for one in self.findings)


def check(database: Path, beside: Leftovers | None = None, *, read_all: bool = False) -> FsckResult:
    """Examine the file and the files `beside` it (None for a backup). Raises NotFound without a file."""
    with examine(database) as examination:
        if not examination.sound:
            return FsckResult(tuple(examination.findings))
        log = EventLog()
        for event in examination.events():
            log.take(event)
        record = _record(examination, log, beside)
        found = record.over()
        if beside is not None:
            found += beside.over(read_all=read_all)
        return FsckResult((*examination.findings, *found), record.jobs, log.events)


def _record(examination: Examination, log: EventLog, beside: Leftovers | None) -> Consistency:
    record = Consistency(log, examination.values(QUEUES))
    for user in examination.values(USERS):
        if beside is not None:
            beside.take_user(user)
    for job in examination.jobs():
        record.take_job(job)
        if beside is not None:
            beside.take_job(job)
    for result in examination.values(RESULTS):
        record.take_result(result)
    for key in examination.keyed():
        record.take_key(*key)
    examination.others()
    return record
