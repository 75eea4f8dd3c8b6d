"""The whole examination of a state: the file, the record against the log and itself, the files beside it.

Looks only, at one moment of the record; a server may go on meanwhile.
"""

from dataclasses import dataclass
from pathlib import Path

from grus.controlplane.consistency import Consistency, Log
from grus.controlplane.leftovers import Leftovers
from grus.model.findings import Finding
from grus.store.examination import Examination, examine


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was looked at, and what was found."""

    findings: tuple[Finding, ...]
    jobs: int = 0
    events: int = 0

    @property
    def clean(self) -> bool:
        return not any(one.grave for one in self.findings)


def check(database: Path, beside: Leftovers | None = None, *, read_all: bool = False) -> Verdict:
    """Examine the file and what lies `beside` it (None for a back-up). Raises NotFound without a file."""
    with examine(database) as examination:
        if not examination.sound:
            return Verdict(tuple(examination.findings))
        log = Log()
        for event in examination.events():
            log.take(event)
        record = _record(examination, log, beside)
        found = record.over()
        if beside is not None:
            found += beside.over(read_all=read_all)
        return Verdict((*examination.findings, *found), record.jobs, log.events)


def _record(examination: Examination, log: Log, beside: Leftovers | None) -> Consistency:
    record = Consistency(log, examination.queues())
    for user in examination.users():
        if beside is not None:
            beside.take_user(user)
    for job in examination.jobs():
        record.take_job(job)
        if beside is not None:
            beside.take_job(job)
    for result in examination.results():
        record.take_result(result)
    for key in examination.keyed():
        record.take_key(*key)
    examination.others()
    return record
