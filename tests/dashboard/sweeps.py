"""Sweeps on record, with trials that have come to something."""

from collections.abc import Sequence
from dataclasses import replace

from grus.model.identifiers import JobId
from grus.model.interfaces import REPORTS, Event, Store
from grus.model.jobs import Desired, Job, JobType, PauseCause, Phase
from grus.model.metrics_history import Reported
from grus.model.sweep_search import Axis, Params, Sweep, Trial
from tests.store.builders import a_job

SEARCH = Sweep(
    axes=(Axis(name="lr", low=1e-4, high=1.0, log=True), Axis(name="width", choices=(64, 128))), metric="loss"
)


def put_sweep(
    store: Store,
    id_: str = "jsweep00001",
    search: Sweep = SEARCH,
    *,
    name: str = "topsecret-tuning",
    queue: str = "vision",
    user: str = "ada",
    phase: Phase = Phase.RUNNING,
) -> Job:
    job = a_job(id_, name=name, queue=queue, user=user, phase=phase)
    spec = replace(job.spec, type=JobType.SWEEP, sweep=search, workdir="/")
    by = PauseCause.PERSON if phase is Phase.PAUSED else None
    wants = Desired.PAUSE if phase is Phase.PAUSED else Desired.RUN
    began = job.submitted_at
    return put(store, replace(job, spec=spec, first_started_at=began, paused_by=by, desired=wants))


def put_trial(
    store: Store,
    sweep: Job,
    number: int,
    params: Params,
    losses: Sequence[float],
    phase: Phase = Phase.SUCCEEDED,
) -> Job:
    """One that has reported these values of the metric, a step each."""
    assert sweep.spec.sweep is not None
    id_ = JobId(f"{sweep.id}t{number}")
    trial = Trial(sweep.id, number)
    spec = replace(sweep.spec, type=JobType.TRAIN, sweep=None, trial=trial, params=params)
    metric = sweep.spec.sweep.metric
    said = [(("step", float(at + 1)), (metric, loss)) for at, loss in enumerate(losses)]
    job = put(
        store,
        replace(
            sweep,
            id=id_,
            spec=replace(spec, name=f"{spec.name}-{number}"),
            version=0,
            phase=phase,
            paused_by=None,
            desired=Desired.RUN,
            submitted_at=sweep.submitted_at + number + 1,
            ended_at=sweep.submitted_at + 100 if phase not in (Phase.RUNNING, Phase.PENDING) else None,
            progress=said[-1] if said else (),
        ),
    )
    reports = [
        Reported(job=id_, number=at, attempt=1, at=1000.0 + at, figures=figures)
        for at, figures in enumerate(said)
    ]
    store.put(REPORTS, *reports).result()
    return job


def put(store: Store, job: Job) -> Job:
    event = Event(at=job.submitted_at, kind="submitted", text="It was submitted.", job=job.id)
    return store.create(job, event).result()
