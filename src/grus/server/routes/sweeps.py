"""Routes of sweeps: a search with its trials, and the best of them as a job file."""

import math

from fastapi import APIRouter
from starlette.responses import Response

from grus.api.units import gpu_number
from grus.api.wire import job_out, status_word
from grus.api.wire_types.sweep import BestOut, SweepOut, TrialOut, sweep_out
from grus.controlplane.sweeps.sweep_summary import SweepView, TrialSummary, winner
from grus.model.identifiers import JobId
from grus.server.http.dependencies import Does, JobPath, Who, answer, off_loop

router = APIRouter(prefix="/v1", tags=["sweeps"])


@router.get("/sweeps/{id}", response_model=SweepOut)
async def one_sweep(id: JobPath, user: Who, does: Does) -> Response:
    """The search, its trials in the order of their making, the best so far and what mattered."""
    return answer(shown(await off_loop(does.sweeps.of, user, JobId(id))))


@router.get("/sweeps/{id}/best", response_model=BestOut)
async def best(id: JobPath, user: Who, does: Does) -> Response:
    """The best trial as a job file. 409 while no trial has reported a value."""
    found = await off_loop(lambda: winner(does.sweeps.of(user, JobId(id))))
    return answer(BestOut(sweep=id, trial=found.trial, value=found.value, document=found.document))


def shown(view: SweepView) -> SweepOut:
    """A sweep as it is sent."""
    return sweep_out(
        job_out(view.job),
        view.sweep,
        [_trial(one) for one in view.trials],
        best=None if view.best is None else view.best.number,
        importance=view.importance,
        gpu_hours=view.gpu_seconds / 3600,
    )


def _trial(one: TrialSummary) -> TrialOut:
    job = one.job
    return TrialOut(
        number=one.number,
        job=job.id,
        name=job.spec.name,
        params=dict(one.params),
        phase=job.phase.value,
        status="waiting" if one.held_back else status_word(job),
        value=one.value,
        reached=one.curve[-1][0] if one.curve else None,
        curve=[(at, value if math.isfinite(value) else None) for at, value in one.curve],
        gpus=gpu_number(job.held),
        gpu_hours=one.gpu_seconds / 3600,
        seconds=one.seconds,
        grown=job.grown,
        why=job.verdict or job.reason,
    )
