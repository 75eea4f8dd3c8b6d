"""Teams: which workers of a job compute together. Pure: recorded job + states and words of its workers + now.

    boots → ready (has said its address) → member → done | lost, and then another boots in its seat

A job has teams from the moment that one of its workers says an address. A team has a number and members in
the order of their ranks; it changes by a next number only. Who is not a member yet can fail in any way and as
often as it likes without hurting those who are. A member that is lost makes a new team of the others at once
and marks all before it as broken: nobody can go on computing in those. When no member lives any more, the
attempt is over, which is for `lifecycle` to say.

Everything is decided from the record, so that a control plane which died is followed by one that goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from grus.api import reports
from grus.controlplane import complaints, ends
from grus.controlplane.ends import Statuses
from grus.controlplane.launching import Member, members
from grus.controlplane.remembering import remembered
from grus.model.identifiers import WorkerId
from grus.model.jobs import Exit, ExitCause, Job, Resizing, Seat, worker_per_seat

JOIN_WAIT = 10.0
"""Seconds that a worker which is ready waits for others that boot, to be admitted together with them."""
SLOW = 3.0
"""Times the boot of those before it that a joiner may take, where that is more than the usual time-out."""
MOST_TRIES = 3
"""Workers that may end in a seat before they have joined, until the seat is given up."""
REST = 60.0
"""Seconds for which a job does not grow after it has given up a seat."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a job becomes; without a kind it is not worth an event."""

    job: Job
    kind: str = ""
    text: str = ""


@remembered
def team(job: Job) -> tuple[Member, ...]:
    """The present members in the order of their ranks: those who were there first come first."""
    found = [member for member in members(job) if not member.leaving and member.seats[0].joined]
    return tuple(sorted(found, key=lambda member: member.seats[0].joined))


def at_work(job: Job) -> tuple[Seat, ...]:
    """Seats whose workers compute together: its team's, else those of its present generation."""
    return tuple(seat for member in team(job) for seat in member.seats) if job.team else job.staying


def apart(job: Job, member: Member) -> bool:
    """Whether it is yet to join the team that is there, and so cannot hurt it."""
    return bool(job.team) and not member.seats[0].joined and member.role in _roles(job)


def spared(job: Job, own: Statuses) -> set[WorkerId]:
    """Members that are lost without ending the attempt: another lives."""
    found = team(job)
    if not any(ends.alive(own.get(member.id)) for member in found):
        return set()
    return {member.id for member in found if _gone(member, own)}


def hopeless(job: Job, own: Statuses) -> Exit | None:
    """How the attempt ends because a seat that it cannot do without is not filled any more."""
    if any(ends.done(own.get(member.id)) for member in team(job)):
        return None  # it is about to end by itself
    for member in _joiners(job):
        status = own.get(member.id)
        if ends.alive(status) or _tries(member, own) < MOST_TRIES or _smaller(job, member) is not None:
            continue
        who = ends.name(member, _staying(job))
        cause = status.exit.cause if status is not None and status.exit is not None else ExitCause.LOST
        text = f"{who} ended {MOST_TRIES} times before it could join the others; last: {ends.how(status)}"
        return Exit(cause if cause is not ExitCause.DONE else ExitCause.CODE, None, text)
    return None


def complains(job: Job, own: Statuses, now: float) -> bool:
    """Whether a member says that it waits for the others for too long: then all reports should be fresh."""
    return bool(complaints.waiting(job, team(job), own, now))


def advance(
    job: Job, own: Statuses, now: float, start_timeout: float, words_late: float = 0.0
) -> Step | None:
    """The next team and its seats, as far as the workers' states and words ask for a change."""
    draft = _Draft(job, own, now)
    draft.hear()
    if job.team:
        draft.lose()
        draft.judge(words_late)
        draft.tend(start_timeout)
    draft.admit()
    return draft.result()


def bereave(job: Job, own: Statuses, now: float) -> Step | None:
    """A member is lost while the attempt is being paused or stopped: the others must be able to save."""
    found = team(job)
    living = [member for member in found if ends.alive(own.get(member.id))]
    ended = [member for member in found if member not in living]
    lost = [member for member in ended if (s := own.get(member.id)) is None or not ends.left(s)]
    if not living or not lost:
        return None
    draft = _Draft(job, own, now)
    for member in ended:
        draft.change(member, leaving=True)
    draft.notes.append(f"{draft.name(lost[0])} was lost ({ends.how(own.get(lost[0].id))})")
    draft.shaken = True
    return draft.result()


