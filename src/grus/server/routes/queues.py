"""Routes of queues: look, make or change, delete."""

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import Response

from grus.api.wire_types.pool import QueueIn, QueueOut, queue_out, to_queue
from grus.controlplane.facade.services import Services
from grus.model.identifiers import QueueName, UserName
from grus.model.queues import Queue
from grus.server.http.dependencies import Does, NamePath, Who, answer, answers, off_loop

if TYPE_CHECKING:
    from grus.scheduler.queues.queue_usage_tree import QueueState

router = APIRouter(prefix="/v1", tags=["queues"])


@router.get("/queues", response_model=list[QueueOut])
async def list_queues(user: Who, does: Does) -> Response:
    """Every queue with what it deserves, holds and waits for."""
    states = {state.name: state for state in await off_loop(does.queues.states, user)}
    found = await off_loop(does.queues.settings, user)
    return answers(QueueOut, [_out(queue, does, states.get(queue.name)) for queue in found])


@router.put("/queues/{name}", response_model=QueueOut)
async def put_queue(name: NamePath, queue: QueueIn, user: Who, does: Does) -> Response:
    """Make the queue, or replace all its settings."""
    return answer(_out(await off_loop(does.queues.put, user, to_queue(name, queue)), does))


@router.put("/queues/{name}/members/{member}", response_model=QueueOut)
async def add_member(name: NamePath, member: NamePath, user: Who, does: Does) -> Response:
    """Add one member; the others stay. The member must be a user."""
    made = await off_loop(does.queues.set_member, user, QueueName(name), UserName(member), True)
    return answer(_out(made, does))


@router.delete("/queues/{name}/members/{member}", response_model=QueueOut)
async def remove_member(name: NamePath, member: NamePath, user: Who, does: Does) -> Response:
    """Remove one member; the others stay. The last one is refused: the queue would be open to all."""
    made = await off_loop(does.queues.set_member, user, QueueName(name), UserName(member), False)
    return answer(_out(made, does))


@router.delete("/queues/{name}", status_code=204)
async def delete_queue(name: NamePath, user: Who, does: Does) -> Response:
    """Refused with their list while it has jobs that have not ended."""
    await off_loop(does.queues.delete, user, QueueName(name))
    return Response(status_code=204)


def _out(queue: Queue, does: Services, state: "QueueState | None" = None) -> QueueOut:
    return queue_out(queue, state, configured=queue.name in does.settings.configured_queues)
