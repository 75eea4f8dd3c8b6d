"""Sweep as users see it: its trials, their states, the best one, and the parameter importance."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from grus.controlplane.sweeps.trial_index import Trials
from grus.controlplane.sweeps.trial_spec import with_params
from grus.controlplane.visibility import JobVisibility
from grus.model.errors import Conflict, NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import User
from grus.model.job_spec import TRAINER
from grus.model.jobs import Job, JobType, Spec
from grus.model.sweep_search import Params, Sweep
from grus.store.kubernetes.job_manifest import written
from grus.tuning.importance import importance
from grus.tuning.sweep_trials import Curve, TrialView, best_trial, best_value


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """One trial."""

    number: int
    job: Job
    params: Params
    value: float | None
    """Best reported value of the metric; None as long as it reported no number."""
    curve: Curve
    """Progress and value of the metric there, in order; NaN at its end if it diverged."""
    gpu_seconds: float
    """GPU-seconds so far."""
    seconds: float
    """Seconds that it has run so far, in all attempts."""
    held_back: bool
    """True if it waits at a rung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """Whole sweep at one moment."""

    job: Job
    sweep: Sweep
    trials: tuple[TrialSummary, ...]
    """Trials in the order of their numbers."""
    best: TrialSummary | None
    importance: tuple[tuple[str, float], ...]
    """Importance of each parameter, parts of 1, the most important first; empty while too little is known."""
    gpu_seconds: float
    """GPU-seconds of all trials."""


class SweepReader:
    """One a server, for any thread."""

    def __init__(self, visible: JobVisibility, trials: Trials, clock: Callable[[], float]) -> None:
        self._visible = visible
        self._trials = trials
        self._clock = clock

    def of(self, user: User, id_: JobId) -> SweepView:
        """Return a sweep with all its trials. Raises NotFound for a job that is none."""
        job = self._visible.get(user, id_)
        if job.spec.sweep is None:
            raise NotFound(f"job {id_} is no sweep")
        return view_of(job, self._trials, self._clock())


def view_of(job: Job, trials: Trials, now: float) -> SweepView:
    sweep = job.spec.sweep
    assert sweep is not None
    jobs = {one.spec.trial.number: one for one in trials.of(job) if one.spec.trial is not None}
    views = [view for view in trials.views(job, now) if view.number in jobs]
    tried = tuple(_tried(view, jobs[view.number], sweep) for view in views)
    best = best_trial(views, sweep.goal)
    return SweepView(
        job=job,
        sweep=sweep,
        trials=tried,
        best=next((one for one in tried if best is not None and one.number == best.number), None),
        importance=importance(sweep, views),
        gpu_seconds=sum(one.gpu_seconds for one in tried),
    )


def _tried(view: TrialView, job: Job, sweep: Sweep) -> TrialSummary:
    return TrialSummary(
        number=view.number,
        job=job,
        params=view.params,
        value=best_value(view, sweep.goal),
        curve=view.curve,
        gpu_seconds=view.gpu_seconds,
        seconds=view.seconds,
        held_back=view.held_back,
    )


@dataclass(frozen=True, slots=True)
class Winner:
    """The best trial, and a job file that runs it again by itself."""

    trial: int
    value: float
    document: dict[str, Any]


def winner(view: SweepView) -> Winner:
    """Return the best trial. Raises Conflict while no trial has a value."""
    best = view.best
    if best is None or best.value is None:
        raise Conflict(
            f"no trial of sweep {view.job.id} has reported {view.sweep.metric} yet; there is no best one"
        )
    return Winner(best.number, best.value, document(_alone(view.job.spec, best)))


def _alone(template: Spec, best: TrialSummary) -> Spec:
    """Return the best trial as a job of its own."""
    return replace(
        with_params(template, best.params),
        name=f"{template.name[:58]}-best",
        type=JobType.TRAIN,
        sweep=None,
        after=(),
        graph=None,
        inputs=(),
        outputs=(),
        snapshot=False,
    )


def document(spec: Spec) -> dict[str, Any]:
    """Return a job as its user could have written it."""
    form = {"name": spec.name, **written(spec)}
    if spec.run[: len(TRAINER)] == TRAINER:
        del form["run"]
        form.pop("launch", None)
        form["train"] = json.loads(spec.run[-1])
    return form | ({"params": dict(spec.params)} if spec.params else {})
