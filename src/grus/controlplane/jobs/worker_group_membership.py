"""Worker groups: the workers of a job that compute together. Pure: recorded job + states and reports of its
workers + now.

    boots → ready (has reported its address) → member → done | lost, and then another boots in its placement

A job has worker groups from the moment that one of its workers reports an address. A group has a number and
members in the order of their ranks; any change gives the group the next number. Workers that are not yet
members can fail in any way and as often as they like without disturbing the members. The loss of a member
makes a new group of the others at once and marks all earlier groups as broken: no worker can continue to
compute in those. When no member lives any more, the attempt is over; `lifecycle` decides that.

Everything is decided from the record: if a control plane dies, the next one continues.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from grus.controlplane.identity_memo import remembered
from grus.controlplane.jobs import stalled_workers
from grus.controlplane.workers import exit_status
from grus.controlplane.workers.exit_status import Statuses
from grus.controlplane.workers.worker_launch_spec import Member, members
from grus.model.identifiers import WorkerId
from grus.model.jobs import Exit, ExitCause, Job, Resizing, Seat, worker_per_seat
from grus.model.worker_reports import report_lines

JOIN_WAIT = 10.0
"""Seconds that a ready worker waits for others that boot, to be admitted together with them."""
SLOW = 3.0
"""Factor on the boot time of earlier workers that a joiner may take, if that is more than the usual
time-out.
"""
MOST_TRIES = 3
"""Number of workers that may end in a placement before they have joined, until the placement is given up."""
REST = 60.0
"""Seconds for which a job does not grow after it has given up a placement."""


@dataclass(frozen=True, slots=True)
class JobTransition:
    """Next state of a job; without a kind it is not worth an event."""

    job: Job
    kind: str = ""
    text: str = ""


@remembered
def team(job: Job) -> tuple[Member, ...]:
    """Return the present members in the order of their ranks: the earliest come first."""
    found = [member for member in members(job) if not member.leaving and member.seats[0].joined]
    return tuple(sorted(found, key=lambda member: member.seats[0].joined))


def at_work(job: Job) -> tuple[Seat, ...]:
    """Return the placements whose workers compute together: the worker group's, else those of the present
    round.
    """
    return tuple(seat for member in team(job) for seat in member.seats) if job.team else job.staying


def apart(job: Job, member: Member) -> bool:
    """Return whether it has yet to join the present worker group, and so cannot disturb it."""
    return bool(job.team) and not member.seats[0].joined and member.role in _roles(job)


def spared(job: Job, own: Statuses) -> set[WorkerId]:
    """Return members that are lost without ending the attempt: another lives."""
    found = team(job)
    if not any(exit_status.alive(own.get(member.id)) for member in found):
        return set()
    return {member.id for member in found if _gone(member, own)}


def hopeless(job: Job, own: Statuses) -> Exit | None:
    """Return the end of the attempt if a placement that it needs cannot be filled any more."""
    if any(exit_status.done(own.get(member.id)) for member in team(job)):
        return None  # it is about to end by itself
    for member in _joiners(job):
        status = own.get(member.id)
        if exit_status.alive(status) or _tries(member, own) < MOST_TRIES or _smaller(job, member) is not None:
            continue
        who = exit_status.name(member, _staying(job))
        cause = status.exit.cause if status is not None and status.exit is not None else ExitCause.LOST
        text = (
            f"{who} ended {MOST_TRIES} times before it could join the others; last: {exit_status.how(status)}"
        )
        return Exit(cause if cause is not ExitCause.DONE else ExitCause.CODE, None, text)
    return None


def complains(job: Job, own: Statuses, now: float) -> bool:
    """Return whether a member reports waiting too long for the others: then all reports must be fresh."""
    return bool(stalled_workers.waiting(job, team(job), own, now))


def advance(
    job: Job, own: Statuses, now: float, start_timeout: float, words_late: float = 0.0
) -> JobTransition | None:
    """Return the next worker group and its placements, as far as the workers' states and reports require a
    change.
    """
    draft = _Draft(job, own, now)
    draft.hear()
    if job.team:
        draft.lose()
        draft.judge(words_late)
        draft.tend(start_timeout)
    draft.admit()
    return draft.result()


def bereave(job: Job, own: Statuses, now: float) -> JobTransition | None:
    """Remove a member that is lost while the attempt is being paused or stopped: the others must be able to
    save.
    """
    found = team(job)
    living = [member for member in found if exit_status.alive(own.get(member.id))]
    ended = [member for member in found if member not in living]
    lost = [member for member in ended if (s := own.get(member.id)) is None or not exit_status.left(s)]
    if not living or not lost:
        return None
    draft = _Draft(job, own, now)
    for member in ended:
        draft.change(member, leaving=True)
    draft.notes.append(f"{draft.name(lost[0])} was lost ({exit_status.how(own.get(lost[0].id))})")
    draft.shaken = True
    return draft.result()


def next_look(job: Job, own: Statuses, now: float, start_timeout: float) -> float | None:
    """Return the time at which something here may change without any event."""
    times: list[float] = []
    if ready := _ready(job, own):
        times.append(_first(ready) + JOIN_WAIT)
    if job.team:
        limit = _longest_boot(job, start_timeout)
        times += [since + limit for member in _joiners(job) if (since := _booting_since(member, own))]
    times += stalled_workers.looks(stalled_workers.waiting(job, team(job), own, now), now)
    return min((at for at in times if at > now), default=None)


class _Draft:
    """Draft of a job's next state: steps change it, and a number is added at the end."""

    def __init__(self, job: Job, own: Statuses, now: float) -> None:
        self.job = job
        self.notes: list[str] = []
        self.shaken = False
        """True if the computing workers must stop at once."""
        self._before = job
        self._own = own
        self._now = now
        self._finishing = any(exit_status.done(own.get(member.id)) for member in team(job))
        """True if a member has finished completely: a worker that joined now would start from nothing."""

    def change(self, member: Member, **changes: Any) -> None:
        seats = (replace(seat, **changes) if seat in member.seats else seat for seat in self.job.seats)
        self.job = replace(self.job, seats=tuple(seats))

    def name(self, member: Member) -> str:
        return exit_status.name(member, _staying(self._before))

    # ------------------------------------------------------------------------------------- the steps

    def hear(self) -> None:
        """Mark workers that have newly reported an address as ready."""
        for member in _staying(self.job):
            status, seat = self._own.get(member.id), member.seats[0]
            if status is None or not exit_status.alive(status) or seat.address or seat.cut:
                continue
            if address := report_lines.read(status.said).word.address:
                self.change(member, address=address, ready_at=self._now)

    def lose(self) -> None:
        """Replace members that are gone while others live: their placements restart, the others continue
        without them.
        """
        gone = spared(self.job, self._own)
        for member in [member for member in team(self.job) if member.id in gone]:
            self.notes.append(f"{self.name(member)} was lost ({exit_status.how(self._own.get(member.id))})")
            self._begin_anew(member, lost=member.seats[0].lost + 1)
            self._count_loss()

    def judge(self, words_late: float) -> None:
        """Cut off the member that blocks the others, once one has waited for too long."""
        if self.shaken:
            return  # all of them form a new worker group anyway
        members = team(self.job)
        waiting = stalled_workers.waiting(self.job, members, self._own, self._now)
        if not waiting:
            return
        if all(member.id in waiting or not exit_status.alive(self._own.get(member.id)) for member in members):
            self.notes.append("all workers waited for each other")
            self._shake()
        for member in stalled_workers.culprits(waiting, members, self._own, self._now, words_late):
            self._cut_off(member)

    def tend(self, start_timeout: float) -> None:
        """Handle joiners: replace one that has ended; kill one that does not get ready."""
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
                    how = exit_status.how(self._own.get(member.id))
                    self.notes.append(f"{self.name(member)} ended before it joined ({how}); again")
                self._begin_anew(member, tries=tries)
            else:
                self._give_up(member)

    def admit(self) -> None:
        """Admit the ready workers as members: together, but without waiting long for each other."""
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

    def result(self) -> JobTransition | None:
        if self.job == self._before and not self.shaken:
            return None
        before, after = (tuple(one.id for one in team(job)) for job in (self._before, self.job))
        if not self.shaken and before == after:
            return JobTransition(self.job, "replacing" if self.notes else "", "; ".join(self.notes))
        number = self._before.team + 1
        self.job = replace(self.job, team=number, team_at=self._now)
        if self.shaken:
            self.job = replace(self.job, broken=number)
        if number == 1 and self.job.spec.resize is not Resizing.RESTART:
            self.job = replace(self.job, not_before=0.0)  # from here on it can adapt: it may grow at once
        count = "1 worker computes" if len(after) == 1 else f"{len(after)} workers compute together"
        return JobTransition(self.job, "team", "; ".join([*self.notes, f"{count} as team {number}"]))

    # ---------------------------------------------------------------------------------------- inside

    def _boots(self, member: Member) -> bool:
        """Return whether it may be ready soon."""
        seat = member.seats[0]
        if seat.joined or seat.address or seat.cut or exit_status.over(self._own.get(member.id)):
            return False
        return not self._before.team or apart(self._before, member)

    def _begin_anew(self, member: Member, **changes: Any) -> None:
        """Put another worker into the same placement; none if the whole job is about to end."""
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
        """Stop the computing workers at once; a worker that is done cannot take part in redoing the step."""
        self.shaken = True
        for member in team(self.job):
            if exit_status.done(self._own.get(member.id)):
                self.change(member, leaving=True)

    def _give_up(self, member: Member) -> None:
        """Continue with the next smaller size, and do not try to grow for a while."""
        size = _smaller(self.job, member)
        if size is None:
            return  # the end of the attempt
        role = [one for one in _staying(self.job) if one.role == member.role and one.id != member.id]
        spare = sorted(role, key=lambda one: (one.seats[0].joined or float("inf"), one.rank))[size:]
        for one in (member, *spare):
            self.change(one, leaving=True)
        self.job = replace(self.job, not_before=self._now + REST)
        how = exit_status.how(self._own.get(member.id))
        self.notes.append(
            f"{self.name(member)} ended {MOST_TRIES} times before it joined ({how}); it is given up"
        )


