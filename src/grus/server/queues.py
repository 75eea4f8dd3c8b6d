"""Routes of queues: look, make or change, delete."""

from fastapi import APIRouter
from starlette.responses import Response

from grus.api.wire import QueueIn, QueueOut, queue_out, to_queue
from grus.model.identifiers import QueueName
from grus.server.edge import Does, NamePath, Who, answer, answers, off_loop

router = APIRouter(prefix="/v1", tags=["queues"])


@router.get("/queues", response_model=list[QueueOut])
async def list_queues(user: Who, does: Does) -> Response:
    """Every queue with what it deserves, holds and waits for."""
    states = {state.name: state for state in await off_loop(does.queues, user)}
    found = await off_loop(does.queue_settings, user)
    return answers(QueueOut, [queue_out(queue, states.get(queue.name)) for queue in found])


@router.put("/queues/{name}", response_model=QueueOut)
async def put_queue(name: NamePath, queue: QueueIn, user: Who, does: Does) -> Response:
    """Make the queue, or replace all its settings."""
    return answer(queue_out(await off_loop(does.put_queue, user, to_queue(name, queue))))


@router.delete("/queues/{name}", status_code=204)
async def delete_queue(name: NamePath, user: Who, does: Does) -> Response:
    """Refused with their list while it has jobs that have not ended."""
    await off_loop(does.delete_queue, user, QueueName(name))
    return Response(status_code=204)
