"""Trial jobs: derive a sweep's trials from its template, and the size that a trial may have. Pure."""

import json
import math
import os.path
from dataclasses import replace

from grus.api.inputs.argument_placeholders import fill
from grus.controlplane.admission.submission import new_job
from grus.model.identifiers import JobId
from grus.model.job_spec import TRAINER, resized
from grus.model.jobs import Job, JobType, Spec, worker_per_seat
from grus.model.resources import Range
from grus.model.sweep_search import Params, Stopping, Sweep, Trial
from grus.tuning.orders import Start
from grus.tuning.rungs import rungs


def key(sweep: JobId, number: int) -> str:
    """Return the key under which a trial is stored: a repeated creation finds the first. No header of a
    request can hold it.
    """
    return f"trial\n{sweep}\n{number}"


def trial_job(sweep: Job, start: Start, rungs: tuple[float, ...], id_: JobId, now: float) -> Job:
    """Return the job of a trial as it is first stored."""
    assert sweep.spec.sweep is not None
    spec = trial_spec(sweep, start, rungs)
    wide = _wide(spec, sweep.spec.sweep)
    job = new_job(id_, sweep.user, wide or spec, now)
    return replace(job, size=spec.request.roles[0].replicas if wide else None)


def heard_rungs(stopping: Stopping) -> tuple[float, ...]:
    """Return the progress values at which a trial's report counts at once: at comparisons, at its end, and
    beyond it.
    """
    most = stopping.most
    return (*rungs(stopping), *(() if most is None else (most, math.nextafter(most, math.inf))))


def trial_spec(sweep: Job, start: Start, rungs: tuple[float, ...]) -> Spec:
    """Return the template with these parameters."""
    spec, search = sweep.spec, sweep.spec.sweep
    assert search is not None
    return replace(
        with_params(spec, start.params),
        name=f"{spec.name[:52]}-{start.number}",
        type=JobType.TRAIN,
        sweep=None,
        trial=Trial(sweep.id, start.number, search.stopping.by, rungs),
        after=(),
        graph=None,
        fresh=True,  # the origin of an earlier job's output is unknown
        snapshot=False,  # its code is its sweep's copy, and is deleted with that
        checkpoint=replace(spec.checkpoint, path=_own_path(sweep, start.number)),
    )


def _own_path(sweep: Job, number: int) -> str:
    """Return a path separate from other trials'; a training of Grus's own has a folder for each job
    anyway.
    """
    path = sweep.spec.checkpoint.path
    if not path or sweep.spec.run[: len(TRAINER)] == TRAINER:
        return path
    root, ending = os.path.splitext(path.rstrip("/"))
    return f"{root}-{sweep.id}-{number}{ending}"


def with_params(template: Spec, chosen: Params) -> Spec:
    """Return the template with these parameters beside its own, and their values in its commands."""
    params = (*template.params, *chosen)
    roles = tuple(replace(role, run=fill(role.run, params)) for role in template.request.roles)
    request = replace(template.request, roles=roles)
    training = template.run[: len(TRAINER)] == TRAINER
    run = _section_with(template.run, chosen) if training else fill(template.run, params)
    return replace(template, run=run, request=request, params=params)


def _section_with(run: tuple[str, ...], params: Params) -> tuple[str, ...]:
    """Return the command of a `train:` section, with those parameters in it that are named like its
    fields.
    """
    section = json.loads(run[-1])
    for name, value in params:
        if name in section or name in SECTION:
            section[name] = value
        elif name.startswith(OPTIMIZER):
            given = section.get("optimizer", {})
            known = {"name": given} if isinstance(given, str) else given
            section["optimizer"] = {**known, name.removeprefix(OPTIMIZER): value}
    return (*TRAINER, json.dumps(section, sort_keys=True, ensure_ascii=False))


SECTION = frozenset({"batch", "epochs", "seed"})
"""Fields of a `train:` section that a parameter sets although the section does not have them."""
OPTIMIZER = "optimizer."
"""Prefix of the name of an option of its optimizer: `optimizer.lr`."""


def resumable(job: Job) -> bool:
    """Return whether a pause loses nothing: the job saves checkpoints, or its training is Grus's own."""
    return bool(job.spec.checkpoint.path) or job.spec.run[: len(TRAINER)] == TRAINER


# ------------------------------------------------------------------------------------------- its size


def _wide(spec: Spec, sweep: Sweep) -> Spec | None:
    """Return the spec with the whole range that it may have, if it can grow while it runs; else None."""
    if not sweep.grow or not worker_per_seat(spec):
        return None
    base, grown = spec.request.roles[0], resized(spec, sweep.grow).request.roles[0]
    if not base.replica.gpus or base.replica != grown.replica:
        return None
    both = Range(base.replicas.low, max(base.replicas.high, grown.replicas.high))
    return replace(spec, request=replace(spec.request, roles=(replace(base, replicas=both),)))


def scaled(job: Job, template: Spec, gpu: str) -> Job:
    """Return a trial that may hold `gpu` from now on; empty for the size in its template.

    With the same spec it changes while it runs; with another one only between two attempts.
    """
    asked = resized(template, gpu) if gpu else template
    mine, wanted = job.spec.request.roles[0], asked.request.roles[0]
    grown = bool(gpu)
    lies_within = mine.replicas.low <= wanted.replicas.low and wanted.replicas.high <= mine.replicas.high
    if mine.replica == wanted.replica and job.spec.request.elastic is not None and lies_within:
        low = wanted.replicas.low if wanted.replicas.rigid and not gpu else mine.replicas.low
        return replace(job, size=Range(low, wanted.replicas.high), grown=grown)
    return replace(job, spec=replace(job.spec, request=asked.request), size=None, grown=grown)


def grows_while_running(job: Job, template: Spec, gpu: str) -> bool:
    return scaled(job, template, gpu).spec == job.spec