# -------------------------------------------------------------------------------------------- predicates


@remembered
def _staying(job: Job) -> tuple[Member, ...]:
    return tuple(member for member in members(job) if not member.leaving)


def _roles(job: Job) -> set[str]:
    """Return the roles whose workers take part in worker groups: those with a worker that has ever been
    ready.
    """
    return {seat.role for seat in job.seats if seat.address or seat.joined or seat.lost}


def _joiners(job: Job) -> list[Member]:
    return [member for member in _staying(job) if apart(job, member)]


def _ready(job: Job, own: Statuses) -> list[Member]:
    """Return workers that could be admitted now."""
    return [
        member
        for member in _staying(job)
        if (seat := member.seats[0]).address
        and not seat.joined
        and not seat.cut
        and exit_status.alive(own.get(member.id))
    ]


def _first(ready: Sequence[Member]) -> float:
    return min(member.seats[0].ready_at or 0.0 for member in ready)


def _gone(member: Member, own: Statuses) -> bool:
    """Return whether the member is gone. A member with no known state is gone too: it was started, or it
    could not have joined.
    """
    status = own.get(member.id)
    return status is None or (exit_status.over(status) and exit_status.vanished(status))


def _booting_since(member: Member, own: Statuses) -> float | None:
    status, seat = own.get(member.id), member.seats[0]
    if status is None or not exit_status.alive(status) or seat.address or seat.cut:
        return None
    return status.started_at


def _longest_boot(job: Job, start_timeout: float) -> float:
    """Seconds after which a joiner counts as stuck: some programs load for minutes before they are ready."""
    return max(start_timeout, SLOW * (job.boot or 0.0))


def _must_begin_anew(member: Member, own: Statuses) -> bool:
    status = own.get(member.id)
    return exit_status.over(status) or (member.seats[0].cut and status is None)


def _tries(member: Member, own: Statuses) -> int:
    """Count the workers that ended in its placement before they joined; one that was cut off is counted
    already.
    """
    seat = member.seats[0]
    return seat.tries + (exit_status.over(own.get(member.id)) and not seat.cut)


def _smaller(job: Job, member: Member) -> int | None:
    """Return the number of replicas to which its role can shrink without it; None if it cannot."""
    role = job.spec.request.elastic
    if role is None or role.name != member.role or not worker_per_seat(job.spec):
        return None
    count = sum(1 for one in _staying(job) if one.role == role.name)
    return max((size for size in job.spec.request.allowed if size < count), default=None)