def next_look(job: Job, own: Statuses, now: float, start_timeout: float) -> float | None:
    """When time alone will change something here."""
    times: list[float] = []
    if ready := _ready(job, own):
        times.append(_first(ready) + JOIN_WAIT)
    if job.team:
        limit = _longest_boot(job, start_timeout)
        times += [since + limit for member in _joiners(job) if (since := _booting_since(member, own))]
    times += complaints.looks(complaints.waiting(job, team(job), own, now), now)
    return min((at for at in times if at > now), default=None)


class _Draft:
    """A job on its way to its next state: steps change it, and at the end comes a number."""

    def __init__(self, job: Job, own: Statuses, now: float) -> None:
        self.job = job
        self.notes: list[str] = []
        self.shaken = False
        """Those who compute must stop at once."""
        self._before = job
        self._own = own
        self._now = now
        self._finishing = any(ends.done(own.get(member.id)) for member in team(job))
        """A member is done with everything: who came now would begin from nothing."""

    def change(self, member: Member, **changes: Any) -> None:
        seats = (replace(seat, **changes) if seat in member.seats else seat for seat in self.job.seats)
        self.job = replace(self.job, seats=tuple(seats))

    def name(self, member: Member) -> str:
        return ends.name(member, _staying(self._before))

    # ------------------------------------------------------------------------------------- the steps

    def hear(self) -> None:
        """Who has newly said where it can be joined is ready."""
        for member in _staying(self.job):
            status, seat = self._own.get(member.id), member.seats[0]
            if status is None or not ends.alive(status) or seat.address or seat.cut:
                continue
            if address := reports.read(status.said).word.address:
                self.change(member, address=address, ready_at=self._now)

    def lose(self) -> None:
        """Members that are gone while others live: their seats begin anew, the others go on without them."""
        gone = spared(self.job, self._own)
        for member in [member for member in team(self.job) if member.id in gone]:
            self.notes.append(f"{self.name(member)} was lost ({ends.how(self._own.get(member.id))})")
            self._begin_anew(member, lost=member.seats[0].lost + 1)
            self._count_loss()

    def judge(self, words_late: float) -> None:
        """A member has waited for too long: who holds the others up is cut off."""
        if self.shaken:
            return  # all of them begin a new team anyway
        members = team(self.job)
        waiting = complaints.waiting(self.job, members, self._own, self._now)
        if not waiting:
            return
        if all(member.id in waiting or not ends.alive(self._own.get(member.id)) for member in members):
            self.notes.append("all workers waited for each other")
            self._shake()
        for member in complaints.culprits(waiting, members, self._own, self._now, words_late):
            self._cut_off(member)

    def tend(self, start_timeout: float) -> None:
        """Joiners: another one where one has ended; one that does not get ready is killed."""
        limit = _longest_boot(self.job, start_timeout)
        for member in _joiners(self.job):
            since, tries = _booting_since(member, self._own), _tries(member, self._own)
            if since is not None and self._now >= since + limit:
                self.change(member, cut=True, tries=tries + 1)
                self.notes.append(f"{self.name(member)} was not ready within {limit:g} s; it is killed")
            elif not _must_begin_anew(member, self._own) or self._finishing:
                continue
            elif tries < MOST_TRIES:
                if tries:
                    how = ends.how(self._own.get(member.id))
                    self.notes.append(f"{self.name(member)} ended before it joined ({how}); again")
                self._begin_anew(member, tries=tries)
            else:
                self._give_up(member)

    def admit(self) -> None:
        """Those who are ready become members: together, but without waiting long for each other."""
        ready = _ready(self.job, self._own)
        if not ready or self._finishing:
            return
        hurry = self.shaken or self._now >= _first(ready) + JOIN_WAIT
        if not hurry and any(self._boots(member) for member in _staying(self.job)):
            return
        for member in ready:
            self.change(member, joined=self._before.team + 1, tries=0)
        boots = [self._now - since for one in ready if (since := self._own[one.id].started_at) is not None]
        if boots:
            self.job = replace(self.job, boot=max(0.0, *boots))
        if self._before.team:
            who = " and ".join(self.name(member) for member in ready)
            self.notes.append(f"{who} joined")

    def result(self) -> Step | None:
        if self.job == self._before and not self.shaken:
            return None
        before, after = (tuple(one.id for one in team(job)) for job in (self._before, self.job))
        if not self.shaken and before == after:
            return Step(self.job, "replacing" if self.notes else "", "; ".join(self.notes))
        number = self._before.team + 1
        self.job = replace(self.job, team=number, team_at=self._now)
        if self.shaken:
            self.job = replace(self.job, broken=number)
        if number == 1 and self.job.spec.resize is not Resizing.RESTART:
            self.job = replace(self.job, not_before=0.0)  # from here on it adapts: it may grow at once
        count = "1 worker computes" if len(after) == 1 else f"{len(after)} workers compute together"
        return Step(self.job, "team", "; ".join([*self.notes, f"{count} as team {number}"]))

    # ---------------------------------------------------------------------------------------- inside

    def _boots(self, member: Member) -> bool:
        """Whether it may be ready soon."""
        seat = member.seats[0]
        if seat.joined or seat.address or seat.cut or ends.over(self._own.get(member.id)):
            return False
        return not self._before.team or apart(self._before, member)

    def _begin_anew(self, member: Member, **changes: Any) -> None:
        """Another worker in the same seat; none if all is about to end."""
        if self._finishing:
            self.change(member, leaving=True)
            return
        generation = self._before.generation + 1
        self.job = replace(self.job, generation=generation)
        self.change(member, born=generation, address="", ready_at=None, joined=0, cut=False, **changes)

    def _cut_off(self, member: Member) -> None:
        self.notes.append(f"{self.name(member)} held up the others and is killed")
        lost = member.seats[0].lost + 1
        self.change(member, address="", ready_at=None, joined=0, cut=True, lost=lost)
        self._count_loss()

    def _count_loss(self) -> None:
        self.job = replace(self.job, lost=self.job.lost + 1)
        self._shake()

    def _shake(self) -> None:
        """Those who compute must stop at once; who is done cannot take part in redoing the step."""
        self.shaken = True
        for member in team(self.job):
            if ends.done(self._own.get(member.id)):
                self.change(member, leaving=True)

    def _give_up(self, member: Member) -> None:
        """Go on with the next smaller size, and don't try to grow for a while."""
        size = _smaller(self.job, member)
        if size is None:
            return  # the end of the attempt
        role = [one for one in _staying(self.job) if one.role == member.role and one.id != member.id]
        spare = sorted(role, key=lambda one: (one.seats[0].joined or float("inf"), one.rank))[size:]
        for one in (member, *spare):
            self.change(one, leaving=True)
        self.job = replace(self.job, not_before=self._now + REST)
        how = ends.how(self._own.get(member.id))
        self.notes.append(
            f"{self.name(member)} ended {MOST_TRIES} times before it joined ({how}); it is given up"
        )


