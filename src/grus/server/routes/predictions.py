"""The route of served models: a request in, what the model says of it out."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.controlplane.facade.services import Services
from grus.model.errors import Conflict
from grus.model.identifiers import JobId
from grus.model.interfaces import User
from grus.model.jobs import HOLDING, Desired, JobType
from grus.server.http.dependencies import Does, JobPath, Who, off_loop
from grus.server.http.inference_proxy import Forwarder, ServedModelStatus

router = APIRouter(prefix="/v1", tags=["jobs"])

ASKED = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["inputs"],
                    "properties": {
                        "inputs": {"type": "array", "description": "The samples."},
                        "dtype": {"type": "string", "description": "Of the samples, if not the model's own."},
                    },
                }
            }
        },
    }
}


@router.post("/jobs/{id}/predict", openapi_extra=ASKED)
async def predict(id: JobPath, user: Who, does: Does, request: Request) -> Response:
    """Return the served model's answer to `{"inputs": [sample, …]}`, from one of its replicas."""
    forwarder: Forwarder = request.app.state.forwarder

    async def look() -> ServedModelStatus:
        return await off_loop(_standing, does, user, JobId(id))

    return await forwarder.ask(look, await request.body())


def _standing(does: Services, user: User, id_: JobId) -> ServedModelStatus:
    """Its replicas that answer. Raises Conflict where waiting for one is in vain."""
    job = does.visible.get(user, id_)
    if job.spec.type is not JobType.SERVE:
        raise Conflict(f"job {id_} is of type {job.spec.type.value}; only one of type serve answers requests")
    if job.terminal:
        raise Conflict(f"job {id_} has ended ({job.phase.value}): nobody answers any more")
    if job.desired is not Desired.RUN:
        raise Conflict(f"job {id_} is being paused or stopped; `grus resume {id_}` lets a paused one answer")
    booting = "it is starting" if job.phase in HOLDING else job.reason
    return ServedModelStatus(does.outputs.endpoints(user, id_), booting)
