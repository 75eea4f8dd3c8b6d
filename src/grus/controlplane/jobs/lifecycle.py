"""Job lifecycle: derive a job's next state from the exits of its workers. Pure: job + states of its workers +
now → new job and event.

An attempt ends in two steps. First its end is recorded on the job (`exit`, or phase `pausing`, or desired
`stop`); the control plane that finds that in the store stops the workers that still run. Only when the death
of every worker is confirmed, `conclude` removes the placements and decides what becomes of the job. So a
control plane may die between any two lines of this module, and the next one continues from the record.

Nothing here may free the GPUs of a worker that has not ended, or look at a worker of another attempt.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from grus.controlplane.gpu_sizing.memory_sizing import NoFittingSize, SizedSpec
from grus.controlplane.gpu_sizing.size_selection import OomResponse, with_size
from grus.controlplane.jobs import replica_restarts, worker_group_membership
from grus.controlplane.workers import artifact_inputs_outputs, exit_status
from grus.controlplane.workers.exit_status import Statuses, sentence
from grus.controlplane.workers.worker_launch_spec import LAUNCHER, Member, members, setup_id
from grus.model.artifacts import Artifact
from grus.model.identifiers import JobId, NodeId
from grus.model.interfaces import Event, WorkerState, WorkerStatus
from grus.model.jobs import (
    FIRST_BACK_OFF,
    HOLDING,
    LONGEST_BACK_OFF,
    NEVER_CHARGED,
    Desired,
    Exit,
    ExitCause,
    Job,
    PauseCause,
    Phase,
    job_backoff,
)
from grus.model.resources import GPU
from grus.model.worker_reports import stored_outputs as kept

OWN_NAME = 16
"""Letters of its key that separate a stage's checkpoints."""

Larger = Callable[[Job, Statuses], OomResponse | None]
"""Next memory request after an attempt that ran out of GPU memory (OOM); None if nothing can be concluded."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """New state of a job to write, with the event that explains it; None for reported metrics."""

    job: Job
    event: Event | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times that end an attempt from outside."""

    start_timeout: float = 60.0
    max_runtime: float | None = None
    """Limit of the job or of its queue, whichever is shorter."""
    words_late: float = 0.0
    """Maximum delay of workers' reports, in seconds."""
    leapt: float = 0.0
    """Sum of wall-clock jumps since the attempt began, in seconds: forwards if above zero."""


def change(job: Job, kind: str, now: float, text: str, *, reason: str | None = None) -> JobChange:
    """The change whose event says `text`, which also becomes the job's reason unless another is given."""
    event = Event(
        at=now,
        kind=kind,
        text=text,
        job=job.id,
        attempt=job.attempt,
        generation=job.generation,
        held=job.held,
        working=working(job),
        lost=job.lost,
    )
    return JobChange(replace(job, reason=text if reason is None else reason), event)


def working(job: Job) -> int:
    """Micro-GPUs of those who compute together; 0 while it does not run."""
    return (
        sum(seat.held for seat in worker_group_membership.at_work(job)) if job.phase is Phase.RUNNING else 0
    )


def ending(job: Job) -> bool:
    """Return whether the present attempt is being ended."""
    return job.phase is Phase.PAUSING or job.desired is Desired.STOP or job.exit is not None


def advance(
    job: Job, statuses: Statuses, now: float, limits: Limits, larger: Larger = lambda *_: None
) -> JobChange | None:
    """Return the next change that the workers' states require; None if the record is up to date."""
    if job.phase not in HOLDING:
        return None
    own = {worker: status for worker, status in statuses.items() if status.attempt == job.attempt}
    if ending(job):
        if not _alive(own):
            return conclude(job, own, now, larger)
        return (
            _of_team(job, worker_group_membership.bereave(job, own, now), now) if job.exit is None else None
        )
    seats = members(job)
    firm = _firm(job, seats, own)
    if (exit_ := _end_of_attempt(job, firm, own, now, limits)) is not None:
        return _end(job, exit_, own, now, larger)
    return (
        _of_team(
            job, worker_group_membership.advance(job, own, now, limits.start_timeout, limits.words_late), now
        )
        or _replaced(job, own, now)
        or _released(job, seats, own, now)
        or _running(job, firm, own, now)
    )


def _firm(job: Job, seats: tuple[Member, ...], own: Statuses) -> list[Member]:
    """Return the staying members on which the attempt depends: not one that has yet to join the others."""
    staying = [
        member for member in seats if not member.leaving and not worker_group_membership.apart(job, member)
    ]
    return replica_restarts.firm(job, staying, own)


def _of_team(job: Job, step: worker_group_membership.JobTransition | None, now: float) -> JobChange | None:
    if step is None:
        return None
    return (
        change(step.job, step.kind, now, step.text, reason=job.reason)
        if step.kind
        else JobChange(step.job, None)
    )