# --------------------------------------------------------------------------------------------- questions


@remembered
def _staying(job: Job) -> tuple[Member, ...]:
    return tuple(member for member in members(job) if not member.leaving)


def _roles(job: Job) -> set[str]:
    """Roles whose workers take part in teams: of which one has ever been ready."""
    return {seat.role for seat in job.seats if seat.address or seat.joined or seat.lost}


def _joiners(job: Job) -> list[Member]:
    return [member for member in _staying(job) if apart(job, member)]


def _ready(job: Job, own: Statuses) -> list[Member]:
    """Those who could be admitted now."""
    return [
        member
        for member in _staying(job)
        if (seat := member.seats[0]).address
        and not seat.joined
        and not seat.cut
        and ends.alive(own.get(member.id))
    ]


def _first(ready: Sequence[Member]) -> float:
    return min(member.seats[0].ready_at or 0.0 for member in ready)


def _gone(member: Member, own: Statuses) -> bool:
    """A member that nobody knows any more is gone too: it was started, or it could not have joined."""
    status = own.get(member.id)
    return status is None or (ends.over(status) and ends.vanished(status))


def _booting_since(member: Member, own: Statuses) -> float | None:
    status, seat = own.get(member.id), member.seats[0]
    if status is None or not ends.alive(status) or seat.address or seat.cut:
        return None
    return status.started_at


def _longest_boot(job: Job, start_timeout: float) -> float:
    """Seconds after which a joiner counts as stuck: some programs load for minutes before they are ready."""
    return max(start_timeout, SLOW * (job.boot or 0.0))


def _must_begin_anew(member: Member, own: Statuses) -> bool:
    status = own.get(member.id)
    return ends.over(status) or (member.seats[0].cut and status is None)


def _tries(member: Member, own: Statuses) -> int:
    """Workers that have ended in its seat before they joined; one that was cut off is counted already."""
    seat = member.seats[0]
    return seat.tries + (ends.over(own.get(member.id)) and not seat.cut)


def _smaller(job: Job, member: Member) -> int | None:
    """To how many replicas its role can shrink without it; None if it cannot."""
    role = job.spec.request.elastic
    if role is None or role.name != member.role or not worker_per_seat(job.spec):
        return None
    count = sum(1 for one in _staying(job) if one.role == role.name)
    return max((size for size in job.spec.request.allowed if size < count), default=None)
