"""Hang detection: find worker group members that wait too long for the others, and the members that block
them. Pure.

A worker's report says that it waits. It counts for the present worker group only: a worker that is still in a
group that was given up leaves it without another request. The decision needs fresh reports of all members.
New members wait for the others to reach the end of a step, or of an evaluation, which may take long: no
worker is cut off for computing because of that.
"""

from collections.abc import Mapping, Sequence

from grus.controlplane.workers import exit_status
from grus.controlplane.workers.exit_status import Statuses
from grus.controlplane.workers.worker_launch_spec import Member
from grus.model.identifiers import WorkerId
from grus.model.jobs import Job
from grus.model.worker_reports import report_lines
from grus.model.worker_reports.report_lines import Word

VERY_LONG = 10.0
"""Multiple of a waiting worker's patience after which one that still computes counts as hung."""
SILENCE = 3.0
"""Seconds without a report that prove nothing yet: workers report about every second."""

Waiting = Mapping[WorkerId, Word]


def waiting(job: Job, members: Sequence[Member], own: Statuses, now: float) -> Waiting:
    """Return the members that report waiting too long."""
    found = {}
    for member in members:
        status = own.get(member.id)
        if status is None or not exit_status.alive(status):
            continue
        word = report_lines.read(status.said).word
        if word.waits is None or word.waits > now:
            continue
        if job.broken <= word.team <= job.team or word.waits > (job.team_at or 0.0):
            found[member.id] = word
    return found


def culprits(
    waiting: Waiting, members: Sequence[Member], own: Statuses, now: float, late: float = 0.0
) -> list[Member]:
    """Return the members that do not wait themselves and either report nothing or compute for far too long.

    Reports may be `late` by that many seconds: a member is not silent if its next report may be on its way.
    """
    latest = max(word.waits or 0.0 for word in waiting.values())
    silent = min(max(latest, now - max(_patience(waiting), SILENCE)), now - late)
    too_long = any(now >= at for at in _hung_at(waiting))
    suspects = [one for one in members if one.id not in waiting and exit_status.alive(own.get(one.id))]
    return [one for one in suspects if too_long or (report_lines.read(own[one.id].said).at or 0.0) < silent]


def looks(waiting: Waiting, now: float) -> list[float]:
    """Return the times at which to check again if no culprit is found yet."""
    return [now + _patience(waiting), *_hung_at(waiting)] if waiting else []


def _patience(waiting: Waiting) -> float:
    return max(word.patience for word in waiting.values())


def _hung_at(waiting: Waiting) -> list[float]:
    """Return the times at which a worker that still computes counts as hung; none, if only new members
    wait.
    """
    return [(word.waits or 0.0) + VERY_LONG * word.patience for word in waiting.values() if not word.new]
