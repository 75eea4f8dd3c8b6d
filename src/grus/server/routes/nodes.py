"""Routes of the pool: nodes, who holds what, measured use, and the server's own state."""

from fastapi import APIRouter
from starlette.responses import Response

from grus import __version__
from grus.api.wire_types.job import UsageOut
from grus.api.wire_types.pool import DrainIn, NodeOut, StatusOut, node_out, pool_out
from grus.model.activity_labels import of_gpu
from grus.model.identifiers import NodeId
from grus.server.http.dependencies import Does, NamePath, Who, answer, answers, off_loop

router = APIRouter(prefix="/v1", tags=["pool"])


@router.get("/nodes", response_model=list[NodeOut])
async def list_nodes(user: Who, does: Does) -> Response:
    nodes, holders = await off_loop(does.pool.nodes, user), await off_loop(does.pool.holders, user)
    leaving = await off_loop(does.pool.drained_jobs, user)
    found = does.pool.tags()
    devices = [device.id for node in nodes for device in node.devices]
    tags = {device: found[key] for device in devices if (key := of_gpu(device)) in found}
    return answers(NodeOut, [node_out(node, holders, tags, leaving) for node in nodes])


@router.post("/nodes/{id}/cordon", status_code=204)
async def cordon(id: NamePath, user: Who, does: Does) -> Response:
    """Stop placing new work on a node; running work continues."""
    await off_loop(does.pool.cordon, user, NodeId(id), True)
    return Response(status_code=204)


@router.post("/nodes/{id}/drain", status_code=204)
async def drain(id: NamePath, body: DrainIn, user: Who, does: Does) -> Response:
    """Empty a node: it gets no new work and jobs that save leave; others run to their end.

    Users see the message.
    """
    await off_loop(does.pool.drain, user, NodeId(id), body.message)
    return Response(status_code=204)


@router.post("/nodes/{id}/uncordon", status_code=204)
async def uncordon(id: NamePath, user: Who, does: Does) -> Response:
    await off_loop(does.pool.cordon, user, NodeId(id), False)
    return Response(status_code=204)


@router.get("/usage", response_model=list[UsageOut])
async def usage(user: Who, does: Does) -> Response:
    return answers(UsageOut, [UsageOut.from_model(one) for one in await off_loop(does.pool.usage, user)])


@router.get("/status", response_model=StatusOut)
async def status(user: Who, does: Does) -> Response:
    """Return the calling user, the size of the pool, the running jobs, and current problems."""
    found = await off_loop(does.pool.status, user)
    pool = pool_out(found.nodes, found.held)
    return answer(StatusOut.from_model(found, version=__version__, pool=pool))