# ----------------------------------------------------------------------------------- ends of an attempt


def _end_of_attempt(
    job: Job, staying: list[Member], own: Statuses, now: float, limits: Limits
) -> Exit | None:
    """Return the end of the attempt, if it ends: by itself, by a worker's failure, or by a time limit."""
    return (
        _launcher_done(staying, own)
        or _failure(job, staying, own)
        or _all_done(staying, own)
        or _too_long(job, now, limits)
        or _never_up(job, staying, own, now, limits)
        or worker_group_membership.hopeless(job, own)
    )


def _end(job: Job, exit_: Exit, own: Statuses, now: float, larger: Larger) -> JobChange:
    if not _alive(own):
        return conclude(replace(job, exit=exit_), own, now, larger)
    leaving = tuple(replace(seat, leaving=True) for seat in job.seats)
    ended = replace(job, exit=exit_, seats=leaving)
    return change(ended, "ending", now, f"{sentence(exit_)}; its other workers are being stopped")


def _launcher_done(staying: list[Member], own: Statuses) -> Exit | None:
    deciders = [member for member in staying if member.role == LAUNCHER]
    return _all_done(deciders, own) if deciders else None


def _all_done(staying: list[Member], own: Statuses) -> Exit | None:
    if staying and all(exit_status.done(own.get(member.id)) for member in staying):
        return Exit(ExitCause.DONE, 0, "all workers have finished")
    return None


def _failure(job: Job, staying: list[Member], own: Statuses) -> Exit | None:
    """Return the first worker exit that was neither requested nor a success."""
    spared = worker_group_membership.spared(job, own)
    everybody = [member for member in members(job) if not member.leaving]
    names = {member.id: exit_status.name(member, everybody) for member in staying if member.id not in spared}
    names[setup_id(job)] = "the setup"
    known = [own[worker] for worker in names if worker in own]
    ended = [status for status in known if status.state is WorkerState.ENDED and not exit_status.done(status)]
    if ended:
        first = min(ended, key=lambda status: (status.ended_at or 0.0, status.id))
        exit_ = first.exit or Exit(ExitCause.LOST)
        why = kept.trouble(first.said) if artifact_inputs_outputs.hands_on(job.spec) else ""
        return replace(exit_, text=f"{names[first.id]} ended: {why or sentence(exit_)}")
    if job.phase is Phase.RUNNING:
        # A running attempt had all its first workers up; a worker without any status is gone.
        for member in staying:
            unknown = member.id not in own and member.id not in spared
            if unknown and (member.seats[0].born == 1 or member.seats[0].joined):
                return Exit(ExitCause.LOST, None, f"{names[member.id]} is not known to the engine any more")
    return None


def _too_long(job: Job, now: float, limits: Limits) -> Exit | None:
    if limits.max_runtime is None or job.started_at is None:
        return None
    if now < job.started_at + limits.max_runtime + limits.leapt:
        return None
    return Exit(ExitCause.TIME, None, f"it ran longer than its max_runtime of {limits.max_runtime:g} s")


def _never_up(job: Job, staying: list[Member], own: Statuses, now: float, limits: Limits) -> Exit | None:
    """Return the end of a gang that is still partly down when it should be up: undone, not charged."""
    if job.phase is Phase.RUNNING:
        late = _stuck(job, staying, own, now - limits.start_timeout)
    elif job.phase is Phase.STARTING and job.started_at is not None:
        late = _late(job, staying, own, now - limits.start_timeout - max(0.0, limits.leapt))
    else:
        late = []
    return (
        Exit(ExitCause.LOST, None, f"{late[0]} was not up within {limits.start_timeout:g} s")
        if late
        else None
    )


def _late(job: Job, staying: list[Member], own: Statuses, by: float) -> list[str]:
    """Return the names of the gang's workers that are down though all of it has been starting since then."""
    setup = own.get(setup_id(job)) if job.spec.setup else None
    if setup is not None and setup.state is WorkerState.STARTING:  # one that runs may take its time
        return ["the setup"] if (job.started_at or 0.0) <= by else []
    since = up_since(job, own)
    if since is None or since > by:
        return []
    return [exit_status.name(member, staying) for member in staying if not exit_status.up(own.get(member.id))]


def _stuck(job: Job, staying: list[Member], own: Statuses, by: float) -> list[str]:
    """Return the workers that joined a running gang and have been starting since then: the gang would never
    finish.

    Empty for replicas that serve independently: the others continue.
    """
    if replica_restarts.apart(job):
        return []
    return [
        exit_status.name(member, staying)
        for member in staying
        if (status := own.get(member.id)) is not None
        and status.state is WorkerState.STARTING
        and status.started_at is not None
        and status.started_at <= by
    ]


