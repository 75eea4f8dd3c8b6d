"""Sweep transitions: the next state of a sweep and of its trials. Pure: records + orders of the search + now
→ changes.

A sweep passes through the phases of any job, without workers:

    pending → starting → running → (pausing → paused → starting …) → succeeded | failed | stopped

It is starting until a trial of it runs, and pausing or ending until none does. Its end is first recorded
(`exit`, or desired `stop`), then its trials are ended, and when the last one is over, so is the sweep. Every
transition follows from the records and may be repeated, so that the process that drives sweeps can die
between any two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from grus.controlplane.jobs import user_actions
from grus.controlplane.jobs.lifecycle import JobChange, change
from grus.controlplane.sweeps.trial_spec import grows_while_running, resumable, scaled
from grus.model.artifacts import Artifact
from grus.model.jobs import HOLDING, Desired, Exit, ExitCause, Job, PauseCause, Phase
from grus.model.texts.plural_words import counted
from grus.tuning.orders import Finish, Order, Pause, Resume, ScaleTrial, Stop

Artefacts = tuple[Artifact, ...]
SWEEP = "its sweep"
"""Actor named in the events of a trial."""
PAUSED = "its sweep is paused"
OVER = "its sweep is over"
GROWS = "it starts again with another size"


# --------------------------------------------------------------------------------------- the sweep itself


def advance(sweep: Job, trials: Sequence[Job], now: float, left: Artefacts = ()) -> JobChange | None:
    """Return the next step of the sweep itself, if its trials are ready for it.

    `left` are the outputs of its best complete trial: they become the outputs of the sweep.
    """
    if sweep.terminal:
        return None
    if sweep.desired is Desired.STOP or sweep.exit is not None:
        over = all(trial.terminal for trial in trials)
        return _over(replace(sweep, artefacts=left), now) if over else None
    if sweep.desired is Desired.PAUSE:
        return _paused(sweep, trials, now)
    match sweep.phase:
        case Phase.PAUSING:  # resumed before it was paused
            return change(replace(sweep, phase=Phase.PAUSED), "paused", now, "paused, and resumed at once")
        case Phase.PENDING | Phase.PAUSED:
            first = now if sweep.first_started_at is None else sweep.first_started_at
            begun = replace(
                sweep,
                phase=Phase.STARTING,
                attempt=sweep.attempt + 1,
                started_at=now,
                first_started_at=first,
                paused_by=None,
            )
            return change(begun, "starting", now, "it submits trials")
        case Phase.STARTING if any(trial.attempt for trial in trials):
            return change(replace(sweep, phase=Phase.RUNNING), "running", now, "its trials run")
    return None


def _over(sweep: Job, now: float) -> JobChange:
    exit_ = sweep.exit
    if sweep.desired is Desired.STOP:
        exit_ = exit_ or Exit(ExitCause.STOPPED)
        phase, text = Phase.STOPPED, "stopped; all its trials have ended"
    else:
        assert exit_ is not None
        phase, text = Phase.SUCCEEDED if exit_.cause is ExitCause.DONE else Phase.FAILED, exit_.text
    return change(replace(sweep, phase=phase, exit=exit_, ended_at=now), phase.value, now, text)


def _paused(sweep: Job, trials: Sequence[Job], now: float) -> JobChange | None:
    """Record the pause once it is confirmed: no trial holds anything any more."""
    if sweep.phase is not Phase.PAUSING or any(one.seats or one.phase in HOLDING for one in trials):
        return None
    text = f"{sweep.reason}, until somebody resumes it; no trial holds a GPU"
    return change(replace(sweep, phase=Phase.PAUSED), "paused", now, text)


def finish(sweep: Job, order: Finish, now: float) -> JobChange:
    """Record the end; the sweep is over when all its trials are."""
    exit_ = Exit(ExitCause.DONE, 0, order.why) if order.good else Exit(ExitCause.CODE, 1, order.why)
    return change(replace(sweep, exit=exit_), "ending", now, f"{order.why}; trials that still run are ended")


# --------------------------------------------------------------------------------------------- its trials


def bound(sweep: Job, trials: Sequence[Job], now: float) -> list[JobChange]:
    """Return the changes that the sweep's own state requires of its trials: they end, pause and continue with
    it.
    """
    alive = [trial for trial in trials if not trial.terminal]
    if sweep.terminal or sweep.desired is Desired.STOP or sweep.exit is not None:
        # For a trial that waited at a rung, the reason of that wait is more useful.
        waited = [trial for trial in alive if trial.paused_by is PauseCause.RUNG]
        others = [trial for trial in alive if trial.paused_by is not PauseCause.RUNG]
        return [
            *_all(waited, "", lambda trial: user_actions.stop(trial, SWEEP, now)),
            *_all(others, OVER, lambda trial: user_actions.stop(trial, SWEEP, now)),
        ]
    if sweep.desired is Desired.PAUSE:
        return _all(alive, PAUSED, lambda trial: _pause(trial, now, PauseCause.SWEEP))
    held = [trial for trial in alive if trial.paused_by is PauseCause.SWEEP and trial.phase is Phase.PAUSED]
    return _all(held, "", lambda trial: _resume(_sized(trial, sweep), now))


def _sized(trial: Job, sweep: Job) -> Job:
    """Return a trial between two attempts with the size that it was granted."""
    assert sweep.spec.sweep is not None
    return scaled(trial, sweep.spec, sweep.spec.sweep.grow) if trial.grown else trial


def ordered(sweep: Job, trials: Sequence[Job], orders: Sequence[Order], now: float) -> list[JobChange]:
    """Return the changes that the search orders for existing trials; orders that are already carried out add
    nothing.
    """
    by_number = {trial.spec.trial.number: trial for trial in trials if trial.spec.trial is not None}
    found = []
    for order in orders:
        if isinstance(order, Pause | Resume | Stop | ScaleTrial) and order.number in by_number:
            made = _ordered(by_number[order.number], sweep, order, now)
            found += [] if made is None else [made]
    return found


def _ordered(
    trial: Job, sweep: Job, order: Pause | Resume | Stop | ScaleTrial, now: float
) -> JobChange | None:
    if trial.terminal or trial.desired is Desired.STOP:
        return None
    match order:
        case Pause(_, why):
            return _with_verdict(_pause(trial, now, PauseCause.RUNG), why)
        case Resume(_, why):
            return _with_verdict(_resume(trial, now), why)
        case Stop(_, why):
            return _with_verdict(user_actions.stop(trial, f"{SWEEP}: {why}", now), why)
        case ScaleTrial(_, gpu):
            return _scale(trial, sweep, gpu, now)


def _scale(trial: Job, sweep: Job, gpu: str, now: float) -> JobChange | None:
    wanted = scaled(trial, sweep.spec, gpu)
    if wanted == trial:
        return None
    text = f"{SWEEP} lets it hold {gpu or 'what all trials hold'}"
    if grows_while_running(trial, sweep.spec, gpu):
        free = replace(wanted, not_before=0.0, verdict=text)
        return change(free, "scaled", now, text, reason=trial.reason)
    if trial.phase in HOLDING:  # its size is that of its whole attempt: end this one first
        if not resumable(trial):
            return None
        return _with_verdict(_pause(replace(trial, grown=wanted.grown), now, PauseCause.SWEEP), GROWS)
    return change(replace(wanted, verdict=text), "scaled", now, text, reason=trial.reason)


def _pause(trial: Job, now: float, cause: PauseCause) -> JobChange | None:
    if trial.desired is not Desired.RUN:
        return None
    return user_actions.pause(trial, SWEEP, now, cause)


def _resume(trial: Job, now: float) -> JobChange | None:
    """Resume only trials that the sweep itself has paused: a trial paused by a user must be resumed by a
    user.
    """
    if trial.paused_by not in (PauseCause.SWEEP, PauseCause.RUNG):
        return None
    return user_actions.resume(trial, SWEEP, now)


def _all(trials: Sequence[Job], why: str, wish: Callable[[Job], JobChange | None]) -> list[JobChange]:
    made = [_with_verdict(wish(trial), why) for trial in trials]
    return [one for one in made if one is not None]


def _with_verdict(made: JobChange | None, why: str) -> JobChange | None:
    if made is None or not why:
        return made
    return replace(made, job=replace(made.job, verdict=why))


# ---------------------------------------------------------------------------------------- for users


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """Progress of a sweep, in numbers."""

    trials: int
    ended: int
    running: int
    best: float | None
    trouble: str = ""
    """Reason why the search failed to decide when it last ran."""


def told(sweep: Job, metric: str, standing: SweepStatus) -> Job:
    """Return the sweep with its metrics and a sentence; the very same if nothing is new."""
    figures = [("trials", float(standing.trials)), ("ended", float(standing.ended))]
    best = "" if standing.best is None else f"; best {metric} {standing.best:g}"
    if standing.best is not None:
        figures.append((metric, standing.best))
    reason = f"{standing.running} of {counted(standing.trials, 'trial')} running{best}"
    if sweep.phase is not Phase.RUNNING or sweep.exit is not None or sweep.desired is not Desired.RUN:
        reason = sweep.reason
    if standing.trouble:
        reason = f"cannot go on: {standing.trouble}; it is tried again, and the server's log says more"
    if (tuple(figures), reason) == (sweep.progress, sweep.reason):
        return sweep
    return replace(sweep, progress=tuple(figures), reason=reason)
