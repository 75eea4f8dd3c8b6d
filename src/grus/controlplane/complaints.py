"""Members of a team that wait for the others for too long, and who holds them up. Pure.

A complaint is a worker's word in its report. It counts for the present team only: whoever is still in a team
that was given up leaves it without being asked twice. Fresh reports of all members are needed to judge it.
Whoever is new waits for the others to come to the end of a step, or of an evaluation, which may last: nobody
is cut off for computing because of that.
"""

from collections.abc import Mapping, Sequence

from grus.api import reports
from grus.api.reports import Word
from grus.controlplane import ends
from grus.controlplane.ends import Statuses
from grus.controlplane.launching import Member
from grus.model.identifiers import WorkerId
from grus.model.jobs import Job

VERY_LONG = 10.0
"""Times the patience of a waiting worker after which one that still computes counts as hung."""
SILENCE = 3.0
"""Seconds without a sign of life that say nothing yet: workers give one about every second."""

Waiting = Mapping[WorkerId, Word]


def waiting(job: Job, members: Sequence[Member], own: Statuses, now: float) -> Waiting:
    """The members that complain."""
    found = {}
    for member in members:
        status = own.get(member.id)
        if status is None or not ends.alive(status):
            continue
        word = reports.read(status.said).word
        if word.waits is None or word.waits > now:
            continue
        if job.broken <= word.team <= job.team or word.waits > (job.team_at or 0.0):
            found[member.id] = word
    return found


def culprits(
    waiting: Waiting, members: Sequence[Member], own: Statuses, now: float, late: float = 0.0
) -> list[Member]:
    """Those who do not wait themselves and either give no sign of life or compute for far too long.

    Words may be `late` by so many seconds: nobody is silent whose next one may be on its way.
    """
    latest = max(word.waits or 0.0 for word in waiting.values())
    silent = min(max(latest, now - max(_patience(waiting), SILENCE)), now - late)
    too_long = any(now >= at for at in _hung_at(waiting))
    suspects = [one for one in members if one.id not in waiting and ends.alive(own.get(one.id))]
    return [one for one in suspects if too_long or (reports.read(own[one.id].said).at or 0.0) < silent]


def looks(waiting: Waiting, now: float) -> list[float]:
    """When to judge again, if nobody is found yet."""
    return [now + _patience(waiting), *_hung_at(waiting)] if waiting else []


def _patience(waiting: Waiting) -> float:
    return max(word.patience for word in waiting.values())


def _hung_at(waiting: Waiting) -> list[float]:
    """When who still computes counts as hung; never, if only new ones wait."""
    return [(word.waits or 0.0) + VERY_LONG * word.patience for word in waiting.values() if not word.new]