def up_since(job: Job, own: Statuses) -> float | None:
    """Return the time since which the main workers have been starting; None while the setup runs or nothing
    has started.
    """
    if not job.spec.setup:
        return job.started_at
    setup = own.get(setup_id(job))
    return setup.ended_at if setup is not None and setup.state is WorkerState.ENDED else None


# ------------------------------------------------------------------------------------- while it runs


def _replaced(job: Job, own: Statuses, now: float) -> JobChange | None:
    """Put others in the place of replicas that have ended."""
    found = replica_restarts.replaced(job, own, now)
    return None if found is None else change(found[0], "replacing", now, found[1], reason=job.reason)


def _released(job: Job, seats: tuple[Member, ...], own: Statuses, now: float) -> JobChange | None:
    """Remove the placements that were given back and whose workers are confirmed dead."""
    setup = own.get(setup_id(job))
    if setup is not None and setup.state is not WorkerState.ENDED:
        return None  # it is bound to all GPUs of its node
    gone = {
        seat
        for member in seats
        if member.leaving and ((status := own.get(member.id)) is None or status.state is WorkerState.ENDED)
        for seat in member.seats
    }
    if not gone:
        return None
    left = replace(job, seats=tuple(seat for seat in job.seats if seat not in gone))
    if any(member.leaving and member.seats[0].joined and _fell(own.get(member.id)) for member in seats):
        left = replace(left, broken=job.team)  # it left workers behind that still computed with it
    count = f"{len(gone)} of its workers has" if len(gone) == 1 else f"{len(gone)} of its workers have"
    text = f"{count} left; it goes on with {len(left.staying)}"
    return change(left, "released", now, text, reason=job.reason)


def _running(job: Job, staying: list[Member], own: Statuses, now: float) -> JobChange | None:
    if job.phase is not Phase.STARTING or not all(exit_status.up(own.get(member.id)) for member in staying):
        return None
    count = "its worker is" if len(staying) == 1 else f"all {len(staying)} workers are"
    # The reason why it runs was recorded at its start, and stays true.
    return change(replace(job, phase=Phase.RUNNING), "running", now, f"{count} up", reason=job.reason)


# ------------------------------------------------------------------------------------- after the end


def conclude(job: Job, own: Statuses, now: float, larger: Larger = lambda *_: None) -> JobChange:
    """Decide what becomes of a job whose workers are all confirmed dead. Only here does an attempt lose its
    placements.
    """
    free = replace(job, seats=(), backfill_until=None, not_before=0.0, artefacts=())
    exit_ = job.exit
    if exit_ is None and (done := _all_done(_firm(job, members(job), own), own)) is not None:
        exit_ = done  # it ended by itself before the request reached it
    if exit_ is None and job.artefacts and not artifact_inputs_outputs.missing(job):
        exit_ = Exit(ExitCause.DONE, 0)  # it was asked to stop while its outputs were being kept
    if exit_ is not None and exit_.cause is ExitCause.DONE:
        if lost := artifact_inputs_outputs.missing(job):
            text = f"all workers have finished, but nobody has told that output {', '.join(lost)} is kept"
            return _again(free, Exit(ExitCause.CODE, 0, text), now, charged=True)
        kept_all = replace(free, artefacts=job.artefacts)
        return _over(kept_all, Phase.SUCCEEDED, exit_, now, "it has finished")
    if job.desired is Desired.STOP:
        return _over(free, Phase.STOPPED, Exit(ExitCause.STOPPED), now, "stopped; all its processes are gone")
    if exit_ is not None and exit_.cause is ExitCause.TIME:
        return _over(free, Phase.FAILED, exit_, now, sentence(exit_))
    if exit_ is None:
        return _paused(replace(free, exit=Exit(ExitCause.PREEMPTED)), now, "")
    if exit_.cause is ExitCause.GPU_MEMORY and not crowded(job, exit_):
        answer = larger(job, own)
        if answer is not None:
            return _answered(free, exit_, answer, now)
    return _again(free, exit_, now, charged=exit_.cause not in NEVER_CHARGED and not crowded(job, exit_))


def crowded(job: Job, exit_: Exit | None) -> bool:
    """Return whether it ran out of memory (OOM) beside another job on a GPU that it had requested alone."""
    causes = (ExitCause.MEMORY, ExitCause.GPU_MEMORY)
    return exit_ is not None and exit_.cause in causes and job.spec.request.shares and 0 < job.held < GPU


