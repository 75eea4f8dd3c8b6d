"""Routes of sweeps: a search with its trials, and the best of them as a job file."""

from fastapi import APIRouter
from starlette.responses import Response

from grus.api.wire_types.sweep import BestOut, SweepOut
from grus.controlplane.sweeps.sweep_summary import winner
from grus.model.identifiers import JobId
from grus.server.http.dependencies import Does, JobPath, Who, answer, off_loop

router = APIRouter(prefix="/v1", tags=["sweeps"])


@router.get("/sweeps/{id}", response_model=SweepOut)
async def one_sweep(id: JobPath, user: Who, does: Does) -> Response:
    """The search, its trials in the order of their making, the best so far and what mattered."""
    return answer(SweepOut.from_model(await off_loop(does.sweeps.of, user, JobId(id))))


@router.get("/sweeps/{id}/best", response_model=BestOut)
async def best(id: JobPath, user: Who, does: Does) -> Response:
    """The best trial as a job file. 409 while no trial has reported a value."""
    found = await off_loop(lambda: winner(does.sweeps.of(user, JobId(id))))
    return answer(BestOut.from_model(found, sweep=id))