def _answered(job: Job, exit_: Exit, answer: OomResponse, now: float) -> JobChange:
    """Start another attempt with more memory, or with another execution plan; end the job if nothing in this
    pool would be enough.

    It is not charged as a failure: a job with too low an estimate cannot fail in the same way again.
    """
    if isinstance(answer.found, NoFittingSize):
        kept = with_size(job, SizedSpec(job.spec, answer.found.why), answer.short)
        failed = replace(kept, failures=job.failures + 1)
        return _over(failed, Phase.FAILED, exit_, now, f"{sentence(exit_)}; {answer.found.why}")
    larger = with_size(job, answer.found, answer.short)
    waits = replace(larger, exit=exit_, not_before=now + FIRST_BACK_OFF)
    text = f"{sentence(exit_)}; it starts again with {answer.found.why}; that is not charged"
    return _waits(waits, "enlarged", now, text)


def _again(job: Job, exit_: Exit, now: float, *, charged: bool) -> JobChange:
    """Another attempt after a failure, or the end if it has failed too often."""
    if not charged:
        waits = replace(job, exit=exit_, not_before=now + FIRST_BACK_OFF)
        text = f"{sentence(exit_)}; it waits for another start, which is not charged"
        return _waits(waits, "requeued", now, text)
    if replica_restarts.apart(job):
        return _serves_again(job, exit_, now)
    failures = job.failures + 1
    failed = replace(job, exit=exit_, failures=failures)
    if failures > job.spec.retries:
        tries = f", {job.spec.retries} of {job.spec.retries} retries used" if job.spec.retries else ""
        return _over(failed, Phase.FAILED, exit_, now, f"{sentence(exit_)}{tries}")
    wait = job_backoff(failures)
    text = f"{sentence(exit_)}; retry {failures} of {job.spec.retries} in {wait:g} s"
    return _waits(replace(failed, not_before=now + wait), "retrying", now, text)


def _serves_again(job: Job, exit_: Exit, now: float) -> JobChange:
    """Restart a served model without limit: a model must not stop answering because it has failed often
    enough.
    """
    failures = replica_restarts.failures_after(job, now)
    wait = job_backoff(failures)
    waits = replace(job, exit=exit_, failures=failures, not_before=now + wait)
    return _waits(waits, "retrying", now, f"{sentence(exit_)}; it starts again in {wait:g} s")


def waits_too_long(job: Job, now: float) -> JobChange | None:
    """Return True if a wait after a failure is too long: then the clock has been set back since."""
    if job.not_before <= now + LONGEST_BACK_OFF:
        return None
    text = "the clock was set back; it need not wait until it has caught up"
    return change(replace(job, not_before=now + FIRST_BACK_OFF), "requeued", now, text)


def _waits(job: Job, kind: str, now: float, text: str) -> JobChange:
    if job.phase is Phase.PAUSING:
        return _paused(job, now, text)
    return change(replace(job, phase=Phase.PENDING), kind, now, text)


def _paused(job: Job, now: float, text: str) -> JobChange:
    why = job.reason or "paused by the scheduler"
    if job.paused_by in (PauseCause.SWEEP, PauseCause.RUNG):
        why += ", until its sweep resumes it"
    elif job.paused_by is not None and job.paused_by is not PauseCause.SCHEDULER:
        why += ", until somebody resumes it"
    return change(replace(job, phase=Phase.PAUSED), "paused", now, f"{text}; {why}" if text else why)


def _over(job: Job, phase: Phase, exit_: Exit, now: float, text: str) -> JobChange:
    return change(replace(job, phase=phase, exit=exit_, ended_at=now), phase.value, now, text)


def dependency_failed(job: Job, other: str, how: str, now: float) -> JobChange:
    """End a job that has never started, because one that it depends on did not succeed."""
    text = f"it comes after {other}, which {how}"
    return _over(job, Phase.FAILED, Exit(ExitCause.START, None, text), now, text)


def keyed(job: Job, key: str, near: tuple[NodeId, ...] = ()) -> JobChange:
    """Record the key of a stage that was compared with earlier runs, none of which can replace it."""
    saves_as = job.saves_as or (key[:OWN_NAME] if job.spec.outputs else "")
    return JobChange(replace(job, key=key, saves_as=saves_as, near=near), None)


def unchanged(job: Job, key: str, earlier: JobId, outputs: tuple[Artifact, ...], now: float) -> JobChange:
    """Record the success of a stage that need not run, because an earlier job has produced its outputs."""
    text = f"unchanged since run {earlier}, whose outputs it takes over"
    same = replace(job, key=key, same_as=earlier, artefacts=outputs)
    return _over(same, Phase.SUCCEEDED, Exit(ExitCause.DONE, 0, text), now, text)


# --------------------------------------------------------------------------------------------- text


def _alive(own: Statuses) -> bool:
    return any(status.state is not WorkerState.ENDED for status in own.values())


def _fell(status: WorkerStatus | None) -> bool:
    """Return whether it ended, and not in order."""
    return status is not None and exit_status.over(status) and not exit_status.left(status)
